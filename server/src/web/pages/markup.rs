//! HTML that is made in Rust: icons, status marks and code. Every text that these take is escaped.

use std::fmt::{self, Display, Formatter};

use actbook_engine::policy::{ExecutionStatus, StepStatus};
use askama::filters::HtmlSafe;

use crate::service::quote;

/// Finished HTML, which templates write as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// HTML that was rendered by a template or built from escaped parts.
    pub fn from_rendered(html: String) -> Self {
        Self(html)
    }

    /// A text without any markup.
    pub fn text(text: &str) -> Self {
        Self(escape(text))
    }

    /// A name that a machine reads, such as a step's id.
    pub fn code(text: &str) -> Self {
        Self(format!("<code>{}</code>", escape(text)))
    }

    /// A sentence of ours, in which names stand between backticks.
    pub fn sentence(text: &str) -> Self {
        let mut sentence = Self::default();
        let parts: Vec<&str> = text.split('`').collect();
        let is_paired = parts.len() % 2 == 1;
        for (index, part) in parts.iter().enumerate() {
            if is_paired && index % 2 == 1 {
                sentence.push_code(part);
            } else {
                let tick = if is_paired || index == 0 { "" } else { "`" };
                sentence.push_text(&format!("{tick}{part}"));
            }
        }
        sentence
    }

    /// A text that leads to a path of this server.
    pub fn link(path: &str, text: &str, class: &str) -> Self {
        Self(format!("<a class=\"{class}\" href=\"{}\">{}</a>", escape(path), escape(text)))
    }

    /// A text from outside inside our own words: on one line, marked as a quotation, and cut after `chars_max`
    /// characters, with its size.
    pub fn quote(text: &str, chars_max: usize) -> Self {
        Self(format!("<q>{}</q>", escape(&quote::line(text, chars_max))))
    }

    /// Arguments in short, whole: data of a call inside our own words.
    pub fn data(text: &str) -> Self {
        Self(format!("<q class=\"data muted\">{}</q>", escape(text)))
    }

    pub fn push_quote(&mut self, text: &str, chars_max: usize) {
        self.push(Self::quote(text, chars_max));
    }

    pub fn push(&mut self, other: impl HtmlSafe) {
        self.0.push_str(&other.to_string());
    }

    pub fn push_text(&mut self, text: &str) {
        self.0.push_str(&escape(text));
    }

    pub fn push_code(&mut self, text: &str) {
        self.push(Self::code(text));
    }

    #[cfg(test)]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Markup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

/// Escapes a text for HTML, inside an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// An icon of the page's sprite.
#[derive(Clone, Copy, Debug)]
pub struct Icon(&'static str);

/// The icon with this name in `sprite.html`.
pub fn icon(name: &'static str) -> Icon {
    Icon(name)
}

impl Display for Icon {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<svg class=\"i\" aria-hidden=\"true\"><use href=\"#i-{}\"/></svg>", self.0)
    }
}

impl HtmlSafe for Icon {}

/// A status as icon, word and colour.
#[derive(Clone, Copy, Debug)]
pub struct StatusMark {
    /// The CSS class, which is also the icon's name.
    pub class: &'static str,
    pub word: &'static str,
    is_pill: bool,
}

impl StatusMark {
    pub fn of_execution(status: ExecutionStatus) -> Self {
        let word = match status {
            ExecutionStatus::Running => "Running",
            ExecutionStatus::Paused => "Paused",
            ExecutionStatus::Blocked => "Blocked",
            ExecutionStatus::Compensating => "Compensating",
            ExecutionStatus::Succeeded => "Succeeded",
            ExecutionStatus::Failed => "Failed",
            ExecutionStatus::Cancelled => "Cancelled",
            ExecutionStatus::Compensated => "Compensated",
        };
        Self { class: status.as_str(), word, is_pill: false }
    }

    /// The mark of a session's call; `is_denied`: it was refused before it was sent.
    pub fn of_call(status: StepStatus, is_denied: bool) -> Self {
        match status {
            StepStatus::Failed if is_denied => Self { class: "failed", word: "Denied", is_pill: false },
            StepStatus::AwaitingAgent => Self { class: "running", word: "Running", is_pill: false },
            other => Self::of_step(other),
        }
    }

    pub fn of_step(status: StepStatus) -> Self {
        let word = match status {
            StepStatus::Pending => "Pending",
            StepStatus::Running => "Running",
            StepStatus::AwaitingApproval => "Awaits approval",
            StepStatus::AwaitingAgent => "Awaits an agent",
            StepStatus::Succeeded => "Succeeded",
            StepStatus::Failed => "Failed",
            StepStatus::Unknown => "Unknown",
            StepStatus::Skipped => "Skipped",
            StepStatus::Cancelled => "Cancelled",
            StepStatus::Compensating => "Compensating",
            StepStatus::Compensated => "Compensated",
            StepStatus::CompensationFailed => "Undo failed",
        };
        Self { class: status.as_str(), word, is_pill: false }
    }

    /// A state that is neither an execution's nor a step's, in the colours and with the icon of a status.
    pub fn new(class: &'static str, word: &'static str) -> Self {
        Self { class, word, is_pill: false }
    }

    /// The same mark with a filled background.
    pub fn pill(self) -> Self {
        Self { is_pill: true, ..self }
    }

    /// The icon in its colour, without the word.
    pub fn icon_only(self) -> Markup {
        let Self { class, word, .. } = self;
        Markup(format!(
            "<span class=\"st {class}\"><svg class=\"i\" role=\"img\" aria-label=\"{word}\"><use href=\"#i-{class}\"/></svg></span>"
        ))
    }
}

impl Display for StatusMark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { class, word, is_pill } = self;
        let pill = if *is_pill { " pill" } else { "" };
        let spin = if matches!(*class, "running" | "compensating") { " spin" } else { "" };
        write!(
            f,
            "<span class=\"st {class}{pill}\"><svg class=\"i{spin}\" aria-hidden=\"true\"><use href=\"#i-{class}\"/></svg>{word}</span>"
        )
    }
}

impl HtmlSafe for StatusMark {}

/// A count with its noun: `1 step`, `2 steps`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(number as u64)) }
}

/// A number with thousands set apart: `48,207`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The first characters of an id, as people type it; a shorter one whole.
pub fn short_id(id: &str) -> &str {
    const SHOWN: usize = 8;
    id.get(..SHOWN).unwrap_or(id)
}

/// A value for a URL's query or path, percent-encoded.
pub fn url_part(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_numbers_grouped() {
        assert_eq!(
            Markup::code("<a b=\"c\">'&").as_str(),
            "<code>&lt;a b=&quot;c&quot;&gt;&#39;&amp;</code>"
        );
        assert_eq!(Markup::sentence("`<a>` or `b`").as_str(), "<code>&lt;a&gt;</code> or <code>b</code>");
        assert_eq!(Markup::sentence("one ` only").as_str(), "one ` only");
        assert_eq!([0, 999, 1_000, 48_207, 1_234_567].map(grouped).join(" "), "0 999 1,000 48,207 1,234,567");
        assert_eq!(url_part("a b/ü&"), "a%20b%2F%C3%BC%26");
    }
}
