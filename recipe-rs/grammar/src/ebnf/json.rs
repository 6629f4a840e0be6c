//! JSON Schemas inside grammars.

use super::tree::JsonForm;
use crate::error::{GrammarError, Result};
use crate::ir::{ExprId, GrammarBuilder};

/// Compiles embedded schemas with the default settings.
pub fn embed_json() -> impl FnMut(&mut GrammarBuilder, &str, JsonForm) -> Result<Option<ExprId>> {
    |_builder, _schema, _form| {
        Err(GrammarError::invalid(
            "JSON Schemas inside grammars are not supported",
        ))
    }
}
