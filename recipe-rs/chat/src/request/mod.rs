//! Requests of the three protocols: decoding, checking, and conversion to a conversation.

pub mod chat;
pub mod common;
pub mod messages;
pub mod responses;
pub mod warnings;

pub use chat::ChatCompletionRequest;
pub use messages::MessagesRequest;
pub use responses::{Echo, ResponsesRequest};
