//! The greedy part of sampling and the checks around it: best allowed logit of a row, in one pass over logits and mask.

use crate::simd::{dispatch, exp, sum_lanes, LANES};

/// What one pass over a row finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowBest {
    /// Lowest id with the greatest allowed logit; -1 if nothing finite is allowed or an allowed logit is NaN or +inf.
    pub token_id: i64,
    /// 0 = fine, 1 = NaN or +inf, 2 = nothing allowed.
    pub status: i32,
    /// Greatest allowed logit minus the log of the sum of exponentials of all allowed logits.
    pub logprob: f32,
}

dispatch! {
    /// Find the best allowed logit of a row.
    ///
    /// logits: [vocab]; mask: words of 32 bits, bit 1 = allowed, or None = all allowed. Panics if the mask is too short.
    pub fn best_allowed(logits: &[f32], mask: Option<&[u32]>) -> RowBest = body
}

#[inline(always)]
fn body<const FMA: bool>(logits: &[f32], mask: Option<&[u32]>) -> RowBest {
    if let Some(mask) = mask {
        assert!(mask.len() * 32 >= logits.len());
    }
    let bits = |word: usize| mask.map_or(u32::MAX, |m| m[word]);
    // Greatest allowed value; NaN is caught separately because it loses every comparison.
    let mut tops = [f32::NEG_INFINITY; LANES];
    let mut odd = 0u32;
    for (word, chunk) in logits.chunks(32).enumerate() {
        let allowed = bits(word);
        if allowed == 0 {
            continue;
        }
        if allowed == u32::MAX && chunk.len() == 32 {
            for half in chunk.chunks_exact(LANES) {
                for i in 0..LANES {
                    tops[i] = if half[i] > tops[i] { half[i] } else { tops[i] };
                    odd |= u32::from(half[i].is_nan());
                }
            }
        } else {
            for (i, &x) in chunk.iter().enumerate() {
                if allowed >> i & 1 == 1 {
                    odd |= u32::from(x.is_nan());
                    tops[0] = if x > tops[0] { x } else { tops[0] };
                }
            }
        }
    }
    let top = tops
        .iter()
        .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    if odd != 0 || top == f32::INFINITY {
        return RowBest {
            token_id: -1,
            status: 1,
            logprob: f32::NAN,
        };
    }
    if top == f32::NEG_INFINITY {
        return RowBest {
            token_id: -1,
            status: 2,
            logprob: f32::NAN,
        };
    }
    let mut token_id = -1i64;
    let mut sums = [0.0f32; LANES];
    for (word, chunk) in logits.chunks(32).enumerate() {
        let allowed = bits(word);
        if allowed == 0 {
            continue;
        }
        if allowed == u32::MAX && chunk.len() == 32 {
            let mut found = 0u32;
            for half in chunk.chunks_exact(LANES) {
                for i in 0..LANES {
                    found |= u32::from(half[i] == top);
                    sums[i] += exp::<FMA>(half[i] - top);
                }
            }
            if found != 0 && token_id < 0 {
                token_id = chunk
                    .iter()
                    .position(|&x| x == top)
                    .map_or(-1, |i| (word * 32 + i) as i64);
            }
        } else {
            for (i, &x) in chunk.iter().enumerate() {
                if allowed >> i & 1 == 1 {
                    sums[i % LANES] += exp::<FMA>(x - top);
                    if x == top && token_id < 0 {
                        token_id = (word * 32 + i) as i64;
                    }
                }
            }
        }
    }
    RowBest {
        token_id,
        status: 0,
        logprob: -sum_lanes(&sums).ln(),
    }
}

/// `best_allowed` for each row of a batch.
///
/// logits: [batch, stride], of which the first `vocab` columns count; masks: [num_masks, mask_words] or None;
/// mask_rows: [batch], -1 = all allowed; outputs: [batch]. Panics if the lengths do not agree or a mask row is missing.
pub fn best_allowed_rows(
    logits: &[f32],
    stride: usize,
    vocab: usize,
    masks: Option<&[i32]>,
    mask_words: usize,
    mask_rows: &[i32],
    token_ids: &mut [i64],
    status: &mut [i32],
    logprobs: &mut [f32],
) {
    assert!(vocab <= stride && logits.len() == mask_rows.len() * stride);
    for (row, &mask_row) in mask_rows.iter().enumerate() {
        let mask = match (masks, usize::try_from(mask_row)) {
            (Some(masks), Ok(at)) => {
                let words = &masks[at * mask_words..(at + 1) * mask_words];
                // SAFETY: i32 and u32 have the same size and alignment.
                Some(unsafe {
                    std::slice::from_raw_parts(words.as_ptr().cast::<u32>(), words.len())
                })
            }
            _ => None,
        };
        let best = best_allowed(&logits[row * stride..][..vocab], mask);
        (token_ids[row], status[row], logprobs[row]) = (best.token_id, best.status, best.logprob);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_lowest_of_equals_inside_the_mask() {
        let mut logits = vec![0.0f32; 100];
        logits[70] = 5.0;
        logits[40] = 5.0;
        logits[3] = 9.0;
        let mut mask = [u32::MAX; 4];
        mask[0] &= !(1 << 3);
        assert_eq!(best_allowed(&logits, Some(&mask)).token_id, 40);
        assert_eq!(best_allowed(&logits, None).token_id, 3);
        mask[1] &= !(1 << 8);
        assert_eq!(best_allowed(&logits, Some(&mask)).token_id, 70);
    }

    #[test]
    fn reports_nothing_allowed_and_not_finite() {
        let mut logits = vec![1.0f32; 40];
        assert_eq!(best_allowed(&logits, Some(&[0, 0])).status, 2);
        logits[7] = f32::NAN;
        assert_eq!(best_allowed(&logits, None).status, 1);
        assert_eq!(best_allowed(&logits, Some(&[1, 0])).status, 0);
        let one = best_allowed(&logits, Some(&[1, 0]));
        assert_eq!((one.token_id, one.logprob), (0, 0.0));
    }
}
