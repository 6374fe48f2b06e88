//! A repeated request id is the same request, at whatever server and however sealed.

use crate::support::{Ask, Bench};
use ratelimitly_devserver::Fate;

#[tokio::test]
async fn a_fan_out_consumes_once_and_every_server_says_the_same() {
    let bench = Bench::new(3).await;
    let ask = Ask::token(1);
    for place in 0..3 {
        bench.client.send(bench.addr(place), &ask).await;
    }
    let mut servers = Vec::new();
    for _ in 0..3 {
        let answer = bench.client.answer().await.unwrap();
        assert_eq!((answer.allow, answer.resources[0].actual_rate, answer.id), (true, 1, ask.id));
        servers.push(answer.server);
    }
    servers.sort_unstable();
    assert_eq!(servers, [bench.id(0), bench.id(1), bench.id(2)]);
    assert!(!bench.ask(&Ask::token(1)).await.allow);
}

#[tokio::test]
async fn a_replay_sealed_afresh_repeats_the_first_verdict() {
    let bench = Bench::new(2).await;
    let (granted, refused) = (Ask::token(1), Ask::token(1));
    let first = bench.ask(&granted).await;
    let second = bench.ask(&refused).await;
    assert_eq!((first.allow, second.allow), (true, false));
    assert_ne!(bench.client.seal(&granted), bench.client.seal(&granted));
    assert_eq!(bench.ask(&granted).await, first);
    assert_eq!(bench.ask(&refused).await, second);
}

#[tokio::test]
async fn the_identical_datagram_repeats_the_first_verdict() {
    let bench = Bench::new(2).await;
    let datagram = bench.client.seal(&Ask::token(1));
    let mut allows = Vec::new();
    for place in [0, 0, 1] {
        bench.client.send_bytes(bench.addr(place), &datagram).await;
        allows.push(bench.client.answer().await.unwrap().allow);
    }
    assert_eq!(allows, [true, true, true]);
}

#[tokio::test]
async fn events_tell_copies_and_repeats() {
    let bench = Bench::new(2).await;
    let ask = Ask::token(9);
    for place in [0, 1, 0] {
        bench.client.send(bench.addr(place), &ask).await;
        bench.client.answer().await.unwrap();
    }
    let events = bench.await_fates(3, Fate::Answered).await;
    let told: Vec<_> = events.iter().map(|event| (event.server, event.copy, event.repeat)).collect();
    let expected = [(bench.id(0), 1, false), (bench.id(1), 1, true), (bench.id(0), 2, true)];
    assert_eq!(told, expected);
}
