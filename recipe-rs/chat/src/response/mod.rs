//! Core events to protocol events, and protocol events to the complete response.
//!
//! One generator per protocol ([`chat`], [`responses`], [`messages`]); each produces typed events
//! that are written as JSON on demand and can be accumulated into the complete response. What the
//! protocols share is in [`write`](self::write) and [`call_id`].
//!
//! Knows nothing of clocks and chance: both come in through [`Environment`].

pub mod call_id;
pub mod chat;
mod custom_tool;
pub mod echo;
mod from_request;
mod items;
pub mod messages;
pub mod responses;
mod write;

pub use call_id::Environment;
pub use chat::{ChatCompletionChunk, ChatCompletionResponse, ChatGenerator};
pub use echo::EchoJson;
pub use messages::{MessagesEvent, MessagesGenerator, MessagesResponse};
pub use responses::{ResponsesEvent, ResponsesGenerator, ResponsesResponse};
