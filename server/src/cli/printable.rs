//! Makes text from outside safe to print: tool errors, questions, names, arguments, notes. Control codes and
//! direction controls are written out (`\u{1b}`), so a terminal never acts on them. `output` passes everything
//! through here; no other file has to remember it.

use actbook::service::visible;

/// Begins each further line of a text that stands inside a line of ours: such a line cannot pass for our own.
const CONTINUES: &str = "\n    │ ";

/// For one line of ours: line breaks inside it came from outside, and what follows them is indented and marked.
pub fn in_line(text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    paragraphs(text).replace('\t', "    ").replace('\n', CONTINUES)
}

/// For a text that stands alone, such as a document or a note: line breaks and tabs are kept.
pub fn paragraphs(text: &str) -> String {
    visible(text).replace("\r\n", "\n").replace('\r', "\\r")
}

/// For a cell of a table or a part of a line: no line breaks at all.
pub fn flat(text: &str) -> String {
    visible(text).replace(['\n', '\r', '\t'], " ")
}

/// JSON that means the same, for a terminal: what JSON itself would let through is escaped as well.
pub fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign != '\n' && acts_on_terminal(sign) {
            let mut units = [0; 2];
            sign.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(sign);
        }
    }
    escaped
}

/// Control codes, and characters that change the direction in which text reads.
fn acts_on_terminal(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_codes_are_written_out_and_line_breaks_are_marked() {
        assert_eq!(in_line("a\u{1b}[2Jb\u{9b}1A\r\u{202e}"), "a\\u{1b}[2Jb\\u{9b}1A\\r\\u{202e}");
        assert_eq!(in_line("first\r\nNext: approve\n"), "first\n    │ Next: approve");
        assert_eq!(paragraphs("a:\n\tb\u{7f}"), "a:\n\tb\\u{7f}");
        assert_eq!(flat("a\nb"), "a b");
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let value = serde_json::json!({ "text": "\u{9b}31m \u{202e} \u{1b} é" });
        let shown = json(&value.to_string());
        assert!(!shown.chars().any(acts_on_terminal), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
