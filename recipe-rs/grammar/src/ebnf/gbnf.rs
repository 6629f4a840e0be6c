//! GBNF text to a [`Tree`]: llama.cpp's grammar notation, with XGrammar's and W3C's spellings of it.
//!
//! ```text
//! rule     ::= name "::=" alternatives          # one or more lines, up to the next `name ::=`
//! sequence ::= (atom quantifier* ("-" atom quantifier*)?)*
//! atom     ::= name | "text" | 'text' | [class] | [^class] | . | ( alternatives )
//!            | #x41 | <[token id]> | <token text> | /regex/flags | %json {schema}
//! ```
//! Quantifiers: `? * + {m} {m,} {m,n} {,n}`. Comments: `#` to the end of the line, and `/* … */`.
//! Escapes in texts and classes: `\n \r \t \b \f \v \0 \a \e \\ \" \' \[ \] \- \xHH \uHHHH \UHHHHHHHH
//! \u{H…}`, and a backslash before any other character that is neither a letter nor a digit. `.` is any
//! character but LF and CR. `a - b` is W3C's difference, for regular operands. `#x41` stands for a
//! character where an atom may stand and in classes that hold nothing else (`[#x20-#x7E]`).

use std::collections::HashMap;
use std::ops::Range;

use super::tree::{JsonForm, Node, NodeIx, RuleIx, Tree, UNBOUNDED};
use crate::error::{GrammarError, LimitKind, Result};
use crate::limits::Budget;

/// Parse a grammar. `specials` maps the spelling of special tokens to their ids, for `<text>`.
///
/// # Errors
/// `Syntax` with the spot; `Limit` of `source_bytes` or `source_depth`.
pub(crate) fn parse(
    text: &str,
    specials: &dyn Fn(&str) -> Option<u32>,
    budget: &mut Budget,
) -> Result<Tree> {
    let most = budget.limits.source_bytes;
    if text.len() as u64 > most {
        return Err(GrammarError::limit(
            LimitKind::SourceBytes,
            "grammar text",
            most,
            text.len() as u64,
        ));
    }
    let mut parser = Parser {
        text,
        at: 0,
        tree: Tree::default(),
        names: HashMap::new(),
        specials,
        budget,
    };
    parser.grammar()?;
    Ok(parser.tree)
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    tree: Tree,
    names: HashMap<String, RuleIx>,
    specials: &'a dyn Fn(&str) -> Option<u32>,
    budget: &'a mut Budget,
}

/// A group that is being read; the outermost one is the rule's body.
struct Group {
    start: usize,
    alternatives: Vec<NodeIx>,
    sequence: Vec<NodeIx>,
    sequence_start: usize,
    /// First operand of a difference whose second is awaited.
    minuend: Option<NodeIx>,
}

impl Group {
    fn new(start: usize) -> Self {
        Group {
            start,
            alternatives: Vec::new(),
            sequence: Vec::new(),
            sequence_start: start,
            minuend: None,
        }
    }
}

impl<'a> Parser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>, span: Range<usize>) -> Result<T> {
        Err(GrammarError::syntax(message, span, self.text))
    }

    /// "expected …, found …" at the current spot.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some(c) => format!("{c:?}"),
        };
        let width = self.peek().map_or(0, char::len_utf8);
        self.fail(
            format!("expected {what}, found {found}"),
            self.at..self.at + width,
        )
    }

    /// Skip white space and comments.
    fn skip(&mut self) -> Result<()> {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.text.len() - trimmed.len();
            if trimmed.starts_with('#') && self.hex_char(self.at).is_none() {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return self.fail("comment is not closed: expected */", self.at..self.at + 2);
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// Length of the rule name at `at`; 0 when there is none.
    fn name_len(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        if !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return 0;
        }
        rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .unwrap_or(rest.len())
    }

    /// Is the next thing `name ::=`, the start of another rule?
    fn at_rule(&mut self) -> Result<bool> {
        let (start, len) = (self.at, self.name_len(self.at));
        if len == 0 {
            return Ok(false);
        }
        self.at += len;
        self.skip()?;
        let found = self.rest().starts_with("::=");
        self.at = start;
        Ok(found)
    }

    /// The rule of a name; a rule that is never defined keeps the span of its first use.
    fn rule(&mut self, name: &str, span: Range<usize>) -> RuleIx {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let rule = self.tree.declare(name, span);
        self.names.insert(name.to_owned(), rule);
        rule
    }

    fn grammar(&mut self) -> Result<()> {
        self.skip()?;
        while self.at < self.text.len() {
            let len = self.name_len(self.at);
            if len == 0 {
                return self.expected("a rule name");
            }
            let span = self.at..self.at + len;
            let name = self.text[span.clone()].to_owned();
            self.at = span.end;
            self.skip()?;
            if !self.rest().starts_with("::=") {
                return self.expected(&format!("::= after the rule name {name}"));
            }
            self.at += 3;
            let rule = self.rule(&name, span.clone());
            if self.tree.rules[rule as usize].body.is_some() {
                return self.fail(format!("rule {name} is defined twice"), span);
            }
            self.tree.rules[rule as usize].span = span;
            let body = self.alternatives()?;
            self.tree.define(rule, body)?;
            self.skip()?;
            if let Some(c @ (')' | ']' | '}')) = self.peek() {
                return self.fail(
                    format!("{c} without its opening bracket"),
                    self.at..self.at + 1,
                );
            }
        }
        Ok(())
    }

    /// The body of a rule. Groups are kept on a list, not on the call stack, so nesting costs none.
    fn alternatives(&mut self) -> Result<NodeIx> {
        let mut open = vec![Group::new(self.at)];
        loop {
            self.budget.tick("grammar text")?;
            self.skip()?;
            let depth = open.len();
            let group = open.last_mut().expect("the outermost group is popped last");
            match self.text[self.at..].chars().next() {
                Some('(') => {
                    self.open_group(&mut open)?;
                    continue;
                }
                Some('|') => {
                    self.end_sequence(group)?;
                    self.at += 1;
                    group.sequence_start = self.at;
                    continue;
                }
                Some('-') if !group.sequence.is_empty() && group.minuend.is_none() => {
                    group.minuend = group.sequence.pop();
                    self.at += 1;
                    continue;
                }
                Some(')') if depth > 1 => {
                    self.end_sequence(group)?;
                    self.at += 1;
                    let group = open.pop().expect("depth is above 1");
                    let body = self.end_group(group.alternatives, group.start)?;
                    let item = self.quantified(body, group.start)?;
                    self.add(open.last_mut().expect("depth was above 1"), item)?;
                    continue;
                }
                None | Some(')' | ']' | '}') => {}
                Some(_) => {
                    if !self.at_rule()? {
                        let start = self.at;
                        let atom = self.atom()?;
                        let item = self.quantified(atom, start)?;
                        self.add(group, item)?;
                        continue;
                    }
                }
            }
            if depth > 1 {
                if self.at < self.text.len() && !self.at_rule()? {
                    return self.expected("| or )");
                }
                return self.fail(
                    "group is not closed: expected )",
                    group.start..group.start + 1,
                );
            }
            self.end_sequence(group)?;
            let group = open.pop().expect("depth is 1");
            return self.end_group(group.alternatives, group.start);
        }
    }

    fn open_group(&mut self, open: &mut Vec<Group>) -> Result<()> {
        let (start, most) = (self.at, self.budget.limits.source_depth);
        if open.len() as u64 > most {
            return Err(GrammarError::limit(
                LimitKind::SourceDepth,
                "nested groups",
                most,
                open.len() as u64,
            ));
        }
        self.at += 1;
        self.skip()?;
        if let Some(c @ ('=' | '!')) = self.peek() {
            return self.fail(
                format!("lookahead ({c} …) is not supported"),
                start..self.at + 1,
            );
        }
        open.push(Group::new(start));
        Ok(())
    }

    /// One more item of a sequence; the second operand of a difference completes it.
    fn add(&mut self, group: &mut Group, item: NodeIx) -> Result<()> {
        let item = match group.minuend.take() {
            Some(from) => {
                let start = self.tree.spans[from as usize].start;
                self.tree.push(Node::Minus(from, item), start..self.at)?
            }
            None => item,
        };
        group.sequence.push(item);
        Ok(())
    }

    fn end_sequence(&mut self, group: &mut Group) -> Result<()> {
        if group.minuend.is_some() {
            return self.expected("an element after -");
        }
        let list = std::mem::take(&mut group.sequence);
        let span = group.sequence_start..self.at;
        let node = match list[..] {
            [one] => one,
            [] => self.tree.push(Node::Literal(String::new()), span)?,
            _ => self.tree.push(Node::Seq(list), span)?,
        };
        group.alternatives.push(node);
        Ok(())
    }

    fn end_group(&mut self, list: Vec<NodeIx>, start: usize) -> Result<NodeIx> {
        match list[..] {
            [one] => Ok(one),
            _ => self.tree.push(Node::Alt(list), start..self.at),
        }
    }

    /// An item with the quantifiers behind it.
    fn quantified(&mut self, mut item: NodeIx, start: usize) -> Result<NodeIx> {
        loop {
            self.skip()?;
            let (min, max) = match self.peek() {
                Some('?') => (0, 1),
                Some('*') => (0, UNBOUNDED),
                Some('+') => (1, UNBOUNDED),
                Some('{') => self.counts()?,
                _ => return Ok(item),
            };
            self.at += 1;
            item = self
                .tree
                .push(Node::Repeat(item, min, max), start..self.at)?;
        }
    }

    /// `{m}`, `{m,}`, `{m,n}`, `{,n}`; leaves the position on the closing brace.
    fn counts(&mut self) -> Result<(u32, u32)> {
        let open = self.at;
        self.at += 1;
        let min = self.count()?;
        self.blanks();
        let mut max = min;
        if self.peek() == Some(',') {
            self.at += 1;
            max = self.count()?.or(Some(UNBOUNDED));
            self.blanks();
            if min.is_none() && max == Some(UNBOUNDED) {
                return self.fail("a repetition needs a count", open..self.at);
            }
        }
        if self.peek() != Some('}') {
            return self.expected("a count such as {2}, {2,} or {2,5}");
        }
        let Some(max) = max else {
            return self.fail("a repetition needs a count", open..self.at + 1);
        };
        let min = min.unwrap_or(0);
        if min > max {
            return self.fail(
                format!("repetition with its minimum {min} above its maximum {max}"),
                open..self.at + 1,
            );
        }
        Ok((min, max))
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn count(&mut self) -> Result<Option<u32>> {
        self.blanks();
        let digits = self
            .rest()
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest().len());
        if digits == 0 {
            return Ok(None);
        }
        let span = self.at..self.at + digits;
        self.at = span.end;
        match self.text[span.clone()].parse::<u32>() {
            Ok(n) if n < UNBOUNDED => Ok(Some(n)),
            _ => self.fail(format!("repetition count above {}", UNBOUNDED - 1), span),
        }
    }

    fn atom(&mut self) -> Result<NodeIx> {
        let start = self.at;
        let Some(c) = self.peek() else {
            return self.expected("an element");
        };
        let node = match c {
            '"' | '\'' => Node::Literal(self.quoted(c)?),
            '[' => self.class()?,
            '.' => {
                self.at += 1;
                Node::Class {
                    negated: true,
                    ranges: vec![('\n', '\n'), ('\r', '\r')],
                }
            }
            '<' => Node::Special(self.token()?),
            '/' => self.pattern()?,
            '%' => self.embedded()?,
            '#' => match self.hex_char(self.at) {
                Some((len, Some(c))) => {
                    self.at += len;
                    Node::Class {
                        negated: false,
                        ranges: vec![(c, c)],
                    }
                }
                Some((len, None)) => return self.fail("no such character", start..start + len),
                None => return self.expected("an element"),
            },
            '!' if self.rest().starts_with("!<") => {
                return self.fail("negated tokens (!<…>) are not supported", start..start + 2);
            }
            '?' | '*' | '+' | '{' => {
                return self.fail(
                    format!("quantifier {c} has nothing before it to repeat"),
                    start..start + 1,
                );
            }
            _ => {
                let len = self.name_len(start);
                if len == 0 {
                    return self.expected(
                        "an element: a rule name, \"text\", [class], (group) or <[token id]>",
                    );
                }
                self.at += len;
                let name = self.text[start..self.at].to_owned();
                Node::Rule(self.rule(&name, start..start + len))
            }
        };
        self.tree.push(node, start..self.at)
    }

    /// `<[123]>` or `<text>`: a special token.
    fn token(&mut self) -> Result<u32> {
        let open = self.at;
        let Some(len) = self.rest().find('>') else {
            return self.fail("token is not closed: expected >", open..open + 1);
        };
        let span = open..open + len + 1;
        let inner = self.text[open + 1..open + len].to_owned();
        self.at = span.end;
        if let Some(digits) = inner.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return match digits.trim().parse() {
                Ok(id) => Ok(id),
                Err(_) => self.fail("expected a token id, as in <[128822]>", span),
            };
        }
        match (self.specials)(&self.text[span.clone()]).or_else(|| (self.specials)(&inner)) {
            Some(id) => Ok(id),
            None => self.fail("the vocabulary has no such special token", span),
        }
    }

    /// `/pattern/flags`.
    fn pattern(&mut self) -> Result<Node> {
        let open = self.at;
        let (mut end, mut in_class, mut escaped) = (None, false, false);
        for (i, c) in self.text[open + 1..].char_indices() {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => {
                    end = Some(open + 1 + i);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else {
            return self.fail("pattern is not closed: expected /", open..open + 1);
        };
        let flags: String = self.text[end + 1..]
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect();
        self.at = end + 1 + flags.len();
        Ok(Node::Pattern {
            pattern: self.text[open + 1..end].to_owned(),
            flags,
        })
    }

    /// `%json {schema}`.
    fn embedded(&mut self) -> Result<Node> {
        let start = self.at;
        if !self.rest().starts_with("%json") {
            return self.fail(
                "unknown directive; %json {schema} is the only one",
                start..start + 1,
            );
        }
        self.at += 5;
        self.blanks();
        match json_end(self.rest()) {
            Some(len) => {
                let schema = self.rest()[..len].to_owned();
                self.at += len;
                Ok(Node::Json {
                    schema,
                    form: JsonForm::Value,
                    context: String::new(),
                })
            }
            None => self.fail(
                "expected a JSON Schema: an object in braces, true or false",
                start..self.at,
            ),
        }
    }
}

/// Length of the JSON object (or `true`/`false`) that `text` starts with, strings respected.
pub(crate) fn json_end(text: &str) -> Option<usize> {
    for word in ["true", "false"] {
        if text.starts_with(word) {
            return Some(word.len());
        }
    }
    if !text.starts_with('{') {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (i, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}
