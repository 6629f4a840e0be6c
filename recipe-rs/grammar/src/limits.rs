//! Bounds on what a grammar may cost, and the token that stops a long compile.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use cpu_time::ThreadTime;

use crate::error::{GrammarError, LimitKind, Result};

/// Bounds of one grammar. The defaults keep a hostile source within 2 s and 512 MB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of source text.
    pub source_bytes: u64,
    /// Nesting of the source text.
    pub source_depth: u64,
    /// Nodes of regular expressions, derivatives included.
    pub regex_nodes: u64,
    /// Rules, expressions and automaton states of the compiled grammar.
    pub rules: u64,
    /// Stack nodes, machine states and configurations of one engine before it is rebuilt.
    pub states: u64,
    /// Threads alive at the same time.
    pub threads: u64,
    /// Nesting of the matched text.
    pub stack_depth: u64,
    /// States searched to decide one emptiness question.
    pub emptiness_search: u64,
    /// Combinations of sub-schemas.
    pub products: u64,
    /// Bytes of one engine (configurations, tables, masks) before it is rebuilt.
    pub bytes: u64,
    /// Processor milliseconds of one compile.
    pub compile_ms: u64,
    /// Processor milliseconds of one mask, token or completion.
    pub mask_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            source_bytes: 8 << 20,
            source_depth: 1000,
            regex_nodes: 1_000_000,
            rules: 1_000_000,
            states: 2_000_000,
            threads: 1_000,
            stack_depth: 5_000,
            emptiness_search: 50_000,
            products: 100_000,
            bytes: 128 << 20,
            compile_ms: 1_800,
            mask_ms: 1_800,
        }
    }
}

macro_rules! by_name {
    ($($name:ident),*) => {
        impl Limits {
            /// Set a limit by its name; `false` when there is none of that name.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }

            /// All limits with their names.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}
by_name!(
    source_bytes,
    source_depth,
    regex_nodes,
    rules,
    states,
    threads,
    stack_depth,
    emptiness_search,
    products,
    bytes,
    compile_ms,
    mask_ms
);

/// Set from any thread to stop a compile.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Ask the compile to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Processor time of this thread so far. Times of two threads do not compare; work stays on one.
fn thread_time() -> Duration {
    ThreadTime::now().as_duration()
}

/// Limits, deadline and cancel token of one compile. Front ends call [`Budget::tick`] in their loops.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The bounds.
    pub limits: Limits,
    cancel: Option<CancelToken>,
    started: Duration,
    ticks: u32,
}

impl Budget {
    /// A budget whose clock starts now.
    pub fn new(limits: Limits, cancel: Option<CancelToken>) -> Self {
        Budget {
            limits,
            cancel,
            started: thread_time(),
            ticks: 0,
        }
    }

    /// Count a unit of work; every 256th call looks at the clock and at the cancel token.
    ///
    /// # Errors
    /// `Cancelled`, or `Limit` of `compile_ms`.
    pub fn tick(&mut self, what: &str) -> Result<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks & 255 == 0 {
            self.check_time(what)?;
        }
        Ok(())
    }

    /// Look at the clock and at the cancel token.
    ///
    /// # Errors
    /// As [`Budget::tick`].
    pub fn check_time(&self, what: &str) -> Result<()> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(GrammarError::Cancelled);
        }
        let spent = thread_time().saturating_sub(self.started);
        if spent > Duration::from_millis(self.limits.compile_ms) {
            return Err(GrammarError::limit(
                LimitKind::CompileMillis,
                what,
                self.limits.compile_ms,
                spent.as_millis() as u64,
            ));
        }
        Ok(())
    }
}

/// `limit_ms` of a thread that does no bounded work.
const UNBOUNDED: u64 = u64::MAX;

/// What this thread's bounded work has spent.
struct Clock {
    limit_ms: Cell<u64>,
    ticks: Cell<u32>,
    /// Taken at the 64th tick: most masks never tick so often, and reading this clock is a system call.
    started: Cell<Option<Duration>>,
}

thread_local! {
    static CLOCK: Clock = const {
        Clock { limit_ms: Cell::new(UNBOUNDED), ticks: Cell::new(0), started: Cell::new(None) }
    };
}

/// Run `work` (one mask, token or completion) with a bound on the processor time of this thread; loops
/// inside it call [`mask_tick`]. Within another `bounded` the outer bound counts.
pub(crate) fn bounded<T>(limit_ms: u64, work: impl FnOnce() -> T) -> T {
    struct Unbound;
    impl Drop for Unbound {
        fn drop(&mut self) {
            CLOCK.with(|clock| clock.limit_ms.set(UNBOUNDED));
        }
    }
    let is_outer = CLOCK.with(|clock| {
        let is_outer = clock.limit_ms.get() == UNBOUNDED;
        if is_outer {
            clock.limit_ms.set(limit_ms.min(UNBOUNDED - 1));
            clock.ticks.set(0);
            clock.started.set(None);
        }
        is_outer
    });
    let _unbound = is_outer.then_some(Unbound);
    work()
}

/// Count a unit of work; every 64th call looks at the clock of [`bounded`], if there is one.
///
/// # Errors
/// `Limit` of `mask_ms`, with `what` grew.
#[inline]
pub(crate) fn mask_tick(what: &str) -> Result<()> {
    CLOCK.with(|clock| {
        let ticks = clock.ticks.get().wrapping_add(1);
        clock.ticks.set(ticks);
        if ticks & 63 != 0 {
            return Ok(());
        }
        clock.check(what)
    })
}

impl Clock {
    #[cold]
    fn check(&self, what: &str) -> Result<()> {
        let limit_ms = self.limit_ms.get();
        if limit_ms == UNBOUNDED {
            return Ok(());
        }
        let now = thread_time();
        let started = self.started.get().unwrap_or(now);
        self.started.set(Some(started));
        let spent = now.saturating_sub(started);
        if spent > Duration::from_millis(limit_ms) {
            return Err(GrammarError::limit(
                LimitKind::MaskMillis,
                what,
                limit_ms,
                spent.as_millis() as u64,
            ));
        }
        Ok(())
    }
}
