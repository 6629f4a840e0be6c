//! Bindings of the chat crate.

#[allow(dead_code)] // used as the request and encoding classes land
mod errors;
mod parsing_options;
mod partial_json;
mod response;
mod special;
mod stream;
mod tokenizer;

use pyo3::prelude::*;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<tokenizer::Tokenizer>()?;
    m.add_class::<special::SpecialToken>()?;
    m.add_class::<special::SpecialTokens>()?;
    init_parsing(m)
}

/// Classes of the way out: chunks, parsing, responses.
fn init_parsing(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<parsing_options::ThinkingInitialStage>()?;
    m.add_class::<parsing_options::ParsingOptions>()?;
    m.add_class::<stream::PromptUsage>()?;
    m.add_class::<stream::InferenceFinishReason>()?;
    m.add_class::<stream::InferenceChunk>()?;
    m.add_class::<stream::StreamProcessor>()?;
    m.add_class::<stream::ToolCallReport>()?;
    m.add_class::<partial_json::PartialJson>()?;
    m.add_class::<response::ResponsesEcho>()?;
    m.add_class::<response::ChatCompletionChunkGenerator>()?;
    m.add_class::<response::ResponsesChunkGenerator>()?;
    m.add_class::<response::MessagesChunkGenerator>()?;
    m.add_class::<response::ChatCompletionChunk>()?;
    m.add_class::<response::ResponsesStreamEvent>()?;
    m.add_class::<response::MessagesStreamEvent>()?;
    m.add_class::<response::ChatCompletionResponse>()?;
    m.add_class::<response::ResponsesResponse>()?;
    m.add_class::<response::MessagesResponse>()?;
    Ok(())
}
