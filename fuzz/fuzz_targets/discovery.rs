//! DNS's answers to members: for any records, the bounds hold, only listed servers are members, and the order
//! of the answers changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_core::id::ServerId;
use ratelimitly_core::membership::answer::Family;
use ratelimitly_core::membership::answer::{Addresses, LookupError};
use ratelimitly_core::membership::gathering::{Gathering, Question};
use ratelimitly_core::membership::targets::Targets;
use ratelimitly_core::membership::{MOST_ADDRESSES, MOST_ENDPOINTS, MOST_SERVERS, Member, Membership};
use std::net::{IpAddr, SocketAddr};

/// Takes bytes off the input; zeros when it has ended.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let length = N.min(self.0.len());
        bytes[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn address(&mut self) -> IpAddr {
        match self.byte() % 3 {
            0 => self.take::<4>().into(),
            1 => self.take::<16>().into(),
            _ => std::net::Ipv4Addr::from(self.take::<4>()).to_ipv6_mapped().into(),
        }
    }

    fn answer(&mut self) -> Option<Result<Addresses, LookupError>> {
        match self.byte() % 8 {
            0 => None,
            1 => Some(Err(LookupError::NoSuchName)),
            2 => Some(Err(LookupError::NoSuchRecord)),
            3 => Some(Err(LookupError::Refused("Server Failure".to_owned()))),
            _ => {
                let count = self.byte() % 40;
                Some(Ok((0..count).map(|_| self.address()).collect()))
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut targets = Targets::new();
    for _ in 0..input.byte() {
        let id = input.byte();
        let target = if id == 255 { "www.example.".to_owned() } else { format!("s-{id}.example.") };
        targets.add(&target, target.clone(), u16::from(input.byte() % 4));
    }
    let known = (0..input.byte() % 8).map(|_| Member {
        id: ServerId(input.byte().into()),
        endpoints: vec![SocketAddr::new(input.address(), u16::from(input.byte() % 4))],
    });
    let known = Membership::new(known.collect());
    let empty = Gathering::new(&targets, &Family::BOTH);
    let questions: Vec<Question> = empty.questions().collect();
    assert!(questions.len() <= 2 * MOST_ENDPOINTS);
    let answers: Vec<_> = questions.iter().map(|_| input.answer()).collect();

    let gather = |order: &mut dyn Iterator<Item = usize>| {
        let mut gathering = empty.clone();
        for place in order {
            if let Some(answer) = answers[place].clone() {
                gathering.answer(questions[place], answer);
            }
        }
        gathering.give_up();
        gathering.members(known.as_ref())
    };
    let gathered = gather(&mut (0..questions.len()));
    assert_eq!(gather(&mut (0..questions.len()).rev()), gathered);
    let Ok(gathered) = gathered else { return };
    let members = gathered.membership.members();
    assert!((1..=MOST_SERVERS).contains(&members.len()));
    assert!(members.iter().map(|member| member.endpoints.len()).sum::<usize>() <= MOST_ENDPOINTS);
    assert!(members.is_sorted_by(|a, b| a.id < b.id));
    for member in members {
        assert!(member.id.0 < 255, "only listed servers");
        assert!((1..=MOST_ADDRESSES).contains(&member.endpoints.len()));
        assert!(member.endpoints.is_sorted_by(|a, b| a < b));
        assert!(member.endpoints.iter().all(|endpoint| endpoint.port() != 0));
    }
});
