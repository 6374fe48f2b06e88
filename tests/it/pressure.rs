//! Faults that come from outside: floods, resources of the system used up, networks that part, DNS that lies, clocks that
//! jump. Each ends with the same worker at work. What needs a network of its own runs in a namespace and says on stderr
//! when that cannot be made.

mod clock;
mod flood;
mod late;
mod limits;
mod membership;
pub(crate) mod namespace;
mod network;
mod overflow;
mod refused_calls;
mod segments;
mod stalled;

use ratelimitly_devserver::{Command, Fault, Servers};
use ratelimitly_harness::{Builder, Dev, Nginx, http};
use std::io::Write;

/// The unit is 600 ms and the horizon 1.8 s unless a test sets it.
const CONFIGURATION: &str = r#"
    {service}
    ratelimitly_policy standard unit={unit};
    ratelimitly_fail {fail};
    resolver_timeout 2s;
    ratelimitly_zone pressure "bucket=pressure" rate=100000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=pressure; empty_gif; }
        location /health { return 204; }
    }
"#;

fn builder(dev: &Dev, fail: &str) -> Builder {
    builder_with(CONFIGURATION, dev, fail)
}

fn builder_with(text: &str, dev: &Dev, fail: &str) -> Builder {
    Nginx::builder(text).dev(dev).set("fail", fail).set("unit", "600ms")
}

/// An nginx whose worker has found the servers.
async fn warm(dev: &Dev, fail: &str) -> Nginx {
    builder(dev, fail).log_level("info").warm().await
}

async fn status(nginx: &Nginx) -> u16 {
    http::get(nginx.port(), "/").await.status
}

async fn apply(dev: &Dev, command: Command) {
    dev.apply(command).await.expect("a command that makes sense");
}

async fn clear(dev: &Dev, kinds: Vec<ratelimitly_devserver::FaultKind>) {
    apply(dev, Command::Clear { servers: Servers::All, faults: kinds }).await;
}

async fn silence(dev: &Dev) {
    dev.fault(Fault::Silent).await;
}

/// Says why a test could not be run, past the test runner, which keeps what passing tests print to itself.
fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}
