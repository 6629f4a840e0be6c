//! From a conjunction of schemas to shapes: keyword by keyword, alternatives kept open as long as possible.
//!
//! Every schema of the term is applied to a partial shape. What asserts is merged at once; what offers a choice
//! (`anyOf`, `oneOf`, `if`, a denied schema) waits. Waiting choices are thinned out against the shape (discriminators
//! and types decide most), turned into clauses where events can say it, and only then branched on.

use std::sync::Arc;

use super::ast::{Bound, LangId, LangSource, Schema, SchemaId, Types};
use super::decimal::Decimal;
use super::error::SchemaError;
use super::formats;
use super::json::Value;
use super::shapes::{
    ArrayEvent, Atom, Keys, Kind, ObjectEvent, PropertySource, Shape, TermId, FALSE, TRUE,
};
use super::terms::{Terms, Walk};

/// One thing to be true of the value.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Atom(Atom),
    Low(Bound),
    High(Bound),
    Step(Decimal),
    NotStep(Decimal),
    Spelled(bool),
    MinLength(u64),
    MaxLength(u64),
    Lang(LangId, bool),
    /// Not among these values (of any type).
    NoneOf(Arc<[Arc<Value>]>),
    Clause(Vec<ObjectEvent>),
    ArrayClause(Vec<ArrayEvent>),
    Source(PropertySource),
    Items(Vec<TermId>, TermId),
}

type Alternative = Vec<Item>;

/// A choice that is still open.
#[derive(Clone, Debug)]
struct Choice {
    alternatives: Vec<Alternative>,
    keyword: &'static str,
    pointer: Arc<str>,
}

#[derive(Clone)]
struct Partial {
    shape: Shape,
    choices: Vec<Choice>,
    done: Vec<Atom>,
}

/// Clauses beyond this many in place of one choice are not worth it.
const MAX_CLAUSES: usize = 16;
/// Clauses of one shape (they are bits of a state word).
const MAX_SHAPE_CLAUSES: usize = 64;
/// The same for arrays.
const MAX_ARRAY_CLAUSES: usize = 32;

/// All shapes of one JSON type for a conjunction.
///
/// # Errors
/// Limits that name the keyword, and combinations that are not decided.
pub(crate) fn expand(
    terms: &Terms,
    w: &mut Walk,
    atoms: &[Atom],
    kind: Kind,
) -> Result<Vec<Shape>, SchemaError> {
    let e = Expander { terms, kind };
    let mut p = Partial {
        shape: Shape::any(kind),
        choices: Vec::new(),
        done: Vec::new(),
    };
    let items: Vec<Item> = atoms.iter().cloned().map(Item::Atom).collect();
    let mut out = Vec::new();
    if e.apply(w, &mut p, items)? {
        e.branch(w, p, &mut out)?;
    }
    Ok(out)
}

struct Expander<'t> {
    terms: &'t Terms,
    kind: Kind,
}

impl Expander<'_> {
    fn schema(&self, id: SchemaId) -> &Schema {
        &self.terms.document.schemas[id as usize]
    }

    fn types(&self) -> Types {
        match self.kind {
            Kind::Null => Types::NULL,
            Kind::Bool => Types::BOOL,
            Kind::Number => Types::NUMBER,
            Kind::String => Types::STRING,
            Kind::Array => Types::ARRAY,
            Kind::Object => Types::OBJECT,
        }
    }

    /// Decides the open choices one by one.
    fn branch(
        &self,
        w: &mut Walk,
        mut p: Partial,
        out: &mut Vec<Shape>,
    ) -> Result<(), SchemaError> {
        loop {
            let mut smallest: Option<(usize, usize)> = None;
            let mut changed = false;
            let mut i = 0;
            while i < p.choices.len() {
                let c = p.choices[i].clone();
                let mut kept: Vec<Alternative> = Vec::new();
                let mut free = false;
                for a in &c.alternatives {
                    w.tick(c.keyword, &c.pointer)?;
                    let mut probe = Partial {
                        shape: p.shape.clone(),
                        choices: Vec::new(),
                        done: p.done.clone(),
                    };
                    if self.apply(w, &mut probe, a.clone())?
                        && !self.plainly_dead(w, &probe.shape)?
                    {
                        free |= probe.choices.is_empty() && probe.shape == p.shape;
                        if !kept.contains(a) {
                            kept.push(a.clone());
                        }
                    }
                }
                if free {
                    p.choices.remove(i);
                    changed = true;
                    continue;
                }
                match kept.len() {
                    0 => return Ok(()),
                    1 => {
                        p.choices.remove(i);
                        let only = kept.remove(0);
                        if !self.apply(w, &mut p, only)? || self.plainly_dead(w, &p.shape)? {
                            return Ok(());
                        }
                        changed = true;
                        continue;
                    }
                    n => {
                        if let Some(clauses) = self.as_clauses(&kept) {
                            p.choices.remove(i);
                            if !self.apply(w, &mut p, clauses)? || self.plainly_dead(w, &p.shape)? {
                                return Ok(());
                            }
                            changed = true;
                            continue;
                        }
                        p.choices[i].alternatives = kept;
                        if smallest.is_none_or(|(_, m)| n < m) {
                            smallest = Some((i, n));
                        }
                    }
                }
                i += 1;
            }
            if changed && !p.choices.is_empty() {
                continue;
            }
            let Some((i, _)) = smallest else { break };
            let c = p.choices.remove(i);
            for a in c.alternatives {
                w.tick(c.keyword, &c.pointer)?;
                let mut next = p.clone();
                if self.apply(w, &mut next, a)? && !self.plainly_dead(w, &next.shape)? {
                    self.branch(w, next, out)?;
                }
                if out.len() > self.terms.settings.max_shapes {
                    let (need, max) = (out.len() as u64, self.terms.settings.max_shapes as u64);
                    return Err(SchemaError::limit(
                        &*c.pointer,
                        &format!("alternatives of {}", c.keyword),
                        need,
                        max,
                    ));
                }
            }
            return Ok(());
        }
        if let Shape::Object(o) = &mut p.shape {
            if !self.settle(w, o)? {
                return Ok(());
            }
            if o.clauses.len() > MAX_SHAPE_CLAUSES {
                let need = o.clauses.len() as u64;
                return Err(SchemaError::limit(
                    "",
                    "conditions on one object from anyOf, oneOf, not and if",
                    need,
                    MAX_SHAPE_CLAUSES as u64,
                ));
            }
        }
        if let Shape::Array(a) = &p.shape {
            if a.clauses.len() > MAX_ARRAY_CLAUSES {
                let (need, max) = (a.clauses.len() as u64, MAX_ARRAY_CLAUSES as u64);
                return Err(SchemaError::limit(
                    "",
                    "conditions on one array from contains, anyOf, not and if",
                    need,
                    max,
                ));
            }
        }
        if let Shape::Number(n) = &mut p.shape {
            n.tidy();
        }
        if !self.plainly_dead(w, &p.shape)? && !out.contains(&p.shape) {
            out.push(p.shape);
        }
        Ok(())
    }

    /// Whether the shape is empty as far as a look at single members shows.
    fn plainly_dead(&self, w: &mut Walk, shape: &Shape) -> Result<bool, SchemaError> {
        Ok(match shape {
            Shape::Null => false,
            Shape::Bool(b) => !b[0] && !b[1],
            Shape::Number(n) => {
                n.finite
                    .as_ref()
                    .is_some_and(|f| !f.iter().any(|v| n.contains(v)))
                    || matches!((&n.low, &n.high), (Some((a, x)), Some((b, y))) if a > b || (a == b && (*x || *y)))
                    || n.step
                        .as_ref()
                        .is_some_and(|s| n.not_steps.iter().any(|d| s.is_multiple_of(d)))
            }
            Shape::String(s) => {
                s.max.is_some_and(|m| s.min > m)
                    || s.finite.as_ref().is_some_and(Vec::is_empty)
                    || s.langs
                        .iter()
                        .any(|(l, sign)| *sign && self.terms.lang(*l).is_empty())
            }
            Shape::Array(a) => {
                a.max.is_some_and(|m| a.min > m) || a.clauses.iter().any(Vec::is_empty)
            }
            Shape::Object(o) => {
                if o.max
                    .is_some_and(|m| o.min.max(o.required.len() as u64) > m)
                    || o.clauses.iter().any(Vec::is_empty)
                {
                    return Ok(true);
                }
                for k in &o.required {
                    let t = self.member(o, k);
                    if t == FALSE
                        || (self.terms.term(t).atoms.len() > 1 && self.terms.plainly_empty(w, t)?)
                    {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }

    /// The term for the value of a key.
    fn member(&self, o: &super::shapes::ObjectSet, key: &str) -> TermId {
        let mut parts = Vec::new();
        for s in &o.sources {
            s.parts(Some(key), |l| self.terms.lang(l).contains(key), &mut parts);
        }
        parts.into_iter().fold(TRUE, |a, b| self.terms.and(a, b))
    }

    /// Simplifies clauses against the shape; `false` if one of them cannot be met.
    fn settle(&self, w: &mut Walk, o: &mut super::shapes::ObjectSet) -> Result<bool, SchemaError> {
        loop {
            let mut again = false;
            let clauses = std::mem::take(&mut o.clauses);
            for clause in clauses {
                let mut kept: Vec<ObjectEvent> = Vec::new();
                let mut met = false;
                for event in clause {
                    match &event {
                        ObjectEvent::Missing(k) => {
                            if o.required.contains(k) {
                                continue;
                            }
                            let t = self.member(o, k);
                            met |= t == FALSE || self.terms.plainly_empty(w, t)?;
                        }
                        ObjectEvent::Has(Keys::One(k), t) => {
                            let m = self.member(o, k);
                            let both = self.terms.and(m, *t);
                            if both == FALSE || self.terms.plainly_empty(w, both)? {
                                continue;
                            }
                            if o.required.contains(k) {
                                met |= both == m;
                                if let Some(c) = self.terms.complement(*t) {
                                    let rest = self.terms.and(m, c);
                                    met |= self.terms.plainly_empty(w, rest)?;
                                }
                            }
                        }
                        ObjectEvent::Has(_, t) => {
                            if *t == FALSE {
                                continue;
                            }
                        }
                        ObjectEvent::CountLe(n) => {
                            if o.min.max(o.required.len() as u64) > *n {
                                continue;
                            }
                            met |= o.max.is_some_and(|m| m <= *n);
                        }
                        ObjectEvent::CountGe(n) => {
                            if o.max.is_some_and(|m| m < *n) {
                                continue;
                            }
                            met |= o.min.max(o.required.len() as u64) >= *n;
                        }
                    }
                    if !kept.contains(&event) {
                        kept.push(event);
                    }
                }
                if met {
                    continue;
                }
                match &kept[..] {
                    [] => return Ok(false),
                    [ObjectEvent::Missing(k)] => {
                        o.sources.push(PropertySource {
                            props: vec![(k.clone(), FALSE)],
                            patterns: vec![],
                            additional: TRUE,
                        });
                        again = true;
                    }
                    [ObjectEvent::Has(Keys::One(k), t)] => {
                        if !o.required.contains(k) {
                            o.required.push(k.clone());
                        }
                        if *t != TRUE {
                            let source = PropertySource {
                                props: vec![(k.clone(), *t)],
                                patterns: vec![],
                                additional: TRUE,
                            };
                            if !o.sources.contains(&source) {
                                o.sources.push(source);
                            }
                        }
                        again = true;
                    }
                    [ObjectEvent::CountLe(n)] => {
                        o.max = Some(o.max.map_or(*n, |m| m.min(*n)));
                        again = true;
                    }
                    [ObjectEvent::CountGe(n)] => {
                        o.min = o.min.max(*n);
                        again = true;
                    }
                    _ => {
                        if !o.clauses.contains(&kept) {
                            o.clauses.push(kept);
                        }
                    }
                }
            }
            if !again {
                return Ok(true);
            }
        }
    }

    /// Applies items and all they entail; `false` as soon as the shape is contradictory.
    fn apply(&self, w: &mut Walk, p: &mut Partial, items: Vec<Item>) -> Result<bool, SchemaError> {
        let mut todo = items;
        todo.reverse();
        while let Some(item) = todo.pop() {
            w.tick("allOf", "#")?;
            let ok = match item {
                Item::Atom(a) => {
                    if p.done.contains(&a) {
                        continue;
                    }
                    p.done.push(a.clone());
                    match a {
                        Atom::Schema(id, true) => self.assert(w, p, id, &mut todo)?,
                        Atom::Schema(id, false) => self.deny(w, p, id, &mut todo)?,
                        Atom::Value(v, true) => self.equal(p, &v),
                        Atom::Value(v, false) => self.unequal(p, &v),
                    }
                }
                other => self.primitive(p, other),
            };
            if !ok {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn primitive(&self, p: &mut Partial, item: Item) -> bool {
        match (&mut p.shape, item) {
            (Shape::Number(n), Item::Low(b)) => n.at_least(&b),
            (Shape::Number(n), Item::High(b)) => n.at_most(&b),
            (Shape::Number(n), Item::Step(d)) => n.multiple(&d),
            (Shape::Number(n), Item::NotStep(d)) => n.not_multiple(&d),
            (Shape::Number(n), Item::Spelled(s)) => return n.spelled(s),
            (Shape::String(s), Item::MinLength(n)) => s.min = s.min.max(n),
            (Shape::String(s), Item::MaxLength(n)) => s.max = Some(s.max.map_or(n, |m| m.min(n))),
            (Shape::String(s), Item::Lang(l, sign)) => {
                if s.langs.contains(&(l, !sign)) {
                    return false;
                }
                if !s.langs.contains(&(l, sign)) {
                    s.langs.push((l, sign));
                    s.langs.sort_unstable();
                }
            }
            (Shape::Object(o), Item::Clause(c)) => {
                if !o.clauses.contains(&c) {
                    o.clauses.push(c);
                }
            }
            (Shape::Object(o), Item::Source(s)) => {
                if !o.sources.contains(&s) {
                    o.sources.push(s);
                }
            }
            (Shape::Array(a), Item::ArrayClause(c)) => match &c[..] {
                [ArrayEvent::LenLe(n)] => a.max = Some(a.max.map_or(*n, |m| m.min(*n))),
                [ArrayEvent::LenGe(n)] => a.min = a.min.max(*n),
                _ => {
                    if !a.clauses.contains(&c) {
                        a.clauses.push(c);
                    }
                }
            },
            (Shape::Array(a), Item::Items(prefix, rest)) => {
                if !a.sources.contains(&(prefix.clone(), rest)) {
                    a.sources.push((prefix, rest));
                }
            }
            (_, Item::NoneOf(values)) => {
                return values
                    .iter()
                    .filter(|v| v.kind() == self.kind)
                    .all(|v| self.unequal(p, v));
            }
            (_, _) => {}
        }
        true
    }

    fn among(&self, p: &mut Partial, values: &Arc<[Arc<Value>]>) -> bool {
        let mine = || values.iter().filter(|v| v.kind() == self.kind);
        match &mut p.shape {
            Shape::Null => mine().next().is_some(),
            Shape::Bool(b) => {
                for (i, allowed) in b.iter_mut().enumerate() {
                    *allowed &= mine().any(|v| **v == Value::Bool(i == 1));
                }
                b[0] || b[1]
            }
            Shape::Number(n) => {
                let all: Vec<Decimal> = mine()
                    .filter_map(|v| {
                        if let Value::Num(d) = &**v {
                            Some(d.clone())
                        } else {
                            None
                        }
                    })
                    .collect();
                n.among(&all);
                n.finite.as_ref().is_some_and(|f| !f.is_empty())
            }
            Shape::String(s) => {
                let mut all: Vec<Arc<str>> = mine()
                    .filter_map(|v| {
                        if let Value::Str(t) = &**v {
                            Some(t.clone())
                        } else {
                            None
                        }
                    })
                    .collect();
                all.sort();
                all.dedup();
                s.finite = Some(match s.finite.take() {
                    None => all,
                    Some(old) => old
                        .into_iter()
                        .filter(|x| all.binary_search(x).is_ok())
                        .collect(),
                });
                s.finite.as_ref().is_some_and(|f| !f.is_empty())
            }
            Shape::Array(_) | Shape::Object(_) => {
                let alternatives: Vec<Alternative> = mine()
                    .map(|v| vec![Item::Atom(Atom::Value(v.clone(), true))])
                    .collect();
                let some = !alternatives.is_empty();
                p.choices.push(Choice {
                    alternatives,
                    keyword: "enum",
                    pointer: "#".into(),
                });
                some
            }
        }
    }

    fn equal(&self, p: &mut Partial, v: &Arc<Value>) -> bool {
        if v.kind() != self.kind {
            return false;
        }
        match (&mut p.shape, &**v) {
            (Shape::Array(a), Value::Arr(items)) => {
                let terms = items
                    .iter()
                    .map(|x| self.terms.conjunction([Atom::Value(x.clone(), true)]))
                    .collect();
                let n = items.len() as u64;
                a.sources.push((terms, FALSE));
                a.min = a.min.max(n);
                a.max = Some(a.max.map_or(n, |m| m.min(n)));
                true
            }
            (Shape::Object(o), Value::Obj(members)) => {
                let props = members
                    .iter()
                    .map(|(k, x)| {
                        (
                            k.clone(),
                            self.terms.conjunction([Atom::Value(x.clone(), true)]),
                        )
                    })
                    .collect();
                o.sources.push(PropertySource {
                    props,
                    patterns: vec![],
                    additional: FALSE,
                });
                for (k, _) in members {
                    if !o.required.contains(k) {
                        o.required.push(k.clone());
                    }
                }
                true
            }
            _ => self.among(p, &Arc::from([v.clone()])),
        }
    }

    fn unequal(&self, p: &mut Partial, v: &Arc<Value>) -> bool {
        if v.kind() != self.kind {
            return true;
        }
        let differs = |x: &Arc<Value>| self.terms.conjunction([Atom::Value(x.clone(), false)]);
        match (&mut p.shape, &**v) {
            (Shape::Null, _) => return false,
            (Shape::Bool(b), Value::Bool(x)) => {
                b[usize::from(*x)] = false;
                return b[0] || b[1];
            }
            (Shape::Number(n), Value::Num(d)) => n.exclude(d),
            (Shape::String(s), Value::Str(t)) => {
                if let Some(f) = &mut s.finite {
                    f.retain(|x| x != t);
                    return !f.is_empty();
                }
                if !s.excluded.contains(t) {
                    s.excluded.push(t.clone());
                }
            }
            (Shape::Array(_), Value::Arr(items)) => {
                let n = items.len() as u64;
                let mut clause: Vec<ArrayEvent> = vec![ArrayEvent::LenGe(n + 1)];
                if n > 0 {
                    clause.push(ArrayEvent::LenLe(n - 1));
                }
                clause.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(i, x)| ArrayEvent::At(i as u64, differs(x))),
                );
                return self.primitive(p, Item::ArrayClause(clause));
            }
            (Shape::Object(_), Value::Obj(members)) => {
                let names: Arc<[Arc<str>]> = members.iter().map(|(k, _)| k.clone()).collect();
                let mut clause = vec![ObjectEvent::Has(Keys::Others(names, Arc::from([])), TRUE)];
                for (k, x) in members {
                    clause.push(ObjectEvent::Missing(k.clone()));
                    clause.push(ObjectEvent::Has(Keys::One(k.clone()), differs(x)));
                }
                return self.primitive(p, Item::Clause(clause));
            }
            _ => {}
        }
        true
    }

    fn term(&self, id: SchemaId) -> TermId {
        self.terms.schema(id, true)
    }

    fn denied(&self, id: SchemaId) -> TermId {
        self.terms.schema(id, false)
    }

    fn atom(id: SchemaId, sign: bool) -> Item {
        Item::Atom(Atom::Schema(id, sign))
    }

    fn length_of_format(&self, l: LangId) -> Option<u64> {
        match &self.terms.document.langs[l as usize] {
            LangSource::Format(f) => formats::max_length(f),
            LangSource::Pattern(_) => None,
        }
    }

    /// A schema that holds.
    fn assert(
        &self,
        w: &mut Walk,
        p: &mut Partial,
        id: SchemaId,
        todo: &mut Vec<Item>,
    ) -> Result<bool, SchemaError> {
        let s = self.schema(id);
        if s.truth == Some(false) {
            return Ok(false);
        }
        let mut ok = true;
        if let Some(t) = s.types {
            if !t.has(self.types()) {
                return Ok(false);
            }
            if self.kind == Kind::Number && !t.has(Types::FRACTION) {
                let item = if s.integer_by_spelling {
                    Item::Spelled(true)
                } else {
                    Item::Step(Decimal::from_i64(1))
                };
                ok &= self.primitive(p, item);
            }
        }
        if let Some(v) = &s.konst {
            ok &= self.equal(p, v);
        }
        if let Some(values) = &s.enums {
            ok &= self.among(p, values);
        }
        if !ok {
            return Ok(false);
        }
        match self.kind {
            Kind::Null | Kind::Bool => {}
            Kind::Number => {
                for b in &s.minimum {
                    self.primitive(p, Item::Low(b.clone()));
                }
                for b in &s.maximum {
                    self.primitive(p, Item::High(b.clone()));
                }
                if let Some(d) = &s.multiple_of {
                    self.primitive(p, Item::Step(d.clone()));
                }
            }
            Kind::String => {
                if let Some(n) = s.min_length {
                    self.primitive(p, Item::MinLength(n));
                }
                if let Some(n) = s.max_length {
                    self.primitive(p, Item::MaxLength(n));
                }
                for l in s.pattern.iter().chain(&s.format) {
                    ok &= self.primitive(p, Item::Lang(*l, true));
                    if let Some(n) = self.length_of_format(*l) {
                        self.primitive(p, Item::MaxLength(n));
                    }
                }
            }
            Kind::Array => self.assert_array(w, p, id)?,
            Kind::Object => self.assert_object(w, p, id)?,
        }
        todo.extend(
            s.refs
                .iter()
                .chain(&s.all_of)
                .rev()
                .map(|&r| Self::atom(r, true)),
        );
        if let Some(n) = s.not {
            todo.push(Self::atom(n, false));
        }
        let mut choose = |alternatives: Vec<Alternative>, keyword: &'static str| {
            p.choices.push(Choice {
                alternatives,
                keyword,
                pointer: s.pointer.clone(),
            });
        };
        if let Some(any) = &s.any_of {
            choose(
                any.iter().map(|&a| vec![Self::atom(a, true)]).collect(),
                "anyOf",
            );
        }
        if let Some(one) = &s.one_of {
            let pick = |i: usize| {
                one.iter()
                    .enumerate()
                    .map(move |(j, &a)| Self::atom(a, i == j))
            };
            // The one that holds first, so that the others are denied against a shape that already says much.
            let alternatives = (0..one.len())
                .map(|i| {
                    let mut v: Alternative = pick(i).collect();
                    v.swap(0, i);
                    v
                })
                .collect();
            choose(alternatives, "oneOf");
        }
        if let Some(c) = s.if_ {
            let side = |sign: bool, then: Option<SchemaId>| {
                let mut v = vec![Self::atom(c, sign)];
                v.extend(then.map(|t| Self::atom(t, true)));
                v
            };
            if s.then.is_some() || s.else_.is_some() {
                choose(vec![side(true, s.then), side(false, s.else_)], "if");
            }
        }
        if self.kind == Kind::Object {
            for (k, c) in &s.dep_schemas {
                let has = Item::Clause(vec![ObjectEvent::Has(Keys::One(k.clone()), TRUE)]);
                choose(
                    vec![
                        vec![Item::Clause(vec![ObjectEvent::Missing(k.clone())])],
                        vec![has, Self::atom(*c, true)],
                    ],
                    "dependentSchemas",
                );
            }
        }
        Ok(ok)
    }

    fn assert_array(&self, w: &mut Walk, p: &mut Partial, id: SchemaId) -> Result<(), SchemaError> {
        let s = self.schema(id);
        if let Some(n) = s.min_items {
            self.primitive(p, Item::ArrayClause(vec![ArrayEvent::LenGe(n)]));
        }
        if let Some(n) = s.max_items {
            self.primitive(p, Item::ArrayClause(vec![ArrayEvent::LenLe(n)]));
        }
        if !s.prefix.is_empty() || s.items.is_some() {
            let rest = s.items.map_or(TRUE, |i| self.term(i));
            let prefix = s.prefix.iter().map(|&i| self.term(i)).collect();
            self.primitive(p, Item::Items(prefix, rest));
        }
        if let Some(c) = s.contains {
            let t = self.term(c);
            let min = s.min_contains.unwrap_or(1);
            if min > 0 {
                self.primitive(p, Item::ArrayClause(vec![ArrayEvent::CountGe(t, min)]));
            }
            if let Some(max) = s.max_contains {
                self.primitive(p, Item::ArrayClause(vec![ArrayEvent::CountLe(t, max)]));
            }
        }
        if s.unique {
            if let Shape::Array(a) = &mut p.shape {
                a.unique = true;
            }
        }
        if let Some(u) = s.uneval_items {
            let rest = self.term(u);
            if rest != TRUE {
                let alternatives = self.item_evaluations(w, id, 0, true)?;
                let mut out = Vec::new();
                for (mut items, e) in alternatives {
                    if !e.all {
                        let rest = match (&e.contains[..], rest) {
                            ([], _) => rest,
                            ([c], FALSE) => *c,
                            _ => return Err(self.refuse(s, "unevaluatedItems", "together with 'contains' it is decided only for 'unevaluatedItems: false'")),
                        };
                        items.push(Item::Items(vec![TRUE; e.prefix], rest));
                    }
                    out.push(items);
                }
                p.choices.push(Choice {
                    alternatives: out,
                    keyword: "unevaluatedItems",
                    pointer: s.pointer.clone(),
                });
            }
        }
        Ok(())
    }

    fn assert_object(
        &self,
        w: &mut Walk,
        p: &mut Partial,
        id: SchemaId,
    ) -> Result<(), SchemaError> {
        let s = self.schema(id);
        if !s.props.is_empty() || !s.patterns.is_empty() || s.additional.is_some() {
            self.primitive(p, Item::Source(self.source(s)));
        }
        if let Shape::Object(o) = &mut p.shape {
            for r in &s.required {
                if !o.required.contains(r) {
                    o.required.push(r.clone());
                }
            }
            if let Some(n) = s.min_props {
                o.min = o.min.max(n);
            }
            if let Some(n) = s.max_props {
                o.max = Some(o.max.map_or(n, |m| m.min(n)));
            }
            if let Some(n) = s.names {
                let t = self.term(n);
                if t != TRUE && !o.names.contains(&t) {
                    o.names.push(t);
                }
            }
        }
        for (k, needs) in &s.dep_required {
            for n in needs {
                if n != k {
                    let clause = vec![
                        ObjectEvent::Missing(k.clone()),
                        ObjectEvent::Has(Keys::One(n.clone()), TRUE),
                    ];
                    self.primitive(p, Item::Clause(clause));
                }
            }
        }
        if let Some(u) = s.uneval_props {
            let rest = self.term(u);
            if rest != TRUE {
                let mut out = Vec::new();
                for (mut items, e) in self.key_evaluations(w, id, 0, true)? {
                    if !e.all {
                        items.push(Item::Source(PropertySource {
                            props: e.names.into_iter().map(|n| (n, TRUE)).collect(),
                            patterns: e.patterns.into_iter().map(|l| (l, TRUE)).collect(),
                            additional: rest,
                        }));
                    }
                    out.push(items);
                }
                p.choices.push(Choice {
                    alternatives: out,
                    keyword: "unevaluatedProperties",
                    pointer: s.pointer.clone(),
                });
            }
        }
        Ok(())
    }

    fn source(&self, s: &Schema) -> PropertySource {
        PropertySource {
            props: s
                .props
                .iter()
                .map(|(k, i)| (k.clone(), self.term(*i)))
                .collect(),
            patterns: s
                .patterns
                .iter()
                .map(|(l, i)| (*l, self.term(*i)))
                .collect(),
            additional: s.additional.map_or(TRUE, |i| self.term(i)),
        }
    }

    fn refuse(&self, s: &Schema, keyword: &str, why: &str) -> SchemaError {
        SchemaError::unsupported(
            format!("{}/{keyword}", s.pointer),
            keyword,
            format!("'{keyword}' is not supported here: {why}"),
        )
    }

    /// A schema that does not hold: one of its keywords fails.
    fn deny(
        &self,
        w: &mut Walk,
        p: &mut Partial,
        id: SchemaId,
        todo: &mut Vec<Item>,
    ) -> Result<bool, SchemaError> {
        let s = self.schema(id);
        let mut alternatives: Vec<Alternative> = Vec::new();
        match s.truth {
            Some(true) => return Ok(false),
            Some(false) => return Ok(true),
            None => {}
        }
        if let Some(t) = s.types {
            if !t.has(self.types()) {
                return Ok(true);
            }
            if self.kind == Kind::Number && !t.has(Types::FRACTION) {
                let item = if s.integer_by_spelling {
                    Item::Spelled(false)
                } else {
                    Item::NotStep(Decimal::from_i64(1))
                };
                alternatives.push(vec![item]);
            }
        }
        for values in s
            .enums
            .iter()
            .cloned()
            .chain(s.konst.iter().map(|v| Arc::from([v.clone()])))
        {
            if !values.iter().any(|v| v.kind() == self.kind) {
                return Ok(true);
            }
            alternatives.push(vec![Item::NoneOf(values)]);
        }
        match self.kind {
            Kind::Null | Kind::Bool => {}
            Kind::Number => {
                alternatives.extend(
                    s.minimum
                        .iter()
                        .map(|(v, ex)| vec![Item::High((v.clone(), !ex))]),
                );
                alternatives.extend(
                    s.maximum
                        .iter()
                        .map(|(v, ex)| vec![Item::Low((v.clone(), !ex))]),
                );
                alternatives.extend(s.multiple_of.iter().map(|d| vec![Item::NotStep(d.clone())]));
            }
            Kind::String => {
                alternatives.extend(
                    s.min_length
                        .filter(|&n| n > 0)
                        .map(|n| vec![Item::MaxLength(n - 1)]),
                );
                alternatives.extend(s.max_length.map(|n| vec![Item::MinLength(n + 1)]));
                alternatives.extend(
                    s.pattern
                        .iter()
                        .chain(&s.format)
                        .map(|&l| vec![Item::Lang(l, false)]),
                );
            }
            Kind::Array => {
                let clause = self.array_failures(s)?;
                if !clause.is_empty() {
                    alternatives.push(vec![Item::ArrayClause(clause)]);
                }
                if let Some(u) = s.uneval_items {
                    let fails = self.denied(u);
                    for (mut items, e) in self.item_evaluations(w, id, 0, true)? {
                        if e.all || fails == FALSE {
                            continue;
                        }
                        if !e.contains.is_empty() {
                            return Err(self.refuse(
                                s,
                                "unevaluatedItems",
                                "denied together with 'contains'",
                            ));
                        }
                        items.push(Item::ArrayClause(vec![ArrayEvent::From(
                            e.prefix as u64,
                            fails,
                        )]));
                        alternatives.push(items);
                    }
                }
            }
            Kind::Object => {
                let clause = self.object_failures(s);
                if !clause.is_empty() {
                    alternatives.push(vec![Item::Clause(clause)]);
                }
                for (k, needs) in &s.dep_required {
                    let has = ObjectEvent::Has(Keys::One(k.clone()), TRUE);
                    let missing = needs
                        .iter()
                        .filter(|n| *n != k)
                        .map(|n| ObjectEvent::Missing(n.clone()))
                        .collect::<Vec<_>>();
                    if !missing.is_empty() {
                        alternatives.push(vec![Item::Clause(vec![has]), Item::Clause(missing)]);
                    }
                }
                for (k, c) in &s.dep_schemas {
                    alternatives.push(vec![
                        Item::Clause(vec![ObjectEvent::Has(Keys::One(k.clone()), TRUE)]),
                        Self::atom(*c, false),
                    ]);
                }
                if let Some(u) = s.uneval_props {
                    let fails = self.denied(u);
                    for (mut items, e) in self.key_evaluations(w, id, 0, true)? {
                        if e.all || fails == FALSE {
                            continue;
                        }
                        let keys = Keys::Others(e.names.into(), e.patterns.into());
                        items.push(Item::Clause(vec![ObjectEvent::Has(keys, fails)]));
                        alternatives.push(items);
                    }
                }
            }
        }
        alternatives.extend(
            s.refs
                .iter()
                .chain(&s.all_of)
                .map(|&r| vec![Self::atom(r, false)]),
        );
        if let Some(any) = &s.any_of {
            alternatives.push(any.iter().map(|&a| Self::atom(a, false)).collect());
        }
        if let Some(one) = &s.one_of {
            alternatives.push(one.iter().map(|&a| Self::atom(a, false)).collect());
            for i in 0..one.len() {
                for j in i + 1..one.len() {
                    alternatives.push(vec![Self::atom(one[i], true), Self::atom(one[j], true)]);
                }
            }
        }
        if let Some(n) = s.not {
            alternatives.push(vec![Self::atom(n, true)]);
        }
        if let Some(c) = s.if_ {
            alternatives.extend(
                s.then
                    .map(|t| vec![Self::atom(c, true), Self::atom(t, false)]),
            );
            alternatives.extend(
                s.else_
                    .map(|t| vec![Self::atom(c, false), Self::atom(t, false)]),
            );
        }
        match alternatives.len() {
            0 => return Ok(false),
            1 => todo.extend(alternatives.remove(0)),
            _ => p.choices.push(Choice {
                alternatives,
                keyword: "not",
                pointer: s.pointer.clone(),
            }),
        }
        Ok(true)
    }

    fn array_failures(&self, s: &Schema) -> Result<Vec<ArrayEvent>, SchemaError> {
        let mut clause = Vec::new();
        clause.extend(
            s.min_items
                .filter(|&n| n > 0)
                .map(|n| ArrayEvent::LenLe(n - 1)),
        );
        clause.extend(s.max_items.map(|n| ArrayEvent::LenGe(n + 1)));
        for (i, &t) in s.prefix.iter().enumerate() {
            clause.push(ArrayEvent::At(i as u64, self.denied(t)));
        }
        if let Some(t) = s.items {
            clause.push(ArrayEvent::From(s.prefix.len() as u64, self.denied(t)));
        }
        if let Some(c) = s.contains {
            let t = self.term(c);
            let min = s.min_contains.unwrap_or(1);
            if min > 0 {
                clause.push(ArrayEvent::CountLe(t, min - 1));
            }
            clause.extend(s.max_contains.map(|m| ArrayEvent::CountGe(t, m + 1)));
        }
        if s.unique {
            return Err(self.refuse(
                s,
                "uniqueItems",
                "under 'not' (or in a branch that 'oneOf' or 'if' denies)",
            ));
        }
        clause.retain(|e| !matches!(e, ArrayEvent::At(_, FALSE) | ArrayEvent::From(_, FALSE)));
        Ok(clause)
    }

    fn object_failures(&self, s: &Schema) -> Vec<ObjectEvent> {
        let mut clause: Vec<ObjectEvent> = s
            .required
            .iter()
            .map(|r| ObjectEvent::Missing(r.clone()))
            .collect();
        clause.extend(
            s.min_props
                .filter(|&n| n > 0)
                .map(|n| ObjectEvent::CountLe(n - 1)),
        );
        clause.extend(s.max_props.map(|n| ObjectEvent::CountGe(n + 1)));
        clause.extend(
            s.props
                .iter()
                .map(|(k, t)| ObjectEvent::Has(Keys::One(k.clone()), self.denied(*t))),
        );
        clause.extend(
            s.patterns
                .iter()
                .map(|(l, t)| ObjectEvent::Has(Keys::Pattern(*l), self.denied(*t))),
        );
        if let Some(t) = s.additional {
            let names = s.props.iter().map(|(k, _)| k.clone()).collect();
            let patterns = s.patterns.iter().map(|(l, _)| *l).collect();
            clause.push(ObjectEvent::Has(
                Keys::Others(names, patterns),
                self.denied(t),
            ));
        }
        if let Some(n) = s.names {
            clause.push(ObjectEvent::Has(Keys::Violating(self.term(n)), TRUE));
        }
        clause.retain(|e| !matches!(e, ObjectEvent::Has(_, FALSE)));
        clause
    }

    // ------------------------------------------------------------ choices as clauses

    /// The alternatives as clauses that hold together, where events can say it.
    fn as_clauses(&self, alternatives: &[Alternative]) -> Option<Vec<Item>> {
        match self.kind {
            Kind::Object => {
                let mut all: Vec<Vec<ObjectEvent>> = vec![vec![]];
                for a in alternatives {
                    let mut mine: Vec<Vec<ObjectEvent>> = Vec::new();
                    for item in a {
                        mine.extend(self.item_clauses(item, 0)?);
                    }
                    all = distribute(&all, &mine)?;
                }
                Some(all.into_iter().map(Item::Clause).collect())
            }
            Kind::Array => {
                let mut all: Vec<Vec<ArrayEvent>> = vec![vec![]];
                for a in alternatives {
                    let mut mine: Vec<Vec<ArrayEvent>> = Vec::new();
                    for item in a {
                        match item {
                            Item::ArrayClause(c) => mine.push(c.clone()),
                            _ => return None,
                        }
                    }
                    all = distribute(&all, &mine)?;
                }
                Some(all.into_iter().map(Item::ArrayClause).collect())
            }
            _ => None,
        }
    }

    fn item_clauses(&self, item: &Item, depth: usize) -> Option<Vec<Vec<ObjectEvent>>> {
        match item {
            Item::Clause(c) => Some(vec![c.clone()]),
            Item::Atom(Atom::Schema(id, sign)) if depth < 12 => {
                if *sign {
                    self.clauses_of(*id, depth)
                } else {
                    self.clauses_of_denied(*id, depth)
                }
            }
            _ => None,
        }
    }

    /// A schema that holds, as clauses over events.
    fn clauses_of(&self, id: SchemaId, depth: usize) -> Option<Vec<Vec<ObjectEvent>>> {
        let s = self.schema(id);
        let mut out: Vec<Vec<ObjectEvent>> = Vec::new();
        if s.truth == Some(false) || s.types.is_some_and(|t| !t.has(Types::OBJECT)) {
            return Some(vec![vec![]]);
        }
        let universal = !s.patterns.is_empty()
            || s.additional.is_some()
            || s.names.is_some()
            || s.uneval_props.is_some();
        if universal || s.enums.is_some() || s.konst.is_some() {
            return None;
        }
        for (k, t) in &s.props {
            let t = self.term(*t);
            if t != TRUE {
                let mut c = vec![ObjectEvent::Has(Keys::One(k.clone()), t)];
                if !s.required.contains(k) {
                    c.push(ObjectEvent::Missing(k.clone()));
                }
                out.push(c);
            }
        }
        for r in &s.required {
            let said = s.props.iter().any(|(k, t)| k == r && self.term(*t) != TRUE);
            if !said {
                out.push(vec![ObjectEvent::Has(Keys::One(r.clone()), TRUE)]);
            }
        }
        out.extend(s.min_props.map(|n| vec![ObjectEvent::CountGe(n)]));
        out.extend(s.max_props.map(|n| vec![ObjectEvent::CountLe(n)]));
        for (k, needs) in &s.dep_required {
            out.extend(needs.iter().map(|n| {
                vec![
                    ObjectEvent::Missing(k.clone()),
                    ObjectEvent::Has(Keys::One(n.clone()), TRUE),
                ]
            }));
        }
        for &r in s.refs.iter().chain(&s.all_of) {
            out.extend(self.item_clauses(&Self::atom(r, true), depth + 1)?);
        }
        if let Some(n) = s.not {
            out.extend(self.item_clauses(&Self::atom(n, false), depth + 1)?);
        }
        if let Some(any) = &s.any_of {
            let mut all = vec![vec![]];
            for &a in any {
                all = distribute(&all, &self.item_clauses(&Self::atom(a, true), depth + 1)?)?;
            }
            out.extend(all);
        }
        if s.one_of.is_some() || s.if_.is_some() || !s.dep_schemas.is_empty() {
            return None;
        }
        (out.len() <= MAX_CLAUSES).then_some(out)
    }

    /// A schema that does not hold, as clauses over events.
    fn clauses_of_denied(&self, id: SchemaId, depth: usize) -> Option<Vec<Vec<ObjectEvent>>> {
        let s = self.schema(id);
        match s.truth {
            Some(true) => return Some(vec![vec![]]),
            Some(false) => return Some(vec![]),
            None => {}
        }
        if s.types.is_some_and(|t| !t.has(Types::OBJECT)) {
            return Some(vec![]);
        }
        let hard = s.enums.is_some()
            || s.konst.is_some()
            || s.uneval_props.is_some()
            || s.one_of.is_some()
            || s.if_.is_some();
        if hard || !s.dep_schemas.is_empty() || !s.dep_required.is_empty() {
            return None;
        }
        let mut all = vec![self.object_failures(s)];
        for &r in s.refs.iter().chain(&s.all_of) {
            all = distribute(&all, &self.item_clauses(&Self::atom(r, false), depth + 1)?)?;
        }
        if let Some(n) = s.not {
            all = distribute(&all, &self.item_clauses(&Self::atom(n, true), depth + 1)?)?;
        }
        if let Some(any) = &s.any_of {
            let mut none = Vec::new();
            for &a in any {
                none.extend(self.item_clauses(&Self::atom(a, false), depth + 1)?);
            }
            all = distribute(&all, &none)?;
        }
        Some(all)
    }

    // ------------------------------------------------------------ unevaluated*

    /// Ways in which a schema can hold, each with the keys that its keywords then evaluate.
    fn key_evaluations(
        &self,
        w: &mut Walk,
        id: SchemaId,
        depth: usize,
        top: bool,
    ) -> Result<Vec<(Alternative, EvaluatedKeys)>, SchemaError> {
        let s = self.schema(id);
        let own = EvaluatedKeys {
            names: s.props.iter().map(|(k, _)| k.clone()).collect(),
            patterns: s.patterns.iter().map(|(l, _)| *l).collect(),
            all: s.additional.is_some() || (!top && s.uneval_props.is_some()),
        };
        self.evaluations(w, id, depth, own, |e, w, i, d| {
            e.key_evaluations(w, i, d, false)
        })
    }

    fn item_evaluations(
        &self,
        w: &mut Walk,
        id: SchemaId,
        depth: usize,
        top: bool,
    ) -> Result<Vec<(Alternative, EvaluatedItems)>, SchemaError> {
        let s = self.schema(id);
        let own = EvaluatedItems {
            prefix: s.prefix.len(),
            all: s.items.is_some() || (!top && s.uneval_items.is_some()),
            contains: s.contains.map(|c| self.term(c)).into_iter().collect(),
        };
        self.evaluations(w, id, depth, own, |e, w, i, d| {
            e.item_evaluations(w, i, d, false)
        })
    }

    fn evaluations<E: Evaluated>(
        &self,
        w: &mut Walk,
        id: SchemaId,
        depth: usize,
        own: E,
        inner: impl Fn(&Self, &mut Walk, SchemaId, usize) -> Result<Vec<(Alternative, E)>, SchemaError>,
    ) -> Result<Vec<(Alternative, E)>, SchemaError> {
        let s = self.schema(id);
        if depth > 50 {
            return Err(SchemaError::limit(
                &*s.pointer,
                "nesting of in-place sub-schemas under unevaluated*",
                depth as u64,
                50,
            ));
        }
        let mut ways: Vec<(Alternative, E)> = vec![(vec![], own)];
        let cross = |w: &mut Walk,
                     ways: &mut Vec<(Alternative, E)>,
                     sides: Vec<(Alternative, E)>|
         -> Result<(), SchemaError> {
            let mut out = Vec::new();
            for (a, e) in ways.iter() {
                for (b, f) in &sides {
                    w.tick("unevaluated*", &s.pointer)?;
                    let items: Alternative = a.iter().chain(b).cloned().collect();
                    let both = (items, e.join(f));
                    if !out.contains(&both) {
                        out.push(both);
                    }
                }
            }
            if out.len() > 512 {
                return Err(SchemaError::limit(
                    &*s.pointer,
                    "combinations of branches under unevaluated*",
                    out.len() as u64,
                    512,
                ));
            }
            *ways = out;
            Ok(())
        };
        for &r in s.refs.iter().chain(&s.all_of) {
            let sides = inner(self, w, r, depth + 1)?;
            cross(w, &mut ways, sides)?;
        }
        for &b in s.any_of.iter().chain(&s.one_of).flatten() {
            let held = inner(self, w, b, depth + 1)?;
            if held
                .iter()
                .all(|(items, e)| items.is_empty() && e.is_nothing())
            {
                continue;
            }
            let mut sides: Vec<(Alternative, E)> = vec![(vec![Self::atom(b, false)], E::nothing())];
            for (mut items, e) in held {
                items.insert(0, Self::atom(b, true));
                sides.push((items, e));
            }
            cross(w, &mut ways, sides)?;
        }
        if let Some(c) = s.if_ {
            let mut sides = Vec::new();
            for (sign, branch) in [(true, s.then), (false, s.else_)] {
                let of_if = if sign {
                    inner(self, w, c, depth + 1)?
                } else {
                    vec![(vec![], E::nothing())]
                };
                let of_branch = match branch {
                    Some(b) => inner(self, w, b, depth + 1)?,
                    None => vec![(vec![], E::nothing())],
                };
                for (a, e) in &of_if {
                    for (b, f) in &of_branch {
                        let mut items = vec![Self::atom(c, sign)];
                        items.extend(branch.map(|b| Self::atom(b, true)));
                        items.extend(a.iter().chain(b).cloned());
                        sides.push((items, e.join(f)));
                    }
                }
            }
            cross(w, &mut ways, sides)?;
        }
        if self.kind == Kind::Object {
            for (k, c) in &s.dep_schemas {
                let mut sides = vec![(
                    vec![Item::Clause(vec![ObjectEvent::Missing(k.clone())])],
                    E::nothing(),
                )];
                for (mut items, e) in inner(self, w, *c, depth + 1)? {
                    items.insert(
                        0,
                        Item::Clause(vec![ObjectEvent::Has(Keys::One(k.clone()), TRUE)]),
                    );
                    sides.push((items, e));
                }
                cross(w, &mut ways, sides)?;
            }
        }
        Ok(ways)
    }
}

/// What the keywords of a schema evaluate, for `unevaluated*`.
trait Evaluated: Clone + PartialEq {
    fn nothing() -> Self;
    fn join(&self, other: &Self) -> Self;
    fn is_nothing(&self) -> bool {
        *self == Self::nothing()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct EvaluatedKeys {
    names: Vec<Arc<str>>,
    patterns: Vec<LangId>,
    all: bool,
}

impl Evaluated for EvaluatedKeys {
    fn nothing() -> Self {
        Self::default()
    }

    fn join(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.all |= other.all;
        for n in &other.names {
            if !out.names.contains(n) {
                out.names.push(n.clone());
            }
        }
        for l in &other.patterns {
            if !out.patterns.contains(l) {
                out.patterns.push(*l);
            }
        }
        out
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct EvaluatedItems {
    prefix: usize,
    all: bool,
    contains: Vec<TermId>,
}

impl Evaluated for EvaluatedItems {
    fn nothing() -> Self {
        Self::default()
    }

    fn join(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.all |= other.all;
        out.prefix = out.prefix.max(other.prefix);
        for c in &other.contains {
            if !out.contains.contains(c) {
                out.contains.push(*c);
            }
        }
        out
    }
}

/// (a₁ ∧ a₂ …) ∨ (b₁ ∧ b₂ …) as a conjunction of disjunctions, unless it grows too large.
fn distribute<T: Clone + PartialEq>(a: &[Vec<T>], b: &[Vec<T>]) -> Option<Vec<Vec<T>>> {
    if a.len() * b.len() > MAX_CLAUSES {
        return None;
    }
    let mut out = Vec::with_capacity(a.len() * b.len());
    for x in a {
        for y in b {
            let mut c = x.clone();
            for e in y {
                if !c.contains(e) {
                    c.push(e.clone());
                }
            }
            out.push(c);
        }
    }
    Some(out)
}
