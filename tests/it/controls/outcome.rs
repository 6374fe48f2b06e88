//! What the variables say of an admission: one line of the access log tells a denial from a failed limiter. They are right
//! whenever they are read.

use ratelimitly_devserver::{Command, Fault, FaultKind, Servers};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, http};

/// The bucket `few` has two tokens an hour. Each test asks where it needs to.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=100ms;
        ratelimitly_zone few "bucket=few" rate=2r/1h;
        ratelimitly_zone many "bucket=many" rate=1000r/s;
        ratelimitly_zone named "bucket=$arg_bucket" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        ratelimitly_guard idle tracker=app threshold=400ms;
        map $ratelimitly_outcome $mapped { default "map $ratelimitly_outcome"; }
        map $ratelimitly_outcome $kept { default "map $ratelimitly_outcome"; }
        map $ratelimitly_outcome $volatile { volatile; default "map $ratelimitly_outcome"; }

        log_format told '$status $ratelimitly_outcome $ratelimitly_failure [$ratelimitly_denied_by] '
                        '$ratelimitly_server $ratelimitly_guard_latency';
        log_format times '$ratelimitly_outcome $ratelimitly_time';
        log_format reads '$status $ratelimitly_outcome';
        log_format every '$ratelimitly_verdict|$ratelimitly_outcome|$ratelimitly_failure|$ratelimitly_time|'
                         '$ratelimitly_server|$ratelimitly_denied_by|$ratelimitly_guard_latency|'
                         '$ratelimitly_limit|$ratelimitly_remaining|$ratelimitly_reset|'
                         '$ratelimitly_retry_after|$ratelimitly_policy_header|$ratelimitly_limit_header|'
                         '$ratelimitly_violated_policies';

        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log told;
            location / { ratelimitly zone=few; empty_gif; }
            location /open { ratelimitly zone=many; empty_gif; }
            location /close { ratelimitly_fail close; ratelimitly zone=many; empty_gif; }
            location /named { ratelimitly_fail close; ratelimitly zone=named; empty_gif; }
            location /both { ratelimitly zone=few guard=healthy guard=idle; empty_gif; }
            location /twice {
                ratelimitly zone=many;
                ratelimitly zone=many guard=idle guard=healthy;
                empty_gif;
            }
            location /free { empty_gif; }
            location /page { error_page 403 /close; return 403; }
            location /times { access_log {prefix}/access.log times; ratelimitly zone=many; empty_gif; }
        }
        server {
            listen 127.0.0.1:{port_early};
            access_log {prefix}/access.log reads;
            root {prefix}/html;
            set $early "early $ratelimitly_outcome";
            add_header X-Early "$early" always;
            add_header X-Late $ratelimitly_outcome always;
            add_header X-Mapped $mapped always;
            ratelimitly zone=many;
            location /ssi { ssi on; ssi_types *; }
            location /inner { ssi on; ssi_types *; }
            location /maps {
                set $copied "$kept, $volatile";
                add_header X-Copied   $copied   always;
                add_header X-Kept     $kept     always;
                add_header X-Volatile $volatile always;
                empty_gif;
            }
            location = /moved/ { ratelimitly zone=many if=0; index $ratelimitly_outcome.html; }
            location = /moved/skip.html { add_header X-Own yes; charset $ratelimitly_outcome; }
            location = /charset.html { add_header X-Own yes; charset $ratelimitly_outcome; }
        }
        server {
            listen 127.0.0.1:{port_every};
            root {prefix}/html;
            access_log {prefix}/access.log every;
            set $every "$ratelimitly_verdict$ratelimitly_outcome$ratelimitly_failure$ratelimitly_time";
            set $every "$every$ratelimitly_server$ratelimitly_denied_by$ratelimitly_guard_latency";
            set $every "$every$ratelimitly_limit$ratelimitly_remaining$ratelimitly_reset";
            set $every "$every$ratelimitly_retry_after$ratelimitly_policy_header$ratelimitly_limit_header";
            set $every "$every$ratelimitly_violated_policies";
            add_header X-Every "early: $every" always;
            ratelimitly zone=few guard=healthy;
            location / { empty_gif; }
            location = /moved/ { error_page 429 /moved/page.html; }
            location = /moved/page.html { ratelimitly zone=many; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).start().await;
    nginx.admits().await;
    nginx
}

/// The last line of the access log once it has `count` lines.
async fn line(nginx: &Nginx, count: usize) -> String {
    nginx.await_access_log(count).await.swap_remove(count - 1)
}

async fn told(nginx: &Nginx, path: &str) -> String {
    let before = nginx.access_log().len();
    http::get(nginx.port(), path).await;
    line(nginx, before + 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t01_one_line_tells_a_denial_from_a_failed_limiter() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let server = dev.status().servers[0].id;

    assert_eq!(told(&nginx, "/").await, format!("200 allow - [-] {server} -"));
    told(&nginx, "/").await;
    assert_eq!(told(&nginx, "/").await, format!("429 deny - [zone:few] {server} -"));
    dev.fault(Fault::Silent).await;
    assert_eq!(told(&nginx, "/open").await, "200 fail_open timeout [-] - -");
    assert_eq!(told(&nginx, "/close").await, "429 fail_close timeout [-] - -");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t02_t10_what_refused_is_named_in_the_order_of_the_question_and_once() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let server = dev.status().servers[0].id;

    dev.fault(Fault::Latency { guard: 0, ms: 100 }).await;
    assert_eq!(told(&nginx, "/both").await, format!("429 deny - [guard:healthy] {server} 100"));
    dev.fault(Fault::Latency { guard: 1, ms: 450 }).await;
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let all = "zone:few, guard:healthy, guard:idle";
    assert_eq!(told(&nginx, "/both").await, format!("429 deny - [{all}] {server} 100"));
    dev.fault(Fault::Deficit { resource: 1, tokens: 1 }).await;
    dev.clear([FaultKind::Latency]).await;
    let latency = "0"; // of the guard asked first, as none refuses
    assert_eq!(told(&nginx, "/twice").await, format!("429 deny - [zone:many] {server} {latency}"));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_a_failure_names_its_cause() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    assert_eq!(told(&nginx, "/named").await, "429 fail_close invalid-value [-] - -");
    dev.fault(Fault::EmptyResults).await;
    assert_eq!(told(&nginx, "/close").await, "429 fail_close cardinality [-] - -");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t04_e30_where_nothing_was_asked_there_is_no_outcome() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    assert_eq!(told(&nginx, "/free").await, "200 - - [-] - -");
    assert_eq!(told(&nginx, "/page").await, "403 - - [-] - -");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t04_an_abort_while_the_answer_is_awaited_leaves_no_outcome() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::Hold).await;

    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    client.send("GET /open HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    dev.await_requests("the question", |seen| !seen.is_empty()).await;
    client.reset().expect("reset");

    assert_eq!(line(&nginx, 1).await, "499 - - [-] - -");
    dev.apply(Command::Clear { servers: Servers::All, faults: vec![] }).await.expect("cleared");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t05_the_time_is_how_long_the_admission_took() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::Silent).await;

    let logged = told(&nginx, "/times").await;

    // Three units of 100 ms are the policy's horizon.
    let seconds = logged.strip_prefix("fail_open ").expect("a failure");
    assert!(seconds.len() >= 5 && seconds.as_bytes()[seconds.len() - 4] == b'.', "{seconds}");
    assert!(seconds.parse::<f64>().expect("seconds") >= 0.3, "{seconds}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t06_an_early_read_freezes_nothing_but_what_map_and_set_keep() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    let response = http::get(nginx.named_port("port_early"), "/__alive").await;

    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-early"), Some("early"), "set has copied the value of then");
    assert_eq!(response.header("x-late"), Some("allow"));
    assert_eq!(response.header("x-mapped"), Some("map allow"), "map had not been read before");
    assert_eq!(line(&nginx, 1).await, "200 allow");
    nginx.finish().await;
}

/// `map` keeps the result of its first reading, here one before the decision, unless it is volatile; `set` copies.
#[tokio::test(flavor = "multi_thread")]
async fn t06_a_map_that_was_read_early_keeps_its_result_unless_it_is_volatile() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    let response = http::get(nginx.named_port("port_early"), "/maps").await;

    assert_eq!(response.header("X-Copied"), Some("map , map"));
    assert_eq!(response.header("X-Kept"), Some("map"));
    assert_eq!(response.header("X-Volatile"), Some("map allow"));
    nginx.finish().await;
}

/// nginx's `charset` takes what an earlier reader has left in the variable's slot, here the server's `set`. Most other
/// readers, `add_header` among them, ask anew for what must not be cached.
#[tokio::test(flavor = "multi_thread")]
async fn t06_a_reader_that_asks_for_no_fresh_value_gets_the_decision_too() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    std::fs::write(nginx.prefix().join("html/charset.html"), "a page").expect("a page");

    let response = http::get(nginx.named_port("port_early"), "/charset.html").await;

    assert!(
        response.header("Content-Type").is_some_and(|value| value.ends_with("charset=allow")),
        "{response:?}"
    );
    nginx.finish().await;
}

/// Each is read before the question, then by the log.
#[tokio::test(flavor = "multi_thread")]
async fn t06_every_variable_is_right_in_the_log_though_it_was_read_early() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let port = nginx.named_port("port_every");
    let server = dev.status().servers[0].id;
    dev.fault(Fault::Latency { guard: 0, ms: 7 }).await;
    let early = http::get(port, "/").await;
    assert_eq!((early.status, early.header("X-Every")), (200, Some("early:")));
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    dev.fault(Fault::Latency { guard: 0, ms: 700 }).await;
    assert_eq!(http::get(port, "/").await.status, 429);
    dev.fault(Fault::Silent).await;
    assert_eq!(http::get(port, "/").await.status, 200);

    let lines = nginx.await_access_log(3).await;
    let time = regex::Regex::new(r"\|\d+\.\d{3}\|").expect("a constant pattern");
    let lines: Vec<_> =
        lines.iter().map(|line| time.replace(&line.replace("\\x22", "\""), "|TIME|").into_owned()).collect();
    let policy = "\"few\";q=2;w=3600";
    assert_eq!(lines[0], format!("allow|allow|-|TIME|{server}|-|7|2|1|3600|-|{policy}|\"few\";r=1;t=3600|-"));
    let denied = format!(
        "deny|deny|-|TIME|{server}|zone:few, guard:healthy|700|2|1|1800|1800|{policy}|\"few\";r=1;t=1800|[\"few\", \"healthy\"]"
    );
    assert_eq!(lines[1], denied);
    assert_eq!(lines[2], "-|fail_open|timeout|TIME|-|-|-|-|-|-|-|-|-|-");
    nginx.finish().await;
}

/// The page's own rule is not asked, and its location clears nginx's table of contexts.
#[tokio::test(flavor = "multi_thread")]
async fn t08_an_internal_redirect_keeps_every_variable() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let html = nginx.prefix().join("html/moved");
    std::fs::create_dir_all(&html).expect("a folder");
    std::fs::write(html.join("page.html"), "slow down").expect("a page");
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;

    let response = http::get(nginx.named_port("port_every"), "/moved/").await;

    assert_eq!((response.status, response.text()), (429, "slow down".to_owned()));
    assert_eq!(dev.admissions().len(), 1);
    let told = line(&nginx, 1).await;
    assert!(told.starts_with("deny|deny|-|") && told.contains("|zone:few|0|2|2|1800|1800|"), "{told}");
    nginx.finish().await;
}

/// `index` reads `skip`, and leads to a location whose rule asks.
#[tokio::test(flavor = "multi_thread")]
async fn t06_e26_the_outcome_skip_that_was_read_gives_way_to_a_later_decision() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let html = nginx.prefix().join("html/moved");
    std::fs::create_dir_all(&html).expect("a folder");
    std::fs::write(html.join("skip.html"), "skipped").expect("a page");

    let response = http::get(nginx.named_port("port_early"), "/moved/").await;

    assert_eq!(response.text(), "skipped");
    let kept = response.header("Content-Type").expect("a type");
    assert!(kept.ends_with("charset=allow"), "what was cached is forgotten: {kept}");
    assert_eq!(line(&nginx, 1).await, "200 allow");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t07_a_subrequest_reads_what_came_of_its_main_request() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let html = nginx.prefix().join("html");
    std::fs::create_dir_all(html.join("ssi")).expect("a folder");
    std::fs::create_dir_all(html.join("inner")).expect("a folder");
    let include = r#"<!--# include virtual="/inner/page" -->"#;
    std::fs::write(html.join("ssi/page"), include).expect("a page");
    let echo = r#"<!--# echo var="ratelimitly_outcome" -->"#;
    std::fs::write(html.join("inner/page"), echo).expect("a page");

    let response = http::get(nginx.named_port("port_early"), "/ssi/page").await;

    assert_eq!(response.text(), "allow");
    assert_eq!(dev.admissions().len(), 1);
    nginx.finish().await;
}
