//! The words by which notes are found: one way of taking text apart, whatever the database, so that both
//! find the same. Words are lower case, without accents; scripts that put no spaces between words
//! become overlapping pairs of signs. Knows no table.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// PostgreSQL keeps no positions beyond 16,383 and no more than 255 of one word; where they would
/// be lost there, they are left out here.
const WORDS_MAX: usize = 16_000;
const SAME_WORD_MAX: usize = 255;
/// Two words with the same beginning of this length count as one.
const WORD_CHARS_MAX: usize = 64;
/// How many words one search may name.
pub const TERMS_MAX: usize = 16;

/// A word and where it stands in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub from: usize,
    pub to: usize,
    run: Run,
}

/// Which part of a run of signs without spaces it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// A word between spaces.
    None,
    Pair,
    /// The last sign alone, so that it is found by itself too.
    Last,
}

/// The words of a text, in order.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut signs = text.char_indices().peekable();
    while let Some(&(from, sign)) = signs.peek() {
        if !sign.is_alphanumeric() {
            signs.next();
            continue;
        }
        let runs = runs_on(sign);
        let mut to = from;
        while let Some((at, next)) = signs.next_if(|(_, next)| {
            belongs_to_a_word(*next) && (runs_on(*next) == runs || is_combining_mark(*next))
        }) {
            to = at + next.len_utf8();
        }
        match runs {
            true => pairs(&text[from..to], from, &mut found),
            false => {
                found.extend(plain(&text[from..to]).map(|word| Word { text: word, from, to, run: Run::None }))
            }
        }
        if found.len() >= WORDS_MAX {
            break;
        }
    }
    found.truncate(WORDS_MAX);
    found
}

fn belongs_to_a_word(sign: char) -> bool {
    sign.is_alphanumeric() || is_combining_mark(sign)
}

/// Scripts that put no spaces between words.
fn runs_on(sign: char) -> bool {
    matches!(u32::from(sign),
        0x0E00..=0x0FFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3005..=0x3007
        | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF)
}

/// Lower case and without accents; nothing where nothing is left.
fn plain(word: &str) -> Option<String> {
    let accent = |sign: &char| matches!(u32::from(*sign), 0x0300..=0x036F);
    let bare = word.nfkd().filter(|sign| !accent(sign)).nfc().flat_map(char::to_lowercase);
    let bare: String = bare.filter(|sign| belongs_to_a_word(*sign)).take(WORD_CHARS_MAX).collect();
    (!bare.is_empty()).then_some(bare)
}

fn pairs(run: &str, from: usize, found: &mut Vec<Word>) {
    let signs: Vec<(usize, char)> = run.char_indices().collect();
    for (index, (at, sign)) in signs.iter().enumerate() {
        let one = |sign: char| sign.nfkc().collect::<String>();
        let next = signs.get(index + 1);
        let to = next.map_or(at + sign.len_utf8(), |(at, sign)| at + sign.len_utf8());
        let text = one(*sign) + &next.map(|(_, sign)| one(*sign)).unwrap_or_default();
        let text: String = text.chars().filter(|sign| belongs_to_a_word(*sign)).collect();
        if !text.is_empty() {
            let run = if next.is_some() { Run::Pair } else { Run::Last };
            found.push(Word { text, from: from + at, to: from + to, run });
        }
    }
}

/// A value as a text to search and to quote from.
pub fn readable(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        value => {
            let mut text = String::new();
            tell(value, &mut text);
            text
        }
    }
}

/// `name: value, name: value`, without the signs that JSON puts around and into texts.
fn tell(value: &serde_json::Value, text: &mut String) {
    use serde_json::Value;
    let separate = |text: &mut String| {
        if !text.is_empty() && !text.ends_with(": ") {
            text.push_str(", ");
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                separate(text);
                text.push_str(name);
                text.push_str(": ");
                tell(value, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                separate(text);
                tell(item, text);
            }
        }
        Value::String(words) => text.push_str(words),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// A note's words as each database wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    key: Vec<Option<String>>,
    value: Vec<Option<String>>,
}

impl Words {
    /// Of a note's payload, as it is kept.
    pub fn of_note(key: &str, payload: &[u8]) -> Option<Self> {
        let payload: serde_json::Value = serde_json::from_slice(payload).ok()?;
        Some(Self::of(key, &readable(&payload["value"])))
    }

    pub fn of(key: &str, value: &str) -> Self {
        let mut counts = std::collections::HashMap::new();
        let mut kept = |text: &str, max: usize| -> Vec<Option<String>> {
            let mut keep = |word: Word| {
                let count: &mut usize = counts.entry(word.text.clone()).or_default();
                *count += 1;
                (*count <= SAME_WORD_MAX).then_some(word.text)
            };
            words(text).into_iter().take(max).map(&mut keep).collect()
        };
        let key = kept(key, WORDS_MAX);
        let value = kept(value, WORDS_MAX - key.len());
        Self { key, value }
    }

    /// With a space between them. What is left out keeps its place.
    pub(super) fn plain(&self) -> (String, String) {
        let joined = |words: &[Option<String>]| {
            words.iter().map(|word| word.as_deref().unwrap_or("▁")).collect::<Vec<_>>().join(" ")
        };
        (joined(&self.key), joined(&self.value))
    }

    /// As a `tsvector` is written: with places, those of the key weighing more. One place stays free between
    /// the two, so that no phrase reaches from the one into the other.
    pub(super) fn vector(&self) -> String {
        let key = self.key.iter().enumerate().map(|(at, word)| (at + 1, word, "A"));
        let after = self.key.len() + 2;
        let value = self.value.iter().enumerate().map(|(at, word)| (at + after, word, ""));
        let placed = key.chain(value).filter_map(|(at, word, weight)| {
            let word = word.as_deref()?;
            Some(format!("'{word}':{at}{weight}"))
        });
        placed.collect::<Vec<_>>().join(" ")
    }
}

/// What a search asks for: every term must occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    terms: Vec<Term>,
}

/// Words that follow each other; of the last one perhaps only the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    words: Vec<String>,
    begins: bool,
}

impl Sought {
    /// Reads `word`, `begin*` and `"words in a row"`. None: there is no word in it.
    pub fn read(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        for (index, part) in text.split(['"', '“', '”']).enumerate() {
            match index % 2 {
                1 => terms.extend(Term::read(part)),
                _ => terms.extend(part.split_whitespace().filter_map(Term::read)),
            }
        }
        terms.truncate(TERMS_MAX);
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// For FTS5: every term anywhere, and any term in the key.
    pub(super) fn matches(&self) -> (String, String) {
        let terms: Vec<String> = self.terms.iter().map(Term::quoted).collect();
        (terms.join(" AND "), format!("{{key}} : ({})", terms.join(" OR ")))
    }

    /// The same for a `tsvector`.
    pub(super) fn queries(&self) -> (String, String) {
        let all: Vec<String> = self.terms.iter().map(|term| term.followed("")).collect();
        let in_key: Vec<String> = self.terms.iter().map(|term| term.followed("A")).collect();
        (all.join(" & "), in_key.join(" | "))
    }

    /// Whether a word of a text is one of those that are sought.
    pub fn seeks(&self, word: &Word) -> bool {
        self.terms.iter().any(|term| {
            let last = term.words.len() - 1;
            term.words.iter().enumerate().any(|(at, sought)| match term.begins && at == last {
                true => word.text.starts_with(sought.as_str()),
                false => word.text == *sought,
            })
        })
    }
}

impl Term {
    fn read(text: &str) -> Option<Self> {
        let mut found = words(text);
        let last = found.pop()?;
        let mut begins = text.trim_end().ends_with('*') && last.run == Run::None;
        // A run goes on behind its end in other texts: its last sign alone is sought only where it is all.
        let is_whole = found.last().is_none_or(|before| before.run != Run::Pair);
        if last.run != Run::Last || is_whole {
            begins |= last.run == Run::Last;
            found.push(last);
        }
        Some(Self { words: found.into_iter().map(|word| word.text).collect(), begins })
    }

    fn quoted(&self) -> String {
        let star = if self.begins { " *" } else { "" };
        format!("\"{}\"{star}", self.words.join(" "))
    }

    fn followed(&self, weight: &str) -> String {
        let last = self.words.len() - 1;
        let word = |(at, word): (usize, &String)| {
            let star = if self.begins && at == last { "*" } else { "" };
            let colon = if star.is_empty() && weight.is_empty() { "" } else { ":" };
            format!("'{word}'{colon}{star}{weight}")
        };
        let words: Vec<String> = self.words.iter().enumerate().map(word).collect();
        format!("({})", words.join(" <-> "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_lower_case_without_accents_and_signs() {
        assert_eq!(split("Café_au-lait, 3.14 ÉTÉ ﬁne"), ["cafe", "au", "lait", "3", "14", "ete", "fine"]);
        assert_eq!(split("हिन्दी"), ["हिन्दी"], "its vowel signs belong to the word");
        assert_eq!(split("… --"), Vec::<String>::new());
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(split("東京都v2"), ["東京", "京都", "都", "v2"]);
        let sought = |text: &str| Sought::read(text).unwrap().matches().0;
        assert_eq!(sought("京都"), "\"京都\"");
        assert_eq!(sought("東京都"), "\"東京 京都\"");
        assert_eq!(sought("都"), "\"都\" *");
    }

    #[test]
    fn a_search_reads_words_beginnings_and_phrases() {
        let sought = Sought::read("Post* \"read replica\" db-7").unwrap();
        assert_eq!(sought.matches().0, "\"post\" * AND \"read replica\" AND \"db 7\"");
        assert_eq!(sought.queries().0, "('post':*) & ('read' <-> 'replica') & ('db' <-> '7')");
        assert_eq!(sought.queries().1, "('post':*A) | ('read':A <-> 'replica':A) | ('db':A <-> '7':A)");
        assert_eq!(Sought::read(" \"!\" … "), None);
    }
}
