//! What the instruction gate counts: requests of several kinds, in few runs of nginx under callgrind. A request to `/mark`
//! makes callgrind write what was counted since the last one, so one nginx serves all conditions that share a policy and
//! servers. Called by `baseline`, which judges.

use crate::conditions::{self, SINGLE_ROUND, STANDARD};
use crate::nginx::{Mode, Nginx, Parts};
use crate::surroundings::{Servers, Zone};
use crate::{Error, callgrind};
use ratelimitly_harness::load::{Client, Seen};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The condition that all others are compared with: nginx without the module.
pub const BARE: &str = "bare";
/// Requests of a counted stretch, and those before it.
const REQUESTS: u64 = 400;
const WARM: u64 = 20;
/// A request without an answer takes its whole horizon.
const SILENT_REQUESTS: u64 = 100;
/// Long enough that the datagram leaves, short enough for a hundred of them.
const SHORT: &str = "single_round unit=10ms";
/// Tries until the servers are known.
const TRIES: u32 = 500;

/// A location, and how its requests end.
#[derive(Clone, Copy)]
struct Page {
    name: &'static str,
    rule: &'static str,
    status: u16,
}

impl Page {
    fn path(&self) -> String {
        self.name.replace(' ', "-")
    }
}

const PLAIN: Page = Page { name: "plain", rule: "", status: 200 };
const ALLOW: Page = Page { name: "allow", rule: "ratelimitly zone=bench;", status: 200 };
const DENY: Page = Page { name: "deny", rule: "ratelimitly zone=refused;", status: 429 };
const GUARD: Page = Page { name: "guard", rule: "ratelimitly guard=bench;", status: 200 };
const REPORT: Page = Page { name: "report", rule: "ratelimitly_report bench;", status: 200 };
const LOGGED: Page = Page {
    name: "every variable logged",
    rule: "ratelimitly zone=bench; access_log {prefix}/logged.log logged;",
    status: 200,
};
const FAILURE: Page = Page { name: "failure", rule: "ratelimitly zone=bench;", status: 429 };

/// A request whose memory just exceeds nginx's usual block of 4 KiB costs some hundred instructions more than one that
/// just fits. With larger blocks no figure depends on which side it falls.
const ROOM: &str = "request_pool_size 16k;\n";
/// What the pages' rules refer to. The answerers refuse what has the rate 1.
const DEFINITIONS: &str = "ratelimitly_zone refused \"bucket=refused\" rate=1r/s;
    ratelimitly_tracker bench \"service=bench\" ttl=20ms min_sample_threshold=0;
    ratelimitly_guard bench tracker=bench threshold=350ms;
    log_format logged '$ratelimitly_verdict $ratelimitly_outcome $ratelimitly_failure $ratelimitly_time '
        '$ratelimitly_server $ratelimitly_denied_by $ratelimitly_guard_latency $ratelimitly_limit '
        '$ratelimitly_remaining $ratelimitly_reset $ratelimitly_retry_after $ratelimitly_policy_header '
        '$ratelimitly_limit_header $ratelimitly_violated_policies';";

/// One nginx and its pages.
pub struct Scene {
    name: &'static str,
    parts: Parts,
    pages: &'static [Page],
    /// The servers do not answer.
    silent: bool,
}

/// What a condition's requests cost, nginx's own work included.
#[derive(Clone, Debug)]
pub struct Counted {
    /// User instructions of a request.
    pub each: f64,
    /// The same by function, without those that it calls.
    pub functions: BTreeMap<String, f64>,
}

/// All of them. The bare one comes first. In each, the first page's requests let nginx find its servers.
pub fn scenes(servers: &Servers) -> Result<Vec<Scene>, Error> {
    let scene = |name, zone: &Zone, policy, pages: &'static [Page]| -> Result<Scene, Error> {
        let mut parts = conditions::module(zone, &servers.aes, policy)?;
        parts.location.clear();
        parts.http += DEFINITIONS;
        Ok(Scene { name, parts: with_pages(parts, pages), pages, silent: policy == SHORT })
    };
    let (one, three) = (&servers.one, &servers.three);
    let bare =
        Scene { name: BARE, parts: with_pages(Parts::default(), &[PLAIN]), pages: &[PLAIN], silent: false };
    Ok(vec![
        bare,
        scene("one server, standard", one, STANDARD, &[ALLOW, DENY, GUARD, REPORT, LOGGED, PLAIN])?,
        scene("three servers, standard", three, STANDARD, &[ALLOW])?,
        scene("one server, single_round", one, SINGLE_ROUND, &[ALLOW])?,
        scene("three servers, single_round", three, SINGLE_ROUND, &[ALLOW])?,
        scene("one silent server", one, SHORT, &[FAILURE])?,
    ])
}

fn with_pages(mut parts: Parts, pages: &[Page]) -> Parts {
    parts.http += ROOM;
    parts.server = "location = /mark { empty_gif; }".into();
    for page in pages {
        let (path, rule) = (page.path(), page.rule);
        parts.server += &format!("\nlocation = /{path} {{ alias {{prefix}}/html/page; {rule} }}");
    }
    parts
}

impl Scene {
    /// The names of its conditions.
    pub fn conditions(&self) -> impl Iterator<Item = String> {
        self.pages.iter().map(|page| self.condition(page))
    }

    fn condition(&self, page: &Page) -> String {
        if self.name == BARE { BARE.into() } else { format!("{}: {}", self.name, page.name) }
    }

    /// Starts its nginx and counts each condition as often as `again` wants it, which is told what was counted last.
    ///
    /// # Errors
    /// nginx does not start, or a request does not end as it should.
    pub fn count(
        &self,
        servers: &Servers,
        mut again: impl FnMut(&str, Counted) -> bool,
    ) -> Result<(), Error> {
        let nginx = Nginx::start(&self.parts, Mode::Callgrind)?;
        let counted = self.count_in(&nginx, servers, &mut again);
        servers.answerers.delay(Duration::ZERO);
        counted.map_err(|error| format!("{}: {error}\n{}", self.name, nginx.complaints()).into())
    }

    fn count_in(
        &self,
        nginx: &Nginx,
        servers: &Servers,
        again: &mut impl FnMut(&str, Counted) -> bool,
    ) -> Result<(), Error> {
        if self.silent {
            servers.answerers.silence();
        }
        let mut marks = Marks { client: Client::connect(nginx.address, 1, request("mark"))?, count: 0 };
        marks.take(nginx)?;
        for page in self.pages {
            let mut client = Client::connect(nginx.address, 1, request(&page.path()))?;
            self.warm_up(page, &mut client, servers)?;
            while again(&self.condition(page), self.stretch(page, nginx, &mut client, servers, &mut marks)?) {
            }
        }
        Ok(())
    }

    /// The first requests of a worker find no servers.
    fn warm_up(&self, page: &Page, client: &mut Client, servers: &Servers) -> Result<(), Error> {
        let before = asked(servers);
        for _ in 0..TRIES {
            let seen = client.ask(1)?;
            if ended(&seen, page.status) && (!self.silent || asked(servers) > before) {
                return check(&client.ask(WARM)?, page);
            }
        }
        Err(format!("{TRIES} first requests to {} did not end with {}", page.name, page.status).into())
    }

    fn stretch(
        &self,
        page: &Page,
        nginx: &Nginx,
        client: &mut Client,
        servers: &Servers,
        marks: &mut Marks,
    ) -> Result<Counted, Error> {
        let requests = if self.silent { SILENT_REQUESTS } else { REQUESTS };
        marks.take(nginx)?;
        let before = asked(servers);
        check(&client.ask(requests)?, page)?;
        let dump = marks.take(nginx)?;
        let sent = if page.rule.is_empty() { 0 } else { requests };
        if !arrived(servers, before + sent) {
            return Err(format!("fewer datagrams than requests came from {}", page.name).into());
        }
        let each = |count: u64| count as f64 / requests as f64;
        let functions = callgrind::functions(&dump);
        Ok(Counted {
            each: each(callgrind::total(&dump)?),
            functions: functions.into_iter().map(|(name, count)| (name, each(count))).collect(),
        })
    }
}

/// The requests that end a counted stretch.
struct Marks {
    client: Client,
    count: u32,
}

impl Marks {
    /// What was counted since the last mark.
    fn take(&mut self, nginx: &Nginx) -> Result<String, Error> {
        self.client.ask(1)?.sound("a mark")?;
        self.count += 1;
        nginx.read(&format!("callgrind.{}", self.count))
    }
}

/// A request, for the rest of the program: there are few.
fn request(name: &str) -> &'static [u8] {
    let text = format!("GET /{name} HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: ratelimitly-bench\r\n\r\n");
    text.leak().as_bytes()
}

fn asked(servers: &Servers) -> u64 {
    servers.answerers.each.iter().map(crate::answerer::Answerer::seen).sum()
}

/// Waits until so many datagrams have arrived: a report is on its way when its request has ended.
fn arrived(servers: &Servers, count: u64) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while asked(servers) < count && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1)); // then looked at again
    }
    asked(servers) >= count
}

fn ended(seen: &Seen, status: u16) -> bool {
    seen.shots.iter().all(|shot| shot.status == status)
}

fn check(seen: &Seen, page: &Page) -> Result<(), Error> {
    if ended(seen, page.status) {
        return Ok(());
    }
    Err(format!("a request to {} did not end with {}", page.name, page.status).into())
}
