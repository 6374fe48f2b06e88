//! Header fields as a client reads them, and what they should be by the numbers on the wire. Called by `headers` and
//! `dry_run`; it asks nothing itself.

use ratelimitly_devserver::Event;
use ratelimitly_harness::http::Response;
use sfv::{BareItem, Item, List, ListEntry, Parser};

/// A name and two numbers.
pub type Member = (String, i64, i64);

/// What this module can say to a client, in its variables' order.
#[derive(Debug, PartialEq, Eq)]
pub struct Fields {
    /// `Retry-After`, seconds.
    pub retry_after: Option<u32>,
    /// `RateLimit`: name, remaining tokens, seconds.
    pub limit: Vec<Member>,
    /// `RateLimit-Policy`: name, tokens of a window, its seconds.
    pub policy: Vec<Member>,
}

impl Fields {
    /// Where a client is told nothing.
    pub fn none() -> Fields {
        Fields { retry_after: None, limit: Vec::new(), policy: Vec::new() }
    }

    /// Reads them as RFC 9651 and RFC 9110 want them.
    pub fn of(response: &Response) -> Fields {
        for name in ["Retry-After", "RateLimit", "RateLimit-Policy"] {
            let values: Vec<_> = response.headers.get_all(name).iter().collect();
            assert!(values.len() <= 1, "{name}: {values:?}");
            assert!(values.iter().all(|value| !value.is_empty()), "an empty {name}");
        }
        let retry_after = response.header("Retry-After").map(whole_seconds);
        let limit = members(response.header("RateLimit"), ["r", "t"]);
        let policy = members(response.header("RateLimit-Policy"), ["q", "w"]);
        Fields { retry_after, limit, policy }
    }
}

/// The delay-seconds of RFC 9110.
fn whole_seconds(text: &str) -> u32 {
    assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{text}");
    text.parse().expect("seconds")
}

fn members(field: Option<&str>, parameters: [&str; 2]) -> Vec<Member> {
    let Some(field) = field else { return Vec::new() };
    let list: List = Parser::new(field).parse().unwrap_or_else(|error| panic!("{field}: {error}"));
    let member = |entry| match entry {
        ListEntry::Item(Item { bare_item: BareItem::String(name), params }) => {
            let names: Vec<_> = params.keys().map(|key| key.as_str()).collect();
            assert_eq!(names, parameters, "{field}");
            let number = |key| params.get(key).and_then(BareItem::as_integer).expect("an integer");
            let [first, second] = parameters.map(|key| number(key).into());
            (name.as_str().to_owned(), first, second)
        }
        other => panic!("{field}: {other:?}"),
    };
    list.into_iter().map(member).collect()
}

/// A zone of the question, by the numbers on the wire.
pub struct OnTheWire {
    rate: u64,
    window_ms: u64,
    count: u64,
    deficit: u64,
}

impl OnTheWire {
    /// Each zone of an admission as it was asked and answered.
    pub fn zones(event: &Event) -> Vec<OnTheWire> {
        let answer = event.answer.as_ref().expect("an answer");
        let zones = event.resources.iter().zip(&answer.resources);
        let zone = |(asked, answered): (&ratelimitly_devserver::event::ResourceSeen, &_)| {
            let ratelimitly_devserver::CountSeen { count, deficit } = *answered;
            OnTheWire {
                rate: asked.rate_limit.into(),
                window_ms: asked.window_size_ms.into(),
                count: count.into(),
                deficit: deficit.into(),
            }
        };
        zones.map(zone).collect()
    }

    /// deficit x window / rate, rounded up to whole seconds, at least 1 and at most the window; `None`: it has not refused.
    pub fn retry_after(&self) -> Option<u64> {
        let wait_ms = (self.deficit * self.window_ms).div_ceil(self.rate).min(self.window_ms);
        (self.deficit > 0).then(|| wait_ms.div_ceil(1000).max(1))
    }

    fn reset(&self) -> u64 {
        self.retry_after().unwrap_or(self.window_ms.div_ceil(1000))
    }

    /// Its members of `RateLimit` and `RateLimit-Policy`.
    pub fn members(&self, name: &str) -> (Member, Member) {
        let member = |first: u64, second: u64| (name.to_owned(), first.cast_signed(), second.cast_signed());
        let limit = member(self.rate.saturating_sub(self.count), self.reset());
        (limit, member(self.rate, self.window_ms / 1000))
    }
}
