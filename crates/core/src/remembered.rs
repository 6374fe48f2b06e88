//! Denials that a worker remembers, so that it need not ask again while they last (`remember_deny`).
//!
//! A table of fixed size by bucket id: an id is placed by a hash under a secret of the worker, so that nobody can choose
//! ids that fall together, and is compared in full. Each place has eight entries, of which the oldest gives way. It reads
//! no clock. Every call looks at eight entries at most.

use crate::id::BucketId;
use crate::limits::ZoneResult;
use crate::time::Millis;
use crate::wire::Resource;

/// Most ids that are remembered.
pub const MOST: usize = SETS * WAYS;
/// Longest time that a denial is remembered, milliseconds.
pub const LONGEST_MS: u32 = 10_000;

const WAYS: usize = 8;
const SETS: usize = 512;

#[derive(Clone, Copy, Debug)]
struct Entry {
    bucket: BucketId,
    /// The smallest question that is known to be refused.
    tokens: u32,
    noted: Millis,
    until: Millis,
}

const EMPTY: Entry = Entry { bucket: BucketId([0; 16]), tokens: 0, noted: Millis(0), until: Millis(0) };

/// The table.
pub struct Remembered {
    secret: [u64; 2],
    sets: Box<[[Entry; WAYS]]>,
}

impl Remembered {
    /// An empty table, of 160 KiB. `secret` is random and never leaves the worker.
    pub fn new(secret: [u8; 16]) -> Remembered {
        let (low, high) = halves(&secret);
        Remembered { secret: [low, high], sets: vec![[EMPTY; WAYS]; SETS].into_boxed_slice() }
    }

    /// Remembers that a valid answer refused so many tokens of a bucket, for so long, milliseconds (see [`life_ms`]).
    /// What is known already and says more stays.
    pub fn remember(&mut self, now: Millis, bucket: BucketId, tokens: u32, life_ms: u32) {
        let until = now + u64::from(life_ms);
        if now >= until {
            return;
        }
        let set = &mut self.sets[place(&self.secret, &bucket)];
        let known = set.iter_mut().find(|entry| entry.bucket == bucket && entry.until.0 > 0);
        let new = Entry { bucket, tokens, noted: now, until };
        match known {
            Some(known) if known.until >= until && known.tokens <= tokens => {}
            Some(known) => *known = new,
            None => *oldest(set, now) = new,
        }
    }

    /// How long a question for so many tokens of a bucket is still refused, milliseconds, at least 1; `None`: it has to
    /// be asked. `tokens` is the sum of all occurrences ([`asked`]).
    pub fn left_ms(&self, now: Millis, bucket: BucketId, tokens: u32) -> Option<u64> {
        let set = &self.sets[place(&self.secret, &bucket)];
        let entry = set.iter().find(|entry| entry.bucket == bucket && now < entry.until)?;
        (tokens >= entry.tokens).then(|| entry.until.since(now))
    }
}

/// How long a refusal is remembered, milliseconds: the smallest of the operator's duration, 10 s and the time after which
/// the missing tokens are back. 0: not at all.
pub fn life_ms(duration_ms: u32, refused: &ZoneResult) -> u32 {
    duration_ms.min(LONGEST_MS).min(refused.wait_ms())
}

/// Tokens that a question asks of a bucket, all occurrences together.
pub fn asked(resources: &[Resource], bucket: BucketId) -> u32 {
    let of_bucket = resources.iter().filter(|resource| resource.bucket == bucket);
    of_bucket.map(|resource| u32::from(resource.tokens)).sum()
}

/// The entry that gives way: one whose time is over, else the one noted first.
fn oldest(set: &mut [Entry; WAYS], now: Millis) -> &mut Entry {
    let rank = |entry: &Entry| (entry.until > now, entry.noted);
    let mut chosen = 0;
    for at in 1..WAYS {
        if rank(&set[at]) < rank(&set[chosen]) {
            chosen = at;
        }
    }
    &mut set[chosen]
}

/// Where an id belongs. Ids are hashes of names that a client may choose, so it could find some that fall together, did
/// it know the secret.
fn place(secret: &[u64; 2], bucket: &BucketId) -> usize {
    let (low, high) = halves(&bucket.0);
    let product = u128::from(low ^ secret[0]).wrapping_mul(u128::from(high ^ secret[1]) | 1);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ folded >> 32) as usize % SETS
}

fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*bytes);
    (whole as u64, (whole >> 64) as u64)
}
