//! JSON pieces that several protocols write: strings, nullable values, log probabilities.

use std::borrow::Cow;
use std::fmt::Write;

use crate::json::write_string;
use crate::parse::{Logprobs, TokenSource, TokenText};

/// Append `"key":"text"`.
pub(super) fn field(out: &mut String, key: &str, text: &str) {
    out.push('"');
    out.push_str(key);
    out.push_str("\":");
    write_string(out, text);
}

/// Append a string or `null`.
pub(super) fn string_or_null(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => write_string(out, text),
        None => out.push_str("null"),
    }
}

/// Append an integer.
pub(super) fn integer(out: &mut String, n: u64) {
    let _ = write!(out, "{n}");
}

/// Append the entries of all blocks as one array.
pub(super) fn logprob_array<'a>(out: &mut String, blocks: impl IntoIterator<Item = &'a Logprobs>) {
    out.push('[');
    let mut first = true;
    for block in blocks.into_iter().flatten() {
        for (id, entry) in &block.entries {
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            token_logprob(out, block, *id, entry.logprob);
            out.push_str(",\"top_logprobs\":[");
            for (i, (id, logprob)) in entry.top.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                token_logprob(out, block, *id, *logprob);
                out.push('}');
            }
            out.push_str("]}");
        }
    }
    out.push(']');
}

/// Append `{"token":…,"logprob":…,"bytes":[…]` without the closing brace. A token whose bytes are not
/// valid UTF-8 is spelled `\xHH` byte by byte.
fn token_logprob(out: &mut String, block: &TokenText, id: u32, logprob: f32) {
    let tokenizer: &dyn TokenSource = &*block.tokenizer;
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    let token = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "\\x{byte:02x}");
            hex
        })),
    };
    out.push('{');
    field(out, "token", &token);
    out.push_str(",\"logprob\":");
    float32(out, logprob);
    out.push_str(",\"bytes\":[");
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let _ = write!(out, "{byte}");
    }
    out.push(']');
}

/// Append a 32-bit float with its shortest digits: positional for 1e-6 <= |x| < 1e13, else with an exponent.
pub(super) fn float32(out: &mut String, x: f32) {
    if !x.is_finite() {
        out.push_str("null");
        return;
    }
    let magnitude = x.abs();
    if magnitude == 0.0 || (1e-6..1e13).contains(&magnitude) {
        let from = out.len();
        let _ = write!(out, "{x}");
        if !out[from..].contains('.') {
            out.push_str(".0");
        }
        return;
    }
    let text = format!("{x:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => {
            let _ = write!(out, "{mantissa}e+{exponent}");
        }
        _ => out.push_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::float32;

    #[test]
    fn floats_are_spelled_as_in_the_specification() {
        for (x, want) in [
            (-0.1, "-0.1"),
            (-3.3333333, "-3.3333333"),
            (-9999.0, "-9999.0"),
            (-0.000001, "-0.000001"),
            (-9.9e-7, "-9.9e-7"),
            (-1e13, "-1e+13"),
            (-1e20, "-1e+20"),
            (-0.0, "-0.0"),
            (9.99e12, "9990000000000.0"),
            (1.5e-5, "0.000015"),
            (f32::NEG_INFINITY, "null"),
        ] {
            let mut out = String::new();
            float32(&mut out, x);
            assert_eq!(out, want);
        }
    }
}
