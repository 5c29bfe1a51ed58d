//! The one way to stdout and stderr. A reader that has gone away (`| head`) ends the output, never the
//! work; colours and cursor movements reach only terminals that want them.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actbook::error::Error;
use serde::Serialize;

/// Where nothing tells how wide the terminal is.
const WIDTH_DEFAULT: usize = 100;
const HEIGHT_DEFAULT: usize = 24;

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

    pub fn line(&self, text: impl Display) {
        self.write(format!("{text}\n").as_bytes());
    }

    pub fn raw(&self, bytes: &[u8]) {
        self.write(bytes);
    }

    fn write(&self, bytes: &[u8]) {
        if self.closed() {
            return;
        }
        let mut stdout = anstream::AutoStream::auto(std::io::stdout()).lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        if let Err(error) = written {
            self.closed.store(true, Ordering::Relaxed);
            if error.kind() != ErrorKind::BrokenPipe {
                self.aside(format_args!("error: stdout cannot be written: {error}"));
            }
        }
    }

    /// For people who watch, beside what was asked for.
    pub fn aside(&self, text: impl Display) {
        let mut stderr = anstream::AutoStream::auto(std::io::stderr()).lock();
        // There is no further place to complain to.
        drop(writeln!(stderr, "{text}"));
    }

    /// One document, easy on the eye.
    pub fn document(&self, shown: &impl Serialize) {
        self.line(serde_json::to_string_pretty(shown).unwrap_or_else(unprintable));
    }

    /// One document of a stream: a line.
    pub fn entry(&self, shown: &impl Serialize) {
        self.line(serde_json::to_string(shown).unwrap_or_else(unprintable));
    }

    /// What went wrong and what to do, a line each.
    pub fn error(&self, error: &Error) {
        if self.json {
            self.document(error);
        }
        let (red, reset) = (super::signs::BAD.render(), super::signs::BAD.render_reset());
        self.aside(format_args!("{red}error:{reset} {}\n  → {}", error.message, error.cure));
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
}

fn unprintable(error: serde_json::Error) -> String {
    serde_json::json!({ "code": "internal", "message": error.to_string() }).to_string()
}
