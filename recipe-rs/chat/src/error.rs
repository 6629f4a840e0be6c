//! The errors of the chat crate. Bindings turn each variant into one Python exception.

use std::fmt;

/// What can go wrong between a request body and token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatError {
    /// The body is not JSON, or its shape is not that of the protocol. Carries the whole message.
    Decode(String),
    /// The request is well-formed but invalid; answered with an HTTP status.
    Conversion(ConversionError),
    /// A conversation could not be turned into token ids (no tokenizer, special token missing from it).
    Encode(String),
    /// A value given to a constructor is out of its domain.
    Value(String),
    /// The stream processor was used out of turn or fed something it cannot decode.
    Stream(String),
}

/// An invalid request: HTTP status and the protocol's error body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionError {
    /// Always 400 for request errors.
    pub status_code: u16,
    /// The sentence for the client.
    pub message: String,
}

impl ConversionError {
    /// A status-400 error with `message`.
    pub fn new(message: impl Into<String>) -> Self {
        ConversionError {
            status_code: 400,
            message: message.into(),
        }
    }

    /// The response body, compact JSON, the same shape for the three protocols.
    pub fn body(&self) -> String {
        let mut out = String::from("{\"error\":{\"message\":");
        crate::json::write_string(&mut out, &self.message);
        out.push_str(",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"invalid_request_error\"}}");
        out
    }
}

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConversionError {}

impl ChatError {
    /// Shorthand for a [`ChatError::Conversion`] of status 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        ChatError::Conversion(ConversionError::new(message))
    }
}

impl From<ConversionError> for ChatError {
    fn from(error: ConversionError) -> Self {
        ChatError::Conversion(error)
    }
}

impl fmt::Display for ChatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChatError::Conversion(e) => e.fmt(f),
            ChatError::Decode(m)
            | ChatError::Encode(m)
            | ChatError::Value(m)
            | ChatError::Stream(m) => f.write_str(m),
        }
    }
}

impl std::error::Error for ChatError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ChatError::Conversion(e) => Some(e),
            _ => None,
        }
    }
}

/// Result of the chat crate.
pub type Result<T> = std::result::Result<T, ChatError>;
