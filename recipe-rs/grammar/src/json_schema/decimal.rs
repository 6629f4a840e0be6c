//! Exact decimal numbers: what a JSON number denotes, whatever its spelling.
//!
//! A value is `± digits × 10^exp` with no trailing zero in `digits`, so equal numbers have equal
//! representations (`1`, `1.0`, `1e0`). Knows nothing of schemas.

use std::cmp::Ordering;

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{One, Zero};

/// An exact decimal number in canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    neg: bool,
    digits: BigUint,
    exp: i64,
    /// Number of decimal digits of `digits`; 0 for zero.
    len: u32,
}

/// The power of ten with the given exponent.
pub(crate) fn pow10(n: u64) -> BigUint {
    BigUint::from(10u32).pow(n as u32)
}

impl Decimal {
    /// Zero.
    pub(super) fn zero() -> Self {
        Decimal {
            neg: false,
            digits: BigUint::zero(),
            exp: 0,
            len: 0,
        }
    }

    /// A small integer.
    pub(super) fn from_i64(n: i64) -> Self {
        Self::new(n < 0, BigUint::from(n.unsigned_abs()), 0)
    }

    /// `10^exp`.
    pub(super) fn power_of_ten(exp: i64) -> Self {
        Self::new(false, BigUint::one(), exp)
    }

    /// `± digits × 10^exp`, brought to canonical form.
    pub(super) fn new(neg: bool, digits: BigUint, exp: i64) -> Self {
        if digits.is_zero() {
            return Self::zero();
        }
        let text = digits.to_string();
        let kept = text.trim_end_matches('0').len();
        let cut = text.len() - kept;
        let digits = if cut == 0 {
            digits
        } else {
            digits / pow10(cut as u64)
        };
        Decimal {
            neg,
            digits,
            exp: exp + cut as i64,
            len: kept as u32,
        }
    }

    /// From ASCII decimal digits (leading and trailing zeros allowed) and a power of ten.
    pub(super) fn from_digits(neg: bool, digits: &[u8], exp: i64) -> Self {
        Self::new(
            neg,
            BigUint::parse_bytes(digits, 10).unwrap_or_default(),
            exp,
        )
    }

    /// Reads a JSON number; `None` if the spelling is wrong or the exponent is beyond `limit`.
    pub(super) fn parse(text: &str, limit: i64) -> Option<Self> {
        let (neg, rest) = match text.strip_prefix('-') {
            Some(r) => (true, r),
            None => (false, text),
        };
        let (mantissa, exp) = match rest.find(['e', 'E']) {
            Some(i) => (&rest[..i], rest[i + 1..].parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if int.is_empty()
            || (int.len() > 1 && int.starts_with('0'))
            || (mantissa.contains('.') && frac.is_empty())
        {
            return None;
        }
        if !int.bytes().chain(frac.bytes()).all(|b| b.is_ascii_digit()) || exp.abs() > limit {
            return None;
        }
        let digits = [int.as_bytes(), frac.as_bytes()].concat();
        Some(Self::from_digits(neg, &digits, exp - frac.len() as i64))
    }

    /// Whether the value is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.len == 0
    }

    /// Whether the value is below zero.
    pub(super) fn is_negative(&self) -> bool {
        self.neg
    }

    /// Whether the value is a whole number.
    pub(super) fn is_integer(&self) -> bool {
        self.exp >= 0
    }

    /// Digits after the point in plain notation.
    pub(super) fn scale(&self) -> u32 {
        (-self.exp).max(0) as u32
    }

    /// Position of the leading digit: 1 for 1..9.99, 2 for 10..99, 0 for 0.1..0.99.
    pub(super) fn magnitude(&self) -> i64 {
        self.len as i64 + self.exp
    }

    /// The digits without sign, point or trailing zeros.
    pub(super) fn digits(&self) -> &BigUint {
        &self.digits
    }

    /// The power of ten that goes with [`Decimal::digits`].
    pub(super) fn exp(&self) -> i64 {
        self.exp
    }

    /// The value with its sign turned.
    #[must_use]
    pub(super) fn negated(&self) -> Self {
        let mut d = self.clone();
        d.neg = !self.is_zero() && !self.neg;
        d
    }

    /// The absolute value.
    #[must_use]
    pub(super) fn abs(&self) -> Self {
        let mut d = self.clone();
        d.neg = false;
        d
    }

    /// Digits scaled to the power of ten `exp`, which must not be above this value's own.
    pub(crate) fn scaled(&self, exp: i64) -> BigUint {
        &self.digits * pow10((self.exp - exp).max(0) as u64)
    }

    /// Whether the value is a whole multiple of `step` (above zero).
    pub(super) fn is_multiple_of(&self, step: &Decimal) -> bool {
        if self.is_zero() {
            return true;
        }
        // digits without trailing zeros: a lower power of ten than the step's can never divide
        if self.exp < step.exp {
            return false;
        }
        (self.scaled(step.exp) % &step.digits).is_zero()
    }

    /// The smallest number that is a multiple of both (both above zero).
    pub(super) fn lcm(a: &Decimal, b: &Decimal) -> Decimal {
        let e = a.exp.min(b.exp);
        Decimal::new(false, a.scaled(e).lcm(&b.scaled(e)), e)
    }

    /// The smallest multiple of `step` not below `self`.
    pub(super) fn ceil_to(&self, step: &Decimal) -> Decimal {
        let e = self.exp.min(step.exp);
        let (x, s) = (self.scaled(e), step.scaled(e));
        let (q, r) = x.div_rem(&s);
        let k = if r.is_zero() || self.neg { q } else { q + 1u32 };
        Decimal::new(self.neg, k * s, e)
    }

    /// The largest multiple of `step` not above `self`.
    pub(super) fn floor_to(&self, step: &Decimal) -> Decimal {
        self.negated().ceil_to(step).negated()
    }

    /// `self + step`.
    #[must_use]
    pub(super) fn plus(&self, other: &Decimal) -> Decimal {
        let e = self.exp.min(other.exp);
        let (a, b) = (self.scaled(e), other.scaled(e));
        if self.neg == other.neg {
            Decimal::new(self.neg, a + b, e)
        } else if a >= b {
            Decimal::new(self.neg, a - b, e)
        } else {
            Decimal::new(other.neg, b - a, e)
        }
    }

    /// How many multiples of `step` lie in the closed range, saturating at `cap`.
    pub(super) fn count_between(lo: &Decimal, hi: &Decimal, step: &Decimal, cap: u64) -> u64 {
        let (a, b) = (lo.ceil_to(step), hi.floor_to(step));
        if a > b {
            return 0;
        }
        let d = b.plus(&a.negated());
        let e = d.exp.min(step.exp);
        let n: BigUint = d.scaled(e) / step.scaled(e) + 1u32;
        u64::try_from(n).unwrap_or(cap).min(cap)
    }

    /// Plain notation without an exponent: `-12.5`.
    pub(super) fn to_plain(&self) -> String {
        let mut s = self.digits.to_string();
        if self.exp >= 0 {
            if !self.is_zero() {
                s.push_str(&"0".repeat(self.exp as usize));
            }
        } else {
            let frac = (-self.exp) as usize;
            if s.len() <= frac {
                s.insert_str(0, &"0".repeat(frac + 1 - s.len()));
            }
            s.insert(s.len() - frac, '.');
        }
        if self.neg {
            s.insert(0, '-');
        }
        s
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => {
                return if other.neg {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, true) => {
                return if self.neg {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            _ => {}
        }
        if self.neg != other.neg {
            return if self.neg {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        let up = self.magnitude().cmp(&other.magnitude()).then_with(|| {
            let e = self.exp.min(other.exp);
            self.scaled(e).cmp(&other.scaled(e))
        });
        if self.neg {
            up.reverse()
        } else {
            up
        }
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.exp.abs() > 30 {
            write!(
                f,
                "{}{}e{}",
                if self.neg { "-" } else { "" },
                self.digits,
                self.exp
            )
        } else {
            f.write_str(&self.to_plain())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(s: &str) -> Decimal {
        Decimal::parse(s, 1000).expect(s)
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        assert_eq!(d("1"), d("1.0"));
        assert_eq!(d("1e2"), d("100"));
        assert_eq!(d("-0.0"), d("0"));
        assert!(Decimal::parse("01", 10).is_none());
        assert!(Decimal::parse("1.", 10).is_none());
    }

    #[test]
    fn order_and_multiples() {
        assert!(d("-2") < d("-1.5") && d("0.1") < d("0.11") && d("99") < d("1e2"));
        assert!(d("0.0075").is_multiple_of(&d("0.0001")));
        assert!(!d("0.00751").is_multiple_of(&d("0.0001")));
        assert_eq!(d("7.3").ceil_to(&d("0.5")), d("7.5"));
        assert_eq!(d("-7.3").ceil_to(&d("0.5")), d("-7"));
        assert_eq!(d("-7.3").floor_to(&d("0.5")), d("-7.5"));
        assert_eq!(Decimal::lcm(&d("0.4"), &d("6")), d("6"));
        assert_eq!(Decimal::count_between(&d("-3"), &d("3"), &d("1"), 100), 7);
        assert_eq!(d("0.05").to_plain(), "0.05");
        assert_eq!(d("1200").to_plain(), "1200");
    }
}
