//! What is reported and of which requests: `ratelimitly_report ... if= time=`. With it a cached page, a fast 502, a refusal
//! by `max_conns` and a slow client do not pass for a healthy or a sick backend.

use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually, http};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);
/// A latency that no test's upstream has and that a slow client or a timeout exceeds, milliseconds.
const SLOW_MS: u32 = 400;

/// `/plain/` reports each request's duration, every other place what its directive says. Nothing listens at port 9.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_tracker app "service=app";
        proxy_cache_path {prefix}/cache keys_zone=cache:1m;

        map $upstream_status $backend_time {
            ~504$    $upstream_response_time;
            default  $upstream_header_time;
        }
        map $status $is_success { ~^2 1; default 0; }
        upstream few { zone few 64k; server {upstream} max_conns=1; }
        upstream second { server 127.0.0.1:9 max_fails=0; server {upstream} backup; }

        server {
            listen 127.0.0.1:{port};
            ratelimitly_report app time=$backend_time;
            location /app/ { proxy_pass http://{upstream}; }
            location /cached/ {
                proxy_cache       cache;
                proxy_cache_key   one;
                proxy_cache_valid 200 1h;
                proxy_pass        http://{upstream};
            }
            location /refused/ { proxy_pass http://127.0.0.1:9; }
            location /few/     { proxy_pass http://few; }
            location /second/  { proxy_pass http://second; }
            location /hangs/   { proxy_read_timeout 500ms; proxy_pass http://{upstream}; }
            location /slow/    { limit_rate 8k; proxy_pass http://{upstream}; }
            location /plain/slow/ {
                ratelimitly_report app;
                limit_rate 8k;
                proxy_pass http://{upstream};
            }
            location /value/ { ratelimitly_report app time=$arg_time if=$arg_if; empty_gif; }
            location /success/ { ratelimitly_report app if=$is_success; proxy_pass http://{upstream}; }
        }
    }
"#;

/// Answers at once, but for `/hangs/` and `/few/held`, which wait for the notice; `/slow/` is 8 KiB.
async fn backend(notice: &Arc<Notify>) -> Upstream {
    let notice = Arc::clone(notice);
    Upstream::start(move |seen| match seen.target.as_str() {
        "/hangs/" | "/few/held" => Answer::When(Arc::clone(&notice), 200, "late".into()),
        "/success/500" => Answer::Respond(500, "broken".into()),
        target if target.ends_with("/slow/") => Answer::Respond(200, vec![b'x'; 8192].into()),
        _ => Answer::ok("done"),
    })
    .await
}

async fn site(dev: &Dev, upstream: &Upstream) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).set("upstream", upstream.address()).start().await;
    nginx.admits().await;
    nginx
}

/// What has been reported once `count` reports are there, milliseconds.
async fn reported(dev: &Dev, count: usize) -> Vec<u32> {
    dev.await_reports(&format!("{count} reports"), |reports| reports.len() >= count).await;
    dev.distinct_reports().iter().map(|report| report.observations[0].latency_ms).collect()
}

/// Makes a request that is reported, and says what was reported until then beside it: a later report that has arrived
/// proves that an earlier one was not sent.
async fn reported_before(dev: &Dev, nginx: &Nginx) -> Vec<u32> {
    http::get(nginx.port(), "/value/?time=77.777&if=1").await;
    let last = |reports: &[ratelimitly_devserver::Event]| {
        reports.iter().any(|report| report.observations[0].latency_ms == 77_777)
    };
    dev.await_reports("the last one", last).await;
    let all = dev.distinct_reports();
    all.iter().map(|report| report.observations[0].latency_ms).filter(|&ms| ms != 77_777).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn e33_a_cached_page_is_not_reported() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    for _ in 0..3 {
        assert_eq!(http::get(nginx.port(), "/cached/").await.status, 200);
    }
    assert_eq!(upstream.seen().len(), 1, "the cache answers the others");
    assert_eq!(reported_before(&dev, &nginx).await.len(), 1);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e33_a_backend_that_is_down_is_not_reported_as_a_fast_one() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    assert_eq!(http::get(nginx.port(), "/refused/").await.status, 502);
    assert!(reported_before(&dev, &nginx).await.is_empty());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e33_a_request_that_max_conns_refuses_is_not_reported() {
    let dev = Dev::single().await;
    let notice = Arc::new(Notify::new());
    let upstream = backend(&notice).await;
    let nginx = site(&dev, &upstream).await;
    let port = nginx.port();
    let held = tokio::spawn(async move { http::get(port, "/few/held").await.status });
    eventually(SOON, "the backend has the first request", || !upstream.seen().is_empty()).await;

    assert_eq!(http::get(port, "/few/refused").await.status, 502);
    assert!(reported_before(&dev, &nginx).await.is_empty());
    notice.notify_one();
    assert_eq!(held.await.expect("it ends"), 200);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e33_a_slow_client_does_not_pass_for_a_slow_backend() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    assert_eq!(http::get(nginx.port(), "/slow/").await.body.len(), 8192);
    assert_eq!(http::get(nginx.port(), "/plain/slow/").await.body.len(), 8192);

    let [backend_ms, whole_ms] = reported(&dev, 2).await[..] else { panic!("two reports") };
    assert!(backend_ms < SLOW_MS, "{backend_ms} ms are the backend's");
    assert!(whole_ms > SLOW_MS, "{whole_ms} ms are the whole request's");
    nginx.finish().await;
}

/// Its first byte never comes, so its time until the timeout is reported.
#[tokio::test(flavor = "multi_thread")]
async fn e34_a_backend_that_hangs_is_reported_with_the_time_until_the_timeout() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    assert_eq!(http::get(nginx.port(), "/hangs/").await.status, 504);
    let reported = reported(&dev, 1).await;
    assert!(reported[0] > SLOW_MS, "{reported:?}");
    nginx.finish().await;
}

/// nginx writes a list then, of the refused attempt and of the other one.
#[tokio::test(flavor = "multi_thread")]
async fn e32_of_several_attempts_the_last_one_is_reported() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    assert_eq!(http::get(nginx.port(), "/second/").await.status, 200);
    let reported = reported_before(&dev, &nginx).await;
    assert_eq!(reported.len(), 1);
    assert!(reported[0] < SLOW_MS, "{reported:?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e32_the_last_time_of_a_list_is_reported_in_whole_milliseconds_and_at_least_one() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    let times = ["0.123", "0.001,0.123:0.050", "3", "0.0009", "99999999999.000"];
    for time in times {
        http::get(nginx.port(), &format!("/value/?if=1&time={time}")).await;
    }
    for none in ["-", "", "0.001,-", "0.001:"] {
        http::get(nginx.port(), &format!("/value/?if=1&time={none}")).await;
    }
    assert_eq!(reported_before(&dev, &nginx).await, [123, 50, 3000, 1, u32::MAX]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e35_a_time_that_is_none_is_not_reported_and_named_in_the_log() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    for bad in ["0.1s", "-1", "1e3", "nan", "0.1,x,0.2"] {
        assert_eq!(http::get(nginx.port(), &format!("/value/?if=1&time={bad}")).await.status, 200);
    }
    assert!(reported_before(&dev, &nginx).await.is_empty());
    let said = "the time \"0.1s\" that is to be reported to tracker \"app\" is not a time";
    nginx.await_log_line(said).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e31_a_report_is_sent_unless_its_condition_is_empty_or_zero() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    for (condition, time) in
        [("1", "0.001"), ("0", "0.002"), ("", "0.003"), ("off", "0.004"), ("00", "0.005")]
    {
        http::get(nginx.port(), &format!("/value/?if={condition}&time={time}")).await;
    }
    assert_eq!(reported_before(&dev, &nginx).await, [1, 4, 5]);
    nginx.finish().await;
}

/// The status is known in the log phase only.
#[tokio::test(flavor = "multi_thread")]
async fn e31_a_condition_may_depend_on_the_status() {
    let dev = Dev::single().await;
    let upstream = backend(&Arc::default()).await;
    let nginx = site(&dev, &upstream).await;
    assert_eq!(http::get(nginx.port(), "/success/500").await.status, 500);
    assert_eq!(http::get(nginx.port(), "/success/200").await.status, 200);
    assert_eq!(reported_before(&dev, &nginx).await.len(), 1);
    nginx.finish().await;
}
