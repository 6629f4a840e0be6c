//! Shapes: what a schema asks of a value of one JSON type, as a conjunction.
//!
//! A term (a set of schemas that hold or do not hold of one value) is for each JSON type a union of shapes. What a
//! conjunction cannot say by restricting members one by one (that *some* property is wrong, that *some* item matches)
//! is a clause: a disjunction of events of which one has to happen before the value ends.

use std::sync::Arc;

use super::ast::LangId;
use super::json::Value;
use super::numbers::NumberSet;

/// Index of a term: a conjunction of schemas and values, each asserted or denied.
pub(crate) type TermId = u32;
/// The term that every value satisfies.
pub(crate) const TRUE: TermId = 0;
/// The term that no value satisfies.
pub(crate) const FALSE: TermId = 1;

/// One conjunct of a term; the flag says whether it holds or is denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Atom {
    Schema(u32, bool),
    Value(Arc<Value>, bool),
}

/// JSON types as the machines see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Null,
    Kind::Bool,
    Kind::Number,
    Kind::String,
    Kind::Array,
    Kind::Object,
];

/// Conditions on a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StringSet {
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    pub(crate) langs: Vec<(LangId, bool)>,
    /// Sorted when the shape is finished.
    pub(crate) finite: Option<Vec<Arc<str>>>,
    pub(crate) excluded: Vec<Arc<str>>,
}

/// A set of keys, as one keyword selects them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// Keys that a pattern matches.
    Pattern(LangId),
    /// Keys that `properties` and `patternProperties` of one schema do not name.
    Others(Arc<[Arc<str>]>, Arc<[LangId]>),
    /// Keys that do not satisfy a term.
    Violating(TermId),
}

/// Something that may happen in an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ObjectEvent {
    Missing(Arc<str>),
    /// A key of the set has a value that satisfies the term.
    Has(Keys, TermId),
    CountLe(u64),
    CountGe(u64),
}

/// `properties`, `patternProperties` and `additionalProperties` of one schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PropertySource {
    pub(crate) props: Vec<(Arc<str>, TermId)>,
    pub(crate) patterns: Vec<(LangId, TermId)>,
    pub(crate) additional: TermId,
}

/// Conditions on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ObjectSet {
    pub(crate) sources: Vec<PropertySource>,
    /// Terms that every key (as a string) satisfies.
    pub(crate) names: Vec<TermId>,
    pub(crate) required: Vec<Arc<str>>,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    pub(crate) clauses: Vec<Vec<ObjectEvent>>,
}

/// Something that may happen in an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ArrayEvent {
    /// The item at this index exists and satisfies the term.
    At(u64, TermId),
    /// Some item from this index on satisfies the term.
    From(u64, TermId),
    LenLe(u64),
    LenGe(u64),
    /// At most / at least so many items satisfy the term.
    CountLe(TermId, u64),
    CountGe(TermId, u64),
}

/// Conditions on an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ArraySet {
    /// `prefixItems` and `items` of each schema.
    pub(crate) sources: Vec<(Vec<TermId>, TermId)>,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    pub(crate) unique: bool,
    pub(crate) clauses: Vec<Vec<ArrayEvent>>,
}

/// A shape under construction or finished, by type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Null,
    Bool([bool; 2]),
    Number(NumberSet),
    String(StringSet),
    Array(ArraySet),
    Object(ObjectSet),
}

impl Shape {
    pub(crate) fn any(kind: Kind) -> Shape {
        match kind {
            Kind::Null => Shape::Null,
            Kind::Bool => Shape::Bool([true; 2]),
            Kind::Number => Shape::Number(NumberSet::default()),
            Kind::String => Shape::String(StringSet::default()),
            Kind::Array => Shape::Array(ArraySet::default()),
            Kind::Object => Shape::Object(ObjectSet::default()),
        }
    }
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Num(_) => Kind::Number,
            Value::Str(_) => Kind::String,
            Value::Arr(_) => Kind::Array,
            Value::Obj(_) => Kind::Object,
        }
    }
}

impl PropertySource {
    /// The term for the value of a key, given which patterns match it.
    pub(crate) fn parts(
        &self,
        key: Option<&str>,
        matches: impl Fn(LangId) -> bool,
        out: &mut Vec<TermId>,
    ) {
        let mut hit = false;
        if let Some(k) = key {
            if let Some((_, t)) = self.props.iter().find(|(p, _)| &**p == k) {
                out.push(*t);
                hit = true;
            }
        }
        for (l, t) in &self.patterns {
            if matches(*l) {
                out.push(*t);
                hit = true;
            }
        }
        if !hit {
            out.push(self.additional);
        }
    }
}
