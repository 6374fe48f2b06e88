//! What developers of an application need: servers that a container reaches, denies for one label or one bucket, and a help
//! text whose examples run.

use crate::binary::{Served, output};
use crate::dns::{addresses, both, srv};
use crate::support::{Ask, Bench, Client, key, resource};
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::{Command, Config, DevServer, Fault, FaultKind, Servers};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A server on every address of this machine, which its clients know under another one than 127.0.0.1.
async fn open_to_others(advertise: Option<IpAddr>) -> std::io::Result<Bench> {
    let key = key(KeyKind::Aes);
    let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let config = Config { listen, advertise, ..Config::default().servers(1).key(key.clone()) };
    Ok(Bench { client: Client::new(&key).await, dev: DevServer::start(config).await? })
}

#[tokio::test]
async fn dns_lists_the_advertised_address_of_a_server_that_listens_everywhere() {
    let advertised: IpAddr = [127, 0, 0, 2].into();
    let bench = open_to_others(Some(advertised)).await.unwrap();
    let resolver = both(&bench);

    let records = srv(&resolver).await.expect("SRV records");
    let found = addresses(&resolver, &records[0].1).await;

    assert_eq!(found, Some(vec![advertised]));
    bench.client.send(SocketAddr::new(advertised, records[0].0), &Ask::token(1)).await;
    assert!(bench.client.answer().await.unwrap().allow);
}

#[tokio::test]
async fn a_member_that_is_added_has_the_advertised_address_too() {
    let advertised: IpAddr = [127, 0, 0, 2].into();
    let bench = open_to_others(Some(advertised)).await.unwrap();
    bench.apply(Command::Members { remove: Vec::new(), add: vec![5.into()] }).await;
    assert_eq!(addresses(&both(&bench), "s-5.dev.test.").await, Some(vec![advertised]));
}

#[tokio::test]
async fn a_server_that_listens_everywhere_needs_an_address_for_dns() {
    let Err(error) = open_to_others(None).await else { panic!("it has started") };
    assert_eq!(
        error.to_string(),
        "DNS cannot list 0.0.0.0: name the address that clients reach with --advertise"
    );
}

#[tokio::test]
async fn the_printed_lines_name_the_advertised_address() {
    let everywhere = ["--listen", "0.0.0.0", "--advertise", "127.0.0.2"];
    let served = Served::start(&everywhere).await;
    assert!(served.ready["servers"][0]["address"].as_str().unwrap().starts_with("127.0.0.2:"));

    let key = served.key.encode();
    let taken = output(&["serve", "--key", &key, "--listen", "0.0.0.0"]).await;

    let complaint = String::from_utf8(taken.stderr).unwrap();
    assert!(!taken.status.success() && complaint.contains("--advertise"), "{complaint}");
    served.terminate().await;
}

#[tokio::test]
async fn one_label_is_denied_and_others_are_decided() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::ForceDenyOf { label: Some("/login".into()), bucket: None }).await;
    let labelled = |label: &str| Ask { label: Some(label.into()), ..Ask::token(100) };

    assert!(!bench.ask(&labelled("/login")).await.allow);
    assert!(bench.ask(&labelled("/")).await.allow);
    assert!(bench.ask(&Ask::token(100)).await.allow);

    let clear = Command::Clear { servers: Servers::All, faults: vec![FaultKind::ForceDenyOf] };
    bench.apply(clear).await;
    assert!(bench.ask(&labelled("/login")).await.allow);
}

#[tokio::test]
async fn one_bucket_is_denied_and_others_are_decided() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::ForceDenyOf { label: None, bucket: Some("checkout@100r/m".into()) }).await;
    let of = |name: &str, limit| Ask::new([], [resource("first", 100, 1), resource(name, limit, 1)]);

    assert!(!bench.ask(&of("checkout", 100)).await.allow);
    assert!(bench.ask(&of("checkout", 99)).await.allow, "another rate is another bucket");
    assert!(bench.ask(&of("search", 100)).await.allow);
}

#[tokio::test]
async fn the_example_of_the_help_text_denies_its_label() {
    let help = String::from_utf8(output(&["serve", "--help"]).await.stdout).unwrap();
    let (_, rest) = help.split_once("--apply '").expect("an example with --apply");
    let (command, _) = rest.split_once('\'').expect("its end");

    let served = Served::start(&["--servers", "1", "--apply", command]).await;

    let client = Client::new(&served.key).await;
    let to = served.ready["servers"][0]["address"].as_str().unwrap().parse().unwrap();
    client.send(to, &Ask { label: Some(b"/login".to_vec()), ..Ask::token(9) }).await;
    assert!(!client.answer().await.unwrap().allow);
}
