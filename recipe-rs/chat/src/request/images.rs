//! Image references of requests: external URLs and base64 data URLs.
//!
//! Data URLs are read as the WHATWG Fetch standard reads them (section "data: URLs"), base64 as the
//! Infra standard's forgiving decoder does. Only whether they can be read is decided here; the resolver
//! decodes them.

use crate::conversation::{ImageDetail, ImageLocation, ImageSource};
use crate::error::{ChatError, Result};

const MEDIA_SUBTYPES: [&str; 5] = ["png", "jpeg", "jpg", "gif", "webp"];

/// Why a text is not a usable base64 data URL of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataUrlProblem {
    NotADataUrl,
    NotBase64,
    MediaType,
    Encoding,
}

fn refuse<T>(path: &str, reason: &str) -> Result<T> {
    Err(ChatError::invalid(format!("{path}: {reason}")))
}

/// Whether `url` is an external address.
pub(crate) fn is_external(url: &str) -> bool {
    let starts = |scheme: &str| {
        url.get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    starts("http:") || starts("https:")
}

/// An `image_url` of Chat or Responses.
pub(crate) fn image_url(
    url: String,
    detail: Option<ImageDetail>,
    path: &str,
) -> Result<ImageSource> {
    let location = if is_external(&url) {
        ImageLocation::Url(url)
    } else {
        match check_data_url(&url) {
            Ok(()) => ImageLocation::DataUrl(url),
            Err(DataUrlProblem::NotADataUrl | DataUrlProblem::NotBase64) => {
                return refuse(path, "Unsupported image_url format");
            }
            Err(DataUrlProblem::MediaType) => {
                return refuse(
                    path,
                    "You have uploaded an unsupported image. Please make sure your image is valid and has one of the \
                     following formats: webp, png, jpeg, and gif.",
                );
            }
            Err(DataUrlProblem::Encoding) => return refuse(path, "Invalid base64 data"),
        }
    };
    Ok(ImageSource {
        location,
        detail: detail.unwrap_or_default(),
        path: path.to_owned(),
    })
}

/// A Chat `file` part.
pub(crate) fn file_part(
    file_id: Option<String>,
    file_data: Option<String>,
    path: &str,
) -> Result<ImageSource> {
    let data = match (file_id, file_data) {
        (None, None) => return refuse(path, "file must have a file_id or file_data"),
        (Some(_), Some(_)) => return refuse(path, "file cannot have both file_id and file_data"),
        (Some(_), None) => return refuse(path, FILE_ID),
        (None, Some(data)) => data,
    };
    match check_data_url(&data) {
        Ok(()) => Ok(ImageSource {
            location: ImageLocation::DataUrl(data),
            detail: ImageDetail::High,
            path: path.to_owned(),
        }),
        Err(DataUrlProblem::NotBase64) => refuse(path, "Unsupported image_url format"),
        Err(DataUrlProblem::MediaType) => refuse(
            path,
            "You have uploaded an unsupported file. Please make sure your file is valid and has one of the following \
             formats: webp, png, jpeg, and gif.",
        ),
        Err(DataUrlProblem::NotADataUrl | DataUrlProblem::Encoding) => {
            refuse(path, "file_data is not a valid base64 data url")
        }
    }
}

/// Uploaded files cannot be referenced.
pub(crate) const FILE_ID: &str =
    "file_id is not supported. Pass the image as a base64 data url instead.";

fn check_data_url(url: &str) -> std::result::Result<(), DataUrlProblem> {
    let url = url.trim_matches(|c: char| c <= ' ');
    let rest = strip_scheme(url).ok_or(DataUrlProblem::NotADataUrl)?;
    let comma = rest
        .find([',', '#'])
        .filter(|&at| rest.as_bytes()[at] == b',');
    let (header, body) = rest.split_at(comma.ok_or(DataUrlProblem::NotADataUrl)?);
    if !header.ends_with("base64") {
        return Err(DataUrlProblem::NotBase64);
    }
    let before_base64 = without_base64(header);
    if !has_image_type(before_base64.unwrap_or(header)) {
        return Err(DataUrlProblem::MediaType);
    }
    let body = body[1..].split('#').next().unwrap_or("");
    if before_base64.is_some() && !forgiving_base64(&percent_decode(body)) {
        return Err(DataUrlProblem::Encoding);
    }
    Ok(())
}

fn is_tab_or_newline(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r')
}

/// What follows `data:`, whose letters may have any case and tabs or newlines between them.
fn strip_scheme(url: &str) -> Option<&str> {
    let mut wanted = "data:".chars();
    let mut next = wanted.next();
    for (at, c) in url.char_indices() {
        let Some(letter) = next else {
            return Some(&url[at..]);
        };
        if is_tab_or_newline(c) {
            continue;
        }
        if c.to_ascii_lowercase() != letter {
            return None;
        }
        next = wanted.next();
    }
    next.is_none().then_some("")
}

/// The header without its `;base64`, between which spaces may stand.
fn without_base64(header: &str) -> Option<&str> {
    let head = header.strip_suffix("base64")?;
    head.trim_end_matches(|c| c == ' ' || is_tab_or_newline(c))
        .strip_suffix(';')
}

/// Whether the media type is an image type that the model can see; parameters are not looked at.
fn has_image_type(media_type: &str) -> bool {
    let essence: String = media_type
        .chars()
        .filter(|c| !is_tab_or_newline(*c))
        .collect();
    let essence = essence.split(';').next().unwrap_or("").trim_matches(' ');
    let Some((kind, subtype)) = essence.split_once('/') else {
        return false;
    };
    kind.eq_ignore_ascii_case("image")
        && MEDIA_SUBTYPES
            .iter()
            .any(|known| subtype.eq_ignore_ascii_case(known))
}

fn percent_decode(body: &str) -> Vec<u8> {
    let bytes: Vec<u8> = body
        .bytes()
        .filter(|b| !is_tab_or_newline(char::from(*b)))
        .collect();
    let hex = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

fn is_base64_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

fn forgiving_base64(data: &[u8]) -> bool {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c);
    let mut data: Vec<u8> = data.iter().copied().filter(|b| !is_space(*b)).collect();
    if data.len() % 4 == 0 {
        for _ in 0..2 {
            if data.last() == Some(&b'=') {
                data.pop();
            }
        }
    }
    data.len() % 4 != 1 && data.iter().all(|b| is_base64_letter(*b))
}

/// The canonical form of strict base64 with padding (superfluous `=` are dropped), or `None`.
pub(crate) fn strict_base64(data: &str) -> Option<String> {
    let letters = data.trim_end_matches('=');
    let has_padding = letters.len() < data.len();
    if !letters.bytes().all(is_base64_letter) {
        return None;
    }
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let last = letters.bytes().last().map_or(0, value);
    let padding = match letters.len() % 4 {
        0 => "",
        2 if has_padding && last & 0b1111 == 0 => "==",
        3 if has_padding && last & 0b11 == 0 => "=",
        _ => return None,
    };
    Some([letters, padding].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_read_as_the_fetch_standard_does() {
        use DataUrlProblem::*;
        for (url, expected) in [
            ("data:image/png;base64,AAAA", Ok(())),
            (" DA\nTA:IMAGE/p\tng ; base64,A A%41A=#x ", Err(Encoding)),
            (" DA\nTA:IMAGE/p\tng ; base64,A A%41A#x ", Ok(())),
            ("data:image/png;xbase64,!!", Ok(())),
            ("data:image/png;BASE64,AAAA", Err(NotBase64)),
            ("data:image/png", Err(NotADataUrl)),
            ("data:image/png#;base64,AAAA", Err(NotADataUrl)),
            ("data:image/bmp,AAAA", Err(NotBase64)),
            ("data:base64,AAAA", Err(MediaType)),
            ("data:image/ png;base64,AAAA", Err(MediaType)),
            ("data:image/png;base64,AA=", Err(Encoding)),
            ("data:image/png;base64,AAAA\u{b}", Ok(())),
            ("data:image/png;base64,A\u{b}AAA", Err(Encoding)),
            ("ftp://x", Err(NotADataUrl)),
        ] {
            assert_eq!(check_data_url(url), expected, "{url:?}");
        }
    }

    #[test]
    fn strict_base64_wants_padding_and_zero_trailing_bits() {
        for (data, canonical) in [
            ("", Some("")),
            ("===", Some("")),
            ("AA=", Some("AA==")),
            ("AAAA==", Some("AAAA")),
            ("AAE=", Some("AAE=")),
            ("AA", None),
            ("AB==", None),
            ("AAF=", None),
            ("A===", None),
            ("AA=A", None),
            ("AA-_", None),
            ("AAAA\n", None),
        ] {
            assert_eq!(strict_base64(data).as_deref(), canonical, "{data:?}");
        }
    }
}
