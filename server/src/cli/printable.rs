//! Makes text from outside safe to print: tool errors, questions, names, arguments, notes. Control codes and
//! direction controls are escaped (`\u{1b}`), so that a terminal never acts on them. `output` passes
//! everything through here, so no other file has to.

use crate::tools::escape_hidden;

/// Begins each continuation line of a text from outside, so that it cannot pass for a line of Actbook's own.
const CONTINUATION: &str = "\n    │ ";

/// Escapes text for one output line: line breaks inside it came from outside, and continuation lines are
/// marked.
pub fn escape_line(text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    escape_text(text).replace('\t', "    ").replace('\n', CONTINUATION)
}

/// Escapes a text of several lines, such as a document or a note: line breaks and tabs are kept.
pub fn escape_text(text: &str) -> String {
    escape_hidden(text).replace("\r\n", "\n").replace('\r', "\\r")
}

/// Escapes text for a table cell or a part of a line: line breaks and tabs become spaces.
pub fn escape_flat(text: &str) -> String {
    escape_hidden(text).replace(['\n', '\r', '\t'], " ")
}

/// Equivalent JSON for a terminal: control and direction characters that JSON allows raw are escaped too.
pub fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && acts_on_terminal(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether a character is a control code, or changes the direction in which text reads.
fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_codes_are_written_out_and_line_breaks_are_marked() {
        assert_eq!(escape_line("a\u{1b}[2Jb\u{9b}1A\r\u{202e}"), "a\\u{1b}[2Jb\\u{9b}1A\\r\\u{202e}");
        assert_eq!(escape_line("first\r\nNext: approve\n"), "first\n    │ Next: approve");
        assert_eq!(escape_text("a:\n\tb\u{7f}"), "a:\n\tb\\u{7f}");
        assert_eq!(escape_flat("a\nb"), "a b");
    }

    #[test]
    fn escaped_json_for_a_terminal_parses_equal() {
        let value = serde_json::json!({ "text": "\u{9b}31m \u{202e} \u{1b} é" });
        let shown = escape_json(&value.to_string());
        assert!(!shown.chars().any(acts_on_terminal), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
