//! The model versions that prompts can be rendered for.

/// The model version a conversation targets; selects the prompt encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelVersion {
    /// DeepSeek V4 Pro.
    DeepseekV4Pro,
    /// DeepSeek V4.1 Flash.
    DeepseekV41Flash,
}

impl ModelVersion {
    /// Whether this is V4.1 (the shorter question in most places).
    pub fn is_v41(self) -> bool {
        self == ModelVersion::DeepseekV41Flash
    }
}
