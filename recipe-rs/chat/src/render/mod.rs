//! Conversations to prompt text.
