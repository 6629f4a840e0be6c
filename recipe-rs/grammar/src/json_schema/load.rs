//! From JSON documents to `Schema`s: dialects, identifiers, references, and the check of every keyword's value.
//!
//! Source: the JSON Schema specifications draft-04, -06, -07, 2019-09 and 2020-12 (core and validation). A schema is
//! loaded when the root reaches it, once for each dynamic scope that matters to it, so `$dynamicRef` becomes an
//! ordinary reference here. Documents come from the caller; nothing is fetched.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::ast::{Bound, Dialect, Document, LangId, LangSource, Schema, SchemaId, Types};
use super::error::SchemaError;
use super::formats;
use super::json::Json;
use super::uri;
use super::Settings;

const MAPS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SINGLES: [&str; 12] = [
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentSchema",
];

/// Where a schema stands: its text, its resource, its dialect.
#[derive(Clone)]
struct Place<'a> {
    json: &'a Json,
    /// URI of the resource, without fragment.
    base: Arc<str>,
    /// Address of the resource's root schema.
    resource: usize,
    /// JSON pointer for messages, with the document's URI in front unless it is the root document.
    pointer: Arc<str>,
    dialect: Dialect,
}

/// First schema in the dynamic scope for each `$dynamicAnchor` name (address of the schema).
type Scope = BTreeMap<Arc<str>, usize>;

struct Loader<'a> {
    settings: &'a Settings,
    places: HashMap<usize, Place<'a>>,
    resources: HashMap<String, usize>,
    anchors: HashMap<(Arc<str>, String), usize>,
    /// Dynamic anchors of each resource, in order of appearance.
    dynamic: HashMap<usize, Vec<(Arc<str>, usize)>>,
    scopes: Vec<Scope>,
    scope_ids: HashMap<Scope, usize>,
    loaded: HashMap<(usize, usize), SchemaId>,
    queue: Vec<(SchemaId, usize, usize)>,
    schemas: Vec<Schema>,
    langs: Vec<LangSource>,
    lang_ids: HashMap<LangSource, LangId>,
    lang_pointers: Vec<String>,
    relaxed: Vec<(String, String)>,
}

fn address(json: &Json) -> usize {
    std::ptr::from_ref(json) as usize
}

/// Loads the root document and all that it refers to.
///
/// Returns the schemas and, for each string language, the pointer where it was first used.
///
/// # Errors
/// A [`SchemaError`] with the pointer of the first keyword that is malformed, unknown to be undecidable here, or a
/// reference that leads nowhere.
pub(crate) fn load(
    root: &Json,
    registry: &[(String, Json)],
    settings: &Settings,
) -> Result<(Document, Vec<String>), SchemaError> {
    let mut l = Loader {
        settings,
        places: HashMap::new(),
        resources: HashMap::new(),
        anchors: HashMap::new(),
        dynamic: HashMap::new(),
        scopes: vec![Scope::new()],
        scope_ids: HashMap::from([(Scope::new(), 0)]),
        loaded: HashMap::new(),
        queue: Vec::new(),
        schemas: Vec::new(),
        langs: Vec::new(),
        lang_ids: HashMap::new(),
        lang_pointers: Vec::new(),
        relaxed: Vec::new(),
    };
    let dialect = l.dialect_of(
        root,
        settings.dialect.unwrap_or(Dialect::Draft202012),
        settings.dialect.is_some(),
        "#",
    )?;
    for (name, json) in registry {
        let base: Arc<str> = uri::split_fragment(name).0.into();
        let d = l.dialect_of(json, dialect, false, name).unwrap_or(dialect);
        let pointer: Arc<str> = format!("{base}#").into();
        l.resources.entry(base.to_string()).or_insert(address(json));
        l.index(json, &base, address(json), &pointer, d, true)?;
    }
    if !matches!(root, Json::Obj(_) | Json::Bool(_)) {
        let message = format!(
            "a schema must be an object or a boolean, not {}",
            root.type_name()
        );
        return Err(SchemaError::invalid("#", message));
    }
    l.resources.insert(String::new(), address(root));
    l.index(root, &"".into(), address(root), &"#".into(), dialect, true)?;
    let scope = l.enter(0, address(root));
    let id = l.want(address(root), scope);
    while let Some((id, addr, scope)) = l.queue.pop() {
        l.load_one(id, addr, scope)?;
    }
    check_cycles(&l.schemas)?;
    let document = Document {
        schemas: l.schemas,
        langs: l.langs,
        root: id,
        relaxed: l.relaxed,
    };
    Ok((document, l.lang_pointers))
}

/// A schema that applies itself to the same value can never be decided.
fn check_cycles(schemas: &[Schema]) -> Result<(), SchemaError> {
    let inner = |s: &Schema| -> Vec<SchemaId> {
        let lists = s
            .refs
            .iter()
            .chain(&s.all_of)
            .chain(s.any_of.iter().flatten())
            .chain(s.one_of.iter().flatten());
        let single = [s.not, s.if_, s.then, s.else_];
        lists
            .copied()
            .chain(single.into_iter().flatten())
            .chain(s.dep_schemas.iter().map(|d| d.1))
            .collect()
    };
    // 0: not seen, 1: open, 2: done
    let mut state = vec![0u8; schemas.len()];
    for root in 0..schemas.len() {
        let mut stack: Vec<(usize, Vec<SchemaId>)> = Vec::new();
        if state[root] == 0 {
            state[root] = 1;
            stack.push((root, inner(&schemas[root])));
        }
        while let Some((at, rest)) = stack.last_mut() {
            match rest.pop() {
                None => {
                    state[*at] = 2;
                    stack.pop();
                }
                Some(next) => match state[next as usize] {
                    0 => {
                        state[next as usize] = 1;
                        stack.push((next as usize, inner(&schemas[next as usize])));
                    }
                    1 => {
                        let message = "the schema refers to itself for the same value, without end";
                        let mut e = SchemaError::invalid(&*schemas[next as usize].pointer, message);
                        e.keyword = Some("$ref".into());
                        return Err(e);
                    }
                    _ => {}
                },
            }
        }
    }
    Ok(())
}

impl<'a> Loader<'a> {
    fn dialect_of(
        &self,
        json: &Json,
        outer: Dialect,
        forced: bool,
        pointer: &str,
    ) -> Result<Dialect, SchemaError> {
        match json.get("$schema") {
            None => Ok(outer),
            Some(Json::Str(s)) => {
                if forced {
                    return Ok(outer);
                }
                Dialect::from_name(s)
                    .or_else(|| self.custom_dialect(s))
                    .ok_or_else(|| {
                        SchemaError::unsupported(
                            format!("{pointer}/$schema"),
                            "$schema",
                            format!("unknown dialect '{s}'"),
                        )
                    })
            }
            Some(_) => Err(SchemaError::invalid(
                format!("{pointer}/$schema"),
                "'$schema' must be a string",
            )),
        }
    }

    /// A metaschema from the registry stands for the dialect that it is written in, if it keeps the validation vocabulary.
    fn custom_dialect(&self, name: &str) -> Option<Dialect> {
        let addr = self.resources.get(uri::split_fragment(name).0)?;
        let json = self.places.get(addr)?.json;
        if let Some(v) = json.get("$vocabulary") {
            v.get("https://json-schema.org/draft/2020-12/vocab/validation")
                .or_else(|| v.get("https://json-schema.org/draft/2019-09/vocab/validation"))?;
        }
        match json.get("$schema") {
            Some(Json::Str(s)) => Dialect::from_name(s),
            _ => None,
        }
    }

    /// Records identifiers and anchors of a schema and of all schemas inside it.
    fn index(
        &mut self,
        json: &'a Json,
        base: &Arc<str>,
        resource: usize,
        pointer: &Arc<str>,
        dialect: Dialect,
        is_root: bool,
    ) -> Result<(), SchemaError> {
        let Json::Obj(members) = json else {
            if matches!(json, Json::Bool(_)) {
                let place = Place {
                    json,
                    base: base.clone(),
                    resource,
                    pointer: pointer.clone(),
                    dialect,
                };
                self.places.insert(address(json), place);
            }
            return Ok(());
        };
        let addr = address(json);
        let (mut base, mut resource, mut dialect) = (base.clone(), resource, dialect);
        let id_key = if dialect == Dialect::Draft4 {
            "id"
        } else {
            "$id"
        };
        let old = dialect <= Dialect::Draft7;
        if let Some(Json::Str(id)) = json.get(id_key) {
            if !(old && json.get("$ref").is_some()) {
                let (path, fragment) = uri::split_fragment(id);
                let full = uri::resolve(&base, path);
                if !path.is_empty() {
                    base = full.into();
                    resource = addr;
                    if !is_root && self.settings.dialect.is_none() {
                        dialect = self
                            .dialect_of(json, dialect, false, pointer)
                            .unwrap_or(dialect);
                    }
                    self.resources.insert(base.to_string(), addr);
                }
                if let (true, Some(f)) = (
                    old,
                    fragment.filter(|f| !f.is_empty() && !f.starts_with('/')),
                ) {
                    self.anchors.insert((base.clone(), f.to_owned()), addr);
                }
            }
        }
        if dialect >= Dialect::Draft201909 {
            if let Some(Json::Str(a)) = json.get("$anchor") {
                self.anchors.insert((base.clone(), a.to_string()), addr);
            }
            if let Some(Json::Str(a)) = json.get("$dynamicAnchor") {
                self.anchors.insert((base.clone(), a.to_string()), addr);
                self.dynamic
                    .entry(resource)
                    .or_default()
                    .push((a.clone(), addr));
            }
            if json.get("$recursiveAnchor") == Some(&Json::Bool(true)) && resource == addr {
                self.dynamic
                    .entry(resource)
                    .or_default()
                    .push(("".into(), addr));
            }
        }
        let place = Place {
            json,
            base: base.clone(),
            resource,
            pointer: pointer.clone(),
            dialect,
        };
        self.places.insert(addr, place);
        let inner = |l: &mut Self, child: &'a Json, path: String| {
            l.index(
                child,
                &base,
                resource,
                &format!("{pointer}{path}").into(),
                dialect,
                false,
            )
        };
        for (key, value) in members {
            let key: &str = key;
            if MAPS.contains(&key) {
                if let Json::Obj(m) = value {
                    for (k, v) in m {
                        if !(key == "dependencies" && matches!(v, Json::Arr(_))) {
                            inner(self, v, format!("/{key}/{}", uri::escape_token(k)))?;
                        }
                    }
                }
            } else if let (true, Json::Arr(a)) = (LISTS.contains(&key) || key == "items", value) {
                for (i, v) in a.iter().enumerate() {
                    inner(self, v, format!("/{key}/{i}"))?;
                }
            } else if SINGLES.contains(&key) {
                inner(self, value, format!("/{key}"))?;
            }
        }
        Ok(())
    }

    /// The dynamic scope after entering the resource that holds `addr`.
    fn enter(&mut self, scope: usize, addr: usize) -> usize {
        let Some(resource) = self.places.get(&addr).map(|p| p.resource) else {
            return scope;
        };
        let Some(anchors) = self.dynamic.get(&resource) else {
            return scope;
        };
        let mut s = self.scopes[scope].clone();
        for (name, at) in anchors {
            s.entry(name.clone()).or_insert(*at);
        }
        if let Some(&id) = self.scope_ids.get(&s) {
            return id;
        }
        self.scopes.push(s.clone());
        self.scope_ids.insert(s, self.scopes.len() - 1);
        self.scopes.len() - 1
    }

    fn want(&mut self, addr: usize, scope: usize) -> SchemaId {
        let scope = self.enter(scope, addr);
        if let Some(&id) = self.loaded.get(&(addr, scope)) {
            return id;
        }
        let id = self.schemas.len() as SchemaId;
        self.schemas.push(Schema::default());
        self.loaded.insert((addr, scope), id);
        self.queue.push((id, addr, scope));
        id
    }

    /// Address of the schema that a reference names.
    fn resolve(
        &mut self,
        from: &Place<'a>,
        reference: &str,
        pointer: &str,
    ) -> Result<usize, SchemaError> {
        let (path, fragment) = uri::split_fragment(reference);
        let base = uri::resolve(&from.base, path);
        let nowhere =
            |why: &str| SchemaError::invalid(pointer, format!("'$ref' to '{reference}' {why}"));
        let Some(&root) = self
            .resources
            .get(&base)
            .or_else(|| self.resources.get(base.trim_end_matches('#')))
        else {
            return Err(nowhere(
                "names a document that is neither inside the schema nor in the registry",
            ));
        };
        let fragment = match fragment {
            None | Some("") if self.places.contains_key(&root) => return Ok(root),
            None | Some("") => return Err(nowhere("leads to something that is not a schema")),
            Some(f) => {
                uri::percent_decode(f).ok_or_else(|| nowhere("is not valid percent-encoding"))?
            }
        };
        if !fragment.starts_with('/') {
            let base = self
                .places
                .get(&root)
                .map_or_else(|| Arc::from(&*base), |p| p.base.clone());
            return self
                .anchors
                .get(&(base, fragment))
                .copied()
                .ok_or_else(|| nowhere("names an anchor that does not exist"));
        }
        let mut place = self
            .places
            .get(&root)
            .cloned()
            .ok_or_else(|| nowhere("leads to something that is not a schema"))?;
        let mut at = place.json;
        let mut path = place.pointer.to_string();
        for token in fragment[1..].split('/') {
            let token = uri::unescape_token(token);
            path = format!("{path}/{}", uri::escape_token(&token));
            at = match at {
                Json::Obj(_) => at.get(&token),
                Json::Arr(a) => token.parse::<usize>().ok().and_then(|i| a.get(i)),
                _ => None,
            }
            .ok_or_else(|| nowhere("leads nowhere"))?;
            if let Some(p) = self.places.get(&address(at)) {
                place = p.clone();
            }
        }
        if !self.places.contains_key(&address(at)) {
            if !matches!(at, Json::Obj(_) | Json::Bool(_)) {
                return Err(nowhere("leads to something that is not a schema"));
            }
            self.index(
                at,
                &place.base,
                place.resource,
                &path.into(),
                place.dialect,
                false,
            )?;
        }
        Ok(address(at))
    }

    fn lang(&mut self, source: LangSource, pointer: String) -> LangId {
        if let Some(&id) = self.lang_ids.get(&source) {
            return id;
        }
        let id = self.langs.len() as LangId;
        self.langs.push(source.clone());
        self.lang_pointers.push(pointer);
        self.lang_ids.insert(source, id);
        id
    }

    fn load_one(&mut self, id: SchemaId, addr: usize, scope: usize) -> Result<(), SchemaError> {
        let place = self.places[&addr].clone();
        let schema = Reader {
            loader: self,
            place: &place,
            scope,
        }
        .read()?;
        self.schemas[id as usize] = schema;
        Ok(())
    }
}

/// Reads the keywords of one schema object.
struct Reader<'l, 'a> {
    loader: &'l mut Loader<'a>,
    place: &'l Place<'a>,
    scope: usize,
}

impl<'a> Reader<'_, 'a> {
    fn at(&self, key: &str) -> String {
        format!("{}/{}", self.place.pointer, uri::escape_token(key))
    }

    fn bad(&self, key: &str, expected: &str, got: &Json) -> SchemaError {
        let mut e = SchemaError::invalid(
            self.at(key),
            format!("'{key}' must be {expected}, not {}", got.type_name()),
        );
        e.keyword = Some(key.into());
        e
    }

    fn child(&mut self, json: &'a Json, pointer: String) -> Result<SchemaId, SchemaError> {
        let draft4 = self.place.dialect == Dialect::Draft4;
        match json {
            Json::Obj(_) => {}
            Json::Bool(_) if !draft4 => {}
            other => {
                return Err(SchemaError::invalid(
                    pointer,
                    format!(
                        "a schema must be an object or a boolean, not {}",
                        other.type_name()
                    ),
                ))
            }
        }
        if !self.loader.places.contains_key(&address(json)) {
            let p = self.place;
            self.loader
                .index(json, &p.base, p.resource, &pointer.into(), p.dialect, false)?;
        }
        Ok(self.loader.want(address(json), self.scope))
    }

    fn list(&mut self, key: &str, value: &'a Json) -> Result<Vec<SchemaId>, SchemaError> {
        match value {
            Json::Arr(a) if !a.is_empty() => {
                let mut out = Vec::with_capacity(a.len());
                for (i, v) in a.iter().enumerate() {
                    out.push(self.child(v, format!("{}/{i}", self.at(key)))?);
                }
                Ok(out)
            }
            other => Err(self.bad(key, "an array of at least one schema", other)),
        }
    }

    fn map(&self, key: &str, value: &'a Json) -> Result<&'a [(Arc<str>, Json)], SchemaError> {
        match value {
            Json::Obj(m) => Ok(m),
            other => Err(self.bad(key, "an object", other)),
        }
    }

    fn count(&self, key: &str, value: &Json) -> Result<u64, SchemaError> {
        match value {
            Json::Num(n) if n.is_integer() && !n.is_negative() => {
                Ok(n.to_plain().parse().unwrap_or(u64::MAX))
            }
            Json::Num(n) => Err(SchemaError::invalid(
                self.at(key),
                format!("'{key}' must be a whole number from 0 up, not {n}"),
            )),
            other => Err(self.bad(key, "a whole number from 0 up", other)),
        }
    }

    fn names(&self, key: &str, value: &Json) -> Result<Vec<Arc<str>>, SchemaError> {
        let Json::Arr(a) = value else {
            return Err(self.bad(key, "an array of strings", value));
        };
        let mut out: Vec<Arc<str>> = Vec::with_capacity(a.len());
        for v in a {
            let Json::Str(s) = v else {
                return Err(self.bad(key, "an array of strings", v));
            };
            if !out.contains(s) {
                out.push(s.clone());
            }
        }
        Ok(out)
    }

    fn types(&self, value: &Json) -> Result<Types, SchemaError> {
        let one = |name: &str| match name {
            "null" => Some(Types::NULL),
            "boolean" => Some(Types::BOOL),
            "integer" => Some(Types::INT),
            "number" => Some(Types::NUMBER),
            "string" => Some(Types::STRING),
            "array" => Some(Types::ARRAY),
            "object" => Some(Types::OBJECT),
            _ => None,
        };
        let unknown = |name: &str| {
            let mut e =
                SchemaError::invalid(self.at("type"), format!("'{name}' is not a JSON type"));
            e.keyword = Some("type".into());
            e
        };
        match value {
            Json::Str(s) => one(s).ok_or_else(|| unknown(s)),
            Json::Arr(a) if !a.is_empty() => a.iter().try_fold(Types(0), |t, v| match v {
                Json::Str(s) => one(s).map(|x| t.or(x)).ok_or_else(|| unknown(s)),
                other => Err(self.bad(
                    "type",
                    "the name of a type or an array of such names",
                    other,
                )),
            }),
            other => Err(self.bad(
                "type",
                "the name of a type or an array of such names",
                other,
            )),
        }
    }

    fn reference(&mut self, key: &str, value: &Json, out: &mut Schema) -> Result<(), SchemaError> {
        let Json::Str(text) = value else {
            return Err(self.bad(key, "a string", value));
        };
        let mut target = self.loader.resolve(self.place, text, &self.at(key))?;
        if key != "$ref" {
            // The reference is dynamic only if what it first leads to is itself a dynamic anchor of that name.
            let name = if key == "$recursiveRef" {
                ""
            } else {
                uri::split_fragment(text).1.unwrap_or("")
            };
            let resource = self.loader.places[&target].resource;
            let is_dynamic = self
                .loader
                .dynamic
                .get(&resource)
                .is_some_and(|d| d.iter().any(|(n, a)| &**n == name && *a == target));
            if is_dynamic {
                // The target's own resource counts only if no outer scope has the anchor.
                target = self.loader.scopes[self.scope]
                    .get(name)
                    .copied()
                    .unwrap_or(target);
            }
        }
        out.refs.push(self.loader.want(target, self.scope));
        Ok(())
    }

    fn unsupported(&mut self, key: &str, why: &str) -> Result<(), SchemaError> {
        if self.loader.settings.relax {
            let at = self.at(key);
            self.loader.relaxed.push((at, key.to_owned()));
            return Ok(());
        }
        Err(SchemaError::unsupported(
            self.at(key),
            key,
            format!("'{key}' is not supported here: {why}"),
        ))
    }

    fn read(mut self) -> Result<Schema, SchemaError> {
        let mut s = Schema {
            pointer: self.place.pointer.clone(),
            ..Schema::default()
        };
        let members = match self.place.json {
            Json::Bool(b) => {
                s.truth = Some(*b);
                return Ok(s);
            }
            Json::Obj(m) => m,
            other => {
                return Err(SchemaError::invalid(
                    &*s.pointer,
                    format!(
                        "a schema must be an object or a boolean, not {}",
                        other.type_name()
                    ),
                ))
            }
        };
        let d = self.place.dialect;
        s.integer_by_spelling = d == Dialect::Draft4;
        if d <= Dialect::Draft7 {
            if let Some(r) = self.place.json.get("$ref") {
                self.reference("$ref", r, &mut s)?;
                return Ok(s);
            }
        }
        for (key, value) in members {
            self.keyword(key, value, d, &mut s)?;
        }
        if s.contains.is_none() {
            (s.min_contains, s.max_contains) = (None, None);
        }
        Ok(s)
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &'a Json,
        d: Dialect,
        s: &mut Schema,
    ) -> Result<(), SchemaError> {
        use Dialect::{Draft201909, Draft202012, Draft4, Draft6, Draft7};
        match key {
            "$ref" => self.reference(key, value, s)?,
            "$dynamicRef" if d >= Draft202012 => self.reference(key, value, s)?,
            "$recursiveRef" if d == Draft201909 => self.reference(key, value, s)?,
            "type" => s.types = Some(self.types(value)?),
            "enum" => match value {
                Json::Arr(a) => s.enums = Some(a.iter().map(Json::to_value).collect()),
                other => return Err(self.bad(key, "an array", other)),
            },
            "const" if d >= Draft6 => s.konst = Some(value.to_value()),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                self.bound(key, value, d, s)?
            }
            "multipleOf" => match value {
                Json::Num(n) if !n.is_negative() && !n.is_zero() => s.multiple_of = Some(n.clone()),
                other => return Err(self.bad(key, "a number above 0", other)),
            },
            "minLength" => s.min_length = Some(self.count(key, value)?),
            "maxLength" => s.max_length = Some(self.count(key, value)?),
            "pattern" => match value {
                Json::Str(p) => {
                    s.pattern = Some(
                        self.loader
                            .lang(LangSource::Pattern(p.clone()), self.at(key)),
                    )
                }
                other => return Err(self.bad(key, "a string", other)),
            },
            "format" => match value {
                Json::Str(f) => {
                    if self.loader.settings.assert_format {
                        match formats::lookup(f, d) {
                            formats::Lookup::Known(name) => {
                                s.format =
                                    Some(self.loader.lang(LangSource::Format(name), self.at(key)));
                            }
                            formats::Lookup::Annotation => {}
                            formats::Lookup::Refused(why) => self.unsupported(key, why)?,
                        }
                    }
                }
                other => return Err(self.bad(key, "a string", other)),
            },
            "minItems" => s.min_items = Some(self.count(key, value)?),
            "maxItems" => s.max_items = Some(self.count(key, value)?),
            "uniqueItems" => match value {
                Json::Bool(b) => s.unique = *b,
                other => return Err(self.bad(key, "a boolean", other)),
            },
            "prefixItems" if d >= Draft202012 => s.prefix = self.list(key, value)?,
            "items" => match value {
                Json::Arr(a) if d < Draft202012 => {
                    if !a.is_empty() {
                        s.prefix = self.list(key, value)?;
                    }
                    if let Some(rest) = self.place.json.get("additionalItems") {
                        s.items = Some(self.boolean_or_child("additionalItems", rest)?);
                    }
                }
                other => s.items = Some(self.child(other, self.at(key))?),
            },
            "contains" if d >= Draft6 => s.contains = Some(self.child(value, self.at(key))?),
            "minContains" if d >= Draft201909 => s.min_contains = Some(self.count(key, value)?),
            "maxContains" if d >= Draft201909 => s.max_contains = Some(self.count(key, value)?),
            "properties" => {
                for (k, v) in self.map(key, value)? {
                    let p = format!("{}/{}", self.at(key), uri::escape_token(k));
                    let id = self.child(v, p)?;
                    s.props.push((k.clone(), id));
                }
            }
            "patternProperties" => {
                for (k, v) in self.map(key, value)? {
                    let p = format!("{}/{}", self.at(key), uri::escape_token(k));
                    let lang = self.loader.lang(LangSource::Pattern(k.clone()), p.clone());
                    let id = self.child(v, p)?;
                    s.patterns.push((lang, id));
                }
            }
            "additionalProperties" => s.additional = Some(self.boolean_or_child(key, value)?),
            "propertyNames" if d >= Draft6 => s.names = Some(self.child(value, self.at(key))?),
            "required" => s.required = self.names(key, value)?,
            "minProperties" => s.min_props = Some(self.count(key, value)?),
            "maxProperties" => s.max_props = Some(self.count(key, value)?),
            "dependencies" if d <= Draft7 => {
                for (k, v) in self.map(key, value)? {
                    if let Json::Arr(_) = v {
                        let names = self.names(key, v)?;
                        s.dep_required.push((k.clone(), names));
                    } else {
                        let id =
                            self.child(v, format!("{}/{}", self.at(key), uri::escape_token(k)))?;
                        s.dep_schemas.push((k.clone(), id));
                    }
                }
            }
            "dependentRequired" if d >= Draft201909 => {
                for (k, v) in self.map(key, value)? {
                    let names = self.names(key, v)?;
                    s.dep_required.push((k.clone(), names));
                }
            }
            "dependentSchemas" if d >= Draft201909 => {
                for (k, v) in self.map(key, value)? {
                    let id = self.child(v, format!("{}/{}", self.at(key), uri::escape_token(k)))?;
                    s.dep_schemas.push((k.clone(), id));
                }
            }
            "allOf" => s.all_of = self.list(key, value)?,
            "anyOf" => s.any_of = Some(self.list(key, value)?),
            "oneOf" => s.one_of = Some(self.list(key, value)?),
            "not" => s.not = Some(self.child(value, self.at(key))?),
            "if" if d >= Draft7 => s.if_ = Some(self.child(value, self.at(key))?),
            "then" if d >= Draft7 => s.then = Some(self.child(value, self.at(key))?),
            "else" if d >= Draft7 => s.else_ = Some(self.child(value, self.at(key))?),
            "unevaluatedProperties" if d >= Draft201909 => {
                s.uneval_props = Some(self.child(value, self.at(key))?)
            }
            "unevaluatedItems" if d >= Draft201909 => {
                if d == Draft201909
                    && !matches!(value, Json::Bool(true))
                    && self.place.json.get("contains").is_some()
                {
                    self.unsupported(
                        key,
                        "2019-09 does not say whether 'contains' evaluates items",
                    )?;
                } else {
                    s.uneval_items = Some(self.child(value, self.at(key))?);
                }
            }
            _ => debug_assert!(d >= Draft4),
        }
        Ok(())
    }

    /// Draft 4 has no boolean schemas but allows booleans here.
    fn boolean_or_child(&mut self, key: &str, value: &'a Json) -> Result<SchemaId, SchemaError> {
        if let (Json::Bool(_), Dialect::Draft4) = (value, self.place.dialect) {
            let p = self.place;
            self.loader.index(
                value,
                &p.base,
                p.resource,
                &self.at(key).into(),
                p.dialect,
                false,
            )?;
            return Ok(self.loader.want(address(value), self.scope));
        }
        self.child(value, self.at(key))
    }

    fn bound(
        &mut self,
        key: &str,
        value: &Json,
        d: Dialect,
        s: &mut Schema,
    ) -> Result<(), SchemaError> {
        let side = if key.ends_with("inimum") {
            &mut s.minimum
        } else {
            &mut s.maximum
        };
        if d == Dialect::Draft4 && key.starts_with("exclusive") {
            return match value {
                Json::Bool(_) => Ok(()),
                other => Err(self.bad(key, "a boolean (draft-04)", other)),
            };
        }
        let Json::Num(n) = value else {
            return Err(self.bad(key, "a number", value));
        };
        let mut exclusive = key.starts_with("exclusive");
        if d == Dialect::Draft4 {
            let twin = if key == "minimum" {
                "exclusiveMinimum"
            } else {
                "exclusiveMaximum"
            };
            exclusive = self.place.json.get(twin) == Some(&Json::Bool(true));
        }
        let bound: Bound = (n.clone(), exclusive);
        side.push(bound);
        Ok(())
    }
}
