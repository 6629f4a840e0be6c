//! 8-bit matrix products around an integer GEMM: quantise activations per row, scale the integer result back.
//!
//! Integer sums are exact in any order, so these products are the same bits in any batch.

use crate::simd::dispatch;

dispatch! {
    /// out[r][i] = round(x[r][i] / scales[r]) with scales[r] = max |x[r]| / 127 (0 for a row of zeros).
    ///
    /// x, out: [rows, width]; scales: [rows]. A row with NaN or infinity gets the scale NaN and zeros.
    pub fn quantize_rows(x: &[f32], out: &mut [i8], scales: &mut [f32]) = quantize_body
}

dispatch! {
    /// out[r][c] = sums[r][c] * row_scales[r] * column_scales[c] + bias[c].
    pub fn dequantize_product(
        sums: &[i32], row_scales: &[f32], column_scales: &[f32], bias: Option<&[f32]>, out: &mut [f32],
    ) = dequantize_body
}

#[inline(always)]
fn quantize_body<const FMA: bool>(x: &[f32], out: &mut [i8], scales: &mut [f32]) {
    const ROUND: f32 = 12_582_912.0;
    assert_eq!(x.len(), out.len());
    if scales.is_empty() {
        return;
    }
    let width = x.len() / scales.len();
    for ((row, target), scale) in x
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(width))
        .zip(scales)
    {
        // Exponent bits all set marks NaN and infinity; as integers, magnitudes of floats are in order.
        let top = row
            .iter()
            .fold(0u32, |a, v| a.max(v.to_bits() & 0x7FFF_FFFF));
        if top >= 0x7F80_0000 {
            *scale = f32::NAN;
            target.fill(0);
            continue;
        }
        let top = f32::from_bits(top);
        *scale = top / 127.0;
        let inverse = if top > 0.0 { 127.0 / top } else { 0.0 };
        for (t, v) in target.iter_mut().zip(row) {
            *t = ((*v * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32) as i8;
        }
    }
}

#[inline(always)]
fn dequantize_body<const FMA: bool>(
    sums: &[i32],
    row_scales: &[f32],
    column_scales: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let width = column_scales.len();
    assert_eq!(sums.len(), out.len());
    assert_eq!(sums.len(), row_scales.len() * width);
    for ((source, target), scale) in sums
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(width))
        .zip(row_scales)
    {
        for ((t, s), c) in target.iter_mut().zip(source).zip(column_scales) {
            *t = *s as f32 * *scale * *c;
        }
        if let Some(bias) = bias {
            for (t, b) in target.iter_mut().zip(bias) {
                *t += *b;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_rows_scale_back() {
        let x: Vec<f32> = (0..64).map(|i| ((i * 29) % 64) as f32 - 31.0).collect();
        let (mut q, mut scales) = (vec![0i8; 64], vec![0.0; 2]);
        quantize_rows(&x, &mut q, &mut scales);
        for (i, (&v, &n)) in x.iter().zip(&q).enumerate() {
            assert!((f32::from(n) * scales[i / 32] - v).abs() <= scales[i / 32] * 0.5001);
        }
        assert_eq!(q.iter().map(|v| v.unsigned_abs()).max(), Some(127));
    }

    #[test]
    fn zeros_and_nan_rows() {
        let (mut q, mut scales) = (vec![1i8; 8], vec![1.0; 2]);
        quantize_rows(
            &[0.0, 0.0, 0.0, 0.0, 1.0, f32::NAN, 2.0, 0.0],
            &mut q,
            &mut scales,
        );
        assert_eq!((scales[0], &q[..4]), (0.0, &[0i8; 4][..]));
        assert!(scales[1].is_nan());
    }
}
