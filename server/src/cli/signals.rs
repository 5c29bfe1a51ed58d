//! Ctrl-C and SIGTERM. A command that has an answer to them takes them over for a time; any other one ends at
//! once, and the child processes that it started end with it.

use std::sync::atomic::{AtomicUsize, Ordering};

use actbook::error::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::Output;

/// How many parts of this process answer signals themselves.
static TAKEN_OVER: AtomicUsize = AtomicUsize::new(0);

/// Both signals, heard from the moment this was made.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// What the process was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signals {
    fn listen() -> Result<Self, Error> {
        let deaf = |error: std::io::Error| {
            Error::new("io", format!("signals cannot be heard: {error}"), "try again")
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
        })
    }

    /// The next signal. Dropping the future loses none.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Terminate,
        }
    }
}

/// While this lives, signals are its holder's to answer.
#[derive(Debug)]
pub struct TakenOver(pub Signals);

impl TakenOver {
    pub fn take() -> Result<Self, Error> {
        let signals = Signals::listen()?;
        TAKEN_OVER.fetch_add(1, Ordering::SeqCst);
        Ok(Self(signals))
    }
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        TAKEN_OVER.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the process at the first signal that no part of it has taken over.
pub fn end_process_when_asked() -> Result<(), Error> {
    let mut signals = Signals::listen()?;
    tokio::spawn(async move {
        loop {
            let asked = signals.next().await;
            if TAKEN_OVER.load(Ordering::SeqCst) == 0 {
                end_process(asked);
            }
        }
    });
    Ok(())
}

/// At once, with the exit code that shells give to a process ended by this signal.
pub fn end_process(asked: Asked) -> ! {
    Output::leave_drawing();
    actbook::service::kill_child_processes();
    std::process::exit(match asked {
        Asked::Interrupt => 130,
        Asked::Terminate => 143,
    })
}
