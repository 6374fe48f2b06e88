//! Hostile input: arbitrary bytes and mutated valid datagrams into every decoder, which must refuse or accept but
//! never panic, and never take a changed datagram for an authentic one.

#[path = "decoders/arbitrary.rs"]
mod arbitrary;

use arbitrary::{Message, auths, tenant};
use proptest::prelude::*;
use ratelimitly_core::id::{RequestId, ServerId};
use ratelimitly_core::key::{ApiKey, KeyError};
use ratelimitly_core::wire::{DecodeError, Pdu, peek};

/// Reads everything a view offers, so that a panic in an iterator would show too.
fn drain(pdu: &Pdu<'_>) -> usize {
    match pdu {
        Pdu::RateRequest(view) => view.guards().count() + view.resources().count(),
        Pdu::RateResponse(view) => {
            view.guards().count() + view.resources().count() + usize::from(view.grants())
        }
        Pdu::Report(view) => view.observations().count(),
    }
}

/// A change to a datagram.
#[derive(Clone, Debug)]
enum Mutation {
    Flip { at: prop::sample::Index, bit: u8 },
    Truncate(prop::sample::Index),
    Set { at: prop::sample::Index, value: u16 },
    Append(Vec<u8>),
}

impl Mutation {
    fn apply(&self, datagram: &mut Vec<u8>) {
        match self {
            Mutation::Flip { at, bit } => {
                let at = at.index(datagram.len());
                datagram[at] ^= 1 << bit;
            }
            Mutation::Truncate(at) => datagram.truncate(at.index(datagram.len())),
            Mutation::Set { at, value } => {
                let at = at.index(datagram.len() - 1);
                datagram[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
            Mutation::Append(bytes) => datagram.extend_from_slice(bytes),
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Sizes and counts are 16-bit fields: their edges are where arithmetic goes wrong.
    let edge =
        prop_oneof![Just(0u16), Just(1), Just(7), Just(8), Just(39), Just(41), Just(u16::MAX), any::<u16>()];
    prop_oneof![
        (any::<prop::sample::Index>(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        any::<prop::sample::Index>().prop_map(Mutation::Truncate),
        (any::<prop::sample::Index>(), edge).prop_map(|(at, value)| Mutation::Set { at, value }),
        prop::collection::vec(any::<u8>(), 1..64).prop_map(Mutation::Append),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_open(bytes in prop::collection::vec(any::<u8>(), 0..1300)) {
        let _ = peek(&bytes);
        for auth in auths() {
            prop_assert!(auth.open(&mut bytes.clone()).is_err());
        }
    }

    /// Right types and sizes in front, so that the bytes behind them are reached.
    #[test]
    fn arbitrary_bytes_behind_a_right_head_never_panic(
        tenant_len in 0..60u16,
        auth_type in prop_oneof![Just(0x4143u16), Just(0x4541u16)],
        auth_len in 28..40u16,
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut datagram = vec![0; usize::from(tenant_len)];
        for (at, byte) in [0x52, 0x4C, tenant_len as u8, 0].into_iter().enumerate().take(datagram.len()) {
            datagram[at] = byte;
        }
        datagram.extend_from_slice(&auth_type.to_le_bytes());
        datagram.extend_from_slice(&auth_len.to_le_bytes());
        datagram.extend_from_slice(&rest);
        prop_assert_eq!(peek(&datagram).is_ok(), tenant_len >= 40);
        for auth in auths() {
            prop_assert!(auth.open(&mut datagram.clone()).is_err());
        }
    }

    #[test]
    fn a_changed_aes_datagram_never_opens(message: Message, mutations in prop::collection::vec(mutation(), 1..4)) {
        let [aes, _] = auths();
        let Some(sealed) = message.seal(&aes) else { return Ok(()) };
        let mut changed = sealed.clone();
        for mutation in &mutations {
            if changed.len() > 1 {
                mutation.apply(&mut changed);
            }
        }
        let _ = peek(&changed);
        let opens = aes.open(&mut changed.clone()).is_ok();
        prop_assert_eq!(opens, changed == sealed);
    }

    /// A cookie protects nothing but itself: what is behind it may parse to anything, but parse it must or fail.
    #[test]
    fn a_changed_cookie_datagram_never_panics(message: Message, mutations in prop::collection::vec(mutation(), 1..4)) {
        let [_, cookie] = auths();
        let Some(mut datagram) = message.seal(&cookie) else { return Ok(()) };
        for mutation in &mutations {
            if datagram.len() > 1 {
                mutation.apply(&mut datagram);
            }
        }
        let len = datagram.len();
        if let Ok((_, pdu)) = cookie.open(&mut datagram) {
            prop_assert!(drain(&pdu) <= len);
        }
    }

    #[test]
    fn the_other_kind_is_told_apart(message: Message) {
        let [aes, cookie] = auths();
        for (sealer, opener) in [(&aes, &cookie), (&cookie, &aes)] {
            let Some(mut datagram) = message.seal(sealer) else { continue };
            prop_assert_eq!(opener.open(&mut datagram).map(|_| ()), Err(DecodeError::AuthKind));
        }
    }

    #[test]
    fn every_message_opens_to_itself(message: Message) {
        for auth in auths() {
            let Some(mut datagram) = message.seal(&auth) else { continue };
            prop_assert!(datagram.len() <= 1200);
            prop_assert_eq!(peek(&datagram), Ok(tenant()));
            let (opened, pdu) = auth.open(&mut datagram).unwrap();
            prop_assert_eq!(opened, tenant());
            prop_assert_eq!(Message::of(&pdu), message.clone());
        }
    }

    #[test]
    fn arbitrary_text_is_no_key(text in "\\PC{0,120}") {
        prop_assert!(ApiKey::parse(&text).is_err());
    }

    #[test]
    fn a_changed_key_is_no_key(at: prop::sample::Index, with in any::<char>(), key_id: u64, secret: [u8; 32]) {
        let text = arbitrary::key_text(key_id, secret);
        let mut chars: Vec<char> = text.chars().collect();
        chars[at.index(text.len())] = with;
        let changed: String = chars.into_iter().collect();
        prop_assert_eq!(ApiKey::parse(&changed).is_ok(), changed == text);
    }

    #[test]
    fn key_errors_never_show_the_text(cut in 0..80usize, key_id: u64, secret: [u8; 32]) {
        let text = arbitrary::key_text(key_id, secret);
        let error: KeyError = ApiKey::parse(&text[..cut]).unwrap_err();
        let shown = format!("{error} {error:?}");
        for part in text.as_bytes().windows(12).skip("rl-aes1".len()) {
            prop_assert!(!shown.contains(std::str::from_utf8(part).unwrap()));
        }
    }

    #[test]
    fn arbitrary_targets_never_panic(target in "\\PC{0,40}") {
        let _ = ServerId::from_srv_target(&target);
    }

    #[test]
    fn a_server_id_is_read_back(id: u64, prefix in "[sS]-", domain in "(\\.[a-z]{1,9}){0,3}\\.?") {
        prop_assert_eq!(ServerId::from_srv_target(&format!("{prefix}{id}{domain}")), Some(ServerId(id)));
        prop_assert_eq!(ServerId::from_srv_target(&format!("{prefix}0{id}{domain}")), None);
    }

    #[test]
    fn request_ids_are_version_4_uuids_of_the_variant(bytes: [u8; 16]) {
        let id = RequestId::from_random(bytes);
        prop_assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (4, 2));
        let same = (0..16).filter(|&i| id.0[i] == bytes[i]).count();
        prop_assert!(same >= 14);
    }
}
