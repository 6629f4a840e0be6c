//! Declared Responses tools: names, namespaces, and the tools that a search reveals.

use super::{
    ResponsesFunctionTool, ResponsesNamespace, ResponsesNamespaceTool, ResponsesTool,
    ToolSearchExecution,
};
use crate::error::{ChatError, Result};
use crate::model::ModelVersion;
use crate::options::{ConversionOptions, WebSearchBehavior};
use crate::request::tools::{check_name, DeclaredTool};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Refuses server tools.
pub(super) const SERVER_TOOLS: &str = "Server tools are not supported";

/// The tools of a request under the names that the model sees.
pub(super) struct Registry<'a> {
    version: ModelVersion,
    options: &'a ConversionOptions,
    /// In declaration order; revealed ones follow.
    pub(super) tools: Vec<DeclaredTool>,
    /// Names in use.
    taken: HashSet<String>,
    /// (namespace, local name) -> composed name.
    composed: HashMap<(String, String), String>,
    /// Composed name -> (namespace, local name), of declared tools only.
    pub(super) namespace_tool_map: BTreeMap<String, (String, String)>,
}

impl<'a> Registry<'a> {
    /// Check and register the declared tools.
    pub(super) fn declare(
        tools: &[ResponsesTool],
        version: ModelVersion,
        options: &'a ConversionOptions,
    ) -> Result<Registry<'a>> {
        let mut registry = Registry {
            version,
            options,
            tools: Vec::with_capacity(tools.len()),
            taken: HashSet::new(),
            composed: HashMap::new(),
            namespace_tool_map: BTreeMap::new(),
        };
        registry.add(tools, "tools", false)?;
        Ok(registry)
    }

    /// Register tools that a search output reveals; returns their names. `path` is the list's place.
    pub(super) fn reveal(&mut self, tools: &[ResponsesTool], path: &str) -> Result<Vec<String>> {
        let before = self.tools.len();
        self.add(tools, path, true)?;
        Ok(self.tools[before..]
            .iter()
            .map(|tool| tool.definition.name.clone())
            .collect())
    }

    /// The name under which a call of `name` in `namespace` is rendered.
    pub(super) fn call_name(&self, namespace: Option<String>, name: String) -> String {
        let Some(namespace) = namespace else {
            return name;
        };
        let key = (namespace, name);
        match self.composed.get(&key) {
            Some(composed) => composed.clone(),
            None => self.compose(&key.0, &key.1),
        }
    }

    fn compose(&self, namespace: &str, name: &str) -> String {
        let separator = if self.version.is_v41() { "::" } else { "__" };
        [namespace, separator, name].concat()
    }

    fn add(&mut self, tools: &[ResponsesTool], path: &str, is_revealed: bool) -> Result<()> {
        for tool in tools {
            if let Some(name) = self.top_level_name(tool) {
                self.taken.insert(name.to_owned());
            }
        }
        for (i, tool) in tools.iter().enumerate() {
            match tool {
                ResponsesTool::Function(function) => {
                    check_name(|| format!("{path}[{i}].name"), &function.name)?;
                    let name = function.name.clone();
                    let description = function.description.clone();
                    self.push(name, description, function, is_revealed);
                }
                ResponsesTool::Custom(custom) => {
                    if custom.name != "apply_patch" {
                        return Err(ChatError::invalid(format!(
                            "Unsupported custom tool: '{}'. Only 'apply_patch' is supported.",
                            custom.name
                        )));
                    }
                    self.tools
                        .push(DeclaredTool::apply_patch(self.version, is_revealed));
                }
                ResponsesTool::Namespace(namespace) => {
                    self.add_namespace(namespace, &format!("{path}[{i}]"), is_revealed)?;
                }
                ResponsesTool::WebSearch(_) | ResponsesTool::WebSearch20250826(_) => {
                    if self.options.responses_web_search == WebSearchBehavior::Reject {
                        return Err(ChatError::invalid(SERVER_TOOLS));
                    }
                }
                ResponsesTool::ToolSearch(search) => {
                    if self.is_client_search(search.execution) {
                        let description = search.description.clone();
                        let parameters = search.parameters.clone();
                        let name = "tool_search".to_owned();
                        self.tools.push(DeclaredTool::new(
                            name,
                            description,
                            parameters,
                            None,
                            is_revealed,
                        ));
                    }
                }
                ResponsesTool::Unsupported => {}
            }
        }
        Ok(())
    }

    fn is_client_search(&self, execution: Option<ToolSearchExecution>) -> bool {
        self.version.is_v41() && execution == Some(ToolSearchExecution::Client)
    }

    fn top_level_name<'t>(&self, tool: &'t ResponsesTool) -> Option<&'t str> {
        match tool {
            ResponsesTool::Function(function) => Some(&function.name),
            ResponsesTool::Custom(custom) => Some(&custom.name),
            ResponsesTool::ToolSearch(search) if self.is_client_search(search.execution) => {
                Some("tool_search")
            }
            _ => None,
        }
    }

    fn push(
        &mut self,
        name: String,
        description: Option<String>,
        tool: &ResponsesFunctionTool,
        is_revealed: bool,
    ) {
        self.tools.push(DeclaredTool::new(
            name,
            description,
            tool.parameters.clone(),
            tool.strict,
            is_revealed,
        ));
    }

    fn add_namespace(
        &mut self,
        namespace: &ResponsesNamespace,
        path: &str,
        is_revealed: bool,
    ) -> Result<()> {
        check_name(|| format!("{path}.name"), &namespace.name)?;
        let mut local_names = HashSet::new();
        for (j, tool) in namespace.tools.iter().enumerate() {
            let function = match tool {
                ResponsesNamespaceTool::Function(function) => function,
                ResponsesNamespaceTool::Custom(custom) => {
                    return Err(ChatError::invalid(format!(
                        "Currently custom tools are not allowed inside a namespace. Found custom tool '{}' in \
                         {path}.tools[{j}].",
                        custom.name
                    )));
                }
            };
            check_name(|| format!("{path}.tools[{j}].name"), &function.name)?;
            if !local_names.insert(&function.name) {
                return Err(ChatError::invalid(
                    "Tool names within a namespace must be unique.",
                ));
            }
            let name = self.free_name(self.compose(&namespace.name, &function.name));
            let key = (namespace.name.clone(), function.name.clone());
            if !is_revealed {
                self.namespace_tool_map.insert(name.clone(), key.clone());
            }
            self.composed.entry(key).or_insert_with(|| name.clone());
            let description = self.namespace_description(namespace, function);
            self.push(name, description, function, is_revealed);
        }
        Ok(())
    }

    fn namespace_description(
        &self,
        namespace: &ResponsesNamespace,
        tool: &ResponsesFunctionTool,
    ) -> Option<String> {
        match namespace.description.as_deref() {
            Some(text) if self.version.is_v41() && !text.is_empty() => {
                Some([text, "\n", tool.description.as_deref().unwrap_or("")].concat())
            }
            _ => tool.description.clone(),
        }
    }

    /// `name`, or the first of `name_1`, `name_2`, … that is not in use; taken from now on.
    fn free_name(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut n = 0;
        while !self.taken.insert(free.clone()) {
            n += 1;
            free = format!("{name}_{n}");
        }
        free
    }
}
