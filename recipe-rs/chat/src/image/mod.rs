//! Images of V4.1 requests: target sizes, token counts, data URLs, headers, and what is refused.
//!
//! Knows sizes and bytes, never pixels: decoding, resizing and encoding are the caller's (in Python,
//! OpenCV's wheel), and so is fetching. Rules and constants were observed from the reference package;
//! `docs/images.md` lists them.

mod data_url;
mod error;
mod fit;
mod header;

pub use data_url::decode_data_url;
pub use error::{ImageErrorKind, ImageFault, Location};
pub use fit::{
    fit, image_token_adjustment, num_image_tokens, reduce_low_detail, DidNotConverge, Size,
};
pub use header::{check_body, read_header, ImageFormat, ImageHeader};

/// Most images of a request.
pub const MAX_IMAGES: usize = 600;
/// Most encoded bytes of one image, inclusive.
pub const MAX_IMAGE_BYTES: usize = 32 << 20;
/// Most encoded bytes of all images of a request, inclusive.
pub const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Longest side in pixels, inclusive, for requests of fewer than [`MANY_IMAGES`] images.
pub const MAX_SIDE_PX: u32 = 8192;
/// Longest side in pixels, inclusive, from [`MANY_IMAGES`] images on.
pub const MAX_SIDE_MANY_PX: u32 = 4096;
/// Number of images of a request from which the smaller side limit holds.
pub const MANY_IMAGES: usize = 15;
/// Longest external URL in bytes, inclusive.
pub const MAX_URL_BYTES: usize = 8192;
/// Long side to which images of low detail are reduced.
pub const LOW_DETAIL_PX: u32 = 512;
