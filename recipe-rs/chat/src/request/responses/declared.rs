//! Declared Responses tools: names, namespaces, and the tools that a search reveals.

use super::{
    ResponsesFunctionTool, ResponsesInputItem, ResponsesNamespace, ResponsesNamespaceTool,
    ResponsesTool, ResponsesTypedItem, ToolSearchExecution,
};
use crate::error::{ChatError, Result};
use crate::model::ModelVersion;
use crate::options::{ConversionOptions, WebSearchBehavior};
use crate::request::tools::{check_name, DeclaredTool};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

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
    /// Composed names not yet given to a tool, in order.
    names: VecDeque<String>,
    /// Index of a search output -> names of the tools it reveals.
    revealed: HashMap<usize, Vec<String>>,
    /// Composed name -> (namespace, local name), of declared tools only.
    pub(super) namespace_tool_map: BTreeMap<String, (String, String)>,
}

impl<'a> Registry<'a> {
    /// Check and compose the names of the declared tools.
    pub(super) fn new(
        tools: &[ResponsesTool],
        version: ModelVersion,
        options: &'a ConversionOptions,
    ) -> Result<Self> {
        let mut registry = Registry {
            version,
            options,
            tools: Vec::with_capacity(tools.len()),
            taken: HashSet::new(),
            composed: HashMap::new(),
            names: VecDeque::new(),
            revealed: HashMap::new(),
            namespace_tool_map: BTreeMap::new(),
        };
        registry.check_names(tools, "tools")?;
        registry.compose_names(tools, true);
        Ok(registry)
    }

    /// Register the declared tools.
    pub(super) fn declare(&mut self, tools: &[ResponsesTool]) -> Result<()> {
        self.add(tools, false)
    }

    /// Check and register the tools that search outputs reveal.
    pub(super) fn reveal(&mut self, items: &[ResponsesInputItem]) -> Result<()> {
        let outputs: Vec<(usize, &[ResponsesTool])> = items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| match item {
                ResponsesInputItem::Item(item) => match &**item {
                    ResponsesTypedItem::ToolSearchOutput { tools, .. } => {
                        Some((i, tools.as_slice()))
                    }
                    _ => None,
                },
                ResponsesInputItem::Message(_) => None,
            })
            .collect();
        for (i, tools) in &outputs {
            self.check_names(tools, &format!("input[{i}].tools"))?;
            self.compose_names(tools, false);
        }
        for (i, tools) in outputs {
            let before = self.tools.len();
            self.add(tools, true)?;
            let names = self.tools[before..]
                .iter()
                .map(|tool| tool.definition.name.clone())
                .collect();
            self.revealed.insert(i, names);
        }
        Ok(())
    }

    /// Names of the tools that the search output at item `i` reveals.
    pub(super) fn revealed_by(&self, i: usize) -> Vec<String> {
        self.revealed.get(&i).cloned().unwrap_or_default()
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

    fn check_names(&self, tools: &[ResponsesTool], path: &str) -> Result<()> {
        for (i, tool) in tools.iter().enumerate() {
            match tool {
                ResponsesTool::Function(function) => {
                    check_name(|| format!("{path}[{i}].name"), &function.name)?
                }
                ResponsesTool::Namespace(namespace) => {
                    check_namespace(namespace, &format!("{path}[{i}]"))?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compose the names of namespace tools, in order, apart from all names in use.
    fn compose_names(&mut self, tools: &[ResponsesTool], is_declared: bool) {
        for tool in tools {
            if let Some(name) = self.top_level_name(tool) {
                self.taken.insert(name.to_owned());
            }
        }
        for tool in tools {
            let ResponsesTool::Namespace(namespace) = tool else {
                continue;
            };
            for function in namespace.functions() {
                let name = self.free_name(self.compose(&namespace.name, &function.name));
                let key = (namespace.name.clone(), function.name.clone());
                if is_declared {
                    self.namespace_tool_map.insert(name.clone(), key.clone());
                }
                self.composed.entry(key).or_insert_with(|| name.clone());
                self.names.push_back(name);
            }
        }
    }

    fn add(&mut self, tools: &[ResponsesTool], is_revealed: bool) -> Result<()> {
        for tool in tools {
            match tool {
                ResponsesTool::Function(function) => {
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
                    for function in namespace.functions() {
                        let name = self.names.pop_front().unwrap_or_default();
                        let description = self.namespace_description(namespace, function);
                        self.push(name, description, function, is_revealed);
                    }
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

/// A namespace holds functions only, with names of their own.
fn check_namespace(namespace: &ResponsesNamespace, path: &str) -> Result<()> {
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
    }
    Ok(())
}

impl ResponsesNamespace {
    /// Its functions, in order.
    fn functions(&self) -> impl Iterator<Item = &ResponsesFunctionTool> {
        self.tools.iter().filter_map(|tool| match tool {
            ResponsesNamespaceTool::Function(function) => Some(function),
            ResponsesNamespaceTool::Custom(_) => None,
        })
    }
}
