//! JSON Schema: from the text of a schema to a machine that reads exactly the JSON texts of its instances.
//!
//! ```text
//! text ─► json ─► load ─► terms: sets of schemas, expanded on demand into shapes ─► machine
//!         exact    dialects,     (expand: allOf, anyOf, oneOf, not, if, …)           bytes
//!         numbers  references     objects/keys, arrays, strings/chardfa, numbers
//! ```
//!
//! Knows nothing of tokens. Sources: the JSON Schema specifications (draft-04 to 2020-12), RFC 8259 for the text.

mod arrays;
mod ast;
mod canonical;
mod chardfa;
mod decimal;
mod error;
mod expand;
mod formats;
mod horizon;
mod json;
mod keys;
mod langs;
mod load;
mod machine;
mod numbers;
mod objects;
mod raw;
mod shapes;
mod strings;
mod terms;
mod uri;

use std::sync::Arc;

pub use ast::Dialect;
pub use error::{ErrorKind, LimitFacts, SchemaError};
pub use raw::add_raw_string;

use ast::LangSource;
use chardfa::CharDfa;
use machine::JsonMachine;
use shapes::{Kind, TermId, KINDS};
use terms::{Terms, Walk, NEVER};

use crate::bytes::ByteSet;
use crate::engine::Grammar;
use crate::error::{GrammarError, LimitKind};
use crate::ir::{ExprId, GrammarBuilder};
use crate::limits::Budget;
use crate::stack::roomy;

/// White space between the tokens of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whitespace {
    /// One space after `,` and `:`, nothing else.
    Spaced,
    /// None.
    Compact,
    /// Any, anywhere JSON allows it.
    Any,
}

/// Settings of one compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// White space.
    pub whitespace: Whitespace,
    /// No exponent, no fraction on integers, at most 20 digits unless the schema's numbers have more.
    pub canonical_numbers: bool,
    /// Properties in any order instead of declaration order.
    pub any_order: bool,
    /// `format` is asserted.
    pub assert_format: bool,
    /// Overrides `$schema`.
    pub dialect: Option<Dialect>,
    /// Leave unsupported keywords out (and report them) instead of failing.
    pub relax: bool,
    /// Nesting of the schema's JSON text.
    pub max_depth: usize,
    /// Units of work on combinations of sub-schemas, for one question.
    pub max_products: u64,
    /// Alternatives of one sub-schema.
    pub max_shapes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            whitespace: Whitespace::Spaced,
            canonical_numbers: true,
            any_order: false,
            assert_format: true,
            dialect: None,
            relax: false,
            max_depth: 1000,
            max_products: 100_000,
            max_shapes: 2_000,
        }
    }
}

/// A keyword that was left out: (JSON pointer, keyword).
pub type Relaxed = (String, String);

/// The grammar of a schema's instances, and the keywords left out (see [`add_to`]).
///
/// # Errors
/// As [`add_to`], and what [`GrammarBuilder::finish`] may find.
pub fn compile(
    text: &str,
    registry: &[(String, String)],
    settings: &Settings,
    budget: Budget,
) -> crate::Result<(Grammar, Vec<Relaxed>)> {
    let bytes = text.len() as u64
        + registry
            .iter()
            .map(|(u, t)| (u.len() + t.len()) as u64)
            .sum::<u64>();
    if bytes > budget.limits.source_bytes {
        let limit = budget.limits.source_bytes;
        return Err(GrammarError::limit(
            LimitKind::SourceBytes,
            "schema and registry",
            limit,
            bytes,
        ));
    }
    let settings = Settings {
        max_depth: usize::try_from(budget.limits.source_depth)
            .unwrap_or(usize::MAX)
            .min(2_000),
        max_products: budget.limits.products,
        ..settings.clone()
    };
    roomy(|| {
        let mut builder = GrammarBuilder::new(budget);
        let (root, relaxed) = add_to(&mut builder, text, registry, &settings)?;
        Ok((builder.finish(root)?, relaxed))
    })
}

/// Adds the grammar of a schema's instances to a builder.
///
/// `registry`: documents by URI, as JSON texts, for references out of the schema.
/// Returns the expression and the keywords left out (always none unless [`Settings::relax`]).
///
/// # Errors
/// [`SchemaError`] naming the JSON pointer: not JSON, not a schema, a reference that leads nowhere, a keyword or
/// combination that is not decided, a schema that no value satisfies, a limit.
pub fn add_to(
    builder: &mut GrammarBuilder,
    text: &str,
    registry: &[(String, String)],
    settings: &Settings,
) -> Result<(ExprId, Vec<Relaxed>), SchemaError> {
    let Prepared {
        terms,
        relaxed,
        byte_sets,
    } = prepare(text, registry, settings)?;
    let start = terms.schema(terms.document.root, true);
    let mut w = Walk::compile(settings, builder.budget().clone());
    if terms.cost(&mut w, start)? == NEVER {
        return Err(unsatisfiable(&terms));
    }
    explore(&terms, &mut w, start)?;
    let cost = terms.cost(&mut w, start)?;
    let unit = builder.json_char();
    let machine = JsonMachine {
        terms: Arc::new(terms),
        root: start,
        id: builder.next_machine_id(),
        unit,
        byte_sets,
    };
    let words = machine.start();
    let id = builder.add_machine(Arc::new(machine));
    Ok((builder.machine(id, &words, cost), relaxed))
}

/// A hash of a JSON text's value, members in their order: equal for other spellings of the same document.
/// `None` when the text is not JSON.
pub fn fingerprint(text: &str) -> Option<crate::hash::Fingerprint> {
    roomy(|| json::parse(text, 2_000).ok().map(|json| json.fingerprint()))
}

/// The text that stands between two quotes of a JSON text, decoded; `None` when it is no JSON string.
pub(crate) fn unquoted(inner: &str) -> Option<String> {
    match &*json::parse(&format!("\"{inner}\""), 4).ok()?.to_value() {
        json::Value::Str(s) => Some(s.to_string()),
        _ => None,
    }
}

/// A schema that was read.
struct Prepared {
    terms: Terms,
    relaxed: Vec<Relaxed>,
    byte_sets: Vec<ByteSet>,
}

fn prepare(
    text: &str,
    registry: &[(String, String)],
    settings: &Settings,
) -> Result<Prepared, SchemaError> {
    let root = json::parse(text, settings.max_depth)?;
    let mut documents = Vec::with_capacity(registry.len());
    for (uri, text) in registry {
        let json = json::parse(text, settings.max_depth).map_err(|mut e| {
            e.pointer = format!("{uri}#");
            e
        })?;
        documents.push((uri.clone(), json));
    }
    let (document, pointers) = load::load(&root, &documents, settings)?;
    let mut langs = Vec::with_capacity(document.langs.len());
    for (source, pointer) in document.langs.iter().zip(&pointers) {
        langs.push(match source {
            LangSource::Pattern(p) => Arc::new(langs::pattern(p, pointer)?),
            LangSource::Format(f) => formats::language(f, pointer)?,
        });
    }
    let relaxed = document.relaxed.clone();
    let byte_sets = byte_sets(&document, &langs);
    let terms = Terms::new(document, langs, settings.clone());
    Ok(Prepared {
        terms,
        relaxed,
        byte_sets,
    })
}

/// Names the deepest schema on the way of required parts that has no value.
fn unsatisfiable(terms: &Terms) -> SchemaError {
    let mut pointer = terms.document.schemas[terms.document.root as usize]
        .pointer
        .to_string();
    let mut at = terms.document.root;
    // Follow required members and in-place schemas to where emptiness first shows.
    for _ in 0..100 {
        let s = &terms.document.schemas[at as usize];
        let empty = |id: u32| {
            let mut w = Walk::new(&terms.settings);
            let t = terms.schema(id, true);
            terms.cost(&mut w, t).is_ok_and(|c| c == NEVER)
        };
        let members = s
            .props
            .iter()
            .filter(|(k, _)| s.required.contains(k))
            .map(|(_, i)| *i);
        let inner = s
            .refs
            .iter()
            .chain(&s.all_of)
            .copied()
            .chain(members)
            .chain(s.items.filter(|_| s.min_items.unwrap_or(0) > 0));
        match inner.into_iter().find(|&i| i != at && empty(i)) {
            Some(next) => {
                at = next;
                pointer = terms.document.schemas[at as usize].pointer.to_string();
            }
            None => break,
        }
    }
    SchemaError::new(
        ErrorKind::Unsatisfiable,
        pointer,
        "no value can satisfy the schema",
    )
}

/// Looks at every term that members and items can have, so that what is not supported shows now and not mid-text.
fn explore(terms: &Terms, w: &mut Walk, start: TermId) -> Result<(), SchemaError> {
    const MOST: usize = 20_000;
    let mut seen = std::collections::HashSet::from([start]);
    let mut queue = vec![start];
    while let Some(t) = queue.pop() {
        w.restart()?;
        let mut next: Vec<TermId> = Vec::new();
        for kind in KINDS {
            for &s in terms.shapes(w, t, kind)?.iter() {
                match kind {
                    Kind::Array => terms.arrays.get(s).inner(terms, &mut next),
                    Kind::Object => terms.objects.get(s).inner(terms, &mut next),
                    _ => {}
                }
            }
        }
        for n in next {
            if seen.len() < MOST && seen.insert(n) {
                queue.push(n);
            }
        }
    }
    for t in seen {
        w.restart()?;
        terms.cost(w, t)?;
    }
    Ok(())
}

/// The bytes that the machine tells apart: those of JSON's own syntax one by one, and the borders of all character
/// classes, names and constants of the schema.
fn byte_sets(document: &ast::Document, langs: &[Arc<CharDfa>]) -> Vec<ByteSet> {
    let mut cuts = [false; 0x82];
    let mut wide = false;
    let mut cut = |c: u32| {
        if c <= 0x80 {
            cuts[c as usize] = true;
        } else if !matches!(c, 0xd800 | 0xe000 | 0x11_0000) {
            wide = true;
        }
    };
    for b in b"\"\\/bfnrtu{}[]:,+-.0123456789eEtruefalsnABCDEFabcdef \t\n\r" {
        cut(u32::from(*b));
        cut(u32::from(*b) + 1);
    }
    let mut text = |s: &str| {
        for c in s.chars() {
            cut(c as u32);
            cut(c as u32 + 1);
        }
    };
    fn strings(v: &json::Value, text: &mut impl FnMut(&str)) {
        match v {
            json::Value::Str(s) => text(s),
            json::Value::Arr(a) => a.iter().for_each(|x| strings(x, text)),
            json::Value::Obj(m) => m.iter().for_each(|(k, x)| {
                text(k);
                strings(x, text);
            }),
            _ => {}
        }
    }
    for s in &document.schemas {
        s.props.iter().for_each(|(k, _)| text(k));
        s.required.iter().for_each(|k| text(k));
        s.dep_schemas.iter().for_each(|(k, _)| text(k));
        for (k, needs) in &s.dep_required {
            text(k);
            needs.iter().for_each(|k| text(k));
        }
        for v in s.enums.iter().flat_map(|e| e.iter()).chain(&s.konst) {
            strings(v, &mut text);
        }
    }
    for l in langs {
        for q in 0..l.len() as u32 {
            for e in l.edges(q) {
                cut(e.low);
                cut(e.high + 1);
            }
        }
    }
    let mut sets = Vec::new();
    let mut from = 0u32;
    for c in 1..=0x80u32 {
        if c == 0x80 || cuts[c as usize] {
            sets.push(ByteSet::range(from as u8, (c - 1) as u8));
            from = c;
        }
    }
    if wide {
        sets.extend((0x80..=0xff).map(ByteSet::single));
    } else {
        for (a, b) in [
            (0x80, 0x8f),
            (0x90, 0x9f),
            (0xa0, 0xbf),
            (0xc2, 0xdf),
            (0xe0, 0xe0),
            (0xe1, 0xec),
            (0xed, 0xed),
            (0xee, 0xef),
            (0xf0, 0xf0),
            (0xf1, 0xf3),
            (0xf4, 0xf4),
        ] {
            sets.push(ByteSet::range(a, b));
        }
    }
    sets
}
