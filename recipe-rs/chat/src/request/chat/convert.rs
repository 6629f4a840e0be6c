//! Conversion to a conversation.

use super::{
    ChatCompletionRequest, ChatCompletionRequestContentBlock as Block,
    ChatCompletionRequestMessage as Wire, ChatCompletionRequestToolCall,
    ChatCompletionResponseFormat, ChatCompletionTool, ChatCompletionToolChoice, ChatRequest,
};
use crate::conversation::{Conversation, Message, ResponseFormat, ToolCall};
use crate::error::{ChatError, Result};
use crate::inference::{ConvertedRequest, InferenceOptions, ParsingOptions, ThinkingInitialStage};
use crate::model::ModelVersion;
use crate::options::ConversionOptions;
use crate::request::common::{ChatContent, TextOrList};
use crate::request::content::Parts;
use crate::request::effects::{self, Requested};
use crate::request::tools::{self, CheckedFormat, Choice, DeclaredTool};
use crate::request::{images, params, reasoning};
use crate::special::SpecialToken;
use crate::texts::UNSUPPORTED_IMAGE;
use std::collections::HashSet;

type WireContent = TextOrList<Block, ChatContent>;

impl ChatRequest {
    /// Check the request and turn it into a conversation with its options.
    ///
    /// # Errors
    /// [`ChatError::Conversion`], the first problem in the order of the official checks.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConvertedRequest> {
        let ChatRequest {
            mut body,
            ignored: mut warnings,
        } = self;
        let version = params::model_version(&body.model, options)?;
        let declared = declared_tools(body.tools.take().unwrap_or_default())?;
        let lists_tools = !declared.is_empty();
        let thinking = params::thinking(
            body.thinking.as_ref().map(|t| t.kind),
            body.reasoning_effort,
            options,
        );
        let mentions_json = body.messages.iter().any(mentions_json);
        let is_json_object = matches!(
            body.response_format,
            Some(ChatCompletionResponseFormat::JsonObject)
        );

        let mut messages =
            Messages::new(version, options).convert(std::mem::take(&mut body.messages))?;
        reasoning::require(
            messages.iter(),
            thinking.on,
            lists_tools,
            "reasoning_content",
            options,
        )?;
        check_prefix_is_last(&messages)?;
        let dropped_reasoning = reasoning::settle(&mut messages, thinking.on);
        if is_json_object && !mentions_json {
            return Err(ChatError::invalid(
                "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.",
            ));
        }
        let selected = tools::select(declared, choice(body.tool_choice.as_ref()), thinking.on)?;
        let has_calls = messages.iter().any(|m| {
            matches!(
                m,
                Message::Assistant {
                    tool_calls: Some(_),
                    ..
                }
            )
        });
        let prefix = match messages.last() {
            Some(Message::Assistant {
                content,
                reasoning_content,
                prefix: true,
                ..
            }) => {
                check_prefix(is_json_object, lists_tools || has_calls)?;
                Some(prefix_stage(content, reasoning_content.as_deref()))
            }
            _ => None,
        };
        let stop_sequences = stop_sequences(&body)?;
        if body.stream_options.is_some() && body.stream != Some(true) {
            return Err(ChatError::invalid(
                "stream_options should be set along with stream = true",
            ));
        }
        let has_format = body.response_format.is_some();
        let format = response_format(body.response_format.take())?;
        tools::check_strict_mix(&selected.tools, has_format)?;
        let has_tools = !selected.tools.is_empty();
        let inference = inference_options(&body, version, thinking.on, has_tools, options)?;
        let (output_constraint, enforced_constraint) = tools::constraints(&selected, &format);

        let conversation = Conversation {
            messages,
            thinking_mode: thinking.on,
            tools: selected
                .tools
                .into_iter()
                .map(|tool| tool.definition)
                .collect(),
            tool_choice: selected.choice,
            reasoning_effort: thinking.effort,
            response_format: format.format,
        };
        let top_p = inference.top_p.unwrap_or(1.0);
        let requested = Requested {
            temperature: body.temperature,
            top_p: body.top_p,
            tool_choice_given: !matches!(
                body.tool_choice,
                None | Some(ChatCompletionToolChoice::Auto | ChatCompletionToolChoice::None)
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
            starts_in_tool_calls: renders_tools
                && conversation.tool_choice == crate::conversation::ToolChoice::Required,
            parse_json_output: is_json_object,
            thinking_initial_stage: thinking
                .on
                .then(|| prefix.unwrap_or(ThinkingInitialStage::ReasoningStart)),
            stop_sequences,
            special_tokens: options.special_tokens.clone(),
            ..ParsingOptions::default()
        };
        let include_usage = body
            .stream_options
            .as_ref()
            .and_then(|o| o.include_usage)
            .unwrap_or(false);
        Ok(ConvertedRequest {
            inference_options: InferenceOptions {
                output_constraint,
                ..inference
            },
            parsing_options,
            stream: body.stream.unwrap_or(false),
            include_usage,
            enforced_constraint,
            warnings,
            ..ConvertedRequest::from_conversation(conversation, version)
        })
    }
}

fn declared_tools(tools: Vec<ChatCompletionTool>) -> Result<Vec<DeclaredTool>> {
    let mut declared = Vec::with_capacity(tools.len());
    for (i, tool) in tools.into_iter().enumerate() {
        let function = tool.function;
        tools::check_name(|| format!("tools[{i}].function.name"), &function.name)?;
        let tool = DeclaredTool::new(
            function.name,
            function.description,
            function.parameters.unwrap_or_default(),
            function.strict,
            false,
        );
        declared.push(tool);
    }
    Ok(declared)
}

fn choice(requested: Option<&ChatCompletionToolChoice>) -> Choice {
    match requested {
        None | Some(ChatCompletionToolChoice::Auto) => Choice::Auto,
        Some(ChatCompletionToolChoice::None) => Choice::None,
        Some(ChatCompletionToolChoice::Required) => Choice::Required,
        Some(ChatCompletionToolChoice::Function(name)) => Choice::Named(name.clone()),
    }
}

/// Empty system messages are gone by now: one may follow a prefix.
fn check_prefix_is_last(messages: &[Message]) -> Result<()> {
    let before_end = messages.split_last().map_or(&[][..], |(_, before)| before);
    let is_prefix = |m: &Message| matches!(m, Message::Assistant { prefix: true, .. });
    if before_end.iter().any(is_prefix) {
        return Err(ChatError::invalid(
            "Invalid completion message: prefix set true with message which is not final message or message role \
             is not assistant",
        ));
    }
    Ok(())
}

fn check_prefix(is_json_object: bool, uses_tools: bool) -> Result<()> {
    if is_json_object {
        return Err(ChatError::invalid(
            "response_format json_object should not be used with prefix",
        ));
    }
    if uses_tools {
        return Err(ChatError::invalid(
            "Function call should not be used with prefix",
        ));
    }
    Ok(())
}

fn prefix_stage(content: &str, reasoning: Option<&str>) -> ThinkingInitialStage {
    if !content.is_empty() {
        ThinkingInitialStage::ContentContinuation
    } else if reasoning.is_some_and(|text| !text.is_empty()) {
        ThinkingInitialStage::ReasoningContinuation
    } else {
        ThinkingInitialStage::ReasoningStart
    }
}

fn stop_sequences(body: &ChatCompletionRequest) -> Result<Vec<String>> {
    match &body.stop {
        None => Ok(Vec::new()),
        Some(TextOrList::Text(text)) if text.is_empty() => Err(tools::empty_string("stop")),
        Some(TextOrList::Text(text)) => Ok(vec![text.clone()]),
        Some(TextOrList::List(list, _)) => params::stop_sequences(list.clone()),
    }
}

fn response_format(requested: Option<ChatCompletionResponseFormat>) -> Result<CheckedFormat> {
    Ok(match requested {
        None | Some(ChatCompletionResponseFormat::Text) => {
            CheckedFormat::plain(ResponseFormat::Text)
        }
        Some(ChatCompletionResponseFormat::JsonObject) => {
            CheckedFormat::plain(ResponseFormat::JsonObject)
        }
        Some(ChatCompletionResponseFormat::Regex { regex }) => {
            CheckedFormat::plain(ResponseFormat::Regex(regex))
        }
        Some(ChatCompletionResponseFormat::JsonSchema { json_schema }) => {
            CheckedFormat::json_schema(json_schema.schema, json_schema.strict == Some(true))?
        }
    })
}

fn inference_options(
    body: &ChatCompletionRequest,
    version: ModelVersion,
    thinking: bool,
    has_tools: bool,
    options: &ConversionOptions,
) -> Result<InferenceOptions> {
    if body.n.is_some_and(|n| n != 1) {
        return Err(ChatError::invalid(
            "Invalid n value (currently only n = 1 is supported)",
        ));
    }
    params::penalty("presence_penalty", body.presence_penalty)?;
    params::penalty("frequency_penalty", body.frequency_penalty)?;
    let temperature = params::temperature(body.temperature, thinking)?;
    let top_p = params::top_p(body.top_p, version, thinking, has_tools)?;
    let logprobs = body.logprobs.unwrap_or(false);
    if body.top_logprobs.is_some() && !logprobs {
        return Err(ChatError::invalid(
            "Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is used.",
        ));
    }
    params::top_logprobs(body.top_logprobs)?;
    let max_tokens = params::max_tokens(
        body.max_tokens,
        params::max_tokens_bound(options, thinking),
        false,
    )?;
    if body.seed.is_some_and(|seed| seed > i64::MAX as u64) {
        return Err(ChatError::invalid(
            "Invalid seed value, the valid range of seed is [0, 2^63)",
        ));
    }
    Ok(InferenceOptions {
        max_tokens,
        temperature: Some(temperature),
        top_p: Some(top_p),
        logprobs,
        top_logprobs: body.top_logprobs,
        seed: body.seed,
        output_constraint: None,
    })
}

fn mentions_json(message: &Wire) -> bool {
    let in_content = |content: &WireContent| match content {
        TextOrList::Text(text) => params::mentions_json(text),
        TextOrList::List(blocks, _) => blocks
            .iter()
            .any(|block| matches!(block, Block::Text { text } if params::mentions_json(text))),
    };
    match message {
        Wire::System { content, .. } | Wire::User { content, .. } | Wire::Tool { content, .. } => {
            in_content(content)
        }
        Wire::Assistant { content, .. } => content.as_ref().is_some_and(in_content),
        Wire::LatestReminder { content } => params::mentions_json(content),
    }
}

/// Converts messages in order, keeping track of calls that wait for their results.
struct Messages<'o> {
    version: ModelVersion,
    image_token: &'o str,
    out: Vec<Message>,
    /// Ids of the last assistant message, and those of them not answered yet.
    expected: HashSet<String>,
    unanswered: usize,
    answered: HashSet<String>,
}

impl<'o> Messages<'o> {
    fn new(version: ModelVersion, options: &'o ConversionOptions) -> Self {
        Messages {
            version,
            image_token: options.special_tokens.get(SpecialToken::Image),
            out: Vec::new(),
            expected: HashSet::new(),
            unanswered: 0,
            answered: HashSet::new(),
        }
    }

    fn convert(mut self, messages: Vec<Wire>) -> Result<Vec<Message>> {
        if messages.is_empty() {
            return Err(ChatError::invalid("Empty input messages"));
        }
        for (i, message) in messages.into_iter().enumerate() {
            if !matches!(message, Wire::Tool { .. }) {
                self.check_all_answered()?;
            }
            let path = || format!(".messages[{i}]");
            match message {
                Wire::System { content, .. } => {
                    let (content, images) = self.content(content, &path)?;
                    if !content.is_empty() {
                        self.out.push(Message::System {
                            content,
                            images,
                            tools: None,
                        });
                    }
                }
                Wire::User { content, .. } => {
                    let (content, images) = self.content(content, &path)?;
                    self.out.push(Message::User { content, images });
                }
                Wire::LatestReminder { content } => {
                    self.out.push(Message::LatestReminder { content })
                }
                Wire::Assistant {
                    content,
                    reasoning_content,
                    tool_calls,
                    prefix,
                    ..
                } => {
                    let prefix = prefix.unwrap_or(false);
                    let content = self.assistant_content(content, tool_calls.is_some())?;
                    let tool_calls = tool_calls.map(|calls| self.calls(calls, i)).transpose()?;
                    self.out.push(Message::Assistant {
                        content,
                        reasoning_content,
                        tool_calls,
                        prefix,
                    });
                }
                Wire::Tool {
                    content,
                    tool_call_id,
                } => {
                    self.answer(&tool_call_id, i)?;
                    let (content, images) = self.content(content, &path)?;
                    self.out.push(Message::Tool {
                        content,
                        tool_call_id: Some(tool_call_id),
                        images,
                    });
                }
            }
        }
        self.check_all_answered()?;
        Ok(self.out)
    }

    fn content(
        &self,
        content: WireContent,
        path: &dyn Fn() -> String,
    ) -> Result<(
        crate::conversation::Content,
        Vec<crate::conversation::ImageSource>,
    )> {
        let blocks = match content {
            TextOrList::Text(text) => return Ok((text.into(), Vec::new())),
            TextOrList::List(blocks, _) => blocks,
        };
        let mut parts = Parts::default();
        for block in blocks {
            match block {
                Block::Text { text } => parts.text(&text),
                _ if !self.version.is_v41() => parts.text(UNSUPPORTED_IMAGE),
                Block::ImageUrl { image_url } => {
                    parts.image(
                        images::image_url(image_url.url, image_url.detail, &path())?,
                        self.image_token,
                    );
                }
                Block::File {
                    file_id, file_data, ..
                } => parts.image(
                    images::file_part(file_id, file_data, &path())?,
                    self.image_token,
                ),
            }
        }
        Ok(parts.finish())
    }

    fn assistant_content(&self, content: Option<WireContent>, has_calls: bool) -> Result<String> {
        let blocks = match content {
            None if !has_calls => {
                return Err(ChatError::invalid(
                    "Invalid assistant message: content or tool_calls must be set",
                ));
            }
            None => return Ok(String::new()),
            Some(TextOrList::Text(text)) => return Ok(text),
            Some(TextOrList::List(blocks, _)) => blocks,
        };
        let mut parts = Parts::default();
        for block in blocks {
            match block {
                Block::Text { text } => parts.text(&text),
                _ if !self.version.is_v41() => parts.text(UNSUPPORTED_IMAGE),
                _ => {
                    return Err(ChatError::invalid(
                        "Image in assistant message is not supported",
                    ))
                }
            }
        }
        Ok(parts.finish().0.text)
    }

    fn calls(
        &mut self,
        calls: Vec<ChatCompletionRequestToolCall>,
        i: usize,
    ) -> Result<Vec<ToolCall>> {
        if calls.is_empty() {
            return Err(ChatError::invalid(format!(
                "Invalid 'messages[{i}].tool_calls': empty array. Expected an array with minimum length 1, but got an \
                 empty array instead."
            )));
        }
        self.expected.clear();
        self.answered.clear();
        let mut out = Vec::with_capacity(calls.len());
        for call in calls {
            if !self.expected.insert(call.id.clone()) {
                return Err(duplicate_id(&call.id, i));
            }
            out.push(ToolCall {
                id: call.id,
                name: call.function.name,
                arguments: call.function.arguments,
            });
        }
        self.unanswered = out.len();
        Ok(out)
    }

    fn answer(&mut self, id: &str, i: usize) -> Result<()> {
        if self.unanswered == 0 {
            return Err(ChatError::invalid(
                "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            ));
        }
        if !self.expected.contains(id) {
            return Err(ChatError::invalid(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id', The following tool_call_ids did not have response messages: {id}"
            )));
        }
        if !self.answered.insert(id.to_owned()) {
            return Err(duplicate_id(id, i));
        }
        self.unanswered -= 1;
        Ok(())
    }

    fn check_all_answered(&self) -> Result<()> {
        if self.unanswered > 0 {
            return Err(ChatError::invalid(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. (insufficient tool messages following tool_calls message)",
            ));
        }
        Ok(())
    }
}

fn duplicate_id(id: &str, i: usize) -> ChatError {
    ChatError::invalid(format!(
        "Duplicate value for 'tool_call_id' of {id} in message[{i}]"
    ))
}
