//! Grammars compiled to token bitmasks. Pure Rust: knows nothing of Python or of chat formats.
//!
//! ```text
//! source text ─► front end ─► GrammarBuilder ─► Grammar ─► Engine ─► bitmask row
//!  regex, JSON    regex/       rules, regular    rule        configurations,
//!  Schema, EBNF   json_schema/ expressions,      networks    lazily built and
//!                 ebnf/        machines (ir.rs)              shared (engine/)
//! ```
//!
//! # How a front end plugs in
//!
//! A front end takes source text and a [`Budget`] and fills a [`GrammarBuilder`]:
//! 1. **Regular expressions** over bytes are nodes of the builder's [`Arena`](regex::Arena): sets,
//!    sequences, alternations, counted repetitions, intersections and complements. Patterns in the
//!    syntax of `re`/ECMA-262 become nodes through [`regex::parse`] and [`regex::Lowering`], which also
//!    spells them inside JSON strings (escapes).
//! 2. **Rules** ([`GrammarBuilder::rule`]) hold expressions over those, over other rules and over special
//!    tokens: any context-free grammar, left recursion and nullable rules included.
//! 3. **Machines** ([`Machine`]) are automata written by the front end where rules do not do: objects in
//!    any key order, unique items, counted repetitions with memory.
//!
//! [`GrammarBuilder::finish`] prunes what matches nothing and gives a [`Grammar`]: immutable, shareable.
//! An [`Engine`](engine::Engine) runs it: a *configuration* is a set of stacks of frames, hash-consed to
//! one id; a step by one byte is a table look-up once made. The invariant under all masks: machines and
//! regular expressions are trimmed, so a configuration is empty exactly when nothing can complete it.

pub mod batch;
pub mod bytes;
mod complete;
pub mod ebnf;
pub mod engine;
pub mod error;
pub mod hash;
pub mod ir;
pub mod json_schema;
pub mod limits;
pub mod machine;
pub mod mask;
pub mod matcher;
pub mod regex;
mod stack;
pub mod vocab;

pub use bytes::{ByteClasses, ByteSet};
pub use engine::Grammar;
pub use error::{GrammarError, LimitKind, Result};
pub use ir::{Expr, ExprId, GrammarBuilder, RuleId};
pub use limits::{Budget, CancelToken, Limits};
pub use machine::{Body, Callee, Cx, Finish, Machine, MachineId, Moves, Successors};
pub use matcher::{CompiledGrammar, Matcher};
pub use vocab::{TokenFacts, Vocabulary};
