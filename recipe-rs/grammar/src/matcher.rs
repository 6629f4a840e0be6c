//! One text as it grows: tokens in, masks out.
//!
//! A [`CompiledGrammar`] joins a grammar and a vocabulary; its engine and memo are shared by all matchers
//! behind a lock that is held for a table look-up in the common case. A [`Matcher`] is a list of
//! configuration ids, so forks and rollbacks are cheap. When an engine has grown to its bound, new
//! matchers (and a live matcher at its next token) move to a fresh one by replaying their tokens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::complete;
use crate::engine::{ConfigId, Engine, Grammar, DEAD};
use crate::error::{GrammarError, LimitKind, Result};
use crate::limits::bounded;
use crate::mask::{Mask, Memo};
use crate::vocab::Vocabulary;

/// A grammar tied to a vocabulary: immutable for its users, shareable between threads.
#[derive(Debug)]
pub struct CompiledGrammar {
    grammar: Arc<Grammar>,
    vocab: Arc<Vocabulary>,
    current: Mutex<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) memo: Memo,
    /// A bound was hit (or a panic passed through): what is remembered may be incomplete, so everyone moves
    /// on to a fresh engine.
    failed: bool,
}

impl Shared {
    fn new(grammar: &Arc<Grammar>) -> Result<Arc<Self>> {
        let engine = Engine::new(Arc::clone(grammar))?;
        let memo = Memo::new(grammar.limits().bytes as usize);
        Ok(Arc::new(Shared {
            state: Mutex::new(State {
                engine,
                memo,
                failed: false,
            }),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.failed = true;
            state
        })
    }
}

impl CompiledGrammar {
    /// Tie a grammar to a vocabulary.
    ///
    /// # Errors
    /// `Limit` when the first configuration already hits a bound.
    pub fn new(grammar: Grammar, vocab: Arc<Vocabulary>) -> Result<Arc<Self>> {
        let grammar = Arc::new(grammar);
        let current = Mutex::new(Shared::new(&grammar)?);
        Ok(Arc::new(CompiledGrammar {
            grammar,
            vocab,
            current,
        }))
    }

    /// A matcher before any token.
    ///
    /// # Errors
    /// `Limit` when a fresh engine is needed and its first configuration hits a bound.
    pub fn matcher(self: &Arc<Self>) -> Result<Matcher> {
        let shared = self.shared(None)?;
        let start = shared.lock().engine.start();
        Ok(Matcher {
            compiled: Arc::clone(self),
            shared,
            configs: vec![start],
            tokens: Vec::new(),
            ended: false,
            error: None,
        })
    }

    /// The vocabulary.
    pub fn vocab(&self) -> &Arc<Vocabulary> {
        &self.vocab
    }

    /// The grammar.
    pub fn grammar(&self) -> &Arc<Grammar> {
        &self.grammar
    }

    /// Bytes held by the engine in use, roughly.
    pub fn heap_bytes(&self) -> usize {
        let shared = Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner));
        let bytes = shared.lock().engine.bytes();
        bytes
    }

    /// The engine in use, or a fresh one when that is full (or is the one that `full` names).
    fn shared(&self, full: Option<&Arc<Shared>>) -> Result<Arc<Shared>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = match full {
            Some(full) => Arc::ptr_eq(full, &current) || current.lock().failed,
            None => {
                let state = current.lock();
                state.failed || state.engine.is_full()
            }
        };
        if stale {
            *current = Shared::new(&self.grammar)?;
        }
        Ok(Arc::clone(&current))
    }
}

/// The state of one text.
#[derive(Clone, Debug)]
pub struct Matcher {
    compiled: Arc<CompiledGrammar>,
    shared: Arc<Shared>,
    /// Configuration before each token and after the last.
    configs: Vec<ConfigId>,
    tokens: Vec<u32>,
    /// An EOS token was accepted.
    ended: bool,
    error: Option<GrammarError>,
}

impl Matcher {
    fn config(&self) -> ConfigId {
        self.configs[self.configs.len() - 1]
    }

    fn vocab(&self) -> &Vocabulary {
        &self.compiled.vocab
    }

    fn check(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// The grammar it follows.
    pub fn compiled(&self) -> &Arc<CompiledGrammar> {
        &self.compiled
    }

    /// The tokens accepted so far (without EOS).
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The mask of the next token; `None` after EOS.
    ///
    /// # Errors
    /// `Limit` when a bound is hit; the matcher then repeats the error.
    pub fn mask(&mut self) -> Result<Option<Arc<Mask>>> {
        self.check()?;
        if self.ended {
            return Ok(None);
        }
        let mask = self.with_state(|state, vocab, config| {
            let State { engine, memo, .. } = state;
            memo.mask(engine, vocab, config)
        })?;
        if mask.is_empty() {
            // Only where nesting has reached its bound: nothing that is open may be closed.
            let l = self.compiled.grammar.limits();
            let e = GrammarError::limit(
                LimitKind::StackDepth,
                "nesting of the text",
                l.stack_depth,
                l.stack_depth + 1,
            );
            return Err(self.fail(e));
        }
        Ok(Some(mask))
    }

    /// Do one bounded piece of work on the shared engine: on a fresh one when it has failed for somebody
    /// else, and once more on a fresh one when it has outgrown its bounds.
    fn with_state<T>(
        &mut self,
        work: impl Fn(&mut State, &Vocabulary, ConfigId) -> Result<T>,
    ) -> Result<T> {
        let limit = self.compiled.grammar.limits().mask_ms;
        for attempt in 0..2 {
            let result = {
                let mut state = self.shared.lock();
                if state.failed {
                    drop(state);
                    self.move_on()?;
                    state = self.shared.lock();
                }
                let result = bounded(limit, || {
                    work(&mut state, &self.compiled.vocab, self.config())
                });
                state.failed |= result.is_err();
                result
            };
            match result {
                Ok(value) => return Ok(value),
                Err(e) if attempt == 0 && grows(&e) => self.move_on()?,
                Err(e) => return Err(self.fail(e)),
            }
        }
        unreachable!("the second attempt returns")
    }

    /// Write the mask of the next token into a row of at least [`Vocabulary::words`] words. After EOS
    /// only EOS is allowed.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn fill(&mut self, row: &mut [u32]) -> Result<()> {
        match self.mask()? {
            Some(mask) => mask.write(row, self.vocab().eos()),
            None => {
                row.fill(0);
                for &id in self.compiled.vocab.eos() {
                    row[(id >> 5) as usize] |= 1 << (id & 31);
                }
            }
        }
        Ok(())
    }

    /// Masks along a draft: row `i` is the mask after the first `i` draft tokens. Stops at the first token
    /// that is not allowed; the rows after it are cleared. The number of tokens that were allowed; the
    /// matcher itself does not move.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn fill_draft(&mut self, draft: &[u32], rows: &mut [&mut [u32]]) -> Result<usize> {
        let mut taken = 0;
        let mut outcome = Ok(());
        for (i, row) in rows.iter_mut().enumerate() {
            outcome = self.fill(row);
            if outcome.is_err() {
                break;
            }
            match draft.get(i).map(|&t| self.accept(t)) {
                Some(Ok(true)) => taken += 1,
                Some(Err(e)) => {
                    outcome = Err(e);
                    break;
                }
                _ => {
                    rows[i + 1..].iter_mut().for_each(|row| row.fill(0));
                    break;
                }
            }
        }
        let failed = self.error.take();
        self.rollback(taken);
        self.error = failed;
        outcome.map(|()| taken)
    }

    fn fail(&mut self, error: GrammarError) -> GrammarError {
        self.error = Some(error.clone());
        error
    }

    /// Move to a fresh engine by replaying the tokens.
    fn move_on(&mut self) -> Result<()> {
        let limit = self.compiled.grammar.limits().mask_ms;
        let moved = self.compiled.shared(Some(&self.shared)).and_then(|shared| {
            let mut configs = vec![shared.lock().engine.start()];
            for &token in &self.tokens {
                let mut state = shared.lock();
                let before = configs[configs.len() - 1];
                let next = bounded(limit, || {
                    step(&mut state, &self.compiled.vocab, before, token)
                });
                state.failed |= next.is_err();
                configs.push(next?);
            }
            Ok((shared, configs))
        });
        match moved {
            Ok((shared, configs)) => {
                self.shared = shared;
                self.configs = configs;
                Ok(())
            }
            Err(e) => Err(self.fail(e)),
        }
    }

    /// Take one token. `false` (and nothing changes) when the grammar does not allow it.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn accept(&mut self, token: u32) -> Result<bool> {
        self.check()?;
        if self.ended {
            return Ok(false);
        }
        let (next, full) = self.with_state(|state, vocab, before| {
            let next = step(state, vocab, before, token)?;
            if next == DEAD && state.engine.is_accepting(before) && vocab.eos().contains(&token) {
                return Ok((None, false));
            }
            Ok((Some(next), state.engine.is_full()))
        })?;
        match next {
            None => self.ended = true,
            Some(DEAD) => return Ok(false),
            Some(next) => {
                self.configs.push(next);
                self.tokens.push(token);
                if full {
                    self.move_on()?;
                }
            }
        }
        Ok(true)
    }

    /// Take tokens until one is not allowed; the number taken.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn accept_all(&mut self, tokens: &[u32]) -> Result<usize> {
        for (i, &token) in tokens.iter().enumerate() {
            if !self.accept(token)? {
                return Ok(i);
            }
        }
        Ok(tokens.len())
    }

    /// Whether the text so far is a full match: EOS is allowed.
    pub fn is_accepting(&self) -> bool {
        self.ended || self.shared.lock().engine.is_accepting(self.config())
    }

    /// Whether the text must end here: EOS was accepted, or nothing else is allowed.
    pub fn is_finished(&self) -> bool {
        if self.ended {
            return true;
        }
        let state = self.shared.lock();
        let config = self.config();
        state.engine.is_accepting(config)
            && state.engine.live_bytes(config).is_empty()
            && state.engine.specials(config).is_empty()
    }

    /// Whether EOS was accepted.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Undo the last `count` tokens (EOS counts as one). `false`, and nothing changes, when there are
    /// fewer.
    pub fn rollback(&mut self, count: usize) -> bool {
        if count > self.tokens.len() + usize::from(self.ended) {
            return false;
        }
        let mut count = count;
        if count > 0 {
            if self.ended {
                self.ended = false;
                count -= 1;
            }
            let keep = self.tokens.len() - count;
            self.tokens.truncate(keep);
            self.configs.truncate(keep + 1);
            self.error = None;
        }
        true
    }

    /// Back to the start.
    pub fn reset(&mut self) {
        self.tokens.clear();
        self.configs.truncate(1);
        self.ended = false;
        self.error = None;
    }

    /// The bytes that must come next, as far as only one byte can follow each time.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn forced_text(&mut self, max_bytes: usize) -> Result<Vec<u8>> {
        self.check()?;
        if self.ended {
            return Ok(Vec::new());
        }
        self.with_state(|state, _, config| {
            complete::forced_text(&mut state.engine, config, max_bytes)
        })
    }

    /// The tokens that must come next, in the tokenisation that the tokenizer itself would choose (see
    /// [`Vocabulary::set_encoder`]); the last ones are held back where a longer token could cover the
    /// border. Without an encoder: only tokens that are each the single one in the mask.
    ///
    /// # Errors
    /// As [`Matcher::mask`].
    pub fn forced_tokens(&mut self, max_tokens: usize) -> Result<Vec<u32>> {
        let text = self.forced_text(
            max_tokens
                .saturating_mul(self.vocab().longest() as usize)
                .min(1 << 16),
        )?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let vocab = Arc::clone(&self.compiled.vocab);
        let mut out = if vocab.encode("a").is_some() {
            let last = self.with_state(|state, _, config| {
                let mut at = config;
                for &byte in &text {
                    at = state.engine.step(at, byte)?;
                }
                Ok(state.engine.live_bytes(at).is_empty() && !state.engine.has_specials(at))
            })?;
            complete::canonical(&vocab, &self.tokens, &text, last, &|text| {
                vocab.encode(text)
            })
        } else {
            let mut fork = self.clone();
            let mut row = vec![0u32; vocab.words()];
            let mut out = Vec::new();
            while out.len() < max_tokens && !fork.is_accepting() {
                fork.fill(&mut row)?;
                let mut allowed = row.iter().enumerate().filter(|(_, w)| **w != 0);
                let (Some((i, word)), None) = (allowed.next(), allowed.next()) else {
                    break;
                };
                if word.count_ones() != 1 {
                    break;
                }
                let token = i as u32 * 32 + word.trailing_zeros();
                if !fork.accept(token)? {
                    break;
                }
                out.push(token);
            }
            out
        };
        out.truncate(max_tokens);
        Ok(out)
    }

    /// Tokens (without EOS) that lead from here to the end of a full match on a short way.
    ///
    /// # Errors
    /// As [`Matcher::mask`]; `Invalid` when the vocabulary cannot spell the text.
    pub fn shortest_completion(&mut self) -> Result<Vec<u32>> {
        self.check()?;
        if self.ended {
            return Ok(Vec::new());
        }
        let limit = self.compiled.grammar.limits().mask_ms;
        // An error here says nothing about the masks: the matcher goes on.
        let pieces = {
            let mut state = self.shared.lock();
            let config = self.config();
            let found = bounded(limit, || complete::shortest(&mut state.engine, config));
            state.failed |= found.is_err();
            found?
        };
        complete::spell(&pieces, self.vocab())
    }
}

fn grows(e: &GrammarError) -> bool {
    matches!(
        e,
        GrammarError::Limit {
            kind: LimitKind::States | LimitKind::Bytes | LimitKind::RegexNodes,
            ..
        }
    )
}

/// The configuration after one token; [`DEAD`] when it is not allowed as ordinary or named token.
fn step(state: &mut State, vocab: &Vocabulary, config: ConfigId, token: u32) -> Result<ConfigId> {
    if vocab.is_special(token) {
        return state.engine.step_special(config, token);
    }
    let bytes = vocab.token(token);
    if bytes.is_empty() {
        return Ok(DEAD);
    }
    let mut at = config;
    for &byte in bytes {
        at = state.engine.step(at, byte)?;
        if at == DEAD {
            break;
        }
    }
    Ok(at)
}
