//! DeepSeek V4 / V4.1 chat format: API requests to prompts and token ids, model output to API
//! responses. Pure Rust: knows nothing of Python, grammars, clocks or networks.
//!
//! The way in: body -> [`json::Value`] -> typed request ([`request`]) -> [`inference::ConvertedRequest`]
//! (its [`conversation::Conversation`] and options) -> prompt text ([`render`]) -> token ids ([`encode`]).

pub mod conversation;
pub mod encode;
pub mod error;
pub mod inference;
pub mod json;
pub mod model;
pub mod options;
pub mod render;
pub mod request;
pub mod special;
pub mod tokenizer;

pub use error::{ChatError, ConversionError, Result};
