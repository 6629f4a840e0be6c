//! Rows of int32 words in the caller's memory (numpy arrays or CPU tensors).

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Writable int32 rows, kept exported while this lives.
pub(crate) struct Rows {
    _buffer: PyBuffer<i32>,
    data: *mut u32,
    rows: usize,
    width: usize,
}

// SAFETY: the pointer is into memory that `_buffer` keeps alive and writable; it is only used through
// `row`, by one owner at a time. The buffer itself is released with the interpreter attached.
unsafe impl Send for Rows {}

impl Rows {
    /// Check and export `out`: int32, C-contiguous, writable, one or two dimensions, rows of at least
    /// `words` words.
    pub(crate) fn new(out: &Bound<'_, PyAny>, words: usize) -> PyResult<Self> {
        let buffer = match PyBuffer::<i32>::get(out) {
            Ok(buffer) => buffer,
            // A tensor shares its memory through `.numpy()`; nothing of torch is imported here.
            Err(error) => match out.call_method0("numpy") {
                Ok(array) => PyBuffer::<i32>::get(&array)
                    .map_err(|_| PyTypeError::new_err("the bitmask must be int32"))?,
                Err(_) => {
                    let kind = out.get_type().name()?;
                    return Err(PyTypeError::new_err(format!(
                        "the bitmask must be an int32 numpy array or CPU tensor, not {kind}: {error}"
                    )));
                }
            },
        };
        if buffer.readonly() {
            return Err(PyValueError::new_err("the bitmask is read-only"));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the bitmask must be C-contiguous"));
        }
        let (rows, width) = match *buffer.shape() {
            [width] => (1, width),
            [rows, width] => (rows, width),
            _ => {
                return Err(PyValueError::new_err(
                    "the bitmask must have one or two dimensions",
                ))
            }
        };
        if width < words {
            return Err(PyValueError::new_err(format!(
                "bitmask rows have {width} words, the vocabulary needs {words}"
            )));
        }
        let data = buffer.buf_ptr().cast::<u32>();
        Ok(Rows {
            _buffer: buffer,
            data,
            rows,
            width,
        })
    }

    /// One row.
    pub(crate) fn row(&mut self, index: usize) -> PyResult<&mut [u32]> {
        if index >= self.rows {
            return Err(PyIndexError::new_err(format!(
                "row {index} of a bitmask of {} rows",
                self.rows
            )));
        }
        // SAFETY: `data` points to rows * width writable words that the buffer keeps exported, and the
        // borrow of `self` keeps the slice unique.
        Ok(
            unsafe {
                std::slice::from_raw_parts_mut(self.data.add(index * self.width), self.width)
            },
        )
    }

    /// The first `count` rows, disjoint.
    pub(crate) fn all(&mut self, count: usize) -> PyResult<Vec<&mut [u32]>> {
        if count > self.rows {
            return Err(PyValueError::new_err(format!(
                "{count} matchers for a bitmask of {} rows",
                self.rows
            )));
        }
        // SAFETY: as in `row`.
        let whole = unsafe { std::slice::from_raw_parts_mut(self.data, count * self.width) };
        Ok(whole.chunks_exact_mut(self.width.max(1)).collect())
    }
}
