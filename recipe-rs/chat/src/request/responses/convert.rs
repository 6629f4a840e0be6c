//! Conversion to a conversation.

use super::declared::{Registry, SERVER_TOOLS};
use super::items::{resolve_entries, Assembly, Entry};
use super::{
    ResponsesBody, ResponsesContentBlock, ResponsesInput, ResponsesInputItem, ResponsesRequest,
    ResponsesTextFormat, ResponsesToolCallOutputItem, ResponsesToolChoice,
    ResponsesToolChoiceObject, ResponsesTypedItem,
};
use crate::conversation::{Conversation, Message, ResponseFormat, ToolChoice};
use crate::error::{ChatError, Result};
use crate::inference::{ConvertedRequest, InferenceOptions, ParsingOptions, ThinkingInitialStage};
use crate::options::{ConversionOptions, WebSearchBehavior};
use crate::request::common::{ResponsesOutput, TextOrList};
use crate::request::effects::{self, Requested};
use crate::request::tools::{self, CheckedFormat, Choice};
use crate::request::{params, reasoning};
use crate::special::SpecialToken;
use std::collections::BTreeMap;

impl ResponsesBody {
    /// Composed names of the declared namespace tools.
    ///
    /// # Errors
    /// [`ChatError::Conversion`] for an unknown model or an invalid declaration.
    pub fn namespace_tool_map(
        &self,
        options: &ConversionOptions,
    ) -> Result<BTreeMap<String, (String, String)>> {
        let version = params::model_version(&self.body.model, options)?;
        let tools = self.body.tools.as_deref().unwrap_or(&[]);
        Ok(Registry::new(tools, version, options)?.namespace_tool_map)
    }

    /// Check the request and turn it into a conversation with its options.
    ///
    /// # Errors
    /// [`ChatError::Conversion`], the first problem in the order of the official checks.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConvertedRequest> {
        let ResponsesBody {
            mut body,
            ignored: mut warnings,
        } = self;
        let version = params::model_version(&body.model, options)?;
        let tools = body.tools.as_deref().unwrap_or(&[]);
        let mut registry = Registry::new(tools, version, options)?;
        registry.declare(tools)?;
        if let (true, Some(ResponsesInput::Items(items))) = (version.is_v41(), &body.input) {
            registry.reveal(items)?;
        }
        let echo = body.echo();
        let effort = body.reasoning.as_ref().and_then(|r| r.effort);
        let thinking = params::thinking(None, effort, options);
        let instructions = body.instructions.clone().filter(|text| !text.is_empty());
        let search_mentions_json = search_mentions_json(&body);
        let mentions_json = mentions_json(&body);

        let mut entries = Vec::new();
        if let Some(text) = instructions {
            entries.push(Entry::Message(Message::system(text)));
        }
        match body.input.take() {
            None if entries.is_empty() => {
                return Err(ChatError::invalid(
                    "Either input or instructions must be provided",
                ));
            }
            None => {}
            Some(ResponsesInput::Text(text)) => entries.push(Entry::Message(Message::user(text))),
            Some(ResponsesInput::Items(items)) if items.is_empty() => {
                return Err(ChatError::invalid("Input items array must not be empty"));
            }
            Some(ResponsesInput::Items(items)) => {
                entries.extend(
                    Assembly::new(
                        version,
                        options.special_tokens.get(SpecialToken::Image),
                        &registry,
                    )
                    .assemble(items)?,
                );
            }
        }
        let lists_tools = !registry.tools.is_empty();
        let sent = entries.iter().filter_map(Entry::message);
        reasoning::require(sent, thinking.on, lists_tools, "reasoning_text", options)?;
        let choice = choice(body.tool_choice.as_ref(), options)?;
        let namespace_tool_map = registry.namespace_tool_map;
        let selected = tools::select(registry.tools, choice, thinking.on)?;
        let definitions: Vec<_> = selected
            .tools
            .iter()
            .map(|tool| tool.definition.clone())
            .collect();
        let mut messages = resolve_entries(entries, &definitions);
        let dropped_reasoning = reasoning::settle(&mut messages, thinking.on);

        let format = body.text.take().map(|text| text.format).unwrap_or_default();
        let is_json_object = matches!(format, ResponsesTextFormat::JsonObject);
        let has_format = !matches!(format, ResponsesTextFormat::Text);
        if is_json_object && !mentions_json && !(version.is_v41() && search_mentions_json) {
            return Err(ChatError::invalid(
                "Response input messages must contain the word 'json' in some form to use 'text.format' of type \
                 'json_object'.",
            ));
        }
        let format = response_format(format)?;
        tools::check_strict_mix(&selected.tools, has_format)?;
        let temperature = params::temperature(body.temperature, thinking.on)?;
        let top_p = params::top_p(body.top_p, version, thinking.on, !selected.tools.is_empty())?;
        params::top_logprobs(body.top_logprobs)?;
        let bound = params::max_tokens_bound(options, thinking.on);
        let max_tokens = params::max_tokens(body.max_output_tokens, bound, false)?;
        let (output_constraint, enforced_constraint) = tools::constraints(&selected, &format);

        let conversation = Conversation {
            messages,
            thinking_mode: thinking.on,
            tools: definitions,
            tool_choice: selected.choice,
            reasoning_effort: thinking.effort,
            response_format: format.format,
        };
        let requested = Requested {
            temperature: body.temperature,
            top_p: body.top_p,
            tool_choice_given: !matches!(
                body.tool_choice,
                None | Some(ResponsesToolChoice::Auto | ResponsesToolChoice::None)
            ),
        };
        effects::warn(
            &mut warnings,
            &conversation,
            version,
            &requested,
            top_p,
            dropped_reasoning,
        );
        let renders_tools = conversation.renders_tools();
        let parsing_options = ParsingOptions {
            parse_tool_calls: renders_tools,
            starts_in_tool_calls: renders_tools && conversation.tool_choice == ToolChoice::Required,
            parse_json_output: is_json_object,
            thinking_initial_stage: thinking.on.then_some(ThinkingInitialStage::ReasoningStart),
            stop_sequences: Vec::new(),
            special_tokens: options.special_tokens.clone(),
            ..ParsingOptions::default()
        };
        Ok(ConvertedRequest {
            inference_options: InferenceOptions {
                max_tokens,
                temperature: Some(temperature),
                top_p: Some(top_p),
                logprobs: body.top_logprobs.is_some(),
                top_logprobs: body.top_logprobs,
                seed: None,
                output_constraint,
            },
            parsing_options,
            stream: body.stream.unwrap_or(false),
            enforced_constraint,
            warnings,
            echo: Some(echo),
            namespace_tool_map,
            ..ConvertedRequest::from_conversation(conversation, version)
        })
    }
}

fn choice(requested: Option<&ResponsesToolChoice>, options: &ConversionOptions) -> Result<Choice> {
    Ok(match requested {
        None | Some(ResponsesToolChoice::Auto) => Choice::Auto,
        Some(ResponsesToolChoice::None) => Choice::None,
        Some(ResponsesToolChoice::Required) => Choice::Required,
        Some(ResponsesToolChoice::Object(object)) => match object {
            ResponsesToolChoiceObject::Function { name }
            | ResponsesToolChoiceObject::Custom { name } => Choice::Named(name.clone()),
            ResponsesToolChoiceObject::WebSearch | ResponsesToolChoiceObject::WebSearch20250826 => {
                if options.responses_web_search == WebSearchBehavior::Reject {
                    return Err(ChatError::invalid(SERVER_TOOLS));
                }
                Choice::Auto
            }
        },
    })
}

fn response_format(format: ResponsesTextFormat) -> Result<CheckedFormat> {
    Ok(match format {
        ResponsesTextFormat::Text => CheckedFormat::plain(ResponseFormat::Text),
        ResponsesTextFormat::JsonObject => CheckedFormat::plain(ResponseFormat::JsonObject),
        ResponsesTextFormat::JsonSchema { schema, strict, .. } => {
            CheckedFormat::json_schema(schema, strict == Some(true))?
        }
    })
}

fn mentions_json(body: &ResponsesRequest) -> bool {
    let in_instructions = body
        .instructions
        .as_deref()
        .is_some_and(params::mentions_json);
    in_instructions
        || match &body.input {
            None => false,
            Some(ResponsesInput::Text(text)) => params::mentions_json(text),
            Some(ResponsesInput::Items(items)) => items.iter().any(item_mentions_json),
        }
}

fn item_mentions_json(item: &ResponsesInputItem) -> bool {
    let message = match item {
        ResponsesInputItem::Message(message) => message,
        ResponsesInputItem::Item(item) => {
            return match &**item {
                ResponsesTypedItem::FunctionCallOutput { output, .. } => {
                    output_mentions_json(output)
                }
                ResponsesTypedItem::CustomToolCallOutput { output, .. } => {
                    output.as_ref().is_some_and(output_mentions_json)
                }
                _ => false,
            };
        }
    };
    match &message.content {
        TextOrList::Text(text) => params::mentions_json(text),
        TextOrList::List(blocks, _) => blocks.iter().any(|block| match block {
            ResponsesContentBlock::InputText { text }
            | ResponsesContentBlock::OutputText { text } => params::mentions_json(text),
            _ => false,
        }),
    }
}

fn output_mentions_json(output: &TextOrList<ResponsesToolCallOutputItem, ResponsesOutput>) -> bool {
    match output {
        TextOrList::Text(text) => params::mentions_json(text),
        TextOrList::List(blocks, _) => blocks.iter().any(|block| {
            matches!(block, ResponsesToolCallOutputItem::InputText { text } if params::mentions_json(text))
        }),
    }
}

/// Search outputs count with the text that their tools become (V4.1).
fn search_mentions_json(body: &ResponsesRequest) -> bool {
    let Some(ResponsesInput::Items(items)) = &body.input else {
        return false;
    };
    items.iter().any(|item| match item {
        ResponsesInputItem::Item(item) => match &**item {
            ResponsesTypedItem::ToolSearchOutput { tools, .. } => {
                super::search::search_result(tools).is_ok_and(|text| params::mentions_json(&text))
            }
            _ => false,
        },
        ResponsesInputItem::Message(_) => false,
    })
}
