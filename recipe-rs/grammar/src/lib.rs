//! Grammars compiled to token bitmasks. Pure Rust: knows nothing of Python or of chat formats.
