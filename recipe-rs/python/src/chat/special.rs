//! `SpecialToken` and `SpecialTokens`.

use offseek_chat::special;
use pyo3::prelude::*;

/// A kind of special token.
#[pyclass(frozen, eq, eq_int, hash, from_py_object, module = "offseek._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub(crate) enum SpecialToken {
    Bos,
    Eos,
    ThinkingStart,
    ThinkingEnd,
    System,
    User,
    Assistant,
    LatestReminder,
    Dsml,
    Image,
    Ref,
    RefEnd,
    Box,
    BoxEnd,
    Point,
    PointEnd,
    Polygon,
    PolygonEnd,
}

impl From<SpecialToken> for special::SpecialToken {
    fn from(token: SpecialToken) -> Self {
        special::SpecialToken::ALL[token as usize]
    }
}

#[pymethods]
impl SpecialToken {
    fn default_str(&self) -> &'static str {
        special::SpecialToken::from(*self).default_str()
    }
}

/// A spelling for every special token.
#[pyclass(frozen, module = "offseek._native")]
#[derive(Clone)]
pub(crate) struct SpecialTokens(pub(crate) special::SpecialTokens);

#[pymethods]
impl SpecialTokens {
    #[new]
    #[pyo3(signature = (*, bos = None, eos = None, thinking_start = None, thinking_end = None, system = None,
        user = None, assistant = None, latest_reminder = None, dsml = None, image = None, r#ref = None,
        ref_end = None, r#box = None, box_end = None, point = None, point_end = None, polygon = None,
        polygon_end = None))]
    fn new(
        bos: Option<String>,
        eos: Option<String>,
        thinking_start: Option<String>,
        thinking_end: Option<String>,
        system: Option<String>,
        user: Option<String>,
        assistant: Option<String>,
        latest_reminder: Option<String>,
        dsml: Option<String>,
        image: Option<String>,
        r#ref: Option<String>,
        ref_end: Option<String>,
        r#box: Option<String>,
        box_end: Option<String>,
        point: Option<String>,
        point_end: Option<String>,
        polygon: Option<String>,
        polygon_end: Option<String>,
    ) -> Self {
        let given = [
            bos,
            eos,
            thinking_start,
            thinking_end,
            system,
            user,
            assistant,
            latest_reminder,
            dsml,
            image,
            r#ref,
            ref_end,
            r#box,
            box_end,
            point,
            point_end,
            polygon,
            polygon_end,
        ];
        let mut tokens = special::SpecialTokens::default();
        for (token, spelling) in special::SpecialToken::ALL.into_iter().zip(given) {
            if let Some(spelling) = spelling {
                tokens.set(token, spelling);
            }
        }
        Self(tokens)
    }

    fn token(&self, token: SpecialToken) -> &str {
        self.0.get(token.into())
    }
}
