//! FNV-1a, for the names of areas and for the checksum of an entry. nginx hands an area on to the next configuration if name
//! and size are the same, so another layout needs another name. The input comes from the operator's configuration and from
//! this module, so no attacker chooses it.

/// FNV-1a with 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

/// Of no bytes.
impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in some bytes and their number, so that the texts `ab`, `c` differ from `a`, `bc`.
    pub fn text(self, bytes: &[u8]) -> Digest {
        bytes.iter().fold(self.number(bytes.len() as u64), |digest, byte| digest.byte(*byte))
    }

    /// Takes in a number.
    pub fn number(self, number: u64) -> Digest {
        number.to_le_bytes().iter().fold(self, |digest, byte| digest.byte(*byte))
    }

    fn byte(self, byte: u8) -> Digest {
        Digest((self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// The digest.
    pub fn get(self) -> u64 {
        self.0
    }
}
