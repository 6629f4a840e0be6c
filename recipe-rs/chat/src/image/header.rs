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
    // The reference recognises no more than these bytes; what follows them makes a header good or bad.
    let (format, size) = match data {
        [0x89, b'P', b'N', b'G', rest @ ..] => (ImageFormat::Png, png(rest)),
        [0xFF, 0xD8, 0xFF, ..] => (ImageFormat::Jpeg, jpeg(&data[2..])),
        [b'G', b'I', b'F', rest @ ..] => (ImageFormat::Gif, gif(rest)),
        [_, _, _, _, _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => {
            let size = if data.starts_with(b"RIFF") {
                webp(rest)
            } else {
                None
            };
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
        Some(_) if format == ImageFormat::Gif => Err(ImageErrorKind::EmptyImage.into()),
        _ => Err(ImageErrorKind::Decode.into()),
    }
}

/// Check what can be checked of the pixel data without decoding it: PNG's chunks up to the end, with the
/// checksums of critical ones, and JPEG's end marker. Decoders differ in how much of a damaged file they
/// still show; this makes the answer independent of the decoder.
///
/// # Errors
/// Those of [`read_header`], and `EmptyImage` for pixel data that is cut or damaged.
pub fn check_body(data: &[u8]) -> Result<(), ImageFault> {
    let whole = match read_header(data)?.format {
        ImageFormat::Png => png_chunks(&data[8..]).is_some_and(|chunks| chunks.is_whole),
        ImageFormat::Jpeg => jpeg_ends(&data[2..]),
        ImageFormat::Gif | ImageFormat::WebP => true,
    };
    if whole {
        Ok(())
    } else {
        Err(ImageErrorKind::EmptyImage.into())
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

/// A PNG up to its end, as far as it is sound.
struct PngChunks {
    size: (u32, u32),
    /// Whether every critical chunk up to IEND is there and has its checksum.
    is_whole: bool,
}

fn png(data: &[u8]) -> Option<(u32, u32)> {
    let chunks = png_chunks(data.strip_prefix(b"\r\n\x1a\n")?)?;
    Some(chunks.size)
}

/// `None` when the chunks in front of the first IDAT are not sound.
fn png_chunks(data: &[u8]) -> Option<PngChunks> {
    if be32(data)? != 13 || data.get(4..8)? != b"IHDR" {
        return None;
    }
    let header = data.get(8..21)?;
    if !png_header_is_known(header) || crc32fast::hash(data.get(4..21)?) != be32(data.get(21..)?)? {
        return None;
    }
    let size = (be32(header)?, be32(&header[4..])?);
    let mut rest = data.get(25..)?;
    let mut pixels = false;
    loop {
        let name = rest.get(4..8);
        // The first IDAT ends the header, whatever is wrong with it.
        pixels |= name == Some(b"IDAT");
        match png_chunk(rest) {
            Some((b"IEND", _)) if pixels => {
                return Some(PngChunks {
                    size,
                    is_whole: true,
                })
            }
            Some((_, after)) => rest = after,
            None if pixels => {
                return Some(PngChunks {
                    size,
                    is_whole: false,
                })
            }
            None => return None,
        }
    }
}

/// Bit depth, colour type, methods and interlacing that the standard defines.
fn png_header_is_known(header: &[u8]) -> bool {
    let known = matches!(
        header.get(8..10),
        Some([1 | 2 | 4 | 8 | 16, 0] | [8 | 16, 2 | 4 | 6] | [1 | 2 | 4 | 8, 3])
    );
    known && header.get(10..12) == Some(&[0, 0]) && header.get(12).is_some_and(|&i| i <= 1)
}

/// Name of the first chunk after IHDR and what follows it; `None` if it is cut, or critical and damaged or unknown.
fn png_chunk(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = be32(data)? as usize;
    let name = data.get(4..8)?;
    let end = len.checked_add(8)?;
    let crc = be32(data.get(end..)?)?;
    let is_critical = name[0].is_ascii_uppercase();
    if is_critical
        && (!matches!(name, b"PLTE" | b"IDAT" | b"IEND") || crc32fast::hash(&data[4..end]) != crc)
    {
        return None;
    }
    Some((name, &data[end + 4..]))
}

/// The first start-of-frame segment, if every segment up to the first scan's data is there.
fn jpeg(mut data: &[u8]) -> Option<(u32, u32)> {
    let mut size = None;
    loop {
        // A marker may be preceded by fill bytes.
        while let [0xFF, 0xFF, ..] = data {
            data = &data[1..];
        }
        let [0xFF, marker, rest @ ..] = data else {
            return None;
        };
        if matches!(marker, 0x01 | 0xD0..=0xD8) {
            data = rest;
            continue;
        }
        if matches!(marker, 0x00 | 0xD9) {
            return None;
        }
        let after = rest.get(be16(rest)? as usize..)?;
        match marker {
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF if size.is_none() => {
                size = Some((be16(rest.get(5..)?)?, be16(rest.get(3..)?)?));
            }
            0xDA => return size,
            _ => {}
        }
        data = after;
    }
}

/// Whether an end marker follows the segments and scans.
fn jpeg_ends(mut data: &[u8]) -> bool {
    loop {
        // In a scan, 0xFF is followed by 0 (a data byte), a restart marker, or the next segment's marker.
        let Some(at) = data.iter().position(|&b| b == 0xFF) else {
            return false;
        };
        data = &data[at + 1..];
        match data {
            [0xD9, ..] => return true,
            [0xFF, ..] => {}
            [0x00 | 0x01 | 0xD0..=0xD8, rest @ ..] => data = rest,
            [_, rest @ ..] => match be16(rest).and_then(|len| rest.get(len as usize..)) {
                Some(after) => data = after,
                None => return false,
            },
            [] => return false,
        }
    }
}

/// The logical screen.
fn gif(data: &[u8]) -> Option<(u32, u32)> {
    let data = data
        .strip_prefix(b"87a")
        .or_else(|| data.strip_prefix(b"89a"))?;
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
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x08\x08\0\x03\0\x05\x01\xff\xda\0\x03x";
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
    fn body_without_its_end_is_empty() {
        let whole = |data: &[u8]| check_body(data).map_err(|fault| fault.kind.name());
        let chunk = |name: &[u8; 4], body: &[u8]| {
            let mut chunk = (body.len() as u32).to_be_bytes().to_vec();
            chunk.extend_from_slice(name);
            chunk.extend_from_slice(body);
            let crc = crc32fast::hash(&chunk[4..]);
            chunk.extend_from_slice(&crc.to_be_bytes());
            chunk
        };
        let head = &PNG[..33];
        let mut text = chunk(b"tEXt", b"a");
        if let Some(crc) = text.last_mut() {
            *crc ^= 1;
        }
        let (idat, iend) = (chunk(b"IDAT", b"xyz"), chunk(b"IEND", b""));
        assert_eq!(
            whole(&[head, &text, &idat, &text, &iend, b"trailing"].concat()),
            Ok(())
        );
        assert_eq!(whole(&[head, &idat].concat()), Err("EmptyImage"));
        assert_eq!(
            whole(&[head, &idat, &iend[..11]].concat()),
            Err("EmptyImage")
        );
        assert_eq!(
            whole(&[head, &idat, &chunk(b"ABCD", b""), &iend].concat()),
            Err("EmptyImage")
        );
        assert_eq!(
            whole(&[head, &chunk(b"ABCD", b""), &idat, &iend].concat()),
            Err("Decode")
        );
        assert_eq!(whole(&[head, &iend].concat()), Err("Decode"));
        let mut damaged = idat.clone();
        damaged[9] ^= 1;
        assert_eq!(whole(&[head, &damaged, &iend].concat()), Err("EmptyImage"));
        let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x03\0\x05\x01\x01\x11\0\xff\xda\0\x03x\x01\xff\0\x02\xff\xd0\x03\xff\xd9";
        assert_eq!(whole(jpeg), Ok(()));
        assert_eq!(whole(&jpeg[..jpeg.len() - 1]), Err("EmptyImage"));
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
        assert_eq!(kind(b"GIF89a\0\0\x03\x01\0\0\0"), "EmptyImage");
        assert_eq!(kind(b"GIF88a\x05\0\x03\x01\0\0\0"), "Decode");
        assert_eq!(
            kind(b"RIFX\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x80\0\0"),
            "Decode"
        );
        assert_eq!(kind(b"\x89PNG\r\n\x1a\r"), "Decode");
    }
}
