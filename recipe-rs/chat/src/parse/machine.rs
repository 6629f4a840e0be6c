//! The state machine over pieces: reasoning, content, JSON output and DSML tool calls.
//!
//! Each state sends its text somewhere and looks for a few markers; a marker ends the state. Text is
//! released piece by piece as soon as no open match needs it, so the deltas follow the chunks of the
//! backend. The rules are those of the official chat-format package, and are listed in `docs/parsing.md`.

use std::borrow::Cow;

use super::decode::Logprobs;
use super::held::Held;
use super::marker::{Class, Found, Marker, MarkerSet};
use crate::inference::{ParsingOptions, ThinkingInitialStage};
use crate::json::write_string;
use crate::special::SpecialToken;

/// Receives the core events, one call per delta.
pub trait CoreSink {
    /// A delta of reasoning text.
    fn reasoning(&mut self, text: String, logprobs: Logprobs);
    /// A delta of answer text.
    fn content(&mut self, text: Cow<'static, str>, logprobs: Logprobs);
    /// A tool call begins.
    fn tool_start(&mut self, index: usize, name: String);
    /// A fragment of the arguments of the latest call.
    fn tool_args(&mut self, index: usize, fragment: Cow<'static, str>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum State {
    SkipToReasoning,
    Reasoning,
    SkipToContent,
    Content,
    JsonBefore,
    JsonInside,
    JsonAfter,
    Between,
    Name,
    Invoke,
    Key,
    Type,
    StringValue,
    JsonValue,
    End,
}

const NUM_STATES: usize = State::End as usize + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Enter a state without output.
    Go(State),
    /// Emit a fixed argument fragment, then enter a state.
    Args(&'static str, State),
    /// Emit an opening bracket as content, then enter `JsonInside`.
    Bracket(&'static str),
    StartCall,
    /// `{` before the first parameter, `, ` before the others.
    OpenParameter,
    /// `{}` without parameters, else `}`.
    CloseCall,
    /// Index into the non-empty stop sequences.
    Stop(usize),
}

/// Output of a marker, kept back while nothing after it is decided.
#[derive(Debug)]
enum Fixed {
    Start(String),
    Args(&'static str),
    Bracket(&'static str, Logprobs),
}

/// What happened last, which decides what becomes of empty pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Match,
    Text,
}

/// The parser state of one stream.
#[derive(Debug)]
pub(crate) struct Machine {
    sets: Vec<MarkerSet>,
    actions: Vec<Vec<Action>>,
    stops: Vec<String>,
    /// Stop on the first skipped line feed (a stop sequence is exactly one line feed): its index.
    line_feed_stop: Option<usize>,
    content_state: State,
    /// Text around JSON output becomes nothing instead of spaces, which would depend on chunk borders.
    drops_text_around_json: bool,
    state: State,
    held: Held,
    waiting: Option<Fixed>,
    before: Before,
    name: String,
    num_calls: usize,
    has_parameters: bool,
}

impl Machine {
    pub(crate) fn new(options: &ParsingOptions) -> Self {
        let stops: Vec<String> = options
            .stop_sequences
            .iter()
            .filter(|s| !s.is_empty())
            .cloned()
            .collect();
        let content_state = if options.parse_json_output {
            State::JsonBefore
        } else {
            State::Content
        };
        let state = match options.thinking_initial_stage {
            _ if options.starts_in_tool_calls => State::Between,
            Some(ThinkingInitialStage::ReasoningStart) => State::SkipToReasoning,
            Some(ThinkingInitialStage::ReasoningContinuation) => State::Reasoning,
            Some(ThinkingInitialStage::ContentContinuation) => content_state,
            None => State::SkipToContent,
        };
        let mut machine = Self {
            sets: vec![MarkerSet::default(); NUM_STATES],
            actions: vec![Vec::new(); NUM_STATES],
            line_feed_stop: stops
                .iter()
                .position(|s| s == "\n")
                .filter(|_| !options.parse_json_output),
            stops,
            content_state,
            drops_text_around_json: options.recover,
            state,
            held: Held::default(),
            waiting: None,
            before: Before::Nothing,
            name: String::new(),
            num_calls: 0,
            has_parameters: false,
        };
        machine.build_tables(options);
        machine
    }

    fn build_tables(&mut self, options: &ParsingOptions) {
        use Action::{Args, Bracket, CloseCall, Go, OpenParameter, StartCall, Stop};
        use State::{
            Between, Content, End, Invoke, JsonAfter, JsonBefore, JsonInside, JsonValue, Key, Name,
        };
        use State::{Reasoning, SkipToContent, StringValue, Type};
        let plain = |text: &str| Marker::new(&[(text, false)], false);
        let dsml = options.special_tokens.get(SpecialToken::Dsml);
        let thinking_end = options.special_tokens.get(SpecialToken::ThinkingEnd);
        // Respelled as nothing, it ends the reasoning but is not looked for in the answer.
        let stray_end = |to| {
            (!thinking_end.is_empty())
                .then(|| (Marker::new(&[(thinking_end, true)], false), Go(to)))
        };
        let open = || {
            let marker = Marker::new(&[("<", false), (dsml, true)], true);
            options.parse_tool_calls.then_some((marker, Go(Between)))
        };
        let close = |to| (Marker::new(&[("</", false), (dsml, true)], false), to);
        let end = Marker::new(
            &[("</", false), (dsml, true), ("tool_calls>", false)],
            false,
        );
        let stops: Vec<_> = self
            .stops
            .iter()
            .enumerate()
            .map(|(i, s)| (plain(s), Stop(i)))
            .collect();

        let end_of_reasoning = (
            Marker::new(&[(thinking_end, true)], true),
            Go(SkipToContent),
        );
        self.set(Reasoning, open().into_iter().chain([end_of_reasoning]));
        self.set(
            Content,
            stops
                .iter()
                .cloned()
                .chain(open())
                .chain(stray_end(Content)),
        );
        let before = open().into_iter().chain(stray_end(JsonBefore)).chain([
            (plain("```json\n"), Go(JsonInside)),
            (plain("```\n"), Go(JsonInside)),
            (plain("{"), Bracket("{")),
            (plain("["), Bracket("[")),
        ]);
        self.set(JsonBefore, before);
        self.set(
            JsonInside,
            stops
                .iter()
                .cloned()
                .chain([(plain("\n```"), Go(JsonAfter))]),
        );
        self.set(JsonAfter, open());
        self.set(
            Between,
            [(plain("invoke name=\""), Go(Name)), (end, Go(End))],
        );
        self.set(Name, [(plain("\""), StartCall)]);
        self.set(
            Invoke,
            [(plain("parameter name="), OpenParameter), close(CloseCall)],
        );
        self.set(Key, [(plain(" "), Args(": ", Type))]);
        self.set(
            Type,
            [
                (plain("true\">"), Args("\"", StringValue)),
                (plain("false\">"), Go(JsonValue)),
            ],
        );
        self.set(StringValue, [close(Args("\"", Invoke))]);
        self.set(JsonValue, [close(Go(Invoke))]);
    }

    fn set(&mut self, state: State, rows: impl IntoIterator<Item = (Marker, Action)>) {
        let (markers, actions) = rows.into_iter().unzip();
        self.sets[state as usize] = MarkerSet::new(markers);
        self.actions[state as usize] = actions;
    }

    /// Name of the current state, for diagnostics.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            State::SkipToReasoning => "skip_to_reasoning",
            State::Reasoning => "reasoning",
            State::SkipToContent => "skip_to_content",
            State::Content => "content",
            State::JsonBefore => "json_before",
            State::JsonInside => "json_inside",
            State::JsonAfter => "json_after",
            State::Between => "between_calls",
            State::Name => "tool_name",
            State::Invoke => "tool_call",
            State::Key => "parameter_key",
            State::Type => "parameter_type",
            State::StringValue => "string_value",
            State::JsonValue => "json_value",
            State::End => "after_tool_calls",
        }
    }

    /// Number of tool calls started so far.
    pub(crate) fn num_calls(&self) -> usize {
        self.num_calls
    }

    /// Take one piece. Returns the stop sequence if one matched: the stream is over then.
    pub(crate) fn push(
        &mut self,
        text: String,
        class: Class,
        logprobs: Logprobs,
        sink: &mut impl CoreSink,
    ) -> Option<&str> {
        let skipping = matches!(self.state, State::SkipToReasoning | State::SkipToContent);
        let mut found = None;
        if self.state == State::End {
            return None;
        }
        if !skipping {
            let set = &mut self.sets[self.state as usize];
            found = set.scan(text.as_bytes(), class);
            // The common case: nothing kept back, nothing to keep.
            if found.is_none()
                && set.is_idle()
                && self.held.is_empty()
                && self.waiting.is_none()
                && !text.is_empty()
            {
                self.before = Before::Text;
                self.emit(Cow::Owned(text), logprobs, sink);
                return None;
            }
        }
        self.held.push(&text, class, logprobs);
        let stop = self.advance(found, !skipping, sink)?;
        Some(&self.stops[stop])
    }

    /// Work through the last piece. `found` is the result of scanning it, if `scanned`.
    fn advance(
        &mut self,
        mut found: Option<Found>,
        mut scanned: bool,
        sink: &mut impl CoreSink,
    ) -> Option<usize> {
        loop {
            if !scanned {
                match self.state {
                    State::SkipToReasoning | State::SkipToContent => {
                        if let Some(stop) = self.skip_line_feeds() {
                            return Some(stop);
                        }
                    }
                    State::End => self.held.cut(self.held.end()),
                    _ => {}
                }
                let class = self.held.last().map_or(Class::Text, |p| p.class);
                let text = self
                    .held
                    .slice(self.held.scanned.max(self.held.start), self.held.end());
                found = self.sets[self.state as usize].scan(text.as_bytes(), class);
            }
            let Some(hit) = found.take() else {
                self.held.scanned = self.held.end();
                self.settle(sink);
                return None;
            };
            if let Some(stop) = self.on_match(&hit, sink) {
                return Some(stop);
            }
            scanned = false;
        }
    }

    /// Drop line feeds; the first other character ends the state. Returns a stop on a line feed.
    fn skip_line_feeds(&mut self) -> Option<usize> {
        let rest = self.held.slice(self.held.start, self.held.end());
        let num_line_feeds = rest.bytes().take_while(|&b| b == b'\n').count();
        let has_other = num_line_feeds < rest.len();
        if num_line_feeds > 0 {
            if self.state == State::SkipToContent && self.line_feed_stop.is_some() {
                return self.line_feed_stop;
            }
            self.held.cut(self.held.start + num_line_feeds);
            self.before = Before::Match;
        }
        if has_other {
            let next = if self.state == State::SkipToReasoning {
                State::Reasoning
            } else {
                self.content_state
            };
            self.enter(next);
            self.held.scanned = self.held.start;
        } else {
            self.held.scanned = self.held.end();
        }
        None
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.sets[state as usize].reset();
    }

    /// Nothing more can match at the end of the input: release what no open match needs.
    fn settle(&mut self, sink: &mut impl CoreSink) {
        let keep_from = self.held.end() - self.sets[self.state as usize].open_len();
        if keep_from > self.held.start {
            self.emit_waiting(sink);
        }
        self.release(keep_from, sink);
        self.held.compact();
    }

    /// Release the pieces that end at or before `to`. Empty ones at the very beginning wait until text
    /// after them is decided.
    fn release(&mut self, to: usize, sink: &mut impl CoreSink) {
        if self.before == Before::Nothing && to == self.held.start {
            return;
        }
        while self.held.front().is_some_and(|p| p.end <= to) {
            let from = self.held.start;
            let Some(piece) = self.held.pop() else { break };
            if piece.end == from && self.before == Before::Match {
                continue;
            }
            let text = self.held.slice(from, piece.end).to_owned();
            if !text.is_empty() {
                self.before = Before::Text;
            }
            self.emit(Cow::Owned(text), piece.logprobs, sink);
        }
    }

    fn on_match(&mut self, found: &Found, sink: &mut impl CoreSink) -> Option<usize> {
        self.emit_waiting(sink);
        let end = self.held.scanned.max(self.held.start) + found.end;
        let start = end - found.len;
        let in_last = start >= self.held.last_start();
        if start > self.held.start {
            self.release(start, sink);
            if start > self.held.start {
                let text = self.held.slice(self.held.start, start).to_owned();
                let logprobs = self.held.front().and_then(|p| p.logprobs.clone());
                self.emit(Cow::Owned(text), logprobs, sink);
            }
        }
        let logprobs = self.held.front().and_then(|p| p.logprobs.clone());
        let action = self.actions[self.state as usize][found.marker];
        self.held.cut(end);
        self.before = Before::Match;
        let fixed = match action {
            Action::Stop(index) => return Some(index),
            Action::Go(to) => {
                self.enter(to);
                return None;
            }
            Action::Args(text, to) => {
                self.enter(to);
                Fixed::Args(text)
            }
            Action::Bracket(text) => {
                self.enter(State::JsonInside);
                Fixed::Bracket(text, logprobs)
            }
            Action::StartCall => {
                self.enter(State::Invoke);
                self.has_parameters = false;
                Fixed::Start(std::mem::take(&mut self.name))
            }
            Action::OpenParameter => {
                self.enter(State::Key);
                Fixed::Args(if std::mem::replace(&mut self.has_parameters, true) {
                    ", "
                } else {
                    "{"
                })
            }
            Action::CloseCall => {
                self.enter(State::Between);
                Fixed::Args(if self.has_parameters { "}" } else { "{}" })
            }
        };
        self.waiting = Some(fixed);
        if !in_last || self.held.is_empty() {
            self.emit_waiting(sink);
        }
        None
    }

    fn emit_waiting(&mut self, sink: &mut impl CoreSink) {
        match self.waiting.take() {
            None => {}
            Some(Fixed::Start(name)) => {
                sink.tool_start(self.num_calls, name);
                self.num_calls += 1;
            }
            Some(Fixed::Args(text)) => sink.tool_args(self.num_calls - 1, Cow::Borrowed(text)),
            Some(Fixed::Bracket(text, logprobs)) => sink.content(Cow::Borrowed(text), logprobs),
        }
    }

    /// Send released text where the state wants it.
    fn emit(&mut self, text: Cow<'static, str>, logprobs: Logprobs, sink: &mut impl CoreSink) {
        match self.state {
            State::Reasoning => sink.reasoning(text.into_owned(), logprobs),
            State::Content | State::JsonInside => sink.content(text, logprobs),
            State::JsonBefore | State::JsonAfter if self.drops_text_around_json => {}
            State::JsonBefore | State::JsonAfter => sink.content(Cow::Borrowed(" "), logprobs),
            State::Name => self.name.push_str(&text),
            State::Key | State::JsonValue => sink.tool_args(self.num_calls - 1, text),
            State::StringValue => {
                let mut escaped = String::new();
                write_string(&mut escaped, &text);
                escaped.pop();
                escaped.remove(0);
                sink.tool_args(self.num_calls - 1, Cow::Owned(escaped));
            }
            State::SkipToReasoning | State::SkipToContent | State::Between => {}
            State::Invoke | State::Type | State::End => {}
        }
    }

    /// Whether the text is reasoning at this point.
    pub(crate) fn is_reasoning(&self) -> bool {
        matches!(self.state, State::SkipToReasoning | State::Reasoning)
    }

    /// Whether the text is inside JSON output, where no markup is looked for.
    pub(crate) fn is_inside_json(&self) -> bool {
        self.state == State::JsonInside
    }

    /// Release what is held although more may come: something else stands after it.
    pub(crate) fn release_held(&mut self, sink: &mut impl CoreSink) {
        self.finish(sink);
        self.sets[self.state as usize].reset();
    }

    /// End of the stream: held pieces come out by the rules of the current state.
    pub(crate) fn finish(&mut self, sink: &mut impl CoreSink) {
        self.emit_waiting(sink);
        self.release(self.held.end(), sink);
        self.held.cut(self.held.end());
    }
}
