//! From DNS's answers to members: what is kept, what is left out, and why there is nothing.

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimitly_core::id::ServerId;
use ratelimitly_core::membership::answer::{Addresses, Family, LookupError};
use ratelimitly_core::membership::gathering::{Gathered, Gathering, NoMembers};
use ratelimitly_core::membership::targets::Targets;
use ratelimitly_core::membership::{MOST_ADDRESSES, MOST_ENDPOINTS, MOST_SERVERS, Member, Membership};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

type Answer = Result<Addresses, LookupError>;

fn name(id: u64) -> String {
    format!("s-{id}.example.")
}

fn listed(records: &[(u64, u16)]) -> Gathering<String> {
    listed_in(records, &Family::BOTH)
}

fn listed_in(records: &[(u64, u16)], families: &[Family]) -> Gathering<String> {
    let mut targets = Targets::new();
    for (id, port) in records {
        targets.add(&name(*id), name(*id), *port);
    }
    Gathering::new(&targets, families)
}

fn found(addresses: &[&str]) -> Answer {
    Ok(addresses.iter().map(|text| text.parse::<IpAddr>().expect("an address")).collect())
}

fn refused() -> Answer {
    Err(LookupError::Refused("Server Failure".to_owned()))
}

fn none() -> Answer {
    Err(LookupError::NoSuchRecord)
}

fn gone() -> Answer {
    Err(LookupError::NoSuchName)
}

/// Answers both questions about a server.
fn answer(gathering: &mut Gathering<String>, id: u64, v4: Answer, v6: Answer) {
    for (family, answer) in [(Family::V4, v4), (Family::V6, v6)] {
        let asked = gathering.questions().find(|q| *gathering.name(*q) == name(id) && q.family == family);
        gathering.answer(asked.expect("the question is asked"), answer);
    }
}

fn known(members: &[(u64, &[&str])]) -> Membership {
    let endpoints = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an endpoint")).collect();
    let member = |(id, texts): &(u64, &[&str])| Member { id: ServerId(*id), endpoints: endpoints(texts) };
    Membership::new(members.iter().map(member).collect()).expect("a member")
}

fn shown(gathered: &Result<Gathered, NoMembers>) -> Vec<String> {
    let membership = &gathered.as_ref().expect("members").membership;
    let endpoints = |member: &Member| member.endpoints.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
    let member = |member: &Member| format!("{} {}", member.id, endpoints(member).join(" "));
    membership.members().iter().map(member).collect()
}

fn lacking(gathered: &Result<Gathered, NoMembers>) -> Option<String> {
    match gathered {
        Ok(gathered) => gathered.partial.as_ref().map(ToString::to_string),
        Err(nothing) => nothing.lacking.as_ref().map(ToString::to_string),
    }
}

#[test]
fn a_server_has_the_addresses_of_both_families_with_its_port() {
    let mut gathering = listed(&[(7, 53), (8, 54)]);
    answer(&mut gathering, 7, found(&["192.0.2.2", "192.0.2.1"]), found(&["2001:db8::1"]));
    answer(&mut gathering, 8, none(), found(&["2001:db8::2"]));
    let gathered = gathering.members(None);
    assert_eq!(shown(&gathered), ["7 192.0.2.1:53 192.0.2.2:53 [2001:db8::1]:53", "8 [2001:db8::2]:54"]);
    assert_eq!(lacking(&gathered), None);
}

#[test]
fn every_question_of_the_first_family_comes_before_any_of_the_second() {
    let gathering = listed(&[(7, 53), (8, 53), (9, 53)]);
    let families: Vec<Family> = gathering.questions().map(|question| question.family).collect();
    assert_eq!(families, [[Family::V4; 3], [Family::V6; 3]].concat());
    let only: Vec<_> = listed_in(&[(7, 53)], &[Family::V6]).questions().map(|q| q.family).collect();
    assert_eq!(only, [Family::V6], "a family that is off is not asked for");
}

#[test]
fn a_name_with_several_ports_is_asked_for_once() {
    let mut gathering = listed(&[(7, 53), (7, 54)]);
    assert_eq!(gathering.questions().count(), 2);
    answer(&mut gathering, 7, found(&["192.0.2.1"]), none());
    assert_eq!(shown(&gathering.members(None)), ["7 192.0.2.1:53 192.0.2.1:54"]);
}

/// Three servers are known, a refresh fails for two of them: all three stay, and it is to be tried again soon.
#[test]
fn a_family_whose_lookup_failed_keeps_its_addresses() {
    let before =
        known(&[(1, &["192.0.2.1:53", "[2001:db8::1]:53"]), (2, &["192.0.2.2:53"]), (3, &["192.0.2.3:53"])]);
    let mut gathering = listed(&[(1, 53), (2, 53), (3, 53)]);
    answer(&mut gathering, 1, refused(), none());
    answer(&mut gathering, 2, refused(), none());
    answer(&mut gathering, 3, found(&["192.0.2.33"]), none());
    let gathered = gathering.members(Some(&before));
    assert_eq!(shown(&gathered), ["1 192.0.2.1:53", "2 192.0.2.2:53", "3 192.0.2.33:53"]);
    let said = "s-1: A: the nameserver answered \"Server Failure\"; AAAA: the name has no such record";
    assert_eq!(lacking(&gathered).as_deref(), Some(said));
}

#[test]
fn a_server_that_was_not_listed_any_more_goes() {
    let before = known(&[(1, &["192.0.2.1:53"]), (2, &["192.0.2.2:53"])]);
    let mut gathering = listed(&[(2, 53)]);
    answer(&mut gathering, 2, refused(), refused());
    assert_eq!(shown(&gathering.members(Some(&before))), ["2 192.0.2.2:53"]);
}

#[test]
fn a_server_of_which_dns_says_that_it_has_no_address_is_left_out() {
    let before = known(&[(1, &["192.0.2.1:53"]), (2, &["192.0.2.2:53"]), (3, &["192.0.2.3:53"])]);
    let mut gathering = listed(&[(1, 53), (2, 53), (3, 53)]);
    answer(&mut gathering, 1, gone(), refused());
    answer(&mut gathering, 2, none(), none());
    answer(&mut gathering, 3, found(&["192.0.2.3"]), none());
    let gathered = gathering.members(Some(&before));
    assert_eq!(shown(&gathered), ["3 192.0.2.3:53"]);
    assert_eq!(lacking(&gathered), None, "nothing is left to find out");
    let left_out = gathered.expect("members").left_out;
    assert_eq!(left_out.without_address, [ServerId(1), ServerId(2)]);
}

/// A nameserver that always drops AAAA must not cause a discovery every five seconds.
#[test]
fn one_family_is_enough_for_a_whole_discovery() {
    let mut gathering = listed(&[(1, 53)]);
    let v4 = gathering.questions().next().expect("a question");
    assert!(gathering.answer(v4, found(&["192.0.2.1"])));
    gathering.give_up();
    let gathered = gathering.members(Some(&known(&[(1, &["192.0.2.9:53", "[2001:db8::1]:53"])])));
    assert_eq!(shown(&gathered), ["1 192.0.2.1:53 [2001:db8::1]:53"]);
    assert_eq!(lacking(&gathered), None);
}

#[test]
fn a_server_that_moved_to_another_port_keeps_its_addresses_there() {
    let before = known(&[(1, &["192.0.2.1:53", "192.0.2.2:54"])]);
    let mut gathering = listed(&[(1, 54)]);
    answer(&mut gathering, 1, refused(), refused());
    assert_eq!(shown(&gathering.members(Some(&before))), ["1 192.0.2.2:54"]);
    let mut gathering = listed(&[(1, 99)]);
    answer(&mut gathering, 1, refused(), refused());
    assert_eq!(shown(&gathering.members(Some(&before))), ["1 192.0.2.1:99 192.0.2.2:99"]);
}

#[test]
fn nothing_known_and_nothing_found_is_a_failure_with_each_familys_reason() {
    let mut gathering = listed(&[(1, 53), (2, 53)]);
    answer(&mut gathering, 1, none(), none());
    answer(&mut gathering, 2, refused(), none());
    let said = "s-2: A: the nameserver answered \"Server Failure\"; AAAA: the name has no such record";
    assert_eq!(lacking(&gathering.members(None)).as_deref(), Some(said), "the failure, not the empty name");

    let mut gathering = listed(&[(1, 53)]);
    answer(&mut gathering, 1, Err(LookupError::Network("TCP refused".to_owned())), none());
    let said = "s-1: A: TCP refused; AAAA: the name has no such record";
    assert_eq!(lacking(&gathering.members(None)).as_deref(), Some(said));

    let mut gathering = listed(&[(1, 53)]);
    answer(&mut gathering, 1, gone(), gone());
    let said = "s-1: A: there is no such name; AAAA: there is no such name";
    assert_eq!(lacking(&gathering.members(None)).as_deref(), Some(said));
}

#[test]
fn addresses_that_cannot_be_used_are_named() {
    let mut gathering = listed(&[(1, 53)]);
    answer(&mut gathering, 1, found(&["0.0.0.0"]), found(&["::ffff:224.0.0.1", "ff02::1"]));
    let nothing = gathering.members(None).expect_err("no usable address");
    let unusable: Vec<String> = nothing.left_out.addresses_unusable.iter().map(IpAddr::to_string).collect();
    assert_eq!(unusable, ["0.0.0.0", "224.0.0.1", "ff02::1"]);
    assert_eq!(nothing.lacking, None);
}

#[test]
fn what_is_there_before_the_end_can_be_used() {
    let mut gathering = listed(&[(1, 53), (2, 53)]);
    assert!(gathering.members(None).is_err());
    let first = gathering.questions().next().expect("a question");
    assert!(gathering.answer(first, found(&["192.0.2.1"])));
    assert_eq!(shown(&gathering.members(None)), ["1 192.0.2.1:53"]);
    let second = gathering.questions().nth(1).expect("a question");
    assert!(!gathering.answer(second, none()), "an answer without an address adds nothing");
}

/// There would be room for 256, so only the bound of one server holds here.
#[test]
fn of_one_server_no_more_than_16_addresses_are_kept() {
    let addresses: Vec<String> = (0..40).map(|last| format!("192.0.2.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let mut gathering = listed(&[(7, 53)]);
    answer(&mut gathering, 7, found(&addresses), none());
    let gathered = gathering.members(None).expect("members");
    assert_eq!(gathered.membership.members()[0].endpoints.len(), 16);
    assert_eq!(gathered.left_out.addresses_over.count, 24);
}

/// 64 servers with 16 addresses each: 1,024 addresses are cut to 256, the same ones in every order of the answers.
#[test]
fn no_more_than_256_addresses_are_kept() {
    let records: Vec<(u64, u16)> = (0..70).map(|id| (id, 53)).collect();
    let addresses: Vec<String> = (0..40).map(|last| format!("192.0.2.{last}")).collect();
    let mut addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let mut gather = |reversed: bool| {
        let mut gathering = listed(&records);
        if reversed {
            addresses.reverse();
        }
        (0..64).for_each(|id| answer(&mut gathering, id, found(&addresses), none()));
        gathering.members(None).expect("members")
    };
    let gathered = gather(false);
    let members = gathered.membership.members();
    assert_eq!(members.len(), MOST_SERVERS);
    assert!(members.iter().all(|member| member.endpoints.len() == 4), "256 dealt to 64");
    assert_eq!(members[63].endpoints[0].to_string(), "192.0.2.0:53", "the smallest addresses are kept");
    assert_eq!(gathered.left_out.records_over.count, 6);
    assert_eq!(gathered.left_out.addresses_over.count, 64 * 36);
    assert_eq!(gather(true), gathered, "rotation changes nothing");
}

fn any_answer() -> impl Strategy<Value = Option<Answer>> {
    let addresses = vec(
        prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)],
        0..40,
    );
    prop_oneof![
        4 => addresses.prop_map(|addresses| Some(Ok(addresses.into_iter().collect()))),
        1 => Just(Some(none())),
        1 => Just(Some(gone())),
        1 => Just(Some(refused())),
        1 => Just(None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any records: the bounds hold, and only listed servers are members, each with an address.
    #[test]
    fn members_stay_within_their_bounds(
        records in vec((0u64..90, 0u16..4), 0..150),
        answers in vec(any_answer(), 40),
        before in vec((0u64..90, any::<[u8; 4]>(), 1u16..4), 0..20),
    ) {
        let before = before.into_iter().map(|(id, ip, port)| Member {
            id: ServerId(id),
            endpoints: vec![SocketAddr::from((ip, port))],
        });
        let before = Membership::new(before.collect());
        let mut gathering = listed(&records);
        let questions: Vec<_> = gathering.questions().collect();
        prop_assert!(questions.len() <= 2 * MOST_ENDPOINTS);
        for (question, answer) in questions.iter().zip(answers) {
            if let Some(answer) = answer {
                gathering.answer(*question, answer);
            }
        }
        let listed: BTreeSet<u64> = records.iter().filter(|(_, port)| *port > 0).map(|(id, _)| *id).collect();
        for give_up in [false, true] {
            if give_up {
                gathering.give_up();
            }
            let Ok(gathered) = gathering.members(before.as_ref()) else { continue };
            let members = gathered.membership.members();
            prop_assert!(members.len() <= MOST_SERVERS);
            prop_assert!(members.iter().map(|member| member.endpoints.len()).sum::<usize>() <= MOST_ENDPOINTS);
            for member in members {
                prop_assert!(listed.contains(&member.id.0));
                prop_assert!((1..=MOST_ADDRESSES).contains(&member.endpoints.len()));
                prop_assert!(member.endpoints.is_sorted());
                prop_assert!(member.endpoints.iter().all(|endpoint| endpoint.port() != 0));
            }
        }
    }
}
