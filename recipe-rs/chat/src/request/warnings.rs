//! What a request said and conversion does not honour: fields that decoding ignores, and fields that are
//! read but have no effect. A `null` says nothing and is not reported.

use crate::json::{Number, Object, Value};

/// So many are listed; a last one counts the rest.
const MAX_WARNINGS: usize = 256;

/// One field that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands in the body, as a JSON pointer.
    pub pointer: String,
    /// Why it has no effect.
    pub reason: String,
}

impl Warning {
    /// A warning about the field at `pointer`.
    pub(crate) fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Warning {
        Warning {
            pointer: pointer.into(),
            reason: reason.into(),
        }
    }
}

/// The fields of one kind of object: those honoured, and those known to be without effect.
struct Fields {
    honoured: &'static [&'static str],
    ignored: &'static [(&'static str, &'static str)],
}

const UNKNOWN: &str = "not a field of this request; ignored";
const PENALTY: &str = "penalties have no effect on this model";
const PARALLEL: &str = "the number of calls per turn is not limited";
const SERVICE: &str = "concerns the hosted service; ignored";
const STATELESS: &str = "requests are stateless; ignored";
const CACHE: &str = "prompt caching needs no hints; ignored";

const DOCUMENT: &str = "documents become a placeholder text";
/// Given for every image while a body is decoded; conversion for V4.1, which sees images, takes it back.
pub(crate) const IMAGE_UNSEEN: &str =
    "this model sees no images; a placeholder text takes its place";

const CHAT: Fields = Fields {
    honoured: &[
        "messages",
        "model",
        "logprobs",
        "top_logprobs",
        "max_tokens",
        "n",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "response_format",
        "tools",
        "tool_choice",
        "reasoning_effort",
        "thinking",
        "frequency_penalty",
        "presence_penalty",
        "parallel_tool_calls",
    ],
    ignored: &[
        ("max_completion_tokens", "use max_tokens; ignored"),
        ("user", SERVICE),
        ("user_id", SERVICE),
        ("store", SERVICE),
        ("metadata", SERVICE),
        ("service_tier", SERVICE),
        ("safety_identifier", SERVICE),
        ("prompt_cache_key", CACHE),
        ("logit_bias", "token biases are not supported; ignored"),
        ("top_k", "not a sampling parameter of this API; ignored"),
        ("functions", "use tools; ignored"),
        ("function_call", "use tool_choice; ignored"),
        ("reasoning", "use reasoning_effort or thinking; ignored"),
        ("verbosity", "has no effect on this model"),
        ("modalities", "only text is produced; ignored"),
        ("audio", "only text is produced; ignored"),
        ("prediction", "predicted outputs are not supported; ignored"),
        ("web_search_options", "web search is not supported; ignored"),
    ],
};
const NAME: &[(&str, &str)] = &[("name", "names of participants are not shown to the model")];
const CHAT_MESSAGE: Fields = Fields {
    honoured: &["role", "content"],
    ignored: NAME,
};
const CHAT_ASSISTANT: Fields = Fields {
    honoured: &[
        "role",
        "content",
        "reasoning_content",
        "tool_calls",
        "prefix",
    ],
    ignored: &[
        ("name", "names of participants are not shown to the model"),
        ("refusal", "refusals are not shown to the model"),
        ("audio", "only text is read; ignored"),
        ("function_call", "use tool_calls; ignored"),
        ("annotations", "annotations are not shown to the model"),
    ],
};
const CHAT_TOOL: Fields = Fields {
    honoured: &["role", "content", "tool_call_id"],
    ignored: NAME,
};
const CHAT_PART: Fields = Fields {
    honoured: &["type", "text", "image_url", "file_id", "file_data"],
    ignored: &[
        ("filename", "file names are not shown to the model"),
        ("cache_control", CACHE),
        (
            "file",
            "file_id and file_data belong to the part itself; ignored",
        ),
    ],
};
const CHAT_FUNCTION_TOOL: Fields = Fields {
    honoured: &["type", "function"],
    ignored: &[(
        "defer_loading",
        "tools are never deferred in Chat Completions",
    )],
};
const FUNCTION: Fields = Fields {
    honoured: &["name", "description", "parameters", "strict"],
    ignored: &[],
};
const CHAT_CALL: Fields = Fields {
    honoured: &["id", "type", "function"],
    ignored: &[("index", "order decides")],
};
const THINKING: Fields = Fields {
    honoured: &["type"],
    ignored: &[("budget_tokens", "reasoning has no budget of its own")],
};
const JSON_SCHEMA: Fields = Fields {
    honoured: &["schema", "strict"],
    ignored: &[
        ("name", "the schema's name is not shown"),
        ("description", "the schema's description is not shown"),
    ],
};

const RESPONSES: Fields = Fields {
    honoured: &[
        "model",
        "input",
        "instructions",
        "max_output_tokens",
        "reasoning",
        "stream",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    ],
    ignored: &[
        ("previous_response_id", STATELESS),
        ("conversation", STATELESS),
        ("store", STATELESS),
        ("background", STATELESS),
        ("metadata", SERVICE),
        ("include", "extra output is not supported; ignored"),
        ("prompt", "prompt templates are not supported; ignored"),
        (
            "truncation",
            "a context that is too long is refused, never cut",
        ),
        ("parallel_tool_calls", PARALLEL),
        ("max_tool_calls", PARALLEL),
        ("service_tier", SERVICE),
        ("safety_identifier", SERVICE),
        ("prompt_cache_key", CACHE),
        ("prompt_cache_retention", CACHE),
        ("context_management", STATELESS),
        ("stream_options", "events are not padded; ignored"),
        ("seed", "not a parameter of this API; ignored"),
        ("stop", "not a parameter of this API; ignored"),
        ("thinking", "use reasoning.effort; ignored"),
        ("max_tokens", "use max_output_tokens; ignored"),
    ],
};
const RESPONSES_REASONING: Fields = Fields {
    honoured: &["effort"],
    ignored: &[
        ("summary", "reasoning is returned whole, not summarised"),
        (
            "generate_summary",
            "reasoning is returned whole, not summarised",
        ),
    ],
};
const RESPONSES_TEXT: Fields = Fields {
    honoured: &["format"],
    ignored: &[("verbosity", "has no effect on this model")],
};

const MESSAGES: Fields = Fields {
    honoured: &[
        "model",
        "messages",
        "system",
        "max_tokens",
        "temperature",
        "top_p",
        "stop_sequences",
        "stream",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
    ],
    ignored: &[
        ("metadata", SERVICE),
        ("top_k", "not a sampling parameter of this API; ignored"),
        ("service_tier", SERVICE),
        ("container", "code execution is not supported; ignored"),
        ("mcp_servers", "tool servers are not supported; ignored"),
        ("context_management", STATELESS),
    ],
};
const MESSAGES_MESSAGE: Fields = Fields {
    honoured: &["role", "content"],
    ignored: &[],
};
const MESSAGES_BLOCK: Fields = Fields {
    honoured: &[
        "type",
        "text",
        "source",
        "thinking",
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "tool",
        "tool_name",
    ],
    ignored: &[
        ("cache_control", CACHE),
        ("citations", "citations are not supported; ignored"),
        ("signature", "signatures are not checked"),
        (
            "is_error",
            "the model is not told that a result is an error",
        ),
        ("title", "document titles are not shown to the model"),
        ("context", "document contexts are not shown to the model"),
    ],
};
const MESSAGES_TOOL: Fields = Fields {
    honoured: &[
        "name",
        "description",
        "input_schema",
        "defer_loading",
        "type",
    ],
    ignored: &[
        ("cache_control", CACHE),
        (
            "strict",
            "strict tools are not a feature of this API; ignored",
        ),
    ],
};
const MESSAGES_CHOICE: Fields = Fields {
    honoured: &["type", "name"],
    ignored: &[("disable_parallel_tool_use", PARALLEL)],
};
const OUTPUT_CONFIG: Fields = Fields {
    honoured: &["effort"],
    ignored: &[(
        "format",
        "Messages has no response format; the answer is not constrained",
    )],
};

/// Collects warnings while walking a body.
#[derive(Default)]
struct Walk {
    warnings: Vec<Warning>,
    omitted: usize,
}

impl Walk {
    fn warn(&mut self, pointer: String, reason: &str) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning::new(pointer, reason));
        } else {
            self.omitted += 1;
        }
    }

    /// Report the fields of `object` without effect; `place` is its pointer.
    fn fields(&mut self, object: &Object, fields: &Fields, place: &dyn Fn() -> String) {
        for (key, value) in object.iter() {
            if fields.honoured.contains(&key) || value.is_null() {
                continue;
            }
            let reason = fields
                .ignored
                .iter()
                .find(|(name, _)| *name == key)
                .map_or(UNKNOWN, |(_, reason)| *reason);
            self.warn(
                format!("{}/{}", place(), key.replace('~', "~0").replace('/', "~1")),
                reason,
            );
        }
    }

    fn member(&mut self, object: &Object, key: &str, fields: &Fields) {
        if let Some(Value::Object(member)) = object.get(key) {
            self.fields(member, fields, &|| format!("/{key}"));
        }
    }

    fn finish(mut self) -> Vec<Warning> {
        if self.omitted > 0 {
            self.warnings.push(Warning::new(
                "",
                format!("{} more fields are ignored", self.omitted),
            ));
        }
        self.warnings
    }
}

fn objects(value: Option<&Value>) -> impl Iterator<Item = (usize, &Object)> {
    let items = value.and_then(Value::as_array).unwrap_or(&[]);
    items
        .iter()
        .enumerate()
        .filter_map(|(i, item)| item.as_object().map(|object| (i, object)))
}

fn kind<'v>(object: &'v Object, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Number(Number::U64(0))) || *value == Value::Number(Number::F64(0.0))
}

/// Fields of a Chat Completions body that have no effect.
pub(crate) fn ignored_chat(body: &Value) -> Vec<Warning> {
    let Value::Object(root) = body else {
        return Vec::new();
    };
    let mut walk = Walk::default();
    walk.fields(root, &CHAT, &String::new);
    for name in ["frequency_penalty", "presence_penalty"] {
        if root
            .get(name)
            .is_some_and(|value| !value.is_null() && !is_zero(value))
        {
            walk.warn(format!("/{name}"), PENALTY);
        }
    }
    if root.get("parallel_tool_calls") == Some(&Value::Bool(false)) {
        walk.warn("/parallel_tool_calls".to_owned(), PARALLEL);
    }
    walk.member(root, "thinking", &THINKING);
    if let Some(Value::Object(format)) = root.get("response_format") {
        if let Some(Value::Object(schema)) = format.get("json_schema") {
            walk.fields(schema, &JSON_SCHEMA, &|| {
                "/response_format/json_schema".to_owned()
            });
        }
    }
    for (i, message) in objects(root.get("messages")) {
        let fields = match kind(message, "role") {
            "assistant" => &CHAT_ASSISTANT,
            "tool" => &CHAT_TOOL,
            _ => &CHAT_MESSAGE,
        };
        walk.fields(message, fields, &|| format!("/messages/{i}"));
        for (j, part) in objects(message.get("content")) {
            walk.fields(part, &CHAT_PART, &|| format!("/messages/{i}/content/{j}"));
            if matches!(kind(part, "type"), "image_url" | "file") {
                walk.warn(format!("/messages/{i}/content/{j}"), IMAGE_UNSEEN);
            }
        }
        for (j, call) in objects(message.get("tool_calls")) {
            walk.fields(call, &CHAT_CALL, &|| {
                format!("/messages/{i}/tool_calls/{j}")
            });
        }
    }
    for (i, tool) in objects(root.get("tools")) {
        walk.fields(tool, &CHAT_FUNCTION_TOOL, &|| format!("/tools/{i}"));
        if let Some(Value::Object(function)) = tool.get("function") {
            walk.fields(function, &FUNCTION, &|| format!("/tools/{i}/function"));
        }
    }
    walk.finish()
}

/// Fields, items and tools of a Responses body that have no effect.
pub(crate) fn ignored_responses(body: &Value) -> Vec<Warning> {
    let Value::Object(root) = body else {
        return Vec::new();
    };
    let mut walk = Walk::default();
    walk.fields(root, &RESPONSES, &String::new);
    walk.member(root, "reasoning", &RESPONSES_REASONING);
    walk.member(root, "text", &RESPONSES_TEXT);
    for (i, item) in objects(root.get("input")) {
        response_item(&mut walk, item, i);
    }
    for (i, tool) in objects(root.get("tools")) {
        response_tool(&mut walk, tool, &|| format!("/tools/{i}"));
    }
    walk.finish()
}

fn response_item(walk: &mut Walk, item: &Object, i: usize) {
    let place = || format!("/input/{i}");
    match kind(item, "type") {
        "" | "message" => {
            response_blocks(walk, item, i, "content");
        }
        "function_call_output" | "custom_tool_call_output" => {
            response_blocks(walk, item, i, "output");
        }
        "function_call" | "custom_tool_call" | "tool_search_call" | "tool_search_output" => {}
        "reasoning" => {
            for key in ["summary", "encrypted_content"] {
                let says_something = item.get(key).is_some_and(|value| {
                    !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
                });
                if says_something && item.get("content").is_none_or(Value::is_null) {
                    walk.warn(
                        format!("/input/{i}/{key}"),
                        "only plain reasoning content is read",
                    );
                }
            }
        }
        _ => walk.warn(place(), "items of this type are ignored"),
    }
}

fn response_blocks(walk: &mut Walk, item: &Object, i: usize, key: &str) {
    for (j, block) in objects(item.get(key)) {
        let reason = match kind(block, "type") {
            "input_file" => "files become a placeholder text",
            "input_image" => IMAGE_UNSEEN,
            _ => continue,
        };
        walk.warn(format!("/input/{i}/{key}/{j}"), reason);
    }
}

fn response_tool(walk: &mut Walk, tool: &Object, place: &dyn Fn() -> String) {
    let at = |key: &str| format!("{}/{key}", place());
    match kind(tool, "type") {
        "function" => {
            if tool.get("defer_loading") == Some(&Value::Bool(true)) {
                walk.warn(at("defer_loading"), "declared tools are always shown");
            }
        }
        "custom" => {
            for key in ["description", "format"] {
                if tool.get(key).is_some_and(|value| !value.is_null()) {
                    walk.warn(at(key), "apply_patch has a fixed definition");
                }
            }
        }
        "namespace" => {
            for (j, inner) in objects(tool.get("tools")) {
                response_tool(walk, inner, &|| format!("{}/tools/{j}", place()));
            }
        }
        "web_search" | "web_search_2025_08_26" => {
            walk.warn(place(), "web search is not run; the tool is dropped")
        }
        "tool_search" if kind(tool, "execution") == "client" => {}
        _ => walk.warn(place(), "tools of this type are ignored"),
    }
}

/// Fields of a Messages body that have no effect.
pub(crate) fn ignored_messages(body: &Value) -> Vec<Warning> {
    let Value::Object(root) = body else {
        return Vec::new();
    };
    let mut walk = Walk::default();
    walk.fields(root, &MESSAGES, &String::new);
    walk.member(root, "thinking", &THINKING);
    walk.member(root, "output_config", &OUTPUT_CONFIG);
    walk.member(root, "tool_choice", &MESSAGES_CHOICE);
    if let Some(Value::Object(choice)) = root.get("tool_choice") {
        if kind(choice, "type") == "any" {
            walk.warn(
                "/tool_choice/type".to_owned(),
                "`any` reads as `auto`: a call is not enforced",
            );
        }
    }
    for (i, block) in objects(root.get("system")) {
        walk.fields(block, &MESSAGES_BLOCK, &|| format!("/system/{i}"));
    }
    for (i, message) in objects(root.get("messages")) {
        walk.fields(message, &MESSAGES_MESSAGE, &|| format!("/messages/{i}"));
        for (j, block) in objects(message.get("content")) {
            let place = || format!("/messages/{i}/content/{j}");
            walk.fields(block, &MESSAGES_BLOCK, &place);
            match kind(block, "type") {
                "document" => walk.warn(place(), DOCUMENT),
                "image" => walk.warn(place(), IMAGE_UNSEEN),
                "tool_result" => {
                    for (k, inner) in objects(block.get("content")) {
                        let inside = || format!("{}/content/{k}", place());
                        walk.fields(inner, &MESSAGES_BLOCK, &inside);
                        match kind(inner, "type") {
                            "document" => walk.warn(inside(), DOCUMENT),
                            "image" => walk.warn(inside(), IMAGE_UNSEEN),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
    for (i, tool) in objects(root.get("tools")) {
        if tool.get("type").is_none() {
            walk.fields(tool, &MESSAGES_TOOL, &|| format!("/tools/{i}"));
        } else {
            walk.warn(
                format!("/tools/{i}"),
                "server tools are not run; the tool is dropped",
            );
        }
    }
    walk.finish()
}
