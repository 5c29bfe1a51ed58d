//! The tokenizer of the full-text search of notes: the same for both databases, so that both find the same
//! notes. Tokens are lower case, without accents; scripts that put no spaces between words become
//! overlapping bigrams. Touches no table.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum number of tokens of a note: a `tsvector` has no positions beyond 16,383.
const TOKENS_MAX: usize = 16_000;
/// Maximum occurrences of one token: a `tsvector` keeps no more than 255 positions of a lexeme.
const SAME_TOKEN_MAX: usize = 255;
/// Maximum length of a token in characters; longer ones are cut.
const TOKEN_CHARS_MAX: usize = 64;
/// Maximum number of terms in one search; further ones are ignored.
pub const TERMS_MAX: usize = 16;

/// A token and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// Byte offset of its start.
    pub from: usize,
    /// Byte offset of its end, exclusive.
    pub to: usize,
    kind: TokenKind,
}

/// How a token was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    /// A whole word of a script with spaces.
    Word,
    /// Two neighbouring characters of a script without spaces.
    Bigram,
    /// The last character of a run in a script without spaces, so that a search for it alone finds it.
    LastCharacter,
}

/// Splits a text into tokens, in order; at most `TOKENS_MAX`.
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some(&(from, first)) = characters.peek() {
        if !first.is_alphanumeric() {
            characters.next();
            continue;
        }
        let is_unspaced = is_unspaced_script(first);
        let mut to = from;
        while let Some((at, next)) = characters.next_if(|(_, next)| {
            is_token_character(*next)
                && (is_unspaced_script(*next) == is_unspaced || is_combining_mark(*next))
        }) {
            to = at + next.len_utf8();
        }
        if is_unspaced {
            push_bigrams(&text[from..to], from, &mut tokens);
        } else {
            tokens.extend(normalize(&text[from..to]).map(|word| Token {
                text: word,
                from,
                to,
                kind: TokenKind::Word,
            }));
        }
        if tokens.len() >= TOKENS_MAX {
            break;
        }
    }
    tokens.truncate(TOKENS_MAX);
    tokens
}

/// Whether a character can be part of a token.
fn is_token_character(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Whether a character belongs to a script that puts no spaces between words.
fn is_unspaced_script(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0FFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3005..=0x3007
        | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF)
}

/// Converts a word to lower case without accents. None: nothing is left of it.
fn normalize(word: &str) -> Option<String> {
    let is_accent = |character: &char| matches!(u32::from(*character), 0x0300..=0x036F);
    let bare = word.nfkd().filter(|character| !is_accent(character)).nfc().flat_map(char::to_lowercase);
    let bare: String =
        bare.filter(|character| is_token_character(*character)).take(TOKEN_CHARS_MAX).collect();
    (!bare.is_empty()).then_some(bare)
}

/// Adds the bigrams and the last character of `run`, a run of an unspaced script that starts at byte `from`.
fn push_bigrams(run: &str, from: usize, tokens: &mut Vec<Token>) {
    let characters: Vec<(usize, char)> = run.char_indices().collect();
    for (index, (at, character)) in characters.iter().enumerate() {
        let normalized = |character: char| character.nfkc().collect::<String>();
        let next = characters.get(index + 1);
        let to = next.map_or(at + character.len_utf8(), |(at, character)| at + character.len_utf8());
        let text = normalized(*character) + &next.map(|(_, next)| normalized(*next)).unwrap_or_default();
        let text: String = text.chars().filter(|character| is_token_character(*character)).collect();
        if !text.is_empty() {
            let kind = if next.is_some() { TokenKind::Bigram } else { TokenKind::LastCharacter };
            tokens.push(Token { text, from: from + at, to: from + to, kind });
        }
    }
}

/// Converts a JSON value to plain text for searching and quoting.
pub fn json_to_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        value => {
            let mut text = String::new();
            write_text(value, &mut text);
            text
        }
    }
}

/// Appends the value as `name: value, name: value`, without JSON's quotes, brackets and escapes.
fn write_text(value: &serde_json::Value, text: &mut String) {
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
                write_text(value, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                separate(text);
                write_text(item, text);
            }
        }
        Value::String(string) => text.push_str(string),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// A note's tokens, in order. None stands for one that is not indexed because it occurs too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteTokens {
    key: Vec<Option<String>>,
    value: Vec<Option<String>>,
}

impl NoteTokens {
    /// Tokenizes a note from its stored payload. None: the payload is not JSON.
    pub fn from_payload(key: &str, payload: &[u8]) -> Option<Self> {
        let payload: serde_json::Value = serde_json::from_slice(payload).ok()?;
        Some(Self::from_key_and_value(key, &json_to_text(&payload["value"])))
    }

    /// Tokenizes a note's key and value.
    pub fn from_key_and_value(key: &str, value: &str) -> Self {
        let mut counts = std::collections::HashMap::new();
        let mut tokenize_up_to = |text: &str, max: usize| -> Vec<Option<String>> {
            let mut drop_frequent = |token: Token| {
                let count: &mut usize = counts.entry(token.text.clone()).or_default();
                *count += 1;
                (*count <= SAME_TOKEN_MAX).then_some(token.text)
            };
            tokenize(text).into_iter().take(max).map(&mut drop_frequent).collect()
        };
        let key = tokenize_up_to(key, TOKENS_MAX);
        let value = tokenize_up_to(value, TOKENS_MAX - key.len());
        Self { key, value }
    }

    /// Key and value for the FTS5 table, tokens separated by spaces. A placeholder keeps the position of a
    /// token that is not indexed.
    pub(super) fn fts5_columns(&self) -> (String, String) {
        let joined = |tokens: &[Option<String>]| {
            tokens.iter().map(|token| token.as_deref().unwrap_or("▁")).collect::<Vec<_>>().join(" ")
        };
        (joined(&self.key), joined(&self.value))
    }

    /// The text form of a `tsvector`: tokens with positions; those of the key have weight A. One position
    /// stays free between key and value, so that no phrase spans both.
    pub(super) fn tsvector(&self) -> String {
        let key = self.key.iter().enumerate().map(|(at, token)| (at + 1, token, "A"));
        let value_start = self.key.len() + 2;
        let value = self.value.iter().enumerate().map(|(at, token)| (at + value_start, token, ""));
        let lexemes = key.chain(value).filter_map(|(at, token, weight)| {
            let token = token.as_deref()?;
            Some(format!("'{token}':{at}{weight}"))
        });
        lexemes.collect::<Vec<_>>().join(" ")
    }
}

/// A parsed search query: every term must occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<QueryTerm>,
}

/// One term of a query: a phrase of one or more tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QueryTerm {
    tokens: Vec<String>,
    /// The last token is a prefix.
    is_prefix: bool,
}

impl SearchQuery {
    /// Parses words, prefixes (`begin*`) and quoted phrases. None: the text contains no token.
    pub fn parse(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        for (index, part) in text.split(['"', '“', '”']).enumerate() {
            match index % 2 {
                1 => terms.extend(QueryTerm::parse(part)),
                _ => terms.extend(part.split_whitespace().filter_map(QueryTerm::parse)),
            }
        }
        terms.truncate(TERMS_MAX);
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// Two FTS5 queries: all terms anywhere in the note, and any term in the key.
    pub(super) fn fts5_queries(&self) -> (String, String) {
        let terms: Vec<String> = self.terms.iter().map(QueryTerm::to_fts5).collect();
        (terms.join(" AND "), format!("{{key}} : ({})", terms.join(" OR ")))
    }

    /// Two `tsquery` texts: all terms anywhere in the note, and any term in the key.
    pub(super) fn tsqueries(&self) -> (String, String) {
        let all: Vec<String> = self.terms.iter().map(|term| term.to_tsquery("")).collect();
        let in_key: Vec<String> = self.terms.iter().map(|term| term.to_tsquery("A")).collect();
        (all.join(" & "), in_key.join(" | "))
    }

    /// Whether a token of a text matches a token of the query.
    pub fn matches_token(&self, token: &Token) -> bool {
        self.terms.iter().any(|term| {
            let last = term.tokens.len() - 1;
            term.tokens.iter().enumerate().any(|(at, wanted)| {
                if term.is_prefix && at == last {
                    token.text.starts_with(wanted.as_str())
                } else {
                    token.text == *wanted
                }
            })
        })
    }
}

impl QueryTerm {
    /// Parses one word, prefix or phrase. None: it contains no token.
    fn parse(text: &str) -> Option<Self> {
        let mut tokens = tokenize(text);
        let last = tokens.pop()?;
        let mut begins = text.trim_end().ends_with('*') && last.kind == TokenKind::Word;
        // In a text the run may continue after the searched part, where its last character is then not a
        // token. So that character alone is searched for, as a prefix, only if it is the whole run.
        let is_whole = tokens.last().is_none_or(|before| before.kind != TokenKind::Bigram);
        if last.kind != TokenKind::LastCharacter || is_whole {
            begins |= last.kind == TokenKind::LastCharacter;
            tokens.push(last);
        }
        Some(Self { tokens: tokens.into_iter().map(|word| word.text).collect(), is_prefix: begins })
    }

    /// The term as an FTS5 phrase.
    fn to_fts5(&self) -> String {
        let star = if self.is_prefix { " *" } else { "" };
        format!("\"{}\"{star}", self.tokens.join(" "))
    }

    /// The term as a `tsquery` phrase, restricted to `weight` unless that is empty.
    fn to_tsquery(&self, weight: &str) -> String {
        let last = self.tokens.len() - 1;
        let word = |(at, word): (usize, &String)| {
            let star = if self.is_prefix && at == last { "*" } else { "" };
            let colon = if star.is_empty() && weight.is_empty() { "" } else { ":" };
            format!("'{word}'{colon}{star}{weight}")
        };
        let words: Vec<String> = self.tokens.iter().enumerate().map(word).collect();
        format!("({})", words.join(" <-> "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        tokenize(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_lower_case_without_accents_and_signs() {
        assert_eq!(split("Café_au-lait, 3.14 ÉTÉ ﬁne"), ["cafe", "au", "lait", "3", "14", "ete", "fine"]);
        assert_eq!(split("हिन्दी"), ["हिन्दी"], "its vowel signs belong to the word");
        assert_eq!(split("… --"), Vec::<String>::new());
    }

    #[test]
    fn scripts_without_spaces_become_bigrams() {
        assert_eq!(split("東京都v2"), ["東京", "京都", "都", "v2"]);
        let sought = |text: &str| SearchQuery::parse(text).unwrap().fts5_queries().0;
        assert_eq!(sought("京都"), "\"京都\"");
        assert_eq!(sought("東京都"), "\"東京 京都\"");
        assert_eq!(sought("都"), "\"都\" *");
    }

    #[test]
    fn search_parses_words_prefixes_and_phrases() {
        let sought = SearchQuery::parse("Post* \"read replica\" db-7").unwrap();
        assert_eq!(sought.fts5_queries().0, "\"post\" * AND \"read replica\" AND \"db 7\"");
        assert_eq!(sought.tsqueries().0, "('post':*) & ('read' <-> 'replica') & ('db' <-> '7')");
        assert_eq!(sought.tsqueries().1, "('post':*A) | ('read':A <-> 'replica':A) | ('db':A <-> '7':A)");
        assert_eq!(SearchQuery::parse(" \"!\" … "), None);
    }
}
