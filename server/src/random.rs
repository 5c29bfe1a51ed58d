//! Random bytes and ids from the operating system.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
}

/// A random id of 26 lower-case letters and digits (130 bits): a short prefix is usually unique.
pub fn id() -> String {
    bytes::<26>().iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}
