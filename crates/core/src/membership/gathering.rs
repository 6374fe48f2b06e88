//! From the answers about the servers' addresses to the members (wire.md, "Discovery").
//!
//! The caller asks each question of `questions`, hands each answer in, and takes members out at any time: a cold worker
//! uses what there is, a refresh waits for the end. It asks nothing, knows no time, and its work is bounded.

use super::answer::{Addresses, Family, LookupError};
use super::bounds::{Cut, LeftOut, MOST_ADDRESSES, Smallest, deal};
use super::targets::Targets;
use super::{Member, Membership};
use crate::id::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};

/// The addresses of one discovery's targets, as far as they are known.
#[derive(Clone, Debug)]
pub struct Gathering<N> {
    hosts: Vec<Host<N>>,
    records: Vec<Record>,
    left_out: LeftOut,
}

/// A name that addresses are asked of, and the answer for each family.
#[derive(Clone, Debug)]
struct Host<N> {
    name: N,
    answers: [State; 2],
}

#[derive(Clone, Debug)]
enum State {
    /// The family is off.
    Unasked,
    Pending,
    Found(Addresses),
    Failed(LookupError),
}

/// A server's SRV record.
#[derive(Clone, Copy, Debug)]
struct Record {
    id: ServerId,
    host: usize,
    port: u16,
}

/// One lookup to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    host: usize,
    /// The record type to ask for.
    pub family: Family,
}

/// What came of a discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The members.
    pub membership: Membership,
    /// A listed server has got no address, and one of its lookups failed: to be tried again soon.
    pub partial: Option<Lacking>,
    /// What is not in `membership`.
    pub left_out: LeftOut,
}

/// Why one server has got no address: what each family's lookup said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The server.
    pub id: ServerId,
    /// The lookups, in the order of the families.
    pub reasons: Vec<(Family, LookupError)>,
}

/// `s-7: A: the name has no such record; AAAA: there is no such name`.
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s-{}", self.id)?;
        for (position, (family, reason)) in self.reasons.iter().enumerate() {
            write!(f, "{}{family}: {reason}", if position == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

/// Why a discovery found no member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMembers {
    /// One server without any address; a failed lookup is named before a name without addresses. `None` where every
    /// address was unusable.
    pub lacking: Option<Lacking>,
    /// What was found and left out.
    pub left_out: LeftOut,
}

impl<N: Ord + Hash + Clone> Gathering<N> {
    /// Nothing is known of the targets' addresses. Only these families are asked for.
    pub fn new(targets: &Targets<N>, families: &[Family]) -> Gathering<N> {
        let (followed, records_over) = targets.dealt();
        let mut places = BTreeMap::new();
        let mut hosts = Vec::new();
        let mut records = Vec::with_capacity(followed.len());
        for (id, name, port) in followed {
            let host = *places.entry(name).or_insert_with_key(|name| {
                let state = |family| match families.contains(&family) {
                    true => State::Pending,
                    false => State::Unasked,
                };
                hosts.push(Host { name: name.clone(), answers: Family::BOTH.map(state) });
                hosts.len() - 1
            });
            records.push(Record { id, host, port });
        }
        let left_out = LeftOut { records_unusable: targets.unusable(), records_over, ..LeftOut::default() };
        Gathering { hosts, records, left_out }
    }

    /// Every lookup to make: all of the first family before any of the second, so that a nameserver that drops one
    /// family's questions delays no other.
    pub fn questions(&self) -> impl Iterator<Item = Question> + '_ {
        let asked = |question: &Question| {
            !matches!(self.hosts[question.host].answers[question.family.index()], State::Unasked)
        };
        let hosts = 0..self.hosts.len();
        Family::BOTH
            .into_iter()
            .flat_map(move |family| hosts.clone().map(move |host| Question { host, family }))
            .filter(asked)
    }

    /// The name that a question is about.
    pub fn name(&self, question: Question) -> &N {
        &self.hosts[question.host].name
    }

    /// Takes an answer in. `true`: it holds an address that can be used.
    pub fn answer(&mut self, question: Question, answer: Result<Addresses, LookupError>) -> bool {
        let state = &mut self.hosts[question.host].answers[question.family.index()];
        *state = match answer {
            Ok(addresses) => State::Found(addresses),
            Err(error) => State::Failed(error),
        };
        matches!(state, State::Found(addresses) if !addresses.usable.items().is_empty())
    }

    /// The time is over: each lookup without an answer has failed.
    pub fn give_up(&mut self) {
        let states = self.hosts.iter_mut().flat_map(|host| &mut host.answers);
        for state in states.filter(|state| matches!(state, State::Pending)) {
            *state = State::Failed(LookupError::TimedOut);
        }
    }

    /// The members by now. A family whose lookup failed keeps the addresses that `known` has of it.
    ///
    /// # Errors
    /// [`NoMembers`] where no server has a usable address.
    pub fn members(&self, known: Option<&Membership>) -> Result<Gathered, NoMembers> {
        let mut servers = BTreeMap::<ServerId, Smallest<SocketAddr, MOST_ADDRESSES>>::new();
        let mut fresh = BTreeSet::new();
        for record in &self.records {
            let server = servers.entry(record.id).or_default();
            if self.take_found(record, server) {
                fresh.insert(record.id);
            }
            if let Some(known) = known.and_then(|known| known.member(record.id)) {
                self.keep_known(record, known, server);
            }
        }
        let mut left_out = self.left_out.clone();
        let mut endpoints = BTreeMap::new();
        for (id, server) in servers {
            left_out.addresses_over.join(server.cut());
            endpoints.insert(id, server.items().to_vec());
        }
        left_out.addresses_over.join(deal(endpoints.values_mut()));
        left_out.addresses_over.join(self.cut_in_answers());
        left_out.addresses_unusable = self.unusable();
        left_out.without_address =
            endpoints.iter().filter(|(_, found)| found.is_empty()).map(|(id, _)| *id).collect();
        let members = endpoints.into_iter().map(|(id, endpoints)| Member { id, endpoints }).collect();
        match Membership::new(members) {
            Some(membership) => Ok(Gathered { membership, partial: self.partial(&fresh), left_out }),
            None => Err(NoMembers { lacking: self.lacking(), left_out }),
        }
    }

    /// Adds the addresses that were found at a record's target; `false`: there is none.
    fn take_found(&self, record: &Record, server: &mut Smallest<SocketAddr, MOST_ADDRESSES>) -> bool {
        let mut any = false;
        for state in &self.hosts[record.host].answers {
            let State::Found(addresses) = state else { continue };
            for address in addresses.usable.items() {
                server.add(SocketAddr::new(*address, record.port));
                any = true;
            }
        }
        any
    }

    /// Adds the known addresses of each family whose lookup failed. A name that does not exist has none of either.
    fn keep_known(&self, record: &Record, known: &Member, server: &mut Smallest<SocketAddr, MOST_ADDRESSES>) {
        if self.is_gone(record) {
            return;
        }
        for family in Family::BOTH {
            if !self.has_failed(record, family) {
                continue;
            }
            let of_family = known.endpoints.iter().filter(|endpoint| family.holds(endpoint.ip()));
            let (at_port, elsewhere): (Vec<&SocketAddr>, Vec<_>) =
                of_family.partition(|endpoint| endpoint.port() == record.port);
            // A server that has moved to another port has kept its addresses.
            let kept = if at_port.is_empty() { elsewhere } else { at_port };
            for endpoint in kept {
                server.add(SocketAddr::new(endpoint.ip(), record.port));
            }
        }
    }

    fn has_failed(&self, record: &Record, family: Family) -> bool {
        let state = &self.hosts[record.host].answers[family.index()];
        matches!(state, State::Failed(error) if !error.is_answer())
    }

    /// Whether DNS says that the target's name does not exist.
    fn is_gone(&self, record: &Record) -> bool {
        let gone = |state: &State| matches!(state, State::Failed(LookupError::NoSuchName));
        self.hosts[record.host].answers.iter().any(gone)
    }

    /// The first server that got no address although DNS has not said that it has none.
    fn partial(&self, fresh: &BTreeSet<ServerId>) -> Option<Lacking> {
        self.records
            .iter()
            .filter(|record| !fresh.contains(&record.id) && !self.is_gone(record))
            .find(|record| Family::BOTH.into_iter().any(|family| self.has_failed(record, family)))
            .map(|record| self.reasons(record))
    }

    /// Why there is no address: a record whose lookup failed, else one whose name has none.
    fn lacking(&self) -> Option<Lacking> {
        let empty = |record: &&Record| {
            let found = |state: &State| matches!(state, State::Found(_));
            !self.hosts[record.host].answers.iter().any(found)
        };
        let failed =
            |record: &&Record| Family::BOTH.into_iter().any(|family| self.has_failed(record, family));
        let worst = self.records.iter().filter(empty).find(failed);
        worst.or_else(|| self.records.iter().find(empty)).map(|record| self.reasons(record))
    }

    fn reasons(&self, record: &Record) -> Lacking {
        let answers = &self.hosts[record.host].answers;
        let reason = |family: Family| match &answers[family.index()] {
            State::Failed(error) => Some((family, error.clone())),
            State::Pending => Some((family, LookupError::TimedOut)),
            State::Unasked | State::Found(_) => None,
        };
        Lacking { id: record.id, reasons: Family::BOTH.into_iter().filter_map(reason).collect() }
    }

    fn found(&self) -> impl Iterator<Item = &Addresses> {
        self.hosts.iter().flat_map(|host| &host.answers).filter_map(|state| match state {
            State::Found(addresses) => Some(addresses),
            _ => None,
        })
    }

    fn cut_in_answers(&self) -> Cut {
        let mut cut = Cut::default();
        self.found().for_each(|addresses| cut.join(addresses.usable.cut()));
        cut
    }

    fn unusable(&self) -> Vec<IpAddr> {
        let all: BTreeSet<IpAddr> =
            self.found().flat_map(|addresses| addresses.unusable.items()).copied().collect();
        all.into_iter().collect()
    }
}
