//! Requests of the three protocols: decoding, checking, and conversion to a conversation.

pub mod chat;
pub mod common;
mod content;
mod effects;
mod images;
pub mod messages;
mod params;
mod reasoning;
pub mod responses;
mod schema;
mod strict;
mod tools;
pub mod warnings;

pub use chat::ChatCompletionRequest;
pub use messages::MessagesRequest;
pub use responses::{Echo, ResponsesRequest};
