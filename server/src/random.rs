//! Random bytes and ids from the operating system.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
}

/// The id that these bytes stand for, in the form of a random one: for ids that are derived.
pub fn id_of(bytes: &[u8; 32]) -> String {
    bytes[..26].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

/// A random id of 26 lower-case letters and digits (130 bits): a short prefix is usually unique.
pub fn id() -> String {
    bytes::<26>().iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}
