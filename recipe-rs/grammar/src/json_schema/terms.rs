//! Terms: sets of schemas (and constants) that hold of one value together, interned, with their shapes made on demand.
//!
//! The product construction of `allOf`, siblings, `not` and `oneOf` lives here: a term is identified by the set of its
//! conjuncts, so recursion closes on itself, and nothing is built that no text can reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use super::arrays::ArrayShape;
use super::ast::{Document, LangId};
use super::chardfa::CharDfa;
use super::error::SchemaError;
use super::expand;
use super::numbers::NumberShape;
use super::objects::ObjectShape;
use super::shapes::{Atom, Kind, Shape, TermId, FALSE, KINDS, TRUE};
use super::strings::StringShape;
use super::Settings;
use crate::limits::{mask_tick, Budget};

/// No value: the cost of an empty term.
pub(crate) const NEVER: u64 = u64::MAX;
const UNKNOWN: u64 = u64::MAX - 1;
const BIG: u64 = u64::MAX / 4;

/// A table that only grows.
pub(crate) struct Table<T> {
    items: RwLock<Vec<Arc<T>>>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Table {
            items: RwLock::new(Vec::new()),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Arc<T> {
        let items = self
            .items
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(&items[id as usize])
    }

    pub(crate) fn push(&self, item: T) -> u32 {
        let mut items = self
            .items
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        items.push(Arc::new(item));
        items.len() as u32 - 1
    }
}

/// A finished shape: an index into the table of its kind.
pub(crate) type ShapeId = u32;

pub(crate) struct Term {
    pub(crate) atoms: Vec<Atom>,
    /// Shapes for each kind (for null and booleans: 0 and 1 are the values).
    shapes: [OnceLock<Arc<[ShapeId]>>; 6],
    cost: AtomicU64,
    shallow: AtomicU8,
}

/// Everything derived from one schema document.
pub(crate) struct Terms {
    pub(crate) document: Document,
    pub(crate) settings: Settings,
    pub(crate) langs: Vec<Arc<CharDfa>>,
    terms: Table<Term>,
    ids: RwLock<HashMap<Vec<Atom>, TermId>>,
    shape_ids: RwLock<HashMap<Shape, ShapeId>>,
    pub(crate) numbers: Table<NumberShape>,
    pub(crate) strings: Table<StringShape>,
    pub(crate) arrays: Table<ArrayShape>,
    pub(crate) objects: Table<ObjectShape>,
}

/// Work in progress of one call from outside: recursion guards and the budget.
pub(crate) struct Walk {
    /// Terms whose cost is being computed, with their depth.
    costing: HashMap<TermId, usize>,
    /// Smallest depth that an unfinished answer depended on.
    low: usize,
    expanding: Vec<(TermId, Kind)>,
    steps: u64,
    max_steps: u64,
    budget: Option<Budget>,
}

impl Walk {
    /// For a question asked while a text is read: bounded by steps alone.
    pub(super) fn new(settings: &Settings) -> Self {
        Walk {
            costing: HashMap::new(),
            low: usize::MAX,
            expanding: Vec::new(),
            steps: 0,
            max_steps: settings.max_products,
            budget: None,
        }
    }

    /// For a compile: bounded by the budget's clock and cancel token too.
    pub(super) fn compile(settings: &Settings, budget: Budget) -> Self {
        Walk {
            budget: Some(budget),
            ..Walk::new(settings)
        }
    }

    /// Starts a new question.
    pub(super) fn restart(&mut self) -> Result<(), SchemaError> {
        self.steps = 0;
        self.check_time("", "#")
    }

    fn check_time(&self, what: &str, pointer: &str) -> Result<(), SchemaError> {
        match &self.budget {
            None => mask_tick(what).map_err(|e| SchemaError::from_budget(e, pointer)),
            Some(b) => b
                .check_time(what)
                .map_err(|e| SchemaError::from_budget(e, pointer)),
        }
    }

    /// Counts one unit of work of a product construction.
    pub(super) fn tick(&mut self, what: &str, pointer: &str) -> Result<(), SchemaError> {
        self.steps += 1;
        if self.steps > self.max_steps {
            let name = format!("combinations of sub-schemas under {what}");
            return Err(SchemaError::limit(
                pointer,
                &name,
                self.steps,
                self.max_steps,
            ));
        }
        if self.budget.is_none() {
            mask_tick(what).map_err(|e| SchemaError::from_budget(e, pointer))?;
        } else if self.steps & 63 == 0 {
            self.check_time(
                &format!("combinations of sub-schemas under {what}"),
                pointer,
            )?;
        }
        Ok(())
    }
}

impl Terms {
    pub(crate) fn new(document: Document, langs: Vec<Arc<CharDfa>>, settings: Settings) -> Self {
        let t = Terms {
            document,
            settings,
            langs,
            terms: Table::new(),
            ids: RwLock::new(HashMap::new()),
            shape_ids: RwLock::new(HashMap::new()),
            numbers: Table::new(),
            strings: Table::new(),
            arrays: Table::new(),
            objects: Table::new(),
        };
        t.add_term(Vec::new());
        let id = t.terms.push(Term::new(Vec::new()));
        debug_assert_eq!(id, FALSE);
        let never = t.terms.get(FALSE);
        for s in &never.shapes {
            let _ = s.set(Arc::from([]));
        }
        never.cost.store(NEVER, Ordering::Relaxed);
        t
    }

    fn add_term(&self, atoms: Vec<Atom>) -> TermId {
        let mut ids = self
            .ids
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(&id) = ids.get(&atoms) {
            return id;
        }
        let id = self.terms.push(Term::new(atoms.clone()));
        ids.insert(atoms, id);
        id
    }

    pub(crate) fn term(&self, id: TermId) -> Arc<Term> {
        self.terms.get(id)
    }

    /// The term of a conjunction.
    pub(crate) fn conjunction(&self, atoms: impl IntoIterator<Item = Atom>) -> TermId {
        let mut kept: Vec<Atom> = Vec::new();
        for mut a in atoms {
            // A schema that only refers stands for what it refers to.
            let mut hops = 0;
            while let Atom::Schema(id, sign) = a {
                let s = &self.document.schemas[id as usize];
                match s.truth {
                    Some(t) if t == sign => break,
                    Some(_) => return FALSE,
                    None => {}
                }
                match s.forwards() {
                    Some(next) if hops < 1000 => {
                        a = Atom::Schema(next, sign);
                        hops += 1;
                    }
                    _ => break,
                }
            }
            match &a {
                Atom::Schema(id, sign) => {
                    let s = &self.document.schemas[*id as usize];
                    if s.truth == Some(*sign) || (*sign && s.is_trivial()) {
                        continue;
                    }
                    if !*sign && s.is_trivial() {
                        return FALSE;
                    }
                }
                Atom::Value(..) => {}
            }
            kept.push(a);
        }
        kept.sort_unstable();
        kept.dedup();
        for w in kept.windows(2) {
            match (&w[0], &w[1]) {
                (Atom::Schema(a, _), Atom::Schema(b, _)) if a == b => return FALSE,
                (Atom::Value(a, _), Atom::Value(b, _)) if a == b => return FALSE,
                _ => {}
            }
        }
        let positive = |a: &&Atom| matches!(a, Atom::Value(_, true));
        if kept.iter().filter(positive).count() > 1 {
            return FALSE;
        }
        if let Some(id) = self
            .ids
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&kept)
        {
            return *id;
        }
        self.add_term(kept)
    }

    pub(crate) fn schema(&self, id: u32, sign: bool) -> TermId {
        self.conjunction([Atom::Schema(id, sign)])
    }

    /// Both terms at once.
    pub(crate) fn and(&self, a: TermId, b: TermId) -> TermId {
        match (a, b) {
            (FALSE, _) | (_, FALSE) => FALSE,
            (TRUE, x) | (x, TRUE) => x,
            (a, b) if a == b => a,
            (a, b) => {
                let (a, b) = (self.term(a), self.term(b));
                self.conjunction(a.atoms.iter().chain(&b.atoms).cloned())
            }
        }
    }

    /// The complement, where it is a single term.
    pub(crate) fn complement(&self, id: TermId) -> Option<TermId> {
        match id {
            TRUE => Some(FALSE),
            FALSE => Some(TRUE),
            _ => match &self.term(id).atoms[..] {
                [Atom::Schema(s, sign)] => Some(self.conjunction([Atom::Schema(*s, !sign)])),
                [Atom::Value(v, sign)] => Some(self.conjunction([Atom::Value(v.clone(), !sign)])),
                _ => None,
            },
        }
    }

    pub(crate) fn lang(&self, id: LangId) -> &Arc<CharDfa> {
        &self.langs[id as usize]
    }

    /// The shapes of a term for one JSON type.
    ///
    /// # Errors
    /// Limits, and combinations that are not decided.
    pub(crate) fn shapes(
        &self,
        w: &mut Walk,
        id: TermId,
        kind: Kind,
    ) -> Result<Arc<[ShapeId]>, SchemaError> {
        let term = self.term(id);
        if let Some(s) = term.shapes[kind as usize].get() {
            return Ok(Arc::clone(s));
        }
        w.expanding.push((id, kind));
        let made = stacker::maybe_grow(64 << 10, 4 << 20, || {
            expand::expand(self, w, &term.atoms, kind)
        });
        w.expanding.pop();
        let made = made?;
        let mut ids: Vec<ShapeId> = Vec::with_capacity(made.len());
        for shape in made {
            let new = match shape {
                Shape::Null => vec![0],
                Shape::Bool(b) => (0..2).filter(|&i| b[i as usize]).collect(),
                other => self.shape_id(w, other)?.into_iter().collect(),
            };
            for n in new {
                if !ids.contains(&n) {
                    ids.push(n);
                }
            }
        }
        let ids: Arc<[ShapeId]> = ids.into();
        Ok(Arc::clone(term.shapes[kind as usize].get_or_init(|| ids)))
    }

    /// Finishes a shape; `None` if it is plainly empty.
    fn shape_id(&self, w: &mut Walk, shape: Shape) -> Result<Option<ShapeId>, SchemaError> {
        if let Some(&id) = self
            .shape_ids
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&shape)
        {
            return Ok((id != u32::MAX).then_some(id));
        }
        let id = match shape.clone() {
            Shape::Null | Shape::Bool(_) => unreachable!("values, not shapes"),
            Shape::Number(set) => {
                let s = NumberShape::new(set, self.settings.canonical_numbers);
                if s.is_empty() {
                    u32::MAX
                } else {
                    self.numbers.push(s)
                }
            }
            Shape::String(set) => match StringShape::new(self, &set)? {
                Some(s) => self.strings.push(s),
                None => u32::MAX,
            },
            Shape::Array(set) => self.arrays.push(ArrayShape::new(self, set)),
            Shape::Object(set) => {
                let s = ObjectShape::new(self, w, set)?;
                self.objects.push(s)
            }
        };
        self.shape_ids
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(shape, id);
        Ok((id != u32::MAX).then_some(id))
    }

    /// Whether no type has a shape. Does not look for emptiness further down; `false` when in doubt.
    pub(crate) fn plainly_empty(&self, w: &mut Walk, id: TermId) -> Result<bool, SchemaError> {
        if id == TRUE {
            return Ok(false);
        }
        if id == FALSE {
            return Ok(true);
        }
        let term = self.term(id);
        match term.shallow.load(Ordering::Relaxed) {
            1 => return Ok(false),
            2 => return Ok(true),
            _ => {}
        }
        if w.expanding.iter().any(|(t, _)| *t == id) {
            return Ok(false);
        }
        for kind in KINDS {
            if !self.shapes(w, id, kind)?.is_empty() {
                term.shallow.store(1, Ordering::Relaxed);
                return Ok(false);
            }
        }
        term.shallow.store(2, Ordering::Relaxed);
        Ok(true)
    }

    /// Length in bytes of a short text of the term, [`NEVER`] if it has no value.
    ///
    /// A least fixpoint: a term under computation counts as empty, and an answer "empty" that rests on that is final
    /// only at the outermost term it rests on.
    ///
    /// # Errors
    /// Limits, and combinations that are not decided.
    pub(crate) fn cost(&self, w: &mut Walk, id: TermId) -> Result<u64, SchemaError> {
        let term = self.term(id);
        let known = term.cost.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return Ok(known);
        }
        if let Some(&depth) = w.costing.get(&id) {
            w.low = w.low.min(depth);
            return Ok(NEVER);
        }
        let depth = w.costing.len();
        w.costing.insert(id, depth);
        let outer = std::mem::replace(&mut w.low, usize::MAX);
        let result = stacker::maybe_grow(64 << 10, 4 << 20, || self.cheapest(w, id));
        w.costing.remove(&id);
        let low = std::mem::replace(&mut w.low, outer);
        let cost = result?.map_or(NEVER, |(c, _, _)| c);
        if cost != NEVER || low >= depth {
            term.cost.store(cost, Ordering::Relaxed);
        } else {
            w.low = w.low.min(low);
        }
        Ok(cost)
    }

    /// The cheapest shape of a term: (cost, kind, shape).
    pub(crate) fn cheapest(
        &self,
        w: &mut Walk,
        id: TermId,
    ) -> Result<Option<(u64, Kind, ShapeId)>, SchemaError> {
        let mut best: Option<(u64, Kind, ShapeId)> = None;
        for kind in KINDS {
            for &s in self.shapes(w, id, kind)?.iter() {
                let c = self.shape_cost(w, kind, s)?;
                if c < best.map_or(NEVER, |b| b.0) {
                    best = Some((c, kind, s));
                }
            }
            if best.is_some_and(|b| b.0 <= 4) {
                break;
            }
        }
        Ok(best)
    }

    /// Length of a short text of a shape, [`NEVER`] if it has none.
    pub(crate) fn shape_cost(
        &self,
        w: &mut Walk,
        kind: Kind,
        id: ShapeId,
    ) -> Result<u64, SchemaError> {
        Ok(match kind {
            Kind::Null => 4,
            Kind::Bool => 5 - u64::from(id),
            Kind::Number => self.numbers.get(id).cost(),
            Kind::String => self.strings.get(id).cost(),
            Kind::Array => self.arrays.get(id).cost(self, w)?,
            Kind::Object => self.objects.get(id).cost(self, w)?,
        })
    }

    /// How many values a term has, saturating at `cap`; arrays and objects count as `cap`.
    pub(crate) fn count(&self, w: &mut Walk, id: TermId, cap: u64) -> Result<u64, SchemaError> {
        let mut n = self.shapes(w, id, Kind::Null)?.len() as u64
            + self.shapes(w, id, Kind::Bool)?.len() as u64;
        for &s in self.shapes(w, id, Kind::Number)?.iter() {
            n = n.saturating_add(self.numbers.get(s).set.count(cap));
        }
        for &s in self.shapes(w, id, Kind::String)?.iter() {
            n = n.saturating_add(self.strings.get(s).count());
        }
        for kind in [Kind::Array, Kind::Object] {
            for &s in self.shapes(w, id, kind)?.iter() {
                if self.shape_cost(w, kind, s)? != NEVER {
                    return Ok(cap);
                }
            }
        }
        Ok(n.min(cap))
    }
}

impl Terms {
    /// All values of a term of few scalar values, as texts.
    pub(crate) fn enumerate(&self, w: &mut Walk, id: TermId) -> Result<Vec<String>, SchemaError> {
        let mut out = Vec::new();
        out.extend(
            self.shapes(w, id, Kind::Null)?
                .iter()
                .map(|_| "null".to_owned()),
        );
        out.extend(
            self.shapes(w, id, Kind::Bool)?
                .iter()
                .map(|b| (*b == 1).to_string()),
        );
        for &s in self.shapes(w, id, Kind::Number)?.iter() {
            let mut set = self.numbers.get(s).set.clone();
            while let (Some(v), true) = (set.witness(), out.len() < 200) {
                out.push(v.to_string());
                set.exclude(&v);
                set.tidy();
            }
        }
        for &s in self.shapes(w, id, Kind::String)?.iter() {
            out.extend(
                self.strings
                    .get(s)
                    .folded()?
                    .enumerate(200)
                    .into_iter()
                    .map(|t| format!("\"{t}")),
            );
        }
        out.sort();
        out.dedup();
        Ok(out)
    }
}

/// Adds lengths of texts without overflow.
pub(crate) fn add(a: u64, b: u64) -> u64 {
    if a == NEVER || b == NEVER {
        NEVER
    } else {
        (a + b).min(BIG)
    }
}

impl Term {
    fn new(atoms: Vec<Atom>) -> Self {
        Term {
            atoms,
            shapes: Default::default(),
            cost: AtomicU64::new(UNKNOWN),
            shallow: AtomicU8::new(0),
        }
    }
}
