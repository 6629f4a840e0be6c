//! Model output to parts of a reply: inference chunks (text or token ids) become core events.
//!
//! The stages, in the order in which data passes them: [`chunk`] (what the backend sends),
//! [`decode`] (token ids to pieces of text), [`machine`] (the state machine that finds reasoning,
//! content and DSML tool calls by the [`marker`]s of its state, over the pieces that [`held`] keeps
//! back), [`processor`] (life cycle, usage, and the protocol generator that turns core events into
//! chunks). [`recover`] is the tolerant alternative to `machine`, by choice of the caller.
//! [`partial_json`] reads a JSON answer that is still growing.
//!
//! Knows nothing of requests and protocols: those are in `request`, `convert` and `response`.

pub mod chunk;
pub mod decode;
mod held;
pub mod machine;
mod marker;
pub mod partial_json;
pub mod processor;
pub mod recover;

pub use chunk::{FinishReason, InferenceChunk, PromptUsage, TokenLogprob};
pub use decode::{Logprobs, TokenSource, TokenText};
pub use machine::CoreSink;
pub use processor::{Ending, Generator, Outcome, StreamError, StreamProcessor, Usage};
