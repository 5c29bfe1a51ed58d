//! The text of a token: `abk_` (programs) or `abp_` (people), 30 random base62 characters, and the CRC-32 of all that
//! in 6 more. The checksum refuses mistyped and invented tokens without a look-up, and lets scanners of leaked
//! secrets recognise a token.

use crate::caller::CredentialKind;
use crate::random;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_CHARS: usize = 30;
const CHECKSUM_CHARS: usize = 6;
/// Characters of a token that lists show, the prefix included.
const SHOWN_CHARS: usize = 10;

/// The characters before the random ones.
fn kind_prefix(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::ProgramToken => "abk_",
        CredentialKind::PersonToken => "abp_",
        CredentialKind::Session => "abs_",
    }
}

/// A new random token of this kind.
pub fn new_token(kind: CredentialKind) -> String {
    let body = format!("{}{}", kind_prefix(kind), random_base62(RANDOM_CHARS));
    let checksum = checksum_text(&body);
    body + &checksum
}

/// The part of a token that may be shown.
pub fn shown_prefix(token: &str) -> &str {
    token.get(..SHOWN_CHARS).unwrap_or(token)
}

/// Whether the text has the form and the checksum of a token of this kind.
pub fn is_well_formed(text: &str, kind: CredentialKind) -> bool {
    let prefix = kind_prefix(kind);
    let body = prefix.len() + RANDOM_CHARS;
    text.is_ascii()
        && text.len() == body + CHECKSUM_CHARS
        && text.starts_with(prefix)
        && checksum_text(&text[..body]) == text[body..]
}

/// Random characters of the alphabet, each equally likely.
fn random_base62(count: usize) -> String {
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let [byte] = random::bytes::<1>();
        // 248 is the largest multiple of 62 that a byte can exceed.
        if byte < 248 {
            text.push(char::from(BASE62[usize::from(byte % 62)]));
        }
    }
    text
}

/// The CRC-32 of a text in base62, most significant digit first.
fn checksum_text(body: &str) -> String {
    let mut rest = crc32(body.as_bytes());
    let mut digits = [b'0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

/// CRC-32 as in gzip, bit by bit: a token has 34 bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_matches_its_published_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn changed_character_breaks_the_checksum() {
        let token = new_token(CredentialKind::ProgramToken);
        assert_eq!(token.len(), 40, "{token}");
        assert!(is_well_formed(&token, CredentialKind::ProgramToken));
        assert!(!is_well_formed(&token, CredentialKind::PersonToken));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(!is_well_formed(&changed, CredentialKind::ProgramToken), "{changed}");
        }
    }
}
