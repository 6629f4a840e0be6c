//! Building message content from parts.

use crate::conversation::{Content, ImageSource};

/// Content made of parts joined by a blank line, and its images.
#[derive(Default)]
pub(crate) struct Parts {
    content: Content,
    images: Vec<ImageSource>,
    any: bool,
}

impl Parts {
    fn separate(&mut self) {
        if self.any {
            self.content.text.push_str("\n\n");
        }
        self.any = true;
    }

    /// Add a text part, which may be empty.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        self.content.text.push_str(text);
    }

    /// Add an image part, spelled `image_token`.
    pub(crate) fn image(&mut self, source: ImageSource, image_token: &str) {
        self.separate();
        let start = self.content.text.len();
        self.content.text.push_str(image_token);
        self.content
            .placeholders
            .push(start..self.content.text.len());
        self.images.push(source);
    }

    /// The content and its images.
    pub(crate) fn finish(self) -> (Content, Vec<ImageSource>) {
        (self.content, self.images)
    }
}
