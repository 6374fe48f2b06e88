//! What the system says while nginx loads: `/etc/resolv.conf`, and the addresses of hosts. In namespaces of their own,
//! where the file is the test's and no question leaves the machine.

use super::check;
use crate::pressure::namespace::entered;

const WITHOUT_RESOLVER: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_zone z "bucket=shop" rate=10r/s;
    server { listen unix:{prefix}/nginx.sock; ratelimitly zone=z; }"#;

/// Shell commands that put this text in the place of `/etc/resolv.conf`.
fn resolv_conf(text: &str) -> String {
    format!(
        "file=$(mktemp) && printf '{text}' >\"$file\" && mount --bind \"$file\" /etc/resolv.conf && rm \"$file\""
    )
}

/// The warnings about a configuration that loads.
async fn warnings(text: &str) -> Vec<String> {
    let checked = check(text, &[]).await;
    checked.accepted();
    checked.message.lines().filter(|line| line.contains("[warn]")).map(str::to_owned).collect()
}

#[tokio::test]
async fn skipped_entries_of_resolv_conf_are_named() {
    let text =
        r"nameserver 127.0.0.9\nnameserver fe80::1%%eth0\nNAMESERVER 127.0.0.2\nnameserver dns.example\n";
    if !entered("configuration::system::skipped_entries_of_resolv_conf_are_named", &resolv_conf(text)) {
        return;
    }

    let warnings = warnings(WITHOUT_RESOLVER).await;

    let expected = [
        "line 2: nameserver \"fe80::1%eth0\" is bound to an interface",
        "line 3: \"NAMESERVER\" is ignored, expected \"nameserver\" in lower case",
        "line 4: nameserver \"dns.example\" is not an IP address",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.contains(&format!("/etc/resolv.conf: {expected}")), "{warning}");
    }
}

#[tokio::test]
async fn a_resolv_conf_without_a_nameserver_is_named() {
    let name = "configuration::system::a_resolv_conf_without_a_nameserver_is_named";
    if !entered(name, &resolv_conf(r"search example.net\n")) {
        return;
    }
    let warnings = warnings(WITHOUT_RESOLVER).await;
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(
        warnings[0].contains("/etc/resolv.conf: no usable nameserver, 127.0.0.1 is used"),
        "{warnings:#?}"
    );
}

#[tokio::test]
async fn a_resolv_conf_with_a_byte_order_mark_is_read() {
    let name = "configuration::system::a_resolv_conf_with_a_byte_order_mark_is_read";
    if !entered(name, &resolv_conf(r"\357\273\277nameserver 127.0.0.9\n")) {
        return;
    }
    assert_eq!(warnings(WITHOUT_RESOLVER).await, [""; 0]);
}

#[tokio::test]
async fn a_resolver_that_the_system_does_not_know_is_refused() {
    let name = "configuration::system::a_resolver_that_the_system_does_not_know_is_refused";
    if !entered(name, &resolv_conf(r"nameserver 127.0.0.1\n")) {
        return;
    }
    let checked = check("ratelimitly_dns_resolver dns.invalid:5353;", &[]).await;
    checked.refused(&[
        "\"ratelimitly_dns_resolver\" directive: host \"dns.invalid\" cannot be resolved: ",
        "expected the address of a nameserver, or a host that this system knows",
    ]);
}
