//! Conversion to a conversation.
