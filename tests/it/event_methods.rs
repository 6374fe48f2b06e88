//! The event methods `poll` and `select`, which register a socket in other ways than epoll does. `ci/build-nginx` builds
//! nginx with them.

use ratelimitly_devserver::{Config, Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, environment, eventually, http};
use std::time::Duration;

const METHODS: [&str; 2] = ["poll", "select"];

/// `select` takes only descriptors below 1024, so the worker gets few connections.
const SITE: &str = r#"
    events { use {method}; worker_connections 256; }
    http {
        {service}
        ratelimitly_policy single_round unit=2s;
        ratelimitly_fail close;
        ratelimitly_zone two "bucket=event-methods" rate=2r/1h;
        ratelimitly_zone many "bucket=event-methods:many" rate=1000r/s;

        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=many; empty_gif; }
            location = /two { ratelimitly zone=two; empty_gif; }
        }
    }
"#;

/// One server, looked up once: a later lookup's sockets would be taken for the worker's own.
async fn start(method: &str) -> (Dev, Nginx) {
    let dev = Dev::with(|config| Config { ttl: Duration::from_secs(300), ..config }.servers(1)).await;
    let nginx = Nginx::builder(SITE).dev(&dev).set("method", method).warm().await;
    (dev, nginx)
}

/// The methods that this nginx was built with. Debian's has epoll alone.
fn methods() -> impl Iterator<Item = &'static str> {
    METHODS.into_iter().filter(|method| {
        let built = environment::has_event_method(method);
        if !built {
            eprintln!("skipped: this nginx was built without {method}");
        }
        built
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_and_select_bring_allow_and_deny() {
    for method in methods() {
        let (_dev, nginx) = start(method).await;
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(http::get(nginx.port(), "/two").await.status);
        }

        assert_eq!(statuses, [200, 200, 429], "{method}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_and_select_carry_on_over_a_new_socket() {
    for method in methods() {
        let (dev, nginx) = start(method).await;
        let old = nginx.only_udp_socket().await.port;
        dev.fault(Fault::Rebind).await;

        assert_eq!(http::get(nginx.port(), "/").await.status, 200, "{method}");
        let moved = || matches!(nginx.udp_sockets()[..], [socket] if socket.port != old);
        eventually(Duration::from_secs(10), format!("{method}: another source port"), moved).await;
        dev.clear([FaultKind::Rebind]).await;

        assert_eq!(http::get(nginx.port(), "/").await.status, 200, "{method}: over the new socket");
        nginx.finish().await;
    }
}
