//! A digest that is the same on every machine. It is not cryptographic: an attacker can construct two values with the
//! same digest.

/// 128-bit FNV-1a (Fowler, Noll and Vo; RFC 9923): for every byte, exclusive or, then multiply.
pub struct Fnv(u128);

impl Fnv {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    /// The digest of no bytes.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Fnv {
        Fnv(Fnv::START)
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Fnv::PRIME);
    }

    /// Hashes the eight bytes of a number.
    pub fn word(&mut self, word: u64) {
        word.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
    }

    /// Hashes a number that is usually small: seven bits per byte, the highest bit of all bytes but the last set
    /// (LEB128).
    pub fn number(&mut self, mut number: usize) {
        while number > 0x7f {
            self.byte(0x80 | (number & 0x7f) as u8);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Hashes how many numbers there are, then the numbers.
    pub fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = usize>) {
        self.number(numbers.len());
        numbers.for_each(|number| self.number(number));
    }

    /// Hashes the length of a text, then the text.
    pub fn text(&mut self, text: &str) {
        self.number(text.len());
        text.bytes().for_each(|byte| self.byte(byte));
    }

    /// The digest as 32 hexadecimal digits.
    pub fn digits(&self) -> String {
        format!("{:032x}", self.0)
    }
}
