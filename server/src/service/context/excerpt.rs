//! Excerpts of search results: the text around the first match, with matches marked. Works on plain text.

use crate::store::tokenizer::{SearchQuery, Token, tokenize};

/// Characters shown before the first match.
const CHARS_BEFORE_MAX: usize = 60;
/// Characters shown in all.
const CHARS_MAX: usize = 240;
/// Stands before and after each match.
const MARK: &str = "**";

/// The text around the first match on one line, with every match in it marked; the beginning of the text if
/// nothing matches.
pub fn make_excerpt(text: &str, query: &SearchQuery) -> String {
    let found: Vec<Token> = tokenize(text).into_iter().filter(|word| query.matches_token(word)).collect();
    let from = found.first().map_or(0, |word| excerpt_start(text, word.from));
    let to = text[from..].char_indices().nth(CHARS_MAX).map_or(text.len(), |(at, _)| from + at);
    let mut shown = String::from(if from > 0 { "…" } else { "" });
    let mut at = from;
    for (start, end) in merge_spans(&found).into_iter().filter(|(start, end)| *start >= from && *end <= to) {
        shown.push_str(&text[at..start]);
        shown.extend([MARK, &text[start..end], MARK]);
        at = end;
    }
    shown.push_str(&text[at..to]);
    shown.push_str(if to < text.len() { "…" } else { "" });
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Byte offset at which an excerpt with a match at byte `at` begins: `CHARS_BEFORE_MAX` characters earlier,
/// moved on to the next whitespace so that no word is cut.
fn excerpt_start(text: &str, at: usize) -> usize {
    let start = text[..at].char_indices().rev().nth(CHARS_BEFORE_MAX).map_or(0, |(start, _)| start);
    match start {
        0 => 0,
        start => text[start..at].find(char::is_whitespace).map_or(start, |space| start + space),
    }
}

/// Byte ranges of the matches; those that touch or overlap are merged.
fn merge_spans(found: &[Token]) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for word in found {
        match spans.last_mut() {
            Some((_, end)) if word.from <= *end => *end = word.to.max(*end),
            Some(_) | None => spans.push((word.from, word.to)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, words: &str) -> String {
        make_excerpt(text, &SearchQuery::parse(words).unwrap())
    }

    #[test]
    fn excerpt_marks_matches_within_their_context() {
        assert_eq!(excerpt("The Port is 5432.", "port"), "The **Port** is 5432.");
        assert_eq!(excerpt("東京都に行く", "京都"), "東**京都**に行く");
        let long = format!("{} needle {}", "hay ".repeat(100), "straw ".repeat(100));
        let shown = excerpt(&long, "need*");
        assert!(
            shown.starts_with("… hay") && shown.contains("**needle**") && shown.ends_with('…'),
            "{shown}"
        );
        assert!(shown.chars().count() < CHARS_MAX + 10);
        assert_eq!(excerpt("nothing of it", "other"), "nothing of it");
    }
}
