//! One server's active faults. Set by commands, asked by `server.rs` and `respond.rs` for every datagram. Pure.

use crate::command::{CommandError, Fault, FaultKind, Lost};
use crate::event::Verdict;
use crate::limiter::Overrides;
use crate::names::Name;
use ratelimitly_core::wire::Resource;

impl Fault {
    /// The fault's name.
    pub fn kind(&self) -> FaultKind {
        match self {
            Fault::Drop { .. } => FaultKind::Drop,
            Fault::Delay { .. } => FaultKind::Delay,
            Fault::Jitter { .. } => FaultKind::Jitter,
            Fault::Duplicate { .. } => FaultKind::Duplicate,
            Fault::WrongAuthentication => FaultKind::WrongAuthentication,
            Fault::Truncated { .. } => FaultKind::Truncated,
            Fault::WrongRequestId => FaultKind::WrongRequestId,
            Fault::WrongServerId { .. } => FaultKind::WrongServerId,
            Fault::EmptyResults => FaultKind::EmptyResults,
            Fault::ShortResults => FaultKind::ShortResults,
            Fault::ExtraResults => FaultKind::ExtraResults,
            Fault::Rebind => FaultKind::Rebind,
            Fault::ForceAllow => FaultKind::ForceAllow,
            Fault::ForceDeny => FaultKind::ForceDeny,
            Fault::ForceDenyOf { .. } => FaultKind::ForceDenyOf,
            Fault::Latency { .. } => FaultKind::Latency,
            Fault::Deficit { .. } => FaultKind::Deficit,
            Fault::Hold => FaultKind::Hold,
            Fault::Silent => FaultKind::Silent,
        }
    }

    /// Refuses parameters that make no sense.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self {
            Fault::Drop { probability, .. } if !(0.0..=1.0).contains(probability) => {
                Err(CommandError::Probability(*probability))
            }
            Fault::ForceDenyOf { label: None, bucket: None } => {
                Err(CommandError::Match("needs a label, a bucket or both".into()))
            }
            Fault::ForceDenyOf { bucket: Some(bucket), .. } => bucket_named(bucket).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether it is for the requests of this label and these buckets. Only `force_deny_of` is for some of them.
    fn is_for(&self, label: Option<&[u8]>, resources: &[Resource]) -> bool {
        let Fault::ForceDenyOf { label: wanted, bucket } = self else { return true };
        let labelled = wanted.as_ref().is_none_or(|wanted| Some(wanted.as_bytes()) == label);
        let named = bucket.as_ref().map(|bucket| bucket_named(bucket));
        let asked = |name: Result<Name, _>| {
            name.is_ok_and(|name| resources.iter().any(|resource| name.is_id(&resource.bucket.0)))
        };
        labelled && named.is_none_or(asked)
    }

    /// Whether setting this one ends the other: the same fault, or its opposite.
    fn replaces(&self, other: &Fault) -> bool {
        match (self, other) {
            (Fault::Latency { guard: a, .. }, Fault::Latency { guard: b, .. }) => a == b,
            (Fault::Deficit { resource: a, .. }, Fault::Deficit { resource: b, .. }) => a == b,
            (Fault::ForceDenyOf { .. }, Fault::ForceDenyOf { .. }) => self == other,
            (Fault::ForceAllow, Fault::ForceDeny) | (Fault::ForceDeny, Fault::ForceAllow) => true,
            (Fault::Drop { of: a, .. }, Fault::Drop { of: b, .. }) => a == b,
            _ => self.kind() == other.kind(),
        }
    }
}

/// The bucket of a `force_deny_of`.
fn bucket_named(bucket: &str) -> Result<Name, CommandError> {
    format!("bucket={bucket}")
        .parse()
        .map_err(|error| CommandError::Match(format!("bucket \"{bucket}\": {error}")))
}

/// The active faults, in the order of their setting; a fault is in it once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub fn set(&mut self, fault: Fault) {
        self.0.retain(|other| !fault.replaces(other));
        self.0.push(fault);
    }

    /// Clears the named faults, or all where none is named.
    pub fn clear(&mut self, kinds: &[FaultKind]) {
        self.0.retain(|fault| !kinds.is_empty() && !kinds.contains(&fault.kind()));
    }

    pub fn active(&self) -> &[Fault] {
        &self.0
    }

    /// The faults that a request of this label and these buckets meets.
    pub fn met_by(&self, label: Option<&[u8]>, resources: &[Resource]) -> Faults {
        Faults(self.0.iter().filter(|fault| fault.is_for(label, resources)).cloned().collect())
    }

    pub fn has(&self, kind: FaultKind) -> bool {
        self.0.iter().any(|fault| fault.kind() == kind)
    }

    /// Probability that such datagrams get lost.
    pub fn loss(&self, what: Lost) -> f64 {
        let probability = |fault: &Fault| match *fault {
            Fault::Drop { probability, of } if of == what => Some(probability),
            _ => None,
        };
        self.0.iter().find_map(probability).unwrap_or(0.0)
    }

    /// Fixed delay and longest additional random delay, milliseconds.
    pub fn delays(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(delay, jitter), fault| match *fault {
            Fault::Delay { ms } => (ms, jitter),
            Fault::Jitter { ms } => (delay, ms),
            _ => (delay, jitter),
        })
    }

    /// Copies of an answer beyond the first.
    pub fn extra_copies(&self) -> u32 {
        let extra = |fault: &Fault| if let Fault::Duplicate { extra } = *fault { Some(extra) } else { None };
        self.0.iter().find_map(extra).unwrap_or(0)
    }

    pub fn overrides(&self) -> Overrides {
        let mut overrides = Overrides::default();
        for fault in &self.0 {
            match *fault {
                Fault::ForceAllow => overrides.verdict = Some(Verdict::Allow),
                Fault::ForceDeny => overrides.verdict = Some(Verdict::Deny),
                Fault::Latency { guard, ms } => drop(overrides.latencies.insert(guard, ms)),
                Fault::Deficit { resource, tokens } => drop(overrides.deficits.insert(resource, tokens)),
                _ => {}
            }
        }
        // Said about some requests only, so it counts more than what was said about all.
        if self.has(FaultKind::ForceDenyOf) {
            overrides.verdict = Some(Verdict::Deny);
        }
        overrides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(faults: impl IntoIterator<Item = Fault>) -> Faults {
        let mut all = Faults::default();
        faults.into_iter().for_each(|fault| all.set(fault));
        all
    }

    #[test]
    fn setting_a_fault_again_replaces_its_parameters() {
        let faults = with([Fault::Delay { ms: 1 }, Fault::Delay { ms: 2 }]);
        assert_eq!(faults.active(), [Fault::Delay { ms: 2 }]);
    }

    #[test]
    fn opposite_verdicts_replace_each_other() {
        let faults = with([Fault::ForceAllow, Fault::ForceDeny]);
        assert_eq!(faults.overrides().verdict, Some(Verdict::Deny));
        assert_eq!(faults.active().len(), 1);
    }

    #[test]
    fn a_denied_label_counts_more_than_a_forced_allow() {
        let label = |text: &str| Fault::ForceDenyOf { label: Some(text.into()), bucket: None };
        let faults = with([label("/login"), label("/pay"), Fault::ForceAllow]);
        let verdict = |label: &[u8]| faults.met_by(Some(label), &[]).overrides().verdict;
        assert_eq!(verdict(b"/login"), Some(Verdict::Deny));
        assert_eq!(verdict(b"/pay"), Some(Verdict::Deny));
        assert_eq!(verdict(b"/"), Some(Verdict::Allow));
        assert_eq!(faults.met_by(None, &[]).overrides().verdict, Some(Verdict::Allow));
    }

    #[test]
    fn a_deny_that_matches_by_nothing_or_by_no_bucket_is_refused() {
        let check = |bucket: Option<&str>| {
            let fault = Fault::ForceDenyOf { label: None, bucket: bucket.map(str::to_owned) };
            fault.check().unwrap_err().to_string()
        };
        assert_eq!(check(None), "force_deny_of needs a label, a bucket or both");
        let error = check(Some("checkout"));
        assert!(error.contains("bucket \"checkout\"") && error.contains("bucket=checkout@100r/m"), "{error}");
    }

    #[test]
    fn latencies_of_different_guards_live_side_by_side() {
        let latency = |guard, ms| Fault::Latency { guard, ms };
        let faults = with([latency(0, 5), latency(1, 6), latency(0, 7)]);
        assert_eq!(faults.overrides().latencies, [(0, 7), (1, 6)].into());
    }

    #[test]
    fn losing_requests_and_losing_answers_are_independent() {
        let lost = |probability, of| Fault::Drop { probability, of };
        let faults = with([lost(0.25, Lost::Requests), lost(0.5, Lost::Answers)]);
        assert_eq!((faults.loss(Lost::Requests), faults.loss(Lost::Answers)), (0.25, 0.5));
    }

    #[test]
    fn clear_ends_the_named_faults_or_all() {
        let mut faults = with([Fault::Silent, Fault::Hold]);
        faults.clear(&[FaultKind::Hold]);
        assert_eq!(faults.active(), [Fault::Silent]);
        faults.clear(&[]);
        assert_eq!(faults.active(), []);
    }

    #[test]
    fn an_impossible_probability_is_refused() {
        for probability in [-0.1, 1.1, f64::NAN] {
            let error = Fault::Drop { probability, of: Lost::Requests }.check().unwrap_err();
            assert!(error.to_string().contains("between 0 and 1"), "{error}");
        }
    }
}
