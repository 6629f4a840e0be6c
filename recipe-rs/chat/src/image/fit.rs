//! Target sizes and token counts.
//!
//! The model sees patches of 14 px; one image token covers a cell of 3 × 3 patches. Each row of cells ends
//! with a separator token, and a start and an end token enclose the image. Images are scaled up to a
//! least area and down to 1024 tokens. All arithmetic is in double precision, in the order that the
//! reference's results show: other orders give other sizes on exact ratios.

use std::fmt;

/// Every target side is a multiple of this.
const PATCH_PX: f64 = 14.0;
/// Side of the square that one image token covers.
const CELL_PX: u64 = 42;
const CELL: f64 = CELL_PX as f64;
/// Most tokens of one image.
const MAX_TOKENS: u64 = 1024;
/// Tokens left for rows: all but start and end.
const ROW_TOKENS: f64 = (MAX_TOKENS - 2) as f64;
/// Least area: 544 × 544.
const MIN_PIXELS: f64 = 295_936.0;
/// WebP's largest side, and the largest multiple of a patch below it.
const WEBP_MAX_PX: f64 = 16_383.0;
const WEBP_CUT_PX: f64 = 16_380.0;
/// Rounds of growing and shrinking before giving up; no size is known that needs more than a few.
const MAX_ROUNDS: usize = 64;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

/// Fitting an image to the token limit did not converge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DidNotConverge(
    /// The size that was to be fitted.
    pub Size,
);

impl fmt::Display for DidNotConverge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fitting an image of {} x {} px to {MAX_TOKENS} tokens did not converge",
            self.0.width, self.0.height
        )
    }
}

impl std::error::Error for DidNotConverge {}

fn ceil14(x: f64) -> f64 {
    (x / PATCH_PX).ceil() * PATCH_PX
}

fn floor14(x: f64) -> f64 {
    (x / PATCH_PX).floor() * PATCH_PX
}

fn tokens_of(width: u64, height: u64) -> u64 {
    let (columns, rows) = (width.div_ceil(CELL_PX), height.div_ceil(CELL_PX));
    rows * (columns + 1) + 2
}

/// The size to which an image of low detail is reduced before fitting: long side at most `long_px` (0 counts as 1).
#[must_use]
pub fn reduce_low_detail(size: Size, long_px: u32) -> Size {
    let long_px = long_px.max(1);
    let long = size.width.max(size.height);
    if long <= long_px {
        return size;
    }
    let scale = f64::from(long_px) / f64::from(long);
    let side = |px: u32| {
        if px == long {
            long_px
        } else {
            ((f64::from(px) * scale + 0.5).floor() as u32).max(1)
        }
    };
    Size {
        width: side(size.width),
        height: side(size.height),
    }
}

/// Step 1: scale up to the least area, or round up to whole patches.
fn grow(w: f64, h: f64) -> Option<(f64, f64)> {
    if w * h >= MIN_PIXELS {
        return Some((ceil14(w), ceil14(h)));
    }
    let scaled = |w: f64, h: f64| {
        let s = (MIN_PIXELS / (w * h)).sqrt();
        (ceil14((w * s).trunc()), ceil14((h * s).trunc()))
    };
    let mut size = scaled(w, h);
    for _ in 0..MAX_ROUNDS {
        if size.0 * size.1 >= MIN_PIXELS {
            return Some(size);
        }
        let next = scaled(size.0, size.1);
        if next == size {
            return Some(size);
        }
        size = next;
    }
    None
}

/// Step 2: the largest size of the image's own shape whose rows fit the token limit.
fn shrink(w: f64, h: f64) -> (f64, f64) {
    let a = h / w;
    let c = (-1.0 + (1.0 + 4.0 * ROW_TOKENS / a).sqrt()) / 2.0;
    let columns = c.floor();
    let rows = (c * a).floor();
    if columns < 1.0 {
        (CELL, (ROW_TOKENS / 2.0).floor() * CELL)
    } else if rows < 1.0 {
        ((ROW_TOKENS - 1.0) * CELL, CELL)
    } else {
        let s = (columns * CELL / w).min(rows * CELL / h);
        (floor14(w * s), floor14(h * s))
    }
}

/// Steps 1 and 2 until both hold. Sides are positive.
fn fit_tokens(size: Size) -> Result<(f64, f64), DidNotConverge> {
    let (mut w, mut h) = (f64::from(size.width), f64::from(size.height));
    for _ in 0..MAX_ROUNDS {
        let (width, height) = grow(w, h).ok_or(DidNotConverge(size))?;
        if tokens_of(width as u64, height as u64) <= MAX_TOKENS {
            return Ok((width, height));
        }
        (w, h) = shrink(w, h);
        if w <= 0.0 || h <= 0.0 {
            break;
        }
    }
    Err(DidNotConverge(size))
}

/// Step 3: keep a very long side within WebP's limit.
fn cap_side(long: f64, short: f64) -> (f64, f64) {
    let least = 2.0 * PATCH_PX;
    (WEBP_CUT_PX, ceil14(short * WEBP_CUT_PX / long).max(least))
}

/// The target size of an image (after [`reduce_low_detail`], for low detail). A size with a zero side stays.
///
/// # Errors
/// [`DidNotConverge`].
pub fn fit(size: Size) -> Result<Size, DidNotConverge> {
    if size.width == 0 || size.height == 0 {
        return Ok(size);
    }
    let (mut width, mut height) = fit_tokens(size)?;
    if width > WEBP_MAX_PX {
        (width, height) = cap_side(width, height);
    } else if height > WEBP_MAX_PX {
        (height, width) = cap_side(height, width);
    }
    Ok(Size {
        width: width as u32,
        height: height as u32,
    })
}

/// Number of model tokens of an image of any size, original or fitted: it is fitted first, but for the
/// side cap. A size with a zero side is counted as it is.
///
/// # Errors
/// [`DidNotConverge`].
pub fn num_image_tokens(size: Size) -> Result<u64, DidNotConverge> {
    if size.width == 0 || size.height == 0 {
        return Ok(tokens_of(size.width.into(), size.height.into()));
    }
    let (width, height) = fit_tokens(size)?;
    Ok(tokens_of(width as u64, height as u64))
}

/// Tokens of images beyond the one that each placeholder of the prompt already counts.
///
/// # Errors
/// [`DidNotConverge`].
pub fn image_token_adjustment(sizes: &[Size]) -> Result<u64, DidNotConverge> {
    sizes
        .iter()
        .map(|&size| Ok(num_image_tokens(size)? - 1))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn sizes_and_tokens_are_those_observed() {
        let cases = [
            ((1, 1), (546, 546), 183),
            ((300, 200), (672, 448), 188),
            ((640, 480), (644, 490), 205),
            ((1024, 768), (1036, 770), 495),
            ((1920, 1080), (1708, 966), 967),
            ((2000, 2000), (1302, 1302), 993),
            ((8192, 16), (12320, 28), 296),
            ((79, 16728), (42, 9702), 463),
        ];
        for ((w, h), (width, height), adjustment) in cases {
            assert_eq!(fit(size(w, h)), Ok(size(width, height)), "{w}x{h}");
            assert_eq!(
                image_token_adjustment(&[size(w, h)]),
                Ok(adjustment),
                "{w}x{h}"
            );
        }
        let low = reduce_low_detail(size(1920, 1080), 512);
        assert_eq!(fit(low), Ok(size(728, 420)));
        assert_eq!(reduce_low_detail(size(100, 100), 0), size(1, 1));
    }

    #[test]
    fn every_extreme_size_converges_within_the_token_limit() {
        let sides = [
            1,
            2,
            13,
            14,
            15,
            41,
            42,
            43,
            545,
            8192,
            65_535,
            1 << 20,
            u32::MAX - 1,
            u32::MAX,
        ];
        for &w in &sides {
            for &h in &sides {
                let tokens = num_image_tokens(size(w, h)).unwrap();
                assert!(tokens <= MAX_TOKENS, "{w}x{h}: {tokens}");
                let fitted = fit(size(w, h)).unwrap();
                assert!(
                    fitted.width % 14 == 0
                        && fitted.height % 14 == 0
                        && fitted.width > 0
                        && fitted.height > 0
                );
                assert!(
                    fitted.width.max(fitted.height) <= 16_383,
                    "{w}x{h}: {fitted:?}"
                );
            }
        }
    }

    #[test]
    fn zero_sides_are_counted_unfitted() {
        assert_eq!(image_token_adjustment(&[]), Ok(0));
        assert_eq!(image_token_adjustment(&[size(0, 0)]), Ok(1));
        assert_eq!(image_token_adjustment(&[size(0, 10)]), Ok(2));
        assert_eq!(image_token_adjustment(&[size(10, 0)]), Ok(1));
        assert_eq!(fit(size(0, 5)), Ok(size(0, 5)));
    }
}
