//! Responses under the AES key: whatever opens and is a response must be the same after it has been sealed and opened again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_core::key::KeyKind;
use ratelimitly_core::wire::{Pdu, peek};
use ratelimitly_fuzz::{auth, datagram};

const KIND: KeyKind = KeyKind::Aes;

fuzz_target!(|input: &[u8]| {
    let Some(mut received) = datagram(KIND, input) else { return };
    let claimed = peek(&received);
    let Ok((tenant, pdu)) = auth(KIND).open(&mut received) else { return };
    assert_eq!(claimed, Ok(tenant));
    let Pdu::RateResponse(view) = pdu else { return };
    let (guards, resources): (Vec<_>, Vec<_>) = (view.guards().collect(), view.resources().collect());
    let no_deficit = resources.iter().all(|resource| resource.deficit == 0);
    assert_eq!(view.grants(), no_deficit && guards.iter().all(|guard| guard.passes()));

    let mut again = Vec::new();
    let sealed = auth(KIND).seal_rate_response(&mut again, &tenant, b"another 12 b", &guards, &resources);
    sealed.expect("it came in a datagram");
    let (_, pdu) = auth(KIND).open(&mut again).expect("a datagram of our own opens");
    let Pdu::RateResponse(view) = pdu else { panic!("a response stays one") };
    assert!(view.guards().eq(guards) && view.resources().eq(resources));
});
