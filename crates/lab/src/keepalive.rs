//! `ci/lab keepalive`: waves of requests that reach an application just when it closes idle connections, what nginx makes
//! of that, and that each request still has one admission and one report. Fails if that does not hold.

use crate::client;
use crate::error::{Error, io};
use clap::Args;
use ratelimitly_harness::app::{App, Idle, waves};
use ratelimitly_harness::{Dev, Nginx};
use std::process::ExitCode;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const CONF: &str = r#"load_module {module};
events { worker_connections 1024; }
http {
    log_format lab '$request_method $status "$upstream_status" $ratelimitly_verdict';
    access_log {prefix}/access.log lab;
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone all "bucket=all" rate=100000r/s;
    ratelimitly_tracker app "service=app";
    upstream app { server {app}; keepalive 64; {keepalive_timeout} }
    server {
        listen 127.0.0.1:{port};
        location = /warm {
            access_log off;
            add_header X-Verdict $ratelimitly_verdict always;
            ratelimitly zone=all;
            empty_gif;
        }
        location / {
            ratelimitly zone=all;
            ratelimitly_report app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream error timeout {next};
            proxy_pass http://app;
        }
    }
}
"#;

/// The application's idle time; the waves are released around it.
const IDLE: Duration = Duration::from_secs(1);
/// Longest wait for what is still under way at the end.
const SETTLING: Duration = Duration::from_secs(5);

/// What the experiment is run with.
#[derive(Args, Debug)]
pub struct Options {
    /// Waves of each case.
    #[arg(long, default_value_t = 12)]
    waves: u32,
    /// Requests of a wave, half of them GET and half POST.
    #[arg(long, default_value_t = 30)]
    requests: u32,
}

/// One way to set nginx and the application up.
struct Case {
    title: &'static str,
    late: Duration,
    keepalive_timeout: &'static str,
    next: &'static str,
    /// Whether no request may fail.
    safe: bool,
}

const BUSY: Duration = Duration::from_millis(5);
const CASES: [Case; 4] = [
    Case {
        title: "the application closes first",
        late: Duration::ZERO,
        keepalive_timeout: "",
        next: "",
        safe: false,
    },
    Case {
        title: "the same, its loop busy for 5 ms",
        late: BUSY,
        keepalive_timeout: "",
        next: "",
        safe: false,
    },
    Case {
        title: "the same, non_idempotent retried",
        late: BUSY,
        keepalive_timeout: "",
        next: "non_idempotent",
        safe: false,
    },
    Case {
        title: "nginx closes first, after 500 ms",
        late: BUSY,
        keepalive_timeout: "keepalive_timeout 500ms;",
        next: "",
        safe: true,
    },
];

/// What a case came to.
struct Outcome {
    requests: usize,
    lines: Vec<String>,
    admissions: usize,
    reports: usize,
    worked: usize,
}

/// Runs every case, side by side, and prints the table.
///
/// # Errors
/// A case cannot be run.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    let mut running = JoinSet::new();
    for (place, case) in CASES.iter().enumerate() {
        let (count, requests) = (options.waves, options.requests);
        running.spawn(async move { case.run(count, requests).await.map(|outcome| (place, outcome)) });
    }
    let mut outcomes = Vec::new();
    while let Some(ended) = running.join_next().await {
        outcomes.push(ended.map_err(|error| io("a case")(error.into()))??);
    }
    outcomes.sort_by_key(|(place, _)| *place);
    println!(
        "| case | requests | GET retried unseen | POST retried | 502 to the client | of these allowed | admissions | reports | worked on | |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let mut all = true;
    for (place, outcome) in outcomes {
        all &= outcome.print(&CASES[place]);
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Case {
    async fn run(&self, count: u32, requests: u32) -> Result<Outcome, Error> {
        let (app, dev) = (App::start(Idle { after: IDLE, late: self.late }).await, Dev::start().await);
        let builder = Nginx::builder(CONF).dev(&dev).set("app", app.address());
        let builder = builder.set("keepalive_timeout", self.keepalive_timeout).set("next", self.next);
        let nginx = client::start(builder, "error").await?;
        client::warm(&nginx, "/warm").await?;
        let asked = dev.admissions().len();
        let requests = waves(nginx.port(), IDLE, count, requests).await.len();
        let started = Instant::now();
        while dev.distinct_reports().len() < requests && started.elapsed() < SETTLING {
            sleep(Duration::from_millis(20)).await; // then looked at again
        }
        Ok(Outcome {
            requests,
            lines: client::read(&nginx, "access.log")?.lines().map(str::to_owned).collect(),
            admissions: dev.admissions().len() - asked,
            reports: dev.distinct_reports().len(),
            worked: app.worked(),
        })
    }
}

impl Outcome {
    /// Prints its row and tells whether it is as it should be.
    fn print(&self, case: &Case) -> bool {
        let count = |part: &dyn Fn(&str) -> bool| self.lines.iter().filter(|line| part(line)).count();
        let retried = |method: &str| count(&|line| line.starts_with(method) && line.contains("\"502, "));
        let failed = count(&|line| line.contains(" 502 \""));
        let allowed = count(&|line| line.contains(" 502 \"") && line.ends_with(" allow"));
        let (get, post) = (retried("GET"), retried("POST"));
        let once = self.admissions == self.requests && self.reports == self.requests;
        let held = once
            && self.lines.len() == self.requests
            && allowed == failed
            && (!case.safe || failed + get + post == 0);
        println!(
            "| {} | {} | {get} | {post} | {failed} | {allowed} | {} | {} | {} | {} |",
            case.title,
            self.requests,
            self.admissions,
            self.reports,
            self.worked,
            if held { "as it should be" } else { "**WRONG**" },
        );
        held
    }
}
