//! Pre-tokenization: cutting a text into the words that BPE works on.
//!
//! Known pre-tokenizers run as hand-made scanners (`deepseek.rs`, `gpt2.rs`) whose equality with the
//! patterns is tested; any other `Split` goes through `fancy-regex`.

mod classes;
mod cursor;
mod deepseek;
mod general;
mod gpt2;

use serde_json::Value;

use super::error::TokenizerError;
use super::file::component_type;
use general::Pattern;

/// One pre-tokenizer of the file; each works on the pieces of the one before.
#[derive(Debug)]
enum Step {
    DeepSeek,
    Gpt2,
    /// `Digits` with `individual_digits`: every number character is a piece.
    Digits,
    Split(Box<Pattern>),
}

/// The pre-tokenizers of a file, in order.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    steps: Vec<Step>,
}

impl PreTokenizer {
    /// Read `pre_tokenizer`; refuses, by name, what is not known to be exact.
    pub(super) fn from_json(value: Option<&Value>) -> Result<Self, TokenizerError> {
        let mut steps = Vec::new();
        let mut byte_level = false;
        if let Some(value) = value {
            read(value, "pre_tokenizer", &mut steps, &mut byte_level)?;
        }
        if !byte_level {
            return Err(TokenizerError::unsupported(
                "pre_tokenizer",
                "a BPE model that is not byte-level (no \"ByteLevel\" pre-tokenizer)",
            ));
        }
        Ok(Self { steps: fuse(steps) })
    }

    /// Whether every step is a hand-made scanner.
    pub(super) fn is_fast(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Split(_)))
    }

    /// Call `emit` with every piece of `text`, in order; the pieces make up the whole text.
    ///
    /// # Errors
    /// `TokenizerError::Pattern` when a general pattern hits its backtracking limit.
    #[inline]
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
        mut emit: impl FnMut(&'t str),
    ) -> Result<(), TokenizerError> {
        match self.steps.as_slice() {
            [Step::DeepSeek] => deepseek::split(text, &mut |a, b| emit(&text[a..b])),
            [Step::Gpt2] => gpt2::split(text, &mut |a, b| emit(&text[a..b])),
            [Step::Digits, Step::Gpt2] => digits(text, &mut |a, b| {
                let piece = &text[a..b];
                gpt2::split(piece, &mut |a, b| emit(&piece[a..b]));
            }),
            steps => return run(steps, text, &mut emit),
        }
        Ok(())
    }
}

/// The plain way: every step on every piece.
fn run<'t>(
    steps: &[Step],
    text: &'t str,
    emit: &mut dyn FnMut(&'t str),
) -> Result<(), TokenizerError> {
    let Some((step, rest)) = steps.split_first() else {
        if !text.is_empty() {
            emit(text);
        }
        return Ok(());
    };
    let mut result = Ok(());
    let mut piece = |a: usize, b: usize| {
        if result.is_ok() {
            result = run(rest, &text[a..b], &mut *emit);
        }
    };
    match step {
        Step::DeepSeek => deepseek::split(text, &mut piece),
        Step::Gpt2 => gpt2::split(text, &mut piece),
        Step::Digits => digits(text, &mut piece),
        Step::Split(pattern) => pattern.split(text, &mut piece)?,
    }
    result
}

fn digits(text: &str, emit: &mut impl FnMut(usize, usize)) {
    let cursor = cursor::Cursor::new(text);
    let mut at = 0;
    let mut start = 0;
    while at < text.len() {
        let (class, len) = cursor.class(at);
        if class & classes::N != 0 {
            if start < at {
                emit(start, at);
            }
            start = at + len;
            emit(at, start);
        }
        at += len;
    }
    if start < at {
        emit(start, at);
    }
}

/// Replace the three DeepSeek patterns by the fused scanner.
fn fuse(steps: Vec<Step>) -> Vec<Step> {
    let fused = steps.len() == deepseek::PATTERNS.len()
        && std::iter::zip(&steps, deepseek::PATTERNS)
            .all(|(step, known)| matches!(step, Step::Split(p) if p.source() == known));
    if fused {
        vec![Step::DeepSeek]
    } else {
        steps
    }
}

fn read(
    value: &Value,
    part: &str,
    steps: &mut Vec<Step>,
    byte_level: &mut bool,
) -> Result<(), TokenizerError> {
    let kind = component_type(value);
    let flag = |name: &str, default: bool| match value.get(name) {
        None => Ok(default),
        Some(Value::Bool(b)) => Ok(*b),
        Some(other) => Err(TokenizerError::invalid(
            format!("{part}.{name}"),
            format!("{other} is not a boolean"),
        )),
    };
    if *byte_level {
        return Err(TokenizerError::unsupported(
            part,
            format!("pre-tokenizer {kind:?} after \"ByteLevel\""),
        ));
    }
    match kind {
        "Sequence" => {
            let items = value.get("pretokenizers").and_then(Value::as_array);
            let items = items.ok_or_else(|| {
                TokenizerError::invalid(part, "a Sequence without \"pretokenizers\"")
            })?;
            for (i, item) in items.iter().enumerate() {
                read(
                    item,
                    &format!("{part}.pretokenizers[{i}]"),
                    steps,
                    byte_level,
                )?;
            }
        }
        "ByteLevel" => {
            if flag("add_prefix_space", true)? {
                return Err(TokenizerError::unsupported(
                    format!("{part}.add_prefix_space"),
                    "add_prefix_space",
                ));
            }
            if flag("use_regex", true)? {
                steps.push(Step::Gpt2);
            }
            *byte_level = true;
        }
        "Digits" => {
            if !flag("individual_digits", false)? {
                return Err(TokenizerError::unsupported(
                    part,
                    "pre-tokenizer \"Digits\" without individual_digits",
                ));
            }
            steps.push(Step::Digits);
        }
        "Split" => {
            if flag("invert", false)? {
                return Err(TokenizerError::unsupported(
                    format!("{part}.invert"),
                    "an inverted Split",
                ));
            }
            match value.get("behavior").and_then(Value::as_str) {
                Some("Isolated") => {}
                other => {
                    return Err(TokenizerError::unsupported(
                        format!("{part}.behavior"),
                        format!("Split behavior {:?}", other.unwrap_or("(none)")),
                    ))
                }
            }
            let pattern = value.get("pattern").unwrap_or(&Value::Null);
            steps.push(Step::Split(Box::new(Pattern::from_json(
                pattern,
                &format!("{part}.pattern"),
            )?)));
        }
        kind => {
            return Err(TokenizerError::unsupported(
                part,
                format!("pre-tokenizer {kind:?}"),
            ))
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
