//! Integers of more than 64 bits in JSON texts, which a parsed value would hold without their last digits.

use std::borrow::Cow;

/// The fewest digits of an integer that may not fit into 64 bits.
const DIGITS_MIN: usize = 19;

/// A JSON text with each integer that does not fit into 64 bits as a string of its digits, so that a value that is
/// parsed from it loses none.
pub fn quote_inexact_in_json(text: &str) -> Cow<'_, str> {
    if !has_long_number(text) {
        return text.into();
    }
    let (mut quoted, mut rest) = (String::with_capacity(text.len() + 2), text);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => number_length(rest),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let is_inexact = first != '"' && is_integer_literal(token) && !fits_64_bits(token);
        quoted.extend(if is_inexact { ["\"", token, "\""] } else { ["", token, ""] });
        rest = after;
    }
    quoted.into()
}

/// The length of the JSON string that the text begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The length of the number that the text begins with.
fn number_length(text: &str) -> usize {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

/// Whether the text has a run of digits that may be an integer of more than 64 bits.
pub(crate) fn has_long_number(text: &str) -> bool {
    text.as_bytes().split(|byte| !byte.is_ascii_digit()).any(|run| run.len() >= DIGITS_MIN)
}

/// Whether the literal is an integer: a sign, then digits and `_` only.
pub(crate) fn is_integer_literal(written: &str) -> bool {
    let digits = written.trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// Whether the literal fits into a signed or unsigned 64-bit integer.
pub(crate) fn fits_64_bits(written: &str) -> bool {
    written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok()
}
