//! Finds `_ =>` in a match on one of our own enums, where the compiler could not list what a new variant
//! breaks. A match counts as one on our own enum if the pattern of another arm names the enum.

use std::collections::BTreeSet;

use super::code::{is_word, word_at};
use super::tree::Source;

/// The wildcard arms of matches on `enums`.
pub fn wildcards(source: &Source, enums: &BTreeSet<String>) -> Vec<String> {
    if !source.is_product() {
        return vec![];
    }
    let code = &source.code;
    let mut found = vec![];
    for (start, word) in code.match_indices("match ") {
        let is_keyword = !code[..start].ends_with(is_word);
        let Some(open) = block_start(code, start + word.len()).filter(|_| is_keyword) else { continue };
        let arms = arms(code, open + 1);
        let names_own = arms.iter().any(|(_, pattern)| names_one_of(pattern, enums));
        let wildcard = arms.iter().find(|(_, pattern)| is_wildcard(pattern));
        if let Some((at, _)) = wildcard.filter(|_| names_own) {
            let line = code[..*at].lines().count();
            found.push(format!("{}:{line}: `_ =>` in a match on our own enum", source.path));
        }
    }
    found
}

/// Where the block after the matched expression begins.
fn block_start(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(from + at),
            _ => {}
        }
    }
    None
}

/// The patterns of a match whose block begins at `from`, guards included, with the position of their arrow.
fn arms(code: &str, from: usize) -> Vec<(usize, &str)> {
    let (mut arms, mut start, mut at) = (vec![], from, from);
    while let Some(arrow) = find_outside(code, at, |rest| rest.starts_with("=>")) {
        arms.push((arrow, code[start..arrow].trim()));
        let body = arrow + 2;
        let begins = body + code[body..].find(|c: char| !c.is_whitespace()).unwrap_or(0);
        let is_block = code[begins..].starts_with('{');
        let end = if is_block {
            find_outside(code, begins + 1, |rest| rest.starts_with('}')).map(|close| close + 1)
        } else {
            find_outside(code, body, |rest| rest.starts_with(','))
        };
        let Some(end) = end else { break };
        let comma = code[end..].starts_with(',');
        (start, at) = (end + usize::from(comma), end + usize::from(comma));
    }
    arms
}

/// The first position outside of brackets, from `from` on, that `is_found`; none before the block ends.
fn find_outside(code: &str, from: usize, is_found: impl Fn(&str) -> bool) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in code[from..].char_indices() {
        if depth == 0 && is_found(&code[from + at..]) {
            return Some(from + at);
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return None,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn names_one_of(pattern: &str, enums: &BTreeSet<String>) -> bool {
    let pattern = &pattern[..word_at(pattern, "if").unwrap_or(pattern.len())];
    let heads = pattern.split("::").map(|part| part.rsplit(|c| !is_word(c)).next().unwrap_or(part));
    // The last part is a variant, not an enum.
    let count = pattern.matches("::").count();
    heads.take(count).any(|head| head == "Self" || enums.contains(head))
}

/// Whether the pattern takes everything: `_`, or `(_, _)`.
fn is_wildcard(pattern: &str) -> bool {
    pattern.contains('_') && pattern.chars().all(|c| c.is_whitespace() || "_(),&|".contains(c))
}
