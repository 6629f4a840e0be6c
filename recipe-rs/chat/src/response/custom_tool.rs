//! The input text of a custom tool, extracted from the fragments of its JSON arguments.

/// Reads `{"input": "…"` while it streams. Anything else passes unchanged.
#[derive(Debug, Default)]
pub(super) struct InputReader {
    state: State,
    /// Text not decided yet: the head, or an incomplete escape.
    kept: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Not of the expected shape: every fragment is output as it is.
    Raw,
    InString,
    Done,
}

enum Head {
    Open(usize),
    Possible,
    Wrong,
}

enum Escape {
    /// Decoded character and length in bytes.
    Char(char, usize),
    /// Invalid: length of the text that is output literally.
    Literal(usize),
    Incomplete,
}

impl InputReader {
    /// Take a fragment; returns the text to output, possibly empty.
    pub(super) fn push(&mut self, fragment: &str) -> String {
        match self.state {
            State::Raw => fragment.to_owned(),
            State::Done => String::new(),
            State::Head => {
                self.kept.push_str(fragment);
                match match_head(&self.kept) {
                    Head::Possible => String::new(),
                    Head::Wrong => {
                        self.state = State::Raw;
                        std::mem::take(&mut self.kept)
                    }
                    Head::Open(end) => {
                        self.state = State::InString;
                        let rest = self.kept.split_off(end);
                        self.kept.clear();
                        self.decode(&rest)
                    }
                }
            }
            State::InString => {
                let mut text = std::mem::take(&mut self.kept);
                text.push_str(fragment);
                self.decode(&text)
            }
        }
    }

    /// What is left at the end: an undecided head or an incomplete escape, as it is.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.kept)
    }

    fn decode(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(found) = text[at..].find(['"', '\\']) {
            out.push_str(&text[at..at + found]);
            at += found;
            if text.as_bytes()[at] == b'"' {
                self.state = State::Done;
                return out;
            }
            match read_escape(&text[at..]) {
                Escape::Char(c, len) => {
                    out.push(c);
                    at += len;
                }
                Escape::Literal(len) => {
                    out.push_str(&text[at..at + len]);
                    at += len;
                }
                Escape::Incomplete => {
                    text[at..].clone_into(&mut self.kept);
                    return out;
                }
            }
        }
        out.push_str(&text[at..]);
        out
    }
}

/// Match `{ ws "input" ws : ws "` at the beginning of `text`.
fn match_head(text: &str) -> Head {
    let mut rest = text;
    for (i, literal) in ["{", "\"input\"", ":", "\""].into_iter().enumerate() {
        if i > 0 {
            rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        }
        match rest.strip_prefix(literal) {
            Some(after) => rest = after,
            None if literal.starts_with(rest) => return Head::Possible,
            None => return Head::Wrong,
        }
    }
    Head::Open(text.len() - rest.len())
}

/// Read the escape at the beginning of `text`, which starts with a backslash.
fn read_escape(text: &str) -> Escape {
    let Some(kind) = text[1..].chars().next() else {
        return Escape::Incomplete;
    };
    let simple = match kind {
        '"' | '\\' | '/' => kind,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return read_unicode_escape(text),
        _ => return Escape::Literal(1 + kind.len_utf8()),
    };
    Escape::Char(simple, 2)
}

fn read_unicode_escape(text: &str) -> Escape {
    let first = match read_hex(text, 2) {
        Ok(unit) => unit,
        Err(escape) => return escape,
    };
    if !(0xD800..0xE000).contains(&first) {
        return char::from_u32(first).map_or(Escape::Literal(6), |c| Escape::Char(c, 6));
    }
    if first >= 0xDC00 {
        return Escape::Literal(6);
    }
    for (at, want) in [(6, '\\'), (7, 'u')] {
        match text[at..].chars().next() {
            None => return Escape::Incomplete,
            Some(c) if c == want => {}
            Some(c) => return Escape::Literal(at + c.len_utf8()),
        }
    }
    let second = match read_hex(text, 8) {
        Ok(unit) => unit,
        Err(escape) => return escape,
    };
    if !(0xDC00..0xE000).contains(&second) {
        return Escape::Literal(12);
    }
    let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    char::from_u32(code).map_or(Escape::Literal(12), |c| Escape::Char(c, 12))
}

/// Four hexadecimal digits at byte `from`.
fn read_hex(text: &str, from: usize) -> Result<u32, Escape> {
    let mut unit = 0;
    let mut chars = text[from..].chars();
    for i in 0..4 {
        let Some(c) = chars.next() else {
            return Err(Escape::Incomplete);
        };
        let Some(digit) = c.to_digit(16) else {
            return Err(Escape::Literal(from + i + c.len_utf8()));
        };
        unit = unit * 16 + digit;
    }
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fragments: &[&str]) -> String {
        let mut reader = InputReader::default();
        let mut out: String = fragments.iter().map(|f| reader.push(f)).collect();
        out.push_str(&reader.finish());
        out
    }

    #[test]
    fn extracts_the_input_for_every_split() {
        for (json, want) in [
            (
                r#"{"input": "a\n\"b\"\u00e9\ud83d\ude00", "x": 1}"#,
                "a\n\"b\"é😀",
            ),
            (r#"{"patch": "a"}"#, r#"{"patch": "a"}"#),
            (r#"{"input": 5}"#, r#"{"input": 5}"#),
            (r#"{ "input" : "\x\u00zz\ud83dq""#, r"\x\u00zz\ud83dq"),
            (r#"{"inp"#, r#"{"inp"#),
            (r#"{"input": "a\u00"#, r"a\u00"),
        ] {
            let chars: Vec<String> = json.chars().map(String::from).collect();
            assert_eq!(read(&[json]), want);
            assert_eq!(
                read(&chars.iter().map(String::as_str).collect::<Vec<_>>()),
                want
            );
        }
    }
}
