//! CPU kernels of the engine: what torch has no good operation for when a batch is small and its KV cache paged.
//!
//! Every kernel works on plain slices and computes each row on its own, in an order that depends on nothing but the row:
//! a result is the same bits in any batch, at any place in it, with any number of threads. The plain torch twins are in
//! `kernels/offseek/kernels/reference.py`. Knows nothing of Python, models or schedulers.
//!
//! The bodies are written so that the compiler turns loops over `[f32; LANES]` into vector instructions; `dispatch!`
//! compiles each body for the instruction sets worth having and picks one at run time.

mod activation;
mod attention;
mod norm;
mod quant;
mod rope;
mod sampling;
mod simd;
mod threads;

pub use activation::silu_mul;
pub use attention::{paged_attention, AttentionShape, CacheElement};
pub use norm::{add_rms_norm, rms_norm_rows};
pub use quant::{dequantize_product, quantize_rows};
pub use rope::{rotate_and_store, RotaryShape};
pub use sampling::{best_allowed, best_allowed_rows, RowBest};
pub use simd::Bf16;
