//! Data URLs with an image, after the WHATWG "data: URL processor" and "forgiving-base64 decode".

use super::error::{ImageErrorKind, ImageFault};

/// Media types that are taken; they need not agree with the content.
const MEDIA_TYPES: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/jpg",
    "image/gif",
    "image/webp",
];

/// The bytes of an image in a data URL.
///
/// # Errors
/// `InvalidDataUrl` without `data:` and a comma or with malformed base64; `UnsupportedMediaType`;
/// `ImageTooLarge` when the body may exceed `max_bytes` (for base64 judged from the encoded length, so
/// before anything is decoded); `EmptyImage` for an empty body.
pub fn decode_data_url(url: &str, max_bytes: usize) -> Result<Vec<u8>, ImageFault> {
    let invalid = || ImageFault::from(ImageErrorKind::InvalidDataUrl);
    let url = url.trim_matches(|c: char| c <= ' ');
    let mut bytes: Vec<u8> = Vec::new();
    // Tabs and newlines are dropped anywhere. Long bodies hardly ever have any: copy only then.
    let cleaned = if url.bytes().any(is_dropped) {
        bytes.extend(url.bytes().filter(|&b| !is_dropped(b)));
        bytes.as_slice()
    } else {
        url.as_bytes()
    };
    let scheme = cleaned.get(..5).ok_or_else(invalid)?;
    if !scheme.eq_ignore_ascii_case(b"data:") {
        return Err(invalid());
    }
    let rest = &cleaned[5..];
    let rest = match rest.iter().position(|&b| b == b'#') {
        Some(fragment) => &rest[..fragment],
        None => rest,
    };
    let comma = rest.iter().position(|&b| b == b',').ok_or_else(invalid)?;
    let (media_type, body) = (&rest[..comma], &rest[comma + 1..]);
    let (media_type, is_base64) = split_base64(trim_spaces(media_type));
    let known = MEDIA_TYPES
        .iter()
        .any(|known| essence(media_type).eq_ignore_ascii_case(known.as_bytes()));
    if !known {
        return Err(ImageErrorKind::UnsupportedMediaType.into());
    }
    if body.is_empty() {
        return Err(ImageErrorKind::EmptyImage.into());
    }
    let too_large = ImageFault {
        kind: ImageErrorKind::ImageTooLarge,
        limit_bytes: max_bytes,
    };
    let image = if is_base64 {
        if body.len() / 4 * 3 + body.len() % 4 * 3 / 4 > max_bytes {
            return Err(too_large);
        }
        forgiving_base64(body).ok_or_else(invalid)?
    } else {
        let image = percent_decode(body);
        if image.len() > max_bytes {
            return Err(too_large);
        }
        image
    };
    if image.is_empty() {
        return Err(ImageErrorKind::EmptyImage.into());
    }
    Ok(image)
}

fn is_dropped(b: u8) -> bool {
    matches!(b, b'\t' | b'\n' | b'\r')
}

/// The type without its parameters.
fn essence(media_type: &[u8]) -> &[u8] {
    let end = media_type.iter().position(|&b| b == b';');
    trim_spaces(&media_type[..end.unwrap_or(media_type.len())])
}

/// Without spaces at either end; other white space counts.
fn trim_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}

/// Cut a final `;base64`, with spaces before the word, off the type.
fn split_base64(media_type: &[u8]) -> (&[u8], bool) {
    let Some(cut) = media_type.len().checked_sub(6) else {
        return (media_type, false);
    };
    if !media_type[cut..].eq_ignore_ascii_case(b"base64") {
        return (media_type, false);
    }
    let mut head = &media_type[..cut];
    while let [before @ .., b' '] = head {
        head = before;
    }
    match head {
        [before @ .., b';'] => (before, true),
        _ => (media_type, false),
    }
}

/// Percent-decode byte by byte; malformed escapes stay as they are.
fn percent_decode(body: &[u8]) -> Vec<u8> {
    let hex = |b: u8| (b as char).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if let (b'%', [high, low, after @ ..]) = (*first, tail) {
            if let (Some(high), Some(low)) = (hex(*high), hex(*low)) {
                out.push(high << 4 | low);
                rest = after;
                continue;
            }
        }
        out.push(*first);
    }
    out
}

/// Sextet of each base64 byte; `SPACE` for ASCII white space, `BAD` for all else.
const SEXTETS: [u8; 256] = sextets();
const BAD: u8 = 255;
const SPACE: u8 = 254;

const fn sextets() -> [u8; 256] {
    let mut table = [BAD; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    let spaces = b" \t\n\x0C\r";
    let mut i = 0;
    while i < spaces.len() {
        table[spaces[i] as usize] = SPACE;
        i += 1;
    }
    table
}

/// Percent-decode, then base64: white space ignored, padding optional but right, unused bits ignored.
fn forgiving_base64(body: &[u8]) -> Option<Vec<u8>> {
    let unescaped;
    let body = if body.contains(&b'%') {
        unescaped = percent_decode(body);
        unescaped.as_slice()
    } else {
        body
    };
    let mut out = Vec::with_capacity(body.len() / 4 * 3 + 3);
    // Whole groups without white space or padding.
    let mut groups = body.chunks_exact(4);
    let mut at = 0;
    for group in groups.by_ref() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| SEXTETS[usize::from(group[i])]);
        if (a | b | c | d) & 0xC0 != 0 {
            break;
        }
        out.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        at += 4;
    }
    slow_base64(&body[at..], &mut out)?;
    Some(out)
}

/// The rest, byte by byte; `out` holds whole groups.
fn slow_base64(body: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut buffer = 0u32;
    let mut num_sextets = 0usize;
    let mut num_padding = 0usize;
    for &byte in body {
        match SEXTETS[usize::from(byte)] {
            SPACE => {}
            BAD if byte == b'=' => num_padding += 1,
            BAD => return None,
            _ if num_padding > 0 => return None,
            sextet => {
                buffer = buffer << 6 | u32::from(sextet);
                num_sextets += 1;
                if num_sextets % 4 == 0 {
                    out.extend_from_slice(&buffer.to_be_bytes()[1..]);
                    buffer = 0;
                }
            }
        }
    }
    match (num_sextets % 4, num_padding) {
        (0, 0) => {}
        (2, 0 | 2) => out.push((buffer >> 4) as u8),
        (3, 0 | 1) => out.extend_from_slice(&((buffer >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(url: &str) -> &'static str {
        decode_data_url(url, 1000).map_or_else(|fault| fault.kind.name(), |_| "ok")
    }

    #[test]
    fn base64_is_forgiving_exactly_as_far_as_the_standard_says() {
        for (body, expected) in [
            ("AQID", Some(vec![1, 2, 3])),
            (" AQ\u{c}ID ", Some(vec![1, 2, 3])),
            ("AQIDBA", Some(vec![1, 2, 3, 4])),
            ("AQIDBA==", Some(vec![1, 2, 3, 4])),
            ("AQIDBB", Some(vec![1, 2, 3, 4])),
            ("AQIDBAU=", Some(vec![1, 2, 3, 4, 5])),
            ("%41QID", Some(vec![1, 2, 3])),
            ("AQID====", None),
            ("AQIDBA=", None),
            ("AQIDB", None),
            ("AQ==ID", None),
            ("AQ-_", None),
            ("AQ*D", None),
            ("AQI\u{b}D", None),
            ("AQIé", None),
        ] {
            let got = decode_data_url(&format!("data:image/png;base64,{body}"), 1000);
            match expected {
                Some(bytes) => assert_eq!(got, Ok(bytes), "{body:?}"),
                None => assert_eq!(
                    got.unwrap_err().kind,
                    ImageErrorKind::InvalidDataUrl,
                    "{body:?}"
                ),
            }
        }
    }

    #[test]
    fn media_type_and_shape_are_checked_in_the_reference_order() {
        assert_eq!(kind("\n DaTa:IMAGE/PNG ; BASE64,AQID#AQ"), "ok");
        assert_eq!(kind("data:image/png;base64;x=1,%41"), "ok");
        assert_eq!(kind("da\tta:image/webp,abc"), "ok");
        assert_eq!(kind("\u{b}data:image/png;base64,AQID\u{b}\0"), "ok");
        assert_eq!(
            kind("data:\u{c}image/png;base64,AQID"),
            "UnsupportedMediaType"
        );
        assert_eq!(kind("data:image/png;base64"), "InvalidDataUrl");
        assert_eq!(kind("http://x/,"), "InvalidDataUrl");
        assert_eq!(kind("data"), "InvalidDataUrl");
        assert_eq!(kind("dätä:image/png,x"), "InvalidDataUrl");
        assert_eq!(kind("data:,AQID"), "UnsupportedMediaType");
        assert_eq!(kind("data:image/bmp;base64,AQID"), "UnsupportedMediaType");
        assert_eq!(kind("data:base64,AQID"), "UnsupportedMediaType");
        assert_eq!(kind("data:image/png;base64,"), "EmptyImage");
        assert_eq!(kind("data:image/png;base64,  "), "EmptyImage");
        let unpadded = "A".repeat(1334);
        assert_eq!(kind(&format!("data:image/png;base64,{unpadded}")), "ok");
        assert_eq!(
            kind(&format!("data:image/png;base64,{unpadded}==")),
            "ImageTooLarge"
        );
        assert_eq!(kind(&format!("data:image/png,{}", "x".repeat(1000))), "ok");
        assert_eq!(
            kind(&format!("data:image/png,{}", "x".repeat(1001))),
            "ImageTooLarge"
        );
    }

    #[test]
    fn percent_escapes_that_are_malformed_stay() {
        let got = decode_data_url("data:image/gif,%41%4%zz%", 1000);
        assert_eq!(got, Ok(b"A%4%zz%".to_vec()));
    }
}
