//! `encode_batch`: many requests on all cores, without the interpreter lock.

use std::sync::Arc;

use offseek_chat::batch::{self, Body, Protocol};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::errors::{chat_error, value_error};
use super::options::ConversionOptions;
use super::request::ConversationRequest;
use super::tokenizer::Tokenizer;
use super::values::to_value;

/// A converted request and its prompt's token ids.
#[pyclass(frozen, module = "offseek._native")]
pub(crate) struct EncodedRequest {
    request: ConversationRequest,
    token_ids: Vec<u32>,
}

#[pymethods]
impl EncodedRequest {
    #[getter]
    fn request(&self) -> ConversationRequest {
        self.request.clone()
    }

    #[getter]
    fn token_ids(&self) -> &[u32] {
        &self.token_ids
    }

    #[getter]
    fn num_tokens(&self) -> usize {
        self.token_ids.len()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.token_ids.len() * 4, |buffer| {
            for (slot, id) in buffer.chunks_exact_mut(4).zip(&self.token_ids) {
                slot.copy_from_slice(&id.to_ne_bytes());
            }
            Ok(())
        })
    }
}

fn body(object: &Bound<'_, PyAny>) -> PyResult<Body> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Body::Text(bytes.as_bytes().to_vec()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Body::Text(text.to_str()?.as_bytes().to_vec()));
    }
    to_value(object).map(Body::Parsed)
}

#[pyfunction]
#[pyo3(signature = (protocol, bodies, options, tokenizer, *, threads = None))]
pub(crate) fn encode_batch<'py>(
    py: Python<'py>,
    protocol: &str,
    bodies: Vec<Bound<'py, PyAny>>,
    options: &ConversionOptions,
    tokenizer: &Tokenizer,
    threads: Option<usize>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let protocol = match protocol {
        "chat_completions" => Protocol::ChatCompletions,
        "responses" => Protocol::Responses,
        "messages" => Protocol::Messages,
        _ => {
            let expected = "expected \"chat_completions\", \"responses\", or \"messages\"";
            return Err(value_error(
                py,
                format!("invalid protocol {protocol:?}; {expected}"),
            ));
        }
    };
    // A body that is not JSON at all fails alone, like one that is invalid.
    let (mut good, mut results) = (
        Vec::with_capacity(bodies.len()),
        Vec::with_capacity(bodies.len()),
    );
    for object in &bodies {
        match body(object) {
            Ok(body) => {
                good.push(body);
                results.push(None);
            }
            Err(error) => results.push(Some(error.into_value(py).into_bound(py).into_any())),
        }
    }
    let threads = threads.unwrap_or_else(batch::default_threads);
    let encoded =
        py.detach(|| batch::encode_batch(protocol, good, &options.0, &tokenizer.0, threads));
    let mut encoded = encoded.into_iter();
    let mut out = Vec::with_capacity(results.len());
    for result in results {
        let object = match result {
            Some(error) => error,
            None => match encoded.next() {
                Some(Ok(done)) => {
                    let request = ConversationRequest(Arc::new(done.request));
                    Bound::new(
                        py,
                        EncodedRequest {
                            request,
                            token_ids: done.token_ids,
                        },
                    )?
                    .into_any()
                }
                Some(Err(error)) => chat_error(py, error)
                    .into_value(py)
                    .into_bound(py)
                    .into_any(),
                None => py.None().into_bound(py),
            },
        };
        out.push(object);
    }
    Ok(out)
}
