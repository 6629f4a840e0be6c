//! Masks of many matchers in one call, rows spread over threads.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::matcher::Matcher;

/// Worker threads by their number; made once, kept.
fn pool(threads: usize) -> Option<Arc<rayon::ThreadPool>> {
    static POOLS: OnceLock<Mutex<FxHashMap<usize, Arc<rayon::ThreadPool>>>> = OnceLock::new();
    let mut pools = POOLS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = pools.get(&threads) {
        return Some(Arc::clone(known));
    }
    let made = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("offseek-masks-{i}"))
        .build();
    let made = Arc::new(made.ok()?);
    pools.insert(threads, Arc::clone(&made));
    Some(made)
}

/// Fill one row per matcher; results in the order of the rows. With more than one thread, rows are
/// taken one by one, so a slow mask keeps only its own thread busy.
pub fn fill_rows(
    rows: Vec<(MutexGuard<'_, Matcher>, &mut [u32])>,
    threads: usize,
) -> Vec<Result<()>> {
    let threads = threads.clamp(1, 64);
    let workers = if threads > 1 && rows.len() > 1 {
        pool(threads)
    } else {
        None
    };
    // A guard stays on its thread; the matcher behind it may be lent to others meanwhile.
    let mut rows = rows;
    let mut work: Vec<(&mut Matcher, &mut [u32])> = rows
        .iter_mut()
        .map(|(m, row)| (&mut **m, &mut **row))
        .collect();
    match workers {
        None => work.iter_mut().map(|(m, row)| m.fill(row)).collect(),
        Some(pool) => pool.install(|| {
            work.par_iter_mut()
                .with_max_len(4)
                .map(|(m, row)| m.fill(row))
                .collect()
        }),
    }
}
