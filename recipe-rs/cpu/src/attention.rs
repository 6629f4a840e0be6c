//! Causal attention over a paged KV cache.
//!
//! Keys lie transposed inside a block ([head_dim, block_size]), so sixteen scores come from one multiply-add per
//! dimension without a horizontal sum; values lie the other way round for the same reason. Query rows of one key/value
//! head are taken up to eight at a time so that a loaded key serves them all. Every row is summed in the order of the
//! token positions, whatever rows share its tile.

use crate::simd::{dispatch, exp, fma, sum_lanes, Bf16, LANES};
use crate::threads::{for_each, SharedOut};

/// A number type that a KV cache can hold.
pub trait CacheElement: Copy + Send + Sync {
    fn to_f32(self) -> f32;
    fn from_f32(x: f32) -> Self;
}

impl CacheElement for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
}

impl CacheElement for Bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        Bf16::to_f32(self)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Bf16::from_f32(x)
    }
}

/// Sizes of the tensors of `paged_attention`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    pub num_heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub block_size: usize,
    pub max_blocks: usize,
}

/// Query rows that share loaded keys.
const MAX_ROWS: usize = 8;
/// Query tokens of one piece of work.
const TOKENS_PER_TASK: usize = 32;

struct Task {
    sequence: usize,
    kv_head: usize,
    first: usize,
    count: usize,
}

/// Attention of the last tokens of each sequence over its cached tokens.
///
/// q, out: [n, num_heads, head_dim]; keys: [blocks, kv_heads, head_dim, block_size]; values: [blocks, kv_heads,
/// block_size, head_dim]; tables: [sequences, max_blocks]; starts: [sequences + 1]; lengths: [sequences].
/// Rows from `starts[sequences]` on are set to zero. Cache entries past a sequence's length are never used.
///
/// Panics if the lengths do not agree, head_dim or block_size is no multiple of 16, or a table entry that is needed lies
/// outside the cache.
pub fn paged_attention<T: CacheElement>(
    q: &[f32],
    keys: &[T],
    values: &[T],
    tables: &[i32],
    starts: &[i32],
    lengths: &[i32],
    out: &mut [f32],
    shape: AttentionShape,
    threads: usize,
) {
    let AttentionShape {
        num_heads,
        kv_heads,
        head_dim,
        block_size,
        max_blocks,
    } = shape;
    assert_eq!(q.len(), out.len());
    assert_eq!(keys.len(), values.len());
    assert_eq!(starts.len(), lengths.len() + 1);
    assert_eq!(tables.len(), lengths.len() * max_blocks);
    assert!(head_dim % LANES == 0 && block_size % LANES == 0 && num_heads % kv_heads == 0);
    let used = starts[lengths.len()] as usize * num_heads * head_dim;
    out[used..].fill(0.0);
    let block_len = kv_heads * head_dim * block_size;
    let mut tasks = Vec::new();
    let mut work = 0usize;
    for (sequence, &length) in lengths.iter().enumerate() {
        let (start, stop) = (starts[sequence] as usize, starts[sequence + 1] as usize);
        let needed = (length as usize).div_ceil(block_size);
        for &block in &tables[sequence * max_blocks..][..needed] {
            assert!(
                (block as usize + 1) * block_len <= keys.len(),
                "block {block} is outside the cache"
            );
        }
        work += (stop - start) * length as usize * num_heads * head_dim;
        for first in (start..stop).step_by(TOKENS_PER_TASK) {
            let count = TOKENS_PER_TASK.min(stop - first);
            tasks.extend((0..kv_heads).map(|kv_head| Task {
                sequence,
                kv_head,
                first,
                count,
            }));
        }
    }
    // A thread costs about 20 us to start.
    let threads = threads.min(1 + work / 2_000_000);
    let shared = SharedOut::new(out);
    for_each(tasks.len(), threads, |i| {
        let task = &tasks[i];
        let stop = starts[task.sequence + 1] as usize;
        let visible = lengths[task.sequence] as usize - (stop - task.first) + 1;
        let table = &tables[task.sequence * max_blocks..][..max_blocks];
        run_task(q, keys, values, table, &shared, task, visible, shape);
    });
}

dispatch! {
    fn run_task<T: CacheElement>(
        q: &[f32], keys: &[T], values: &[T], table: &[i32], out: &SharedOut<f32>, task: &Task, visible: usize,
        shape: AttentionShape,
    ) = task_body
}

#[inline(always)]
fn task_body<const FMA: bool, T: CacheElement>(
    q: &[f32],
    keys: &[T],
    values: &[T],
    table: &[i32],
    out: &SharedOut<f32>,
    task: &Task,
    visible: usize,
    shape: AttentionShape,
) {
    let group = shape.num_heads / shape.kv_heads;
    let rows = task.count * group;
    let mut scores = Vec::new();
    let mut first = 0;
    // Row r is head r % group of token r / group; token t sees `visible + t` cached tokens.
    while first < rows {
        let count = MAX_ROWS.min(rows - first);
        macro_rules! tile {
            ($n:literal) => {
                tile_body::<FMA, T, $n>(
                    q,
                    keys,
                    values,
                    table,
                    out,
                    task,
                    visible,
                    shape,
                    group,
                    first,
                    &mut scores,
                )
            };
        }
        match count {
            1 => tile!(1),
            2 => tile!(2),
            3 => tile!(3),
            4 => tile!(4),
            5 => tile!(5),
            6 => tile!(6),
            7 => tile!(7),
            _ => tile!(8),
        }
        first += count;
    }
}

#[inline(always)]
fn tile_body<const FMA: bool, T: CacheElement, const R: usize>(
    q: &[f32],
    keys: &[T],
    values: &[T],
    table: &[i32],
    out: &SharedOut<f32>,
    task: &Task,
    visible: usize,
    shape: AttentionShape,
    group: usize,
    first: usize,
    scores: &mut Vec<f32>,
) {
    let AttentionShape {
        num_heads,
        kv_heads,
        head_dim,
        block_size,
        ..
    } = shape;
    let scale = 1.0 / (head_dim as f32).sqrt();
    let place = |r: usize| {
        let row = first + r;
        ((task.first + row / group) * num_heads + task.kv_head * group + row % group) * head_dim
    };
    let limit = |r: usize| visible + (first + r) / group;
    let longest = limit(R - 1);
    let stride = longest.next_multiple_of(LANES);
    scores.clear();
    scores.resize(R * stride, 0.0);
    let queries: [&[f32]; R] = std::array::from_fn(|r| &q[place(r)..place(r) + head_dim]);
    // scores[r][t] = q_r . k_t
    for t in (0..longest).step_by(LANES) {
        let base =
            (table[t / block_size] as usize * kv_heads + task.kv_head) * head_dim * block_size
                + t % block_size;
        let mut sums = [[0.0f32; LANES]; R];
        for d in 0..head_dim {
            let source = &keys[base + d * block_size..][..LANES];
            let mut key = [0.0f32; LANES];
            for i in 0..LANES {
                key[i] = source[i].to_f32();
            }
            for r in 0..R {
                let x = queries[r][d];
                for i in 0..LANES {
                    sums[r][i] = fma::<FMA>(x, key[i], sums[r][i]);
                }
            }
        }
        for r in 0..R {
            scores[r * stride + t..][..LANES].copy_from_slice(&sums[r]);
        }
    }
    // Softmax over the visible tokens; the rest becomes weight 0.
    let mut inverse = [0.0f32; R];
    for r in 0..R {
        let (row, visible) = (&mut scores[r * stride..(r + 1) * stride], limit(r));
        row[visible..].fill(f32::NEG_INFINITY);
        let mut tops = [f32::NEG_INFINITY; LANES];
        for chunk in row.chunks_exact(LANES) {
            for i in 0..LANES {
                tops[i] = if chunk[i] > tops[i] {
                    chunk[i]
                } else {
                    tops[i]
                };
            }
        }
        let top = tops
            .iter()
            .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let mut sums = [0.0f32; LANES];
        for chunk in row.chunks_exact_mut(LANES) {
            for i in 0..LANES {
                chunk[i] = exp::<FMA>((chunk[i] - top) * scale);
                sums[i] += chunk[i];
            }
        }
        // A NaN score must not vanish: it reaches the sum and then the row's output only.
        inverse[r] = 1.0 / sum_lanes(&sums);
    }
    // out_r = sum_t weight[r][t] * v_t, sixteen output dimensions at a time for four rows
    for d in (0..head_dim).step_by(2 * LANES) {
        let parts = if head_dim - d >= 2 * LANES { 2 } else { 1 };
        let mut sums = [[[0.0f32; LANES]; 2]; R];
        for from in (0..longest).step_by(block_size) {
            let until = longest.min(from + block_size);
            let base = (table[from / block_size] as usize * kv_heads + task.kv_head)
                * head_dim
                * block_size;
            for t in from..until {
                let source = &values[base + (t - from) * head_dim + d..][..parts * LANES];
                for (p, part) in source.chunks_exact(LANES).enumerate() {
                    let mut value = [0.0f32; LANES];
                    for i in 0..LANES {
                        value[i] = part[i].to_f32();
                    }
                    for r in 0..R {
                        let w = scores[r * stride + t];
                        for i in 0..LANES {
                            sums[r][p][i] = fma::<FMA>(w, value[i], sums[r][p][i]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            // SAFETY: rows of different tiles, heads and tasks are different; see `place`.
            let target = unsafe { out.slice(place(r) + d, parts * LANES) };
            for (p, part) in target.chunks_exact_mut(LANES).enumerate() {
                for i in 0..LANES {
                    part[i] = sums[r][p][i] * inverse[r];
                }
            }
        }
    }
}
