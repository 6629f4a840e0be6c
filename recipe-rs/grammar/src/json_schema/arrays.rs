//! Arrays: what the next item may be, when the array may close, and how to bring it to an end.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use super::chardfa::INFINITE;
use super::error::SchemaError;
use super::shapes::{ArrayEvent, ArraySet, Kind, TermId, FALSE, KINDS, TRUE};
use super::terms::{add, Terms, Walk, NEVER};

#[derive(Clone, Debug)]
enum Event {
    At(u64, usize),
    From(u64, usize),
    LenLe(u64),
    LenGe(u64),
    CountLe(usize, u64),
    CountGe(usize, u64),
}

/// A finished array shape.
pub(crate) struct ArrayShape {
    prefix: Vec<TermId>,
    rest: TermId,
    min: u64,
    max: Option<u64>,
    pub(crate) unique: bool,
    /// Terms that items are compared with.
    monitors: Vec<TermId>,
    /// Items of a monitor's term are counted up to here (0: not counted).
    caps: Vec<u64>,
    /// Counts that items must not exceed, whatever comes (a clause of one event).
    clauses: Vec<Vec<Event>>,
    length_cap: u64,
    cost: OnceLock<u64>,
    endless: OnceLock<[bool; 3]>,
}

/// How far an array has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArrayState {
    /// Items so far, saturating.
    pub(crate) n: u32,
    pub(crate) met: u32,
    pub(crate) counts: Vec<u32>,
}

impl ArrayState {
    pub(crate) fn push_words(&self, out: &mut Vec<u32>) {
        out.extend([self.n, self.met]);
        out.extend(&self.counts);
    }

    pub(crate) fn from_words(w: &[u32]) -> Self {
        ArrayState {
            n: w[0],
            met: w[1],
            counts: w[2..].to_vec(),
        }
    }
}

impl ArrayShape {
    pub(crate) fn new(terms: &Terms, set: ArraySet) -> Self {
        let longest = set.sources.iter().map(|s| s.0.len()).max().unwrap_or(0);
        let at = |i: usize| {
            set.sources
                .iter()
                .map(|(p, r)| p.get(i).copied().unwrap_or(*r))
                .fold(TRUE, |a, b| terms.and(a, b))
        };
        let prefix: Vec<TermId> = (0..longest).map(at).collect();
        let rest = at(longest);
        let (mut monitors, mut caps): (Vec<TermId>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut monitor = |t: TermId, cap: u64| {
            let i = monitors.iter().position(|m| *m == t).unwrap_or_else(|| {
                monitors.push(t);
                caps.push(0);
                monitors.len() - 1
            });
            caps[i] = caps[i].max(cap);
            i
        };
        let mut length_cap = set
            .min
            .max(set.max.map_or(0, |m| m + 1))
            .max(prefix.len() as u64);
        let mut clauses = Vec::new();
        for c in &set.clauses {
            let mut out = Vec::new();
            for e in c {
                out.push(match e {
                    ArrayEvent::At(i, t) => {
                        length_cap = length_cap.max(i + 1);
                        Event::At(*i, monitor(*t, 0))
                    }
                    ArrayEvent::From(i, t) => {
                        length_cap = length_cap.max(*i);
                        Event::From(*i, monitor(*t, 0))
                    }
                    ArrayEvent::LenLe(n) => {
                        length_cap = length_cap.max(n + 1);
                        Event::LenLe(*n)
                    }
                    ArrayEvent::LenGe(n) => {
                        length_cap = length_cap.max(*n);
                        Event::LenGe(*n)
                    }
                    ArrayEvent::CountLe(t, n) => Event::CountLe(monitor(*t, n + 1), *n),
                    ArrayEvent::CountGe(t, n) => Event::CountGe(monitor(*t, *n), *n),
                });
            }
            clauses.push(out);
        }
        ArrayShape {
            prefix,
            rest,
            min: set.min,
            max: set.max,
            unique: set.unique,
            monitors,
            caps,
            clauses,
            length_cap: length_cap.min(1 << 31),
            cost: OnceLock::new(),
            endless: OnceLock::new(),
        }
    }

    /// Terms that items can have, with and without the events of clauses.
    pub(crate) fn inner(&self, t: &Terms, out: &mut Vec<TermId>) {
        for &base in self.prefix.iter().chain([&self.rest]) {
            out.push(base);
            for &m in &self.monitors {
                out.push(t.and(base, m));
                out.extend(t.complement(m).map(|c| t.and(base, c)));
            }
        }
    }

    pub(crate) fn start(&self) -> ArrayState {
        ArrayState {
            n: 0,
            met: 0,
            counts: vec![0; self.monitors.len()],
        }
    }

    /// The term of the item at the state's position.
    pub(crate) fn item(&self, st: &ArrayState) -> TermId {
        self.prefix.get(st.n as usize).copied().unwrap_or(self.rest)
    }

    fn plain(&self) -> bool {
        self.clauses.is_empty()
    }

    pub(crate) fn may_close(&self, st: &ArrayState) -> bool {
        let n = u64::from(st.n);
        n >= self.min
            && self.max.is_none_or(|m| n <= m)
            && self.clauses.iter().enumerate().all(|(i, c)| {
                st.met >> i & 1 == 1
                    || c.iter().any(|e| match e {
                        Event::At(..) | Event::From(..) => false,
                        Event::LenLe(m) => n <= *m,
                        Event::LenGe(m) => n >= *m,
                        Event::CountLe(k, m) => u64::from(st.counts[*k]) <= *m,
                        Event::CountGe(k, m) => u64::from(st.counts[*k]) >= *m,
                    })
            })
    }

    /// The ways in which an item of `base` can count: its term, and the state after it. Liveness not yet looked at.
    fn leaves(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
        base: TermId,
    ) -> Result<Vec<(TermId, ArrayState)>, SchemaError> {
        if base == FALSE || self.max.is_some_and(|m| u64::from(st.n) >= m) {
            return Ok(Vec::new());
        }
        let mut after = st.clone();
        after.n = (u64::from(st.n) + 1).min(self.length_cap) as u32;
        let mut leaves = vec![(base, after)];
        for (k, &term) in self.monitors.iter().enumerate() {
            let mut bits = 0u32;
            for (i, c) in self
                .clauses
                .iter()
                .enumerate()
                .filter(|(i, _)| st.met >> i & 1 == 0)
            {
                let hit = c.iter().any(|e| match e {
                    Event::At(at, m) => *m == k && *at == u64::from(st.n),
                    Event::From(from, m) => *m == k && u64::from(st.n) >= *from,
                    _ => false,
                });
                if hit {
                    bits |= 1 << i;
                }
            }
            let counts = u64::from(st.counts[k]) < self.caps[k];
            if bits == 0 && !counts {
                continue;
            }
            let mut next = Vec::new();
            for (leaf, s) in leaves {
                let yes = t.and(leaf, term);
                let mut hit = s.clone();
                hit.met |= bits;
                hit.counts[k] += u32::from(counts);
                if yes == leaf {
                    next.push((leaf, hit));
                    continue;
                }
                if t.cost(w, yes)? != NEVER {
                    next.push((yes, hit));
                }
                let no = t.complement(term).map_or(leaf, |c| t.and(leaf, c));
                if t.cost(w, no)? != NEVER {
                    next.push((no, s));
                }
            }
            if next.len() > 1024 {
                return Err(SchemaError::limit(
                    "",
                    "ways to read one array item",
                    next.len() as u64,
                    1024,
                ));
            }
            leaves = next;
        }
        let mut out = Vec::new();
        for (term, s) in leaves {
            if t.cost(w, term)? != NEVER {
                out.push((term, s));
            }
        }
        Ok(out)
    }

    /// The longest this array can get by its item terms.
    fn reach(&self, t: &Terms, w: &mut Walk, from: u64) -> Result<u64, SchemaError> {
        for (i, &p) in self.prefix.iter().enumerate().skip(from as usize) {
            if t.cost(w, p)? == NEVER {
                return Ok(i as u64);
            }
        }
        if from <= self.prefix.len() as u64 && t.cost(w, self.rest)? == NEVER {
            return Ok(self.prefix.len() as u64);
        }
        Ok(self.max.unwrap_or(u64::MAX))
    }

    /// Whether the rest can be written; `seen` is the number of distinct values that may not come again.
    pub(crate) fn is_live(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
    ) -> Result<bool, SchemaError> {
        if self.plain() {
            let n = u64::from(st.n);
            if self.max.is_some_and(|m| n.max(self.min) > m) {
                return Ok(false);
            }
            return Ok(n >= self.min || self.reach(t, w, n)? >= self.min);
        }
        Ok(self.path(t, w, st)?.is_some())
    }

    /// A shortest way to a state that may close: items needed and the first of them.
    #[allow(clippy::option_option)]
    fn path(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
    ) -> Result<Option<Option<(TermId, ArrayState)>>, SchemaError> {
        if self.may_close(st) {
            return Ok(Some(None));
        }
        let mut from: HashMap<ArrayState, (TermId, ArrayState)> = HashMap::new();
        let mut queue = VecDeque::from([st.clone()]);
        while let Some(s) = queue.pop_front() {
            w.tick("contains and alternatives on one array", "#")?;
            for (term, next) in self.leaves(t, w, &s, self.item(&s))? {
                if next == *st || from.contains_key(&next) {
                    continue;
                }
                let first = from.get(&s).cloned().unwrap_or((term, next.clone()));
                if self.may_close(&next) {
                    return Ok(Some(Some(first)));
                }
                from.insert(next.clone(), first);
                queue.push_back(next);
            }
        }
        Ok(None)
    }

    /// The ways in which the next item can count, if the array can be completed after it.
    pub(crate) fn ways(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
        base: TermId,
    ) -> Result<Vec<(TermId, ArrayState)>, SchemaError> {
        let mut out = Vec::new();
        for (term, s) in self.leaves(t, w, st, base)? {
            if self.is_live(t, w, &s)? {
                out.push((term, s));
            }
        }
        Ok(out)
    }

    /// With unique items: whether enough distinct values are left, `exclude` taking the used ones out of a term.
    pub(crate) fn enough_left(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
        mut exclude: impl FnMut(TermId) -> TermId,
    ) -> Result<bool, SchemaError> {
        let n = u64::from(st.n);
        let cap = self.min.saturating_sub(n);
        let last = self.min.min(self.prefix.len() as u64 + 1);
        let mixed = n < self.prefix.len() as u64;
        for i in n..last.max(n + u64::from(cap > 0)).min(self.min) {
            let term = exclude(self.prefix.get(i as usize).copied().unwrap_or(self.rest));
            let have = t.count(w, term, cap.max(1))?;
            if have < cap {
                if mixed && have > 0 {
                    // Fewer values than items: whether they can be told out to the places is a matching question.
                    return self.matching(t, w, n, &mut exclude);
                }
                return Ok(false);
            }
        }
        for c in &self.clauses {
            if let [Event::CountGe(k, m)] = c[..] {
                let need = m.saturating_sub(u64::from(st.counts[k]));
                if need > 0 && mixed {
                    continue;
                }
                let both = t.and(self.rest, self.monitors[k]);
                if need > 0 && t.count(w, exclude(both), need)? < need {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether the places up to the minimum can be given distinct values (few values each).
    fn matching(
        &self,
        t: &Terms,
        w: &mut Walk,
        n: u64,
        exclude: &mut impl FnMut(TermId) -> TermId,
    ) -> Result<bool, SchemaError> {
        const FEW: u64 = 64;
        let mut places: Vec<Vec<String>> = Vec::new();
        for i in n..self.min.min(n + FEW) {
            let term = exclude(self.prefix.get(i as usize).copied().unwrap_or(self.rest));
            if t.count(w, term, FEW)? < FEW {
                places.push(t.enumerate(w, term)?);
            }
        }
        // Augmenting paths from places to values.
        let mut owner: HashMap<&str, usize> = HashMap::new();
        fn place<'a>(
            i: usize,
            places: &'a [Vec<String>],
            owner: &mut HashMap<&'a str, usize>,
            seen: &mut Vec<&'a str>,
        ) -> bool {
            for v in &places[i] {
                if seen.contains(&v.as_str()) {
                    continue;
                }
                seen.push(v);
                let free = match owner.get(v.as_str()).copied() {
                    None => true,
                    Some(o) => place(o, places, owner, seen),
                };
                if free {
                    owner.insert(v, i);
                    return true;
                }
            }
            false
        }
        Ok((0..places.len()).all(|i| place(i, &places, &mut owner, &mut Vec::new())))
    }

    pub(crate) fn cost(&self, t: &Terms, w: &mut Walk) -> Result<u64, SchemaError> {
        if let Some(&c) = self.cost.get() {
            return Ok(c);
        }
        let c = self.remaining(t, w, &self.start())?;
        let c = if c != NEVER && self.unique && !self.enough_left(t, w, &self.start(), |x| x)? {
            NEVER
        } else {
            c
        };
        if c != NEVER {
            let _ = self.cost.set(c);
        }
        Ok(c)
    }

    /// Length of a short rest of the array.
    fn remaining(&self, t: &Terms, w: &mut Walk, st: &ArrayState) -> Result<u64, SchemaError> {
        let mut cost = 2u64;
        let mut s = st.clone();
        if self.plain() {
            let n = u64::from(s.n);
            if self.max.is_some_and(|m| n.max(self.min) > m) {
                return Ok(NEVER);
            }
            for i in n..self.min.min(self.prefix.len() as u64) {
                cost = add(cost, add(t.cost(w, self.prefix[i as usize])?, 2));
            }
            let more = self.min.saturating_sub(n.max(self.prefix.len() as u64));
            if more > 0 {
                let each = add(t.cost(w, self.rest)?, 2);
                cost = if each == NEVER {
                    NEVER
                } else {
                    add(cost, each.saturating_mul(more).min(NEVER - 2))
                };
            }
            return Ok(cost);
        }
        // Follow shortest paths; each step makes the rest shorter.
        for _ in 0..100_000 {
            match self.path(t, w, &s)? {
                None => return Ok(NEVER),
                Some(None) => return Ok(cost),
                Some(Some((term, next))) => {
                    cost = add(cost, add(t.cost(w, term)?, 2));
                    s = next;
                }
            }
        }
        Ok(cost)
    }

    /// A count that behaves alike for the next `horizon` bytes.
    pub(crate) fn saturated(&self, st: &ArrayState, horizon: u32) -> u32 {
        if !self.plain() || self.unique {
            return st.n;
        }
        let low = self.min.max(self.prefix.len() as u64) as u32;
        match self.max {
            Some(m) if st.n >= low => {
                let far = (m.min(1 << 31) as u32).saturating_sub(horizon + 1).max(low);
                if st.n < far {
                    far
                } else {
                    st.n
                }
            }
            _ => st.n,
        }
    }

    /// Whether an array of unique items never runs out of strings, of arrays, of objects: then one more used
    /// value never ends it.
    pub(crate) fn endless(&self, t: &Terms, w: &mut Walk) -> [bool; 3] {
        if let Some(&known) = self.endless.get() {
            return known;
        }
        const MANY: u64 = 1 << 20;
        let mut alive = [false; KINDS.len()];
        let mut strings = false;
        for (kind, alive) in KINDS.into_iter().zip(&mut alive) {
            let Ok(shapes) = t.shapes(w, self.rest, kind) else {
                return [false; 3];
            };
            for &s in shapes.iter() {
                if !t.shape_cost(w, kind, s).is_ok_and(|c| c != NEVER) {
                    continue;
                }
                *alive = true;
                strings |= kind == Kind::String && t.strings.get(s).count() == INFINITE;
            }
        }
        // What is counted is all values together: so no other kind may be without end.
        let only = |kind: Kind| {
            KINDS
                .into_iter()
                .zip(&alive)
                .all(|(k, &alive)| k == kind || matches!(k, Kind::Null | Kind::Bool) || !alive)
        };
        let many = t.count(w, self.rest, MANY).is_ok_and(|n| n >= MANY);
        let fixed = self.prefix.is_empty() && self.monitors.is_empty();
        let found = [
            fixed && strings,
            fixed && many && only(Kind::Array),
            fixed && many && only(Kind::Object),
        ];
        *self.endless.get_or_init(|| found)
    }

    /// Items still needed before the array may close.
    pub(crate) fn distance(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
    ) -> Result<u64, SchemaError> {
        if self.plain() {
            return Ok(self.min.saturating_sub(u64::from(st.n)));
        }
        let mut s = st.clone();
        for n in 0..100_000 {
            match self.path(t, w, &s)? {
                Some(Some((_, next))) => s = next,
                Some(None) => return Ok(n),
                None => return Ok(NEVER),
            }
        }
        Ok(NEVER)
    }

    /// What to do to bring the array to an end: close, or an item of this term.
    #[allow(clippy::option_option)]
    pub(crate) fn plan(
        &self,
        t: &Terms,
        w: &mut Walk,
        st: &ArrayState,
    ) -> Result<Option<Option<(TermId, ArrayState)>>, SchemaError> {
        if !self.plain() {
            return self.path(t, w, st);
        }
        if self.may_close(st) {
            return Ok(Some(None));
        }
        Ok(self
            .ways(t, w, st, self.item(st))?
            .into_iter()
            .next()
            .map(Some))
    }
}
