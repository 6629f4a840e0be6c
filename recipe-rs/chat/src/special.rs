//! Special tokens: their kinds, default spellings, and a mapping with replaced spellings.

/// Default spellings, indexed by [`SpecialToken`].
const DEFAULTS: [&str; SpecialToken::COUNT] = [
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<think>",
    "</think>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜latest_reminder｜>",
    "｜DSML｜",
    "<｜image｜>",
    "<｜ref｜>",
    "<｜/ref｜>",
    "<｜box｜>",
    "<｜/box｜>",
    "<｜point｜>",
    "<｜/point｜>",
    "<｜polygon｜>",
    "<｜/polygon｜>",
];

/// The id that the V4.1 model configuration gives to image placeholders. Encoding does not use it:
/// ids always come from the tokenizer.
pub const IMAGE_SPECIAL_TOKEN_ID: u32 = 129_264;

/// A kind of special token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum SpecialToken {
    Bos,
    Eos,
    ThinkingStart,
    ThinkingEnd,
    System,
    User,
    Assistant,
    LatestReminder,
    Dsml,
    Image,
    Ref,
    RefEnd,
    Box,
    BoxEnd,
    Point,
    PointEnd,
    Polygon,
    PolygonEnd,
}

impl SpecialToken {
    /// How many kinds there are.
    pub const COUNT: usize = 18;

    /// All kinds, in the order of their declaration.
    pub const ALL: [SpecialToken; SpecialToken::COUNT] = [
        SpecialToken::Bos,
        SpecialToken::Eos,
        SpecialToken::ThinkingStart,
        SpecialToken::ThinkingEnd,
        SpecialToken::System,
        SpecialToken::User,
        SpecialToken::Assistant,
        SpecialToken::LatestReminder,
        SpecialToken::Dsml,
        SpecialToken::Image,
        SpecialToken::Ref,
        SpecialToken::RefEnd,
        SpecialToken::Box,
        SpecialToken::BoxEnd,
        SpecialToken::Point,
        SpecialToken::PointEnd,
        SpecialToken::Polygon,
        SpecialToken::PolygonEnd,
    ];

    /// The spelling used unless a [`SpecialTokens`] mapping replaces it.
    pub fn default_str(self) -> &'static str {
        DEFAULTS[self as usize]
    }
}

/// A spelling for every [`SpecialToken`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// `None` = the default spelling, indexed by [`SpecialToken`].
    replaced: [Option<Box<str>>; SpecialToken::COUNT],
}

impl Default for SpecialTokens {
    fn default() -> Self {
        SpecialTokens {
            replaced: [const { None }; SpecialToken::COUNT],
        }
    }
}

impl SpecialTokens {
    /// The spelling of `token` in this mapping.
    pub fn get(&self, token: SpecialToken) -> &str {
        match &self.replaced[token as usize] {
            Some(text) => text,
            None => token.default_str(),
        }
    }

    /// Replace the spelling of `token`.
    pub fn set(&mut self, token: SpecialToken, spelling: impl Into<Box<str>>) {
        self.replaced[token as usize] = Some(spelling.into());
    }
}
