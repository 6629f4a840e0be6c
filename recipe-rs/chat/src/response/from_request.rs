//! Generators for a converted request.

use super::call_id::Environment;
use super::echo::EchoJson;
use super::{ChatGenerator, MessagesGenerator, ResponsesGenerator};
use crate::inference::ConvertedRequest;
use crate::parse::recover::DeclaredTools;
use crate::request::responses::ResponsesTool;

impl ChatGenerator {
    /// The generator of the answer to `request`.
    pub fn for_request(
        request: &ConvertedRequest,
        id: String,
        model: String,
        environment: Box<dyn Environment>,
    ) -> Self {
        let thinking = request.conversation.thinking_mode;
        let stage = request.parsing_options.thinking_initial_stage;
        let starts_in_reasoning = stage.is_some_and(|s| s.starts_in_reasoning());
        let null_usage = !request.stream || request.include_usage;
        let mut generator = Self::new(
            id,
            model,
            thinking,
            starts_in_reasoning,
            null_usage,
            environment,
        );
        generator.declared_tools = Some(DeclaredTools::of_request(request));
        generator
    }
}

impl ResponsesGenerator {
    /// The generator of the answer to `request`, with its echo and namespaces.
    pub fn for_request(
        request: &ConvertedRequest,
        id: String,
        model: String,
        environment: Box<dyn Environment>,
    ) -> Self {
        let tools = request.echo.iter().flat_map(|e| e.tools.iter().flatten());
        let custom_tools = tools.filter_map(|tool| match tool {
            ResponsesTool::Custom(custom) => Some(custom.name.clone()),
            _ => None,
        });
        let thinking = request.conversation.thinking_mode;
        let mut generator = Self::new(id, model, thinking, custom_tools.collect(), environment)
            .with_namespaces(request.namespace_tool_map.clone());
        generator.declared_tools = Some(DeclaredTools::of_request(request));
        match &request.echo {
            Some(echo) => generator.with_echo(EchoJson::from(echo)),
            None => generator,
        }
    }
}

impl MessagesGenerator {
    /// The generator of the answer to `request`.
    pub fn for_request(
        request: &ConvertedRequest,
        id: String,
        model: String,
        environment: Box<dyn Environment>,
    ) -> Self {
        let thinking = request.conversation.thinking_mode;
        let mut generator = Self::new(id, model, thinking, environment);
        generator.declared_tools = Some(DeclaredTools::of_request(request));
        generator
    }
}
