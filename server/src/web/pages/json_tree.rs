//! A JSON value as a tree that folds. Long strings and large values are cut; the page says where the rest is.

use actbook_engine::bind::redacted_name;
use serde_json::{Map, Value};

use super::markup::{Markup, escape};

/// Most rows of a tree that shows a part of a value.
const ROWS_MAX: usize = 300;
/// Most characters of a string in a tree that shows a part of a value.
const STRING_CHARS_MAX: usize = 2_000;
/// Objects and lists deeper than this are folded at first.
const OPEN_DEPTH: usize = 2;
/// Lists and objects with more entries are folded at first, unless they are the whole value.
const OPEN_ENTRIES_MAX: usize = 12;

/// How much of a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeExtent {
    /// Everything: what a person agrees to must not be hidden.
    Whole,
    /// As much as reads well.
    Part,
}

/// A rendered tree.
#[derive(Clone, Debug)]
pub struct JsonTree {
    pub html: Markup,
    /// Not everything is shown.
    pub is_cut: bool,
}

/// The tree of a value. With `path`, the expression that names the value in a plan, each row offers its own.
pub fn json_tree(value: &Value, path: Option<&str>, extent: TreeExtent) -> JsonTree {
    let mut writer = TreeWriter { html: String::new(), rows: 0, is_cut: false, extent };
    writer.value("", value, path, 0, "");
    JsonTree { html: Markup::from_rendered(writer.html), is_cut: writer.is_cut }
}

struct TreeWriter {
    html: String,
    rows: usize,
    is_cut: bool,
    extent: TreeExtent,
}

impl TreeWriter {
    /// Writes a value; `key` is its finished label, `comma` what follows it.
    fn value(&mut self, key: &str, value: &Value, path: Option<&str>, depth: usize, comma: &str) {
        if let Some(name) = redacted_name(value) {
            let name = escape(&Value::from(name).to_string());
            let shown = format!("<span class=\"sec\">redacted</span> <span class=\"z\">{name}</span>");
            return self.row(key, &shown, path, comma);
        }
        match value {
            Value::Object(fields) if !fields.is_empty() => self.object(key, fields, path, depth, comma),
            Value::Array(items) if !items.is_empty() => self.list(key, items, path, depth, comma),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)
            | Value::Array(_) => {
                let shown = self.scalar(value);
                self.row(key, &shown, path, comma);
            }
        }
    }

    fn scalar(&mut self, value: &Value) -> String {
        match value {
            Value::Null => "<span class=\"z\">null</span>".to_owned(),
            Value::Bool(flag) => format!("<span class=\"b\">{flag}</span>"),
            Value::Number(number) => format!("<span class=\"d\">{number}</span>"),
            Value::String(text) => self.string(text),
            Value::Object(_) => "{}".to_owned(),
            Value::Array(_) => "[]".to_owned(),
        }
    }

    fn string(&mut self, text: &str) -> String {
        let end = text.char_indices().nth(STRING_CHARS_MAX).map(|(end, _)| end);
        let end = end.filter(|_| self.extent == TreeExtent::Part);
        let shown = end.map_or(text, |end| &text[..end]);
        let quoted = escape(&Value::String(shown.to_owned()).to_string());
        match end {
            None => format!("<span class=\"s\">{quoted}</span>"),
            Some(end) => {
                self.is_cut = true;
                let more = text[end..].chars().count();
                format!(
                    "<span class=\"s\">{quoted}</span> <span class=\"z\">and {more} characters more</span>"
                )
            }
        }
    }

    fn row(&mut self, key: &str, shown: &str, path: Option<&str>, comma: &str) {
        self.rows += 1;
        let button = path.map(path_button).unwrap_or_default();
        self.html.push_str(&format!("<div class=\"row\">{button}{key}{shown}{comma}</div>"));
    }

    fn object(
        &mut self,
        key: &str,
        fields: &Map<String, Value>,
        path: Option<&str>,
        depth: usize,
        comma: &str,
    ) {
        let noun = if fields.len() == 1 { "key" } else { "keys" };
        self.open(key, '{', &format!("{} {noun} }}", fields.len()), depth, fields.len());
        for (index, (name, field)) in fields.iter().enumerate() {
            if self.is_full(fields.len() - index) {
                break;
            }
            let label =
                format!("<span class=\"k\">{}</span>: ", escape(&Value::from(name.as_str()).to_string()));
            let below = path.map(|path| child_path(path, name));
            let comma = if index + 1 < fields.len() { "," } else { "" };
            self.value(&label, field, below.as_deref(), depth + 1, comma);
        }
        self.close('}', comma);
    }

    fn list(&mut self, key: &str, items: &[Value], path: Option<&str>, depth: usize, comma: &str) {
        let noun = if items.len() == 1 { "item" } else { "items" };
        self.open(key, '[', &format!("{} {noun} ]", items.len()), depth, items.len());
        for (index, item) in items.iter().enumerate() {
            if self.is_full(items.len() - index) {
                break;
            }
            let below = path.map(|path| format!("{path}[{index}]"));
            let comma = if index + 1 < items.len() { "," } else { "" };
            self.value("", item, below.as_deref(), depth + 1, comma);
        }
        self.close(']', comma);
    }

    /// Whether no further row fits; then says how many entries are left out.
    fn is_full(&mut self, left: usize) -> bool {
        if self.extent == TreeExtent::Whole || self.rows < ROWS_MAX {
            return false;
        }
        self.is_cut = true;
        self.html.push_str(&format!("<div class=\"row z\">and {left} more</div>"));
        true
    }

    fn open(&mut self, key: &str, bracket: char, told: &str, depth: usize, entries: usize) {
        self.rows += 1;
        let is_open = self.extent == TreeExtent::Whole
            || depth == 0
            || (depth <= OPEN_DEPTH && entries <= OPEN_ENTRIES_MAX);
        let open = if is_open { " open" } else { "" };
        self.html.push_str(&format!(
            "<details{open}><summary>{key}{bracket}<span class=\"more\"> {told}</span></summary><div>"
        ));
    }

    fn close(&mut self, bracket: char, comma: &str) {
        self.html.push_str(&format!("</div></details><div class=\"row end\">{bracket}{comma}</div>"));
    }
}

/// The expression for a field: `path.name`, or `path["name"]` if the name is no identifier.
fn child_path(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_plain);
    if is_name { format!("{path}.{name}") } else { format!("{path}[{}]", Value::from(name)) }
}

fn path_button(path: &str) -> String {
    let expression = escape(&format!("${{{path}}}"));
    format!(
        "<button class=\"path\" type=\"button\" data-copy=\"{expression}\" aria-label=\"Copy path {expression}\">path</button>"
    )
}

#[cfg(test)]
mod tests {
    use actbook_engine::bind::{REDACTED_KEY, redaction_marker};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_of_a_value_is_escaped() {
        let value = json!({ "<b>\"": ["<script>", { "x": "'&" }], "secret": redaction_marker("token") });
        let html = json_tree(&value, Some("steps.a.output"), TreeExtent::Whole).html.to_string();
        for raw in ["<script>", "<b>", "'&"] {
            assert!(!html.contains(raw), "{html}");
        }
        assert!(html.contains("redacted</span> <span class=\"z\">&quot;token&quot;"), "{html}");
        assert!(html.contains("data-copy=\"${steps.a.output.secret}\""), "{html}");
    }

    #[test]
    fn value_with_more_than_a_marker_is_shown_whole() {
        for hiding in [
            json!({ REDACTED_KEY: "token", "to": "mallory" }),
            json!({ REDACTED_KEY: { "to": "mallory" } }),
            json!({ REDACTED_KEY: "mallory" }),
        ] {
            let html = json_tree(&json!({ "payee": hiding }), None, TreeExtent::Whole).html.to_string();
            assert!(html.contains("mallory"), "{html}");
        }
    }

    #[test]
    fn a_part_says_what_is_left_out_and_the_whole_shows_all() {
        let value = json!({ "list": (0..1_000).collect::<Vec<_>>(), "text": "x".repeat(5_000) });
        let part = json_tree(&value, None, TreeExtent::Part);
        assert!(part.is_cut && part.html.as_str().contains("more</div>"));
        let whole = json_tree(&value, None, TreeExtent::Whole);
        assert!(!whole.is_cut && whole.html.as_str().contains(&"x".repeat(5_000)));
    }
}
