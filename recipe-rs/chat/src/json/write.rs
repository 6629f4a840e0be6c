//! Writing JSON text: compact, and as prompts spell it.

use super::{Number, Value};
use std::fmt::Write;

/// Where a float switches to an exponent, and how the exponent is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatStyle {
    /// Positional for 1e-5 <= |x| < 1e16; `1e-6`, `1e+16`. V4 prompts and all compact JSON.
    Short,
    /// As Python's `repr`: positional for 1e-4 <= |x| < 1e16; `1e-05`, `1e+16`. V4.1 prompts.
    Python,
}

/// Append `value` with separators `,` and `:`.
pub fn write_compact(out: &mut String, value: &Value) {
    write_value(out, value, ",", ":", FloatStyle::Short);
}

/// Append `value` with separators `, ` and `: `.
pub fn write_prompt(out: &mut String, value: &Value, floats: FloatStyle) {
    write_value(out, value, ", ", ": ", floats);
}

fn write_value(out: &mut String, value: &Value, comma: &str, colon: &str, floats: FloatStyle) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, *number, floats),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                write_value(out, item, comma, colon, floats);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (i, (key, member)) in object.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                write_string(out, key);
                out.push_str(colon);
                write_value(out, member, comma, colon, floats);
            }
            out.push('}');
        }
    }
}

/// Append `text` as a JSON string: only `"`, `\` and U+0000..U+001F are escaped.
pub fn write_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            other => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{other:04x}");
            }
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

pub(super) fn write_number(out: &mut String, number: Number, floats: FloatStyle) {
    let _ = match number {
        Number::U64(n) => write!(out, "{n}"),
        Number::I64(n) => write!(out, "{n}"),
        Number::F64(x) => {
            write_float(out, x, floats);
            Ok(())
        }
    };
}

/// Shortest digits that read back as `x`, which must be finite.
pub(super) fn write_float(out: &mut String, x: f64, floats: FloatStyle) {
    if x == 0.0 {
        out.push_str(if x.is_sign_negative() { "-0.0" } else { "0.0" });
        return;
    }
    // `{:e}` gives the shortest round-trip digits as `d.ddde-7`.
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let lowest = match floats {
        FloatStyle::Short => -5,
        FloatStyle::Python => -4,
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    if !(lowest..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = match floats {
            FloatStyle::Short => write!(out, "{mantissa}e{sign}{}", exponent.abs()),
            FloatStyle::Python => write!(out, "{mantissa}e{sign}{:02}", exponent.abs()),
        };
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
        return;
    }
    let integral = exponent as usize + 1;
    if digits.len() <= integral {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', integral - digits.len()));
        out.push_str(".0");
    } else {
        out.push_str(&digits[..integral]);
        out.push('.');
        out.push_str(&digits[integral..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(x: f64, style: FloatStyle) -> String {
        let mut out = String::new();
        write_float(&mut out, x, style);
        out
    }

    #[test]
    fn floats_switch_to_exponents_where_each_style_says() {
        for (x, short, python) in [
            (1e-5, "0.00001", "1e-05"),
            (1.5e-5, "0.000015", "1.5e-05"),
            (1e-4, "0.0001", "0.0001"),
            (1e-7, "1e-7", "1e-07"),
            (1e15, "1000000000000000.0", "1000000000000000.0"),
            (1e16, "1e+16", "1e+16"),
            (-2.5e-10, "-2.5e-10", "-2.5e-10"),
            (123.456, "123.456", "123.456"),
            (5e-324, "5e-324", "5e-324"),
            (
                1.7976931348623157e308,
                "1.7976931348623157e+308",
                "1.7976931348623157e+308",
            ),
            (-0.0, "-0.0", "-0.0"),
            (100.0, "100.0", "100.0"),
        ] {
            assert_eq!(float(x, FloatStyle::Short), short);
            assert_eq!(float(x, FloatStyle::Python), python);
        }
    }

    #[test]
    fn strings_escape_only_what_json_must() {
        let mut out = String::new();
        write_string(&mut out, "a\"\\/\u{0}\u{1f}\u{7f}\u{2028}\u{8}\u{c}é😀");
        assert_eq!(out, "\"a\\\"\\\\/\\u0000\\u001f\u{7f}\u{2028}\\b\\fé😀\"");
    }
}
