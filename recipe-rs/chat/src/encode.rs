//! Prompts to token ids.
