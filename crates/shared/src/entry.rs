//! The servers that a worker has found, for the workers that start after it.
//!
//! The words are written under a lock, and a reader still trusts nothing: a writer may have been killed in the middle. The
//! checksum is cleared first and written last, and covers every word in use. Times are of the system's monotonic clock, which
//! all processes share.

use crate::digest::Digest;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most servers of an entry.
pub const MOST_SERVERS: usize = 64;
/// Most addresses of an entry.
pub const MOST_ENDPOINTS: usize = 256;
/// Words of an entry's area.
pub const ENTRY_WORDS: usize = HEAD + MOST_SERVERS * OF_SERVER + MOST_ENDPOINTS * OF_ENDPOINT;

/// An entry is used up to this age, milliseconds.
const OLDEST_MS: u64 = 3_600_000;

/// Checksum, when, life, servers.
const HEAD: usize = 4;
/// Id, round trip, addresses.
const OF_SERVER: usize = 3;
/// Address, and port with the kind of address.
const OF_ENDPOINT: usize = 3;
const IPV4: u64 = 1 << 16;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its id.
    pub id: u64,
    /// What is known of its round trip, as a number of the caller's; `None`: nothing, which 0 stands for in the area.
    pub round_trip: Option<u64>,
    /// Its addresses.
    pub endpoints: Vec<SocketAddr>,
}

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, milliseconds of the monotonic clock.
    pub found_ms: u64,
    /// How long it is fresh, milliseconds.
    pub life_ms: u64,
    /// The servers.
    pub servers: Vec<Server>,
}

impl Entry {
    /// Writes the entry. `false`: it does not fit, and the words are no entry any more.
    pub fn write(&self, words: &[AtomicU64]) -> bool {
        let Some((checksum, rest)) = words.split_first() else { return false };
        checksum.store(0, Ordering::Release);
        let endpoints: usize = self.servers.iter().map(|server| server.endpoints.len()).sum();
        if self.servers.len() > MOST_SERVERS || endpoints > MOST_ENDPOINTS || words.len() < ENTRY_WORDS {
            return false;
        }
        let text: Vec<u64> = self.numbers().collect();
        text.iter().zip(rest).for_each(|(number, word)| word.store(*number, Ordering::Relaxed));
        checksum.store(sum(&text), Ordering::Release);
        true
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let head = [self.found_ms, self.life_ms, self.servers.len() as u64];
        let servers = self.servers.iter().flat_map(|server| {
            let Server { id, round_trip, endpoints } = server;
            let head = [*id, round_trip.unwrap_or(0), endpoints.len() as u64];
            head.into_iter().chain(endpoints.iter().flat_map(address))
        });
        head.into_iter().chain(servers)
    }

    /// The entry in the words. `None`: nothing was written, the entry is torn, or at `now_ms` it is above an hour old or of the
    /// future.
    pub fn read(words: &[AtomicU64], now_ms: u64) -> Option<Entry> {
        let (checksum, rest) = words.split_first()?;
        let expected = checksum.load(Ordering::Acquire);
        let text: Vec<u64> = rest.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let mut reader = Reader { text: &text, at: 0 };
        let entry = reader.entry()?;
        let is_whole = expected != 0 && sum(&text[..reader.at]) == expected;
        let age_ms = now_ms.checked_sub(entry.found_ms)?;
        (is_whole && age_ms <= OLDEST_MS).then_some(entry)
    }
}

/// Never 0, which says that there is no entry.
fn sum(text: &[u64]) -> u64 {
    text.iter().fold(Digest::default(), |digest, number| digest.number(*number)).get().max(1)
}

fn address(endpoint: &SocketAddr) -> [u64; OF_ENDPOINT] {
    let (bits, kind) = match endpoint.ip() {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), IPV4),
        IpAddr::V6(ip) => (ip.to_bits(), 0),
    };
    [(bits >> 64) as u64, bits as u64, u64::from(endpoint.port()) | kind]
}

/// Reads numbers that may be anything.
struct Reader<'a> {
    text: &'a [u64],
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u64> {
        let number = *self.text.get(self.at)?;
        self.at += 1;
        Some(number)
    }

    fn count(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.next()?).ok().filter(|count| *count <= most)
    }

    fn entry(&mut self) -> Option<Entry> {
        let (found_ms, life_ms) = (self.next()?, self.next()?);
        let servers = self.count(MOST_SERVERS)?;
        let servers = (0..servers).map(|_| self.server()).collect::<Option<_>>()?;
        Some(Entry { found_ms, life_ms, servers })
    }

    fn server(&mut self) -> Option<Server> {
        let (id, round_trip) = (self.next()?, self.next()?);
        let endpoints = self.count(MOST_ENDPOINTS)?;
        let endpoints = (0..endpoints).map(|_| self.endpoint()).collect::<Option<_>>()?;
        Some(Server { id, round_trip: Some(round_trip).filter(|bits| *bits != 0), endpoints })
    }

    fn endpoint(&mut self) -> Option<SocketAddr> {
        let bits = u128::from(self.next()?) << 64 | u128::from(self.next()?);
        let port = self.next()?;
        let ip = if port & IPV4 == 0 {
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        } else {
            IpAddr::V4((bits as u32).into())
        };
        Some(SocketAddr::new(ip, port as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: u64 = 10_000_000;

    fn area() -> Vec<AtomicU64> {
        (0..ENTRY_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn entry(found_ms: u64) -> Entry {
        let server = |id, round_trip, endpoints: &[&str]| Server {
            id,
            round_trip,
            endpoints: endpoints.iter().map(|text| text.parse().expect("an address")).collect(),
        };
        Entry {
            found_ms,
            life_ms: 30_000,
            servers: vec![
                server(7, None, &["192.0.2.1:4000", "[2001:db8::1]:4001"]),
                server(u64::MAX, Some(5 << 32), &["[::ffff:192.0.2.9]:65535"]),
            ],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let words = area();
        assert_eq!(Entry::read(&words, NOW_MS), None);
        assert!(entry(NOW_MS).write(&words));
        assert_eq!(Entry::read(&words, NOW_MS), Some(entry(NOW_MS)));
    }

    #[test]
    fn an_entry_of_the_future_or_above_an_hour_old_is_none() {
        let words = area();
        assert!(entry(NOW_MS).write(&words));
        assert_eq!(Entry::read(&words, NOW_MS - 1), None);
        assert!(Entry::read(&words, NOW_MS + OLDEST_MS).is_some());
        assert_eq!(Entry::read(&words, NOW_MS + OLDEST_MS + 1), None);
    }

    /// A writer that is killed has written some of the words in order and not the checksum.
    #[test]
    fn a_torn_entry_is_none_wherever_its_writer_was_killed() {
        let new: Vec<u64> = Entry { life_ms: 1, ..entry(NOW_MS - 5) }.numbers().collect();
        for written in 0..=new.len() {
            let words = area();
            assert!(entry(NOW_MS).write(&words));
            words[0].store(0, Ordering::Relaxed);
            for (word, number) in words[1..].iter().zip(&new[..written]) {
                word.store(*number, Ordering::Relaxed);
            }
            assert_eq!(Entry::read(&words, NOW_MS), None, "{written} words");
        }
    }

    #[test]
    fn more_servers_than_fit_are_not_written() {
        let words = area();
        let server = entry(NOW_MS).servers[0].clone();
        assert!(Entry { servers: vec![server.clone(); MOST_SERVERS], ..entry(NOW_MS) }.write(&words));
        assert!(!Entry { servers: vec![server; MOST_SERVERS + 1], ..entry(NOW_MS) }.write(&words));
        assert_eq!(Entry::read(&words, NOW_MS), None);
    }

    proptest! {
        #[test]
        fn a_changed_word_makes_it_none(at in 0..20usize, bit in 0..64u32) {
            let words = area();
            prop_assert!(entry(NOW_MS).write(&words));
            let used = entry(NOW_MS).numbers().count() + 1;
            prop_assume!(at < used);
            words[at].fetch_xor(1 << bit, Ordering::Relaxed);
            prop_assert_eq!(Entry::read(&words, NOW_MS), None);
        }

        #[test]
        fn any_words_are_read_without_a_panic(text in prop::collection::vec(any::<u64>(), 0..40)) {
            let words: Vec<AtomicU64> = text.into_iter().map(AtomicU64::new).collect();
            let _ = Entry::read(&words, NOW_MS);
        }
    }
}
