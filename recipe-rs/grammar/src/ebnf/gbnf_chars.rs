//! Texts, classes and escapes of the GBNF dialect, character by character.

use super::gbnf::Parser;
use super::tree::Node;
use crate::error::Result;

impl Parser<'_> {
    pub(super) fn quoted(&mut self, quote: char) -> Result<String> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    return self.fail(
                        format!("text is not closed: expected {quote}"),
                        open..open + 1,
                    );
                }
                Some(c) if c == quote => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(_) => out.push(self.character()?),
            }
        }
    }

    /// One character or escape of a text or class.
    fn character(&mut self) -> Result<char> {
        let start = self.at;
        let Some(c) = self.peek() else {
            return self.expected("a character");
        };
        self.at += c.len_utf8();
        if c != '\\' {
            return Ok(c);
        }
        let Some(e) = self.peek() else {
            return self.fail("backslash at the end", start..self.at);
        };
        self.at += e.len_utf8();
        Ok(match e {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            '0' => '\0',
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'x' => return self.hex(start, 2),
            'u' if self.peek() == Some('{') => {
                self.at += 1;
                let len = self.rest().find('}').filter(|&n| (1..=8).contains(&n));
                let Some(len) = len else {
                    return self.fail("expected \\u{hexadecimal}", start..self.at);
                };
                let c = self.hex(start, len)?;
                self.at += 1;
                c
            }
            'u' => return self.hex(start, 4),
            'U' => return self.hex(start, 8),
            e if e.is_alphanumeric() => {
                return self.fail(
                    format!("unknown escape \\{e}; write the characters out"),
                    start..self.at,
                );
            }
            e => e,
        })
    }

    fn hex(&mut self, start: usize, digits: usize) -> Result<char> {
        let Some(text) = self
            .rest()
            .get(..digits)
            .filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))
        else {
            return self.fail(
                format!("expected {digits} hexadecimal digits"),
                start..self.at,
            );
        };
        let value = u32::from_str_radix(text, 16).unwrap_or(u32::MAX);
        self.at += digits;
        match char::from_u32(value) {
            Some(c) => Ok(c),
            None => self.fail(format!("U+{value:04X} is not a character"), start..self.at),
        }
    }

    /// `#x` and hexadecimal digits at `at`: length and character.
    pub(super) fn hex_char(&self, at: usize) -> Option<(usize, Option<char>)> {
        let digits = self.text[at..].strip_prefix("#x")?;
        let len = digits
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(digits.len());
        if len == 0 || digits[len..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        Some((
            len + 2,
            u32::from_str_radix(&digits[..len], 16)
                .ok()
                .and_then(char::from_u32),
        ))
    }

    pub(super) fn class(&mut self) -> Result<Node> {
        let open = self.at;
        self.at += 1;
        let negated = self.peek() == Some('^');
        self.at += usize::from(negated);
        let w3c = self.is_w3c_class();
        let mut ranges = Vec::new();
        loop {
            let start = self.at;
            match self.peek() {
                None | Some('\n') => {
                    return self.fail("class is not closed: expected ]", open..open + 1)
                }
                Some(']') => break,
                Some(_) => {}
            }
            let low = self.class_character(w3c)?;
            let mut high = low;
            if self.peek() == Some('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                if matches!(self.peek(), None | Some('\n')) {
                    return self.fail("class is not closed: expected ]", open..open + 1);
                }
                high = self.class_character(w3c)?;
            }
            if low > high {
                return self.fail(
                    format!("range from {low:?} down to {high:?}"),
                    start..self.at,
                );
            }
            ranges.push((low, high));
        }
        self.at += 1;
        if ranges.is_empty() {
            return self.fail("class without characters", open..self.at);
        }
        Ok(Node::Class { negated, ranges })
    }

    fn class_character(&mut self, w3c: bool) -> Result<char> {
        if !w3c {
            return self.character();
        }
        match self.hex_char(self.at) {
            Some((len, Some(c))) => {
                self.at += len;
                Ok(c)
            }
            _ => self.fail("no such character", self.at..self.at + 2),
        }
    }

    /// Whether the class from here on is only `#xH` and `#xH-#xH`.
    fn is_w3c_class(&self) -> bool {
        let Some(end) = self.rest().find(']') else {
            return false;
        };
        let body = &self.rest()[..end];
        let is_code =
            |part: &str| part.len() > 1 && part[1..].bytes().all(|b| b.is_ascii_hexdigit());
        body.starts_with("#x")
            && body[1..].split('#').all(|part| {
                let part = part.strip_suffix('-').unwrap_or(part);
                part.starts_with('x') && is_code(part)
            })
    }
}
