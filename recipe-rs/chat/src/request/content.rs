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

    /// Add an image part.
    pub(crate) fn image(&mut self, source: ImageSource) {
        self.separate();
        self.content.push_image();
        self.images.push(source);
    }

    /// The content and its images.
    pub(crate) fn finish(self) -> (Content, Vec<ImageSource>) {
        (self.content, self.images)
    }
}
