//! Builds the text of an answer line by line. Untrusted text (from tools, notes, people) may occur within a
//! line, but can neither start a line nor forge a `Next` line, because every line is escaped here.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::service::quote;

/// Prefix of the lines that suggest what to do, and of no others.
const NEXT: &str = "Next: ";

/// The text of an answer for an agent, one line after the other.
#[derive(Clone, Debug, Default)]
pub struct AnswerText(String);

impl AnswerText {
    /// A text that begins with this line; line breaks within it are escaped, as in `push_line`.
    pub fn new(first: impl AsRef<str>) -> Self {
        let mut text = Self::default();
        text.push_line(first);
        text
    }

    /// Adds one line that starts with trusted text. Line breaks within it are escaped.
    pub fn push_line(&mut self, line: impl AsRef<str>) {
        let line = quote::line(line.as_ref(), usize::MAX);
        // A line that looks like a suggestion but is none starts with untrusted text: mark it.
        let mark = if line.trim_start().starts_with(NEXT.trim_end()) { "| " } else { "" };
        self.push_escaped_line(&format!("{mark}{line}"));
    }

    /// Adds one line of a list, which may start with untrusted text.
    pub fn push_item(&mut self, item: impl AsRef<str>) {
        self.push_line(format!("- {}", item.as_ref()));
    }

    /// Adds untrusted text on lines marked with `  | `; a text longer than `chars_max` is cut, and its size
    /// stated.
    pub fn push_quoted_block(&mut self, outside: &str, chars_max: usize) {
        self.0.push_str(&quote::block(outside, chars_max));
    }

    /// Adds one `Next` line for each suggestion.
    pub fn push_suggestions(&mut self, next: &[Suggestion]) {
        for one in next {
            self.push_escaped_line(&format!("{NEXT}{}", quote::line(&one.to_line(), usize::MAX)));
        }
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// Adds a line that is escaped already.
    fn push_escaped_line(&mut self, line: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(line);
    }
}

/// A suggestion of what to do next: a call of one of this server's tools, or advice in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// What to do before the call.
    preface: String,
    /// Tool and arguments.
    call: Option<(&'static str, Value)>,
    /// What the call does or what else is possible; without a call: the advice.
    why: String,
}

impl Suggestion {
    /// Suggests a tool call; `why` says what it does.
    pub fn tool_call(tool: &'static str, arguments: Value, why: impl Into<String>) -> Self {
        Self { preface: String::new(), call: Some((tool, arguments)), why: why.into() }
    }

    /// Advice without a ready-made call.
    pub fn advice(words: impl Into<String>) -> Self {
        Self { preface: String::new(), call: None, why: words.into() }
    }

    /// Adds what has to be done before the call.
    pub fn preceded_by(self, first: impl Into<String>) -> Self {
        Self { preface: first.into(), ..self }
    }

    /// The suggestion as text: `tool {…} why`.
    pub fn to_line(&self) -> String {
        let call = self.call.as_ref().map(|(tool, arguments)| format!("{tool} {arguments}"));
        let parts = [self.preface.as_str(), call.as_deref().unwrap_or_default(), &self.why];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Serialize for Suggestion {
    /// An object with `why` and, if there is a call, `tool` and `arguments`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why = [self.preface.as_str(), &self.why];
        let why = why.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" … ");
        let mut shown = json!({ "why": why });
        if let Some((tool, arguments)) = &self.call {
            shown["tool"] = json!(tool);
            shown["arguments"] = arguments.clone();
        }
        shown.serialize(serializer)
    }
}
