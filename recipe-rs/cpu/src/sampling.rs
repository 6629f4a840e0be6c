//! The greedy part of sampling and the checks around it: best allowed logit of a row, in one pass over logits and mask.

use crate::simd::{dispatch, exp, sum_lanes, LANES};
use crate::threads::{for_each, SharedOut};

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
    /// logits: [vocab]; mask: words of 32 bits, bit 1 = allowed, or None = all allowed; want_logprob: otherwise the
    /// log-probability is NaN and costs nothing. Panics if the mask is too short.
    pub fn best_allowed(logits: &[f32], mask: Option<&[u32]>, want_logprob: bool) -> RowBest = body
}

/// Logits of one word of 32 ids, with -inf where the mask forbids.
#[inline(always)]
fn masked(chunk: &[f32], allowed: u32) -> [f32; 32] {
    let mut out = [f32::NEG_INFINITY; 32];
    if chunk.len() == 32 {
        for i in 0..32 {
            out[i] = if allowed >> i & 1 == 1 {
                chunk[i]
            } else {
                f32::NEG_INFINITY
            };
        }
    } else {
        for (i, x) in chunk.iter().enumerate() {
            out[i] = if allowed >> i & 1 == 1 {
                *x
            } else {
                f32::NEG_INFINITY
            };
        }
    }
    out
}

#[inline(always)]
fn body<const FMA: bool>(logits: &[f32], mask: Option<&[u32]>, want_logprob: bool) -> RowBest {
    if let Some(mask) = mask {
        assert!(mask.len() * 32 >= logits.len());
    }
    // Words without an allowed id are not even read.
    let words = || {
        let all = logits.chunks(32).enumerate();
        all.map(|(word, chunk)| (word, chunk, mask.map_or(u32::MAX, |m| m[word])))
            .filter(|(_, _, allowed)| *allowed != 0)
    };
    let failed = |status| RowBest {
        token_id: -1,
        status,
        logprob: f32::NAN,
    };
    // NaN loses every comparison, so it is looked for on its own.
    let mut tops = [f32::NEG_INFINITY; 32];
    let mut odd = [0u32; 32];
    for (_, chunk, allowed) in words() {
        let x = masked(chunk, allowed);
        for i in 0..32 {
            odd[i] |= u32::from(x[i].is_nan());
            tops[i] = if x[i] > tops[i] { x[i] } else { tops[i] };
        }
    }
    let top = tops
        .iter()
        .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    if odd.iter().any(|&o| o != 0) || top == f32::INFINITY {
        return failed(1);
    }
    if top == f32::NEG_INFINITY {
        return failed(2);
    }
    let place = |(word, chunk, allowed)| {
        let x = masked(chunk, allowed);
        let mut found = 0u32;
        for (i, x) in x.iter().enumerate() {
            found |= u32::from(*x == top) << i;
        }
        (found != 0).then(|| (word * 32 + found.trailing_zeros() as usize) as i64)
    };
    let token_id = words().find_map(place).unwrap_or(-1);
    if !want_logprob {
        return RowBest {
            token_id,
            status: 0,
            logprob: f32::NAN,
        };
    }
    let mut sums = [0.0f32; LANES];
    for (_, chunk, allowed) in words() {
        for half in masked(chunk, allowed).chunks_exact(LANES) {
            for i in 0..LANES {
                sums[i] += exp::<FMA>(half[i] - top);
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
    want_logprobs: bool,
    threads: usize,
) {
    assert!(vocab <= stride && logits.len() == mask_rows.len() * stride);
    assert!(
        token_ids.len() == mask_rows.len()
            && status.len() == mask_rows.len()
            && logprobs.len() == mask_rows.len()
    );
    let (ids, codes, scores) = (
        SharedOut::new(token_ids),
        SharedOut::new(status),
        SharedOut::new(logprobs),
    );
    let threads = threads.min(1 + logits.len() / 500_000);
    for_each(mask_rows.len(), threads, |row| {
        let mask = match (masks, usize::try_from(mask_rows[row])) {
            (Some(masks), Ok(at)) => {
                let words = &masks[at * mask_words..(at + 1) * mask_words];
                // SAFETY: i32 and u32 have the same size and alignment.
                Some(unsafe {
                    std::slice::from_raw_parts(words.as_ptr().cast::<u32>(), words.len())
                })
            }
            _ => None,
        };
        let best = best_allowed(&logits[row * stride..][..vocab], mask, want_logprobs);
        // SAFETY: each row is handled once, and the outputs have a place for each (asserted above).
        unsafe {
            (
                ids.slice(row, 1)[0],
                codes.slice(row, 1)[0],
                scores.slice(row, 1)[0],
            ) = (best.token_id, best.status, best.logprob);
        }
    });
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
        assert_eq!(best_allowed(&logits, Some(&mask), false).token_id, 40);
        assert_eq!(best_allowed(&logits, None, true).token_id, 3);
        mask[1] &= !(1 << 8);
        assert_eq!(best_allowed(&logits, Some(&mask), false).token_id, 70);
    }

    #[test]
    fn reports_nothing_allowed_and_not_finite() {
        let mut logits = vec![1.0f32; 40];
        assert_eq!(best_allowed(&logits, Some(&[0, 0]), true).status, 2);
        logits[7] = f32::NAN;
        assert_eq!(best_allowed(&logits, None, true).status, 1);
        assert_eq!(best_allowed(&logits, Some(&[1, 0]), true).status, 0);
        let one = best_allowed(&logits, Some(&[1, 0]), true);
        assert_eq!((one.token_id, one.logprob), (0, 0.0));
    }
}
