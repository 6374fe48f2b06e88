//! A configuration that uses none of the controls asks as it did before there were any, and so does one that writes their
//! defaults out.

use ratelimitly_devserver::Event;
use ratelimitly_harness::{Dev, Nginx, http};

/// The bucket of conformance row X20, whose id another implementation has computed.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_zone checkout "bucket=checkout" rate=100r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        server {
            listen 127.0.0.1:{port};
            location /plain { ratelimitly zone=checkout guard=healthy; ratelimitly_label shop; empty_gif; }
            location /written {
                ratelimitly_fail        open;
                ratelimitly_fail_status 429;
                ratelimitly_deny_status 429 guard=429;
                ratelimitly_dry_run     off;
                ratelimitly_log_level   off;
                ratelimitly zone=checkout guard=healthy tokens=1 if=1;
                ratelimitly_label       shop;
                empty_gif;
            }
        }
    }
"#;

/// As docs/protocol.md has it: tenant field, authentication, message header, counts, a guard, a resource, a label of four
/// bytes with its head and padding.
const BYTES: usize = 40 + 32 + 8 + 4 + 36 + 28 + 12;

#[tokio::test(flavor = "multi_thread")]
async fn e36_a_rule_without_controls_asks_as_before_and_so_do_their_defaults() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SITE).dev(&dev).start().await;
    nginx.admits().await;
    http::get(nginx.port(), "/plain").await;
    http::get(nginx.port(), "/written").await;

    let admissions = dev.admissions();
    let [plain, written] = &admissions[..] else { panic!("two admissions: {admissions:?}") };
    assert_eq!((plain.bytes, plain.resources[0].tokens), (BYTES, 1));
    assert_eq!(plain.resources[0].bucket, "f5cf3ad8b8406854b596ba3614f16eff");
    let question = |event: &Event| {
        let Event { bytes, dedup_ttl_ms, guards, resources, label, steering_feedback, .. } = event.clone();
        (bytes, dedup_ttl_ms, guards, resources, label, steering_feedback)
    };
    assert_eq!(question(plain), question(written));
    nginx.finish().await;
}
