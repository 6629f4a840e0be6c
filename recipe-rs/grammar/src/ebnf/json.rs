//! JSON Schemas inside grammars.

use super::tree::JsonForm;
use crate::error::Result;
use crate::ir::{ExprId, GrammarBuilder};
use crate::json_schema::{add_raw_string, add_to, ErrorKind, Settings};

/// Compiles embedded schemas with some settings; there are no documents outside of them.
pub fn embed_json(
    settings: Settings,
) -> impl FnMut(&mut GrammarBuilder, &str, JsonForm) -> Result<Option<ExprId>> {
    move |builder, schema, form| match form {
        JsonForm::RawString => Ok(add_raw_string(builder, schema, &[], &settings)?),
        JsonForm::Value => Ok(Some(add_to(builder, schema, &[], &settings)?.0)),
        JsonForm::ValueOrNothing => match add_to(builder, schema, &[], &settings) {
            Err(e) if e.kind == ErrorKind::Unsatisfiable => Ok(None),
            other => Ok(Some(other?.0)),
        },
    }
}
