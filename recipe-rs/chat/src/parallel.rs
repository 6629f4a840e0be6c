//! Work over many items on all cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Apply `work` to each item on up to `num_threads` threads (`None`: as many as there are cores); results
/// in the order of the items. Threads take the next item as they become free.
///
/// # Panics
/// When `work` panics, with its panic, after the other items are done.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    num_threads: Option<NonZeroUsize>,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let num_threads = num_threads.unwrap_or_else(cores).get().min(items.len());
    if num_threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            done.push((at, work(item)));
        }
    };
    let mut all: Vec<(usize, R)> = Vec::with_capacity(items.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..num_threads).map(|_| scope.spawn(run)).collect();
        all.extend(run());
        for thread in threads {
            match thread.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_for_any_number_of_threads() {
        let items: Vec<u64> = (0..997).collect();
        let expected: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [1, 2, 3, 16, 2000] {
            assert_eq!(map(&items, NonZeroUsize::new(threads), |n| n * n), expected);
        }
        assert_eq!(map(&items, None, |n| n * n), expected);
        assert!(map(&[0u8; 0], None, |n| *n).is_empty());
    }

    #[test]
    fn panic_of_one_item_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            map(&[1, 2, 3, 4], NonZeroUsize::new(2), |n| assert_ne!(*n, 3));
        });
        assert!(caught.is_err());
    }
}
