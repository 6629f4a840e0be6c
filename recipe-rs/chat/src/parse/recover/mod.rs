//! Recover mode: damaged tool calls are repaired or reported, and no text is lost.
//!
//! Text outside of calls goes through the ordinary [`Machine`] (with its own tool parsing off). In front of
//! it this parser looks for DSML tags ([`tags`]), keeps the text of a possible call until it is decided, and
//! then either emits the call whole or hands the text on. Every decision depends on a prefix of the output
//! that settles it, never on chunk borders. The rules are tabulated in `docs/parsing.md`.

mod call;
mod json_repair;
mod pending;
mod schema;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::call::{json_calls, Arguments, Parameter};
pub use self::call::{CallReport, CallStatus};
use self::pending::Pending;
pub use self::schema::DeclaredTools;
use self::tags::{
    end_of_tag, is_cut_closing_tag, read_attributes, read_head, Attributes, Head, Read, Word,
};
use super::decode::Logprobs;
use super::machine::{CoreSink, Machine};
use super::marker::Class;
use crate::inference::ParsingOptions;
use crate::special::SpecialToken;

/// Text between tags where none belongs, longer than this many bytes, ends the block or call.
const MAX_JUNK_BYTES: usize = 256;

#[derive(Debug)]
enum Mode {
    /// Answer or reasoning text. `blanks_wait`: a call has just ended, and the blanks after it are dropped
    /// unless text follows. `closers`: closing tags are leftovers of a call.
    Text {
        blanks_wait: bool,
        closers: bool,
    },
    /// Inside a block without a call so far; its content begins at `body`.
    Block {
        body: usize,
    },
    Call(Box<OpenCall>),
}

/// A call that is being read. The undecided text is: an opening block tag or blanks up to `opener_end`, junk
/// up to `tag_start`, the call.
#[derive(Debug)]
struct OpenCall {
    opener_end: usize,
    tag_start: usize,
    name: String,
    /// The opening tag was a special token, so only special tokens are tags inside.
    strict: bool,
    parameters: Vec<Parameter>,
    value: Option<OpenValue>,
    /// Text between the tags of the call.
    junk: String,
    /// Where its latest tag ended, and how long `junk` was then.
    tag_end: (usize, usize),
    repairs: Vec<&'static str>,
    problem: Option<String>,
    /// State to return to if the call is malformed.
    closers: bool,
}

#[derive(Debug)]
struct OpenValue {
    name: String,
    string: Option<bool>,
    /// Opened by a plain tag, so a plain tag may close it.
    plain: bool,
    start: usize,
}

/// What the parser did with the text at its position.
enum Step {
    Go,
    /// More text is needed.
    Wait,
    /// A stop sequence matched.
    Stop(String),
}

impl From<Option<String>> for Step {
    fn from(stop: Option<String>) -> Self {
        stop.map_or(Step::Go, Step::Stop)
    }
}

/// How the stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    /// The model ended its turn.
    Whole,
    /// The backend stopped it.
    Cut,
}

/// The parser of one stream in recover mode.
#[derive(Debug)]
pub(crate) struct Recoverer {
    machine: Machine,
    enabled: bool,
    dsml: String,
    thinking_end: String,
    declared: Option<DeclaredTools>,
    pending: Pending,
    /// Up to here the pending text was looked at in the current mode.
    at: usize,
    mode: Mode,
    num_calls: usize,
    reports: Vec<CallReport>,
}

impl Recoverer {
    /// `declared`: the tools to compare calls with; `None` if they are not known.
    pub(crate) fn new(options: &ParsingOptions, declared: Option<DeclaredTools>) -> Self {
        let forced = options.starts_in_tool_calls;
        let inner = ParsingOptions {
            parse_tool_calls: false,
            starts_in_tool_calls: false,
            ..options.clone()
        };
        Self {
            machine: Machine::new(&inner),
            enabled: options.parse_tool_calls || forced,
            dsml: options.special_tokens.get(SpecialToken::Dsml).to_owned(),
            thinking_end: options
                .special_tokens
                .get(SpecialToken::ThinkingEnd)
                .to_owned(),
            declared,
            pending: Pending::default(),
            at: 0,
            mode: match forced {
                true => Mode::Block { body: 0 },
                false => Mode::Text {
                    blanks_wait: false,
                    closers: false,
                },
            },
            num_calls: 0,
            reports: Vec::new(),
        }
    }

    /// Number of tool calls handed out so far.
    pub(crate) fn num_calls(&self) -> usize {
        self.num_calls
    }

    /// Name of the current state, in the words of [`Machine::state_name`].
    pub(crate) fn state_name(&self) -> &'static str {
        match &self.mode {
            Mode::Text { .. } => self.machine.state_name(),
            Mode::Block { .. } => "between_calls",
            Mode::Call(call) if call.value.is_some() => "string_value",
            Mode::Call(_) => "tool_call",
        }
    }

    /// The calls decided so far.
    pub(crate) fn reports(&self) -> &[CallReport] {
        &self.reports
    }

    /// Take one piece. Returns the stop sequence if one matched: the stream is over then.
    pub(crate) fn push(
        &mut self,
        text: String,
        class: Class,
        logprobs: Logprobs,
        sink: &mut impl CoreSink,
    ) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        let in_text = matches!(
            self.mode,
            Mode::Text {
                blanks_wait: false,
                ..
            }
        );
        if !self.enabled || (in_text && self.pending.is_empty() && !text.contains(['<', '\n'])) {
            return self
                .machine
                .push(text, class, logprobs, sink)
                .map(str::to_owned);
        }
        self.pending.push(&text, class, logprobs);
        self.advance(End::NotYet, sink)
    }

    /// End of the stream. Returns a stop sequence that matched only now.
    pub(crate) fn finish(&mut self, end: End, sink: &mut impl CoreSink) -> Option<String> {
        let stop = self.advance(end, sink);
        if stop.is_none() {
            self.machine.finish(sink);
        }
        stop
    }

    fn advance(&mut self, end: End, sink: &mut impl CoreSink) -> Option<String> {
        let last = end != End::NotYet;
        loop {
            let step = match &self.mode {
                Mode::Text {
                    blanks_wait,
                    closers,
                } => self.in_text(*blanks_wait, *closers, last, sink),
                Mode::Block { body } => self.in_block(*body, last, sink),
                Mode::Call(call) if call.value.is_some() => self.in_value(end, sink),
                Mode::Call(_) => self.in_call(end, sink),
            };
            match step {
                Step::Go => {}
                Step::Wait => return None,
                Step::Stop(stop) => return Some(stop),
            }
        }
    }

    fn head(&self, at: usize, plain: bool, last: bool) -> Read<Head> {
        read_head(self.pending.text(), at, &self.dsml, plain, last)
    }

    /// Hand the first `len` bytes on as text.
    fn forward(&mut self, len: usize, sink: &mut impl CoreSink) -> Option<String> {
        self.at = 0;
        let mut rest = len;
        while let Some((part, class, logprobs)) = self.pending.take(rest) {
            rest -= part.len();
            if let Some(stop) = self.machine.push(part, class, logprobs, sink) {
                return Some(stop.to_owned());
            }
        }
        None
    }

    fn discard(&mut self, len: usize) {
        self.pending.discard(len);
        self.at = 0;
    }

    /// Hand text on from text mode; other than blanks it ends the waiting of blanks.
    fn pass(&mut self, len: usize, sink: &mut impl CoreSink) -> Option<String> {
        if let Mode::Text { blanks_wait, .. } = &mut self.mode {
            *blanks_wait &= self.pending.text()[..len].trim().is_empty();
        }
        self.forward(len, sink)
    }

    fn in_text(
        &mut self,
        blanks_wait: bool,
        closers: bool,
        last: bool,
        sink: &mut impl CoreSink,
    ) -> Step {
        let text = self.pending.text();
        if blanks_wait {
            let rest = text[self.at..].trim_start();
            self.at = text.len() - rest.len();
            if rest.is_empty() {
                if last {
                    self.discard(self.at);
                }
                return Step::Wait;
            }
            if !rest.starts_with('<') {
                let len = self.at + rest.chars().next().map_or(0, char::len_utf8);
                return self.pass(len, sink).into();
            }
            return self.tag_in_text(self.at, closers, last, sink);
        }
        let fresh = &text[self.at..];
        match fresh.find('<') {
            Some(0) => self.tag_in_text(self.at, closers, last, sink),
            Some(found) => {
                let start = self.at + found;
                let keep = text[..start].trim_end_matches('\n').len();
                if keep > 0 {
                    return self.pass(keep, sink).into();
                }
                self.at = start;
                self.tag_in_text(start, closers, last, sink)
            }
            None if last => match self.pass(text.len(), sink) {
                Some(stop) => Step::Stop(stop),
                None => Step::Wait,
            },
            // Line feeds wait: they belong to a call that may follow.
            None if fresh.bytes().all(|b| b == b'\n') => {
                self.at = text.len();
                Step::Wait
            }
            None => {
                let keep = text.trim_end_matches('\n').len();
                match self.pass(keep, sink) {
                    Some(stop) => Step::Stop(stop),
                    None => {
                        self.at = self.pending.text().len();
                        Step::Wait
                    }
                }
            }
        }
    }

    /// A `<` at `start`; only blanks before it.
    fn tag_in_text(
        &mut self,
        start: usize,
        closers: bool,
        last: bool,
        sink: &mut impl CoreSink,
    ) -> Step {
        if self.machine.is_inside_json() {
            return self.pass(start + 1, sink).into();
        }
        let head = match self.head(start, false, last) {
            Read::More => return Step::Wait,
            Read::No => return self.pass(start + 1, sink).into(),
            Read::Yes(head) => head,
        };
        match head.word {
            _ if head.closing && closers => {
                let Some(end) = end_of_tag(self.pending.text(), head.end, last) else {
                    return Step::Wait;
                };
                self.discard(end);
                self.mode = Mode::Text {
                    blanks_wait: true,
                    closers: head.word != Word::Block,
                };
                Step::Go
            }
            Word::Block if !head.closing => {
                let Some(end) = end_of_tag(self.pending.text(), head.end, last) else {
                    return Step::Wait;
                };
                self.at = end;
                self.mode = Mode::Block { body: end };
                Step::Go
            }
            Word::Invoke if !head.closing => match self.attributes(&head, last) {
                Read::More => Step::Wait,
                Read::Yes(tag) if tag.name.as_ref().is_some_and(|n| !n.is_empty()) => {
                    self.begin_call(start, start, &head, tag, closers)
                }
                _ => {
                    let raw = self.pending.text()[start..head.end].to_owned();
                    self.report_malformed(None, "the tag names no tool".to_owned(), raw);
                    self.pass(head.end, sink).into()
                }
            },
            _ => self.pass(head.end, sink).into(),
        }
    }

    fn attributes(&self, head: &Head, last: bool) -> Read<Attributes> {
        read_attributes(self.pending.text(), head.end, &self.dsml, last)
    }

    fn begin_call(
        &mut self,
        opener_end: usize,
        tag_start: usize,
        head: &Head,
        tag: Attributes,
        closers: bool,
    ) -> Step {
        self.at = tag.end;
        let call = OpenCall {
            opener_end,
            tag_start,
            name: tag.name.unwrap_or_default(),
            strict: head
                .marker
                .is_some_and(|at| self.pending.class_at(at) == Some(Class::Special)),
            parameters: Vec::new(),
            value: None,
            junk: String::new(),
            tag_end: (tag.end, 0),
            repairs: if head.clean && tag.clean {
                Vec::new()
            } else {
                vec!["damaged_tag"]
            },
            problem: None,
            closers,
        };
        self.mode = Mode::Call(Box::new(call));
        Step::Go
    }

    /// In a block before its first call.
    fn in_block(&mut self, body: usize, last: bool, sink: &mut impl CoreSink) -> Step {
        let text = self.pending.text();
        let start = text[self.at..]
            .find('<')
            .map_or(text.len(), |found| self.at + found);
        let is_data = text[body..].trim_start().starts_with(['{', '[', '`']);
        if start - body > MAX_JUNK_BYTES && !is_data {
            self.mode = Mode::Text {
                blanks_wait: false,
                closers: false,
            };
            return self.forward(start, sink).into();
        }
        if start == text.len() {
            self.at = start;
            if !last {
                return Step::Wait;
            }
            return self.end_block(body, start, start, "unclosed_block", sink);
        }
        let head = match self.head(start, true, last) {
            Read::More => return Step::Wait,
            Read::No => {
                self.at = start + 1;
                return Step::Go;
            }
            Read::Yes(head) => head,
        };
        match (head.closing, head.word) {
            (true, Word::Block | Word::Other) => {
                match end_of_tag(self.pending.text(), head.end, last) {
                    None => Step::Wait,
                    Some(end) => self.end_block(body, start, end, "json_call", sink),
                }
            }
            (false, Word::Block) => {
                self.mode = Mode::Text {
                    blanks_wait: false,
                    closers: false,
                };
                self.forward(start, sink).into()
            }
            (false, Word::Invoke) => match self.attributes(&head, last) {
                Read::More => Step::Wait,
                Read::Yes(tag) if tag.name.as_ref().is_some_and(|n| !n.is_empty()) => {
                    self.begin_call(body, start, &head, tag, false)
                }
                _ => {
                    let raw = self.pending.text()[start..head.end].to_owned();
                    self.report_malformed(None, "the tag names no tool".to_owned(), raw);
                    self.at = head.end;
                    Step::Go
                }
            },
            _ => {
                self.at = head.end;
                Step::Go
            }
        }
    }

    /// A block without a call tag ends: its content is calls in JSON, nothing, or text.
    fn end_block(
        &mut self,
        body: usize,
        to: usize,
        end: usize,
        how: &'static str,
        sink: &mut impl CoreSink,
    ) -> Step {
        let content = &self.pending.text()[body..to];
        let is_empty = content.trim().is_empty() && end > to;
        let calls = json_calls(content);
        if calls.is_none() && !is_empty {
            self.mode = Mode::Text {
                blanks_wait: false,
                closers: false,
            };
            return self.forward(end, sink).into();
        }
        let raw = content.to_owned();
        self.discard(end);
        self.mode = Mode::Text {
            blanks_wait: true,
            closers: false,
        };
        for (name, arguments) in calls.unwrap_or_default() {
            let mut repairs = vec!["json_call"];
            if how != "json_call" {
                repairs.push(how);
            }
            self.emit_call(name, arguments, repairs, raw.clone(), sink);
        }
        Step::Go
    }

    /// Between the tags of a call.
    fn in_call(&mut self, end: End, sink: &mut impl CoreSink) -> Step {
        let last = end != End::NotYet;
        let Mode::Call(call) = &mut self.mode else {
            return Step::Go;
        };
        let text = self.pending.text();
        let start = text[self.at..]
            .find('<')
            .map_or(text.len(), |found| self.at + found);
        call.junk.push_str(&text[self.at..start]);
        self.at = start;
        if call.junk.trim().len() > MAX_JUNK_BYTES {
            // The call ends with its latest tag; what follows is text.
            let (end, junk_len) = call.tag_end;
            call.junk.truncate(junk_len);
            return self.close_call(end, Some("unclosed_call"), false, sink);
        }
        if start == text.len() {
            if !last {
                return Step::Wait;
            }
            let cut = end == End::Cut;
            return self.end_of_stream_in_call(start, cut, sink);
        }
        let strict = call.strict;
        let head = match self.head_in_call(start, true, strict, last) {
            Read::More => return Step::Wait,
            Read::No if last && is_cut_closing_tag(self.pending.text(), start, &self.dsml) => {
                let cut = end == End::Cut;
                let to = self.pending.text().len();
                self.note("cut_closing_tag");
                return match cut {
                    true => self.end_of_stream_in_call(to, cut, sink),
                    false => self.close_call(to, None, false, sink),
                };
            }
            Read::No => return self.junk_to(start + 1),
            Read::Yes(head) => head,
        };
        match (head.closing, head.word) {
            (true, word) => {
                let Some(end) = end_of_tag(self.pending.text(), head.end, last) else {
                    return Step::Wait;
                };
                if !head.clean {
                    self.note("damaged_tag");
                }
                match word {
                    Word::Parameter => {
                        self.note("stray_tag");
                        self.tag_ended(end);
                        Step::Go
                    }
                    Word::Block => self.close_call(end, Some("unclosed_call"), true, sink),
                    Word::Invoke | Word::Other => self.close_call(end, None, false, sink),
                }
            }
            (false, Word::Parameter) => match self.attributes(&head, last) {
                Read::More => Step::Wait,
                Read::Yes(tag) => self.begin_value(&head, tag),
                Read::No => self.junk_to(head.end),
            },
            (false, Word::Invoke) => match self.attributes(&head, last) {
                Read::More => Step::Wait,
                Read::Yes(Attributes { name: Some(_), .. }) => {
                    self.close_call(start, Some("unclosed_call"), false, sink)
                }
                _ => self.junk_to(head.end),
            },
            (false, Word::Block) => self.close_call(start, Some("unclosed_call"), false, sink),
            (false, Word::Other) => self.junk_to(head.end),
        }
    }

    /// A tag inside a call: in a call opened by a special token, only special tokens make tags.
    fn head_in_call(&self, start: usize, plain: bool, strict: bool, last: bool) -> Read<Head> {
        match self.head(start, plain, last) {
            Read::Yes(Head {
                marker: Some(at), ..
            }) if strict && self.pending.class_at(at) != Some(Class::Special) => Read::No,
            read => read,
        }
    }

    fn junk_to(&mut self, to: usize) -> Step {
        if let Mode::Call(call) = &mut self.mode {
            call.junk.push_str(&self.pending.text()[self.at..to]);
        }
        self.at = to;
        Step::Go
    }

    fn note(&mut self, repair: &'static str) {
        if let Mode::Call(call) = &mut self.mode {
            call.note(repair);
        }
    }

    /// Go on after a tag of the call.
    fn tag_ended(&mut self, at: usize) {
        self.at = at;
        if let Mode::Call(call) = &mut self.mode {
            call.tag_end = (at, call.junk.len());
        }
    }

    fn begin_value(&mut self, head: &Head, tag: Attributes) -> Step {
        self.at = tag.end;
        let Mode::Call(call) = &mut self.mode else {
            return Step::Go;
        };
        if !(head.clean && tag.clean) {
            call.note("damaged_tag");
        }
        if tag.name.is_none() {
            call.problem
                .get_or_insert_with(|| "a parameter has no name".to_owned());
        }
        if !tag.finished && tag.string.is_none() {
            call.problem
                .get_or_insert_with(|| "the tag of a parameter is not finished".to_owned());
        }
        call.value = Some(OpenValue {
            name: tag.name.unwrap_or_default(),
            string: tag.string,
            plain: head.marker.is_none(),
            start: tag.end,
        });
        Step::Go
    }

    /// In the value of a parameter.
    fn in_value(&mut self, end: End, sink: &mut impl CoreSink) -> Step {
        let last = end != End::NotYet;
        let Mode::Call(call) = &self.mode else {
            return Step::Go;
        };
        let Some(value) = &call.value else {
            return Step::Go;
        };
        let (plain, strict, from) = (value.plain, call.strict, value.start);
        let text = self.pending.text();
        let Some(start) = text[self.at..].find('<').map(|found| self.at + found) else {
            self.at = text.len();
            return if last {
                self.end_of_stream_in_value(from, end, sink)
            } else {
                Step::Wait
            };
        };
        self.at = start;
        let head = match self.head_in_call(start, plain, strict, last) {
            Read::More => return Step::Wait,
            Read::No if last && is_cut_closing_tag(text, start, &self.dsml) => {
                let to = text.len();
                self.note("cut_closing_tag");
                self.at = to;
                self.end_value(start, end != End::Cut);
                return Step::Go;
            }
            Read::No => {
                self.at = start + 1;
                return Step::Go;
            }
            Read::Yes(head) => head,
        };
        if head.closing {
            let Some(to) = end_of_tag(text, head.end, last) else {
                return Step::Wait;
            };
            self.end_value(start, true);
            if !head.clean {
                self.note("damaged_tag");
            }
            self.tag_ended(to);
            return match head.word {
                Word::Parameter | Word::Other => Step::Go,
                word => {
                    self.note("unclosed_parameter");
                    self.close_call(to, None, word == Word::Block, sink)
                }
            };
        }
        if matches!(head.word, Word::Parameter | Word::Invoke) {
            match self.attributes(&head, last) {
                Read::More => return Step::Wait,
                Read::Yes(Attributes { name: Some(_), .. }) => {
                    self.note("unclosed_parameter");
                    self.end_value(start, true);
                    return Step::Go;
                }
                _ => {}
            }
        }
        self.at = start + 1;
        Step::Go
    }

    fn end_value(&mut self, to: usize, closed: bool) {
        let Mode::Call(call) = &mut self.mode else {
            return;
        };
        let Some(value) = call.value.take() else {
            return;
        };
        let text = self.pending.text()[value.start..to].to_owned();
        call.tag_end = (to, call.junk.len());
        call.parameters.push(Parameter {
            name: value.name,
            string: value.string,
            value: text,
            closed,
        });
    }

    fn end_of_stream_in_value(&mut self, from: usize, end: End, sink: &mut impl CoreSink) -> Step {
        let text = self.pending.text();
        // In the reasoning, a value that never ends does not swallow the end of the reasoning.
        let thinking_end = match self.machine.is_reasoning() {
            true => text[from..]
                .find(&self.thinking_end)
                .map(|found| from + found),
            false => None,
        };
        let to = thinking_end.unwrap_or(text.len());
        self.note("unclosed_parameter");
        self.end_value(to, false);
        self.at = to;
        if end == End::Cut && thinking_end.is_none() {
            return self.end_of_stream_in_call(to, true, sink);
        }
        self.close_call(to, Some("unclosed_call"), false, sink)
    }

    fn end_of_stream_in_call(&mut self, to: usize, cut: bool, sink: &mut impl CoreSink) -> Step {
        if let Mode::Call(call) = &mut self.mode {
            if cut {
                call.problem
                    .get_or_insert_with(|| "the output was cut off inside the call".to_owned());
            }
        }
        self.close_call(to, Some("unclosed_call"), false, sink)
    }

    /// The call ends at `end`: hand it out, or its text if it cannot be made out.
    fn close_call(
        &mut self,
        end: usize,
        repair: Option<&'static str>,
        block_ends: bool,
        sink: &mut impl CoreSink,
    ) -> Step {
        let placeholder = Mode::Text {
            blanks_wait: true,
            closers: !block_ends,
        };
        let Mode::Call(mut call) = std::mem::replace(&mut self.mode, placeholder) else {
            return Step::Go;
        };
        if let Some(repair) = repair {
            call.note(repair);
        }
        if !self.pending.text()[call.opener_end..call.tag_start]
            .trim()
            .is_empty()
        {
            call.note("text_in_block");
        }
        let raw = self.pending.text()[call.tag_start..end].to_owned();
        let declared = self.declared.clone().unwrap_or_default();
        match call.arguments(&declared) {
            Err(problem) => {
                self.report_malformed(Some(call.name), problem, raw);
                self.mode = Mode::Text {
                    blanks_wait: false,
                    closers: call.closers,
                };
                self.forward(end, sink).into()
            }
            Ok(arguments) => {
                self.discard(call.opener_end);
                let junk_len = call.tag_start - call.opener_end;
                if !self.pending.text()[..junk_len].trim().is_empty() {
                    if let Some(stop) = self.forward(junk_len, sink) {
                        return Step::Stop(stop);
                    }
                    self.discard(end - call.tag_start);
                } else {
                    self.discard(end - call.opener_end);
                }
                self.emit_call(call.name, arguments.to_json(), arguments.repairs, raw, sink);
                if call.junk.trim().is_empty() {
                    return Step::Go;
                }
                self.mode = Mode::Text {
                    blanks_wait: false,
                    closers: !block_ends,
                };
                self.machine
                    .push(call.junk, Class::Text, None, sink)
                    .map(str::to_owned)
                    .into()
            }
        }
    }

    fn emit_call(
        &mut self,
        name: String,
        arguments: String,
        repairs: Vec<&'static str>,
        raw: String,
        sink: &mut impl CoreSink,
    ) {
        self.machine.release_held(sink);
        let index = self.num_calls;
        self.num_calls += 1;
        sink.tool_start(index, name.clone());
        sink.tool_args(index, Cow::Owned(arguments.clone()));
        self.reports.push(CallReport {
            index: Some(index),
            problems: self
                .declared
                .as_ref()
                .map(|d| d.misfits(&name, &arguments))
                .unwrap_or_default(),
            name: Some(name),
            arguments: Some(arguments),
            status: if repairs.is_empty() {
                CallStatus::WellFormed
            } else {
                CallStatus::Repaired
            },
            repairs,
            raw,
        });
    }

    fn report_malformed(&mut self, name: Option<String>, problem: String, raw: String) {
        self.reports.push(CallReport {
            index: None,
            name,
            arguments: None,
            status: CallStatus::Malformed,
            repairs: Vec::new(),
            problems: vec![problem],
            raw,
        });
    }
}

impl OpenCall {
    fn note(&mut self, repair: &'static str) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    /// The arguments, or why they cannot be made out. `{}` is never made up: a call without parameters
    /// must be closed and must hold no text that may have been meant as one.
    fn arguments(&self, declared: &DeclaredTools) -> Result<Arguments, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if self.parameters.is_empty() {
            if self.repairs.contains(&"unclosed_call") {
                return Err("the call has no parameters and no end".to_owned());
            }
            if !self.junk.trim().is_empty() {
                return Err("the call has text in place of parameters".to_owned());
            }
        }
        let mut arguments = Arguments::default();
        for repair in &self.repairs {
            arguments.note(repair);
        }
        for parameter in &self.parameters {
            arguments.add(&self.name, parameter, declared)?;
        }
        if !self.junk.trim().is_empty() {
            arguments.note("text_in_call");
        }
        Ok(arguments)
    }
}
