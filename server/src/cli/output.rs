//! The only writer to stdout and stderr, for the log as well. Text from outside never reaches a terminal or a
//! pipe raw: everything but JSON goes through `printable`, and only this file makes colours and cursor
//! movements. A closed pipe (`| head`) ends the output, never the command.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use parking_lot::Mutex;
use serde::Serialize;

use super::paint::resolve_marks;
use super::printable::{self, escape_line, escape_text};
use super::status_style::{BAD, painted};
use super::table::wrap;

/// The terminal's size if the system does not tell it.
const WIDTH_DEFAULT: usize = 100;
const HEIGHT_DEFAULT: usize = 24;

/// The lines that are redrawn in place at the bottom of the terminal. All other output, the log too, goes
/// above them.
static DRAWN_LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The process's output. Clones share their state.
#[derive(Clone, Debug)]
pub struct Output {
    /// Print JSON documents (`--json`).
    pub json: bool,
    /// Whether a write to stdout has failed.
    closed: Arc<AtomicBool>,
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json, closed: Arc::default() }
    }

    /// Whether stdout cannot be written any more: the reader has closed the pipe.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Prints one line. Line breaks in `text` are taken for text from outside: continuation lines are marked.
    pub fn line(&self, text: impl Display) {
        self.write_printable(escape_line(&text.to_string()) + "\n");
    }

    /// Prints a text of several lines, such as a document: its line breaks are kept.
    pub fn text(&self, text: impl Display) {
        self.write_printable(escape_text(&text.to_string()) + "\n");
    }

    /// Prints a text of several lines; on a terminal its lines are broken between words.
    pub fn wrapped_text(&self, text: impl Display) {
        let text = escape_text(&text.to_string());
        let columns = if self.is_live() { Self::terminal_size().0 } else { usize::MAX };
        self.write_printable(wrap(&text, columns) + "\n");
    }

    /// Prints a prompt, without a line break behind it.
    pub fn prompt(&self, text: impl Display) {
        self.write_printable(escape_line(&text.to_string()) + " ");
    }

    /// Prints bytes unchanged: only for what this binary made by itself, or escaped JSON.
    pub fn raw(&self, bytes: &[u8]) {
        above_drawing(|| self.write(bytes));
    }

    /// Prints text that has been made printable; its style marks become colours, or vanish.
    fn write_printable(&self, text: String) {
        above_drawing(|| self.write(resolve_marks(&text, wants_colours(&std::io::stdout())).as_bytes()));
    }

    /// Writes to stdout; after the first failure it does nothing.
    fn write(&self, bytes: &[u8]) {
        if self.is_closed() {
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

    /// Prints a line to stderr: a notice beside the command's result.
    pub fn notice(&self, text: impl Display) {
        let text = escape_line(&text.to_string()) + "\n";
        above_drawing(|| write_stderr(&text));
    }

    /// Like `notice`; on a terminal the line is broken between words.
    fn wrapped_notice(&self, text: impl Display) {
        let text = escape_line(&text.to_string());
        let columns = if std::io::stderr().is_terminal() { Self::terminal_size().0 } else { usize::MAX };
        above_drawing(|| write_stderr(&(wrap(&text, columns) + "\n")));
    }

    /// Prints one JSON document, indented.
    pub fn document(&self, document: &impl Serialize) {
        self.print_json(&serde_json::to_string_pretty(document).unwrap_or_else(serialization_error));
    }

    /// Prints one JSON document of a stream, on one line.
    pub fn entry(&self, document: &impl Serialize) {
        self.print_json(&serde_json::to_string(document).unwrap_or_else(serialization_error));
    }

    /// Prints JSON and a line break: unchanged to a pipe; to a terminal equivalent JSON without control
    /// characters.
    pub fn print_json(&self, json: &str) {
        if std::io::stdout().is_terminal() {
            self.raw((printable::escape_json(json) + "\n").as_bytes());
        } else {
            self.raw(format!("{json}\n").as_bytes());
        }
    }

    /// Prints an error and its cure to stderr, a line each; with `--json` also as a document to stdout.
    pub fn error(&self, error: &Error) {
        if self.json {
            self.document(error);
        }
        self.wrapped_notice(format_args!("{} {error}", painted(BAD, "error:")));
        self.wrapped_notice(format_args!("  → {}", error.cure()));
    }

    /// Whether a person can be asked: stdin and stderr are a terminal, and `--json` is off.
    pub fn can_ask(&self) -> bool {
        !self.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks on stderr and reads a line of stdin. Anything but y or yes is a no.
    pub fn confirm(&self, question: &str) -> std::io::Result<bool> {
        above_drawing(|| write_stderr(&format!("{} [y/N] ", printable::escape_flat(question))));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether stdout is a terminal that can be redrawn.
    pub fn is_live(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.json && !dumb && std::io::stdout().is_terminal()
    }

    /// The terminal's columns and rows.
    pub fn terminal_size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(std::io::stdout())
            .or_else(|_| rustix::termios::tcgetwinsize(std::io::stderr()))
            .ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((WIDTH_DEFAULT, HEIGHT_DEFAULT))
    }

    /// Draws these lines in place of the last ones. Each must fit the terminal's width.
    pub fn draw(lines: Vec<String>) {
        let mut drawn = DRAWN_LINES.lock();
        let up = cursor_up(drawn.len());
        let colours = wants_colours(&std::io::stdout());
        *drawn = lines.iter().map(|line| resolve_marks(&printable::escape_flat(line), colours)).collect();
        // Synchronised output with a hidden cursor: the terminal shows the frame at once.
        write_terminal(&format!("\x1b[?2026h\x1b[?25l{up}{}\x1b[J\x1b[?2026l", drawing_text(&drawn)));
    }

    /// Leaves the drawn lines as they are: later output goes below them.
    pub fn finish_drawing() {
        let mut drawn = DRAWN_LINES.lock();
        if !drawn.is_empty() {
            drawn.clear();
            write_terminal("\x1b[?25h");
        }
    }
}

/// Writes a line to stderr that does not come from a command, such as a log line.
pub fn write_log_line(text: &str) {
    let text = escape_line(text) + "\n";
    above_drawing(|| write_stderr(&text));
}

/// Clears the drawn lines, runs `write`, and draws the lines again below its output.
fn above_drawing(write: impl FnOnce()) {
    let drawn = DRAWN_LINES.lock();
    if drawn.is_empty() {
        return write();
    }
    write_terminal(&format!("{}\x1b[J", cursor_up(drawn.len())));
    write();
    write_terminal(&drawing_text(&drawn));
}

/// The escape sequence that moves the cursor up to the first of so many lines.
fn cursor_up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\r\x1b[{lines}A") }
}

/// The lines as terminal output, each clearing what was left of the old one.
fn drawing_text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\r{line}\x1b[K\n")).collect()
}

/// Writes to the terminal. Errors are ignored: a closed terminal sends a signal.
fn write_terminal(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes to stderr. Errors are ignored: there is nowhere to report them.
fn write_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let shown = resolve_marks(text, wants_colours(&std::io::stderr()));
    drop(stderr.write_all(shown.as_bytes()));
}

/// Whether the stream is a terminal that shows colours, and the environment does not disable them.
fn wants_colours(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// The document to print instead of one that cannot be serialised.
fn serialization_error(error: serde_json::Error) -> String {
    serde_json::json!({ "code": "internal", "message": error.to_string() }).to_string()
}
