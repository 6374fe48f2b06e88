//! What the error log says about DNS: the reason of each family's lookup, and the nameservers that are waited for.

use super::{start, status, with_fault};
use ratelimitly_devserver::{AddressAnswer, DnsFault, Family, Servers};
use ratelimitly_harness::Dev;

fn ipv4(answer: AddressAnswer) -> DnsFault {
    DnsFault::Addresses { servers: Servers::All, family: Some(Family::A), answer }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_familys_own_reason_is_named() {
    let dev = Dev::single().await;
    dev.dns_fault(ipv4(AddressAnswer::ServFail)).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let said =
        nginx.await_log_line(r"\[error\].*discovery failed: no address was found for 1 server of ").await;
    let reasons = format!(
        "; s-{}: A: the nameserver answered \"Server Failure\"; AAAA: the name has no such record",
        dev.servers()[0].id
    );
    assert!(said.contains(&reasons), "{said}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_answer_without_tcp_is_named_as_such() {
    let dev = Dev::single().await;
    dev.dns_fault(ipv4(AddressAnswer::Truncate)).await;
    dev.dns_fault(DnsFault::RefuseTcp).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let said = nginx.await_log_line(r"\[error\].*discovery failed: ").await;
    let reason = format!(
        ": A: the answer is truncated, and nameserver {} over TCP: Connection refused",
        dev.dns_addr()
    );
    assert!(said.contains(&reason), "{said}");
    assert!(said.contains("; AAAA: the name has no such record"), "{said}");
    nginx.finish().await;
}

/// The discovery goes on for as long as `resolver_timeout` says, 30 s; the log does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_nameserver_is_named_after_two_seconds() {
    let dev = with_fault(DnsFault::Silent).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let said =
        nginx.await_log_line(r"\[error\].*discovery of .* has no address after 2 s, it waits for ").await;
    assert!(said.ends_with(&format!("nameserver {}", dev.dns_addr())), "{said}");
    assert!(nginx.log_lines("discovery failed").is_empty(), "it has not ended yet");
    nginx.finish().await;
}

/// The SRV records come, the addresses do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_nameserver_that_drops_every_address_lookup_is_named_too() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Addresses { servers: Servers::All, family: None, answer: AddressAnswer::Silent })
        .await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let said = nginx.await_log_line(r"\[error\].*has no address after 2 s, it waits for ").await;
    assert!(said.ends_with(&format!("nameserver {}", dev.dns_addr())), "{said}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv4_addresses_in_ipv6_form_are_judged_as_what_they_are() {
    let dev = Dev::single().await;
    let server = dev.servers()[0].id;
    let mapped = ["::ffff:224.0.0.1", "::ffff:255.255.255.255"].map(|text| text.parse().expect("an address"));
    dev.dns_fault(DnsFault::ExtraAddresses { server, addresses: mapped.to_vec() }).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 200);

    let said = nginx.await_log_line("members of .* are now ").await;
    let skipped = "skipped: 2 addresses that nothing can be sent to: 224.0.0.1 255.255.255.255";
    // The membership may be in use before the other family's answer is there.
    let all = nginx.log_lines("ratelimitly: ");
    assert!(!said.contains("224.0.0.1:") && !said.contains("255:"), "{said}; {skipped}; {all:#?}");
    nginx.finish().await;
}
