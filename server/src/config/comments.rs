//! JSON as people write it by hand, with comments and trailing commas, turned into plain JSON. Knows
//! where a string begins and ends, and nothing else of the text.

/// The same text with every comment blanked out and every comma before a closing bracket dropped.
pub fn plain(text: &str) -> String {
    without_trailing_commas(&without_comments(text.trim_start_matches('\u{feff}')))
}

fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (kept, skipped) = match next {
            '"' => (string_length(rest), 0),
            '/' if rest.starts_with("//") => (0, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (0, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            other => (other.len_utf8(), 0),
        };
        plain.push_str(&rest[..kept]);
        rest = &rest[kept + skipped..];
    }
    plain
}

fn without_trailing_commas(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if next == '"' { string_length(rest) } else { next.len_utf8() };
        let closes = || rest[1..].trim_start().starts_with(['}', ']']);
        if !(next == ',' && closes()) {
            plain.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    plain
}

/// Of the string that begins here, its quotes counted.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
