//! A JSON file of another program, changed in place: what is not ours keeps its bytes, its order and its comments.

use serde::Serialize;
use serde_json::Value;

/// The indentation of one level in a file that shows none.
const INDENT: &str = "  ";

/// Deepest nesting of a file that is read.
const DEPTH_MAX: usize = 64;

/// The text of a JSON object that may have comments and trailing commas, as clients' settings do.
#[derive(Clone, Debug)]
pub struct JsonDocument {
    text: String,
}

/// A value in the text, from `start` up to `end`.
#[derive(Clone, Debug)]
struct JsonNode {
    start: usize,
    end: usize,
    content: NodeContent,
}

#[derive(Clone, Debug)]
enum NodeContent {
    Scalar,
    /// The members of an object have a key; the items of an array have none.
    Container {
        items: Vec<NodeItem>,
        is_object: bool,
    },
}

/// A member or an item, from `start` up to the end of its value.
#[derive(Clone, Debug)]
struct NodeItem {
    key: Option<String>,
    start: usize,
    value: JsonNode,
    /// The position of the comma behind it.
    comma: Option<usize>,
}

/// One step on the way to a value.
#[derive(Clone, Copy, Debug)]
pub enum JsonStep<'a> {
    Key(&'a str),
    Index(usize),
}

impl JsonDocument {
    /// Reads a text; an empty one is an empty object. `Err` if it is no JSON object.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let document = Self { text: text.to_owned() };
        let root = NodeReader { text, at: 0 }.read_document()?;
        match root.content {
            NodeContent::Container { is_object: true, .. } => Ok(document),
            NodeContent::Container { is_object: false, .. } | NodeContent::Scalar => {
                Err("it is not a JSON object".to_owned())
            }
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of the whole document.
    pub fn value(&self) -> Value {
        self.value_of(&self.root())
    }

    /// Adds a member to the document's object, unless it has one of this key.
    pub fn set_default(&mut self, key: &str, value: &Value) {
        if self.find(&[JsonStep::Key(key)]).is_none() {
            self.insert(&self.root(), Some(key), value);
        }
    }

    /// Appends `value` to the list at these keys; objects and the list are made where they are missing. `Err` if a value
    /// on the way is of another kind.
    pub fn push(&mut self, keys: &[&str], value: &Value) -> Result<(), String> {
        let path: Vec<JsonStep<'_>> = keys.iter().map(|key| JsonStep::Key(key)).collect();
        let depth = (0..=keys.len()).rev().find(|depth| self.find(&path[..*depth]).is_some()).unwrap_or(0);
        let Some(node) = self.find(&path[..depth]) else { return Err("it is not a JSON object".to_owned()) };
        let is_object = match node.content {
            NodeContent::Container { is_object, .. } => is_object,
            NodeContent::Scalar => return Err(format!("`{}` is no list", keys[..depth].join("."))),
        };
        if is_object != (depth < keys.len()) {
            return Err(format!("`{}` is not of the kind that belongs there", keys[..depth].join(".")));
        }
        let missing = &keys[depth..];
        let wrapped = missing.iter().skip(1).rev().fold(
            if missing.is_empty() { value.clone() } else { Value::Array(vec![value.clone()]) },
            |inner, key| serde_json::json!({ *key: inner }),
        );
        self.insert(&node, missing.first().copied(), &wrapped);
        Ok(())
    }

    /// Removes the value at the path; nothing if there is none.
    pub fn remove(&mut self, path: &[JsonStep<'_>]) {
        let Some((last, parents)) = path.split_last() else { return };
        let Some(parent) = self.find(parents) else { return };
        let NodeContent::Container { items, .. } = &parent.content else { return };
        let Some(index) = find_item(items, *last) else { return };
        let item = &items[index];
        let comma = item.comma.or_else(|| items.get(index.checked_sub(1)?)?.comma);
        let own = self.line_start(item.start)..item.value.end;
        let mut ranges: Vec<_> = comma.map(|at| at..at + 1).into_iter().chain([own]).collect();
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in ranges {
            self.text.replace_range(range, "");
        }
    }

    /// Removes the value at the path if it is an object or a list of nothing, without comments in it.
    pub fn remove_if_empty(&mut self, path: &[JsonStep<'_>]) {
        let Some(node) = self.find(path) else { return };
        let NodeContent::Container { items, .. } = &node.content else { return };
        if items.is_empty() && self.text[node.start + 1..node.end - 1].trim().is_empty() {
            self.remove(path);
        }
    }

    fn root(&self) -> JsonNode {
        let read = NodeReader { text: &self.text, at: 0 }.read_document();
        read.expect("the text was read before, and what is inserted is JSON")
    }

    fn find(&self, path: &[JsonStep<'_>]) -> Option<JsonNode> {
        path.iter().try_fold(self.root(), |node, step| {
            let NodeContent::Container { items, .. } = node.content else { return None };
            let index = find_item(&items, *step)?;
            items.into_iter().nth(index).map(|item| item.value)
        })
    }

    fn value_of(&self, node: &JsonNode) -> Value {
        match &node.content {
            NodeContent::Scalar => serde_json::from_str(&self.text[node.start..node.end]).unwrap_or_default(),
            NodeContent::Container { items, is_object: false } => {
                items.iter().map(|item| self.value_of(&item.value)).collect()
            }
            NodeContent::Container { items, is_object: true } => {
                let member =
                    |item: &NodeItem| (item.key.clone().unwrap_or_default(), self.value_of(&item.value));
                Value::Object(items.iter().map(member).collect())
            }
        }
    }

    /// Inserts a value behind the last one of a container, each on lines of its own.
    fn insert(&mut self, container: &JsonNode, key: Option<&str>, value: &Value) {
        let NodeContent::Container { items, .. } = &container.content else { return };
        let (unit, outer) = (self.indent_unit(), self.indent_at(container.start));
        let inner = format!("{outer}{unit}");
        let value = pretty(value, &unit).replace('\n', &format!("\n{inner}"));
        let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        let (at, text) = match items.last() {
            Some(last) => (last.value.end, format!(",\n{inner}{key}{value}")),
            None => (container.start + 1, format!("\n{inner}{key}{value}\n{outer}")),
        };
        self.text.insert_str(at, &text);
    }

    /// The white space before the first text of the line of this position.
    fn indent_at(&self, at: usize) -> String {
        let line = self.text[..at].rsplit('\n').next().unwrap_or_default();
        line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
    }

    /// The indentation of one level, as the first line that has any shows it.
    fn indent_unit(&self) -> String {
        let indents = self.text.lines().map(|line| {
            let rest = line.trim_start_matches([' ', '\t']);
            if rest.is_empty() { "" } else { &line[..line.len() - rest.len()] }
        });
        indents.into_iter().find(|indent| !indent.is_empty()).unwrap_or(INDENT).to_owned()
    }

    /// Where the text of this position's line begins, with the line break before it; the position itself, without its
    /// white space, where something else stands before it in its line.
    fn line_start(&self, at: usize) -> usize {
        let before = self.text[..at].trim_end_matches([' ', '\t']);
        let before = before.strip_suffix('\n').unwrap_or(before);
        before.strip_suffix('\r').unwrap_or(before).len()
    }
}

/// The item that a step leads to; of members with one key the last, which counts.
fn find_item(items: &[NodeItem], step: JsonStep<'_>) -> Option<usize> {
    match step {
        JsonStep::Key(key) => items.iter().rposition(|item| item.key.as_deref() == Some(key)),
        JsonStep::Index(index) => (index < items.len()).then_some(index),
    }
}

/// The value over several lines, each level indented by `unit`.
fn pretty(value: &Value, unit: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("a JSON value serialises");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Reads the positions of values in a text.
struct NodeReader<'a> {
    text: &'a str,
    at: usize,
}

impl NodeReader<'_> {
    fn read_document(mut self) -> Result<JsonNode, String> {
        self.skip_blanks()?;
        let node = self.read(0)?;
        self.skip_blanks()?;
        if self.at < self.text.len() { Err(self.wrong("nothing more")) } else { Ok(node) }
    }

    fn wrong(&self, expected: &str) -> String {
        let line = self.text[..self.at.min(self.text.len())].matches('\n').count() + 1;
        format!("line {line}: {expected} is expected")
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']).len();
            let comment = if rest[blank..].starts_with("//") {
                rest[blank..].find('\n').unwrap_or(rest.len() - blank)
            } else if rest[blank..].starts_with("/*") {
                rest[blank..].find("*/").ok_or_else(|| self.wrong("the end of a comment"))? + 2
            } else {
                0
            };
            self.at += blank + comment;
            if comment == 0 {
                return Ok(());
            }
        }
    }

    fn read(&mut self, depth: usize) -> Result<JsonNode, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("less nesting"));
        }
        let start = self.at;
        let content = match self.peek() {
            Some(b'{') => NodeContent::Container { items: self.read_items(b'}', depth)?, is_object: true },
            Some(b'[') => NodeContent::Container { items: self.read_items(b']', depth)?, is_object: false },
            Some(_) | None => self.read_scalar().map(|()| NodeContent::Scalar)?,
        };
        Ok(JsonNode { start, end: self.at, content })
    }

    /// Reads what stands between the brackets, up to `close`.
    fn read_items(&mut self, close: u8, depth: usize) -> Result<Vec<NodeItem>, String> {
        let mut items: Vec<NodeItem> = Vec::new();
        self.at += 1;
        loop {
            self.skip_blanks()?;
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(items);
            }
            if items.last().is_some_and(|last| last.comma.is_none()) {
                return Err(self.wrong("a comma"));
            }
            let start = self.at;
            let key = if close == b'}' { Some(self.read_key()?) } else { None };
            let value = self.read(depth + 1)?;
            self.skip_blanks()?;
            let comma = (self.peek() == Some(b',')).then_some(self.at);
            self.at += usize::from(comma.is_some());
            items.push(NodeItem { key, start, value, comma });
        }
    }

    /// Reads a key and the colon behind it.
    fn read_key(&mut self) -> Result<String, String> {
        let start = self.at;
        self.read_scalar()?;
        let key =
            serde_json::from_str(&self.text[start..self.at]).map_err(|_| self.wrong("a key in quotes"))?;
        self.skip_blanks()?;
        if self.peek() != Some(b':') {
            return Err(self.wrong("a colon"));
        }
        self.at += 1;
        self.skip_blanks()?;
        Ok(key)
    }

    /// Reads a text, a number, or a word of JSON.
    fn read_scalar(&mut self) -> Result<(), String> {
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(_)) => self.at += values.byte_offset(),
            Some(Err(_)) | None => return Err(self.wrong("a value")),
        }
        Ok(())
    }
}
