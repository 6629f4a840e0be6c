//! `GrammarTree` (a grammar built node by node) and the step from grammar text or tree to `CompiledGrammar`.

use offseek_grammar::ebnf::{self, AnyOrder, JsonForm, Node, NodeIx, RuleIx, UNBOUNDED};
use offseek_grammar::json_schema::Settings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::compile::{budget, compiled, CancelToken};
use super::errors::grammar_error;
use super::matcher::CompiledGrammar;
use super::vocab::Vocabulary;

/// Rules over nodes; every method that makes a node returns its number.
#[pyclass(name = "GrammarTree", module = "offseek._native")]
#[derive(Default)]
pub(crate) struct GrammarTree {
    tree: ebnf::Tree,
}

impl GrammarTree {
    fn push(&mut self, py: Python<'_>, node: Node) -> PyResult<NodeIx> {
        self.tree
            .push(node, 0..0)
            .map_err(|e| grammar_error(py, &e))
    }
}

#[pymethods]
impl GrammarTree {
    #[new]
    fn new() -> Self {
        GrammarTree::default()
    }

    #[pyo3(signature = (text, /))]
    fn literal(&mut self, py: Python<'_>, text: String) -> PyResult<NodeIx> {
        self.push(py, Node::Literal(text))
    }

    #[pyo3(signature = (pattern, flags = String::new(), /))]
    fn pattern(&mut self, py: Python<'_>, pattern: String, flags: String) -> PyResult<NodeIx> {
        self.push(py, Node::Pattern { pattern, flags })
    }

    #[pyo3(signature = (ranges, negated = false, /))]
    fn char_class(
        &mut self,
        py: Python<'_>,
        ranges: Vec<(char, char)>,
        negated: bool,
    ) -> PyResult<NodeIx> {
        self.push(py, Node::Class { negated, ranges })
    }

    #[pyo3(signature = (schema, form = "value", context = String::new(), /))]
    fn json(
        &mut self,
        py: Python<'_>,
        schema: String,
        form: &str,
        context: String,
    ) -> PyResult<NodeIx> {
        let form = match form {
            "value" => JsonForm::Value,
            "value_or_nothing" => JsonForm::ValueOrNothing,
            "raw_string" => JsonForm::RawString,
            _ => return Err(PyValueError::new_err(format!("unknown form {form:?}"))),
        };
        self.push(
            py,
            Node::Json {
                schema,
                form,
                context,
            },
        )
    }

    #[pyo3(signature = (token_id, /))]
    fn special(&mut self, py: Python<'_>, token_id: u32) -> PyResult<NodeIx> {
        self.push(py, Node::Special(token_id))
    }

    #[pyo3(signature = (parts, /))]
    fn seq(&mut self, py: Python<'_>, parts: Vec<NodeIx>) -> PyResult<NodeIx> {
        self.push(py, Node::Seq(parts))
    }

    #[pyo3(signature = (parts, /))]
    fn alt(&mut self, py: Python<'_>, parts: Vec<NodeIx>) -> PyResult<NodeIx> {
        self.push(py, Node::Alt(parts))
    }

    #[pyo3(signature = (body, minimum, maximum, /))]
    fn repeat(
        &mut self,
        py: Python<'_>,
        body: NodeIx,
        minimum: u32,
        maximum: Option<u32>,
    ) -> PyResult<NodeIx> {
        self.push(
            py,
            Node::Repeat(body, minimum, maximum.unwrap_or(UNBOUNDED)),
        )
    }

    #[pyo3(signature = (node, without, /))]
    fn minus(&mut self, py: Python<'_>, node: NodeIx, without: NodeIx) -> PyResult<NodeIx> {
        self.push(py, Node::Minus(node, without))
    }

    #[pyo3(signature = (node, /))]
    fn shortest(&mut self, py: Python<'_>, node: NodeIx) -> PyResult<NodeIx> {
        self.push(py, Node::Shortest(node))
    }

    #[pyo3(signature = (items, required, dependent, minimum, maximum, context, /))]
    fn any_order(
        &mut self,
        py: Python<'_>,
        items: Vec<NodeIx>,
        required: Vec<u32>,
        dependent: Vec<(u32, Vec<u32>)>,
        minimum: u32,
        maximum: Option<u32>,
        context: String,
    ) -> PyResult<NodeIx> {
        let rule = AnyOrder {
            required,
            dependent,
            min: minimum,
            max: maximum.unwrap_or(u32::MAX),
        };
        self.push(
            py,
            Node::AnyOrder {
                items,
                rule,
                context,
            },
        )
    }

    #[pyo3(signature = (rule, /))]
    fn rule(&mut self, py: Python<'_>, rule: RuleIx) -> PyResult<NodeIx> {
        self.push(py, Node::Rule(rule))
    }

    #[pyo3(signature = (name, span, /))]
    fn declare(&mut self, name: String, span: (usize, usize)) -> RuleIx {
        self.tree.declare(name, span.0..span.1)
    }

    #[pyo3(signature = (rule, body, /))]
    fn define(&mut self, py: Python<'_>, rule: RuleIx, body: NodeIx) -> PyResult<()> {
        self.tree
            .define(rule, body)
            .map_err(|e| grammar_error(py, &e))
    }
}

/// (kind, rule, start and end of its name in the source).
type Finding = (&'static str, String, usize, usize);

fn found(findings: Vec<ebnf::Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .map(|f| (f.kind.name(), f.rule, f.span.start, f.span.end))
        .collect()
}

/// Compile a grammar in the GBNF dialect.
#[pyfunction]
#[pyo3(signature = (vocab, text, *, start, specials, limits, cancel))]
fn compile_gbnf(
    py: Python<'_>,
    vocab: &Vocabulary,
    text: &str,
    start: &str,
    specials: Vec<(String, u32)>,
    limits: Vec<(String, u64)>,
    cancel: Option<&CancelToken>,
) -> PyResult<(CompiledGrammar, Vec<Finding>)> {
    let budget = budget(&limits, cancel)?;
    let mut findings = Vec::new();
    let grammar = compiled(py, vocab, || {
        let special = |name: &str| specials.iter().find(|(n, _)| n == name).map(|(_, id)| *id);
        let done = ebnf::compile_gbnf(
            text,
            start,
            &special,
            &mut ebnf::embed_json(Settings::default()),
            budget,
        )?;
        findings = done.findings;
        Ok(done.grammar)
    })?;
    Ok((grammar, found(findings)))
}

/// Compile a tree; spans of its rules are into `text`.
#[pyfunction]
#[pyo3(signature = (vocab, tree, *, text, start, limits, cancel))]
fn compile_tree(
    py: Python<'_>,
    vocab: &Vocabulary,
    tree: &GrammarTree,
    text: &str,
    start: &str,
    limits: Vec<(String, u64)>,
    cancel: Option<&CancelToken>,
) -> PyResult<(CompiledGrammar, Vec<Finding>)> {
    let budget = budget(&limits, cancel)?;
    let mut findings = Vec::new();
    let grammar = compiled(py, vocab, || {
        let done = ebnf::compile_tree(
            &tree.tree,
            start,
            text,
            &mut ebnf::embed_json(Settings::default()),
            budget,
        )?;
        findings = done.findings;
        Ok(done.grammar)
    })?;
    Ok((grammar, found(findings)))
}

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<GrammarTree>()?;
    m.add_function(wrap_pyfunction!(compile_gbnf, m)?)?;
    m.add_function(wrap_pyfunction!(compile_tree, m)?)
}
