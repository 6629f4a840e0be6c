//! What a request said and conversion does not honour.

use crate::json::Value;

/// One field that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands in the body, as a JSON pointer.
    pub pointer: String,
    /// Why it has no effect.
    pub reason: String,
}

/// Fields of a Chat Completions body that decoding ignores.
pub fn ignored_chat(_body: &Value) -> Vec<Warning> {
    Vec::new()
}

/// Fields of a Responses body that decoding ignores.
pub fn ignored_responses(_body: &Value) -> Vec<Warning> {
    Vec::new()
}

/// Fields of a Messages body that decoding ignores.
pub fn ignored_messages(_body: &Value) -> Vec<Warning> {
    Vec::new()
}
