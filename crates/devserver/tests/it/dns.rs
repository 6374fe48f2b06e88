//! The zone over real sockets, asked by hickory's resolver as the module asks it.

use crate::support::{Bench, within};
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use ratelimitly_devserver::{Command, DnsFault, DnsFaultKind, Member};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const SERVICE: &str = "_ratelimitly._udp.dev.test.";

/// A resolver without a cache, over the transports given.
fn resolver(bench: &Bench, transports: impl IntoIterator<Item = ConnectionConfig>) -> TokioResolver {
    let address = bench.dev.dns_addr();
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = transports.into_iter().map(at_port).collect();
    let server = NameServerConfig::new(address.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().cache_size = 0;
    builder.build().unwrap()
}

pub fn both(bench: &Bench) -> TokioResolver {
    resolver(bench, [ConnectionConfig::udp(), ConnectionConfig::tcp()])
}

/// Port and target of each SRV record, `None` where there is none.
pub async fn srv(resolver: &TokioResolver) -> Option<Vec<(u16, String)>> {
    let lookup = within(resolver.srv_lookup(SERVICE)).await.ok()?;
    let records = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(srv) => Some((srv.port, srv.target.to_ascii())),
        _ => None,
    });
    Some(records.collect())
}

pub async fn addresses(resolver: &TokioResolver, name: &str) -> Option<Vec<IpAddr>> {
    within(resolver.lookup_ip(name)).await.ok().map(|lookup| lookup.iter().collect())
}

async fn set(bench: &Bench, fault: DnsFault) {
    bench.apply(Command::Dns { fault }).await;
}

async fn clear(bench: &Bench) {
    bench.apply(Command::ClearDns { faults: Vec::new() }).await;
}

fn query(name: &str, query_type: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), query_type));
    message
}

async fn ask_udp(bench: &Bench, query: &Message) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), bench.dev.dns_addr()).await.unwrap();
    let mut buffer = vec![0; 4096];
    let length = within(socket.recv(&mut buffer)).await.unwrap();
    Message::from_vec(&buffer[..length]).unwrap()
}

#[tokio::test]
async fn servers_are_found_over_udp_and_over_tcp() {
    let bench = Bench::new(2).await;
    let expected: Vec<(u16, String)> =
        bench.dev.servers().iter().map(|s| (s.addr.port(), format!("s-{}.dev.test.", s.id))).collect();
    for transport in [ConnectionConfig::udp(), ConnectionConfig::tcp()] {
        let resolver = resolver(&bench, [transport]);
        assert_eq!(srv(&resolver).await.as_ref(), Some(&expected));
        let found = addresses(&resolver, &expected[1].1).await;
        assert_eq!(found, Some(vec!["127.0.0.1".parse().unwrap()]));
    }
    assert!(bench.dev.dns_counts().tcp > 0 && bench.dev.dns_counts().udp > 0);
}

#[tokio::test]
async fn one_connection_carries_several_queries() {
    let bench = Bench::new(1).await;
    let mut stream = TcpStream::connect(bench.dev.dns_addr()).await.unwrap();
    for query_type in [RecordType::SRV, RecordType::SRV] {
        let query = query(SERVICE, query_type).to_vec().unwrap();
        stream.write_u16(query.len() as u16).await.unwrap();
        stream.write_all(&query).await.unwrap();
        let length = within(stream.read_u16()).await.unwrap();
        let mut answer = vec![0; usize::from(length)];
        within(stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(Message::from_vec(&answer).unwrap().answers.len(), 1);
    }
}

#[tokio::test]
async fn the_srv_record_goes_and_comes_back() {
    let bench = Bench::new(1).await;
    let resolver = both(&bench);
    set(&bench, DnsFault::NoSrv).await;
    assert_eq!(srv(&resolver).await, None);
    bench.apply(Command::ClearDns { faults: vec![DnsFaultKind::NoSrv] }).await;
    assert_eq!(srv(&resolver).await.map(|records| records.len()), Some(1));
}

#[tokio::test]
async fn targets_go_without_address_or_do_not_exist() {
    let bench = Bench::new(2).await;
    let resolver = both(&bench);
    let target = |place: usize| format!("s-{}.dev.test.", bench.id(place));
    for fault in [
        DnsFault::NoAddress { servers: bench.id(0).into() },
        DnsFault::NoTarget { servers: bench.id(0).into() },
    ] {
        set(&bench, fault.clone()).await;
        assert_eq!(addresses(&resolver, &target(0)).await, None, "{fault:?}");
        assert!(addresses(&resolver, &target(1)).await.is_some());
        clear(&bench).await;
        assert!(addresses(&resolver, &target(0)).await.is_some());
    }
}

#[tokio::test]
async fn a_target_of_another_form_is_listed() {
    let bench = Bench::new(1).await;
    set(&bench, DnsFault::BadTarget { servers: bench.id(0).into() }).await;
    let resolver = both(&bench);
    let records = srv(&resolver).await.unwrap();
    assert_eq!(records[0].1, "server-1015809.dev.test.");
    assert!(addresses(&resolver, &records[0].1).await.is_some());
}

#[tokio::test]
async fn servfail_is_told() {
    let bench = Bench::new(1).await;
    set(&bench, DnsFault::ServFail).await;
    let answer = ask_udp(&bench, &query(SERVICE, RecordType::SRV)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn a_delayed_answer_waits() {
    let bench = Bench::new(1).await;
    set(&bench, DnsFault::Delay { ms: 150 }).await;
    let asked = Instant::now();
    ask_udp(&bench, &query(SERVICE, RecordType::SRV)).await;
    assert!(asked.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn silence_lasts_until_it_is_cleared() {
    let bench = Bench::new(1).await;
    set(&bench, DnsFault::Silent).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (unanswered, answered) = (query(SERVICE, RecordType::SRV), query(SERVICE, RecordType::SRV));
    socket.send_to(&unanswered.to_vec().unwrap(), bench.dev.dns_addr()).await.unwrap();
    let heard = async {
        while bench.dev.dns_counts().srv == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(heard).await;
    clear(&bench).await;
    socket.send_to(&answered.to_vec().unwrap(), bench.dev.dns_addr()).await.unwrap();
    let mut buffer = vec![0; 512];
    let length = within(socket.recv(&mut buffer)).await.unwrap();
    assert_eq!(Message::from_vec(&buffer[..length]).unwrap().metadata.id, answered.metadata.id);
}

#[tokio::test]
async fn a_truncated_answer_sends_the_resolver_to_tcp() {
    let bench = Bench::new(1).await;
    set(&bench, DnsFault::Truncate).await;
    let answer = ask_udp(&bench, &query(SERVICE, RecordType::SRV)).await;
    assert!(answer.metadata.truncation && answer.answers.is_empty());
    assert_eq!(srv(&both(&bench)).await.map(|records| records.len()), Some(1));
    assert!(bench.dev.dns_counts().tcp > 0);
}

#[tokio::test]
async fn members_change_and_a_new_one_serves() {
    let bench = Bench::new(2).await;
    let resolver = both(&bench);
    let foreign = Member { id: 9, address: Some("127.0.0.9:99".parse().unwrap()) };
    bench.apply(Command::Members { remove: vec![bench.id(0)], add: vec![foreign, 5.into()] }).await;
    let started = bench.dev.servers().into_iter().find(|server| server.id == 5).expect("a server of id 5");
    let ports: Vec<u16> = srv(&resolver).await.unwrap().iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [bench.addr(1).port(), 99, started.addr.port()]);
    bench.client.send(started.addr, &crate::support::Ask::token(9)).await;
    assert_eq!(bench.client.answer().await.unwrap().server, 5);
    bench.apply(Command::Members { remove: vec![], add: vec![bench.id(0).into()] }).await;
    assert_eq!(srv(&resolver).await.unwrap().len(), 4);
    bench.dev.reset().await.unwrap();
    assert_eq!(srv(&resolver).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_target_gets_more_addresses_and_another_ttl() {
    let bench = Bench::new(1).await;
    let unreachable: IpAddr = "100::1".parse().unwrap();
    set(&bench, DnsFault::ExtraAddresses { server: bench.id(0), addresses: vec![unreachable] }).await;
    bench.apply(Command::Ttl { seconds: 77 }).await;
    let answer = ask_udp(&bench, &query("s-1015809.dev.test.", RecordType::AAAA)).await;
    assert_eq!(answer.answers[0].ttl, 77);
    assert!(matches!(&answer.answers[0].data, RData::AAAA(found) if IpAddr::V6(found.0) == unreachable));
}
