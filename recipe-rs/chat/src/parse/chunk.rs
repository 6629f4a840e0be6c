//! What an inference backend sends: one [`InferenceChunk`] per update.

/// Prompt-side token counts reported by the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// How many of them came from the backend's prefix cache (not checked against `prompt_tokens`).
    pub prompt_cache_hit_tokens: u64,
}

/// Why the backend stopped. The protocol's own finish reason also depends on what was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// End of turn.
    Stop,
    /// Token limit reached.
    Length,
    /// Suppressed by a content filter.
    ContentFilter,
}

/// Log probability (natural logarithm) of one output token and of the alternatives at its position.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// Log probability of the token itself.
    pub logprob: f32,
    /// `(token id, log probability)` in the order given by the backend.
    pub top: Vec<(u32, f32)>,
}

/// One backend update.
#[derive(Clone, Debug, PartialEq)]
pub enum InferenceChunk {
    /// Starts the stream; counts only when it is the first chunk.
    Ready {
        /// Prompt token counts; absent means zero.
        prompt_usage: Option<PromptUsage>,
        /// Reported by the Chat Completions protocol.
        system_fingerprint: Option<String>,
    },
    /// Decoded text.
    Text {
        /// The text.
        content: String,
        /// Tokens it accounts for.
        token_count: u64,
    },
    /// Token ids, decoded by the processor's tokenizer.
    Tokens {
        /// The ids.
        token_ids: Vec<u32>,
        /// One entry per id, or none at all.
        logprobs: Option<Vec<TokenLogprob>>,
    },
    /// Ends the stream.
    Finish(FinishReason),
}
