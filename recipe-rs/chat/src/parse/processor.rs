//! Life cycle of one stream: chunks in, protocol events out, usage counted on the way.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::chunk::{FinishReason, InferenceChunk, PromptUsage, TokenLogprob};
use super::decode::{Decoder, Logprobs, Piece, TokenSource};
use super::machine::{CoreSink, Machine};
use super::marker::Class;
use super::recover::{CallReport, DeclaredTools, End, Recoverer};
use crate::inference::ParsingOptions;

/// A chunk that cannot be taken. The wording is that of the official package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// Pushed after the end of the stream.
    Finished,
    /// Used after `close` or after another error.
    Closed,
    /// Token ids without a tokenizer to decode them.
    NoTokenizer,
    /// Not one log probability per token id.
    LogprobCount {
        /// Entries given.
        logprobs: usize,
        /// Token ids given.
        token_ids: usize,
    },
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("stream processor has finished"),
            Self::Closed => f.write_str("stream processor is closed"),
            Self::NoTokenizer => f.write_str("token chunk received without a tokenizer"),
            Self::LogprobCount {
                logprobs,
                token_ids,
            } => {
                write!(f, "invalid log probabilities: {logprobs} log probabilities for {token_ids} token IDs")
            }
        }
    }
}

impl std::error::Error for StreamError {}

/// Token counts of a whole reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt side, from the first chunk.
    pub prompt: PromptUsage,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Tokens of the reasoning text, re-encoded; `None` without thinking or without a tokenizer.
    pub reasoning_tokens: Option<u64>,
}

/// Why the stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The backend said so.
    Backend(FinishReason),
    /// A stop sequence matched.
    StopSequence(String),
    /// The input was closed without a finish chunk.
    Closed,
}

/// What the last events of a stream report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the stream ended.
    pub ending: Ending,
    /// Whether any tool call was started.
    pub has_tool_calls: bool,
    /// Token counts.
    pub usage: Usage,
}

/// Turns core events into the events of one protocol. `out` receives them in order.
pub trait Generator {
    /// Event type of the protocol.
    type Event;
    /// The events with which every stream begins.
    fn start(
        &mut self,
        prompt: PromptUsage,
        system_fingerprint: Option<&str>,
        out: &mut Vec<Self::Event>,
    );
    /// See [`CoreSink::reasoning`].
    fn reasoning(&mut self, text: String, logprobs: Logprobs, out: &mut Vec<Self::Event>);
    /// See [`CoreSink::content`].
    fn content(&mut self, text: Cow<'static, str>, logprobs: Logprobs, out: &mut Vec<Self::Event>);
    /// See [`CoreSink::tool_start`].
    fn tool_start(&mut self, index: usize, name: String, out: &mut Vec<Self::Event>);
    /// See [`CoreSink::tool_args`].
    fn tool_args(&mut self, index: usize, fragment: Cow<'static, str>, out: &mut Vec<Self::Event>);
    /// The tools that calls are compared with in recover mode; `None` if they are not known.
    fn declared_tools(&self) -> Option<&DeclaredTools> {
        None
    }
    /// The events with which every stream ends.
    fn finish(&mut self, outcome: &Outcome, out: &mut Vec<Self::Event>);
}

struct Sink<'a, G: Generator> {
    generator: &'a mut G,
    /// Collects the reasoning text when its tokens have to be counted.
    reasoning_text: Option<&'a mut String>,
    out: &'a mut Vec<G::Event>,
}

impl<G: Generator> CoreSink for Sink<'_, G> {
    fn reasoning(&mut self, text: String, logprobs: Logprobs) {
        if let Some(all) = self.reasoning_text.as_deref_mut() {
            all.push_str(&text);
        }
        self.generator.reasoning(text, logprobs, self.out);
    }

    fn content(&mut self, text: Cow<'static, str>, logprobs: Logprobs) {
        self.generator.content(text, logprobs, self.out);
    }

    fn tool_start(&mut self, index: usize, name: String) {
        self.generator.tool_start(index, name, self.out);
    }

    fn tool_args(&mut self, index: usize, fragment: Cow<'static, str>) {
        self.generator.tool_args(index, fragment, self.out);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Fresh,
    Running,
    Finished,
    Closed,
}

/// The two ways to read the output.
#[derive(Debug)]
enum Parser {
    Exact(Box<Machine>),
    Recover(Box<Recoverer>),
}

impl Parser {
    fn push(&mut self, piece: Piece, sink: &mut impl CoreSink) -> Option<String> {
        let Piece {
            text,
            class,
            logprobs,
            ..
        } = piece;
        match self {
            Self::Exact(machine) => machine.push(text, class, logprobs, sink).map(str::to_owned),
            Self::Recover(recoverer) => recoverer.push(text, class, logprobs, sink),
        }
    }

    /// Release what is held. Returns a stop sequence that matched only now.
    fn finish(&mut self, ending: &Ending, sink: &mut impl CoreSink) -> Option<String> {
        match self {
            Self::Exact(machine) => {
                machine.finish(sink);
                None
            }
            Self::Recover(recoverer) => {
                let end = match ending {
                    Ending::Backend(FinishReason::Length | FinishReason::ContentFilter) => End::Cut,
                    _ => End::Whole,
                };
                recoverer.finish(end, sink)
            }
        }
    }

    fn num_calls(&self) -> usize {
        match self {
            Self::Exact(machine) => machine.num_calls(),
            Self::Recover(recoverer) => recoverer.num_calls(),
        }
    }
}

/// Parses one stream into the events of the generator's protocol.
pub struct StreamProcessor<G: Generator> {
    generator: G,
    parser: Parser,
    decoder: Option<Decoder>,
    tokenizer: Option<Arc<dyn TokenSource>>,
    reasoning_text: String,
    counts_reasoning: bool,
    usage: Usage,
    life: Life,
}

impl<G: Generator> StreamProcessor<G> {
    /// A processor of a new stream. The tokenizer decodes token chunks and counts reasoning tokens.
    pub fn new(
        generator: G,
        options: &ParsingOptions,
        tokenizer: Option<Arc<dyn TokenSource>>,
    ) -> Self {
        let parser = match options.recover {
            true => Parser::Recover(Box::new(Recoverer::new(
                options,
                generator.declared_tools().cloned(),
            ))),
            false => Parser::Exact(Box::new(Machine::new(options))),
        };
        Self {
            generator,
            parser,
            decoder: tokenizer.clone().map(Decoder::new),
            counts_reasoning: options.thinking_initial_stage.is_some() && tokenizer.is_some(),
            tokenizer,
            reasoning_text: String::new(),
            usage: Usage::default(),
            life: Life::Fresh,
        }
    }

    /// Whether the stream completed normally and the processor was not closed.
    pub fn finished(&self) -> bool {
        self.life == Life::Finished
    }

    /// Name of the parser's current state, for diagnostics.
    pub fn state_name(&self) -> &'static str {
        match &self.parser {
            Parser::Exact(machine) => machine.state_name(),
            Parser::Recover(recoverer) => recoverer.state_name(),
        }
    }

    /// What recover mode found out about the calls so far; empty without recover mode.
    pub fn call_reports(&self) -> &[CallReport] {
        match &self.parser {
            Parser::Exact(_) => &[],
            Parser::Recover(recoverer) => recoverer.reports(),
        }
    }

    /// Process one chunk and append its events to `out`.
    ///
    /// # Errors
    /// [`StreamError`]; every error except `Finished` leaves the processor closed.
    pub fn push(
        &mut self,
        chunk: &InferenceChunk,
        out: &mut Vec<G::Event>,
    ) -> Result<(), StreamError> {
        match self.life {
            Life::Closed => return Err(StreamError::Closed),
            Life::Finished => return Err(StreamError::Finished),
            Life::Fresh | Life::Running => {}
        }
        let result = match chunk {
            InferenceChunk::Ready {
                prompt_usage,
                system_fingerprint,
            } => {
                if self.life == Life::Fresh {
                    self.usage.prompt = prompt_usage.unwrap_or_default();
                    self.start(system_fingerprint.as_deref(), out);
                }
                Ok(())
            }
            InferenceChunk::Text {
                content,
                token_count,
            } => {
                let piece = Piece {
                    text: content.clone(),
                    class: Class::Text,
                    logprobs: None,
                    tokens: *token_count,
                };
                self.push_piece(piece, out);
                Ok(())
            }
            InferenceChunk::Tokens {
                token_ids,
                logprobs,
            } => self.push_tokens(token_ids, logprobs.as_deref(), out),
            InferenceChunk::Finish(reason) => {
                self.complete(Ending::Backend(*reason), true, out);
                Ok(())
            }
        };
        if result.is_err() {
            self.close();
        }
        result
    }

    /// End the input; ends the stream if no finish chunk or stop sequence did. No events after that.
    ///
    /// # Errors
    /// [`StreamError::Closed`] after `close` or an error.
    pub fn finish(&mut self, out: &mut Vec<G::Event>) -> Result<(), StreamError> {
        match self.life {
            Life::Closed => return Err(StreamError::Closed),
            Life::Finished => return Ok(()),
            Life::Fresh | Life::Running => {}
        }
        self.complete(Ending::Closed, true, out);
        Ok(())
    }

    /// Give up the stream.
    pub fn close(&mut self) {
        self.life = Life::Closed;
        self.decoder = None;
        self.reasoning_text = String::new();
    }

    /// The start events come with the first `ready` chunk, piece of text or end, whichever is first; token
    /// ids that are still pending start nothing.
    fn start(&mut self, fingerprint: Option<&str>, out: &mut Vec<G::Event>) {
        self.life = Life::Running;
        self.generator.start(self.usage.prompt, fingerprint, out);
    }

    fn push_tokens(
        &mut self,
        ids: &[u32],
        logprobs: Option<&[TokenLogprob]>,
        out: &mut Vec<G::Event>,
    ) -> Result<(), StreamError> {
        if self.decoder.is_none() {
            return Err(StreamError::NoTokenizer);
        }
        if let Some(given) = logprobs.filter(|l| l.len() != ids.len()) {
            return Err(StreamError::LogprobCount {
                logprobs: given.len(),
                token_ids: ids.len(),
            });
        }
        for (i, &id) in ids.iter().enumerate() {
            let Some(decoder) = &mut self.decoder else {
                break;
            };
            for piece in decoder
                .push(id, logprobs.map(|l| &l[i]))
                .into_iter()
                .flatten()
            {
                if self.push_piece(piece, out) {
                    return Ok(());
                }
            }
        }
        if let Some(piece) = self.decoder.as_mut().and_then(Decoder::end_chunk) {
            self.push_piece(piece, out);
        }
        Ok(())
    }

    /// Returns whether the piece ended the stream.
    fn push_piece(&mut self, piece: Piece, out: &mut Vec<G::Event>) -> bool {
        self.usage.completion_tokens = self.usage.completion_tokens.saturating_add(piece.tokens);
        // A group of token ids without text counts but is no piece.
        if piece.class != Class::Text && piece.text.is_empty() {
            return false;
        }
        if self.life == Life::Fresh {
            self.start(None, out);
        }
        let mut sink = Sink {
            generator: &mut self.generator,
            reasoning_text: self.counts_reasoning.then_some(&mut self.reasoning_text),
            out,
        };
        let stop = self.parser.push(piece, &mut sink);
        match stop {
            Some(stop) => {
                self.complete(Ending::StopSequence(stop), false, out);
                true
            }
            None => false,
        }
    }

    fn complete(&mut self, mut ending: Ending, flush: bool, out: &mut Vec<G::Event>) {
        if self.life == Life::Fresh {
            self.start(None, out);
        }
        self.life = Life::Finished;
        if flush {
            let mut sink = Sink {
                generator: &mut self.generator,
                reasoning_text: self.counts_reasoning.then_some(&mut self.reasoning_text),
                out,
            };
            if let Some(stop) = self.parser.finish(&ending, &mut sink) {
                ending = Ending::StopSequence(stop);
            }
        }
        if let (true, Some(tokenizer)) = (self.counts_reasoning, &self.tokenizer) {
            let text = std::mem::take(&mut self.reasoning_text);
            self.usage.reasoning_tokens = Some(tokenizer.count_tokens(&text) as u64);
        }
        let outcome = Outcome {
            ending,
            has_tool_calls: self.parser.num_calls() > 0,
            usage: self.usage,
        };
        self.generator.finish(&outcome, out);
    }
}
