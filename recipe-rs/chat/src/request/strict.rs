//! Strict schemas: the subset that strict tools and formats accept, and its normal form.
//!
//! A node is read by the first of `type`, `anyOf`, `$ref` that it has; what is not listed for its kind
//! is dropped. Decoding problems come first, over the whole tree in input order; then the rules, children
//! before parents.

use crate::error::{ChatError, Result};
use crate::json::{decode, object, DecodeError, Number, Object, Value};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// What a strict schema is for; decides the words of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrictUse {
    /// Parameters of a tool.
    Tool,
    /// Schema of a response format.
    Format,
}

/// The normal form of a strict schema.
///
/// # Errors
/// Status-400 errors naming the problem.
pub(crate) fn normalise(schema: &Value, usage: StrictUse) -> Result<Value> {
    let (prefix, top_level) = match usage {
        StrictUse::Tool => (
            "Invalid tool parameters schema : ",
            "The top level of the function parameters schema must be an object.",
        ),
        StrictUse::Format => (
            "Invalid json schema: ",
            "The top level of the json schema must be an object.",
        ),
    };
    let node: Node = decode(schema.clone())
        .map_err(|e: DecodeError| ChatError::invalid(format!("{prefix}{e}")))?;
    if !matches!(node, Node::Typed(JsonSchemaType::Object { .. })) {
        return Err(ChatError::invalid(top_level));
    }
    check(&node, usage == StrictUse::Tool).map_err(ChatError::invalid)?;
    Ok(node.into_value())
}

/// The normal form of absent parameters.
pub(crate) fn empty_parameters() -> Value {
    object([
        ("type", "object".into()),
        ("properties", object([])),
        ("additionalProperties", false.into()),
        ("required", Value::Array(Vec::new())),
    ])
}

enum Node {
    Typed(JsonSchemaType),
    Types(Vec<SimpleType>, Option<String>),
    AnyOf(Vec<JsonSchemaType>, Option<String>),
    Ref(String),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Node, D::Error> {
        let in_field =
            |name: &str, e: DecodeError| D::Error::custom(format!("field `{name}`: {e}"));
        let value = Value::deserialize(deserializer)?;
        let description = |node: &Value| -> std::result::Result<Option<String>, D::Error> {
            let text = node.get("description").cloned().unwrap_or_default();
            decode(text).map_err(|e| in_field("description", e))
        };
        match (value.get("type"), value.get("anyOf"), value.get("$ref")) {
            (Some(list @ Value::Array(_)), ..) => {
                let types = decode(list.clone()).map_err(|e| in_field("type", e))?;
                Ok(Node::Types(types, description(&value)?))
            }
            (Some(_), ..) => decode(value).map(Node::Typed).map_err(D::Error::custom),
            (None, Some(branches), _) => {
                let branches = decode(branches.clone()).map_err(|e| in_field("anyOf", e))?;
                Ok(Node::AnyOf(branches, description(&value)?))
            }
            (None, None, Some(target)) => decode(target.clone())
                .map(Node::Ref)
                .map_err(|e| in_field("$ref", e)),
            (None, None, None) => Err(D::Error::custom(
                "one of `type`, `anyOf`, `$ref` field is required",
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum JsonSchemaType {
    Object {
        #[serde(default)]
        properties: Option<Members>,
        #[serde(rename = "additionalProperties")]
        additional_properties: Option<bool>,
        required: Option<Vec<String>>,
        description: Option<String>,
        #[serde(rename = "$def")]
        def: Option<Members>,
    },
    String {
        description: Option<String>,
        pattern: Option<String>,
        format: Option<Format>,
        #[serde(rename = "enum")]
        choices: Option<Vec<String>>,
    },
    Number(Bounds<AnyNumber>),
    Integer(Bounds<i64>),
    Boolean {
        description: Option<String>,
    },
    Array {
        items: Box<Node>,
        description: Option<String>,
    },
    Null {
        description: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounds<N> {
    description: Option<String>,
    #[serde(rename = "const")]
    constant: Option<N>,
    default: Option<N>,
    minimum: Option<N>,
    maximum: Option<N>,
    exclusive_minimum: Option<N>,
    exclusive_maximum: Option<N>,
    multiple_of: Option<N>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SimpleType {
    String,
    Number,
    Integer,
    Boolean,
    Null,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Uuid,
}

/// Named nodes in order.
struct Members(Vec<(String, Node)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Members, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Any JSON number, kept as it is.
struct AnyNumber(Number);

impl<'de> Deserialize<'de> for AnyNumber {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<AnyNumber, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(AnyNumber(number)),
            other => Err(D::Error::custom(other.mismatch("a JSON number"))),
        }
    }
}

impl From<AnyNumber> for Value {
    fn from(number: AnyNumber) -> Value {
        Value::Number(number.0)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(Number::from(number))
    }
}

fn check(node: &Node, may_be_empty: bool) -> std::result::Result<(), String> {
    match node {
        Node::Typed(typed) => check_typed(typed, may_be_empty),
        Node::AnyOf(branches, _) => branches
            .iter()
            .try_for_each(|branch| check_typed(branch, false)),
        Node::Types(..) | Node::Ref(_) => Ok(()),
    }
}

fn check_typed(typed: &JsonSchemaType, may_be_empty: bool) -> std::result::Result<(), String> {
    match typed {
        JsonSchemaType::Array { items, .. } => check(items, false),
        JsonSchemaType::Object {
            properties,
            additional_properties,
            required,
            def,
            ..
        } => {
            let properties = properties.as_ref().map_or(&[][..], |members| &members.0);
            let definitions = def.as_ref().map_or(&[][..], |members| &members.0);
            for (_, child) in properties.iter().chain(definitions) {
                check(child, false)?;
            }
            if properties.is_empty() && !may_be_empty {
                return Err("An object with no properties is not allowed.".to_owned());
            }
            if let Some(required) = required {
                check_required(required, properties)?;
            }
            if *additional_properties == Some(true) {
                return Err("additionalProperties should not be true".to_owned());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_required(
    required: &[String],
    properties: &[(String, Node)],
) -> std::result::Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    let names: std::collections::HashSet<&str> =
        properties.iter().map(|(name, _)| name.as_str()).collect();
    for name in required {
        if !seen.insert(name.as_str()) {
            return Err(format!("Duplicate required property '{name}'"));
        }
        if !names.contains(name.as_str()) {
            return Err(format!("Required property '{name}' not found in object"));
        }
    }
    if required.len() != properties.len() {
        return Err("Required properties must match all properties in the object".to_owned());
    }
    Ok(())
}

/// Collects members, leaving out absent ones.
struct Builder(Object);

impl Builder {
    fn new(kind: &str) -> Builder {
        let mut object = Object::default();
        object.push("type", kind.into());
        Builder(object)
    }

    fn put(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.push(key, value.into());
        }
    }
}

impl Node {
    fn into_value(self) -> Value {
        match self {
            Node::Typed(typed) => typed.into_value(),
            Node::Types(types, description) => {
                let mut out = Builder(Object::default());
                let types = types.into_iter().map(|kind| kind.name().into()).collect();
                out.put("type", Some(Value::Array(types)));
                out.put("description", description);
                Value::Object(out.0)
            }
            Node::AnyOf(branches, description) => {
                let mut out = Builder(Object::default());
                let branches = branches
                    .into_iter()
                    .map(JsonSchemaType::into_value)
                    .collect();
                out.put("anyOf", Some(Value::Array(branches)));
                out.put("description", description);
                Value::Object(out.0)
            }
            Node::Ref(target) => object([("$ref", target.into())]),
        }
    }
}

impl JsonSchemaType {
    fn into_value(self) -> Value {
        let out = match self {
            JsonSchemaType::Object {
                properties,
                description,
                def,
                ..
            } => {
                let properties = properties.map_or_else(Vec::new, |members| members.0);
                let mut out = Builder::new("object");
                let names = properties
                    .iter()
                    .map(|(name, _)| name.as_str().into())
                    .collect();
                out.put("properties", Some(members_value(properties)));
                out.put("additionalProperties", Some(false));
                out.put("required", Some(Value::Array(names)));
                out.put("description", description);
                out.put("$def", def.map(|members| members_value(members.0)));
                out
            }
            JsonSchemaType::String {
                description,
                pattern,
                format,
                choices,
            } => {
                let mut out = Builder::new("string");
                out.put("description", description);
                out.put("pattern", pattern);
                out.put("format", format.map(Format::name));
                out.put(
                    "enum",
                    choices.map(|list| Value::Array(list.into_iter().map(Value::from).collect())),
                );
                out
            }
            JsonSchemaType::Number(bounds) => bounds.into_builder("number"),
            JsonSchemaType::Integer(bounds) => bounds.into_builder("integer"),
            JsonSchemaType::Boolean { description } => described("boolean", description),
            JsonSchemaType::Null { description } => described("null", description),
            JsonSchemaType::Array { items, description } => {
                let mut out = Builder::new("array");
                out.put("items", Some(items.into_value()));
                out.put("description", description);
                out
            }
        };
        Value::Object(out.0)
    }
}

fn described(kind: &str, description: Option<String>) -> Builder {
    let mut out = Builder::new(kind);
    out.put("description", description);
    out
}

fn members_value(members: Vec<(String, Node)>) -> Value {
    Value::Object(Object::from_members(
        members
            .into_iter()
            .map(|(name, node)| (name, node.into_value()))
            .collect(),
    ))
}

impl<N: Into<Value>> Bounds<N> {
    fn into_builder(self, kind: &str) -> Builder {
        let mut out = Builder::new(kind);
        out.put("description", self.description);
        out.put("const", self.constant);
        out.put("default", self.default);
        out.put("minimum", self.minimum);
        out.put("maximum", self.maximum);
        out.put("exclusiveMinimum", self.exclusive_minimum);
        out.put("exclusiveMaximum", self.exclusive_maximum);
        out.put("multipleOf", self.multiple_of);
        out
    }
}

impl SimpleType {
    fn name(self) -> &'static str {
        match self {
            SimpleType::String => "string",
            SimpleType::Number => "number",
            SimpleType::Integer => "integer",
            SimpleType::Boolean => "boolean",
            SimpleType::Null => "null",
        }
    }
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Email => "email",
            Format::Hostname => "hostname",
            Format::Ipv4 => "ipv4",
            Format::Ipv6 => "ipv6",
            Format::Uuid => "uuid",
        }
    }
}

/// The schema an engine should enforce for a strict schema: the given one with every object closed and
/// all its properties required. Unlike the normal form it keeps definitions and all other keywords.
pub(crate) fn enforced(schema: &Value) -> Value {
    let Value::Object(node) = schema else {
        return schema.clone();
    };
    let is_object = node.get("type").and_then(Value::as_str) == Some("object");
    let mut out = Object::default();
    let mut names = Vec::new();
    for (key, value) in node.iter() {
        let value = match (key, value) {
            (_, Value::Null) if key != "const" && key != "default" => continue,
            ("additionalProperties" | "required", _) if is_object => continue,
            ("properties" | "$def" | "$defs" | "definitions", Value::Object(members)) => {
                if key == "properties" {
                    names = members.iter().map(|(name, _)| Value::from(name)).collect();
                }
                let members = members
                    .iter()
                    .map(|(name, member)| (name.to_owned(), enforced(member)))
                    .collect();
                Value::Object(Object::from_members(members))
            }
            ("items", item) => enforced(item),
            ("anyOf", Value::Array(branches)) => {
                Value::Array(branches.iter().map(enforced).collect())
            }
            (_, other) => other.clone(),
        };
        out.push(key, value);
    }
    if is_object {
        if out.get("properties").is_none() {
            out.push("properties", object([]));
        }
        out.push("additionalProperties", false.into());
        out.push("required", Value::Array(names));
    }
    Value::Object(out)
}
