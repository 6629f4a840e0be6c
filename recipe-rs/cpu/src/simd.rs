//! Lanes, fused multiply-add, exponential, and run-time choice of the instruction set.

/// Floats handled together: one 512-bit register, two of 256 bits.
pub(crate) const LANES: usize = 16;

pub(crate) type Lanes = [f32; LANES];

/// bfloat16 bits: the upper half of a float32.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// Round to nearest, ties to even; NaN stays NaN.
    #[inline(always)]
    pub fn from_f32(x: f32) -> Self {
        let bits = x.to_bits();
        if x.is_nan() {
            return Self(((bits >> 16) as u16) | 0x40);
        }
        Self(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16)
    }

    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// a * b + c, in one rounding where the instruction exists (`mul_add` without it would be a slow library call).
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

/// Sum of the lanes by halving: a fixed tree.
#[inline(always)]
pub(crate) fn sum_lanes(x: &Lanes) -> f32 {
    let mut y = *x;
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            y[i] += y[i + half];
        }
        half /= 2;
    }
    y[0]
}

/// e^x to about 1 ulp of float32 for x <= 88; 0 below -87.
///
/// Range reduction x = n ln 2 + r and a polynomial in r (the classic scheme, coefficients of Cephes' `expf`).
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    let y = if x < -87.3 { -87.3 } else { x };
    let y = if y > 88.3 { 88.3 } else { y };
    let n = fma::<FMA>(y, std::f32::consts::LOG2_E, ROUND) - ROUND;
    let r = fma::<FMA>(n, -0.693_359_4, y);
    let r = fma::<FMA>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    for c in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = fma::<FMA>(p, r, c);
    }
    let p = fma::<FMA>(p, r * r, r + 1.0);
    let scale = f32::from_bits((((n as i32) + 127) << 23) as u32);
    if x < -87.3 {
        0.0
    } else {
        p * scale
    }
}

/// Defines `pub(crate) fn name(args)` that runs `body::<FMA>(args)` compiled for the best instruction set present.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($gen:ident : $bound:path),*>)? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        $vis fn $name $(<$($gen: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
                unsafe fn wide $(<$($gen: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                    $body::<true, $($($gen),*)?>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                unsafe fn narrow $(<$($gen: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                    $body::<true, $($($gen),*)?>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the features were just found.
                    return unsafe { wide($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the features were just found.
                    return unsafe { narrow($($arg),*) };
                }
            }
            #[cfg(target_arch = "aarch64")]
            return $body::<true, $($($gen),*)?>($($arg),*);
            #[cfg(not(target_arch = "aarch64"))]
            $body::<false, $($($gen),*)?>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_and_vanishes_far_down() {
        for i in -8700..880 {
            let x = i as f32 * 0.01 + 0.003;
            let want = (x as f64).exp();
            let got = exp::<true>(x) as f64;
            assert!((got - want).abs() <= want * 3e-7, "{x}: {got} {want}");
        }
        assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp::<true>(0.0), 1.0);
    }

    #[test]
    fn bf16_rounds_to_even() {
        assert_eq!(Bf16::from_f32(1.0).to_f32(), 1.0);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3F80_8000)).0, 0x3F80);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3F81_8000)).0, 0x3F82);
        assert!(Bf16::from_f32(f32::NAN).to_f32().is_nan());
    }
}
