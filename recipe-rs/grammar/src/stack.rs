//! Room for recursion: sources nest up to `Limits::source_depth` levels, and a caller's thread may be small.

/// Free stack below which `roomy` takes a new one; the deepest sources need less.
const NEEDED: usize = 4 << 20;

/// Run `work`, on a stack of 16 MiB where the thread's own has less than 4 MiB left.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(NEEDED, 4 * NEEDED, work)
}
