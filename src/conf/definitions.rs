//! Named definitions of the http block: zones, trackers, guards, groups. Each holds ready what needs no request.

use std::collections::HashMap;
use std::rc::Rc;

use ratelimitly_config::arguments::refuse_quoted;
use ratelimitly_config::fields::FieldName;
use ratelimitly_config::rate::Rate;
use ratelimitly_config::text::Excerpt;
use ratelimitly_core::id::{BucketId, TrackerId, TrackerSettings};
use ratelimitly_core::wire::{Guard as GuardBlock, Resource};

use crate::conf::problem::{Kind, Problem};
use crate::conf::template::{Parsed, Template};
use crate::nginx::conf::Place;

/// Longest bucket and service, bytes.
pub const NAME_MAX: usize = 1024;
/// What one occurrence of a zone asks for without `tokens=`.
pub const TOKENS: u16 = 1;

/// A bucket and its rate.
pub struct Zone {
    /// The zone's name.
    pub name: Rc<[u8]>,
    /// Its place among the zones, by which it is counted.
    pub number: usize,
    /// The same as header fields have it.
    pub field_name: FieldName,
    /// The bucket.
    pub bucket: Template,
    /// The rate.
    pub rate: Parsed<Rate>,
    /// How long a refusal of this zone is remembered at most, milliseconds; `None`: not at all.
    pub remember_ms: Option<u32>,
    /// The resource block for [`TOKENS`], where neither bucket nor rate holds a variable.
    pub fixed: Option<Resource>,
}

impl Zone {
    /// Computes what can be computed now.
    pub fn new(
        name: &[u8],
        number: usize,
        bucket: Template,
        rate: Parsed<Rate>,
        remember_ms: Option<u32>,
    ) -> Zone {
        let fixed =
            bucket.fixed().zip(rate.fixed()).map(|(bucket, rate)| Zone::resource(bucket, rate, TOKENS));
        let field_name = FieldName::new(name);
        Zone { name: name.into(), number, field_name, bucket, rate, remember_ms, fixed }
    }

    /// The block that asks `bucket` for one occurrence's tokens.
    pub fn resource(bucket: &[u8], rate: Rate, tokens: u16) -> Resource {
        Resource {
            bucket: BucketId::new(bucket, rate.window_ms, rate.limit),
            window_size_ms: rate.window_ms,
            rate_limit: rate.limit,
            tokens,
        }
    }
}

/// A latency tracker.
pub struct Tracker {
    /// The tracker's name in the configuration.
    pub name: Rc<[u8]>,
    /// The service, the name on the wire.
    pub service: Template,
    /// What it keeps.
    pub settings: TrackerSettings,
    /// The id, where the service holds no variable.
    pub fixed: Option<TrackerId>,
}

impl Tracker {
    /// Computes what can be computed now.
    pub fn new(name: &[u8], service: Template, settings: TrackerSettings) -> Tracker {
        let fixed = service.fixed().map(|service| TrackerId::new(service, settings));
        Tracker { name: name.into(), service, settings, fixed }
    }
}

/// A condition on a tracker.
pub struct Guard {
    /// The guard's name.
    pub name: Rc<[u8]>,
    /// Its place among the guards, by which it is counted.
    pub number: usize,
    /// Its tracker.
    pub tracker: Rc<Tracker>,
    /// The threshold, milliseconds.
    pub threshold: Parsed<u32>,
    /// The guard block, where neither service nor threshold holds a variable.
    pub fixed: Option<GuardBlock>,
}

impl Guard {
    /// Computes what can be computed now.
    pub fn new(name: &[u8], number: usize, tracker: Rc<Tracker>, threshold: Parsed<u32>) -> Guard {
        let fixed = tracker.fixed.zip(threshold.fixed());
        let fixed = fixed.map(|(id, threshold_ms)| GuardBlock {
            tracker: id,
            settings: tracker.settings,
            threshold_ms,
        });
        Guard { name: name.into(), number, tracker, threshold, fixed }
    }
}

/// Zones under one name, in order, repeats kept.
pub struct Group {
    /// The zones.
    pub zones: Box<[Rc<Zone>]>,
}

/// The definitions of one kind, by name.
pub struct Definitions<T> {
    kind: Kind,
    by_name: HashMap<Box<[u8]>, (Rc<T>, Place)>,
    names: Vec<Box<[u8]>>,
}

impl<T> Definitions<T> {
    /// None yet.
    pub fn new(kind: Kind) -> Definitions<T> {
        Definitions { kind, by_name: HashMap::new(), names: Vec::new() }
    }

    /// The names, in the order of their definitions.
    pub fn names(&self) -> &[Box<[u8]>] {
        &self.names
    }

    /// Refuses a name that is taken, before its definition is read any further.
    ///
    /// # Errors
    /// [`Problem::Redefined`].
    pub fn refuse_taken(&self, name: &[u8]) -> Result<(), Problem> {
        match self.by_name.contains_key(name) {
            true => Err(Problem::Redefined { kind: self.kind, name: Excerpt::new(name) }),
            false => Ok(()),
        }
    }

    /// Adds a definition whose name is not taken.
    pub fn insert(&mut self, name: &[u8], definition: T, place: Place) -> Rc<T> {
        let definition = Rc::new(definition);
        self.by_name.insert(name.into(), (Rc::clone(&definition), place));
        self.names.push(name.into());
        definition
    }

    /// The definition of this name, if there is one above.
    pub fn find(&self, name: &[u8]) -> Option<&Rc<T>> {
        self.by_name.get(name).map(|(definition, _)| definition)
    }

    /// Where the definition of this name stands.
    pub fn place(&self, name: &[u8]) -> Option<&Place> {
        self.by_name.get(name).map(|(_, place)| place)
    }

    /// The definition that the value of an argument such as `zone=` means; it must stand above.
    ///
    /// # Errors
    /// [`Problem::EmptyReference`], [`Problem::Undefined`], and [`Problem::Quote`] for a name that is unknown with its
    /// quotes.
    pub fn refer(&self, value: &[u8]) -> Result<&Rc<T>, Problem> {
        let kind = self.kind;
        match self.find(value) {
            Some(definition) => Ok(definition),
            None if value.is_empty() => Err(Problem::EmptyReference { kind }),
            None => {
                refuse_quoted(kind.word().as_bytes(), value)?;
                Err(Problem::Undefined { kind, name: Excerpt::new(value) })
            }
        }
    }
}
