//! An expression's text before anything recursive sees it. The `cel` parser recurses once per
//! bracket and operator, with frames of up to 170 KB in a debug build, and a stack that runs out
//! aborts the process: so the text is measured first, and parsed only where there is room.

use std::cell::Cell;
use std::iter::Peekable;
use std::str::CharIndices;

use super::{BRACKETS_MAX, SOURCE_MAX, TOKENS_MAX};

/// Eight times what the worst forms at their caps were seen to need. Address space only: pages that are
/// not touched cost nothing.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread with a large stack: this one, if it is one already.
pub(crate) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if ROOMY.get() {
        return work();
    }
    let roomy = || {
        ROOMY.set(true);
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, roomy);
        let thread = thread.expect("the system refuses a thread: nothing can run here");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The text as `cel` is to see it, or why it is not to see it at all.
pub(super) fn checked(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty; write an expression".to_owned());
    }
    if text.len() > SOURCE_MAX {
        return Err(format!("is longer than {SOURCE_MAX} bytes; split it over several steps"));
    }
    let mut tokens = 0;
    let mut open = 0_usize;
    for (_, token) in Tokens::of(text) {
        tokens += 1;
        match token {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            _ => {}
        }
        if open > BRACKETS_MAX {
            return Err(format!("nests brackets deeper than {BRACKETS_MAX}"));
        }
        if tokens > TOKENS_MAX {
            return Err(format!("has more than {TOKENS_MAX} words and signs; split it over several steps"));
        }
    }
    Ok(with_quoted_ids(text))
}

/// `steps.my-step.output` would be a subtraction to CEL; a step's id may hold dashes and begin with
/// a digit, so it is handed on as `steps["my-step"].output`.
fn with_quoted_ids(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut end = 0;
    let mut before = "";
    for (start, token) in Tokens::of(text) {
        if start < end {
            continue;
        }
        let after = start + token.len();
        if let (true, Some(id)) = (token == "steps" && before != ".", dashed_id(&text[after..])) {
            written.push_str(&format!("{}[\"{id}\"]", &text[end..after]));
            end = after + 1 + id.len();
        }
        before = token;
    }
    written.push_str(&text[end..]);
    written
}

fn dashed_id(after: &str) -> Option<&str> {
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

/// Where the expression that begins `text` ends: the place of its closing brace.
pub(super) fn closing_brace(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (start, token) in Tokens::of(text) {
        match token {
            "{" => open += 1,
            "}" if open == 0 => return Some(start),
            "}" => open -= 1,
            _ => {}
        }
    }
    None
}

/// Words, strings and single signs, each with its place: just enough to count and to skip what is quoted.
struct Tokens<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, rest: text.char_indices().peekable() }
    }

    fn here(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| keep(*c)).is_some() {}
    }

    fn skip_to(&mut self, end: usize) {
        while self.rest.next_if(|(at, _)| *at < end).is_some() {}
    }

    /// The end of the string that opens at `start`, triple-quoted and raw ones included.
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

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_while(char::is_whitespace);
        let (start, first) = self.rest.next()?;
        if first.is_alphanumeric() || first == '_' {
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
        }
        let end = self.here();
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
        let end = self.here();
        Some((start, &self.text[start..end]))
    }
}
