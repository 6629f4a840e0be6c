//! Schemas after loading: one `Schema` for each schema object of the documents, keywords parsed, references resolved.

use std::sync::Arc;

use super::decimal::Decimal;
use super::json::Value;

/// Index of a schema in [`Document::schemas`].
pub(crate) type SchemaId = u32;

/// JSON Schema dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Dialect {
    /// By `$schema` URI or by short name (`draft-04`, `2020-12`, …).
    pub fn from_name(name: &str) -> Option<Self> {
        let n = name.trim_end_matches('#').trim_end_matches('/');
        let n = n
            .strip_prefix("http://")
            .or_else(|| n.strip_prefix("https://"))
            .unwrap_or(n);
        Some(match n {
            "json-schema.org/draft-04/schema" | "draft-04" | "draft-4" | "draft4" | "4" => {
                Dialect::Draft4
            }
            "json-schema.org/draft-06/schema" | "draft-06" | "draft-6" | "draft6" | "6" => {
                Dialect::Draft6
            }
            "json-schema.org/draft-07/schema" | "draft-07" | "draft-7" | "draft7" | "7" => {
                Dialect::Draft7
            }
            "json-schema.org/draft/2019-09/schema" | "2019-09" | "draft2019-09" => {
                Dialect::Draft201909
            }
            "json-schema.org/draft/2020-12/schema" | "2020-12" | "draft2020-12" => {
                Dialect::Draft202012
            }
            "json-schema.org/schema" => Dialect::Draft202012,
            _ => return None,
        })
    }
}

/// A set of JSON types as bits; integers and other numbers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Types(pub(crate) u8);

impl Types {
    pub(crate) const NULL: Types = Types(1);
    pub(crate) const BOOL: Types = Types(2);
    pub(crate) const INT: Types = Types(4);
    pub(crate) const FRACTION: Types = Types(8);
    pub(crate) const NUMBER: Types = Types(12);
    pub(crate) const STRING: Types = Types(16);
    pub(crate) const ARRAY: Types = Types(32);
    pub(crate) const OBJECT: Types = Types(64);
    pub(crate) const ALL: Types = Types(127);

    pub(crate) fn has(self, t: Types) -> bool {
        self.0 & t.0 != 0
    }

    pub(crate) fn or(self, t: Types) -> Types {
        Types(self.0 | t.0)
    }
}

/// Index of a string language (a pattern or a format) in [`Document::langs`].
pub(crate) type LangId = u32;

/// Where a language over decoded characters comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LangSource {
    /// An ECMA-262 pattern with search semantics.
    Pattern(Arc<str>),
    /// A `format` that is asserted.
    Format(&'static str),
}

/// A bound and whether it is exclusive.
pub(crate) type Bound = (Decimal, bool);

/// One schema object (or boolean schema).
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// JSON pointer of the schema, for messages.
    pub(crate) pointer: Arc<str>,
    /// Set for boolean schemas.
    pub(crate) truth: Option<bool>,
    pub(crate) types: Option<Types>,
    /// Draft 4: an integer is a number spelled without fraction and exponent.
    pub(crate) integer_by_spelling: bool,
    pub(crate) enums: Option<Arc<[Arc<Value>]>>,
    pub(crate) konst: Option<Arc<Value>>,
    pub(crate) minimum: Vec<Bound>,
    pub(crate) maximum: Vec<Bound>,
    pub(crate) multiple_of: Option<Decimal>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) pattern: Option<LangId>,
    pub(crate) format: Option<LangId>,
    pub(crate) prefix: Vec<SchemaId>,
    pub(crate) items: Option<SchemaId>,
    pub(crate) contains: Option<SchemaId>,
    pub(crate) min_contains: Option<u64>,
    pub(crate) max_contains: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique: bool,
    pub(crate) props: Vec<(Arc<str>, SchemaId)>,
    pub(crate) patterns: Vec<(LangId, SchemaId)>,
    pub(crate) additional: Option<SchemaId>,
    pub(crate) names: Option<SchemaId>,
    pub(crate) required: Vec<Arc<str>>,
    pub(crate) min_props: Option<u64>,
    pub(crate) max_props: Option<u64>,
    pub(crate) dep_required: Vec<(Arc<str>, Vec<Arc<str>>)>,
    pub(crate) dep_schemas: Vec<(Arc<str>, SchemaId)>,
    pub(crate) all_of: Vec<SchemaId>,
    pub(crate) any_of: Option<Vec<SchemaId>>,
    pub(crate) one_of: Option<Vec<SchemaId>>,
    pub(crate) not: Option<SchemaId>,
    pub(crate) if_: Option<SchemaId>,
    pub(crate) then: Option<SchemaId>,
    pub(crate) else_: Option<SchemaId>,
    pub(crate) refs: Vec<SchemaId>,
    pub(crate) uneval_props: Option<SchemaId>,
    pub(crate) uneval_items: Option<SchemaId>,
}

/// All schemas that the root reaches.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) schemas: Vec<Schema>,
    pub(crate) langs: Vec<LangSource>,
    pub(crate) root: SchemaId,
    /// Keywords left out under `on_unsupported="relax"`: (pointer, keyword).
    pub(crate) relaxed: Vec<(String, String)>,
}

impl Schema {
    /// The schema that this one only refers to, if it has no condition of its own.
    pub(crate) fn forwards(&self) -> Option<SchemaId> {
        let one = match (&self.refs[..], &self.all_of[..]) {
            ([r], []) => *r,
            ([], [a]) => *a,
            _ => return None,
        };
        (!self.has_own_conditions()).then_some(one)
    }

    /// Whether every value satisfies the schema for lack of conditions.
    pub(crate) fn is_trivial(&self) -> bool {
        self.truth == Some(true)
            || (self.truth.is_none()
                && self.refs.is_empty()
                && self.all_of.is_empty()
                && !self.has_own_conditions())
    }

    fn has_own_conditions(&self) -> bool {
        self.truth == Some(false)
            || self.types.is_some_and(|t| t != Types::ALL)
            || self.enums.is_some()
            || self.konst.is_some()
            || !self.minimum.is_empty()
            || !self.maximum.is_empty()
            || self.multiple_of.is_some()
            || self.min_length.is_some()
            || self.max_length.is_some()
            || self.pattern.is_some()
            || self.format.is_some()
            || !self.prefix.is_empty()
            || self.items.is_some()
            || self.contains.is_some()
            || self.min_items.is_some()
            || self.max_items.is_some()
            || self.unique
            || !self.props.is_empty()
            || !self.patterns.is_empty()
            || self.additional.is_some()
            || self.names.is_some()
            || !self.required.is_empty()
            || self.min_props.is_some()
            || self.max_props.is_some()
            || !self.dep_required.is_empty()
            || !self.dep_schemas.is_empty()
            || self.any_of.is_some()
            || self.one_of.is_some()
            || self.not.is_some()
            || self.if_.is_some()
            || self.uneval_props.is_some()
            || self.uneval_items.is_some()
    }
}
