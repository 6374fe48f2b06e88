//! An nginx that listens for every protocol, the development server that it asks and the upstream behind it; and the
//! ledger of a test: each row says what must become of a request, the client's side is compared at once, the servers'
//! side at the end, when everything that nginx has sent has arrived. Called by every test of the family.

use crate::cross::protocol::{Protocol, listeners, protocols};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use ratelimitly_devserver::Event;
use ratelimitly_harness::http::Response;
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Answer, Dev, Nginx, Seen, Upstream, eventually, eventually_some};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Longest wait for what follows within a moment.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A request and what must become of it, over whichever protocol it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    method: Method,
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Bytes,
    status: u16,
    verdict: &'static str,
    admissions: usize,
    arrivals: usize,
}

/// A request that was asked, and its row.
struct Entry {
    row: Row,
    target: String,
}

impl Row {
    /// `GET path` that is allowed: 200 after one admission.
    pub(crate) fn get(path: &'static str) -> Row {
        Row {
            method: Method::GET,
            path,
            headers: Vec::new(),
            body: Bytes::new(),
            status: 200,
            verdict: "allow",
            admissions: 1,
            arrivals: 0,
        }
    }

    /// `POST path` with a body of this length that is allowed.
    pub(crate) fn post(path: &'static str, length: usize) -> Row {
        Row { method: Method::POST, body: pattern(length), ..Row::get(path) }
    }

    pub(crate) fn head(path: &'static str) -> Row {
        Row { method: Method::HEAD, ..Row::get(path) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Row {
        self.headers.push((name, value));
        self
    }

    /// Another status and verdict, as the access log has them.
    pub(crate) fn gives(self, status: u16, verdict: &'static str) -> Row {
        Row { status, verdict, ..self }
    }

    /// No server is asked about it.
    pub(crate) fn unasked(self) -> Row {
        Row { admissions: 0, verdict: "-", ..self }
    }

    /// It arrives at the upstream so many times, whole.
    pub(crate) fn arrives(self, times: usize) -> Row {
        Row { arrivals: times, ..self }
    }

    /// The request with this target, which no other has.
    fn request(&self, target: &str) -> Request<Bytes> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target.parse::<Uri>().expect("a target");
        for (name, value) in &self.headers {
            request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        request
    }
}

/// Bytes in which every place can be told from its neighbours.
fn pattern(length: usize) -> Bytes {
    (0..length).map(|place| (place ^ place >> 8 ^ place >> 16) as u8).collect()
}

pub(crate) struct Site {
    pub(crate) dev: Dev,
    pub(crate) nginx: Nginx,
    pub(crate) upstream: Upstream,
    /// What the upstream waits for before it answers `/single`.
    pub(crate) gate: Arc<Notify>,
    certificate: Certificate,
    ledger: Vec<Entry>,
}

impl Site {
    /// An nginx whose worker knows the servers, with these files below its `html` folder. The configuration's label must
    /// be `$request_uri`.
    pub(crate) async fn warm(text: &str, values: &[(&str, &str)], files: &[(&str, &str)]) -> Site {
        let site = Site::cold(text, values).await;
        for (name, content) in files {
            let path = site.nginx.prefix().join("html").join(name);
            std::fs::create_dir_all(path.parent().expect("a file in a folder"))
                .expect("a folder for the file");
            std::fs::write(path, content).expect("a file to serve");
        }
        site.nginx.admits().await;
        site
    }

    /// An nginx that has not asked anything yet.
    pub(crate) async fn cold(text: &str, values: &[(&str, &str)]) -> Site {
        let gate = Arc::new(Notify::new());
        let gated = Arc::clone(&gate);
        let upstream = Upstream::start(move |seen| answer(seen, &gated)).await;
        let (dev, certificate) = (Dev::single().await, Certificate::new());
        // With its debug output nginx spends most of its time writing about packets of QUIC.
        let text = text.replace("{listeners}", &listeners());
        let mut builder = Nginx::builder(&text).dev(&dev).log_level("info");
        for (name, value) in values {
            builder = builder.set(name, value);
        }
        builder = builder.set("upstream", upstream.address());
        let nginx = builder.set("certificate", certificate.folder().display()).start().await;
        Site { dev, nginx, upstream, gate, certificate, ledger: Vec::new() }
    }

    /// Asks for all rows over each protocol; gives each protocol's responses in the rows' order.
    pub(crate) async fn over_each_protocol(&mut self, rows: &[Row]) -> Vec<(Protocol, Vec<Response>)> {
        let mut all = Vec::new();
        for protocol in protocols() {
            all.push((*protocol, self.over(*protocol, rows).await));
        }
        all
    }

    /// Asks for all rows on one connection, and compares status and access log.
    pub(crate) async fn over(&mut self, protocol: Protocol, rows: &[Row]) -> Vec<Response> {
        let entries = self.enter(protocol, rows);
        self.ask(protocol, entries).await
    }

    /// Enters rows into the ledger; `ask` does the rest.
    pub(crate) fn enter(&mut self, protocol: Protocol, rows: &[Row]) -> Range<usize> {
        let first = self.ledger.len();
        for row in rows {
            let target = self.target(protocol, row);
            self.ledger.push(Entry { row: row.clone(), target });
        }
        first..self.ledger.len()
    }

    pub(crate) async fn ask(&self, protocol: Protocol, entries: Range<usize>) -> Vec<Response> {
        let entries = &self.ledger[entries];
        let requests: Vec<_> = entries.iter().map(|entry| entry.row.request(&entry.target)).collect();
        let responses = protocol.ask(&self.nginx, &self.certificate, &requests).await;
        let responses =
            responses.unwrap_or_else(|error| panic!("{protocol}: {error}: {:?}", targets(entries)));
        for (entry, response) in entries.iter().zip(&responses) {
            assert_eq!(response.status, entry.row.status, "{protocol}: {}", entry.target);
            assert_eq!(self.logged(&entry.target).await, entry.expected_line(protocol), "{protocol}");
        }
        responses
    }

    /// The path with an argument that makes it unique.
    fn target(&self, protocol: Protocol, row: &Row) -> String {
        let separator = if row.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}over={}-{}", row.path, protocol.name(), self.ledger.len())
    }

    /// The only line of the access log about this target.
    async fn logged(&self, target: &str) -> String {
        let asked = format!(" {target} ");
        let about = || self.nginx.access_log().into_iter().filter(|line| line.contains(&asked));
        eventually_some(SOON, format!("{target} is logged"), async || about().next()).await
    }

    /// Waits until the first of these is at the upstream.
    pub(crate) async fn arrives(&self, entries: &Range<usize>) {
        let target = &self.ledger[entries.start].target;
        let arrived = || self.upstream.seen().iter().any(|seen| seen.target == *target);
        eventually(SOON, format!("{target} arrives at the upstream"), arrived).await;
    }

    /// The first datagram of the admission of a request whose target begins so.
    pub(crate) fn admissions_of(&self, path: &str) -> Vec<Event> {
        self.dev.admissions().into_iter().filter(|event| label(event).starts_with(path)).collect()
    }

    /// Waits until everything that nginx has sent has arrived, compares the ledger, and runs the lifecycle checks.
    pub(crate) async fn finish(self) {
        self.dev.reset().await.expect("the development server answers again");
        self.nginx.admits().await; // whatever was sent before this has arrived before it
        self.compare_admissions();
        self.compare_arrivals().await;
        assert_eq!(self.nginx.access_log().len(), self.ledger.len(), "a line for each request");
        self.nginx.finish().await;
    }

    fn compare_admissions(&self) {
        let expected = self.ledger.iter().flat_map(|entry| vec![entry.target.clone(); entry.row.admissions]);
        let seen = self.dev.admissions().iter().map(label).collect();
        assert_eq!(sorted(seen), sorted(expected.collect()), "the targets that were asked about");
    }

    async fn compare_arrivals(&self) {
        let expected: usize = self.ledger.iter().map(|entry| entry.row.arrivals).sum();
        let arrived = |target: &str| -> Vec<Seen> {
            self.upstream.seen().into_iter().filter(|seen| seen.target == target).collect()
        };
        let total = || self.ledger.iter().map(|entry| arrived(&entry.target).len()).sum::<usize>();
        eventually(SOON, format!("{expected} requests arrive at the upstream"), || total() >= expected).await;
        for Entry { row, target } in &self.ledger {
            let arrived = arrived(target);
            assert_eq!(arrived.len(), row.arrivals, "arrivals of {target} at the upstream");
            for seen in arrived {
                assert_eq!(seen.body.len(), row.body.len(), "the length of {target} at the upstream");
                assert!(seen.body == row.body, "the upstream got other bytes of {target}");
            }
        }
    }
}

impl Entry {
    fn expected_line(&self, protocol: Protocol) -> String {
        let Row { status, verdict, method, .. } = &self.row;
        format!("{status} {verdict} \"{method} {} {}\"", self.target, protocol.version())
    }
}

fn targets(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.target.as_str()).collect()
}

fn label(event: &Event) -> String {
    event.label.as_ref().map_or_else(String::new, |label| label.text.clone())
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

/// The upstream: who has a name is known, everything else is stored, `/single` once the gate opens for it.
fn answer(seen: &Seen, gate: &Arc<Notify>) -> Answer {
    match (seen.target.as_str(), seen.headers.get("x-user")) {
        ("/who", None) => Answer::Respond(403, "nobody".into()),
        (target, _) if target.starts_with("/single") => Answer::When(Arc::clone(gate), 200, "stored".into()),
        _ => Answer::ok("stored"),
    }
}
