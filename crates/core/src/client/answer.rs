//! What the deciding answer said of each guard and resource, kept beside an admission's slot.
//!
//! Filled by `judge` when an answer becomes the candidate, and read by the client's caller after the verdict. The memory
//! belongs to the slot and is used again by its next admission, so that nothing is allocated once it has grown.

use crate::wire::RateResponseView;

/// A guard or a resource as the answer has it.
#[derive(Clone, Copy, Debug, Default)]
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
    #[inline]
    pub(super) fn keep(&mut self, response: &RateResponseView<'_>) -> bool {
        let (guards, resources) = (response.guards(), response.resources());
        let (asked, all) = (guards.len(), guards.len() + resources.len());
        // Mostly the slot's last admission had as many, and its entries are written over.
        if self.0.len() != all {
            self.0.resize(all, Entry::default());
        }
        let (kept_guards, kept_resources) = self.0.split_at_mut(asked);
        let mut refused = false;
        for (entry, guard) in kept_guards.iter_mut().zip(guards) {
            *entry = Entry { value: guard.current_latency_ms, deficit: 0, refused: !guard.passes() };
            refused |= entry.refused;
        }
        for (entry, resource) in kept_resources.iter_mut().zip(resources) {
            let (value, deficit) = (resource.actual_rate, resource.deficit);
            *entry = Entry { value, deficit, refused: deficit > 0 };
            refused |= entry.refused;
        }
        !refused
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
