//! What no token of a vocabulary can do, as far as JSON text goes.
//!
//! A mask asks about one token at a time. Which keys of an object have been used matters to it only as far
//! as some token reaches the next key; in real vocabularies hardly any does. So states that no token can
//! tell apart share their masks (`Machine::canonical`). All facts hold for every rest of a token too.

use rustc_hash::FxHashSet;

/// Facts about the ordinary tokens of a vocabulary.
#[derive(Debug, Default)]
pub struct TokenFacts {
    /// Bytes of the longest token.
    pub longest: u32,
    /// No token holds `,` or `{`, white space, a quote, and anything after it: none goes on inside a key or
    /// string that it opened behind another value.
    pub no_key_inside: bool,
    /// No token holds a quote, white space, a colon, and later `,` or `}`: none passes a member whole.
    pub no_member_passed: bool,
    /// Texts between two quotes of one token, decoded: the keys that one token can write whole.
    pub quoted: FxHashSet<Box<str>>,
}

fn after_space(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && matches!(text[at], b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    at
}

impl TokenFacts {
    /// Look at all tokens once.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut facts = TokenFacts {
            longest: 0,
            no_key_inside: true,
            no_member_passed: true,
            quoted: FxHashSet::default(),
        };
        for token in tokens {
            facts.longest = facts.longest.max(token.len() as u32);
            if token.contains(&b'"') {
                facts.look_at(token);
            }
        }
        facts
    }

    fn look_at(&mut self, token: &[u8]) {
        let mut quotes: Vec<usize> = Vec::new();
        for (i, &byte) in token.iter().enumerate() {
            if matches!(byte, b',' | b'{') {
                let at = after_space(token, i + 1);
                self.no_key_inside &= at + 1 >= token.len() || token[at] != b'"';
            }
            if byte == b'"' {
                let at = after_space(token, i + 1);
                let passes = token.get(at) == Some(&b':')
                    && token[at..].iter().any(|b| matches!(b, b',' | b'}'));
                self.no_member_passed &= !passes;
                for &from in &quotes {
                    let inner = std::str::from_utf8(&token[from + 1..i]).ok();
                    if let Some(text) = inner.and_then(crate::json_schema::unquoted) {
                        self.quoted.insert(text.into());
                    }
                }
                quotes.push(i);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TokenFacts;

    fn facts(tokens: &[&str]) -> TokenFacts {
        TokenFacts::new(tokens.iter().map(|t| t.as_bytes()))
    }

    #[test]
    fn tokens_that_reach_into_the_next_key_are_noticed() {
        let plain = facts(&["\",", "\"}", ", \"", "{\"", "\":{\"", "\"name", "\": \""]);
        assert!(plain.no_key_inside && plain.no_member_passed && plain.longest == 5);
        assert!(!facts(&["x\", \"y"]).no_key_inside);
        assert!(!facts(&["{ \n\"\""]).no_key_inside);
        assert!(!facts(&["\" : 1,"]).no_member_passed);
        assert!(!facts(&["\":{}"]).no_member_passed);
    }

    #[test]
    fn whole_strings_of_a_token_are_decoded() {
        let quoted = facts(&["\"a\\u0062\"", "\"\\x\"", "\"\"\""]).quoted;
        let mut found: Vec<&str> = quoted.iter().map(|s| &**s).collect();
        found.sort_unstable();
        assert_eq!(found, ["", "ab"]);
    }
}
