//! Known answers: every entry of `vectors/ratelimitly-wire.json`, which another implementation of the protocol
//! produced. Encoders must give its bytes exactly, decoders must read them back and refuse what it calls invalid.
//!
//! One test for each list of the file, so that a failure names the room; each entry's own name is in the message.

#[path = "vectors/file.rs"]
mod file;

use file::{Vectors, auth_of, bytes};
use ratelimitly_core::id::{BucketId, RequestId, TrackerId};
use ratelimitly_core::key::{ApiKey, KeyError, KeyKind};
use ratelimitly_core::wire::{
    Auth, DecodeError, EncodeError, Guard, GuardAnswer, Observation, Pdu, RateRequest, Resource,
    ResourceAnswer, Tenant, peek, rate_request_size, report_size,
};

#[test]
fn valid_keys_decode_to_their_parts_and_encode_to_their_text() {
    for entry in Vectors::load().api_keys_valid {
        let key = ApiKey::parse(&entry.encoded).unwrap();
        let kind = if entry.auth_type == "aes" { KeyKind::Aes } else { KeyKind::Cookie };
        assert_eq!((key.kind(), key.key_id()), (kind, entry.key_id), "{}", entry.encoded);
        assert_eq!(*key.quotas(), entry.quotas(), "{}", entry.encoded);

        let built = ApiKey::new(kind, entry.key_id, bytes(&entry.secret), entry.quotas()).unwrap();
        assert_eq!(built.encode(), entry.encoded.to_lowercase());
        assert_eq!(key.encode(), built.encode());
    }
}

#[test]
fn invalid_keys_are_refused_for_their_reason() {
    for entry in Vectors::load().api_keys_invalid {
        let error = ApiKey::parse(&entry.encoded).unwrap_err();
        let expected = match entry.why.as_str() {
            "mixed case" => KeyError::Bech32("mixed case"),
            "bad checksum" => KeyError::Bech32("checksum does not match"),
            "bad character" | "space inside" => KeyError::Bech32("foreign character"),
            "no separator" | "empty" => KeyError::Bech32("no separator"),
            "wrong prefix rl-none" => KeyError::Kind("rl-none"),
            "wrong prefix rl-secret" => KeyError::Kind("rl-secret"),
            "format version 0" => KeyError::Version(0),
            "format version 2" => KeyError::Version(2),
            "short payload" => KeyError::Length(44),
            "long payload" => KeyError::Length(46),
            "legacy 60-byte payload" => KeyError::Length(60),
            "dedup units 0" | "dedup units 201" => KeyError::Quotas("deduplication TTL outside 10..=2000 ms"),
            "one 5-bit character too many" => KeyError::Bech32("more than 4 padding bits"),
            "rate exponent 25" => KeyError::Quotas("rate buckets above 2^24"),
            "latency exponent 25" => KeyError::Quotas("latency services above 2^24"),
            other => panic!("the file has a new kind of invalid key: {other}"),
        };
        assert_eq!(error, expected, "{}", entry.why);
    }
}

#[test]
fn ids_are_those_of_the_other_implementation() {
    let vectors = Vectors::load();
    for entry in vectors.bucket_ids {
        let id = BucketId::new(&file::hex(&entry.name), entry.window_size_ms, entry.rate_limit);
        assert_eq!(id.to_string(), entry.id, "bucket {}", entry.name);
    }
    for entry in vectors.tracker_ids {
        let id = TrackerId::new(&file::hex(&entry.name), entry.settings);
        assert_eq!(id.to_string(), entry.id, "tracker {}", entry.name);
    }
}

#[test]
fn rate_requests_seal_to_the_exact_datagram() {
    for entry in Vectors::load().rate_requests {
        let (guards, resources) = (entry.guards(), entry.resources());
        let request = RateRequest {
            dedup_ttl_ms: entry.dedup_ttl_ms,
            guards: &guards,
            resources: &resources,
            label: entry.label.as_deref().map(str::as_bytes),
        };
        for (key, packet) in &entry.message.packets {
            let (auth, tenant) = (auth_of(key), entry.message.tenant(key));
            let label_len = request.label.map_or(0, <[u8]>::len);
            let size = rate_request_size(auth.kind(), guards.len(), resources.len(), label_len);
            let mut out = vec![0xEE; 7];
            let sealed = auth.seal_rate_request(&mut out, &tenant, &entry.message.nonce(), &request);
            if packet.starts_with("error: ") {
                assert_eq!((sealed, out), (Err(EncodeError::TooLarge(size)), vec![]), "{}", entry.name);
            } else {
                assert_eq!((sealed, out.len()), (Ok(()), size), "{}", entry.name);
                assert_eq!(out, file::hex(packet), "{} under {:?}", entry.name, auth.kind());
                if auth.kind() == KeyKind::Cookie {
                    assert_eq!(out[76..], file::hex(&entry.pdu), "{}", entry.name);
                }
            }
        }
    }
}

#[test]
fn rate_requests_open_to_what_was_asked() {
    for entry in Vectors::load().rate_requests {
        for (key, packet) in entry.message.packets.iter().filter(|(_, packet)| !packet.starts_with("error")) {
            let mut datagram = file::hex(packet);
            assert_eq!(peek(&datagram), Ok(entry.message.tenant(key)), "{}", entry.name);
            let (tenant, pdu) = auth_of(key).open(&mut datagram).unwrap();
            let Pdu::RateRequest(view) = pdu else { panic!("{}: not a rate request", entry.name) };
            assert_eq!(tenant, entry.message.tenant(key), "{}", entry.name);
            assert_eq!(view.dedup_ttl_ms, entry.dedup_ttl_ms, "{}", entry.name);
            assert_eq!(view.label, entry.label.as_deref().map(str::as_bytes), "{}", entry.name);
            assert_eq!(view.guards().collect::<Vec<Guard>>(), entry.guards(), "{}", entry.name);
            assert_eq!(view.resources().collect::<Vec<Resource>>(), entry.resources(), "{}", entry.name);
        }
    }
}

#[test]
fn reports_seal_to_the_exact_datagram_and_open_to_the_observation() {
    for entry in Vectors::load().latency_reports {
        let observation = entry.report.observation();
        for (key, packet) in &entry.message.packets {
            let (auth, tenant, mut out) = (auth_of(key), entry.message.tenant(key), vec![]);
            auth.seal_report(&mut out, &tenant, &entry.message.nonce(), &[observation]).unwrap();
            assert_eq!(out, file::hex(packet), "{:?}", auth.kind());
            assert_eq!(out.len(), report_size(auth.kind(), 1));

            let (opened, pdu) = auth.open(&mut out).unwrap();
            let Pdu::Report(view) = pdu else { panic!("not a report") };
            assert_eq!(opened, tenant);
            assert_eq!(view.observations().collect::<Vec<Observation>>(), [observation]);
        }
    }
}

#[test]
fn valid_responses_open_to_their_answers() {
    for entry in Vectors::load().responses_valid {
        let mut datagram = file::hex(&entry.packet);
        let (tenant, pdu) = auth_of(&entry.key).open(&mut datagram).unwrap();
        let Pdu::RateResponse(view) = pdu else { panic!("{}: not a rate response", entry.name) };
        assert_eq!(tenant.key_or_server_id, entry.server_id, "{}", entry.name);
        assert_eq!(tenant.request_id, RequestId(bytes(&entry.request_id)), "{}", entry.name);
        assert_eq!(tenant.steering_feedback != 0, entry.keep_port, "{}", entry.name);
        assert_eq!(view.grants(), entry.success, "{}", entry.name);

        let guards: Vec<_> = view.guards().map(|answer| file::GuardEntry::of(&answer)).collect();
        assert_eq!(guards, entry.guards, "{}", entry.name);
        let resources: Vec<_> = view.resources().map(|answer| file::ResourceEntry::of(&answer)).collect();
        assert_eq!(resources, entry.resources, "{}", entry.name);
    }
}

/// What the file's responses decode to seals back to the very same bytes: the server's direction. Those that a
/// sender of ours would never make (a longer tenant TLV, bytes behind the PDU, a trailing TLV) have other bytes.
#[test]
fn valid_responses_seal_to_the_exact_datagram() {
    let mut compared = 0;
    for entry in Vectors::load().responses_valid {
        let original = file::hex(&entry.packet);
        let (auth, mut datagram) = (auth_of(&entry.key), original.clone());
        let (tenant, pdu) = auth.open(&mut datagram).unwrap();
        let Pdu::RateResponse(view) = pdu else { panic!("{}: not a rate response", entry.name) };
        let guards: Vec<GuardAnswer> = view.guards().collect();
        let resources: Vec<ResourceAnswer> = view.resources().collect();
        if ["trailing TLV", "of 48 bytes", "after the PDU"].iter().any(|odd| entry.name.contains(odd)) {
            continue;
        }
        let mut out = vec![];
        auth.seal_rate_response(&mut out, &tenant, &file::response_nonce(&original), &guards, &resources)
            .unwrap();
        assert_eq!(out, original, "{}", entry.name);
        compared += 1;
    }
    assert_eq!(compared, 12);
}

#[test]
fn invalid_responses_are_refused_for_their_reason() {
    for entry in Vectors::load().responses_invalid {
        let mut datagram = file::hex(&entry.packet);
        let error = open_response(&auth_of(&entry.key), &mut datagram).unwrap_err();
        let expected = match entry.why.as_str() {
            "truncated to 10 bytes" | "truncated in the auth TLV" => DecodeError::Truncated,
            "truncated ciphertext" | "tag bit flipped" | "cookie bit flipped" => DecodeError::Authentication,
            "server id bit flipped (authenticated data)" => DecodeError::Authentication,
            "steering bit flipped (authenticated data)" => DecodeError::Authentication,
            "wrong tenant TLV type" => DecodeError::Type(u16::from_le_bytes([datagram[0], datagram[1]])),
            "cookie packet under an AES key" | "AES packet under a cookie key" => DecodeError::AuthKind,
            "wrong PDU type" => DecodeError::Type(0x5452),
            "PDU size 4" => DecodeError::Size(4),
            "auth TLV size 40" | "auth TLV size 40, cookie" => DecodeError::Size(40),
            "PDU size beyond the packet" => DecodeError::Truncated,
            "guard count larger than the body" => DecodeError::Truncated,
            "resource count larger than the body" => DecodeError::Truncated,
            other => panic!("the file has a new kind of invalid response: {other}"),
        };
        assert_eq!(error, expected, "{}", entry.why);
    }
}

/// As a client does it: a message of another kind, though authentic, is no response.
fn open_response(auth: &Auth, datagram: &mut [u8]) -> Result<Tenant, DecodeError> {
    match auth.open(datagram)? {
        (tenant, Pdu::RateResponse(_)) => Ok(tenant),
        (_, Pdu::RateRequest(_)) => Err(DecodeError::Type(0x5452)),
        (_, Pdu::Report(_)) => Err(DecodeError::Type(0x524C)),
    }
}

/// The file is a copy; where the original is at hand, the two must not drift apart.
#[test]
fn the_copy_equals_the_original() {
    let original = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let Ok(folder) = std::fs::read_dir(&original) else {
        eprintln!("SKIPPED: no folder ../shared/vectors beside the workspace to compare with");
        return;
    };
    let mut compared = 0;
    for path in
        folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "json"))
    {
        let copy =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(path.file_name().unwrap());
        assert!(
            std::fs::read(&path).unwrap() == std::fs::read(&copy).unwrap_or_default(),
            "{} differs from its original",
            copy.display()
        );
        compared += 1;
    }
    assert!(compared > 0, "../shared/vectors has no JSON file");
}
