//! The digest by which ranks compare what their arrays hold.

/// The 128 bits of XXH3 (Collet), which reads as fast as memory delivers and is the same on every machine. It is not
/// cryptographic: it finds accidents, while an attacker can construct two arrays with the same digest.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::digest;

    /// The values of the reference implementation (xxHash 0.8, `xxhsum -H128`).
    #[test]
    fn it_is_xxh3() {
        let text = |bytes: &[u8]| format!("{:032x}", u128::from_le_bytes(digest(bytes)));
        assert_eq!(text(b""), "99aa06d3014798d86001c324468d497f");
        let long: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
        assert_eq!(text(&long), "e12cd72144990fe57135ffa504f1bc71");
    }

    #[test]
    fn every_bit_counts() {
        let mut bytes = vec![0; 1000];
        let before = digest(&bytes);
        for bit in 0..8000 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(digest(&bytes), before, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
