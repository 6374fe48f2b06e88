//! HTTP/3, which nginx 1.28.3 speaks and Debian's 1.22.1 does not: each stream has its own admission, and a cancelled one
//! takes no other with it.

use bytes::Bytes;
use ratelimitly_devserver::{Command, Event, Fault, FaultKind, Order, Servers};
use ratelimitly_harness::h3::{Connection, Stream};
use ratelimitly_harness::http::{Request, Response};
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Dev, Nginx, Upstream, environment, eventually};
use std::time::Duration;

/// One replay after a second, so that what is still in flight then shows itself. `/shut` has one token an hour.
const SITE: &str = r#"
    {service}
    ratelimitly_policy custom unit=1s replays=1 replay_gap=fixed:1 final_wait_units=0
                              completion_delivery=off;
    ratelimitly_fail {fail};
    ratelimitly_zone open "bucket=open" rate=1000r/s;
    ratelimitly_zone shut "bucket=shut" rate=1r/1h;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:{port} quic;
        ratelimitly_label "$arg_n";
        ssl_certificate {certificate}/certificate.pem;
        ssl_certificate_key {certificate}/key.pem;
        ssl_protocols TLSv1.3;
        add_header X-Verdict $ratelimitly_verdict always;
        location /open { ratelimitly zone=open; empty_gif; }
        location /shut { ratelimitly zone=shut; empty_gif; }
        location /upload {
            ratelimitly zone=open;
            proxy_http_version 1.1;
            proxy_pass http://{upstream};
        }
    }
"#;

/// Whether this nginx speaks HTTP/3.
fn spoken() -> bool {
    let spoken = environment::has_http3();
    if !spoken {
        eprintln!("nothing to test: this nginx does not speak HTTP/3");
    }
    spoken
}

struct Site {
    dev: Dev,
    nginx: Nginx,
    upstream: Upstream,
    connection: Connection,
    /// The reload at the end reads its files again.
    _certificate: Certificate,
}

/// A warm nginx and a connection to it.
async fn site(fail: &str) -> Site {
    let (dev, upstream, certificate) =
        (Dev::single().await, Upstream::ok("stored").await, Certificate::new());
    let builder = Nginx::builder(SITE).dev(&dev).set("fail", fail).set("upstream", upstream.address());
    let nginx = builder.set("certificate", certificate.folder().display()).warm().await;
    let connection = Connection::connect(nginx.port(), &certificate).await.expect("connected");
    Site { dev, nginx, upstream, connection, _certificate: certificate }
}

impl Site {
    async fn fault(&self, fault: Fault) {
        let command = Command::Fault { servers: Servers::All, fault };
        self.dev.apply(command).await.expect("the fault is set");
    }

    /// Waits until the server keeps so many answers back.
    async fn held(&self, count: usize) {
        let what = format!("{count} answers are held");
        eventually(Duration::from_secs(10), what, || self.dev.status().held >= count).await;
    }

    async fn answer_all(&self) {
        let command = Command::Clear { servers: Servers::All, faults: vec![FaultKind::Hold] };
        self.dev.apply(command).await.expect("the held answers leave");
    }

    async fn finish(self) {
        self.connection.close().await;
        self.nginx.finish().await;
    }
}

fn label(event: &Event) -> &str {
    event.label.as_ref().map_or("", |label| label.text.as_str())
}

fn post() -> Request<()> {
    let request = Request::post("https://localhost/upload?n=1").header("content-length", 1 << 20);
    request.body(()).expect("a request")
}

/// One mebibyte in which every place can be told from its neighbours.
fn megabyte() -> Bytes {
    (0..1 << 20).map(|place: u32| (place ^ place >> 8 ^ place >> 16) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_streams_of_one_connection_get_their_own_verdicts() {
    if !spoken() {
        return;
    }
    let mut site = site("close").await;
    let last_token = site.connection.get("/shut").await.expect("sent").response().await.expect("a response");
    assert_eq!(last_token.status, 200);
    site.dev.clear_events();
    site.fault(Fault::Hold).await;

    let mut streams = Vec::new();
    for n in 0..20 {
        let path = if n % 2 == 0 { "/open" } else { "/shut" };
        streams.push(site.connection.get(&format!("{path}?n={n}")).await.expect("sent"));
    }
    site.held(20).await;
    let release = Command::Release { servers: Servers::All, order: Order::Reverse };
    site.dev.apply(release).await.expect("the answers leave, the youngest first");

    for (n, stream) in streams.into_iter().enumerate() {
        let response = stream.response().await.expect("a response");
        let expected = if n % 2 == 0 { (200, "allow") } else { (429, "deny") };
        assert_eq!((response.status, verdict(&response)), expected, "stream {n}");
    }
    assert_eq!(site.dev.admissions().len(), 20);
    site.finish().await;
}

fn verdict(response: &Response) -> &str {
    response.header("x-verdict").unwrap_or("-")
}

#[tokio::test(flavor = "multi_thread")]
async fn c36_a_stream_cancelled_while_waiting_cancels_its_own_admission_only() {
    if !spoken() {
        return;
    }
    for fail in ["open", "close"] {
        let mut site = site(fail).await;
        let mut streams = Vec::new();
        site.fault(Fault::Hold).await;
        for n in 0..3 {
            streams.push(site.connection.get(&format!("/open?n={n}")).await.expect("sent"));
        }
        cancelled(site, streams, Stream::cancel, "GET /open?n=1").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c36_an_upload_reset_while_waiting_cancels_its_own_admission_only() {
    if !spoken() {
        return;
    }
    let mut site = site("close").await;
    let mut streams = Vec::new();
    site.fault(Fault::Hold).await;
    for n in 0..3 {
        streams.push(match n {
            1 => site.connection.start(post()).await.expect("sent"),
            _ => site.connection.get(&format!("/open?n={n}")).await.expect("sent"),
        });
    }
    cancelled(site, streams, Stream::reset, "POST /upload?n=1").await;
}

/// Three streams wait, the one in the middle is cancelled, the others finish.
async fn cancelled(site: Site, mut streams: Vec<Stream>, cancel: fn(Stream), request: &str) {
    let warm_up = site.nginx.log_lines("ratelimitly: admission ").len();
    site.dev.await_requests("all three", |requests| requests.len() >= 3).await;

    cancel(streams.remove(1));
    let logged = site.nginx.await_access_log(1).await;
    assert_eq!(logged, [format!("499 - \"{request} HTTP/3.0\"")]);
    // The others go on: each is sent once more.
    site.held(5).await;
    site.answer_all().await;
    for stream in streams {
        assert_eq!(stream.response().await.expect("a response").status, 200);
    }

    site.nginx.await_access_log(3).await;
    let replayed: Vec<_> = site.dev.requests().into_iter().filter(|event| event.copy > 1).collect();
    assert!(replayed.iter().all(|event| label(event) != "1"), "{replayed:#?}");
    let ended = site.nginx.log_lines("ratelimitly: admission ").len() - warm_up;
    assert_eq!(ended, 2, "the cancelled stream's admission has no end of its own");
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_sent_during_the_wait_arrives_whole() {
    if !spoken() {
        return;
    }
    let mut site = site("close").await;
    site.fault(Fault::Delay { ms: 200 }).await;

    let mut stream = site.connection.start(post()).await.expect("sent");
    stream.send(megabyte()).await.expect("the body is taken");
    stream.finish().await.expect("the body ends");
    let response = stream.response().await.expect("a response");

    assert_eq!((response.status, response.text().as_str()), (200, "stored"));
    let seen = site.upstream.seen();
    assert!(seen[0].body == megabyte(), "the upstream got {} bytes", seen[0].body.len());
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_body_is_not_waited_for() {
    if !spoken() {
        return;
    }
    let mut site = site("open").await;
    site.fault(Fault::Delay { ms: 200 }).await;
    site.fault(Fault::ForceDeny).await;

    // The body never comes: a response at all is one that did not wait for it.
    let stream = site.connection.start(post()).await.expect("sent");
    let response = stream.response().await.expect("a response");

    assert_eq!((response.status, verdict(&response)), (429, "deny"));
    assert!(site.upstream.seen().is_empty());
    site.finish().await;
}

/// One thread: the request and its cancellation are written before the connection's task sends anything, so that they reach
/// nginx in one datagram, and the cancellation comes before the request begins.
#[tokio::test]
async fn a_stream_cancelled_before_its_request_began_is_noticed_at_once() {
    if !spoken() {
        return;
    }
    let mut site = site("close").await;
    site.fault(Fault::Hold).await;

    site.connection.get("/open").await.expect("sent").cancel();

    let lines = site.nginx.await_access_log(1).await;
    assert_eq!(lines, ["499 - \"GET /open HTTP/3.0\""]);
    assert!(site.nginx.log_lines("admission failure=").is_empty());
    site.finish().await;
}
