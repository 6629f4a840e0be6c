//! Run independent pieces of work on a few threads; which thread does what never changes a result.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Call `work(i)` for every `i < count`, on up to `threads` threads including this one.
pub(crate) fn for_each<F: Fn(usize) + Sync>(count: usize, threads: usize, work: F) {
    let threads = threads.min(count);
    if threads <= 1 {
        (0..count).for_each(work);
        return;
    }
    let next = AtomicUsize::new(0);
    let pull = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        if i >= count {
            return;
        }
        work(i);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(pull);
        }
        pull();
    });
}

/// A pointer into an output that several threads write at disjoint places.
pub(crate) struct SharedOut<T>(*mut T);

// SAFETY: the users of `SharedOut` write disjoint ranges (see each call of `slice`).
unsafe impl<T> Sync for SharedOut<T> {}

impl<T> SharedOut<T> {
    pub(crate) fn new(out: &mut [T]) -> Self {
        Self(out.as_mut_ptr())
    }

    /// # Safety
    /// `start + len` must lie inside the slice given to `new`, and no two live ranges may overlap.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice(&self, start: usize, len: usize) -> &mut [T] {
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}
