//! Where randomness comes from. Ids are lower-case letters and digits, 128 bits or more, so that a
//! short beginning of one usually names it.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
}

pub fn id() -> String {
    bytes::<26>().iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}
