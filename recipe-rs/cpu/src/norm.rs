//! RMSNorm (Zhang and Sennrich, 2019), with the residual addition in front of it.

use crate::simd::{dispatch, fma, sum_lanes, LANES};

dispatch! {
    /// `residual += delta` (if given), then `out = residual / rms(residual) * weight`, row by row.
    ///
    /// residual, delta, out: [rows, width]; weight: [width]. Panics if the lengths do not agree.
    pub fn add_rms_norm(residual: &mut [f32], delta: Option<&[f32]>, weight: &[f32], eps: f32, out: &mut [f32]) = add_body
}

dispatch! {
    /// RMSNorm of each row of `x` [rows, width] in place.
    pub fn rms_norm_rows(x: &mut [f32], weight: &[f32], eps: f32) = rows_body
}

#[inline(always)]
fn add_body<const FMA: bool>(
    residual: &mut [f32],
    delta: Option<&[f32]>,
    weight: &[f32],
    eps: f32,
    out: &mut [f32],
) {
    let width = weight.len();
    assert_eq!(residual.len(), out.len());
    assert_eq!(residual.len() % width, 0);
    if let Some(delta) = delta {
        assert_eq!(delta.len(), residual.len());
        for (r, d) in residual.iter_mut().zip(delta) {
            *r += *d;
        }
    }
    for (row, target) in residual
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(width))
    {
        let scale = inverse_rms::<FMA>(row, eps);
        for ((t, x), w) in target.iter_mut().zip(row).zip(weight) {
            *t = (*x * scale) * *w;
        }
    }
}

#[inline(always)]
fn rows_body<const FMA: bool>(x: &mut [f32], weight: &[f32], eps: f32) {
    for row in x.chunks_exact_mut(weight.len()) {
        let scale = inverse_rms::<FMA>(row, eps);
        for (x, w) in row.iter_mut().zip(weight) {
            *x = (*x * scale) * *w;
        }
    }
}

#[inline(always)]
fn inverse_rms<const FMA: bool>(row: &[f32], eps: f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let whole = row.chunks_exact(LANES);
    let rest = whole.remainder();
    for chunk in whole {
        for i in 0..LANES {
            sums[i] = fma::<FMA>(chunk[i], chunk[i], sums[i]);
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum = fma::<FMA>(*x, *x, *sum);
    }
    1.0 / (sum_lanes(&sums) / row.len() as f32 + eps).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_formula_and_adds_the_residual() {
        let width = 37;
        let x: Vec<f32> = (0..2 * width).map(|i| (i as f32 * 0.7).sin()).collect();
        let delta: Vec<f32> = (0..2 * width).map(|i| (i as f32 * 0.3).cos()).collect();
        let weight: Vec<f32> = (0..width).map(|i| 1.0 + i as f32 * 0.01).collect();
        let mut residual = x.clone();
        let mut out = vec![0.0; x.len()];
        add_rms_norm(&mut residual, Some(&delta), &weight, 1e-5, &mut out);
        for row in 0..2 {
            let sum: Vec<f64> = (0..width)
                .map(|i| f64::from(x[row * width + i]) + f64::from(delta[row * width + i]))
                .collect();
            let rms = (sum.iter().map(|v| v * v).sum::<f64>() / width as f64 + 1e-5).sqrt();
            for i in 0..width {
                let want = sum[i] / rms * f64::from(weight[i]);
                assert!((f64::from(out[row * width + i]) - want).abs() < 1e-5);
            }
        }
    }
}
