//! Conversion to a conversation.

use super::blocks::{Assembly, Entry};
use super::{MessagesBody, MessagesSystemBlock, MessagesTool, MessagesToolChoice};
use crate::conversation::{
    Content, Conversation, Message, ResponseFormat, ToolChoice, ToolDefinition,
};
use crate::error::{ChatError, Result};
use crate::inference::{ConvertedRequest, InferenceOptions, ParsingOptions, ThinkingInitialStage};
use crate::model::ModelVersion;
use crate::options::{ConversionOptions, WebSearchBehavior};
use crate::request::common::{StringOrList, TextOrList};
use crate::request::effects::{self, Requested};
use crate::request::tools::{self, CheckedFormat, Choice, DeclaredTool};
use crate::request::{params, reasoning};

const BILLING_HEADER: &str = "x-anthropic-billing-header";

impl MessagesBody {
    /// Check the request and turn it into a conversation with its options.
    ///
    /// # Errors
    /// [`ChatError::Conversion`], the first problem in the order of the official checks.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConvertedRequest> {
        let MessagesBody {
            body,
            ignored: mut warnings,
        } = self;
        let version = params::model_version(&body.model, options)?;
        let declared = Declared::new(body.tools.unwrap_or_default(), version, options)?;
        let effort = body.output_config.as_ref().and_then(|c| c.effort);
        let thinking = params::thinking(body.thinking.as_ref().map(|t| t.kind), effort, options);
        if body.messages.is_empty() {
            return Err(ChatError::invalid(
                "messages: at least one message is required",
            ));
        }
        let mut entries = Vec::with_capacity(body.messages.len() + 1);
        if let Some(system) = body.system {
            entries.push(Entry::Message(Message::system(system_text(system))));
        }
        entries.extend(Assembly::new(version, options, &declared.tools).assemble(body.messages)?);

        let lists_tools = !declared.tools.is_empty();
        let sent = entries.iter().filter_map(Entry::message);
        reasoning::require(
            sent,
            thinking.on,
            lists_tools,
            "content[].thinking",
            options,
        )?;
        let tool_choice_given = matches!(
            body.tool_choice,
            Some(MessagesToolChoice::Any { .. } | MessagesToolChoice::Tool { .. })
        );
        let choice = declared.choice(body.tool_choice);
        let selected = tools::select(declared.tools, choice, thinking.on)?;
        let definitions: Vec<_> = selected
            .tools
            .iter()
            .map(|tool| tool.definition.clone())
            .collect();
        let mut messages = resolve_entries(entries, &definitions);
        let dropped_reasoning = reasoning::settle(&mut messages, thinking.on);

        let stop_sequences = params::stop_sequences(body.stop_sequences.unwrap_or_default())?;
        let temperature = params::temperature(body.temperature, thinking.on)?;
        let top_p = params::top_p(body.top_p, version, thinking.on, !selected.tools.is_empty())?;
        let bound = params::max_tokens_bound(options, thinking.on);
        let max_tokens = params::max_tokens(body.max_tokens, bound, true)?;
        let format = CheckedFormat::plain(ResponseFormat::Text);
        let (output_constraint, enforced_constraint) = tools::constraints(&selected, &format);

        let conversation = Conversation {
            messages,
            thinking_mode: thinking.on,
            tools: definitions,
            tool_choice: selected.choice,
            reasoning_effort: thinking.effort,
            response_format: ResponseFormat::Text,
        };
        let requested = Requested {
            temperature: body.temperature,
            top_p: body.top_p,
            tool_choice_given,
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
            parse_json_output: false,
            thinking_initial_stage: thinking.on.then_some(ThinkingInitialStage::ReasoningStart),
            stop_sequences,
            special_tokens: options.special_tokens.clone(),
            ..ParsingOptions::default()
        };
        Ok(ConvertedRequest {
            inference_options: InferenceOptions {
                max_tokens,
                temperature: Some(temperature),
                top_p: Some(top_p),
                logprobs: false,
                top_logprobs: None,
                seed: None,
                output_constraint,
            },
            parsing_options,
            stream: body.stream.unwrap_or(false),
            enforced_constraint,
            warnings,
            ..ConvertedRequest::from_conversation(conversation, version)
        })
    }
}

fn system_text(system: TextOrList<MessagesSystemBlock, StringOrList>) -> String {
    let blocks = match system {
        TextOrList::Text(text) => return text,
        TextOrList::List(blocks, _) => blocks,
    };
    let mut texts: Vec<String> = blocks
        .into_iter()
        .map(|MessagesSystemBlock::Text { text }| text)
        .collect();
    let is_billing = |text: &String| {
        text.as_bytes()
            .get(..BILLING_HEADER.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(BILLING_HEADER.as_bytes()))
    };
    if texts.first().is_some_and(is_billing) {
        texts.remove(0);
    }
    texts.join("\n\n")
}

/// The declared tools.
struct Declared {
    tools: Vec<DeclaredTool>,
    /// Names of web-search tools that were dropped.
    dropped: Vec<String>,
}

impl Declared {
    fn new(
        tools: Vec<MessagesTool>,
        version: ModelVersion,
        options: &ConversionOptions,
    ) -> Result<Declared> {
        let mut declared = Declared {
            tools: Vec::with_capacity(tools.len()),
            dropped: Vec::new(),
        };
        for (i, tool) in tools.into_iter().enumerate() {
            match tool {
                MessagesTool::Server { kind, name } => {
                    let drops = options.messages_web_search == WebSearchBehavior::Drop;
                    if !(drops && kind.starts_with("web_search")) {
                        return Err(ChatError::invalid(format!(
                            "tools[{i}]: server tools are not supported"
                        )));
                    }
                    declared
                        .dropped
                        .push(name.unwrap_or_else(|| "web_search".to_owned()));
                }
                MessagesTool::Client {
                    name,
                    description,
                    input_schema,
                    defer_loading,
                } => {
                    tools::check_name(|| format!("tools[{i}].name"), &name)?;
                    let deferred = version.is_v41() && defer_loading == Some(true);
                    let mut tool =
                        DeclaredTool::new(name, description, input_schema, None, deferred);
                    // A null schema is checked, and refused, like any other.
                    tool.has_parameters = true;
                    declared.tools.push(tool);
                }
            }
        }
        if !declared.tools.is_empty()
            && declared
                .tools
                .iter()
                .all(|tool| tool.definition.defer_loading)
        {
            return Err(ChatError::invalid(
                "tools: at least one tool must have defer_loading=false. All tools cannot be deferred.",
            ));
        }
        Ok(declared)
    }

    fn choice(&self, requested: Option<MessagesToolChoice>) -> Choice {
        match requested {
            None | Some(MessagesToolChoice::Auto { .. } | MessagesToolChoice::Any { .. }) => {
                Choice::Auto
            }
            Some(MessagesToolChoice::None) => Choice::None,
            Some(MessagesToolChoice::Tool { name, .. }) if self.dropped.contains(&name) => {
                Choice::Auto
            }
            Some(MessagesToolChoice::Tool { name, .. }) => Choice::Named(name),
        }
    }
}

/// Replace revealed names by the definitions still listed; a message without text or tools disappears.
fn resolve_entries(entries: Vec<Entry>, tools: &[ToolDefinition]) -> Vec<Message> {
    let mut messages = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry {
            Entry::Message(message) => messages.push(message),
            Entry::Revealing {
                content,
                images,
                names,
            } => {
                let listed: Vec<ToolDefinition> = names
                    .iter()
                    .filter_map(|name| tools.iter().find(|tool| tool.name == *name).cloned())
                    .collect();
                if listed.is_empty() && Content::is_empty(&content) {
                    continue;
                }
                let tools = Some(listed);
                messages.push(Message::System {
                    content,
                    images,
                    tools,
                });
            }
        }
    }
    messages
}
