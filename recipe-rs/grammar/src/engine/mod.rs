//! Running a grammar: frames, stacks, configurations, masks.
//!
//! * `network` turns rules into networks of calls (left recursion and dead rules removed).
//! * `core` holds the engine: hash-consed stacks and configurations and the cached step by one byte.
//! * `counter` is the machine behind counted repetitions of rules.
//! * `intern` is the table under all hash-consing.

mod canonical;
mod core;
mod counter;
mod finish;
mod intern;
mod network;

use std::sync::Arc;

use crate::bytes::ByteClasses;
use crate::error::Result;
use crate::limits::Limits;
use crate::machine::Machine;
use crate::regex::Arena;

pub(crate) use self::core::BOTTOM;
pub use self::core::{ConfigId, Cx, Engine, DEAD};
pub(crate) use network::{compile_rules, Network};

/// A frame: a state of a rule network, of a regular expression or of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Frame {
    /// [`Frame::NETWORK`], [`Frame::REGEX`], or 2 + the machine's id.
    pub kind: u32,
    /// State of the network, node of the arena, or interned payload.
    pub state: u32,
}

impl Frame {
    /// `kind` of a rule network's state.
    pub const NETWORK: u32 = 0;
    /// `kind` of a regular expression.
    pub const REGEX: u32 = 1;
}

/// A finished grammar: immutable and shareable; an [`Engine`] runs it.
#[derive(Debug)]
pub struct Grammar {
    pub(crate) regex: Arena,
    pub(crate) network: Network,
    pub(crate) machines: Arc<[Arc<dyn Machine>]>,
    pub(crate) classes: ByteClasses,
    pub(crate) limits: Limits,
}

impl Grammar {
    /// The limits it was compiled under; engines keep to them too.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a text of ordinary bytes matches as a whole. For tests and front ends; a matcher over a
    /// vocabulary is the fast way.
    ///
    /// # Errors
    /// `Limit` when stepping hits a bound.
    pub fn matches(self: &Grammar, text: &[u8]) -> Result<bool> {
        let mut engine = Engine::new(Arc::new(self.clone_for_engine()))?;
        let mut config = engine.start();
        for &byte in text {
            config = engine.step(config, byte)?;
            if config == DEAD {
                return Ok(false);
            }
        }
        Ok(engine.is_accepting(config))
    }

    fn clone_for_engine(&self) -> Grammar {
        Grammar {
            regex: self.regex.clone(),
            network: self.network.clone(),
            machines: Arc::clone(&self.machines),
            classes: self.classes.clone(),
            limits: self.limits.clone(),
        }
    }
}
