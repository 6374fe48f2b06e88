//! What `ci/monitor` runs: a real Prometheus reads a real nginx. promtool checks the page and the alert rules, and tries each
//! alert on made-up hours (`rules.yml`); then Prometheus scrapes nginx while the development server's faults make alerts
//! pending. Everything is on loopback and ends with this program. Ends with the number of steps that passed, and with 1 if one
//! failed.
#![forbid(unsafe_code)]

use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::environment::repository;

use ratelimitly_harness::{Dev, Nginx, eventually_some, free_port, http};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_fail close;
        ratelimitly_zone few "bucket=few" rate=5r/1h;
        ratelimitly_tracker app "service=app" ttl=5s min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=10s;
        server {
            listen 127.0.0.1:{port_metrics};
            location = /metrics { ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port};
            ratelimitly_report app;
            location / { ratelimitly zone=few guard=healthy; empty_gif; }
        }
    }
"#;

/// Longest wait for what Prometheus is to see; it scrapes each second.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut passed = 0;
    let mut step = |name: &str| {
        passed += 1;
        println!("ok: {name}");
    };

    for (from, to) in [
        ("nginx-conf/prometheus-rules.yml", "prometheus-rules.yml"),
        ("tests/monitoring/rules.yml", "rules.yml"),
    ] {
        std::fs::copy(repository().join(from), folder.join(to)).expect("the rules can be copied");
    }
    promtool(folder, &["check", "rules", "prometheus-rules.yml"], "");
    step("promtool takes the alert rules");
    promtool(folder, &["test", "rules", "rules.yml"], "");
    step("each alert fires on what it is for, and none in a healthy hour");

    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(SITE).dev(&dev).start().await;
    nginx.allow_log("no valid answer");
    let statuses = ask(&nginx, 7).await;
    let page = http::get(nginx.named_port("port_metrics"), "/metrics").await.text();
    promtool(folder, &["check", "metrics"], &page);
    step("promtool takes the page");

    let prometheus = Prometheus::start(folder, nginx.named_port("port_metrics"));
    for (status, outcome) in [(200, "allow"), (429, "deny")] {
        let expected = statuses.iter().filter(|found| **found == status).count();
        assert!(expected > 0, "{statuses:?}");
        let query = format!("ratelimitly_admissions_total{{outcome=\"{outcome}\"}}");
        prometheus.await_value(&query, &expected.to_string()).await;
    }
    step("Prometheus has the counters of nginx");

    dev.fault(Fault::Silent).await;
    let pending = "ALERTS{alertname=\"RateLimitlyEveryAdmissionFails\"}";
    eventually_some(PATIENCE, "the alert is pending", async || {
        ask(&nginx, 1).await;
        prometheus.value(pending).await
    })
    .await;
    dev.clear([FaultKind::Silent]).await;
    step("silent servers make the alert pending");

    drop(prometheus);
    nginx.finish().await;
    println!("{passed} passed, 0 failed");
}

async fn ask(nginx: &Nginx, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(http::get(nginx.port(), "/").await.status);
    }
    statuses
}

/// Runs promtool in `folder`, with `input`; a complaint of its ends this program.
fn promtool(folder: &Path, arguments: &[&str], input: &str) {
    let mut tool = Command::new("promtool");
    tool.args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("promtool can be run");
    tool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("promtool reads");
    let output = tool.wait_with_output().expect("promtool ends");
    assert!(output.status.success(), "promtool {arguments:?}: {output:?}");
    if arguments == ["check", "metrics"] {
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "promtool complains: {output:?}");
    }
}

/// A Prometheus that scrapes one page each second.
struct Prometheus {
    process: Child,
    port: u16,
}

impl Prometheus {
    fn start(folder: &Path, page: u16) -> Prometheus {
        let port = free_port();
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [prometheus-rules.yml]\n\
             scrape_configs:\n  - job_name: ratelimitly\n    static_configs: [{{targets: ['127.0.0.1:{page}']}}]\n"
        );
        std::fs::write(folder.join("prometheus.yml"), configuration)
            .expect("the configuration can be written");
        let process = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus can be run");
        Prometheus { process, port }
    }

    /// The value of the first series that a query gives.
    async fn value(&self, query: &str) -> Option<String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = http::try_get(self.port, &format!("/api/v1/query?query={escaped}")).await.ok()?;
        let answer: serde_json::Value = serde_json::from_str(&answer.text()).ok()?;
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    }

    async fn await_value(&self, query: &str, expected: &str) {
        eventually_some(PATIENCE, format!("{query} is {expected}"), async || {
            self.value(query).await.filter(|found| found == expected)
        })
        .await;
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
