//! The one way to stdout and stderr, for the log as well. Text from outside never reaches a terminal or a pipe raw:
//! everything but JSON goes through `printable`, and colours and cursor movements are made here alone. A reader that
//! has gone away (`| head`) ends the output, never the work.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actbook::error::Error;
use serde::Serialize;

use super::paint::resolved;
use super::printable::{self, in_line, paragraphs};
use super::signs::{BAD, painted};

/// Where nothing tells how wide the terminal is.
const WIDTH_DEFAULT: usize = 100;
const HEIGHT_DEFAULT: usize = 24;

/// The lines that are redrawn in place at the bottom of the terminal. Whatever else is written meanwhile, the log
/// too, goes above them.
static DRAWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Clones are the same output.
#[derive(Clone, Debug)]
pub struct Output {
    pub json: bool,
    closed: Arc<AtomicBool>,
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json, closed: Arc::default() }
    }

    /// Nobody reads any more.
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// One line of ours. Line breaks in it are taken for text from outside, and marked.
    pub fn line(&self, text: impl Display) {
        self.shown(in_line(&text.to_string()) + "\n");
    }

    /// A text that stands alone, such as a document: its line breaks are kept.
    pub fn text(&self, text: impl Display) {
        self.shown(paragraphs(&text.to_string()) + "\n");
    }

    /// Without a line break behind it, for an answer to be typed there.
    pub fn prompt(&self, text: impl Display) {
        self.shown(in_line(&text.to_string()) + " ");
    }

    /// Bytes that this binary made by itself, or that must arrive as they are.
    pub fn raw(&self, bytes: &[u8]) {
        above_drawing(|| self.write(bytes));
    }

    /// `text` has been made printable.
    fn shown(&self, text: String) {
        above_drawing(|| self.write(resolved(&text, wants_colours(&std::io::stdout())).as_bytes()));
    }

    fn write(&self, bytes: &[u8]) {
        if self.closed() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        if let Err(error) = written {
            self.closed.store(true, Ordering::Relaxed);
            if error.kind() != ErrorKind::BrokenPipe {
                write_stderr(&format!("error: stdout cannot be written: {error}\n"));
            }
        }
    }

    /// For people who watch, beside what was asked for.
    pub fn aside(&self, text: impl Display) {
        let text = in_line(&text.to_string()) + "\n";
        above_drawing(|| write_stderr(&text));
    }

    /// One document, easy on the eye.
    pub fn document(&self, shown: &impl Serialize) {
        self.exact(&serde_json::to_string_pretty(shown).unwrap_or_else(unprintable));
    }

    /// One document of a stream: a line.
    pub fn entry(&self, shown: &impl Serialize) {
        self.exact(&serde_json::to_string(shown).unwrap_or_else(unprintable));
    }

    /// JSON, byte for byte in a pipe. On a terminal it means the same, and cannot act on it.
    pub fn exact(&self, json: &str) {
        if std::io::stdout().is_terminal() {
            self.raw((printable::json(json) + "\n").as_bytes());
        } else {
            self.raw(format!("{json}\n").as_bytes());
        }
    }

    /// What went wrong and what to do, a line each.
    pub fn error(&self, error: &Error) {
        if self.json {
            self.document(error);
        }
        self.aside(format_args!("{} {}", painted(BAD, "error:"), error.message));
        self.aside(format_args!("  → {}", error.cure));
    }

    /// A person is there to be asked.
    pub fn can_ask(&self) -> bool {
        !self.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks on stderr and reads a line of stdin. Anything but y or yes is a no.
    pub fn confirm(&self, question: &str) -> std::io::Result<bool> {
        above_drawing(|| write_stderr(&format!("{} [y/N] ", printable::flat(question))));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Live drawing makes sense.
    pub fn is_live(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.json && !dumb && std::io::stdout().is_terminal()
    }

    /// Columns and rows.
    pub fn size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((WIDTH_DEFAULT, HEIGHT_DEFAULT))
    }

    /// Draws these lines where the last ones stood. Each must fit the terminal's width.
    pub fn draw(lines: Vec<String>) {
        let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        let up = moved_up(drawn.len());
        let colours = wants_colours(&std::io::stdout());
        *drawn = lines.iter().map(|line| resolved(&printable::flat(line), colours)).collect();
        // The terminal shows it at once and whole, without the cursor jumping about.
        write_terminal(&format!("\x1b[?2026h\x1b[?25l{up}{}\x1b[J\x1b[?2026l", redrawn(&drawn)));
    }

    /// What was drawn stays as it is, and what comes next goes below it.
    pub fn leave_drawing() {
        let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        if !drawn.is_empty() {
            drawn.clear();
            write_terminal("\x1b[?25h");
        }
    }
}

/// Lines for stderr from elsewhere than a command: of the log, say.
pub fn log_text(text: &str) {
    let text = in_line(text) + "\n";
    above_drawing(|| write_stderr(&text));
}

/// What was drawn is taken away for the time of a writing, and drawn again below it.
fn above_drawing(write: impl FnOnce()) {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if drawn.is_empty() {
        return write();
    }
    write_terminal(&format!("{}\x1b[J", moved_up(drawn.len())));
    write();
    write_terminal(&redrawn(&drawn));
}

fn moved_up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\r\x1b[{lines}A") }
}

fn redrawn(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\r{line}\x1b[K\n")).collect()
}

/// A terminal that is gone is noticed by the signal it sends.
fn write_terminal(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// There is no further place to complain to.
fn write_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let shown = resolved(text, wants_colours(&std::io::stderr()));
    drop(stderr.write_all(shown.as_bytes()));
}

/// A terminal that shows colours, unless the environment says otherwise.
fn wants_colours(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

fn unprintable(error: serde_json::Error) -> String {
    serde_json::json!({ "code": "internal", "message": error.to_string() }).to_string()
}
