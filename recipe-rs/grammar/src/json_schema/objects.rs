//! Objects: which key may come next, when the object may close, and how to bring it to an end.
//!
//! The state of an object under construction is the set of keys seen, their number, and which clauses have been met.
//! `solve` decides whether the rest can still be written: required keys, clauses and counts together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use super::ast::LangId;
use super::chardfa::{CharDfa, INFINITE};
use super::error::SchemaError;
use super::keys::{Keys as KeySpec, Next, OFF};
use super::shapes::{Keys, Kind, ObjectEvent, ObjectSet, TermId, FALSE, TRUE};
use super::strings::MAX_DFA_STATES;
use super::terms::{add, Terms, Walk, NEVER};

/// Side memory of the machine: words stored once, known by number.
pub(crate) trait Memory {
    fn intern(&mut self, words: &[u32]) -> u32;
    fn get(&self, id: u32) -> &[u32];
}

/// No memory id: the empty set, the empty text.
pub(crate) const NONE: u32 = u32::MAX;

/// In place of a text: any text that no other key or item has. Only masks use it.
pub(crate) const FRESH: u32 = u32::MAX - 1;

/// The characters of a text that was interned one by one as (rest, character).
pub(crate) fn text_of(mem: &dyn Memory, mut id: u32) -> String {
    let mut out = Vec::new();
    while id != NONE {
        if id == FRESH {
            out.push('\u{10FFFF}');
            break;
        }
        let w = mem.get(id);
        out.push(char::from_u32(w[1]).unwrap_or('\u{fffd}'));
        id = w[0];
    }
    out.iter().rev().collect()
}

/// Adds a member to an interned sorted set.
pub(crate) fn with_member(mem: &mut dyn Memory, set: u32, member: u32) -> u32 {
    let mut words = members(mem, set);
    if let Err(i) = words.binary_search(&member) {
        words.insert(i, member);
    }
    mem.intern(&words)
}

/// Members of an interned set.
pub(crate) fn members(mem: &dyn Memory, set: u32) -> Vec<u32> {
    if set == NONE {
        Vec::new()
    } else {
        mem.get(set).to_vec()
    }
}

#[derive(Debug)]
enum Event {
    Missing(u32),
    Has(Box<[u32]>, TermId),
    CountLe(u64),
    CountGe(u64),
}

/// A finished object shape.
pub(crate) struct ObjectShape {
    pub(crate) keys: KeySpec,
    /// Term for the value of each label.
    pub(crate) terms: Vec<TermId>,
    /// Position of each declared name in schema order.
    rank: Vec<u32>,
    required: Vec<u32>,
    min: u64,
    max: Option<u64>,
    clauses: Vec<Vec<Event>>,
    /// Names whose presence is asked later on, in schema order.
    relevant: Vec<u32>,
    count_cap: u64,
    ordered: bool,
    /// Some text satisfies the label's term.
    alive: OnceLock<Box<[bool]>>,
    cost: OnceLock<u64>,
}

/// How far an object has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectState {
    /// Keys so far, saturating.
    pub(crate) n: u32,
    /// Interned set of the other keys' texts.
    pub(crate) others: u32,
    /// Clauses met.
    pub(crate) met: u64,
    /// In schema order: the rank that the next declared name must at least have.
    pub(crate) pos: u32,
    /// Declared names seen, as bits.
    pub(crate) seen: Vec<u32>,
}

impl ObjectState {
    pub(crate) fn push_words(&self, out: &mut Vec<u32>) {
        out.extend([
            self.n,
            self.others,
            self.pos,
            self.met as u32,
            (self.met >> 32) as u32,
        ]);
        out.extend(&self.seen);
    }

    pub(crate) fn from_words(w: &[u32]) -> Self {
        ObjectState {
            n: w[0],
            others: w[1],
            met: u64::from(w[3]) | u64::from(w[4]) << 32,
            pos: w[2],
            seen: w[5..].to_vec(),
        }
    }

    fn has(&self, label: u32) -> bool {
        bit(&self.seen, label)
    }
}

pub(crate) fn bit(words: &[u32], i: u32) -> bool {
    words[i as usize / 32] >> (i % 32) & 1 == 1
}

pub(crate) fn set_bit(words: &mut [u32], i: u32) {
    words[i as usize / 32] |= 1 << (i % 32);
}

/// A way to write the rest of an object.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cost: u64,
    /// Label of a key to write next; `None`: the object can close.
    pub(crate) next: Option<u32>,
}

#[derive(Clone, Default)]
struct Draft {
    must: Vec<(u32, TermId)>,
    must_not: Vec<u32>,
    others: Vec<(u32, TermId)>,
    low: u64,
    high: Option<u64>,
}

impl ObjectShape {
    pub(crate) fn new(terms: &Terms, w: &mut Walk, set: ObjectSet) -> Result<Self, SchemaError> {
        // Declared names in order of first appearance.
        let mut order: Vec<Arc<str>> = Vec::new();
        let mut known: std::collections::HashSet<Arc<str>> = std::collections::HashSet::new();
        let mut declare = |k: &Arc<str>| {
            if known.insert(k.clone()) {
                order.push(k.clone());
            }
        };
        set.sources
            .iter()
            .flat_map(|s| &s.props)
            .for_each(|(k, _)| declare(k));
        set.required.iter().for_each(&mut declare);
        for e in set.clauses.iter().flatten() {
            match e {
                ObjectEvent::Missing(k) | ObjectEvent::Has(Keys::One(k), _) => declare(k),
                ObjectEvent::Has(Keys::Others(names, _), _) => names.iter().for_each(&mut declare),
                _ => {}
            }
        }
        // Languages that tell other names apart.
        let mut langs: Vec<LangId> = Vec::new();
        let mut lang = |l: LangId| {
            if !langs.contains(&l) {
                langs.push(l);
            }
        };
        set.sources
            .iter()
            .flat_map(|s| &s.patterns)
            .for_each(|(l, _)| lang(*l));
        for e in set.clauses.iter().flatten() {
            match e {
                ObjectEvent::Has(Keys::Pattern(l), _) => lang(*l),
                ObjectEvent::Has(Keys::Others(_, ls), _) => ls.iter().for_each(|l| lang(*l)),
                _ => {}
            }
        }
        let mut name_terms: Vec<TermId> = set.names.clone();
        for e in set.clauses.iter().flatten() {
            if let ObjectEvent::Has(Keys::Violating(t), _) = e {
                if !name_terms.contains(t) {
                    name_terms.push(*t);
                }
            }
        }
        let mut name_dfas = Vec::new();
        for &t in &name_terms {
            let mut parts = Vec::new();
            for &s in terms.shapes(w, t, Kind::String)?.iter() {
                parts.push(terms.strings.get(s).folded()?);
            }
            name_dfas.push(match &parts[..] {
                [one] => Arc::clone(one),
                _ => Arc::new(CharDfa::union(
                    &parts.iter().map(|p| &**p).collect::<Vec<_>>(),
                    MAX_DFA_STATES,
                    "propertyNames",
                )?),
            });
        }
        let mut names = order.clone();
        names.sort();
        let all: Vec<&CharDfa> = langs
            .iter()
            .map(|l| &**terms.lang(*l))
            .chain(name_dfas.iter().map(|d| &**d))
            .collect();
        let keys = KeySpec::new(names, &all)?;
        let label_of: HashMap<Arc<str>, u32> = keys
            .names
            .iter()
            .enumerate()
            .map(|(i, n)| (n.clone(), i as u32))
            .collect();
        let mut rank = vec![0; keys.names.len()];
        for (r, n) in order.iter().enumerate() {
            rank[label_of[n] as usize] = r as u32;
        }
        let verdict = |label: usize| -> &[bool] {
            let class = if label < keys.names.len() {
                keys.class_of_name[label] as usize
            } else {
                label - keys.names.len()
            };
            &keys.classes[class]
        };
        let lang_at = |l: LangId| langs.iter().position(|x| *x == l).expect("collected above");
        let name_at = |t: TermId| {
            langs.len()
                + name_terms
                    .iter()
                    .position(|x| *x == t)
                    .expect("collected above")
        };
        // Members of each source by name, so that wide objects stay linear.
        let indexed: Vec<HashMap<&str, TermId>> = set
            .sources
            .iter()
            .map(|s| s.props.iter().map(|(k, t)| (&**k, *t)).collect())
            .collect();
        let mut label_terms = Vec::with_capacity(keys.labels());
        for label in 0..keys.labels() {
            let v = verdict(label);
            if set.names.iter().any(|&t| !v[name_at(t)]) {
                label_terms.push(FALSE);
                continue;
            }
            let key = keys.names.get(label);
            let mut t = TRUE;
            for (s, index) in set.sources.iter().zip(&indexed) {
                let mut hit = false;
                if let Some(x) = key.and_then(|k| index.get(&**k)) {
                    t = terms.and(t, *x);
                    hit = true;
                }
                for (l, x) in &s.patterns {
                    if v[lang_at(*l)] {
                        t = terms.and(t, *x);
                        hit = true;
                    }
                }
                if !hit {
                    t = terms.and(t, s.additional);
                }
            }
            label_terms.push(t);
        }
        let selected = |k: &Keys, label: usize| match k {
            Keys::One(n) => keys.names.get(label) == Some(n),
            Keys::Pattern(l) => verdict(label)[lang_at(*l)],
            Keys::Others(ns, ls) => {
                !keys.names.get(label).is_some_and(|n| ns.contains(n))
                    && !ls.iter().any(|l| verdict(label)[lang_at(*l)])
            }
            Keys::Violating(t) => !verdict(label)[name_at(*t)],
        };
        let mut count_cap = set.min.max(set.max.map_or(0, |m| m + 1));
        let mut clauses = Vec::new();
        for c in &set.clauses {
            let mut out = Vec::new();
            for e in c {
                out.push(match e {
                    ObjectEvent::Missing(k) => Event::Missing(label_of[k]),
                    ObjectEvent::Has(Keys::One(k), t) => Event::Has([label_of[k]].into(), *t),
                    ObjectEvent::Has(k, t) => Event::Has(
                        (0..keys.labels() as u32)
                            .filter(|&l| selected(k, l as usize))
                            .collect(),
                        *t,
                    ),
                    ObjectEvent::CountLe(n) => {
                        count_cap = count_cap.max(n + 1);
                        Event::CountLe(*n)
                    }
                    ObjectEvent::CountGe(n) => {
                        count_cap = count_cap.max(*n);
                        Event::CountGe(*n)
                    }
                });
            }
            clauses.push(out);
        }
        let required: Vec<u32> = set.required.iter().map(|k| label_of[k]).collect();
        let mut relevant = vec![0; keys.names.len().div_ceil(32)];
        for e in clauses.iter().flatten() {
            if let Event::Missing(l) = e {
                set_bit(&mut relevant, *l);
            }
        }
        let ordered = !terms.settings.any_order;
        if !ordered {
            (0..keys.names.len() as u32).for_each(|l| set_bit(&mut relevant, l));
        }
        Ok(ObjectShape {
            keys,
            terms: label_terms,
            rank,
            required,
            min: set.min,
            max: set.max,
            clauses,
            relevant,
            count_cap: count_cap.min(1 << 30),
            ordered,
            alive: OnceLock::new(),
            cost: OnceLock::new(),
        })
    }

    /// Terms that values of keys can have, with and without the events of clauses.
    pub(crate) fn inner(&self, t: &Terms, out: &mut Vec<TermId>) {
        out.extend(&self.terms);
        for e in self.clauses.iter().flatten() {
            if let Event::Has(labels, term) = e {
                for &l in labels {
                    let base = self.terms[l as usize];
                    out.push(t.and(base, *term));
                    out.extend(t.complement(*term).map(|c| t.and(base, c)));
                }
            }
        }
    }

    pub(crate) fn start(&self) -> ObjectState {
        ObjectState {
            n: 0,
            others: NONE,
            met: 0,
            pos: 0,
            seen: vec![0; self.keys.names.len().div_ceil(32)],
        }
    }

    /// Whether each key has one term, whatever the others are.
    pub(crate) fn simple(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether the label is a declared name.
    pub(crate) fn is_named(&self, label: u32) -> bool {
        self.named(label)
    }

    /// The class of a label of other names.
    pub(crate) fn class(&self, label: u32) -> u32 {
        label - self.keys.names.len() as u32
    }

    /// Whether keys beside the declared ones are among the allowed labels.
    pub(crate) fn has_other(&self, allowed: &[u32]) -> bool {
        (self.keys.names.len() as u32..self.keys.labels() as u32).any(|l| bit(allowed, l))
    }

    fn named(&self, label: u32) -> bool {
        (label as usize) < self.keys.names.len()
    }

    /// Whether the label's own term has a value.
    fn is_alive(&self, t: &Terms, w: &mut Walk, label: u32) -> Result<bool, SchemaError> {
        if let Some(a) = self.alive.get() {
            return Ok(a[label as usize]);
        }
        Ok(t.cost(w, self.terms[label as usize])? != NEVER)
    }

    /// Computes once which labels have values; to be called when no cost is being computed.
    fn alive(&self, t: &Terms, w: &mut Walk) -> Result<&[bool], SchemaError> {
        if let Some(a) = self.alive.get() {
            return Ok(a);
        }
        let mut out = Vec::with_capacity(self.terms.len());
        for &x in &self.terms {
            out.push(t.cost(w, x)? != NEVER);
        }
        Ok(self.alive.get_or_init(|| out.into()))
    }

    pub(crate) fn cost(&self, t: &Terms, w: &mut Walk) -> Result<u64, SchemaError> {
        if let Some(&c) = self.cost.get() {
            return Ok(c);
        }
        let c = self
            .solve(t, w, &NoMemory, &self.start())?
            .map_or(NEVER, |p| p.cost);
        if c != NEVER {
            let _ = self.cost.set(c);
        }
        Ok(c)
    }

    /// Whether a declared name may still come by order and repetition.
    fn may_come(&self, st: &ObjectState, label: u32) -> bool {
        !st.has(label) && (!self.ordered || self.rank[label as usize] >= st.pos)
    }

    /// How many further keys of a class are left.
    fn left(&self, mem: &dyn Memory, st: &ObjectState, label: u32) -> u64 {
        let class = label - self.keys.names.len() as u32;
        let all = self.keys.others(0, 0, class);
        if all == INFINITE {
            return all;
        }
        let used = members(mem, st.others)
            .iter()
            .filter(|&&id| self.class_of_text(&text_of(mem, id)) == class)
            .count();
        all - used as u64
    }

    fn class_of_text(&self, text: &str) -> u32 {
        let (t, q) = text
            .chars()
            .fold((0, 0), |(t, q), c| self.keys.step(t, q, c as u32));
        let label = self.keys.label(t, q);
        label.saturating_sub(self.keys.names.len() as u32)
    }

    /// A way to write the rest, or `None` if there is none.
    pub(crate) fn solve(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
    ) -> Result<Option<Plan>, SchemaError> {
        let mut d = Draft {
            low: self.min,
            high: self.max,
            ..Draft::default()
        };
        for &l in &self.required {
            if st.has(l) || (self.ordered && bit(&self.seen_before(st), l)) {
                continue;
            }
            if !self.may_come(st, l) || !self.is_alive(t, w, l)? {
                return Ok(None);
            }
            d.must.push((l, self.terms[l as usize]));
        }
        let open: Vec<usize> = (0..self.clauses.len())
            .filter(|&i| st.met >> i & 1 == 0)
            .collect();
        self.search(t, w, mem, st, &open, d)
    }

    /// In schema order required names before the position have been seen (they cannot be skipped).
    fn seen_before(&self, st: &ObjectState) -> Vec<u32> {
        let mut out = vec![0; st.seen.len()];
        for &l in &self.required {
            if self.rank[l as usize] < st.pos && st.pos != OFF {
                set_bit(&mut out, l);
            }
        }
        if st.pos == OFF {
            self.required.iter().for_each(|&l| set_bit(&mut out, l));
        }
        out
    }

    fn search(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
        open: &[usize],
        d: Draft,
    ) -> Result<Option<Plan>, SchemaError> {
        w.tick("anyOf, oneOf, not and if on one object", "#")?;
        let total = u64::from(st.n) + (d.must.len() + d.others.len()) as u64;
        if d.high.is_some_and(|h| total > h || d.low > h) {
            return Ok(None);
        }
        // The clause with the fewest ways left first; one without any ends this branch.
        let mut first: Option<(usize, usize)> = None;
        let mut rest: Vec<usize> = Vec::with_capacity(open.len());
        for &i in open {
            let Some(ways) = self.ways_left(t, w, mem, st, &self.clauses[i], &d)? else {
                continue;
            };
            if ways == 0 {
                return Ok(None);
            }
            rest.push(i);
            if first.is_none_or(|(_, n)| ways < n) {
                first = Some((i, ways));
            }
        }
        let Some((first, _)) = first else {
            return self.fill(t, w, mem, st, d, total);
        };
        rest.retain(|&i| i != first);
        let rest = &rest[..];
        for e in &self.clauses[first] {
            match e {
                Event::Missing(l) => {
                    if !st.has(*l) && !d.must.iter().any(|(m, _)| m == l) {
                        let mut next = d.clone();
                        next.must_not.push(*l);
                        if let Some(p) = self.search(t, w, mem, st, rest, next)? {
                            return Ok(Some(p));
                        }
                    }
                }
                Event::CountLe(n) => {
                    let mut next = d.clone();
                    next.high = Some(next.high.map_or(*n, |h| h.min(*n)));
                    if let Some(p) = self.search(t, w, mem, st, rest, next)? {
                        return Ok(Some(p));
                    }
                }
                Event::CountGe(n) => {
                    let mut next = d.clone();
                    next.low = next.low.max(*n);
                    if let Some(p) = self.search(t, w, mem, st, rest, next)? {
                        return Ok(Some(p));
                    }
                }
                Event::Has(labels, term) => {
                    // Keys that come anyway first.
                    let mut order: Vec<u32> = labels.to_vec();
                    order.sort_by_key(|l| !d.must.iter().any(|(m, _)| m == l));
                    for l in order {
                        let mut next = d.clone();
                        if self.named(l) {
                            if !self.may_come(st, l) || d.must_not.contains(&l) {
                                continue;
                            }
                            let slot = next.must.iter().position(|(m, _)| *m == l);
                            let base = slot.map_or(self.terms[l as usize], |i| next.must[i].1);
                            let both = t.and(base, *term);
                            if t.cost(w, both)? == NEVER {
                                continue;
                            }
                            match slot {
                                Some(i) => next.must[i].1 = both,
                                None => next.must.push((l, both)),
                            }
                            if let Some(p) = self.search(t, w, mem, st, rest, next)? {
                                return Ok(Some(p));
                            }
                        } else {
                            // A key of its own, or one that another clause asked for.
                            for i in (0..d.others.len()).filter(|&i| d.others[i].0 == l) {
                                let mut shared = d.clone();
                                shared.others[i].1 = t.and(shared.others[i].1, *term);
                                if t.cost(w, shared.others[i].1)? != NEVER {
                                    if let Some(p) = self.search(t, w, mem, st, rest, shared)? {
                                        return Ok(Some(p));
                                    }
                                }
                            }
                            let both = t.and(self.terms[l as usize], *term);
                            let used = d.others.iter().filter(|(m, _)| *m == l).count() as u64;
                            if t.cost(w, both)? != NEVER && self.left(mem, st, l) > used {
                                next.others.push((l, both));
                                if let Some(p) = self.search(t, w, mem, st, rest, next)? {
                                    return Ok(Some(p));
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// How many events of a clause are still possible; `None` if the draft already has one.
    fn ways_left(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
        clause: &[Event],
        d: &Draft,
    ) -> Result<Option<usize>, SchemaError> {
        let mut n = 0;
        for e in clause {
            match e {
                Event::Missing(l) => {
                    if d.must_not.contains(l) {
                        return Ok(None);
                    }
                    let gone = !st.has(*l) && !self.may_come(st, *l);
                    if gone {
                        return Ok(None);
                    }
                    n += usize::from(!st.has(*l) && !d.must.iter().any(|(m, _)| m == l));
                }
                Event::CountLe(m) => {
                    if d.high.is_some_and(|h| h <= *m) {
                        return Ok(None);
                    }
                    n += usize::from(d.low <= *m);
                }
                Event::CountGe(m) => {
                    if d.low >= *m {
                        return Ok(None);
                    }
                    n += usize::from(d.high.is_none_or(|h| h >= *m));
                }
                Event::Has(labels, term) => {
                    for &l in labels {
                        let named = self.named(l);
                        if named && (!self.may_come(st, l) || d.must_not.contains(&l)) {
                            continue;
                        }
                        let planned = d
                            .must
                            .iter()
                            .find(|(m, _)| *m == l && named)
                            .map(|(_, x)| *x);
                        let base = planned.unwrap_or(self.terms[l as usize]);
                        let both = t.and(base, *term);
                        if planned.is_some() && both == base {
                            return Ok(None);
                        }
                        if t.cost(w, both)? != NEVER && (named || self.left(mem, st, l) > 0) {
                            n += 1;
                        }
                    }
                }
            }
        }
        Ok(Some(n))
    }

    /// All clauses have their events: are there keys enough for the lower bound?
    fn fill(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
        d: Draft,
        total: u64,
    ) -> Result<Option<Plan>, SchemaError> {
        let mut cost = 1u64;
        let mut next: Option<u32> = None;
        let mut take = |l: u32| {
            let better = match next {
                None => true,
                Some(n) if self.ordered => self.order_key(l) < self.order_key(n),
                Some(_) => false,
            };
            if better {
                next = Some(l);
            }
        };
        for (l, term) in d.must.iter().chain(&d.others) {
            cost = add(cost, add(t.cost(w, *term)?, 8));
            take(*l);
        }
        if total < d.low {
            let mut missing = d.low - total;
            let mut options: Vec<(u64, u32)> = Vec::new();
            for l in 0..self.keys.labels() as u32 {
                if missing == 0 {
                    break;
                }
                if self.named(l) {
                    let free = self.may_come(st, l)
                        && !d.must_not.contains(&l)
                        && !d.must.iter().any(|(m, _)| *m == l);
                    if free && self.is_alive(t, w, l)? {
                        options.push((t.cost(w, self.terms[l as usize])?, l));
                    }
                }
            }
            options.sort_unstable();
            for &(c, l) in &options {
                if missing == 0 {
                    break;
                }
                cost = add(cost, add(c, 8));
                take(l);
                missing -= 1;
            }
            for l in self.keys.names.len() as u32..self.keys.labels() as u32 {
                if missing == 0 {
                    break;
                }
                if self.is_alive(t, w, l)? {
                    let used = d.others.iter().filter(|(m, _)| *m == l).count() as u64;
                    let n = self.left(mem, st, l).saturating_sub(used).min(missing);
                    if n > 0 {
                        let each = add(t.cost(w, self.terms[l as usize])?, 8);
                        cost = add(cost, each.saturating_mul(n).min(NEVER - 2));
                        take(l);
                        missing -= n;
                    }
                }
            }
            if missing > 0 {
                return Ok(None);
            }
        }
        Ok(Some(Plan { cost, next }))
    }

    fn order_key(&self, label: u32) -> u32 {
        if self.named(label) {
            self.rank[label as usize]
        } else {
            OFF
        }
    }

    /// Whether the rest can be written at all.
    pub(crate) fn is_live(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
    ) -> Result<bool, SchemaError> {
        if self.clauses.is_empty()
            && self.max.is_none()
            && u64::from(st.n) >= self.min
            && !self.ordered
        {
            return Ok(true);
        }
        Ok(self.solve(t, w, mem, st)?.is_some())
    }

    /// Whether the object may close.
    pub(crate) fn may_close(&self, st: &ObjectState) -> bool {
        let n = u64::from(st.n);
        let before = if self.ordered {
            self.seen_before(st)
        } else {
            Vec::new()
        };
        n >= self.min
            && self.max.is_none_or(|m| n <= m)
            && self
                .required
                .iter()
                .all(|&l| st.has(l) || (self.ordered && bit(&before, l)))
            && self.clauses.iter().enumerate().all(|(i, c)| {
                st.met >> i & 1 == 1
                    || c.iter().any(|e| match e {
                        Event::Missing(l) => !st.has(*l),
                        Event::Has(..) => false,
                        Event::CountLe(m) => n <= *m,
                        Event::CountGe(m) => n >= *m,
                    })
            })
    }

    /// The ways in which the value of a key can count: its term, and the state after it.
    pub(crate) fn ways(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
        label: u32,
    ) -> Result<Vec<(TermId, ObjectState)>, SchemaError> {
        let base = self.terms[label as usize];
        if base == FALSE {
            return Ok(Vec::new());
        }
        let mut after = st.clone();
        after.n = (u64::from(st.n) + 1).min(self.count_cap) as u32;
        if self.named(label) {
            if bit(&self.relevant, label) {
                set_bit(&mut after.seen, label);
            }
            if self.ordered {
                after.pos = self.rank[label as usize] + 1;
                // A required name cannot be skipped.
                let skipped = |&l: &u32| (st.pos..after.pos - 1).contains(&self.rank[l as usize]);
                if self.required.iter().any(skipped) {
                    return Ok(Vec::new());
                }
            }
        } else if self.ordered {
            if st.pos != OFF
                && self
                    .required
                    .iter()
                    .any(|&l| self.rank[l as usize] >= st.pos)
            {
                return Ok(Vec::new());
            }
            after.pos = OFF;
        }
        // Events on this key, by term.
        let mut monitors: Vec<(TermId, u64)> = Vec::new();
        for (i, c) in self
            .clauses
            .iter()
            .enumerate()
            .filter(|(i, _)| st.met >> i & 1 == 0)
        {
            for e in c {
                if let Event::Has(labels, term) = e {
                    if labels.contains(&label) {
                        match monitors.iter_mut().find(|(m, _)| m == term) {
                            Some((_, bits)) => *bits |= 1 << i,
                            None => monitors.push((*term, 1 << i)),
                        }
                    }
                }
            }
        }
        let mut leaves: Vec<(TermId, u64)> = vec![(base, st.met)];
        for (term, bits) in monitors {
            let mut next = Vec::new();
            for (leaf, met) in leaves {
                let yes = t.and(leaf, term);
                if yes == leaf {
                    next.push((leaf, met | bits));
                    continue;
                }
                if t.cost(w, yes)? != NEVER {
                    next.push((yes, met | bits));
                }
                let no = t.complement(term).map_or(leaf, |c| t.and(leaf, c));
                if t.cost(w, no)? != NEVER {
                    next.push((no, met));
                }
            }
            if next.len() > 1024 {
                return Err(SchemaError::limit(
                    "",
                    "ways to read one property value",
                    next.len() as u64,
                    1024,
                ));
            }
            leaves = next;
        }
        let mut out = Vec::with_capacity(leaves.len());
        for (term, met) in leaves {
            if t.cost(w, term)? == NEVER {
                continue;
            }
            let state = ObjectState {
                met,
                ..after.clone()
            };
            if self.is_live(t, w, mem, &state)? {
                out.push((term, state));
            }
        }
        Ok(out)
    }

    /// Labels that may come next, as bits.
    pub(crate) fn allowed(
        &self,
        t: &Terms,
        w: &mut Walk,
        mem: &dyn Memory,
        st: &ObjectState,
    ) -> Result<Vec<u32>, SchemaError> {
        let alive = self.alive(t, w)?;
        let mut out = vec![0; self.keys.labels().div_ceil(32)];
        let quick = self.clauses.is_empty()
            && self.max.is_none()
            && u64::from(st.n) + 1 >= self.min
            && !self.ordered;
        for l in 0..self.keys.labels() as u32 {
            if !alive[l as usize] || (self.named(l) && !self.may_come(st, l)) {
                continue;
            }
            if !self.named(l) && self.left(mem, st, l) == 0 {
                continue;
            }
            if quick || !self.ways(t, w, mem, st, l)?.is_empty() {
                set_bit(&mut out, l);
            }
        }
        Ok(out)
    }

    /// Whether the text typed so far, at (trie node, class state), can still become an allowed key.
    pub(crate) fn key_lives(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        allowed: &[u32],
        trie: u32,
        q: u32,
        text: u32,
    ) -> bool {
        let here = Next {
            trie,
            q,
            low: 0,
            high: 0,
            width: 1,
        };
        self.lives(mem, st, allowed, here, |s| {
            text != FRESH && s.starts_with(&text_of(mem, text))
        })
    }

    /// Whether some character of `low..=high` may follow the text typed so far.
    pub(crate) fn key_goes_on(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        allowed: &[u32],
        (trie, q): (u32, u32),
        text: u32,
        (low, high): (u32, u32),
    ) -> bool {
        self.keys.next_states(trie, q, low, high, |next| {
            self.lives(mem, st, allowed, next, |s| {
                if text == FRESH {
                    return false;
                }
                let mut rest = match s.strip_prefix(&*text_of(mem, text)) {
                    Some(rest) => rest.chars(),
                    None => return false,
                };
                rest.next().is_some_and(|c| {
                    (next.low..=next.high).contains(&(c as u32))
                        && self.keys.step(trie, q, c as u32) == (next.trie, next.q)
                })
            })
        })
    }

    /// Whether an allowed key goes through `next`; `passes` tells for a used key whether it did.
    fn lives(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        allowed: &[u32],
        next: Next,
        passes: impl Fn(&str) -> bool,
    ) -> bool {
        let (a, b) = self.keys.named(next.trie);
        if (a..b).any(|l| bit(allowed, l)) {
            return true;
        }
        let names = self.keys.names.len() as u32;
        (0..self.keys.classes.len() as u32).any(|c| {
            if !bit(allowed, names + c) {
                return false;
            }
            let n = self.keys.others(next.trie, next.q, c);
            if n == INFINITE || n == 0 {
                return n == INFINITE;
            }
            let used: Vec<String> = members(mem, st.others)
                .iter()
                .map(|&id| text_of(mem, id))
                .collect();
            let used = used
                .iter()
                .filter(|s| passes(s) && self.class_of_text(s) == c)
                .count();
            n.saturating_mul(u64::from(next.width)) > used as u64
        })
    }

    /// Whether the key may end here: its label, if it is allowed and no repetition.
    pub(crate) fn key_ends(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        allowed: &[u32],
        trie: u32,
        q: u32,
        text: u32,
    ) -> Option<u32> {
        let label = self.keys.label(trie, q);
        if !bit(allowed, label)
            || (!self.named(label) && members(mem, st.others).binary_search(&text).is_ok())
        {
            return None;
        }
        Some(label)
    }

    /// Characters that complete a key to an allowed one that is not used yet.
    pub(crate) fn complete_key(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        allowed: &[u32],
        trie: u32,
        q: u32,
        typed: &str,
    ) -> Option<String> {
        let used: Vec<String> = members(mem, st.others)
            .iter()
            .map(|&id| text_of(mem, id))
            .collect();
        let names = self.keys.names.len() as u32;
        let mut visits: HashMap<(u32, u32), usize> = HashMap::new();
        let mut queue = VecDeque::from([(trie, q, String::new())]);
        while let Some((t, q, text)) = queue.pop_front() {
            let label = self.keys.label(t, q);
            if bit(allowed, label)
                && (label < names || !used.iter().any(|u| *u == format!("{typed}{text}")))
            {
                return Some(text);
            }
            let mut go = |c: u32, t: u32, q: u32, queue: &mut VecDeque<(u32, u32, String)>| {
                let (a, b) = self.keys.named(t);
                let named = (a..b).any(|l| bit(allowed, l));
                let other = (0..self.keys.classes.len() as u32)
                    .any(|k| bit(allowed, names + k) && self.keys.others(t, q, k) > 0);
                let n = visits.entry((t, q)).or_insert(0);
                if (named || other) && *n <= 2 * used.len() + 2 {
                    *n += 1;
                    if let Some(c) = char::from_u32(c) {
                        let mut s = text.clone();
                        s.push(c);
                        queue.push_back((t, q, s));
                    }
                }
            };
            let children = self.keys.children(t).to_vec();
            for e in self.keys.class_edges(q) {
                let mut spots: Vec<u32> = (0x61..=0x7a)
                    .chain(0x30..=0x39)
                    .filter(|c| (e.low..=e.high).contains(c))
                    .take(used.len() + 3)
                    .collect();
                spots.extend((e.low..=e.high).filter(|c| *c >= 0x20).take(used.len() + 2));
                for c in spots {
                    if !children.iter().any(|x| x.0 == c) {
                        go(c, OFF, e.target, &mut queue);
                    }
                }
            }
            for (c, next) in children {
                let (_, q2) = self.keys.step(t, q, c);
                go(c, next, q2, &mut queue);
            }
        }
        None
    }

    /// A text for a key with the given label that is not used yet.
    pub(crate) fn key_text(
        &self,
        mem: &dyn Memory,
        st: &ObjectState,
        label: u32,
    ) -> Option<String> {
        if self.named(label) {
            return Some(self.keys.names[label as usize].to_string());
        }
        let mut only = vec![0; self.keys.labels().div_ceil(32)];
        set_bit(&mut only, label);
        self.complete_key(mem, st, &only, 0, 0, "")
    }
}

/// For states without side memory.
struct NoMemory;

impl Memory for NoMemory {
    fn intern(&mut self, _words: &[u32]) -> u32 {
        NONE
    }

    fn get(&self, _id: u32) -> &[u32] {
        &[]
    }
}
