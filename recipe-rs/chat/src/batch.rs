//! Many requests to token ids, on all cores.

use crate::encode;
use crate::error::{ChatError, Result};
use crate::inference::ConvertedRequest;
use crate::json::Value;
use crate::options::ConversionOptions;
use crate::render::render;
use crate::request::chat::ChatRequest;
use crate::request::messages::MessagesBody;
use crate::request::responses::ResponsesBody;
use crate::tokenizer::Tokenizer;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Which API a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Protocol {
    ChatCompletions,
    Responses,
    Messages,
}

/// A request body.
#[derive(Clone, Debug)]
pub enum Body {
    /// JSON text.
    Text(Vec<u8>),
    /// Parsed JSON.
    Parsed(Value),
}

/// A converted request and its prompt's token ids.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The converted request.
    pub request: ConvertedRequest,
    /// Token ids of its prompt.
    pub token_ids: Vec<u32>,
}

/// Decode, convert, render and encode one body. Prompts are spelled with the options' special tokens.
///
/// # Errors
/// Those of decoding, conversion and encoding.
pub fn encode_body(
    protocol: Protocol,
    body: Body,
    options: &ConversionOptions,
    tokenizer: &Tokenizer,
) -> Result<Encoded> {
    let value = match body {
        Body::Parsed(value) => value,
        Body::Text(text) => Value::parse(&text)
            .map_err(|e| ChatError::Decode(format!("invalid JSON request: {e}")))?,
    };
    let request = match protocol {
        Protocol::ChatCompletions => ChatRequest::from_value(value)?.convert(options)?,
        Protocol::Responses => ResponsesBody::from_value(value)?.convert(options)?,
        Protocol::Messages => MessagesBody::from_value(value)?.convert(options)?,
    };
    let rendered = render(
        &request.conversation,
        request.model_version,
        &options.special_tokens,
    );
    let token_ids = encode::encode(&rendered, tokenizer)?;
    Ok(Encoded { request, token_ids })
}

/// Encode all bodies on up to `threads` threads; results stand in the order of the bodies, and the
/// failure of one does not touch the others.
pub fn encode_batch(
    protocol: Protocol,
    bodies: Vec<Body>,
    options: &ConversionOptions,
    tokenizer: &Tokenizer,
    threads: usize,
) -> Vec<Result<Encoded>> {
    let jobs: Vec<Mutex<Option<Body>>> = bodies
        .into_iter()
        .map(|body| Mutex::new(Some(body)))
        .collect();
    let done: Vec<Mutex<Option<Result<Encoded>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else { break };
        let Some(body) = job.lock().ok().and_then(|mut body| body.take()) else {
            continue;
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            encode_body(protocol, body, options, tokenizer)
        }));
        let result = result.unwrap_or_else(|_| {
            Err(ChatError::Encode(
                "internal error while encoding".to_owned(),
            ))
        });
        if let Ok(mut slot) = done[at].lock() {
            *slot = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let lost = || {
        Err(ChatError::Encode(
            "internal error while encoding".to_owned(),
        ))
    };
    done.into_iter()
        .map(|slot| slot.into_inner().ok().flatten().unwrap_or_else(lost))
        .collect()
}

/// One thread per core.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
