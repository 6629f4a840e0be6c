//! Bindings of the CPU kernels. Arrays come in through the buffer protocol (numpy views of torch tensors), which checks
//! their type and layout; lengths are checked by the kernels' wrappers in `offseek.kernels.cpu`.

use offseek_cpu::{AttentionShape, Bf16, CacheElement, RotaryShape};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cpu_add_rms_norm, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_silu_mul, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_rotate_and_store, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_paged_attention, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_quantize_rows, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_dequantize_product, m)?)?;
    m.add_function(wrap_pyfunction!(cpu_best_allowed, m)?)?;
    Ok(())
}

/// Contiguous memory of a buffer to read.
fn read<'a, T: Element>(_py: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a [T]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("array is not C-contiguous"));
    }
    // SAFETY: contiguous, of element type T (checked by PyBuffer), alive as long as `buffer`; callers do not write to the
    // array during the call. An empty array may have any address, hence the aligned stand-in.
    Ok(match buffer.item_count() {
        0 => &[],
        count => unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), count) },
    })
}

/// Contiguous memory of a buffer to write.
#[allow(clippy::mut_from_ref)]
fn write<'a, T: Element>(_py: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a mut [T]> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "array is read-only or not C-contiguous",
        ));
    }
    // SAFETY: as in `read`; each output array is passed once and used by nobody else during the call.
    Ok(match buffer.item_count() {
        0 => &mut [],
        count => unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), count) },
    })
}

/// View of a uint16 buffer as bfloat16.
fn as_bf16(x: &[u16]) -> &[Bf16] {
    // SAFETY: `Bf16` is a transparent wrapper of u16.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len()) }
}

fn as_bf16_mut(x: &mut [u16]) -> &mut [Bf16] {
    // SAFETY: `Bf16` is a transparent wrapper of u16.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len()) }
}

#[pyfunction]
fn cpu_add_rms_norm(
    py: Python<'_>,
    residual: PyBuffer<f32>,
    delta: Option<PyBuffer<f32>>,
    weight: PyBuffer<f32>,
    eps: f32,
    out: PyBuffer<f32>,
) -> PyResult<()> {
    let (residual, weight, out) = (write(py, &residual)?, read(py, &weight)?, write(py, &out)?);
    let delta = delta.as_ref().map(|d| read(py, d)).transpose()?;
    py.detach(|| offseek_cpu::add_rms_norm(residual, delta, weight, eps, out));
    Ok(())
}

#[pyfunction]
fn cpu_silu_mul(
    py: Python<'_>,
    gate_up: PyBuffer<f32>,
    out: PyBuffer<f32>,
    width: usize,
) -> PyResult<()> {
    let (gate_up, out) = (read(py, &gate_up)?, write(py, &out)?);
    py.detach(|| offseek_cpu::silu_mul(gate_up, out, width));
    Ok(())
}

#[pyfunction]
fn cpu_rotate_and_store(
    py: Python<'_>,
    qkv: PyBuffer<f32>,
    cos_sin: PyBuffer<f32>,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    slots: PyBuffer<i64>,
    q_out: PyBuffer<f32>,
    q_norm: Option<PyBuffer<f32>>,
    k_norm: Option<PyBuffer<f32>>,
    eps: f32,
    shape: (usize, usize, usize, usize),
) -> PyResult<()> {
    let (qkv, cos_sin, slots, q_out) = (
        write(py, &qkv)?,
        read(py, &cos_sin)?,
        read(py, &slots)?,
        write(py, &q_out)?,
    );
    let q_norm = q_norm.as_ref().map(|w| read(py, w)).transpose()?;
    let k_norm = k_norm.as_ref().map(|w| read(py, w)).transpose()?;
    let shape = RotaryShape {
        num_heads: shape.0,
        kv_heads: shape.1,
        head_dim: shape.2,
        block_size: shape.3,
    };
    if let (Ok(keys), Ok(values)) = (PyBuffer::<f32>::get(keys), PyBuffer::<f32>::get(values)) {
        let (keys, values) = (write(py, &keys)?, write(py, &values)?);
        py.detach(|| {
            offseek_cpu::rotate_and_store(
                qkv, cos_sin, keys, values, slots, q_out, q_norm, k_norm, eps, shape,
            );
        });
    } else {
        let (keys, values) = (PyBuffer::<u16>::get(keys)?, PyBuffer::<u16>::get(values)?);
        let (keys, values) = (
            as_bf16_mut(write(py, &keys)?),
            as_bf16_mut(write(py, &values)?),
        );
        py.detach(|| {
            offseek_cpu::rotate_and_store(
                qkv, cos_sin, keys, values, slots, q_out, q_norm, k_norm, eps, shape,
            );
        });
    }
    Ok(())
}

#[pyfunction]
fn cpu_paged_attention(
    py: Python<'_>,
    q: PyBuffer<f32>,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    tables: PyBuffer<i32>,
    starts: PyBuffer<i32>,
    lengths: PyBuffer<i32>,
    out: PyBuffer<f32>,
    shape: (usize, usize, usize, usize, usize),
    threads: usize,
) -> PyResult<()> {
    let (q, tables, starts) = (read(py, &q)?, read(py, &tables)?, read(py, &starts)?);
    let (lengths, out) = (read(py, &lengths)?, write(py, &out)?);
    let shape = AttentionShape {
        num_heads: shape.0,
        kv_heads: shape.1,
        head_dim: shape.2,
        block_size: shape.3,
        max_blocks: shape.4,
    };
    fn run<T: CacheElement>(
        py: Python<'_>,
        (q, keys, values): (&[f32], &[T], &[T]),
        (tables, starts, lengths): (&[i32], &[i32], &[i32]),
        out: &mut [f32],
        shape: AttentionShape,
        threads: usize,
    ) {
        py.detach(|| {
            offseek_cpu::paged_attention(
                q, keys, values, tables, starts, lengths, out, shape, threads,
            )
        });
    }
    if let (Ok(keys), Ok(values)) = (PyBuffer::<f32>::get(keys), PyBuffer::<f32>::get(values)) {
        run(
            py,
            (q, read(py, &keys)?, read(py, &values)?),
            (tables, starts, lengths),
            out,
            shape,
            threads,
        );
    } else {
        let (keys, values) = (PyBuffer::<u16>::get(keys)?, PyBuffer::<u16>::get(values)?);
        let cache = (q, as_bf16(read(py, &keys)?), as_bf16(read(py, &values)?));
        run(py, cache, (tables, starts, lengths), out, shape, threads);
    }
    Ok(())
}

#[pyfunction]
fn cpu_quantize_rows(
    py: Python<'_>,
    x: PyBuffer<f32>,
    out: PyBuffer<i8>,
    scales: PyBuffer<f32>,
) -> PyResult<()> {
    let (x, out, scales) = (read(py, &x)?, write(py, &out)?, write(py, &scales)?);
    py.detach(|| offseek_cpu::quantize_rows(x, out, scales));
    Ok(())
}

#[pyfunction]
fn cpu_dequantize_product(
    py: Python<'_>,
    sums: PyBuffer<i32>,
    row_scales: PyBuffer<f32>,
    column_scales: PyBuffer<f32>,
    bias: Option<PyBuffer<f32>>,
    out: PyBuffer<f32>,
) -> PyResult<()> {
    let (sums, row_scales, column_scales) = (
        read(py, &sums)?,
        read(py, &row_scales)?,
        read(py, &column_scales)?,
    );
    let bias = bias.as_ref().map(|b| read(py, b)).transpose()?;
    let out = write(py, &out)?;
    py.detach(|| offseek_cpu::dequantize_product(sums, row_scales, column_scales, bias, out));
    Ok(())
}

/// For each row of logits [batch, stride]: the best allowed id among the first `vocab` columns.
#[pyfunction]
fn cpu_best_allowed(
    py: Python<'_>,
    logits: PyBuffer<f32>,
    stride: usize,
    vocab: usize,
    masks: Option<PyBuffer<i32>>,
    mask_words: usize,
    mask_rows: PyBuffer<i32>,
    token_ids: PyBuffer<i64>,
    status: PyBuffer<i32>,
    logprobs: PyBuffer<f32>,
    want_logprobs: bool,
    threads: usize,
) -> PyResult<()> {
    let (logits, mask_rows) = (read(py, &logits)?, read(py, &mask_rows)?);
    let masks = masks.as_ref().map(|m| read(py, m)).transpose()?;
    let (token_ids, status, logprobs) = (
        write(py, &token_ids)?,
        write(py, &status)?,
        write(py, &logprobs)?,
    );
    py.detach(|| {
        offseek_cpu::best_allowed_rows(
            logits,
            stride,
            vocab,
            masks,
            mask_words,
            mask_rows,
            token_ids,
            status,
            logprobs,
            want_logprobs,
            threads,
        );
    });
    Ok(())
}
