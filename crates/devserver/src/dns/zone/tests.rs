//! The zone's answers, message in and message out.

use super::*;

const FIRST: u64 = 1_015_809;
const SECOND: u64 = 9_404_417;

fn zone() -> Zone {
    let member = |id, address: &str| (id, address.parse().unwrap());
    Zone::new("dev.test", 5, vec![member(FIRST, "127.0.0.1:1001"), member(SECOND, "[::1]:1002")]).unwrap()
}

fn query(name: &str, query_type: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), query_type));
    message
}

fn ask(zone: &mut Zone, name: &str, query_type: RecordType) -> Message {
    zone.plan(&query(name, query_type), Transport::Tcp).expect("an answer").message
}

/// Port and target of each SRV record.
fn srv(zone: &mut Zone) -> Vec<(u16, String)> {
    let message = ask(zone, "_ratelimitly._udp.dev.test.", RecordType::SRV);
    let target = |record: &Record| match &record.data {
        RData::SRV(srv) => (srv.port, srv.target.to_ascii()),
        other => panic!("no SRV record: {other}"),
    };
    message.answers.iter().map(target).collect()
}

fn addresses(zone: &mut Zone, name: &str, query_type: RecordType) -> Vec<String> {
    ask(zone, name, query_type).answers.iter().map(|record| record.data.to_string()).collect()
}

#[test]
fn srv_lists_every_server() {
    let expected = [(1001, "s-1015809.dev.test.".to_string()), (1002, "s-9404417.dev.test.".to_string())];
    assert_eq!(srv(&mut zone()), expected);
}

#[test]
fn targets_have_the_addresses_of_their_family() {
    let mut zone = zone();
    assert_eq!(addresses(&mut zone, "s-1015809.dev.test.", RecordType::A), ["127.0.0.1"]);
    assert_eq!(addresses(&mut zone, "S-1015809.DEV.test.", RecordType::A), ["127.0.0.1"]);
    assert!(addresses(&mut zone, "s-1015809.dev.test.", RecordType::AAAA).is_empty());
    assert_eq!(addresses(&mut zone, "s-9404417.dev.test.", RecordType::AAAA), ["::1"]);
}

#[test]
fn records_carry_the_ttl() {
    let mut zone = zone();
    assert_eq!(ask(&mut zone, "s-1015809.dev.test.", RecordType::A).answers[0].ttl, 5);
    zone.set_ttl(0);
    assert_eq!(ask(&mut zone, "_ratelimitly._udp.dev.test.", RecordType::SRV).answers[0].ttl, 0);
}

#[test]
fn names_are_missing_empty_or_foreign() {
    let mut zone = zone();
    let mut code = |name: &str| ask(&mut zone, name, RecordType::A).metadata.response_code;
    assert_eq!(code("s-3.dev.test."), ResponseCode::NXDomain);
    assert_eq!(code("_udp.dev.test."), ResponseCode::NoError);
    assert_eq!(code("dev.test."), ResponseCode::NoError);
    assert_eq!(code("s-1015809.other.test."), ResponseCode::Refused);
}

#[test]
fn missing_records_are_not_to_be_cached() {
    let mut zone = zone();
    zone.set_fault(DnsFault::NoSrv);
    let message = ask(&mut zone, "_ratelimitly._udp.dev.test.", RecordType::SRV);
    assert_eq!((message.metadata.response_code, message.answers.len()), (ResponseCode::NoError, 0));
    let RData::SOA(soa) = &message.authorities[0].data else { panic!("no SOA") };
    assert_eq!(soa.minimum, 0);
    zone.clear_faults(&[DnsFaultKind::NoSrv]);
    assert_eq!(srv(&mut zone).len(), 2);
}

#[test]
fn a_target_can_lose_its_addresses_or_vanish() {
    let mut zone = zone();
    zone.set_fault(DnsFault::NoAddress { servers: FIRST.into() });
    zone.set_fault(DnsFault::NoTarget { servers: SECOND.into() });
    let first = ask(&mut zone, "s-1015809.dev.test.", RecordType::A);
    assert_eq!((first.metadata.response_code, first.answers.len()), (ResponseCode::NoError, 0));
    let second = ask(&mut zone, "s-9404417.dev.test.", RecordType::AAAA);
    assert_eq!((second.metadata.response_code, second.answers.len()), (ResponseCode::NXDomain, 0));
    assert_eq!(srv(&mut zone).len(), 2, "the SRV records stay");
}

#[test]
fn a_bad_target_has_another_name_and_its_addresses() {
    let mut zone = zone();
    zone.set_fault(DnsFault::BadTarget { servers: FIRST.into() });
    let targets: Vec<String> = srv(&mut zone).into_iter().map(|(_, target)| target).collect();
    assert_eq!(targets, ["server-1015809.dev.test.", "s-9404417.dev.test."]);
    assert_eq!(addresses(&mut zone, "server-1015809.dev.test.", RecordType::A), ["127.0.0.1"]);
}

#[test]
fn a_target_can_have_more_addresses() {
    let mut zone = zone();
    let extra = DnsFault::ExtraAddresses { server: FIRST, addresses: vec!["100::1".parse().unwrap()] };
    zone.set_fault(extra);
    assert_eq!(addresses(&mut zone, "s-1015809.dev.test.", RecordType::AAAA), ["100::1"]);
    assert_eq!(addresses(&mut zone, "s-1015809.dev.test.", RecordType::A), ["127.0.0.1"]);
}

#[test]
fn members_come_and_go() {
    let mut zone = zone();
    zone.remove(FIRST);
    zone.add(3, "127.0.0.2:7".parse().unwrap());
    zone.add(3, "127.0.0.3:8".parse().unwrap());
    let expected = [(1002, "s-9404417.dev.test."), (7, "s-3.dev.test."), (8, "s-3.dev.test.")];
    assert_eq!(srv(&mut zone), expected.map(|(port, target)| (port, target.to_string())));
    assert_eq!(addresses(&mut zone, "s-3.dev.test.", RecordType::A), ["127.0.0.2", "127.0.0.3"]);
    assert!(addresses(&mut zone, "s-1015809.dev.test.", RecordType::A).is_empty());
}

#[test]
fn an_address_is_listed_once_however_many_ports_it_has() {
    let mut zone = zone();
    for address in ["127.0.0.2:7", "127.0.0.3:8", "127.0.0.2:9"] {
        zone.add(3, address.parse().unwrap());
    }
    assert_eq!(addresses(&mut zone, "s-3.dev.test.", RecordType::A), ["127.0.0.2", "127.0.0.3"]);
}

#[test]
fn servfail_and_silence_cover_every_query() {
    let mut zone = zone();
    zone.set_fault(DnsFault::ServFail);
    let message = ask(&mut zone, "s-1015809.dev.test.", RecordType::A);
    assert_eq!((message.metadata.response_code, message.answers.len()), (ResponseCode::ServFail, 0));
    zone.set_fault(DnsFault::Silent);
    assert!(zone.plan(&query("s-1015809.dev.test.", RecordType::A), Transport::Udp).is_none());
}

fn code_of(zone: &mut Zone, server: u64, query_type: RecordType) -> Option<(ResponseCode, bool)> {
    let asked = query(&format!("s-{server}.dev.test."), query_type);
    let answer = zone.plan(&asked, Transport::Udp)?.message;
    Some((answer.metadata.response_code, answer.metadata.truncation))
}

#[test]
fn addresses_of_one_server_and_family_can_fail() {
    let mut zone = zone();
    let fault = |family, answer| DnsFault::Addresses { servers: FIRST.into(), family, answer };
    let right = Some((ResponseCode::NoError, false));
    zone.set_fault(fault(Some(Family::A), AddressAnswer::ServFail));
    zone.set_fault(fault(Some(Family::Aaaa), AddressAnswer::Silent));
    assert_eq!(code_of(&mut zone, FIRST, RecordType::A), Some((ResponseCode::ServFail, false)));
    assert_eq!(code_of(&mut zone, FIRST, RecordType::AAAA), None);
    assert_eq!(code_of(&mut zone, SECOND, RecordType::A), right);
    zone.clear_faults(&[DnsFaultKind::Addresses]);
    zone.set_fault(fault(None, AddressAnswer::Truncate));
    assert_eq!(code_of(&mut zone, FIRST, RecordType::AAAA), Some((ResponseCode::NoError, true)));
    assert_eq!(code_of(&mut zone, SECOND, RecordType::AAAA), right);
    assert_eq!(srv(&mut zone).len(), 2, "SRV records are answered");
}

#[test]
fn a_zone_from_before_edns_answers_queries_without_it_only() {
    let mut zone = zone();
    for (code, bare, answered) in [
        (NoEdnsCode::FormErr, false, ResponseCode::FormErr),
        (NoEdnsCode::NotImp, true, ResponseCode::NotImp),
    ] {
        zone.set_fault(DnsFault::NoEdns { code, bare });
        let mut asked = query("s-1015809.dev.test.", RecordType::A);
        assert_eq!(zone.plan(&asked, Transport::Udp).unwrap().message.answers.len(), 1);
        asked.set_edns(Edns::new());
        let refused = zone.plan(&asked, Transport::Udp).unwrap().message;
        assert_eq!((refused.metadata.response_code, refused.answers.len()), (answered, 0));
        assert_eq!(refused.to_vec().unwrap().len() == 12, bare, "a bare answer is a header");
    }
}

#[test]
fn each_srv_record_has_a_priority_of_its_own() {
    let message = ask(&mut zone(), "_ratelimitly._udp.dev.test.", RecordType::SRV);
    let priority = |record: &Record| match &record.data {
        RData::SRV(srv) => srv.priority,
        other => panic!("no SRV record: {other}"),
    };
    assert_eq!(message.answers.iter().map(priority).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn truncation_concerns_udp_only() {
    let mut zone = zone();
    zone.set_fault(DnsFault::Truncate);
    let asked = query("_ratelimitly._udp.dev.test.", RecordType::SRV);
    let udp = zone.plan(&asked, Transport::Udp).unwrap().message;
    assert_eq!((udp.metadata.truncation, udp.answers.len(), udp.metadata.id), (true, 0, asked.metadata.id));
    let tcp = zone.plan(&asked, Transport::Tcp).unwrap().message;
    assert_eq!((tcp.metadata.truncation, tcp.answers.len()), (false, 2));
}

#[test]
fn an_answer_too_long_for_udp_is_truncated() {
    let members = (0..40).map(|id| (id, SocketAddr::from(([127, 0, 0, 1], 1)))).collect();
    let mut zone = Zone::new("dev.test", 5, members).unwrap();
    let mut asked = query("_ratelimitly._udp.dev.test.", RecordType::SRV);
    assert!(zone.plan(&asked, Transport::Udp).unwrap().message.metadata.truncation);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    asked.set_edns(edns);
    assert!(!zone.plan(&asked, Transport::Udp).unwrap().message.metadata.truncation);
}

#[test]
fn queries_are_counted_also_unanswered() {
    let mut zone = zone();
    ask(&mut zone, "_ratelimitly._udp.dev.test.", RecordType::SRV);
    zone.set_fault(DnsFault::Silent);
    zone.plan(&query("s-1015809.dev.test.", RecordType::A), Transport::Udp);
    assert_eq!(zone.counts(), DnsCounts { udp: 1, tcp: 1, srv: 1, a: 1, aaaa: 0 });
}

#[test]
fn a_zone_must_be_a_name_with_room_for_its_targets() {
    let long = ["a"; 120].join(".");
    for bad in ["", ".", "a..b", long.as_str()] {
        assert!(Zone::new(bad, 1, Vec::new()).is_err(), "{bad:?}");
    }
}
