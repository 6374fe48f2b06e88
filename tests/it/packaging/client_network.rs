//! The `map` of docs/configuration.md that cuts an IPv6 client's address to its /64, in a real nginx.

use crate::packaging::{nginx_blocks, text};
use bytes::Bytes;
use ratelimitly_core::id::BucketId;
use ratelimitly_harness::{Dev, Nginx, http};

const CONF: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Real-IP;
    {example}
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=per_client; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_map_gives_each_ipv6_network_and_each_ipv4_address_one_bucket() {
    let page = text("docs/configuration.md");
    let example = nginx_blocks(&page).into_iter().find(|block| block.contains("$client_network {"));
    let dev = Dev::single().await;
    let nginx = Nginx::builder(CONF).dev(&dev).set("example", example.expect("the map is on the page"));
    let nginx = nginx.log_level("info").warm().await;

    let net = b"\x20\x01\x0d\xb8\x00\x01\x00\x0a";
    for (client, key) in [
        ("2001:db8:1:a::1", &net[..]),
        ("2001:db8:1:a:ffff:0:a0a:a0a", net),
        ("2001:db8:1:b::1", b"\x20\x01\x0d\xb8\x00\x01\x00\x0b"),
        ("2001:db8::1", b"\x20\x01\x0d\xb8\0\0\0\0"),
        ("2001:a0a::1", b"\x20\x01\x0a\x0a\0\0\0\0"),
        ("192.0.2.7", b"\xc0\x00\x02\x07"),
        ("192.0.2.8", b"\xc0\x00\x02\x08"),
        ("::ffff:192.0.2.7", b"\xc0\x00\x02\x07"),
    ] {
        assert_eq!(bucket_of(&dev, &nginx, client).await, bucket(key), "{client}");
    }
    nginx.finish().await;
}

/// The bucket that a request of this client asks for.
async fn bucket_of(dev: &Dev, nginx: &Nginx, client: &str) -> String {
    dev.clear_events();
    let request = http::Request::get("/").header("host", "test").header("x-real-ip", client);
    let request = request.body(Bytes::new()).expect("a request");
    http::send(nginx.port(), request).await.expect("a response");
    let seen = dev.await_requests("the client's question", |seen| !seen.is_empty()).await;
    seen[0].resources[0].bucket.clone()
}

fn bucket(key: &[u8]) -> String {
    BucketId::new(&[b"client:", key].concat(), 1000, 10).to_string()
}
