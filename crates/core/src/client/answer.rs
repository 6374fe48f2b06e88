//! What the deciding answer said of each guard and resource, kept beside an admission's slot.
//!
//! Filled by `judge` when an answer becomes the candidate, and read by the client's caller after the verdict. The memory
//! belongs to the slot and is used again by its next admission, so that nothing is allocated once it has grown.

use crate::wire::RateResponseView;

/// A guard or a resource as the answer has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// A guard's latency or a resource's count.
    value: u32,
    /// A resource's deficit.
    deficit: u16,
    refused: bool,
}

/// The entries of one answer, guards first.
#[derive(Debug, Default)]
pub(super) struct Kept(Vec<Entry>);

impl Kept {
    /// Keeps what an answer says in the place of an earlier one. Says whether the answer grants.
    pub(super) fn keep(&mut self, response: &RateResponseView<'_>) -> bool {
        self.0.clear();
        let mut grants = true;
        self.0.extend(response.guards().map(|guard| {
            let refused = !guard.passes();
            grants &= !refused;
            Entry { value: guard.current_latency_ms, deficit: 0, refused }
        }));
        self.0.extend(response.resources().map(|resource| {
            let refused = resource.deficit > 0;
            grants &= !refused;
            Entry { value: resource.actual_rate, deficit: resource.deficit, refused }
        }));
        grants
    }

    /// The answer to a question with so many guards.
    pub(super) fn answer(&self, guards: usize) -> Option<Answer<'_>> {
        let (guards, resources) = self.0.split_at_checked(guards)?;
        Some(Answer { guards, resources })
    }
}

/// What the deciding answer said, in the order of the question.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    guards: &'a [Entry],
    resources: &'a [Entry],
}

impl<'a> Answer<'a> {
    /// The guards, as many as were asked for.
    pub fn guards(&self) -> impl ExactSizeIterator<Item = GuardResult> + use<'a> {
        self.guards.iter().map(|entry| GuardResult { latency_ms: entry.value, refused: entry.refused })
    }

    /// The resources, as many as were asked for.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = ResourceResult> + use<'a> {
        self.resources.iter().map(|entry| ResourceResult { count: entry.value, deficit: entry.deficit })
    }
}

/// What an answer said of one guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardResult {
    /// The tracker's latency, milliseconds.
    pub latency_ms: u32,
    /// Whether the guard refused: its latency was not below the threshold.
    pub refused: bool,
}

/// What an answer said of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceResult {
    /// Tokens that the bucket has given within its window.
    pub count: u32,
    /// How many of the tokens asked for could not be supplied; above 0 the resource refused.
    pub deficit: u16,
}

impl ResourceResult {
    /// Whether the resource refused.
    pub fn refused(&self) -> bool {
        self.deficit > 0
    }
}
