//! Turns JSON with comments and trailing commas into plain JSON. It knows where strings begin and end, and
//! nothing else of the syntax.

/// The text without comments, commas before a closing bracket, and a byte order mark.
pub fn to_plain_json(text: &str) -> String {
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

/// The length in bytes of the string literal at the start of `text`, with its quotes.
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
