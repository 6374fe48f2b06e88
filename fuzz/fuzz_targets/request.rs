//! What the development server decodes, rate requests and latency reports under either key: whatever opens must be the same
//! after it has been sealed and opened again. The second bit of the first byte chooses the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_core::key::KeyKind;
use ratelimitly_core::wire::{MAX_LABEL, Pdu, RateRequest, RateRequestView, ReportView, Tenant};
use ratelimitly_fuzz::{auth, datagram};

fuzz_target!(|input: &[u8]| {
    let Some(&first) = input.first() else { return };
    let kind = if first & 2 == 0 { KeyKind::Aes } else { KeyKind::Cookie };
    let Some(mut received) = datagram(kind, input) else { return };
    let _ = auth(kind).nonce(&received);
    match auth(kind).open(&mut received) {
        Ok((tenant, Pdu::RateRequest(view))) => request(kind, &tenant, &view),
        Ok((tenant, Pdu::Report(view))) => report(kind, &tenant, &view),
        Ok((_, Pdu::RateResponse(_))) | Err(_) => {}
    }
});

fn request(kind: KeyKind, tenant: &Tenant, view: &RateRequestView<'_>) {
    let (guards, resources): (Vec<_>, Vec<_>) = (view.guards().collect(), view.resources().collect());
    assert!(view.label.is_none_or(|label| label.len() <= MAX_LABEL));
    let content = RateRequest {
        dedup_ttl_ms: view.dedup_ttl_ms,
        guards: &guards,
        resources: &resources,
        label: view.label,
    };
    let mut again = Vec::new();
    auth(kind)
        .seal_rate_request(&mut again, tenant, b"another 12 b", &content)
        .expect("it came in a datagram");
    let (_, pdu) = auth(kind).open(&mut again).expect("a datagram of our own opens");
    let Pdu::RateRequest(second) = pdu else { panic!("a request stays one") };
    assert_eq!(second.dedup_ttl_ms, view.dedup_ttl_ms);
    assert_eq!(second.label, view.label.filter(|label| !label.is_empty()));
    assert!(second.guards().eq(guards.iter().copied()) && second.resources().eq(resources.iter().copied()));
}

fn report(kind: KeyKind, tenant: &Tenant, view: &ReportView<'_>) {
    let observations: Vec<_> = view.observations().collect();
    let mut again = Vec::new();
    auth(kind)
        .seal_report(&mut again, tenant, b"another 12 b", &observations)
        .expect("it came in a datagram");
    let (_, pdu) = auth(kind).open(&mut again).expect("a datagram of our own opens");
    let Pdu::Report(second) = pdu else { panic!("a report stays one") };
    assert!(second.observations().eq(observations));
}
