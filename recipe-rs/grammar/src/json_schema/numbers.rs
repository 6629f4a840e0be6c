//! Numbers: the set of values a schema allows, and which prefixes of a spelling can still become one of them.
//!
//! A prefix is decided by arithmetic, not by automata: the digits read so far fix an interval of magnitudes for each
//! number of digits (or power of ten) to come, and the question is whether one of these intervals meets the set.
//! Bounds, `multipleOf` and excluded values stay exact decimals of any size.

use std::cmp::Ordering;
use std::sync::OnceLock;

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{One, Zero};

use super::ast::Bound;
use super::decimal::{pow10, Decimal};
use crate::hash::{of_bytes, Fingerprint};

/// A set of numbers: all conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NumberSet {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    /// Values are multiples of this.
    pub(crate) step: Option<Decimal>,
    /// Values are not multiples of any of these.
    pub(crate) not_steps: Vec<Decimal>,
    /// Values are among these, sorted.
    pub(crate) finite: Option<Vec<Decimal>>,
    /// Values are none of these.
    pub(crate) excluded: Vec<Decimal>,
    /// Draft 4: `true` only spelled as an integer, `false` only otherwise.
    pub(crate) spelled_integer: Option<bool>,
}

impl NumberSet {
    pub(crate) fn at_least(&mut self, b: &Bound) {
        let tighter = self
            .low
            .as_ref()
            .is_none_or(|(v, ex)| b.0 > *v || (b.0 == *v && b.1 && !ex));
        if tighter {
            self.low = Some(b.clone());
        }
    }

    pub(crate) fn at_most(&mut self, b: &Bound) {
        let tighter = self
            .high
            .as_ref()
            .is_none_or(|(v, ex)| b.0 < *v || (b.0 == *v && b.1 && !ex));
        if tighter {
            self.high = Some(b.clone());
        }
    }

    pub(crate) fn multiple(&mut self, d: &Decimal) {
        self.step = Some(match &self.step {
            None => d.clone(),
            Some(s) => Decimal::lcm(s, d),
        });
    }

    pub(crate) fn not_multiple(&mut self, d: &Decimal) {
        if !self.not_steps.contains(d) {
            self.not_steps.push(d.clone());
        }
    }

    pub(crate) fn among(&mut self, values: &[Decimal]) {
        let mut kept: Vec<Decimal> = match &self.finite {
            None => values.to_vec(),
            Some(f) => f.iter().filter(|v| values.contains(v)).cloned().collect(),
        };
        kept.sort();
        kept.dedup();
        self.finite = Some(kept);
    }

    pub(crate) fn exclude(&mut self, v: &Decimal) {
        if !self.excluded.contains(v) {
            self.excluded.push(v.clone());
        }
    }

    pub(crate) fn spelled(&mut self, integer: bool) -> bool {
        let ok = self.spelled_integer.is_none_or(|s| s == integer);
        self.spelled_integer = Some(integer);
        if integer {
            self.multiple(&Decimal::from_i64(1));
        }
        ok
    }

    fn allowed(&self, v: &Decimal) -> bool {
        self.step.as_ref().is_none_or(|s| v.is_multiple_of(s))
            && !self.not_steps.iter().any(|s| v.is_multiple_of(s))
            && !self.excluded.contains(v)
            && self
                .finite
                .as_ref()
                .is_none_or(|f| f.binary_search(v).is_ok())
    }

    /// Whether the value is in the set.
    pub(super) fn contains(&self, v: &Decimal) -> bool {
        self.low
            .as_ref()
            .is_none_or(|(b, ex)| v > b || (!ex && v == b))
            && self
                .high
                .as_ref()
                .is_none_or(|(b, ex)| v < b || (!ex && v == b))
            && self.allowed(v)
    }

    /// Brings equal sets to equal forms where that is cheap.
    pub(crate) fn tidy(&mut self) {
        if let Some(f) = self.finite.take() {
            let probe = NumberSet {
                finite: None,
                ..self.clone()
            };
            let kept: Vec<Decimal> = f.into_iter().filter(|v| probe.contains(v)).collect();
            let spelled_integer = self.spelled_integer;
            *self = NumberSet {
                finite: Some(kept),
                spelled_integer,
                ..NumberSet::default()
            };
        } else {
            let probe = NumberSet {
                excluded: Vec::new(),
                ..self.clone()
            };
            self.excluded.retain(|v| probe.contains(v));
            self.excluded.sort();
            self.not_steps.sort();
        }
    }

    /// How many values, saturating at `cap`.
    pub(super) fn count(&self, cap: u64) -> u64 {
        if let Some(f) = &self.finite {
            return f.iter().filter(|v| self.contains(v)).count() as u64;
        }
        match (&self.low, &self.high, &self.step) {
            (Some((a, _)), Some((b, _)), _) if a > b => 0,
            (Some((a, _)), Some((b, _)), _) if a == b => u64::from(self.contains(a)),
            (Some((a, x)), Some((b, y)), Some(s)) => {
                let all = Decimal::count_between(a, b, s, cap);
                if all >= cap {
                    return cap;
                }
                let edges =
                    u64::from(*x && a.is_multiple_of(s)) + u64::from(*y && b.is_multiple_of(s));
                if self.not_steps.is_empty() {
                    return all
                        .saturating_sub(edges)
                        .saturating_sub(self.excluded.len() as u64);
                }
                let (mut v, mut n) = (a.ceil_to(s), 0);
                while v <= *b && n < cap {
                    n += u64::from(self.contains(&v));
                    v = v.plus(s);
                }
                n
            }
            _ => cap,
        }
    }

    /// The magnitudes of the values with one sign (zero belongs to both).
    fn side(&self, neg: bool) -> Side<'_> {
        let zero = (Decimal::zero(), false);
        let (low, high) = if neg {
            let flip = |b: &Option<Bound>| b.as_ref().map(|(v, e)| (v.negated(), *e));
            (flip(&self.high), flip(&self.low))
        } else {
            (self.low.clone(), self.high.clone())
        };
        let low = low.filter(|(v, _)| !v.is_negative()).unwrap_or(zero);
        Side {
            set: self,
            neg,
            low,
            high,
        }
    }

    /// Some value of the set, small and short where possible.
    pub(super) fn witness(&self) -> Option<Decimal> {
        if self.contains(&Decimal::zero()) {
            return Some(Decimal::zero());
        }
        if let Some(f) = &self.finite {
            return f.iter().find(|v| self.contains(v)).cloned();
        }
        let find = |neg| self.side(neg).find(&(Decimal::zero(), true), None, None);
        find(false).or_else(|| find(true).map(|v| v.negated()))
    }
}

struct Side<'a> {
    set: &'a NumberSet,
    neg: bool,
    low: Bound,
    high: Option<Bound>,
}

impl Side<'_> {
    fn allowed(&self, magnitude: &Decimal) -> bool {
        if self.neg {
            self.set.allowed(&magnitude.negated())
        } else {
            self.set.allowed(magnitude)
        }
    }

    fn contains(&self, m: &Decimal) -> bool {
        let above = *m > self.low.0 || (!self.low.1 && *m == self.low.0);
        above
            && self
                .high
                .as_ref()
                .is_none_or(|(b, ex)| m < b || (!ex && m == b))
            && self.allowed(m)
    }

    /// Some magnitude of the set between the bounds and on the grid (multiples of `grid`), or `None`.
    fn find(&self, low: &Bound, high: Option<&Bound>, grid: Option<&Decimal>) -> Option<Decimal> {
        let low = match low.0.cmp(&self.low.0) {
            Ordering::Less => &self.low,
            Ordering::Greater => low,
            Ordering::Equal => {
                if low.1 {
                    low
                } else {
                    &self.low
                }
            }
        };
        let high = match (high, self.high.as_ref()) {
            (None, b) => b,
            (a, None) => a,
            (Some(a), Some(b)) => Some(if a.0 < b.0 || (a.0 == b.0 && a.1) {
                a
            } else {
                b
            }),
        };
        let below = |v: &Decimal| high.is_none_or(|(b, ex)| v < b || (!ex && v == b));
        let above = |v: &Decimal| *v > low.0 || (!low.1 && *v == low.0);
        if let Some(f) = &self.set.finite {
            return f
                .iter()
                .filter(|v| v.is_zero() || v.is_negative() == self.neg)
                .map(Decimal::abs)
                .find(|m| {
                    above(m)
                        && below(m)
                        && self.contains(m)
                        && grid.is_none_or(|g| m.is_multiple_of(g))
                });
        }
        let step = match (&self.set.step, grid) {
            (Some(s), Some(g)) => Some(Decimal::lcm(s, g)),
            (Some(s), None) => Some(s.clone()),
            (None, g) => g.cloned(),
        };
        if let Some(s) = step {
            let mut v = low.0.ceil_to(&s);
            if !above(&v) {
                v = v.plus(&s);
            }
            // Excluded values and multiples are few beside the lattice; the bound guards against odd cases.
            for _ in 0..20_000 {
                if !below(&v) {
                    return None;
                }
                if self.allowed(&v) {
                    return Some(v);
                }
                v = v.plus(&s);
            }
            return None;
        }
        if above(&low.0) && below(&low.0) && self.allowed(&low.0) {
            return Some(low.0.clone());
        }
        let Some(high) = high else {
            // Unbounded: the next whole number, then ever finer between it and the one after.
            return self.refine(&low.0, &low.0.plus(&Decimal::from_i64(1000)));
        };
        if low.0 >= high.0 {
            return None;
        }
        if below(&high.0) && self.allowed(&high.0) {
            return Some(high.0.clone());
        }
        self.refine(&low.0, &high.0)
    }

    /// A short allowed decimal strictly between two magnitudes.
    fn refine(&self, low: &Decimal, high: &Decimal) -> Option<Decimal> {
        let mut exp = high.magnitude();
        for _ in 0..60_000 {
            let unit = Decimal::power_of_ten(exp);
            let mut v = low.floor_to(&unit).plus(&unit);
            for _ in 0..12 {
                if v >= *high {
                    break;
                }
                if v > *low && self.allowed(&v) {
                    return Some(v);
                }
                v = v.plus(&unit);
            }
            exp -= 1;
        }
        None
    }
}

/// What spellings are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// An exponent may be written.
    pub(crate) exponent: bool,
    /// A fraction may be written.
    pub(crate) point: bool,
    /// Digits before and after the point together, if bounded.
    pub(crate) digits: Option<u32>,
    /// Digits after the point, if bounded.
    pub(crate) fraction: Option<u32>,
    /// `-0` is not written.
    pub(crate) no_negative_zero: bool,
}

/// Digits that `numbers="canonical"` allows unless the schema's own bounds have more.
pub(crate) const CANONICAL_DIGITS: u32 = 20;

impl Spelling {
    pub(crate) fn of(set: &NumberSet, canonical: bool) -> Spelling {
        let integer = set.spelled_integer == Some(true);
        if !canonical {
            return Spelling {
                exponent: !integer,
                point: !integer,
                digits: None,
                fraction: None,
                no_negative_zero: false,
            };
        }
        let mut digits = CANONICAL_DIGITS;
        let mut widen = |v: &Decimal| {
            let int = v.magnitude().clamp(1, 100_000) as u32;
            digits = digits.max(int + v.scale());
        };
        for b in [&set.low, &set.high].into_iter().flatten() {
            widen(&b.0);
        }
        set.finite.iter().flatten().for_each(&mut widen);
        if let Some(s) = &set.step {
            widen(s);
        }
        let fraction = match (&set.finite, &set.step) {
            (Some(f), _) => f.iter().map(Decimal::scale).max().unwrap_or(0),
            (None, Some(s)) => s.scale(),
            (None, None) => digits - 1,
        };
        let fraction = if set.spelled_integer == Some(false) {
            fraction.max(1)
        } else {
            fraction
        };
        let point = !integer && fraction > 0;
        Spelling {
            exponent: false,
            point,
            digits: Some(digits),
            fraction: Some(fraction),
            no_negative_zero: true,
        }
    }
}

/// How far a number's spelling has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    Start,
    Minus,
    Zero,
    Int,
    Point,
    Fraction,
    E,
    ExpSign,
    Exp,
}

const PHASES: [Phase; 9] = [
    Phase::Start,
    Phase::Minus,
    Phase::Zero,
    Phase::Int,
    Phase::Point,
    Phase::Fraction,
    Phase::E,
    Phase::ExpSign,
    Phase::Exp,
];

/// Exponents saturate here; no schema bound comes near.
const MAX_EXP: u64 = 1_000_000_000_000;

/// A prefix of a number's spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NumberPrefix {
    pub(crate) phase: Phase,
    pub(crate) neg: bool,
    pub(crate) exp_neg: bool,
    /// Digits written so far without leading zeros.
    pub(crate) digits: Vec<u8>,
    /// Digits written after the point.
    pub(crate) fraction: u32,
    /// Digits written before the point.
    pub(crate) int: u32,
    pub(crate) exp: u64,
}

impl NumberPrefix {
    pub(crate) fn start() -> Self {
        NumberPrefix {
            phase: Phase::Start,
            neg: false,
            exp_neg: false,
            digits: Vec::new(),
            fraction: 0,
            int: 0,
            exp: 0,
        }
    }

    /// As words, to be part of a machine state.
    pub(crate) fn push_words(&self, out: &mut Vec<u32>) {
        out.push(self.phase as u32 | u32::from(self.neg) << 8 | u32::from(self.exp_neg) << 9);
        out.extend([
            self.fraction,
            self.int,
            self.exp as u32,
            (self.exp >> 32) as u32,
            self.digits.len() as u32,
        ]);
        for chunk in self.digits.chunks(8) {
            out.push(
                chunk.iter().fold(0, |w, d| w << 4 | u32::from(d - b'0'))
                    << (4 * (8 - chunk.len())),
            );
        }
    }

    /// Back from words; the number of words read is returned too.
    pub(crate) fn from_words(w: &[u32]) -> (Self, usize) {
        let n = w[5] as usize;
        let digits = (0..n)
            .map(|i| b'0' + (w[6 + i / 8] >> (28 - 4 * (i % 8)) & 15) as u8)
            .collect();
        let p = NumberPrefix {
            phase: PHASES[(w[0] & 255) as usize],
            neg: w[0] >> 8 & 1 == 1,
            exp_neg: w[0] >> 9 & 1 == 1,
            digits,
            fraction: w[1],
            int: w[2],
            exp: u64::from(w[3]) | u64::from(w[4]) << 32,
        };
        (p, 6 + n.div_ceil(8))
    }

    fn mantissa(&self) -> Decimal {
        Decimal::from_digits(false, &self.digits, -i64::from(self.fraction))
    }

    /// The value if the spelling ends here, whatever the schema says; `None` if it cannot end here.
    pub(crate) fn value(&self) -> Option<Decimal> {
        match self.phase {
            Phase::Zero | Phase::Int | Phase::Fraction => Some(Decimal::from_digits(
                self.neg,
                &self.digits,
                -i64::from(self.fraction),
            )),
            Phase::Exp => {
                let e = self.exp as i64 * if self.exp_neg { -1 } else { 1 };
                Some(Decimal::from_digits(
                    self.neg,
                    &self.digits,
                    e - i64::from(self.fraction),
                ))
            }
            _ => None,
        }
    }

    /// The next byte of a spelling, syntax only.
    fn syntax(&self, byte: u8, sp: &Spelling) -> Option<Self> {
        use Phase::{Exp, ExpSign, Fraction, Int, Minus, Point, Start, Zero, E};
        let mut n = self.clone();
        n.phase = match (self.phase, byte) {
            (Start, b'-') => {
                n.neg = true;
                Minus
            }
            (Start | Minus, b'0') => {
                n.int = 1;
                Zero
            }
            (Start | Minus, b'1'..=b'9') | (Int, b'0'..=b'9') => {
                n.digits.push(byte);
                n.int += 1;
                Int
            }
            (Zero | Int, b'.') if sp.point => Point,
            (Point | Fraction, b'0'..=b'9') => {
                if byte != b'0' || !n.digits.is_empty() {
                    n.digits.push(byte);
                }
                n.fraction += 1;
                Fraction
            }
            (Zero | Int | Fraction, b'e' | b'E') if sp.exponent => E,
            (E, b'+' | b'-') => {
                n.exp_neg = byte == b'-';
                ExpSign
            }
            (E | ExpSign | Exp, b'0'..=b'9') => {
                n.exp = (n.exp * 10 + u64::from(byte - b'0')).min(MAX_EXP);
                Exp
            }
            _ => return None,
        };
        if sp.fraction.is_some_and(|f| n.fraction > f)
            || sp.digits.is_some_and(|d| n.int + n.fraction > d)
        {
            return None;
        }
        Some(n)
    }
}

/// A number set with the spellings allowed for it.
#[derive(Clone, Debug)]
pub(crate) struct NumberShape {
    pub(crate) set: NumberSet,
    pub(crate) spelling: Spelling,
    /// No condition at all.
    free: bool,
    quick: Option<Quick>,
    fingerprint: OnceLock<Fingerprint>,
}

/// Whole bounds of a set without other conditions: most prefixes are decided by comparing small integers.
#[derive(Clone, Copy, Debug)]
struct Quick {
    /// Inclusive; `None`: no bound.
    low: Option<i128>,
    high: Option<i128>,
    /// Only integers.
    whole: bool,
}

impl Quick {
    fn of(set: &NumberSet) -> Option<Quick> {
        let whole = match &set.step {
            None => false,
            Some(step) if *step == Decimal::power_of_ten(0) => true,
            Some(_) => return None,
        };
        if set.finite.is_some()
            || set.spelled_integer.is_some()
            || !set.not_steps.is_empty()
            || !set.excluded.is_empty()
        {
            return None;
        }
        let integer = |b: &Option<Bound>, inwards: i128| match b {
            None => Some(None),
            Some((v, exclusive)) => {
                let v: i128 = v.to_string().parse().ok()?;
                // Of reals the bound itself is given away; the slow way decides it.
                (v.abs() < 1 << 90).then_some(Some(v + if *exclusive { inwards } else { 0 }))
            }
        };
        Some(Quick {
            low: integer(&set.low, 1)?,
            high: integer(&set.high, -1)?,
            whole,
        })
    }

    /// Whether the prefix can be completed, where that is plain to see.
    fn alive(&self, p: &NumberPrefix, sp: &Spelling) -> Option<bool> {
        let complete = matches!(p.phase, Phase::Zero | Phase::Int);
        let open = matches!(p.phase, Phase::Int | Phase::Point | Phase::Fraction);
        if !(complete || open) || p.digits.len() > 30 {
            return None;
        }
        let digits = p
            .digits
            .iter()
            .fold(0i128, |v, d| v * 10 + i128::from(d - b'0'));
        let value = if p.neg { -digits } else { digits };
        let inside = self.low.is_none_or(|l| l <= value) && self.high.is_none_or(|h| value <= h);
        if complete && inside && !(p.neg && value == 0) {
            return Some(true);
        }
        if self.whole {
            // An integer spelled with these digits is at least them without the zeros at the end.
            let most = if p.neg {
                self.low.map(|l| -l)
            } else {
                self.high
            };
            let mut least = digits;
            while least != 0 && least % 10 == 0 && (sp.exponent || sp.point) {
                least /= 10;
            }
            return most.is_some_and(|m| least > m.max(0)).then_some(false);
        }
        // Any digits become as small as needed by an exponent.
        let (near, far) = if p.neg {
            (self.high, self.low.map(|l| -l))
        } else {
            (self.low, self.high)
        };
        let from_zero = if p.neg {
            near.is_none_or(|h| h >= 0)
        } else {
            near.is_none_or(|l| l <= 0)
        };
        (sp.exponent && open && digits != 0 && from_zero && far.is_none_or(|f| f > 0))
            .then_some(true)
    }
}

impl NumberShape {
    pub(crate) fn new(set: NumberSet, canonical: bool) -> Self {
        let spelling = Spelling::of(&set, canonical);
        let free = set == NumberSet::default() && !canonical;
        NumberShape {
            quick: Quick::of(&set),
            set,
            spelling,
            free,
            fingerprint: OnceLock::new(),
        }
    }

    /// Determines the language.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            of_bytes(
                0x4e,
                format!("{:?} {:?}", self.set, self.spelling).as_bytes(),
            )
        })
    }

    /// Length of a short spelling.
    pub(crate) fn cost(&self) -> u64 {
        self.completion(&NumberPrefix::start())
            .map_or(u64::MAX, |c| c.len() as u64)
    }

    /// Whether any spelling is allowed.
    pub(crate) fn is_empty(&self) -> bool {
        self.witness(&NumberPrefix::start()).is_none()
    }

    /// The prefix after one more byte, if it can still be completed. Brought to a simpler form that behaves alike
    /// where one is known, unless the exact value will be needed (`keep`).
    pub(crate) fn step(&self, p: &NumberPrefix, byte: u8, keep: bool) -> Option<NumberPrefix> {
        let n = p.syntax(byte, &self.spelling)?;
        if !self.free {
            let quick = self.quick.and_then(|q| q.alive(&n, &self.spelling));
            if !quick.unwrap_or_else(|| self.witness(&n).is_some()) {
                return None;
            }
        }
        Some(if keep { n } else { self.simplify(n) })
    }

    /// Whether the number may end here.
    pub(crate) fn accepts(&self, p: &NumberPrefix) -> bool {
        if self.free {
            return matches!(
                p.phase,
                Phase::Zero | Phase::Int | Phase::Fraction | Phase::Exp
            );
        }
        let Some(v) = p.value_for_check() else {
            return false;
        };
        let plain = matches!(p.phase, Phase::Zero | Phase::Int);
        self.set.contains(&v)
            && !(self.spelling.no_negative_zero && p.neg && v.is_zero())
            && self.set.spelled_integer.is_none_or(|s| s == plain)
    }

    /// Whether only the magnitude's class matters: no bound on the prefix's side, lattice of a power of ten or none.
    fn unbounded(&self, p: &NumberPrefix) -> bool {
        let s = &self.set;
        let lower_free = |b: &Option<Bound>, neg: bool| {
            b.as_ref().is_none_or(|(v, _)| {
                if neg {
                    !v.is_negative()
                } else {
                    v.is_negative() || v.is_zero()
                }
            })
        };
        let bounds = if p.neg {
            s.low.is_none()
                && s.high
                    .as_ref()
                    .is_none_or(|(v, _)| v.is_zero() || !v.is_negative())
        } else {
            s.high.is_none() && lower_free(&s.low, false)
        };
        bounds
            && s.finite.is_none()
            && s.excluded.is_empty()
            && s.not_steps
                .iter()
                .chain(&s.step)
                .all(|d| d.digits().is_one())
    }

    fn simplify(&self, mut p: NumberPrefix) -> NumberPrefix {
        if p.phase == Phase::Start || p.phase == Phase::Minus {
            return p;
        }
        if self.free {
            return NumberPrefix {
                phase: p.phase,
                ..NumberPrefix::start()
            };
        }
        if self.unbounded(&p) {
            let kept = p
                .digits
                .iter()
                .rposition(|&d| d != b'0')
                .map_or(0, |i| i + 1);
            let zeros = p.digits.len() - kept;
            let exponents = self.spelling.exponent;
            if kept > 0 {
                // Only how far the last nonzero digit is from the point matters.
                p.digits.clear();
                p.digits.push(b'1');
                p.digits.extend(std::iter::repeat_n(
                    b'0',
                    if exponents || p.fraction > 0 {
                        zeros
                    } else {
                        0
                    },
                ));
            }
            if exponents {
                p.int = 1;
                if self.set.step.is_none() && self.set.not_steps.is_empty() {
                    p.digits.truncate(1);
                    (p.fraction, p.exp) = (u32::from(p.fraction > 0), 0);
                }
            }
        }
        p
    }

    /// Some magnitude that the prefix can become, or `None`.
    pub(crate) fn witness(&self, p: &NumberPrefix) -> Option<Decimal> {
        if p.phase == Phase::Start {
            let mut q = p.clone();
            q.phase = Phase::Minus;
            return self.any_of_side(&q).or_else(|| {
                q.neg = true;
                self.any_of_side(&q)
            });
        }
        if self.spelling.exponent {
            self.with_exponent(p)
        } else {
            self.plain(p)
        }
    }

    /// Some magnitude of one sign that can be spelled.
    fn any_of_side(&self, p: &NumberPrefix) -> Option<Decimal> {
        let side = self.set.side(p.neg);
        let zero_ok = !(p.neg && self.spelling.no_negative_zero);
        let zero = Decimal::zero();
        if zero_ok && side.contains(&zero) {
            return Some(zero);
        }
        if self.spelling.exponent {
            return side.find(&(zero, true), None, None);
        }
        let f = self.spelling.fraction.unwrap_or(0);
        let top = self
            .spelling
            .digits
            .map(|d| (Decimal::power_of_ten(i64::from(d)), true));
        // Fewer fraction digits fit beside more digits before the point: try the coarsest grid last.
        for fraction in [0, f] {
            let grid = Decimal::power_of_ten(-i64::from(fraction));
            if let Some(v) = side.find(&(zero.clone(), true), top.as_ref(), Some(&grid)) {
                if self.fits(&v) {
                    return Some(v);
                }
            }
        }
        let digits = self.spelling.digits?;
        (1..=digits).find_map(|int| {
            let low = Decimal::power_of_ten(i64::from(int) - 1);
            let low = if int == 1 {
                (zero.clone(), true)
            } else {
                (low, false)
            };
            let grid = Decimal::power_of_ten(-i64::from(f.min(digits - int)));
            side.find(
                &low,
                Some(&(Decimal::power_of_ten(i64::from(int)), true)),
                Some(&grid),
            )
        })
    }

    fn fits(&self, v: &Decimal) -> bool {
        let int = v.magnitude().max(1) as u32;
        self.spelling.digits.is_none_or(|d| int + v.scale() <= d)
            && self.spelling.fraction.is_none_or(|f| v.scale() <= f)
    }

    /// Prefixes without exponents: each number of digits to come is one interval.
    fn plain(&self, p: &NumberPrefix) -> Option<Decimal> {
        let side = self.set.side(p.neg);
        let sp = &self.spelling;
        let nonzero_only = p.neg && sp.no_negative_zero;
        let must_point = self.set.spelled_integer == Some(false);
        let max_fraction = |int: u32| {
            let room = sp.digits.map_or(u32::MAX, |d| d.saturating_sub(int));
            if sp.point {
                sp.fraction.unwrap_or(u32::MAX).min(room)
            } else {
                0
            }
        };
        // Coarse grids first, so that completions are short; the finest decides.
        let search = |digits: BigUint, shift: i64, fraction: u32| -> Option<Decimal> {
            let low = Decimal::new(false, digits.clone(), shift);
            let high = Decimal::new(false, digits + 1u32, shift);
            let low = if nonzero_only && low.is_zero() {
                (low, true)
            } else {
                (low, false)
            };
            let first = (-shift).clamp(0, i64::from(fraction)) as u32;
            [first, first + 1, first + 2, fraction]
                .into_iter()
                .filter(|&f| f <= fraction)
                .find_map(|f| {
                    side.find(
                        &low,
                        Some(&(high.clone(), true)),
                        Some(&Decimal::power_of_ten(-i64::from(f))),
                    )
                })
        };
        match p.phase {
            Phase::Start => None,
            Phase::Minus => self.any_of_side(p),
            Phase::Zero => {
                let zero = Decimal::zero();
                if !nonzero_only && !must_point && side.contains(&zero) {
                    return Some(zero);
                }
                let f = max_fraction(1);
                if f == 0 {
                    None
                } else {
                    search(BigUint::zero(), 0, f)
                }
            }
            Phase::Int => {
                let digits = BigUint::parse_bytes(&p.digits, 10)?;
                let bounded = side.high.as_ref().map(|(h, _)| h.magnitude()).or_else(|| {
                    self.set
                        .finite
                        .as_ref()
                        .and_then(|f| f.iter().map(Decimal::magnitude).max())
                });
                let mut j = 0u32;
                loop {
                    let int = p.int + j;
                    if sp.digits.is_some_and(|d| int > d)
                        || bounded.is_some_and(|m| i64::from(int) > m.max(1))
                    {
                        return None;
                    }
                    let f = max_fraction(int);
                    if !(must_point && f == 0) {
                        let found =
                            search(digits.clone() * pow10(u64::from(j)), 0, f).or_else(|| {
                                (j > 0).then(|| self.decade(&side, &digits, j, f)).flatten()
                            });
                        if found.is_some() {
                            return found;
                        }
                    }
                    j += 1;
                    if j > 25_000 {
                        return None;
                    }
                }
            }
            Phase::Point => {
                let f = max_fraction(p.int);
                let digits = if p.digits.is_empty() {
                    BigUint::zero()
                } else {
                    BigUint::parse_bytes(&p.digits, 10)?
                };
                if f == 0 {
                    None
                } else {
                    search(digits, 0, f)
                }
            }
            Phase::Fraction => {
                let f = max_fraction(p.int);
                let digits = if p.digits.is_empty() {
                    BigUint::zero()
                } else {
                    BigUint::parse_bytes(&p.digits, 10)?
                };
                if p.fraction > f {
                    None
                } else {
                    search(digits, -i64::from(p.fraction), f)
                }
            }
            _ => None,
        }
    }

    /// Values whose first digits are `digits` with `j` more before the point.
    fn decade(&self, side: &Side<'_>, digits: &BigUint, j: u32, fraction: u32) -> Option<Decimal> {
        let low = Decimal::new(false, digits.clone(), i64::from(j));
        let high = Decimal::new(false, digits + 1u32, i64::from(j));
        side.find(
            &(low, false),
            Some(&(high, true)),
            Some(&Decimal::power_of_ten(-i64::from(fraction))),
        )
    }

    /// Prefixes that an exponent may still scale.
    fn with_exponent(&self, p: &NumberPrefix) -> Option<Decimal> {
        let side = self.set.side(p.neg);
        let zero = Decimal::zero();
        match p.phase {
            Phase::Start => None,
            Phase::Minus => self.any_of_side(p),
            Phase::Zero | Phase::Int | Phase::Point | Phase::Fraction if p.digits.is_empty() => {
                if side.contains(&zero) {
                    Some(zero)
                } else {
                    side.find(&(zero, true), None, None)
                }
            }
            Phase::Zero | Phase::Int | Phase::Point | Phase::Fraction => {
                self.leading(&side, &p.digits)
            }
            Phase::E | Phase::ExpSign | Phase::Exp => {
                let m = p.mantissa();
                if m.is_zero() {
                    return side.contains(&zero).then_some(zero);
                }
                let e = self.exponent(&side, &m, p)?;
                Some(Decimal::new(false, m.digits().clone(), m.exp() + e))
            }
        }
    }

    /// Some magnitude of the side whose significant digits begin with `digits`.
    fn leading(&self, side: &Side<'_>, digits: &[u8]) -> Option<Decimal> {
        let kept = digits.iter().rposition(|&d| d != b'0').map_or(0, |i| i + 1);
        if let Some(f) = &self.set.finite {
            return f
                .iter()
                .filter(|v| !v.is_zero() && v.is_negative() == p_neg(side))
                .map(Decimal::abs)
                .find(|m| {
                    let text = m.digits().to_string();
                    let t = text.as_bytes();
                    let n = t.len().min(digits.len());
                    side.contains(m)
                        && t[..n] == digits[..n]
                        && (t.len() >= digits.len() || kept <= t.len())
                });
        }
        let d = BigUint::parse_bytes(digits, 10)?;
        let len = digits.len() as i64;
        let try_at = |e: i64| {
            let low = Decimal::new(false, d.clone(), e);
            let high = Decimal::new(false, &d + 1u32, e);
            side.find(&(low, false), Some(&(high, true)), None)
        };
        // Powers of ten worth trying: from the smallest magnitude that can be in the set to the largest.
        let smallest = if side.low.0.is_zero() {
            match &self.set.step {
                Some(s) => s.magnitude(),
                None => side
                    .high
                    .as_ref()
                    .map_or(0, |(h, _)| h.magnitude() - 2)
                    .min(0),
            }
        } else {
            side.low.0.magnitude()
        };
        let first = smallest - len;
        let last = match &side.high {
            Some((h, _)) => h.magnitude() - len,
            // A whole decade of the lattice fits above step and lower bound.
            None => {
                smallest.max(self.set.step.as_ref().map_or(0, Decimal::magnitude)) + self.slack()
                    - len.min(0)
            }
        };
        (first..=last.max(first)).find_map(try_at)
    }

    fn slack(&self) -> i64 {
        3 + self
            .set
            .not_steps
            .iter()
            .map(|d| d.magnitude().abs())
            .max()
            .unwrap_or(0)
            + (self.set.excluded.len() as i64).min(20)
    }

    /// An exponent that the prefix can still reach and that brings the mantissa into the set.
    fn exponent(&self, side: &Side<'_>, m: &Decimal, p: &NumberPrefix) -> Option<i64> {
        let far = MAX_EXP as i64;
        // Exponents by bounds.
        let mut from = -far;
        let mut to = far;
        if !side.low.0.is_zero() {
            let e = side.low.0.magnitude() - m.magnitude();
            let v = Decimal::new(false, m.digits().clone(), m.exp() + e);
            from = if v > side.low.0 || (!side.low.1 && v == side.low.0) {
                e
            } else {
                e + 1
            };
        }
        if let Some((h, ex)) = &side.high {
            if h.is_zero() || h.is_negative() {
                return None;
            }
            let e = h.magnitude() - m.magnitude();
            let v = Decimal::new(false, m.digits().clone(), m.exp() + e);
            to = if v < *h || (!ex && v == *h) { e } else { e - 1 };
        }
        // m × 10^e is a multiple of s from some e on, or never.
        let first_multiple = |s: &Decimal| -> Option<i64> {
            let mut g = s.digits() / s.digits().gcd(m.digits());
            let mut tens = 0i64;
            let (two, five) = (BigUint::from(2u32), BigUint::from(5u32));
            let (mut twos, mut fives) = (0i64, 0i64);
            while (&g % &two).is_zero() {
                g /= &two;
                twos += 1;
            }
            while (&g % &five).is_zero() {
                g /= &five;
                fives += 1;
            }
            tens += twos.max(fives);
            g.is_one().then(|| tens + s.exp() - m.exp())
        };
        if let Some(s) = &self.set.step {
            from = from.max(first_multiple(s)?);
        }
        for s in &self.set.not_steps {
            if let Some(e) = first_multiple(s) {
                to = to.min(e - 1);
            }
        }
        let excluded: Vec<i64> = self
            .set
            .excluded
            .iter()
            .filter(|v| !v.is_zero() && v.digits() == m.digits())
            .map(|v| v.exp() - m.exp())
            .collect();
        let ok = |e: i64| {
            !excluded.contains(&e)
                && e.abs() < 1_000_000
                && side.contains(&Decimal::new(false, m.digits().clone(), m.exp() + e))
        };
        if let Some(f) = &self.set.finite {
            // Few candidates: those with the same digits.
            return f
                .iter()
                .filter(|v| v.digits() == m.digits())
                .map(|v| v.exp() - m.exp())
                .find(|&e| ok(e) && self.reachable(p, e, e).is_some());
        }
        // The stretches between excluded exponents.
        let mut cuts = excluded;
        cuts.retain(|e| (from..=to).contains(e));
        cuts.sort_unstable();
        cuts.dedup();
        let mut low = from;
        for cut in cuts {
            if let Some(e) = self.reachable(p, low, cut - 1) {
                return Some(e);
            }
            low = cut + 1;
        }
        self.reachable(p, low, to)
    }

    /// The smallest exponent in `from..=to` that the digits written so far can become.
    fn reachable(&self, p: &NumberPrefix, from: i64, to: i64) -> Option<i64> {
        if from > to {
            return None;
        }
        let pick = |neg: bool, digits: Option<u64>| -> Option<i64> {
            // magnitudes of the exponent in a..=b
            let (a, b) = if neg {
                ((-to).max(0), -from)
            } else {
                (from.max(0), to)
            };
            if b < a {
                return None;
            }
            let found = match digits {
                None | Some(0) => Some(a),
                Some(d) => {
                    let (mut lo, mut hi) = (d as i64, d as i64);
                    loop {
                        if lo > b {
                            break None;
                        }
                        if hi >= a {
                            break Some(lo.max(a));
                        }
                        lo = lo.saturating_mul(10);
                        hi = hi.saturating_mul(10).saturating_add(9);
                    }
                }
            };
            found.map(|x| if neg { -x } else { x })
        };
        match p.phase {
            Phase::E => pick(false, None).or_else(|| pick(true, None)),
            Phase::ExpSign => pick(p.exp_neg, None),
            _ => pick(p.exp_neg, Some(p.exp)),
        }
    }

    /// Bytes that complete the prefix to a value of the set; empty if it may end here.
    pub(crate) fn completion(&self, p: &NumberPrefix) -> Option<Vec<u8>> {
        if self.accepts(p) {
            return Some(Vec::new());
        }
        if self.free {
            return Some(b"0".to_vec());
        }
        let want = self.witness(p)?;
        if p.phase == Phase::Start {
            let neg = !self.set.contains(&want) || !self.plain_ok(&want, false);
            let text = if neg {
                want.negated().to_plain()
            } else {
                want.to_plain()
            };
            return Some(self.pointed(text).into_bytes());
        }
        let suffix = match p.phase {
            Phase::E | Phase::ExpSign | Phase::Exp => {
                let m = p.mantissa();
                let e = if m.is_zero() {
                    if p.phase == Phase::Exp {
                        p.exp as i64
                    } else {
                        0
                    }
                } else {
                    want.exp() - m.exp()
                };
                let digits = e.unsigned_abs().to_string();
                match p.phase {
                    Phase::E if e < 0 => format!("-{digits}"),
                    Phase::E | Phase::ExpSign => digits,
                    _ => digits
                        [p.exp.to_string().len().min(digits.len()) * usize::from(p.exp > 0)..]
                        .to_owned(),
                }
            }
            Phase::Minus => self.pointed(want.to_plain()),
            _ if self.spelling.exponent && !self.is_plain_prefix(p, &want) => {
                // Write the remaining digits, then an exponent that puts the point in place.
                let text = want.digits().to_string();
                let mut out = String::new();
                let mut fraction = p.fraction;
                let mut written = p.digits.len();
                let mut phase = p.phase;
                if phase == Phase::Zero {
                    out.push('.');
                    phase = Phase::Point;
                }
                if text.len() > written {
                    let more = &text[written..];
                    out.push_str(more);
                    written = text.len();
                    if matches!(phase, Phase::Point | Phase::Fraction) {
                        fraction += more.len() as u32;
                    }
                } else if phase == Phase::Point {
                    out.push('0');
                    fraction += 1;
                    written += usize::from(!p.digits.is_empty());
                }
                let spare = (written - text.len()) as i64;
                let e = want.exp() - spare + i64::from(fraction);
                if want.is_zero() || e == 0 {
                    out
                } else {
                    format!("{out}e{e}")
                }
            }
            _ => {
                let done = self.plain_text(p);
                let text = self.pointed(want.to_plain());
                match text.strip_prefix(&done) {
                    Some(rest) => rest.to_owned(),
                    // The prefix has trailing zeros or a point that plain notation of the value lacks.
                    None if p.phase == Phase::Point => "0".into(),
                    None => String::new(),
                }
            }
        };
        Some(suffix.into_bytes())
    }

    fn plain_ok(&self, v: &Decimal, neg: bool) -> bool {
        !(neg && v.is_zero() && self.spelling.no_negative_zero)
    }

    /// Adds `.0` where an integer may not be spelled as one.
    fn pointed(&self, text: String) -> String {
        if self.set.spelled_integer == Some(false) && !text.contains('.') {
            return text + ".0";
        }
        text
    }

    fn plain_text(&self, p: &NumberPrefix) -> String {
        let all = String::from_utf8_lossy(&p.digits).into_owned();
        let need = (p.int + p.fraction) as usize;
        let padded = "0".repeat(need.saturating_sub(all.len())) + &all;
        let (int, fraction) = padded.split_at(padded.len() - p.fraction as usize);
        match p.phase {
            Phase::Point => format!("{int}."),
            Phase::Fraction => format!("{int}.{fraction}"),
            _ => int.to_owned(),
        }
    }

    fn is_plain_prefix(&self, p: &NumberPrefix, want: &Decimal) -> bool {
        if want.magnitude().abs() > 40 || want.scale() > 40 {
            return false;
        }
        let (done, text) = (self.plain_text(p), self.pointed(want.to_plain()));
        text.starts_with(&done)
            || (p.value() == Some(want.clone()))
            || (p.phase == Phase::Point && text == done.trim_end_matches('.'))
    }
}

fn p_neg(side: &Side<'_>) -> bool {
    side.neg
}

impl NumberPrefix {
    /// As [`NumberPrefix::value`], without building numbers of absurd size.
    fn value_for_check(&self) -> Option<Decimal> {
        if self.phase == Phase::Exp && self.exp > 100_000 && !self.digits.is_empty() {
            // Beyond every bound of a schema (those are limited): any number as far out decides alike.
            let mut p = self.clone();
            p.exp = 100_000 + (self.digits.len() as u64).min(50_000);
            return p.value();
        }
        self.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(s: &str) -> Decimal {
        Decimal::parse(s, 1000).expect(s)
    }

    fn run(shape: &NumberShape, text: &str) -> bool {
        let mut p = NumberPrefix::start();
        for b in text.bytes() {
            let mut w = Vec::new();
            p.push_words(&mut w);
            assert_eq!(NumberPrefix::from_words(&w), (p.clone(), w.len()));
            match shape.step(&p, b, false) {
                Some(n) => p = n,
                None => return false,
            }
            let rest = shape.completion(&p).expect("live prefix");
            let mut q = p.clone();
            for b in &rest {
                q = shape
                    .step(&q, *b, true)
                    .unwrap_or_else(|| panic!("{text} {rest:?} {p:?} {shape:?}"));
            }
            assert!(shape.accepts(&q), "{text}: {rest:?} {p:?}");
        }
        shape.accepts(&p)
    }

    fn check(set: &NumberSet, canonical: bool, yes: &[&str], no: &[&str]) {
        let shape = NumberShape::new(set.clone(), canonical);
        for t in yes {
            assert!(run(&shape, t), "{t} {set:?} {canonical}");
        }
        for t in no {
            assert!(!run(&shape, t), "{t} {set:?} {canonical}");
        }
    }

    #[test]
    fn any_number() {
        let set = NumberSet::default();
        check(
            &set,
            false,
            &[
                "0",
                "-0",
                "1.50",
                "1e400",
                "-2.5E-07",
                "0e4",
                "123456789012345678901234567890",
            ],
            &["01", "1.", ".5", "+1", "1e", "-"],
        );
        check(
            &set,
            true,
            &["0", "12.5", "-3.0", "12345678901234567890"],
            &["1e3", "-0", "123456789012345678901"],
        );
    }

    #[test]
    fn integers_by_value() {
        let mut set = NumberSet::default();
        set.multiple(&d("1"));
        check(
            &set,
            false,
            &["1", "1.0", "1e0", "1.5e1", "100e-2", "-7"],
            &["1.5", "15e-1", "0.1"],
        );
        check(&set, true, &["1", "-7", "0"], &["1.0", "1e0"]);
        set.not_multiple(&d("1"));
        assert!(NumberShape::new(set, false).is_empty());
    }

    #[test]
    fn bounds() {
        let mut set = NumberSet::default();
        set.at_least(&(d("0"), true));
        set.at_most(&(d("5"), false));
        for canonical in [false, true] {
            check(
                &set,
                canonical,
                &["0.1", "5", "4.999", "5.0", "0.0001"],
                &["0", "5.7", "5.01", "-1", "0.0", "6", "55"],
            );
        }
        check(
            &set,
            false,
            &["50e-1", "0.005e3", "500000e-5"],
            &["50", "0e7"],
        );
        let mut low = NumberSet::default();
        low.at_least(&(d("2"), false));
        check(
            &low,
            true,
            &["2", "2.5", "19", "100.25"],
            &["1", "1.99", "0"],
        );
        let mut ints = NumberSet::default();
        ints.multiple(&d("1"));
        ints.at_least(&(d("-5"), false));
        ints.at_most(&(d("255"), false));
        for canonical in [false, true] {
            check(
                &ints,
                canonical,
                &["-5", "-3", "0", "123", "255", "99"],
                &["-6", "-10", "256", "999", "1000"],
            );
        }
    }

    #[test]
    fn multiples_and_exclusions() {
        let mut set = NumberSet::default();
        set.multiple(&d("0.01"));
        set.at_least(&(d("0.5"), false));
        set.at_most(&(d("0.55"), false));
        for canonical in [false, true] {
            check(
                &set,
                canonical,
                &["0.5", "0.55", "0.51"],
                &["0.49", "0.555", "0.56", "1"],
            );
        }
        let mut odd = NumberSet::default();
        odd.multiple(&d("1"));
        odd.not_multiple(&d("2"));
        odd.exclude(&d("7"));
        for canonical in [false, true] {
            check(&odd, canonical, &["1", "21", "-3", "77"], &["2", "7", "40"]);
        }
        check(&odd, false, &["1.1e1", "0.5e1"], &["1e1", "0.7e1"]);
        let mut f = NumberSet::default();
        f.among(&[d("1.5"), d("-20"), d("300")]);
        f.tidy();
        check(
            &f,
            false,
            &["1.5", "1.50", "15e-1", "-20", "-2e1", "3e2", "300.0"],
            &["1", "15", "2", "-200"],
        );
        check(&f, true, &["1.5", "-20", "300"], &["1", "15", "3", "-2"]);
        let mut one = NumberSet::default();
        one.exclude(&d("1"));
        for canonical in [false, true] {
            check(&one, canonical, &["11", "1.5", "10", "0"], &["1", "1.0"]);
        }
        check(
            &one,
            false,
            &["1e-1", "1e1", "10e-2"],
            &["1e0", "10e-1", "1e-0"],
        );
        let mut three = NumberSet::default();
        three.multiple(&d("3"));
        check(
            &three,
            false,
            &["3", "12", "1.2e1", "0"],
            &["1", "1e5", "3.3"],
        );
    }
}
