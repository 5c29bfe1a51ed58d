//! Rust text with comments and the insides of strings blanked out, so that a rule about code is not
//! fooled by a sentence. Lines stay where they are. It knows as much of Rust's lexer as that needs.

/// The same text, line for line, with nothing left but code.
pub fn of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skip(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment, string or character that begins here ends; `at` itself if none does.
fn skip(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => line_end(chars, at),
        '/' if next == Some('*') => comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        '\'' => char_end(chars, at),
        'r' if !follows_word(chars, at) => raw_end(chars, at).unwrap_or(at),
        'b' | 'c' if !follows_word(chars, at) && next == Some('r') => raw_end(chars, at + 1).unwrap_or(at),
        _ => at,
    }
}

fn follows_word(chars: &[char], at: usize) -> bool {
    at > 0 && is_word(chars[at - 1])
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |length| at + length)
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0_usize);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    chars.len()
}

/// A quote begins a character only if another one closes it; otherwise it begins a lifetime.
fn char_end(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        let from = at + 3;
        let close = chars.get(from..).and_then(|rest| rest.iter().position(|&c| c == '\''));
        return close.map_or(chars.len(), |length| from + length + 1);
    }
    if chars.get(at + 2) == Some(&'\'') { at + 3 } else { at }
}

fn raw_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |from: usize| chars[from] == '"' && chars[from + 1..].iter().take(hashes).all(|&c| c == '#');
    let close = (open + 1..chars.len().saturating_sub(hashes)).find(|&from| closes(from));
    Some(close.map_or(chars.len(), |close| close + 1 + hashes))
}

/// Whether `word` stands in `code` as a whole word; `word` may hold punctuation inside.
pub fn has_word(code: &str, word: &str) -> bool {
    word_at(code, word).is_some()
}

/// The byte at which `word` first stands as a whole word.
pub fn word_at(code: &str, word: &str) -> Option<usize> {
    let alone = |start: usize| {
        let before = code[..start].chars().next_back();
        let after = code[start + word.len()..].chars().next();
        let whole = word.ends_with(is_word);
        !(before.is_some_and(is_word) || whole && after.is_some_and(is_word))
    };
    code.match_indices(word).map(|(start, _)| start).find(|&start| alone(start))
}

/// The first names under `root::`, from plain paths and from groups: `std::{fs, net::X}` gives both.
pub fn names_under(code: &str, root: &str) -> Vec<String> {
    let path = format!("{root}::");
    let mut names = vec![];
    for (start, _) in code.match_indices(&path) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| is_word(c) || c == ':') {
            continue;
        }
        let rest = &code[start + path.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(heads(group)),
            None => names.push(first_name(rest)),
        }
    }
    names
}

/// The name that the text begins with, after blanks.
pub fn first_name(text: &str) -> String {
    text.trim_start().chars().take_while(|&c| is_word(c)).collect()
}

/// The first name of each member of a group whose opening brace has been read.
fn heads(group: &str) -> Vec<String> {
    let mut names = vec![first_name(group)];
    let mut depth = 0_usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(first_name(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn comments_strings_and_characters_are_blanked_and_lifetimes_are_not() {
    let text = "a /* { /* } */ { */ b // {\nc \"\\\"{\" d r#\"{\"# e '{' f '\\'' g 'h i b\"{\" j br\"{\" k";
    let code = of(text);
    assert!(!code.contains(['{', '}', '#']), "{code}");
    for name in ["a", "b", "c", "d", "e", "f", "g", "'h", "i", "j", "k"] {
        assert!(code.contains(name), "{name} is gone: {code}");
    }
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn names_come_from_paths_and_from_groups() {
    let found = names_under("use crate::{a, b::{c, d}, e}; crate::f::g(); xcrate::h; x::crate::i", "crate");
    assert_eq!(found, ["a", "b", "e", "f"]);
}
