//! What a failure and a denial mean where a request asks: inherited, overridden, and kept through internal routing.

use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, http};

/// One server inherits the http block's policy, the other one has its own.
const POLICIES: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_fail close;
        ratelimitly_zone all "bucket=all" rate=1000r/s;

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            ratelimitly zone=all;
            location /inherited { empty_gif; }
            location /open {
                ratelimitly_fail open;
                location /open/inner { empty_gif; }
                location /open/closed { ratelimitly_fail close; empty_gif; }
                empty_gif;
            }
            location = /moved/ { ratelimitly_fail open; index moved.html; }
            location = /moved/moved.html { ratelimitly_fail close; }
        }
        server {
            listen 127.0.0.1:{port_open};
            ratelimitly_fail open;
            ratelimitly zone=all;
            location / { empty_gif; }
            location /closed { ratelimitly_fail close; empty_gif; }
        }
    }
"#;

async fn status(port: u16, path: &str) -> u16 {
    http::get(port, path).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn each_place_has_its_own_failure_policy() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(POLICIES).dev(&dev).start().await;
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    let (main, open) = (nginx.port(), nginx.named_port("port_open"));
    assert_eq!(status(main, "/inherited").await, 429, "the http block's");
    assert_eq!(status(main, "/open").await, 200, "the location's own");
    assert_eq!(status(main, "/open/inner").await, 200, "inherited from the location around");
    assert_eq!(status(main, "/open/closed").await, 429, "the inner location's own");
    assert_eq!(status(open, "/").await, 200, "the server's own");
    assert_eq!(status(open, "/closed").await, 429, "the location's, under a server's own");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_policy_is_that_of_the_location_that_asked() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(POLICIES).dev(&dev).start().await;
    let page = nginx.prefix().join("html/moved");
    std::fs::create_dir_all(&page).expect("a folder");
    std::fs::write(page.join("moved.html"), "moved").expect("a page");
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    assert_eq!(status(nginx.port(), "/moved/").await, 200);
    assert_eq!(status(nginx.port(), "/moved/moved.html").await, 429);
    nginx.finish().await;
}
