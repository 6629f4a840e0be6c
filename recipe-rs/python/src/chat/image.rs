//! Image sizes, token counts, data URLs and headers for `offseek.recipe.images`.

use offseek_chat::image::{self, ImageFault, Size};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{calc_resize_error, image_error};

fn fault(py: Python<'_>, fault: &ImageFault) -> PyErr {
    image_error(py, fault.to_string(), fault.kind.name())
}

/// `(width, height)` of the target, and of the low-detail reduction before it.
#[pyfunction]
#[pyo3(signature = (width, height, *, low_detail_max_dimension_px=None))]
fn fit_image_size(
    py: Python<'_>,
    width: u32,
    height: u32,
    low_detail_max_dimension_px: Option<u32>,
) -> PyResult<((u32, u32), (u32, u32))> {
    let size = Size { width, height };
    let reduced = low_detail_max_dimension_px.map_or(size, |px| image::reduce_low_detail(size, px));
    let target = image::fit(reduced).map_err(|error| calc_resize_error(py, error.to_string()))?;
    Ok((
        (reduced.width, reduced.height),
        (target.width, target.height),
    ))
}

#[pyfunction]
fn image_token_adjustment(py: Python<'_>, sizes: Vec<(u32, u32)>) -> PyResult<u64> {
    let sizes: Vec<Size> = sizes
        .into_iter()
        .map(|(width, height)| Size { width, height })
        .collect();
    image::image_token_adjustment(&sizes).map_err(|error| calc_resize_error(py, error.to_string()))
}

#[pyfunction]
fn decode_data_url<'py>(
    py: Python<'py>,
    url: &str,
    max_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let data = py
        .detach(|| image::decode_data_url(url, max_bytes))
        .map_err(|error| fault(py, &error))?;
    Ok(PyBytes::new(py, &data))
}

/// `(format, width, height, is_animated_webp)`.
#[pyfunction]
fn read_image_header(py: Python<'_>, data: &[u8]) -> PyResult<(&'static str, u32, u32, bool)> {
    let header = image::read_header(data).map_err(|error| fault(py, &error))?;
    Ok((
        header.format.name(),
        header.width,
        header.height,
        header.is_animated_webp,
    ))
}

#[pyfunction]
fn check_image_body(py: Python<'_>, data: &[u8]) -> PyResult<()> {
    py.detach(|| image::check_body(data))
        .map_err(|error| fault(py, &error))
}

pub(crate) fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(fit_image_size, m)?)?;
    m.add_function(wrap_pyfunction!(image_token_adjustment, m)?)?;
    m.add_function(wrap_pyfunction!(decode_data_url, m)?)?;
    m.add_function(wrap_pyfunction!(read_image_header, m)?)?;
    m.add_function(wrap_pyfunction!(check_image_body, m)?)?;
    Ok(())
}
