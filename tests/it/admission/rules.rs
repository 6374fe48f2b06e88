//! What one admission asks for: the rules in effect at a location, combined into one request.

use crate::POLICIES;
use crate::admission::warm;
use ratelimitly_devserver::Event;
use ratelimitly_harness::{Dev, http};

/// Zones are told apart by their rates, guards by their thresholds.
const RULES: &str = r#"
    {usual}
    ratelimitly_zone a "bucket=rules:a" rate=101r/s;
    ratelimitly_zone b "bucket=rules:b" rate=102r/s;
    ratelimitly_group pair zone=b zone=a zone=b;
    ratelimitly_tracker shop "service=shop";
    ratelimitly_guard fast tracker=shop threshold=100ms;
    ratelimitly_guard slow tracker=shop threshold=200ms;

    server {
        listen 127.0.0.1:{port};
        ratelimitly zone=a;
        ratelimitly_label outer;

        location /several {
            ratelimitly zone=a guard=slow;
            ratelimitly zone=b;
            ratelimitly guard=fast;
            empty_gif;
        }
        location /repeated {
            ratelimitly zone=a;
            ratelimitly zone=a;
            ratelimitly group=pair;
            empty_gif;
        }
        location /guards {
            ratelimitly zone=a guard=slow guard=fast guard=slow;
            ratelimitly guard=fast;
            empty_gif;
        }
        location /replaced { ratelimitly zone=b; empty_gif; }
        location /guarded { ratelimitly guard=fast; empty_gif; }
        location /inherited {
            empty_gif;
            location /inherited/below {
                empty_gif;
                location /inherited/below/again { empty_gif; }
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c16_several_rules_of_one_context_make_one_request() {
    for fail in POLICIES {
        let asked = asked_at("/several", fail).await;

        assert_eq!(rates(&asked), [101, 102]);
        assert_eq!(thresholds(&asked), [200, 100]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c17_a_repeated_zone_stays_repeated_and_in_order() {
    for fail in POLICIES {
        let asked = asked_at("/repeated", fail).await;

        assert_eq!(rates(&asked), [101, 101, 102, 101, 102]);
        assert!(asked.resources.iter().all(|resource| resource.tokens == 1), "{asked:#?}");
        assert_eq!(asked.resources[0].bucket, asked.resources[3].bucket);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c18_a_repeated_guard_is_sent_once() {
    for fail in POLICIES {
        let asked = asked_at("/guards", fail).await;

        assert_eq!(thresholds(&asked), [200, 100]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c19_a_childs_rules_replace_the_parents() {
    for fail in POLICIES {
        let asked = asked_at("/replaced", fail).await;

        assert_eq!(rates(&asked), [102]);
        assert_eq!(asked.label_text(), "outer", "only the rules are replaced, the label is inherited");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c19_a_childs_guard_replaces_the_parents_zone() {
    for fail in POLICIES {
        let asked = asked_at("/guarded", fail).await;

        assert_eq!(rates(&asked), [0; 0]);
        assert_eq!(thresholds(&asked), [100]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c20_a_child_without_rules_inherits_through_nested_locations() {
    for fail in POLICIES {
        let asked = asked_at("/inherited/below/again", fail).await;

        assert_eq!(rates(&asked), [101]);
        assert_eq!(asked.label_text(), "outer");
    }
}

/// The only admission of a request to this path, which is allowed.
async fn asked_at(path: &str, fail: &str) -> Event {
    let dev = Dev::start().await;
    let nginx = warm(RULES, &dev, fail).await;

    assert_eq!(http::get(nginx.port(), path).await.status, 200);

    let mut admissions = dev.admissions();
    assert_eq!(admissions.len(), 1, "one request is one admission: {admissions:#?}");
    assert_eq!(nginx.await_access_log(1).await, [format!("200 allow \"GET {path} HTTP/1.1\"")]);
    nginx.finish().await;
    admissions.remove(0)
}

fn rates(event: &Event) -> Vec<u32> {
    assert_eq!(event.resource_count, event.resources.len());
    event.resources.iter().map(|resource| resource.rate_limit).collect()
}

fn thresholds(event: &Event) -> Vec<u32> {
    assert_eq!(event.guard_count, event.guards.len());
    event.guards.iter().map(|guard| guard.threshold_ms).collect()
}
