//! Tolerant reading of DSML tags.
//!
//! Every function looks at a prefix of the text that decides its answer, or says [`Read::More`]; with
//! `last` set there is no more. So the answer never depends on where the text was cut into chunks.

/// Attribute values, words and blanks longer than this are not markup.
const MAX_TAG_BYTES: usize = 1024;
const MAX_BLANKS: usize = 8;
const MAX_WORD: usize = 32;

/// Outcome of reading at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    Yes(T),
    No,
    /// Undecided: the text ends too early.
    More,
}

/// What a tag is about, by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Block,
    Invoke,
    Parameter,
    /// No word, or one that is not known (closing tags only).
    Other,
}

/// The beginning of a tag up to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) closing: bool,
    /// Position of the DSML token; `None` for a plain tag such as `<parameter`.
    pub(super) marker: Option<usize>,
    /// Spelled exactly: `<`, token, word, nothing between or damaged.
    pub(super) clean: bool,
    pub(super) word: Word,
    /// Position after the word.
    pub(super) end: usize,
}

/// Read the head of a tag at `at`, where `text` has a `<`. Plain tags (without the DSML token) count only
/// with `plain`, and only with a known word.
pub(super) fn read_head(text: &str, at: usize, dsml: &str, plain: bool, last: bool) -> Read<Head> {
    let mut pos = match skip_blanks(text, at + 1, last, false) {
        Read::Yes(pos) => pos,
        Read::More => return Read::More,
        Read::No => return Read::No,
    };
    let mut clean = pos == at + 1;
    let mut closing = false;
    if text[pos..].starts_with('/') {
        closing = true;
        pos = match skip_blanks(text, pos + 1, last, false) {
            Read::Yes(next) => {
                clean &= next == pos + 1;
                next
            }
            other => return other.forget(),
        };
    }
    let marker = match read_marker(text, pos, dsml, last) {
        Read::Yes((end, exact)) => {
            let marker = pos;
            clean &= exact;
            pos = end;
            Some(marker)
        }
        Read::No if !plain => return Read::No,
        Read::No => None,
        Read::More => return Read::More,
    };
    if marker.is_some() {
        if text[pos..].starts_with('/') && !closing {
            closing = true;
            clean = false;
            pos += 1;
        }
        // `<D>invoke …`: a stray `>` before the word of an opening tag.
        pos = match skip_blanks(text, pos, last, !closing) {
            Read::Yes(next) => {
                clean &= next == pos || text[pos..next] == *" ";
                next
            }
            other => return other.forget(),
        };
    }
    let rest = &text[pos..];
    let len = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
        .unwrap_or(rest.len());
    if len > MAX_WORD {
        return Read::No;
    }
    if len == rest.len() && !last {
        return Read::More;
    }
    let word = classify(&rest[..len]);
    let known = word != Word::Other;
    if !known && (marker.is_none() || !closing) {
        return Read::No;
    }
    clean &= marker.is_some()
        && matches!(
            &rest[..len],
            "tool_calls" | "calls" | "invoke" | "parameter"
        );
    Read::Yes(Head {
        closing,
        marker,
        clean,
        word,
        end: pos + len,
    })
}

impl<T> Read<T> {
    fn forget<U>(self) -> Read<U> {
        match self {
            Read::More => Read::More,
            Read::Yes(_) | Read::No => Read::No,
        }
    }
}

fn classify(word: &str) -> Word {
    let word: String = word
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match word.as_str() {
        "toolcalls" | "toolcall" | "calls" | "functioncalls" | "functioncall" | "tools" => {
            Word::Block
        }
        "invoke" | "invokes" | "invoked" => Word::Invoke,
        "parameter" | "parameters" | "param" | "params" => Word::Parameter,
        _ => Word::Other,
    }
}

fn skip_blanks(text: &str, from: usize, last: bool, or_gt: bool) -> Read<usize> {
    let rest = &text[from..];
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r') || (or_gt && c == '>');
    let len = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
    if len > MAX_BLANKS {
        return Read::No;
    }
    if len == rest.len() && !last {
        return Read::More;
    }
    Read::Yes(from + len)
}

/// The DSML token at `at`: as spelled in the mapping, or `DSML` between zero to two full-width or ASCII bars
/// on each side. Returns the position after it and whether it is spelled exactly.
fn read_marker(text: &str, at: usize, dsml: &str, last: bool) -> Read<(usize, bool)> {
    let rest = &text[at..];
    if !dsml.is_empty() && rest.starts_with(dsml) {
        return Read::Yes((at + dsml.len(), true));
    }
    let may_grow = !last && dsml.starts_with(rest);
    let bars = |from: usize| {
        text[from..]
            .chars()
            .take(2)
            .take_while(|c| matches!(c, '｜' | '|'))
            .map(char::len_utf8)
    };
    let word = at + bars(at).sum::<usize>();
    let tail = &text[word..];
    if !tail.starts_with("DSML") {
        return if may_grow || (!last && "DSML".starts_with(tail)) {
            Read::More
        } else {
            Read::No
        };
    }
    let end = word + "DSML".len();
    let num_bars = bars(end).count();
    let after = end + bars(end).sum::<usize>();
    if after == text.len() && num_bars < 2 && !last {
        return Read::More;
    }
    Read::Yes((after, false))
}

/// Attributes of an opening tag and the position after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// The `name` attribute.
    pub(super) name: Option<String>,
    /// The `string` attribute: true, false, or neither.
    pub(super) string: Option<bool>,
    /// The tag has its `>`.
    pub(super) finished: bool,
    /// Written exactly as the format asks.
    pub(super) clean: bool,
    pub(super) end: usize,
}

/// Read attributes from `from` (after the word) to the end of the tag. `No`: the tag never ends.
pub(super) fn read_attributes(text: &str, from: usize, dsml: &str, last: bool) -> Read<Attributes> {
    let mut attributes = Attributes::default();
    let mut pos = from;
    loop {
        let rest = &text[pos..];
        pos += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '/']).len();
        if pos - from > MAX_TAG_BYTES {
            return Read::No;
        }
        let Some(c) = text[pos..].chars().next() else {
            return if last { Read::No } else { Read::More };
        };
        if c == '>' || c == '<' {
            attributes.finished = c == '>';
            attributes.end = pos + usize::from(c == '>');
            attributes.clean = is_clean(&text[from..attributes.end], &attributes);
            return Read::Yes(attributes);
        }
        let key_len = text[pos..]
            .find([' ', '\t', '\n', '\r', '=', '>', '<', '"', '\''])
            .unwrap_or(text.len() - pos);
        if pos + key_len == text.len() && !last {
            return if key_len > MAX_TAG_BYTES {
                Read::No
            } else {
                Read::More
            };
        }
        let key = &text[pos..pos + key_len];
        pos += key_len;
        let after_blanks = pos + text[pos..].len()
            - text[pos..]
                .trim_start_matches([' ', '\t', '\n', '\r'])
                .len();
        if after_blanks == text.len() && !last {
            return if after_blanks - from > MAX_TAG_BYTES {
                Read::No
            } else {
                Read::More
            };
        }
        let value = if text[after_blanks..].starts_with('=') {
            let start = after_blanks + 1;
            let start = start + text[start..].len()
                - text[start..]
                    .trim_start_matches([' ', '\t', '\n', '\r'])
                    .len();
            match read_value(text, start, dsml, last) {
                Read::Yes((value, end)) => {
                    pos = end;
                    Some(value)
                }
                other => return other.forget(),
            }
        } else if key.is_empty() {
            // A quoted value without a key, or a stray character.
            match read_value(text, pos, dsml, last) {
                Read::Yes((value, end)) => {
                    pos = end;
                    Some(value)
                }
                other => return other.forget(),
            }
        } else {
            None
        };
        let truth = |v: &str| match v.trim().to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        match (key.to_ascii_lowercase().as_str(), value) {
            ("name", Some(value)) if attributes.name.is_none() => attributes.name = Some(value),
            ("string", Some(value)) => attributes.string = truth(&value),
            ("", Some(value)) if attributes.string.is_none() => attributes.string = truth(&value),
            _ => {}
        }
    }
}

fn is_clean(tag: &str, attributes: &Attributes) -> bool {
    let Some(name) = &attributes.name else {
        return false;
    };
    match attributes.string {
        None => tag == format!(" name=\"{name}\">"),
        Some(string) => tag == format!(" name=\"{name}\" string=\"{string}\">"),
    }
}

/// An attribute value at `at`. A quote closes it only where the tag can go on after it, so quotes inside
/// names survive; without a closing quote the value ends with the line, the tag or the next tag.
fn read_value(text: &str, at: usize, dsml: &str, last: bool) -> Read<(String, usize)> {
    let Some(quote) = text[at..].chars().next() else {
        return if last {
            Read::Yes((String::new(), at))
        } else {
            Read::More
        };
    };
    if quote != '"' && quote != '\'' {
        let rest = &text[at..];
        let len = rest
            .find([' ', '\t', '\n', '\r', '>', '<'])
            .unwrap_or(rest.len());
        if len == rest.len() && !last {
            return if len > MAX_TAG_BYTES {
                Read::No
            } else {
                Read::More
            };
        }
        return Read::Yes((rest[..len].to_owned(), at + len));
    }
    let start = at + 1;
    let mut pos = start;
    loop {
        let rest = &text[pos..];
        let Some(found) = rest
            .find([quote, '<'])
            .filter(|f| pos + f - start <= MAX_TAG_BYTES)
        else {
            if rest.len() + pos - start > MAX_TAG_BYTES || last {
                return Read::Yes(unclosed(text, start));
            }
            return Read::More;
        };
        pos += found;
        if text[pos..].starts_with('<') {
            match read_head(text, pos, dsml, false, last) {
                Read::Yes(_) => return Read::Yes(unclosed(text, start)),
                Read::More => return Read::More,
                Read::No => pos += 1,
            }
            continue;
        }
        match ends_value(&text[pos + 1..], last) {
            Read::Yes(()) => return Read::Yes((text[start..pos].replace("\\\"", "\""), pos + 1)),
            Read::More => return Read::More,
            Read::No => pos += 1,
        }
    }
}

/// Whether a tag can go on with `rest` directly after an attribute value.
fn ends_value(rest: &str, last: bool) -> Read<()> {
    match rest.chars().next() {
        None if last => return Read::Yes(()),
        None => return Read::More,
        Some(' ' | '\t' | '\n' | '\r' | '>' | '/' | '<') => return Read::Yes(()),
        Some(_) => {}
    }
    // The next attribute without a blank before it.
    for key in ["string=", "name="] {
        if rest.starts_with(key) {
            return Read::Yes(());
        }
        if !last && key.starts_with(rest) {
            return Read::More;
        }
    }
    Read::No
}

fn unclosed(text: &str, start: usize) -> (String, usize) {
    let rest = &text[start..];
    let len = rest.find(['>', '\n', '<']).unwrap_or(rest.len());
    (rest[..len].trim_end().to_owned(), start + len)
}

/// End of a tag whose attributes do not matter: after the `>` that follows its word. What else follows the
/// word is no part of it, so that no text is lost. `None`: undecided.
pub(super) fn end_of_tag(text: &str, from: usize, last: bool) -> Option<usize> {
    match skip_blanks(text, from, last, false) {
        Read::Yes(end) if text[end..].starts_with('>') => Some(end + 1),
        Read::Yes(_) | Read::No => Some(from),
        Read::More => None,
    }
}

/// Whether the text ends inside a closing tag that begins at `at`.
pub(super) fn is_cut_closing_tag(text: &str, at: usize, dsml: &str) -> bool {
    text[at..].starts_with("</") && read_head(text, at, dsml, false, false) == Read::More
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "｜DSML｜";

    fn head(text: &str) -> Option<(bool, Word, bool)> {
        match read_head(text, 0, D, true, true) {
            Read::Yes(h) => Some((h.closing, h.word, h.clean)),
            _ => None,
        }
    }

    #[test]
    fn heads_of_damaged_tags() {
        assert_eq!(
            head("<｜DSML｜invoke name"),
            Some((false, Word::Invoke, true))
        );
        assert_eq!(
            head("<｜DSML｜ invoke name"),
            Some((false, Word::Invoke, true))
        );
        assert_eq!(
            head("</｜DSML｜tool_calls>"),
            Some((true, Word::Block, true))
        );
        assert_eq!(head("<|DSML|toolcalls>"), Some((false, Word::Block, false)));
        assert_eq!(
            head("< ｜DSML｜ param "),
            Some((false, Word::Parameter, false))
        );
        assert_eq!(
            head("<｜DSML｜>invoke name"),
            Some((false, Word::Invoke, false))
        );
        assert_eq!(head("</｜DSML｜>"), Some((true, Word::Other, false)));
        assert_eq!(
            head("<parameter name"),
            Some((false, Word::Parameter, false))
        );
        assert_eq!(head("<｜DSML｜x"), None);
        assert_eq!(head("<b>"), None);
    }

    #[test]
    fn attributes_survive_odd_names() {
        let read = |text: &str| match read_attributes(text, 0, D, true) {
            Read::Yes(a) => (a.name, a.string),
            _ => (None, None),
        };
        let name = |s: &str| Some(s.to_owned());
        assert_eq!(
            read(r#" name="a b" string="true">"#),
            (name("a b"), Some(true))
        );
        assert_eq!(
            read(r#" name=" string= x" string="true">"#),
            (name(" string= x"), Some(true))
        );
        assert_eq!(
            read(r#" name="c\"d" string="false">"#),
            (name("c\"d"), Some(false))
        );
        assert_eq!(read(r#" string='TRUE' name=a>"#), (name("a"), Some(true)));
        assert_eq!(read(r#" name="a"string="true">"#), (name("a"), Some(true)));
        assert_eq!(read(r#" name="a" "true">"#), (name("a"), Some(true)));
        assert_eq!(
            read(" name=\"g\n<｜DSML｜parameter name=\"a\">"),
            (name("g"), None)
        );
        assert_eq!(read(r#" name="">"#), (name(""), None));
    }

    #[test]
    fn a_prefix_never_answers_differently() {
        for text in [
            "<｜DSML｜invoke name=\"a\" x=\"y\">",
            "</｜DSML｜>",
            "<|DSML|toolcalls>",
            "<parameter name='q' string=true >",
            "<｜DSMLx",
            "< / DSML x>",
        ] {
            let whole = read_head(text, 0, D, true, true);
            for (cut, _) in text.char_indices().skip(1) {
                match read_head(&text[..cut], 0, D, true, false) {
                    Read::More => {}
                    answer => assert_eq!(answer, whole, "{text} cut at {cut}"),
                }
            }
        }
    }
}
