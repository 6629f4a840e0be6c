//! Bindings of the chat crate.

mod batch;
mod conversation;
mod encoding;
mod errors;
mod image;
mod incremental;
mod message;
mod options;
mod parsing_options;
mod partial_json;
mod request;
mod response;
mod special;
mod stream;
mod tokenizer;
mod values;

use pyo3::prelude::*;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<tokenizer::Tokenizer>()?;
    m.add_class::<special::SpecialToken>()?;
    m.add_class::<special::SpecialTokens>()?;
    init_requests(m)?;
    image::init(m)?;
    m.add_class::<incremental::IncrementalEncoder>()?;
    init_parsing(m)
}

/// Classes of the way in: requests, conversations, rendering, encoding.
fn init_requests(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add(
        "IMAGE_SPECIAL_TOKEN_ID",
        offseek_chat::special::IMAGE_SPECIAL_TOKEN_ID,
    )?;
    m.add_class::<options::ModelVersion>()?;
    m.add_class::<options::WebSearchBehavior>()?;
    m.add_class::<options::ReasoningContentBehavior>()?;
    m.add_class::<options::ConversionOptions>()?;
    m.add_class::<message::ToolCall>()?;
    m.add_class::<message::ToolDefinition>()?;
    m.add_class::<message::ImageSource>()?;
    m.add_class::<message::DataUrlImageSource>()?;
    m.add_class::<message::UrlImageSource>()?;
    m.add_class::<message::BytesImageSource>()?;
    m.add_class::<message::Message>()?;
    m.add_class::<message::SystemMessage>()?;
    m.add_class::<message::UserMessage>()?;
    m.add_class::<message::AssistantMessage>()?;
    m.add_class::<message::ToolMessage>()?;
    m.add_class::<message::LatestReminderMessage>()?;
    m.add_class::<conversation::Conversation>()?;
    m.add_class::<request::OutputConstraint>()?;
    m.add_class::<request::InferenceOptions>()?;
    m.add_class::<request::RequestWarning>()?;
    m.add_class::<request::ConversationRequest>()?;
    m.add_class::<request::ChatCompletionRequest>()?;
    m.add_class::<request::ResponsesRequest>()?;
    m.add_class::<request::MessagesRequest>()?;
    m.add_class::<batch::EncodedRequest>()?;
    m.add_function(wrap_pyfunction!(batch::encode_batch, m)?)?;
    m.add_class::<encoding::RenderedPrompt>()?;
    m.add_class::<encoding::DeepseekV4Encoding>()?;
    m.add_class::<encoding::DeepseekV41Encoding>()?;
    Ok(())
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
