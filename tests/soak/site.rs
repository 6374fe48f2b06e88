//! What the soak runs against: one nginx with a location for each way through the module, and the development server.
//! Made and ended by `main.rs`.

use crate::checked;
use crate::places::{LOCATIONS, SHARED};
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Dev, Nginx, environment};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// `$request_id` as the label joins a line of the access log with the server's events.
const CONFIGURATION: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=200ms;
        ratelimitly_fail {fail};
        resolver_timeout 2s;
        ratelimitly_zone plenty "bucket=soak:plenty" rate=100000r/s;
        ratelimitly_zone client "bucket=soak:$arg_client" rate=2r/s;
        ratelimitly_zone scarce "bucket=soak:scarce" rate=3r/s;
        ratelimitly_group both zone=plenty zone=client;
        ratelimitly_tracker backend "service=soak" ttl=2s min_sample_threshold=1;
        ratelimitly_guard quick tracker=backend threshold=2ms;

        {shared}
        {debug}
        log_format soak '$request_id $status $ratelimitly_verdict $scheme:$server_protocol "$request" '
                        '$ratelimitly_outcome $ratelimitly_failure [$ratelimitly_denied_by]';
        client_max_body_size 4m;
        ssl_protocols TLSv1.3;
        ssl_certificate {certificate}/certificate.pem;
        ssl_certificate_key {certificate}/key.pem;
        server {
            listen 127.0.0.1:{port};
            listen 127.0.0.1:{port_h2}{http2};
            {locations}
        }
        server {
            listen 127.0.0.1:{port_tls} ssl{http2};
            {locations}
        }
        {quic}
        server {
            listen 127.0.0.1:{port_metrics};
            access_log off;
            location = /metrics { ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port_upstream};
            access_log off;
            location / { return 200 "upstream\n"; }
        }
    }
"#;

/// Datagrams that end a QUIC connection may reach the other worker of a reload: then only its idle timeout ends it, and
/// with it the old worker.
const QUIC: &str = r"
        server {
            listen 127.0.0.1:{port_quic} quic;
            keepalive_timeout 3s;
            {locations}
        }
";

/// A running nginx and its servers.
pub(crate) struct Site {
    pub nginx: Nginx,
    pub dev: Dev,
    /// What nginx shows the clients of TLS and QUIC.
    pub certificate: Arc<Certificate>,
    /// The development server's events, one JSON line each.
    pub events: PathBuf,
    folder: TempDir,
    keep: bool,
}

/// Where the clients connect.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    /// HTTP/1.1 in clear text.
    pub plain: u16,
    /// HTTP/2 in clear text.
    pub clear: u16,
    /// Either of them over TLS.
    pub secure: u16,
    /// HTTP/3, where nginx speaks it.
    pub quic: Option<u16>,
}

/// The configuration for this nginx, with its placeholders.
fn configuration(keep: bool) -> String {
    let debug = if keep { "error_log {prefix}/debug.log debug;" } else { "" };
    let quic = if environment::has_http3() { QUIC } else { "" };
    CONFIGURATION
        .replace("{debug}", debug)
        .replace("{quic}", quic)
        .replace("{shared}", SHARED)
        .replace("{locations}", LOCATIONS)
}

impl Site {
    /// `keep`: with a debug log, and its files stay.
    pub async fn start(seed: u64, keep: bool) -> Site {
        let folder = tempfile::Builder::new().prefix("ratelimitly-soak-").tempdir().expect("a folder");
        let events = folder.path().join("events");
        let dev = Dev::with(|mut config| {
            config.seed = seed;
            config.events = Some(events.clone());
            // An hour's events would fill the memory; the ledger reads the file.
            config.record = false;
            config
        })
        .await;
        let certificate = Arc::new(Certificate::new());
        let builder = Nginx::builder(&configuration(keep)).dev(&dev).set("fail", "open");
        let builder = builder.set("certificate", certificate.folder().display());
        let nginx = builder.log_level("notice").start().await;
        write_pages(nginx.prefix());
        nginx.admits().await;
        Site { nginx, dev, certificate, events, folder, keep }
    }

    pub fn ports(&self) -> Ports {
        let quic = environment::has_http3().then(|| self.nginx.named_port("port_quic"));
        let [clear, secure] = ["port_h2", "port_tls"].map(|name| self.nginx.named_port(name));
        Ports { plain: self.nginx.port(), clear, secure, quic }
    }

    /// Runs the harness's checks, whose end removes nginx's folder: the logs are moved out of it.
    pub async fn finish(mut self) -> (Kept, Result<(), String>) {
        let own = self.folder.path().to_owned();
        let link = |name: &str| std::fs::hard_link(self.nginx.prefix().join(name), own.join(name));
        let linked = ["soak.log", "error.log"].into_iter().try_for_each(link);
        if self.keep {
            let _ = link("debug.log"); // nginx may have been stopped before it wrote a line
            self.folder.disable_cleanup(true);
            println!("kept:     {}", own.display());
        }
        let finished = checked(self.nginx.finish()).await;
        let finished = linked.map_err(|error| format!("the logs cannot be kept: {error}")).and(finished);
        (Kept { log: own.join("soak.log"), _folder: self.folder }, finished)
    }
}

/// The access log after nginx is gone; removed when this is dropped.
pub(crate) struct Kept {
    pub log: PathBuf,
    _folder: TempDir,
}

fn write_pages(prefix: &Path) {
    let write = |name: &str, text: &str| {
        std::fs::write(prefix.join("html").join(name), text).expect("a page can be written");
    };
    std::fs::create_dir_all(prefix.join("html/index")).expect("a folder");
    write("index/__page", "index\n");
    write("refused.html", "refused\n");
    write("ssi.html", "<!--#include virtual=\"/plenty\" -->\n<!--#include virtual=\"/index/\" -->\n");
}
