//! A digest for the name of an area: nginx hands an area on to the next configuration where name and size are the same, so
//! the name must differ wherever the layout does. FNV-1a: nobody chooses the input to deceive, and a collision would need the
//! same size too.

/// FNV-1a with 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Of nothing.
    #[allow(clippy::new_without_default, reason = "nobody wants one by default")]
    pub fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// Takes in some bytes and their number, so that two texts in a row differ from another division of the same bytes.
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
