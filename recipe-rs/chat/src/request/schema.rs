//! Checks that a JSON Schema is valid against its meta-schema, and that local references resolve.
//!
//! The judge is the `jsonschema` crate, whose words clients see. Building a validator is slow, so
//! schemas made only of common keywords in their plain form are accepted by a quick look first; the
//! quick look never refuses anything itself.

use crate::json::{Number, Object, Value};
use jsonschema::{Retrieve, Uri};

const NOT_A_REGEX: &str = " is not a \"regex\"";

/// Refuses to fetch anything.
struct NoRetrieval;

impl Retrieve for NoRetrieval {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<serde_json::Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("Retrieval is disabled, cannot fetch {uri}").into())
    }
}

/// Check `schema` against the meta-schema it names (2020-12 by default).
///
/// # Errors
/// The first problem, in the validator's words.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    if let Value::Object(root) = schema {
        if plainly_valid(root, root) {
            return Ok(());
        }
    }
    let schema = to_serde(schema);
    let built = jsonschema::options()
        .with_retriever(NoRetrieval)
        .build(&schema);
    built.map(|_| ()).map_err(|error| problem(&error, &schema))
}

/// The validator's words; an invalid expression among the names of `patternProperties` is reported with
/// the schema behind it.
fn problem(error: &jsonschema::ValidationError<'_>, schema: &serde_json::Value) -> String {
    let words = error.to_string();
    let place = error.instance_path().to_string();
    let name = words
        .strip_suffix(NOT_A_REGEX)
        .and_then(|name| serde_json::from_str::<String>(name).ok());
    let behind = name.and_then(|name| {
        if place.ends_with("/patternProperties") {
            return schema.pointer(&place)?.get(name);
        }
        let (parent, _) = place.rsplit_once('/')?;
        parent
            .ends_with("/patternProperties")
            .then(|| schema.pointer(&place))
            .flatten()
    });
    match behind {
        Some(subschema) => format!("{subschema}{NOT_A_REGEX}"),
        None => words,
    }
}

fn to_serde(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(b) => serde_json::Value::Bool(*b),
        Value::Number(Number::U64(n)) => (*n).into(),
        Value::Number(Number::I64(n)) => (*n).into(),
        Value::Number(Number::F64(x)) => (*x).into(),
        Value::String(s) => serde_json::Value::String(s.clone()),
        Value::Array(items) => serde_json::Value::Array(items.iter().map(to_serde).collect()),
        Value::Object(object) => serde_json::Value::Object(
            object
                .iter()
                .map(|(k, v)| (k.to_owned(), to_serde(v)))
                .collect(),
        ),
    }
}

/// Whether `node` is certainly a valid 2020-12 schema. `false` means "ask the validator".
fn plainly_valid(node: &Object, root: &Object) -> bool {
    node.iter().all(|(key, value)| match key {
        "type" => plain_type(value),
        "title" | "description" => value.as_str().is_some(),
        "default" | "const" | "enum" => key != "enum" || value.as_array().is_some(),
        "properties" | "$defs" => schema_map(value, root),
        "items" | "additionalProperties" | "not" => schema(value, root),
        "anyOf" | "allOf" | "oneOf" => value
            .as_array()
            .is_some_and(|items| !items.is_empty() && items.iter().all(|item| schema(item, root))),
        "required" => value.as_array().is_some_and(unique_strings),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            matches!(value, Value::Number(Number::U64(_)))
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            matches!(value, Value::Number(_))
        }
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => matches!(value, Value::Bool(_)),
        "examples" => value.as_array().is_some(),
        "pattern" => value.as_str().is_some_and(plain_pattern),
        "$ref" => value
            .as_str()
            .is_some_and(|pointer| resolves(pointer, root)),
        _ => false,
    })
}

fn schema(value: &Value, root: &Object) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Object(node) => plainly_valid(node, root),
        _ => false,
    }
}

fn schema_map(value: &Value, root: &Object) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.iter().all(|(_, member)| schema(member, root)))
}

fn plain_type(value: &Value) -> bool {
    let simple = |text: &str| {
        matches!(
            text,
            "object" | "string" | "number" | "integer" | "boolean" | "array" | "null"
        )
    };
    match value {
        Value::String(text) => simple(text),
        Value::Array(items) => {
            !items.is_empty()
                && unique_strings(items)
                && items.iter().all(|item| item.as_str().is_some_and(simple))
        }
        _ => false,
    }
}

fn unique_strings(items: &[Value]) -> bool {
    const FEW: usize = 64;
    items.len() <= FEW
        && items
            .iter()
            .enumerate()
            .all(|(i, item)| matches!(item, Value::String(_)) && !items[..i].contains(item))
}

/// Letters, digits and simple classes only: certainly a valid expression.
fn plain_pattern(pattern: &str) -> bool {
    let inner = pattern.strip_prefix('^').unwrap_or(pattern);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    let inner = inner.strip_suffix("[a-zA-Z0-9_-]+").unwrap_or(inner);
    inner
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' ' | b'/' | b'@'))
}

/// Whether a reference plainly names a definition of the root.
fn resolves(pointer: &str, root: &Object) -> bool {
    if pointer == "#" {
        return true;
    }
    let Some(name) = pointer.strip_prefix("#/$defs/") else {
        return false;
    };
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain
        && root
            .get("$defs")
            .and_then(Value::as_object)
            .is_some_and(|defs| defs.get(name).is_some())
}
