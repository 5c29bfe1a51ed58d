//! The text of an answer, made line by line. Words from outside may stand in any line; they can neither
//! begin a line of their own nor end in a `Next` line, because every line passes through here.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::service::quote;

/// Begins the lines that say which call to make, and no others.
const NEXT: &str = "Next: ";

/// Text for an agent to read.
#[derive(Clone, Debug, Default)]
pub struct Text(String);

impl Text {
    pub fn new(first: impl AsRef<str>) -> Self {
        let mut text = Self::default();
        text.line(first);
        text
    }

    /// One line that begins with words of ours. Line ends in it are written out.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = quote::line(line.as_ref(), usize::MAX);
        // Only `next` says what to do: a line that looks like it begins with somebody else's words.
        let mark = if line.trim_start().starts_with(NEXT.trim_end()) { "| " } else { "" };
        self.push(&format!("{mark}{line}"));
    }

    /// One line of a list, which may begin with words from outside.
    pub fn item(&mut self, item: impl AsRef<str>) {
        self.line(format!("- {}", item.as_ref()));
    }

    /// Words from outside on lines of their own, each of them marked; cut with their size.
    pub fn block(&mut self, outside: &str, chars_max: usize) {
        self.0.push_str(&quote::block(outside, chars_max));
    }

    /// What to do next.
    pub fn next(&mut self, next: &[Next]) {
        for one in next {
            self.push(&format!("{NEXT}{}", quote::line(&one.line(), usize::MAX)));
        }
    }

    pub fn into_string(self) -> String {
        self.0
    }

    fn push(&mut self, line: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(line);
    }
}

/// Something to do next: a call of one of our tools, or words for the agent's user.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// What comes before the call.
    first: String,
    call: Option<(&'static str, Value)>,
    /// What the call does, or what else fits.
    why: String,
}

impl Next {
    pub fn call(tool: &'static str, arguments: Value, why: impl Into<String>) -> Self {
        Self { first: String::new(), call: Some((tool, arguments)), why: why.into() }
    }

    /// Words without a call that could be made as it stands.
    pub fn say(words: impl Into<String>) -> Self {
        Self { first: String::new(), call: None, why: words.into() }
    }

    /// What has to be done before the call.
    pub fn after(self, first: impl Into<String>) -> Self {
        Self { first: first.into(), ..self }
    }

    /// As the text says it: `tool {…} why`.
    pub fn line(&self) -> String {
        let call = self.call.as_ref().map(|(tool, arguments)| format!("{tool} {arguments}"));
        let parts = [self.first.as_str(), call.as_deref().unwrap_or_default(), &self.why];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Serialize for Next {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why = [self.first.as_str(), &self.why];
        let why = why.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" … ");
        let mut shown = json!({ "why": why });
        if let Some((tool, arguments)) = &self.call {
            shown["tool"] = json!(tool);
            shown["arguments"] = arguments.clone();
        }
        shown.serialize(serializer)
    }
}
