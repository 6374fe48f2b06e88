//! The label of a place, and what becomes of one that is too long.

use ratelimitly_config::label;
use ratelimitly_core::wire::MAX_LABEL;

use crate::conf::template::Template;
use crate::nginx::complex_value::EvaluateError;
use crate::nginx::request::Request;

/// A template for the service's metrics.
pub struct Label {
    /// The text.
    pub template: Template,
    /// Whether one that is too long is cut to the longest that can be sent.
    pub cut: bool,
}

impl Label {
    /// The label for this request; without `cut` it may be longer than can be sent.
    ///
    /// # Errors
    /// [`EvaluateError`] where nginx fails.
    pub fn value<'a>(&'a self, request: &'a Request) -> Result<&'a [u8], EvaluateError> {
        let text = self.template.value(request)?;
        Ok(if self.cut { label::cut(text, MAX_LABEL) } else { text })
    }

    /// The bytes that are sent where this needs no request, 0 otherwise.
    pub fn fixed_len(&self) -> usize {
        self.template.fixed().map_or(0, |text| text.len().min(MAX_LABEL))
    }
}
