//! Conversations to prompt text, with the ranges of the special tokens that the renderer wrote itself.
//!
//! User-controlled text is appended as text and never gets a range, so that no spelling in it can become
//! a special token.

mod order;
mod tools;
mod v4;
mod v41;

use crate::conversation::{Content, Conversation, ImageSource};
use crate::model::ModelVersion;
use crate::special::{SpecialToken, SpecialTokens};
use std::ops::Range;

/// One special token of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialRange {
    /// Byte range of its spelling.
    pub bytes: Range<usize>,
    /// Which token.
    pub token: SpecialToken,
}

/// Prompt text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedPrompt {
    /// The whole text.
    pub prompt: String,
    /// Ascending and disjoint.
    pub special_ranges: Vec<SpecialRange>,
    /// One source per image placeholder, in order (more, if a message has more sources than placeholders).
    pub image_sources: Vec<ImageSource>,
}

/// Render `conversation` as `version` expects it.
pub fn render(
    conversation: &Conversation,
    version: ModelVersion,
    special: &SpecialTokens,
) -> RenderedPrompt {
    let mut prompt = Prompt {
        out: RenderedPrompt::default(),
        special,
    };
    prompt.out.prompt.reserve(estimated_bytes(conversation));
    match version {
        ModelVersion::DeepseekV4Pro => v4::render(&mut prompt, conversation),
        ModelVersion::DeepseekV41Flash => v41::render(&mut prompt, conversation),
    }
    prompt.out
}

fn estimated_bytes(conversation: &Conversation) -> usize {
    use crate::conversation::Message;
    let text = |message: &Message| match message {
        Message::System { content, .. }
        | Message::User { content, .. }
        | Message::Tool { content, .. } => content.text.len(),
        Message::Assistant {
            content,
            reasoning_content,
            tool_calls,
            ..
        } => {
            let calls = tool_calls.as_ref().map_or(0, |calls| {
                calls.iter().map(|c| c.arguments.len() + 200).sum()
            });
            content.len() + reasoning_content.as_ref().map_or(0, String::len) + calls
        }
        Message::LatestReminder { content } => content.len(),
    };
    conversation
        .messages
        .iter()
        .map(|m| text(m) + 64)
        .sum::<usize>()
        + conversation.tools.len() * 512
        + 2048
}

/// A prompt while it is written.
struct Prompt<'a> {
    out: RenderedPrompt,
    special: &'a SpecialTokens,
}

impl Prompt<'_> {
    /// Append plain text.
    fn text(&mut self, text: &str) {
        self.out.prompt.push_str(text);
    }

    /// Append a special token.
    fn token(&mut self, token: SpecialToken) {
        let start = self.out.prompt.len();
        self.out.prompt.push_str(self.special.get(token));
        let bytes = start..self.out.prompt.len();
        if !bytes.is_empty() {
            self.out.special_ranges.push(SpecialRange { bytes, token });
        }
    }

    /// Append fixed markup: `{D}`, `{T}` and `{/T}` stand for the DSML and think tokens.
    fn markup(&mut self, markup: &str) {
        let mut rest = markup;
        while let Some(at) = rest.find('{') {
            self.text(&rest[..at]);
            let (token, len) = match &rest[at..] {
                r if r.starts_with("{D}") => (SpecialToken::Dsml, 3),
                r if r.starts_with("{T}") => (SpecialToken::ThinkingStart, 3),
                r if r.starts_with("{/T}") => (SpecialToken::ThinkingEnd, 4),
                _ => {
                    self.text("{");
                    rest = &rest[at + 1..];
                    continue;
                }
            };
            self.token(token);
            rest = &rest[at + len..];
        }
        self.text(rest);
    }

    /// Append content and its images. Placeholders keep the spelling that the content gives them.
    fn content(&mut self, content: &Content, images: &[ImageSource]) {
        let base = self.out.prompt.len();
        self.text(&content.text);
        self.out
            .special_ranges
            .extend(content.placeholders.iter().map(|range| SpecialRange {
                bytes: base + range.start..base + range.end,
                token: SpecialToken::Image,
            }));
        self.out.image_sources.extend_from_slice(images);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Message;

    #[test]
    fn spellings_in_text_get_no_range() {
        let spellings: String = SpecialToken::ALL.iter().map(|t| t.default_str()).collect();
        let conversation = Conversation {
            messages: vec![Message::user(spellings.clone())],
            ..Conversation::default()
        };
        for version in [ModelVersion::DeepseekV4Pro, ModelVersion::DeepseekV41Flash] {
            let rendered = render(&conversation, version, &SpecialTokens::default());
            let at = rendered
                .prompt
                .find(&spellings)
                .expect("user text is in the prompt");
            assert!(rendered
                .special_ranges
                .iter()
                .all(|r| r.bytes.end <= at || r.bytes.start >= at + spellings.len()));
        }
    }
}
