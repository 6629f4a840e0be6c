//! SwiGLU's gate: silu(a) * b (Shazeer, 2020).

use crate::simd::{dispatch, exp};

dispatch! {
    /// out[row] = silu(first half of gate_up[row]) * second half. gate_up: [rows, 2 * width]; out: [rows, width].
    pub fn silu_mul(gate_up: &[f32], out: &mut [f32], width: usize) = body
}

#[inline(always)]
fn body<const FMA: bool>(gate_up: &[f32], out: &mut [f32], width: usize) {
    assert_eq!(gate_up.len(), 2 * out.len());
    for (source, target) in gate_up
        .chunks_exact(2 * width)
        .zip(out.chunks_exact_mut(width))
    {
        let (gate, up) = source.split_at(width);
        for ((t, g), u) in target.iter_mut().zip(gate).zip(up) {
            *t = *g / (1.0 + exp::<FMA>(-*g)) * *u;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_formula() {
        let x: Vec<f32> = (0..40).map(|i| (i as f32 - 20.0) * 0.9).collect();
        let mut out = vec![0.0; 20];
        super::silu_mul(&x, &mut out, 10);
        for row in 0..2 {
            for i in 0..10 {
                let (g, u) = (f64::from(x[row * 20 + i]), f64::from(x[row * 20 + 10 + i]));
                let want = g / (1.0 + (-g).exp()) * u;
                assert!((f64::from(out[row * 10 + i]) - want).abs() <= want.abs() * 1e-6 + 1e-6);
            }
        }
    }
}
