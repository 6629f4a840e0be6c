//! Rotary position embedding in half-rotation layout, and writing keys and values to their cache slots.

use crate::attention::CacheElement;
use crate::norm::rms_norm_rows;
use crate::simd::{dispatch, fma};

/// Sizes of the tensors of `rotate_and_store`.
#[derive(Clone, Copy, Debug)]
pub struct RotaryShape {
    pub num_heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub block_size: usize,
}

dispatch! {
    /// Normalise (if weights are given) and rotate q and k; write q to `q_out`, k and v to their slots.
    ///
    /// qkv: [n, (num_heads + 2 kv_heads) * head_dim], changed in place; cos_sin: [n, head_dim], cosines then sines;
    /// keys: [blocks, kv_heads, head_dim, block_size]; values: [blocks, kv_heads, block_size, head_dim];
    /// slots: [n], negative = padding; q_out: [n, num_heads * head_dim].
    ///
    /// Panics if the lengths do not agree or a slot lies outside the cache.
    pub fn rotate_and_store<T: CacheElement>(
        qkv: &mut [f32], cos_sin: &[f32], keys: &mut [T], values: &mut [T], slots: &[i64], q_out: &mut [f32],
        q_norm: Option<&[f32]>, k_norm: Option<&[f32]>, eps: f32, shape: RotaryShape,
    ) = body
}

#[inline(always)]
fn body<const FMA: bool, T: CacheElement>(
    qkv: &mut [f32],
    cos_sin: &[f32],
    keys: &mut [T],
    values: &mut [T],
    slots: &[i64],
    q_out: &mut [f32],
    q_norm: Option<&[f32]>,
    k_norm: Option<&[f32]>,
    eps: f32,
    shape: RotaryShape,
) {
    let RotaryShape {
        num_heads,
        kv_heads,
        head_dim,
        block_size,
    } = shape;
    let (q_width, kv_width) = (num_heads * head_dim, kv_heads * head_dim);
    let row = q_width + 2 * kv_width;
    assert_eq!(qkv.len(), slots.len() * row);
    assert_eq!(cos_sin.len(), slots.len() * head_dim);
    assert_eq!(q_out.len(), slots.len() * q_width);
    assert_eq!(keys.len(), values.len());
    for (index, &slot) in slots.iter().enumerate() {
        let source = &mut qkv[index * row..(index + 1) * row];
        let (q, rest) = source.split_at_mut(q_width);
        let (k, v) = rest.split_at_mut(kv_width);
        if let Some(weight) = q_norm {
            rms_norm_rows(q, weight, eps);
        }
        if let Some(weight) = k_norm {
            rms_norm_rows(k, weight, eps);
        }
        let (cos, sin) = cos_sin[index * head_dim..(index + 1) * head_dim].split_at(head_dim / 2);
        let target = &mut q_out[index * q_width..(index + 1) * q_width];
        for (head, out) in q
            .chunks_exact(head_dim)
            .zip(target.chunks_exact_mut(head_dim))
        {
            rotate::<FMA>(head, cos, sin, out);
        }
        let Ok(slot) = usize::try_from(slot) else {
            continue;
        };
        let (block, offset) = (slot / block_size, slot % block_size);
        let mut rotated = [0.0f32; 1024];
        for head in 0..kv_heads {
            let out = &mut rotated[..head_dim];
            rotate::<FMA>(&k[head * head_dim..(head + 1) * head_dim], cos, sin, out);
            let base = (block * kv_heads + head) * head_dim * block_size;
            for (d, x) in out.iter().enumerate() {
                keys[base + d * block_size + offset] = T::from_f32(*x);
            }
            let place = &mut values[base + offset * head_dim..base + (offset + 1) * head_dim];
            for (t, x) in place
                .iter_mut()
                .zip(&v[head * head_dim..(head + 1) * head_dim])
            {
                *t = T::from_f32(*x);
            }
        }
    }
}

#[inline(always)]
fn rotate<const FMA: bool>(x: &[f32], cos: &[f32], sin: &[f32], out: &mut [f32]) {
    let half = cos.len();
    let (low, high) = x.split_at(half);
    let (out_low, out_high) = out.split_at_mut(half);
    for i in 0..half {
        out_low[i] = fma::<FMA>(low[i], cos[i], -(high[i] * sin[i]));
        out_high[i] = fma::<FMA>(high[i], cos[i], low[i] * sin[i]);
    }
}
