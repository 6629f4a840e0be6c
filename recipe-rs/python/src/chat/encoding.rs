//! Rendering conversations to prompts and encoding them to token ids.

use offseek_chat::encode;
use offseek_chat::model::ModelVersion;
use offseek_chat::render::{self, render};
use offseek_chat::special;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::conversation::Conversation;
use super::errors::chat_error;
use super::message::image_source_list;
use super::special::SpecialTokens;
use super::tokenizer::{fill_buffer, Tokenizer};

/// A prompt, its special ranges and its images.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct RenderedPrompt(render::RenderedPrompt);

#[pymethods]
impl RenderedPrompt {
    #[getter]
    fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// Byte offsets to code point offsets, in one pass.
    #[getter]
    fn special_ranges(&self) -> Vec<(usize, usize)> {
        let text = &self.0.prompt;
        let (mut byte, mut point) = (0, 0);
        let mut point_at = |at: usize| {
            point += text[byte..at].chars().count();
            byte = at;
            point
        };
        self.0
            .special_ranges
            .iter()
            .map(|r| (point_at(r.bytes.start), point_at(r.bytes.end)))
            .collect()
    }

    #[getter]
    fn image_sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        image_source_list(py, &self.0.image_sources)
    }
}

/// What both encodings are made of.
#[derive(Clone)]
pub(super) struct Encoding {
    version: ModelVersion,
    special: special::SpecialTokens,
    tokenizer: Option<offseek_chat::tokenizer::Tokenizer>,
}

impl Encoding {
    fn new(version: ModelVersion) -> Self {
        Self {
            version,
            special: special::SpecialTokens::default(),
            tokenizer: None,
        }
    }

    pub(super) fn render(&self, conversation: &Conversation) -> render::RenderedPrompt {
        render(&conversation.0, self.version, &self.special)
    }

    pub(super) fn tokenizer(&self) -> PyResult<&offseek_chat::tokenizer::Tokenizer> {
        self.tokenizer
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("no tokenizer is attached to the encoding"))
    }

    fn ids(&self, py: Python<'_>, conversation: &Conversation) -> PyResult<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        let ids = py.detach(|| encode::encode(&self.render(conversation), tokenizer));
        ids.map_err(|e| chat_error(py, e))
    }
}

macro_rules! encoding {
    ($(#[$doc:meta])* $name:ident, $version:ident) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "offseek._native")]
        pub(crate) struct $name(pub(super) Encoding);

        #[pymethods]
        impl $name {
            #[new]
            fn new() -> Self {
                Self(Encoding::new(ModelVersion::$version))
            }

            fn with_tokenizer(&self, tokenizer: &Tokenizer) -> Self {
                Self(Encoding { tokenizer: Some(tokenizer.0.clone()), ..self.0.clone() })
            }

            fn with_special_tokens(&self, special_tokens: &SpecialTokens) -> Self {
                Self(Encoding { special: special_tokens.0.clone(), ..self.0.clone() })
            }

            fn render_conversation(&self, conversation: &Conversation) -> RenderedPrompt {
                RenderedPrompt(self.0.render(conversation))
            }

            fn encode(&self, py: Python<'_>, conversation: &Conversation) -> PyResult<Vec<u32>> {
                self.0.ids(py, conversation)
            }

            fn encode_into(
                &self,
                py: Python<'_>,
                conversation: &Conversation,
                buffer: PyBuffer<u32>,
            ) -> PyResult<usize> {
                fill_buffer(py, &self.0.ids(py, conversation)?, &buffer)
            }
        }
    };
}

encoding!(
    /// The V4 prompt encoding.
    DeepseekV4Encoding, DeepseekV4Pro
);
encoding!(
    /// The V4.1 prompt encoding.
    DeepseekV41Encoding, DeepseekV41Flash
);
