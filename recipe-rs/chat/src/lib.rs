//! DeepSeek V4 / V4.1 chat format: API requests to prompts and token ids, model output to API
//! responses. Pure Rust: knows nothing of Python, grammars, clocks or networks.
//!
//! The way in: body -> [`json::Value`] -> typed request ([`request`]) -> [`inference::ConvertedRequest`]
//! (its [`conversation::Conversation`] and options) -> prompt text ([`render`]) -> token ids ([`encode`]).
//!
//! The way out: chunks of the backend -> core events ([`parse`]) -> events of a protocol and the complete
//! response ([`response`]).

pub mod batch;
pub mod conversation;
pub mod encode;
pub mod error;
pub mod image;
pub mod inference;
pub mod json;
pub mod model;
pub mod options;
pub mod parallel;
pub mod parse;
pub mod render;
pub mod request;
pub mod response;
pub mod special;
mod texts;
pub mod tokenizer;

pub use error::{ChatError, ConversionError, Result};
