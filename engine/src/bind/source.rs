//! Checks an expression's text before the `cel` parser sees it. The parser recurses once per bracket and
//! operator, with frames of up to 170 KB in a debug build, and a stack overflow aborts the process. So the
//! text's size and nesting are limited first, and parsing runs on a large stack.

use std::cell::Cell;
use std::iter::Peekable;
use std::str::CharIndices;

use super::{BRACKET_DEPTH_MAX, SOURCE_BYTES_MAX, TOKENS_MAX};

/// Stack size for parsing, in bytes: eight times what the worst expressions within the limits were measured
/// to need. Only address space is reserved: untouched pages cost nothing.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    /// Whether this thread was started by `with_large_stack`.
    static ON_LARGE_STACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread with a large stack and waits for it; runs it here if this is such a thread
/// already.
pub(crate) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if ON_LARGE_STACK.get() {
        return work();
    }
    let marked_work = || {
        ON_LARGE_STACK.set(true);
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, marked_work);
        let thread = thread.expect("the system cannot start a thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Checks the text's length, tokens and brackets, and returns it with step ids quoted for `cel`; `Err` says
/// why it is refused.
pub(super) fn check_and_quote(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty; write an expression".to_owned());
    }
    if text.len() > SOURCE_BYTES_MAX {
        return Err(format!("is longer than {SOURCE_BYTES_MAX} bytes; split it over several steps"));
    }
    let mut tokens = 0;
    let mut open = 0_usize;
    for (_, token) in ExpressionTokens::new(text) {
        tokens += 1;
        match token {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            _ => {}
        }
        if open > BRACKET_DEPTH_MAX {
            return Err(format!("nests brackets deeper than {BRACKET_DEPTH_MAX}"));
        }
        if tokens > TOKENS_MAX {
            return Err(format!("has more than {TOKENS_MAX} words and signs; split it over several steps"));
        }
    }
    Ok(quote_step_ids(text))
}

/// Rewrites `steps.my-step.output` to `steps["my-step"].output`. A step id may hold dashes and begin with a
/// digit, and CEL would parse the dash as a subtraction.
fn quote_step_ids(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    // Everything before `copied` is in `written`.
    let mut copied = 0;
    let mut before = "";
    for (start, token) in ExpressionTokens::new(text) {
        if start < copied {
            continue;
        }
        let after = start + token.len();
        if let (true, Some(id)) = (token == "steps" && before != ".", id_to_quote(&text[after..])) {
            written.push_str(&format!("{}[\"{id}\"]", &text[copied..after]));
            copied = after + 1 + id.len();
        }
        before = token;
    }
    written.push_str(&text[copied..]);
    written
}

/// The step id at the start of `.<id>.output` or `.<id>.status`, if it must be quoted; `None` if not.
fn id_to_quote(after: &str) -> Option<&str> {
    let rest = after.strip_prefix('.')?;
    let length =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    let (id, field) = rest.split_at(length);
    let plain = !id.contains('-') && !id.starts_with(|c: char| c.is_ascii_digit());
    let known = [".output", ".status"].iter().any(|name| {
        field
            .strip_prefix(name)
            .is_some_and(|more| !more.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    });
    (known && !plain).then_some(id)
}

/// The byte offset of the `}` that ends an expression. `text` begins after the `${`; braces in string
/// literals and nested pairs are skipped. `None`: nothing closes it.
pub(super) fn closing_brace(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (start, token) in ExpressionTokens::new(text) {
        match token {
            "{" => open += 1,
            "}" if open == 0 => return Some(start),
            "}" => open -= 1,
            _ => {}
        }
    }
    None
}

/// Iterates over words, string literals and single characters, each with its byte offset: a lexer that is
/// exact enough to count tokens and to skip string literals.
struct ExpressionTokens<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl<'a> ExpressionTokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, rest: text.char_indices().peekable() }
    }

    /// The byte offset of the next character.
    fn offset(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| keep(*c)).is_some() {}
    }

    fn skip_to(&mut self, end: usize) {
        while self.rest.next_if(|(at, _)| *at < end).is_some() {}
    }

    /// The byte offset after the string literal whose quote (single or triple) is at `start`; the end of the
    /// text if nothing closes it. In a `raw` literal a backslash does not escape.
    fn string_end(&self, start: usize, raw: bool) -> usize {
        let body = &self.text[start..];
        let quote = &body[..1];
        let triple = quote.repeat(3);
        let mark = if body.starts_with(&triple) { triple.as_str() } else { quote };
        let mut at = mark.len();
        while let Some(c) = body[at..].chars().next() {
            if body[at..].starts_with(mark) {
                return start + at + mark.len();
            }
            at += c.len_utf8();
            if c == '\\' && !raw {
                at += body[at..].chars().next().map_or(0, char::len_utf8);
            }
        }
        self.text.len()
    }
}

impl<'a> Iterator for ExpressionTokens<'a> {
    /// The byte offset of a token's first character, and the token's text.
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_while(char::is_whitespace);
        let (start, first) = self.rest.next()?;
        if first.is_alphanumeric() || first == '_' {
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
        }
        let end = self.offset();
        let prefix = &self.text[start..end];
        let quoted = |at: usize| self.text[at..].starts_with(['"', '\'']);
        if first == '"' || first == '\'' {
            let end = self.string_end(start, false);
            self.skip_to(end);
        } else if matches!(
            prefix,
            "r" | "R" | "b" | "B" | "rb" | "br" | "RB" | "BR" | "Rb" | "rB" | "bR" | "Br"
        ) && quoted(end)
        {
            let end = self.string_end(end, prefix.contains(['r', 'R']));
            self.skip_to(end);
        }
        let end = self.offset();
        Some((start, &self.text[start..end]))
    }
}
