//! Format and size of an image from its first bytes, before any decoder sees it.
//!
//! Only what a decoder is then asked to allocate is read, so a decompression bomb is refused by its
//! declared size. Formats: PNG (W3C, third edition), JPEG (ITU-T T.81), GIF89a, WebP (RFC 9649).

use super::error::{ImageErrorKind, ImageFault};

/// A format that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ImageFormat {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl ImageFormat {
    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::WebP => "webp",
        }
    }
}

/// What the header declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Recognised from the first bytes only.
    pub format: ImageFormat,
    /// Pixels per row; positive.
    pub width: u32,
    /// Number of rows; positive.
    pub height: u32,
    /// Whether it is a WebP with the animation flag.
    pub is_animated_webp: bool,
}

/// Read the header.
///
/// # Errors
/// `EmptyImage` for no bytes, `UnsupportedMediaType` for other formats, `Decode` for a header that is cut,
/// damaged, or declares a zero side.
pub fn read_header(data: &[u8]) -> Result<ImageHeader, ImageFault> {
    if data.is_empty() {
        return Err(ImageErrorKind::EmptyImage.into());
    }
    let mut is_animated_webp = false;
    let (format, size) = match data {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', rest @ ..] => {
            (ImageFormat::Png, png(rest))
        }
        [0xFF, 0xD8, 0xFF, ..] => (ImageFormat::Jpeg, jpeg(&data[2..])),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => (ImageFormat::Gif, gif(rest)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => {
            let size = webp(rest);
            is_animated_webp = size.is_some_and(|(_, _, animated)| animated);
            (ImageFormat::WebP, size.map(|(w, h, _)| (w, h)))
        }
        _ => return Err(ImageErrorKind::UnsupportedMediaType.into()),
    };
    match size {
        Some((width, height)) if width > 0 && height > 0 => Ok(ImageHeader {
            format,
            width,
            height,
            is_animated_webp,
        }),
        _ => Err(ImageErrorKind::Decode.into()),
    }
}

fn be32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn be16(bytes: &[u8]) -> Option<u32> {
    Some(u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?).into())
}

fn le16(bytes: &[u8]) -> Option<u32> {
    Some(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?).into())
}

fn le24(bytes: &[u8]) -> Option<u32> {
    let [a, b, c] = *bytes.get(..3)? else {
        return None;
    };
    Some(u32::from_le_bytes([a, b, c, 0]))
}

/// IHDR with a right checksum, and chunks up to the first IDAT.
fn png(data: &[u8]) -> Option<(u32, u32)> {
    if be32(data)? != 13 || data.get(4..8)? != b"IHDR" {
        return None;
    }
    let size = (be32(data.get(8..)?)?, be32(data.get(12..)?)?);
    if crc32(data.get(4..21)?) != be32(data.get(21..)?)? {
        return None;
    }
    let mut rest = data.get(25..)?;
    loop {
        let len = be32(rest)? as usize;
        if rest.get(4..8)? == b"IDAT" {
            return Some(size);
        }
        rest = rest.get(len.checked_add(12)?..)?;
    }
}

/// CRC-32 of PNG (ISO 3309), bit by bit: only ever over 17 bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// The first start-of-frame segment.
fn jpeg(mut data: &[u8]) -> Option<(u32, u32)> {
    loop {
        // A marker may be preceded by fill bytes.
        while let [0xFF, 0xFF, ..] = data {
            data = &data[1..];
        }
        let [0xFF, marker, rest @ ..] = data else {
            return None;
        };
        match marker {
            0x01 | 0xD0..=0xD8 => data = rest,
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Some((be16(rest.get(5..)?)?, be16(rest.get(3..)?)?));
            }
            0x00 | 0xD9 | 0xDA => return None,
            _ => data = rest.get(be16(rest)? as usize..)?,
        }
    }
}

/// The logical screen.
fn gif(data: &[u8]) -> Option<(u32, u32)> {
    data.get(..7)?;
    Some((le16(data)?, le16(&data[2..])?))
}

/// The first chunk: simple lossy, lossless, or extended. The third value is the animation flag.
fn webp(data: &[u8]) -> Option<(u32, u32, bool)> {
    let body = data.get(8..)?;
    match data.get(..4)? {
        b"VP8 " => {
            if body.get(3..6)? != [0x9D, 0x01, 0x2A] {
                return None;
            }
            Some((
                le16(body.get(6..)?)? & 0x3FFF,
                le16(body.get(8..)?)? & 0x3FFF,
                false,
            ))
        }
        b"VP8L" => {
            let [0x2F, a, b, c, d] = *body.get(..5)? else {
                return None;
            };
            let bits = u32::from_le_bytes([a, b, c, d]);
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, false))
        }
        b"VP8X" => {
            let animated = body.first()? & 2 != 0;
            Some((
                le24(body.get(4..)?)? + 1,
                le24(body.get(7..)?)? + 1,
                animated,
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(data: &[u8]) -> &'static str {
        read_header(data).map_or_else(|fault| fault.kind.name(), |_| "ok")
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x02\x01\0\0\0\0\x5a\xcd\x30\x89\0\0\0\x0cIDAT";

    #[test]
    fn headers_of_each_format_give_their_size() {
        let png = read_header(PNG).unwrap();
        assert_eq!(
            (png.format, png.width, png.height),
            (ImageFormat::Png, 2, 2)
        );
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\0\x03\0\x05";
        let jpeg = read_header(jpeg).unwrap();
        assert_eq!(
            (jpeg.format, jpeg.width, jpeg.height),
            (ImageFormat::Jpeg, 5, 3)
        );
        let gif = read_header(b"GIF89a\x05\0\x03\x01\0\0\0").unwrap();
        assert_eq!(
            (gif.format, gif.width, gif.height),
            (ImageFormat::Gif, 5, 0x103)
        );
        let lossy =
            read_header(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0abc\x9d\x01\x2a\x05\x40\x03\x80").unwrap();
        assert_eq!((lossy.width, lossy.height), (5, 3));
        let lossless = read_header(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x80\0\0").unwrap();
        assert_eq!((lossless.width, lossless.height), (5, 3));
        let extended =
            read_header(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\x02\0\0\0\x04\0\0\x02\0\0").unwrap();
        assert_eq!(
            (extended.width, extended.height, extended.is_animated_webp),
            (5, 3, true)
        );
    }

    #[test]
    fn every_prefix_is_refused_and_never_panics() {
        for end in 0..PNG.len() {
            assert_ne!(kind(&PNG[..end]), "ok", "{end}");
        }
        assert_eq!(kind(b""), "EmptyImage");
        assert_eq!(kind(b"BM\0\0"), "UnsupportedMediaType");
        assert_eq!(kind(&PNG[..8]), "Decode");
        let mut damaged = PNG.to_vec();
        damaged[19] ^= 1;
        assert_eq!(kind(&damaged), "Decode");
        assert_eq!(kind(b"GIF89a\0\0\x03\x01\0\0\0"), "Decode");
    }
}
