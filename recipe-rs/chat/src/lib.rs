//! DeepSeek V4 / V4.1 chat format: API requests to prompts and token ids, model output to API
//! responses. Pure Rust: knows nothing of Python, grammars, clocks or networks.
