//! What the error log tells of an outage at nginx's default level: its beginning and its end, with the total.

use super::CONFIGURATION;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use std::time::{Duration, Instant};

/// Longer than the time without an answer after which the next answer ends an outage.
const LONG: Duration = Duration::from_millis(10_500);
const PATIENCE: Duration = Duration::from_secs(30);

const BEGIN: &str = r"\[error\].* ratelimitly: no valid answer from any of 1 server within \d+ ms";
const END: &str = r"\[error\].* ratelimitly: answers again after ";

async fn warm(dev: &Dev) -> Nginx {
    let builder = Nginx::builder(CONFIGURATION).dev(dev).set("fail", "open").set("unit", "20ms");
    builder.log_level("notice").warm().await
}

/// Asks until so much time has passed; gives the number of requests.
async fn ask_for(nginx: &Nginx, time: Duration) -> usize {
    let (started, mut asked) = (Instant::now(), 0);
    while started.elapsed() < time {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        asked += 1;
    }
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_and_its_end_are_two_lines_at_the_default_level() {
    let dev = Dev::single().await;
    let nginx = warm(&dev).await;
    dev.fault(Fault::Silent).await;

    let asked = ask_for(&nginx, LONG).await;
    dev.clear([]).await;
    let allowed = async || {
        http::get(nginx.port(), "/").await;
        nginx.access_log().last()?.starts_with("200 allow ").then_some(())
    };
    eventually_some(PATIENCE, "an answer", allowed).await;

    let end = nginx.await_log_line(END).await;
    let told: usize = number_before(&end, " requests without an answer");
    let unanswered = nginx.access_log().iter().filter(|line| line.starts_with("200 - ")).count();
    assert!(told >= asked && told == unanswered, "{unanswered} requests without an answer: {end}");
    let seconds: usize = number_before(&end, " s, ");
    assert!(seconds >= 10, "{end}");
    let ours = nginx.log_lines(r"\[error\].* ratelimitly: ");
    assert!(ours.len() == 2, "{ours:#?}");
    assert_eq!(nginx.log_lines(BEGIN), ours[..1]);
    nginx.finish().await;
}

/// The number, with its commas, that stands before these words.
fn number_before(line: &str, words: &str) -> usize {
    let before = line.split_once(words).unwrap_or_else(|| panic!("{line}")).0;
    let digits = before.rsplit(' ').next().unwrap_or_default().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("{line}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_exits_during_an_outage_tells_its_total() {
    let dev = Dev::single().await;
    let mut nginx = warm(&dev).await;
    dev.fault(Fault::Silent).await;
    for _ in 0..3 {
        http::get(nginx.port(), "/").await;
    }

    nginx.reload().await;

    let line = r"\[error\].* this worker exits during an outage: 3 requests without an answer within ";
    nginx.await_log_line(line).await;
    nginx.finish().await;
}

const FAULTY: &str = r#"
    {service}
    ratelimitly_fault {fault};
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=all; empty_gif; }
    }
"#;

/// Asks until an answer has come; gives what the module wrote into the error log.
async fn until_answered(dev: &Dev, fault: &str) -> (Nginx, Vec<String>) {
    let builder = Nginx::builder(FAULTY).fault_module().dev(dev).set("fault", fault);
    let nginx = builder.log_level("notice").start().await;
    eventually_some(PATIENCE, "an answer", async || {
        http::get(nginx.port(), "/").await;
        nginx.access_log().last()?.starts_with("200 allow ").then_some(())
    })
    .await;
    let lines = nginx.log_lines(r"\[error\].* ratelimitly: ");
    (nginx, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_be_set_up_says_so_and_when_it_is() {
    let dev = Dev::single().await;
    let (nginx, lines) = until_answered(&dev, "socket=2").await;

    assert!(lines[0].contains("this worker cannot be set up: the UDP socket cannot be opened"), "{lines:#?}");
    assert!(lines[1].contains("this worker is set up after "), "{lines:#?}");
    assert!(lines[1].contains(" 2 failed set-ups"), "{lines:#?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_answered_with_500_is_told_and_so_is_the_end_of_it() {
    let dev = Dev::single().await;
    let (nginx, lines) = until_answered(&dev, "watch=1").await;

    assert!(lines[0].contains("a request was answered with 500: "), "{lines:#?}");
    let end = "requests are answered without a 500 again after ";
    assert!(lines.iter().any(|line| line.contains(end)), "{lines:#?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_that_refuses_to_send_is_named_in_the_outage_line() {
    let dev = Dev::with(|config| ratelimitly_devserver::Config {
        listen: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
        ..config
    })
    .await;
    let text = CONFIGURATION.replace("ratelimitly_fail ", "ratelimitly_bind ::1; ratelimitly_fail ");
    let builder = Nginx::builder(&text).dev(&dev).set("fail", "open").set("unit", "20ms");
    let mut nginx = builder.log_level("notice").start().await;

    http::get(nginx.port(), "/").await;
    let line = r"\[error\].* no valid answer, the request could be sent to none of \d+ servers?, last to 127.0.0.1:\d+: .*os error \d+";
    eventually_some(PATIENCE, "a line that names the error", async || {
        http::get(nginx.port(), "/").await;
        (!nginx.log_lines(line).is_empty()).then_some(())
    })
    .await;

    nginx.configure(CONFIGURATION);
    nginx.reload().await;
    nginx.finish().await;
}
