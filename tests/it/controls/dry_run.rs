//! `ratelimitly_dry_run`: everything as ever, but nothing is refused. What clients see of it is in `headers`.

use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, http};

/// `/` inherits the dry run of the http block.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=100ms;
        ratelimitly_fail close;
        ratelimitly_dry_run on;
        ratelimitly_zone all "bucket=all" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        split_clients $arg_client $not_yet { 5% off; * on; }
        log_format told '$status $ratelimitly_verdict $ratelimitly_outcome $ratelimitly_failure '
                        '[$ratelimitly_denied_by] $ratelimitly_server $ratelimitly_guard_latency '
                        '$ratelimitly_limit $ratelimitly_remaining $ratelimitly_reset $ratelimitly_retry_after';

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            access_log {prefix}/access.log told;
            ratelimitly zone=all guard=healthy;
            ratelimitly_report app;
            location / { empty_gif; }
            location /open { ratelimitly_fail open; empty_gif; }
            location /enforced {
                ratelimitly_dry_run off;
                location /enforced/inner { empty_gif; }
                location /enforced/tried { ratelimitly_dry_run on; empty_gif; }
                empty_gif;
            }
            location /value { ratelimitly_dry_run $arg_dry; empty_gif; }
            location /part  { ratelimitly_dry_run $arg_a$arg_b; empty_gif; }
            location /split { ratelimitly_dry_run $not_yet; empty_gif; }
            location = /moved/           { index page.html; }
            location = /moved/page.html  { ratelimitly_dry_run off; }
            location = /back/            { ratelimitly_dry_run off; index page.html; }
            location = /back/page.html   { ratelimitly_dry_run on; }
        }
        server {
            listen 127.0.0.1:{port_enforced};
            ratelimitly_dry_run off;
            ratelimitly zone=all;
            location / { empty_gif; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).start().await;
    for folder in ["moved", "back"] {
        let folder = nginx.prefix().join("html").join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("page.html"), "a page").expect("a page");
    }
    nginx.admits().await;
    nginx
}

async fn status(nginx: &Nginx, path: &str) -> u16 {
    http::get(nginx.port(), path).await.status
}

/// The line of a request in the access log.
async fn told(nginx: &Nginx, path: &str) -> String {
    let before = nginx.access_log().len();
    http::get(nginx.port(), path).await;
    nginx.await_access_log(before + 1).await.swap_remove(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn t09_e08_a_dry_run_lets_a_denied_request_through_and_tells_the_log() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let server = dev.status().servers[0].id;

    assert_eq!(told(&nginx, "/").await, format!("200 allow allow - [-] {server} 0 1000 999 1 -"));
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let denied = told(&nginx, "/").await;
    let by_zone = format!("200 deny deny_dry_run - [zone:all] {server} ");
    assert!(denied.starts_with(&by_zone) && denied.ends_with(" 1 -"), "no wait: {denied}");
    dev.fault(Fault::Latency { guard: 0, ms: 150 }).await;
    let denied = told(&nginx, "/").await;
    assert!(denied.contains(" [zone:all, guard:healthy] ") && denied.contains(" 150 1000 "), "{denied}");
    dev.clear([]).await;
    dev.fault(Fault::Silent).await;
    assert_eq!(told(&nginx, "/").await, "200 - fail_close_dry_run timeout [-] - - - - - -");
    assert_eq!(told(&nginx, "/open").await, "200 - fail_open timeout [-] - - - - - -");
    nginx.finish().await;
}

/// The work was done, so it is reported.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_request_that_a_dry_run_lets_through_is_reported() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    assert_eq!(status(&nginx, "/enforced").await, 429);
    assert_eq!(status(&nginx, "/").await, 200);
    dev.await_reports("of the one that went through", |reports| !reports.is_empty()).await;
    nginx.finish().await;
    assert_eq!(dev.distinct_reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_a_dry_run_is_inherited_and_overridden() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    for (path, expected) in
        [("/", 200), ("/enforced", 429), ("/enforced/inner", 429), ("/enforced/tried", 200)]
    {
        assert_eq!(status(&nginx, path).await, expected, "{path}");
    }
    assert_eq!(http::get(nginx.named_port("port_enforced"), "/").await.status, 429);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_a_template_is_on_unless_it_renders_to_nothing_zero_or_off() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    for (query, expected) in [
        ("/value", 429),
        ("/value?dry=", 429),
        ("/value?dry=0", 429),
        ("/value?dry=off", 429),
        ("/value?dry=OFF", 200),
        ("/value?dry=00", 200),
        ("/value?dry=on", 200),
        ("/value?dry=false", 200),
        ("/part?a=o&b=ff", 429),
        ("/part?a=0&b=0", 200),
    ] {
        assert_eq!(status(&nginx, query).await, expected, "{query}");
    }
    nginx.finish().await;
}

/// nginx's hash of the clients decides, so the numbers are the same each time.
#[tokio::test(flavor = "multi_thread")]
async fn e12_split_clients_enforces_a_rule_for_some_and_always_the_same_ones() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    let mut refused = Vec::new();
    for client in 0..200 {
        if status(&nginx, &format!("/split?client={client}")).await == 429 {
            refused.push(client);
        }
    }
    assert!((1..=30).contains(&refused.len()), "{refused:?}");
    for client in refused {
        assert_eq!(status(&nginx, &format!("/split?client={client}")).await, 429);
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e13_the_location_that_asked_decides_about_the_dry_run() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    assert_eq!(status(&nginx, "/moved/").await, 200, "it leads to a page that enforces");
    assert_eq!(status(&nginx, "/back/").await, 429, "it would lead to a page that does not");
    assert_eq!(dev.admissions().len(), 2);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e08_a_dry_run_asks_waits_and_counts_as_ever() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    status(&nginx, "/").await;
    status(&nginx, "/enforced").await;
    let admissions = dev.admissions();
    let [tried, enforced] = &admissions[..] else { panic!("two admissions: {admissions:?}") };
    assert_eq!((&tried.resources, &tried.guards), (&enforced.resources, &enforced.guards));
    let counts = admissions.iter().map(|event| event.answer.as_ref().expect("an answer").resources[0].count);
    assert_eq!(counts.collect::<Vec<_>>(), [1, 2], "its token is consumed");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e14_an_error_of_the_module_stays_a_500_in_a_dry_run() {
    const BROKEN: &str = r#"
        http {
            {service}
            ratelimitly_fault handler_panic=1;
            ratelimitly_dry_run on;
            ratelimitly_zone all "bucket=all" rate=1000r/s;
            log_format told '$status $ratelimitly_verdict $ratelimitly_outcome $ratelimitly_failure';
            server {
                listen 127.0.0.1:{port};
                access_log {prefix}/access.log told;
                location / { ratelimitly zone=all; empty_gif; }
            }
        }
    "#;
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(BROKEN).fault_module().dev(&dev).start().await;
    nginx.expect_log(r"\[alert\].*panic at .*injected panic in the handler");
    nginx.expect_log(r"\[alert\].*a panic was stopped in the pre-content handler");
    assert_eq!(told(&nginx, "/").await, "500 - error internal");
    assert_eq!(told(&nginx, "/").await, "200 allow allow -", "the fault fires once");
    nginx.finish().await;
}
