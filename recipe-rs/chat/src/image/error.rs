//! Kinds of image failures and their texts, as the official service words them.

use std::fmt;

/// What is wrong with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageErrorKind {
    /// Not PNG, JPEG, GIF or WebP; or a data URL of another type.
    UnsupportedMediaType,
    /// The header or, for JPEG and GIF, the pixel data cannot be read.
    Decode,
    /// No bytes, or a readable header in front of broken pixel data.
    EmptyImage,
    /// Not a data URL, or its base64 is malformed.
    InvalidDataUrl,
    /// A side is longer than allowed.
    ImageDimensionsTooLarge,
    /// More encoded bytes than one image may have.
    ImageTooLarge,
}

impl ImageErrorKind {
    /// Name of the kind, as the reference package spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Decode => "Decode",
            Self::EmptyImage => "EmptyImage",
            Self::InvalidDataUrl => "InvalidDataUrl",
            Self::ImageDimensionsTooLarge => "ImageDimensionsTooLarge",
            Self::ImageTooLarge => "ImageTooLarge",
        }
    }
}

/// A failure of one image, without its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFault {
    /// What is wrong.
    pub kind: ImageErrorKind,
    /// The limit in bytes, for `ImageTooLarge`.
    pub limit_bytes: usize,
}

impl From<ImageErrorKind> for ImageFault {
    fn from(kind: ImageErrorKind) -> Self {
        Self {
            kind,
            limit_bytes: super::MAX_IMAGE_BYTES,
        }
    }
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ImageErrorKind::ImageTooLarge => {
                write!(f, "image file size exceeds limit {} MB", self.limit_bytes >> 20)
            }
            _ => f.write_str(
                "You have uploaded an unsupported image. Please make sure your image is valid and has one of the \
                 following formats: webp, png, jpeg, and gif.",
            ),
        }
    }
}

impl std::error::Error for ImageFault {}

/// Where in a request an image stands: `{path}.image[{index}]`.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    /// Path of the content part, such as `messages.0.content[1]`; may be empty.
    pub path: &'a str,
    /// How many earlier sources of the same call have this path.
    pub index: usize,
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.path.is_empty() { "" } else { "." };
        write!(f, "{}{dot}image[{}]", self.path, self.index)
    }
}
