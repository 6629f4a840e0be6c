//! States that no token can tell apart.
//!
//! Which keys an object has, and the text of the key being written, matter to later keys only. Where the
//! vocabulary has no token that reaches into a later key or past a whole member ([`TokenFacts`]), states are
//! reduced to what the next token can notice: which keys may come, whether the object may close, whether a
//! comma may follow. Of all states that agree in that, the first one met stands for the others.

use super::arrays::ArrayState;
use super::machine::{
    member_words, object_words, JsonMachine, AFTER, ARRAY, COLON, KEY, KEY_QUOTE, LITERAL, MEMBER,
    NUMBER, OBJECT, QUOTE, STRING, UNIQUE, VALUE,
};
use super::objects::{bit, members, set_bit, text_of, ObjectShape, ObjectState, FRESH, NONE};
use super::shapes::{Kind, TermId, KINDS};
use super::strings::partial_range;
use crate::hash::{mix, Fingerprint};
use crate::machine::{Cx, Machine};
use crate::vocab::TokenFacts;

/// Marks keys of states inside a character.
const INSIDE: u32 = 1 << 30;

impl JsonMachine {
    pub(super) fn canonical_state(
        &self,
        cx: &mut Cx<'_>,
        s: &[u32],
        facts: &TokenFacts,
    ) -> Option<Vec<u32>> {
        match s[0] {
            OBJECT => self.canonical_object(cx, s, facts),
            KEY if facts.no_member_passed => self.canonical_key(cx, s, facts),
            KEY_QUOTE if facts.no_member_passed => {
                let shape = self.terms.objects.get(s[1]);
                if !shape.simple() {
                    return None;
                }
                let fresh = with_fresh_key(&shape, s);
                Some(self.first_met(cx, &[KEY_QUOTE, s[1], s[2]], &fresh))
            }
            COLON if facts.no_key_inside => {
                let shape = self.terms.objects.get(s[1]);
                if !shape.simple() {
                    return None;
                }
                let fresh = with_fresh_key(&shape, s);
                let mut w = self.walk();
                let ways = self.ways_after_key(cx, &mut w, &shape, &fresh).ok()?;
                let [(_, after)] = &ways[..] else {
                    return None;
                };
                let goes_on = self.goes_on(cx, s[1], after)?;
                let key = [
                    COLON,
                    s[1],
                    s[2],
                    u32::from(shape.may_close(after)),
                    u32::from(goes_on),
                ];
                Some(self.first_met(cx, &key, &fresh))
            }
            MEMBER => {
                let mut after = vec![OBJECT, AFTER];
                after.extend(&s[3..]);
                let after = self.canonical_object(cx, &after, facts)?;
                Some(member_words(
                    s[1],
                    s[2],
                    s[3],
                    &ObjectState::from_words(&after[3..]),
                ))
            }
            STRING => self.canonical_string(cx, s, facts),
            UNIQUE => self.canonical_unique(cx, s, facts),
            ARRAY => self.canonical_array(cx, s, facts),
            _ => self.saturate(cx, s, facts.longest),
        }
    }

    /// The state that stands for all of this schema's states with the same key.
    fn first_met(&self, cx: &mut Cx<'_>, key: &[u32], state: &[u32]) -> Vec<u32> {
        let mut whole = vec![self.id.0];
        whole.extend(key);
        cx.first_met(&whole, state)
    }

    /// Whether a comma may follow a finished member.
    fn goes_on(&self, cx: &mut Cx<'_>, id: u32, st: &ObjectState) -> Option<bool> {
        let allowed = self.allowed(cx, id, st).ok()?;
        Some(allowed.iter().any(|x| *x != 0))
    }

    fn canonical_object(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        let (phase, id) = (s[1], s[2]);
        let shape = self.terms.objects.get(id);
        let st = ObjectState::from_words(&s[3..]);
        if !shape.simple() || !facts.no_key_inside {
            return None;
        }
        let may_close = u32::from(shape.may_close(&st));
        if phase == AFTER {
            let goes_on = u32::from(self.goes_on(cx, id, &st)?);
            return Some(self.first_met(cx, &[OBJECT, AFTER, id, may_close, goes_on], s));
        }
        if !facts.no_member_passed {
            return None;
        }
        let allowed = self.allowed(cx, id, &st).ok()?;
        let others = if !shape.has_other(&allowed) {
            NONE
        } else if shape.keys.endless() {
            let mut kept = members(cx, st.others);
            kept.retain(|&o| facts.quoted.contains(&*text_of(cx, o)));
            intern_set(cx, &kept)
        } else {
            st.others
        };
        let mut key = vec![OBJECT, phase, id, may_close, others];
        key.extend(allowed);
        let reduced = object_words(phase, id, &ObjectState { others, ..st });
        Some(self.first_met(cx, &key, &reduced))
    }

    fn canonical_key(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        let shape = self.terms.objects.get(s[1]);
        if !shape.simple() {
            return None;
        }
        let (trie, q) = (s[2], s[3]);
        // Keys that the text typed so far can still become.
        let names = shape.keys.names.len() as u32;
        let (a, b) = shape.keys.named(trie);
        let before = cx.get(s[6]).to_vec();
        let mut allowed = vec![0; before.len()];
        for l in (a..b).filter(|&l| bit(&before, l)) {
            set_bit(&mut allowed, l);
        }
        for class in 0..shape.keys.classes.len() as u32 {
            if bit(&before, names + class) && shape.keys.others(trie, q, class) != 0 {
                set_bit(&mut allowed, names + class);
            }
        }
        let st = ObjectState::from_words(&s[7..]);
        let (text, others) = if !shape.has_other(&allowed) {
            (NONE, NONE)
        } else {
            let kept = if s[5] == FRESH {
                Vec::new()
            } else {
                let typed = text_of(cx, s[5]);
                let mut kept = members(cx, st.others);
                kept.retain(|&o| {
                    let used = text_of(cx, o);
                    let rest = used.strip_prefix(&typed).filter(|_| o != FRESH);
                    match (rest, partial_range(s[4])) {
                        (Some(rest), Some((_, low, high))) => rest
                            .chars()
                            .next()
                            .is_some_and(|c| (low..=high).contains(&(c as u32))),
                        (rest, _) => rest.is_some(),
                    }
                });
                kept
            };
            if kept.is_empty() {
                (FRESH, NONE)
            } else {
                (s[5], intern_set(cx, &kept))
            }
        };
        // No used key begins like this one, so all that it can become is unused.
        let unseen = matches!(text, FRESH | NONE);
        let q = if unseen {
            shape.keys.alike(facts.longest)[q as usize]
        } else {
            q
        };
        let mut key = vec![KEY, s[1]];
        key.extend(&allowed);
        let mut words = Vec::new();
        st.push_words(&mut words);
        let mut st = ObjectState::from_words(&self.first_met(cx, &key, &words));
        st.others = others;
        let mut out = vec![KEY, s[1], trie, q, s[4], text, cx.intern(&allowed)];
        st.push_words(&mut out);
        if let Some((left, low, high)) = partial_range(s[4]).filter(|_| unseen) {
            if let Some(target) = shape.keys.one_target(trie, q, low, high) {
                let mut key = vec![KEY, INSIDE + left, s[1], target, text];
                key.extend(&allowed);
                return Some(self.first_met(cx, &key, &out));
            }
        }
        Some(out)
    }

    /// In a state that every text completes, where it came from does not matter.
    fn canonical_string(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        let shape = self.terms.strings.get(s[1]);
        let (q, n) = shape.saturated(s[2], s[3], facts.longest);
        let found = vec![STRING, s[1], q, n, s[4]];
        let target = partial_range(s[4])
            .and_then(|(left, low, high)| Some((left, shape.one_target(q, low, high)?)));
        Some(if let Some((left, target)) = target {
            // Inside a character only what it leads to matters.
            let free = shape.is_free(q, n) && target == q;
            let key = if free {
                vec![STRING, INSIDE + left]
            } else {
                vec![STRING, INSIDE + left, s[1], target, n]
            };
            self.first_met(cx, &key, &found)
        } else if shape.is_free(q, n) {
            self.first_met(cx, &[STRING, s[4]], &found)
        } else {
            found
        })
    }

    /// Whether all values of a term are strings.
    fn strings_only(&self, term: TermId) -> bool {
        let mut w = self.walk();
        KINDS.iter().all(|&kind| {
            kind == Kind::String
                || self
                    .live_shapes(&mut w, term, kind)
                    .is_ok_and(|live| live.is_empty())
        })
    }

    fn canonical_array(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        let shape = self.terms.arrays.get(s[2]);
        let st = ArrayState::from_words(&s[4..]);
        if s[1] == AFTER
            && shape.unique
            && facts.no_key_inside
            && self.strings_only(shape.item(&st))
        {
            let goes_on = !self.item_ways(cx, &shape, &st, s[3]).ok()?.is_empty();
            let close = shape.may_close(&st);
            let mut key = vec![ARRAY, AFTER, s[2], u32::from(close), u32::from(goes_on)];
            st.push_words(&mut key);
            return Some(self.first_met(cx, &key, s));
        }
        self.saturate(cx, s, facts.longest)
    }

    fn canonical_unique(&self, cx: &mut Cx<'_>, s: &[u32], facts: &TokenFacts) -> Option<Vec<u32>> {
        let mut w = self
            .saturate(cx, s, facts.longest)
            .unwrap_or_else(|| s.to_vec());
        w[3] = cx.nested_canonical(crate::engine::ConfigId(w[3]), facts).0;
        let shape = self.terms.arrays.get(s[1]);
        let st = ArrayState::from_words(&s[5..]);
        if w[4] == FRESH && facts.no_key_inside && self.strings_only(shape.item(&st)) {
            // The set of used values is only seen by what comes after the next comma.
            if let Some(done) = self.finished_item(cx, &w) {
                let after = self.canonical_array(cx, &done, facts).unwrap_or(done);
                let mut key = vec![UNIQUE, w[1], w[3]];
                st.push_words(&mut key);
                key.extend(after);
                return Some(self.first_met(cx, &key, &w));
            }
        }
        Some(w)
    }

    /// A hash that determines a state's language in any schema; for values without members and items.
    pub(super) fn fingerprint_of(&self, _cx: &mut Cx<'_>, s: &[u32]) -> Option<Fingerprint> {
        let words = |tag: u64, s: &[u32]| {
            s.iter().fold(mix(tag, s.len() as u128, 0), |h, &w| {
                mix(tag, h, u128::from(w))
            })
        };
        let string = |s: &[u32]| {
            let shape = self.terms.strings.get(s[1]);
            mix(0x61, shape.fingerprint(s[2], s[3]), u128::from(s[4]))
        };
        match s[0] {
            LITERAL | QUOTE => Some(words(0x60, s)),
            STRING => Some(string(s)),
            NUMBER => {
                let shape = self.terms.numbers.get(s[1]);
                Some(mix(0x62, shape.fingerprint(), words(0x63, &s[2..])))
            }
            VALUE => {
                let mut w = self.walk();
                let mut hash = mix(0x64, 0, 0);
                for kind in KINDS {
                    for &id in &self.live_shapes(&mut w, s[1], kind).ok()? {
                        let one = match kind {
                            Kind::Null | Kind::Bool => u128::from(id),
                            Kind::Number => self.terms.numbers.get(id).fingerprint(),
                            Kind::String => string(&[STRING, id, 0, 0, 0]),
                            Kind::Array | Kind::Object => return None,
                        };
                        hash = mix(0x65 + kind as u64, hash, one);
                    }
                }
                Some(hash)
            }
            _ => None,
        }
    }

    /// A used value turns few strings down: the others read on in a state that every text completes.
    pub(super) fn string_heads(&self, s: &[u32]) -> Option<Vec<u32>> {
        self.terms.strings.get(s[1]).told_apart(s[2], s[3])
    }
}

fn intern_set(cx: &mut Cx<'_>, members: &[u32]) -> u32 {
    if members.is_empty() {
        NONE
    } else {
        cx.intern(members)
    }
}

/// A `KEY_QUOTE` or `COLON` state whose key, if it is no declared one, is unlike all others.
fn with_fresh_key(shape: &ObjectShape, s: &[u32]) -> Vec<u32> {
    let mut w = s.to_vec();
    if !shape.is_named(s[2]) {
        w[3] = FRESH;
    }
    w
}
