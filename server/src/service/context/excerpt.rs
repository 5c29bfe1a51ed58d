//! A few words around what was found, with the found words marked. Pure text; knows no note.

use crate::store::words::{Sought, Word, words};

/// Characters shown before the first find, and in all.
const BEFORE: usize = 60;
const CHARS_MAX: usize = 240;
const MARK: &str = "**";

/// The text around the first find; its beginning where nothing was found in it.
pub fn of(text: &str, sought: &Sought) -> String {
    let found: Vec<Word> = words(text).into_iter().filter(|word| sought.seeks(word)).collect();
    let from = found.first().map_or(0, |word| back(text, word.from));
    let to = text[from..].char_indices().nth(CHARS_MAX).map_or(text.len(), |(at, _)| from + at);
    let mut shown = String::from(if from > 0 { "…" } else { "" });
    let mut at = from;
    for (start, end) in joined(&found).into_iter().filter(|(start, end)| *start >= from && *end <= to) {
        shown.push_str(&text[at..start]);
        shown.extend([MARK, &text[start..end], MARK]);
        at = end;
    }
    shown.push_str(&text[at..to]);
    shown.push_str(if to < text.len() { "…" } else { "" });
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// So far before a place that its surroundings are seen, at the beginning of a word where there is one.
fn back(text: &str, at: usize) -> usize {
    let start = text[..at].char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    match start {
        0 => 0,
        start => text[start..at].find(char::is_whitespace).map_or(start, |space| start + space),
    }
}

/// Finds that touch or overlap are one.
fn joined(found: &[Word]) -> Vec<(usize, usize)> {
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
        of(text, &Sought::read(words).unwrap())
    }

    #[test]
    fn finds_are_marked_in_their_surroundings() {
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
