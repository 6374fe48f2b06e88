//! Sockets that close and come back, other address families, what is ignored, and the end of it all.

use crate::support::{Ask, Bench, Client, key, within};
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::command::Ignored;
use ratelimitly_devserver::{Command, Config, DevServer, Servers, keygen};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;

#[tokio::test]
async fn a_server_that_is_down_is_refused_and_comes_back_on_its_port() {
    let bench = Bench::new(2).await;
    let (id, address) = (bench.id(0), bench.addr(0));
    bench.apply(Command::Down { servers: id.into() }).await;
    let probe = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    probe.connect(address).await.unwrap();
    probe.send(b"anyone?").await.unwrap();
    let refused = within(probe.recv(&mut [0; 16])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    bench.client.send(bench.addr(1), &Ask::token(9)).await;
    assert_eq!(bench.client.answer().await.unwrap().server, bench.id(1), "the other one serves");
    bench.apply(Command::Up { servers: Servers::All }).await;
    assert_eq!(bench.addr(0), address);
    assert_eq!(bench.ask(&Ask::token(9)).await.server, id);
}

#[tokio::test]
async fn servers_and_dns_listen_on_ipv6() {
    let key = key(KeyKind::Aes);
    let anywhere: SocketAddr = "[::1]:0".parse().unwrap();
    let config = Config { listen: anywhere, dns: anywhere, ..Config::default().servers(1).key(key.clone()) };
    let dev = DevServer::start(config).await.unwrap();
    assert!(dev.dns_addr().is_ipv6());
    let bench = Bench { client: Client::at("[::1]:0", &key).await, dev };
    assert!(bench.ask(&Ask::token(9)).await.allow);
}

#[tokio::test]
async fn what_does_not_belong_is_counted_and_not_answered() {
    let bench = Bench::new(1).await;
    let stranger = |id| keygen::generate(KeyKind::Aes, id, keygen::default_quotas()).unwrap();
    let same_id = Client::new(&stranger(42)).await;
    let other_id = Client::new(&stranger(43)).await;
    let other_kind = Client::new(&key(KeyKind::Cookie)).await;
    for datagram in [
        b"junk".to_vec(),
        Vec::new(),
        vec![0x52; 1300],
        other_id.seal(&Ask::token(9)),
        same_id.seal(&Ask::token(9)),
        other_kind.seal(&Ask::token(9)),
    ] {
        bench.client.send_bytes(bench.addr(0), &datagram).await;
    }
    let ask = Ask::token(9);
    assert_eq!(bench.ask(&ask).await.id, ask.id, "the first answer heard is the proper request's");
    let expected = Ignored { malformed: 3, unknown_key: 1, authentication: 2, clock_skew: 0 };
    assert_eq!(bench.dev.status().servers[0].ignored, expected);
    assert_eq!(bench.dev.events().len(), 1);
}

#[tokio::test]
async fn the_clock_is_looked_at_where_a_limit_is_set() {
    let key = key(KeyKind::Aes);
    // The client's requests are stamped with a moment long past or to come.
    let config = Config { max_clock_skew: Some(Duration::from_secs(60)), ..Config::default().servers(1) };
    let bench = Bench {
        dev: DevServer::start(config.key(key.clone())).await.unwrap(),
        client: Client::new(&key).await,
    };
    bench.client.send(bench.addr(0), &Ask::token(9)).await;
    let skewed = async {
        while bench.dev.status().servers[0].ignored.clock_skew == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(skewed).await;
    assert!(bench.dev.events().is_empty());
}

#[tokio::test]
async fn shutdown_closes_every_socket() {
    let bench = Bench::new(2).await;
    let (servers, dns) = (bench.dev.servers(), bench.dev.dns_addr());
    bench.dev.shutdown().await;
    for server in servers {
        UdpSocket::bind(server.addr).await.expect("the server's port is free");
    }
    UdpSocket::bind(dns).await.expect("the DNS port is free");
}

#[tokio::test]
async fn dropping_it_closes_every_socket_soon() {
    let bench = Bench::new(1).await;
    let (server, dns) = (bench.addr(0), bench.dev.dns_addr());
    drop(bench);
    for address in [server, dns] {
        let free = async {
            while UdpSocket::bind(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        within(free).await;
    }
}

#[tokio::test]
async fn a_configuration_that_makes_no_sense_says_why() {
    let key = key(KeyKind::Aes);
    let start = async |config: Config| DevServer::start(config).await.unwrap_err().to_string();
    let base = || Config::default().servers(2).key(key.clone());
    for (config, part) in [
        (base().server_ids([]), "at least one"),
        (base().server_ids([7, 7]), "server id 7 is given twice"),
        (base().key(key.clone()), "key id 42 is given twice"),
        (Config { zone: "a..b".into(), ..base() }, "\"a..b\""),
        (Config { ttl: Duration::from_millis(1500), ..base() }, "whole seconds"),
        (base().command(Command::Down { servers: 5.into() }), "no server has the id 5"),
    ] {
        let error = start(config).await;
        assert!(error.contains(part), "{error}");
    }
}
