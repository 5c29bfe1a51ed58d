//! Ctrl-C and SIGTERM. A command that has an answer to them takes them over for a time; any other one ends at
//! once, and the child processes that it started end with it. One task hears every signal and hands it to one
//! place, so that a signal that was answered never ends the process as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use actbook::error::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::output::Output;

/// What the process was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The parts of this process that answer signals themselves, by number; the last one is handed the next signal.
static HOLDERS: Mutex<Vec<(u64, UnboundedSender<Asked>)>> = Mutex::new(Vec::new());
static LISTENING: AtomicBool = AtomicBool::new(false);

fn holders() -> MutexGuard<'static, Vec<(u64, UnboundedSender<Asked>)>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, signals are its holder's to answer.
#[derive(Debug)]
pub struct TakenOver {
    number: u64,
    asked: UnboundedReceiver<Asked>,
}

impl TakenOver {
    pub fn take() -> Result<Self, Error> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        end_process_when_asked()?;
        let (sender, asked) = unbounded_channel();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        holders().push((number, sender));
        Ok(Self { number, asked })
    }

    /// The next signal. Dropping the future loses none.
    pub async fn next(&mut self) -> Asked {
        match self.asked.recv().await {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        holders().retain(|(number, _)| *number != self.number);
    }
}

/// From here on a signal that no part of this process has taken over ends it. Asking twice changes nothing.
pub fn end_process_when_asked() -> Result<(), Error> {
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let deaf =
        |error: std::io::Error| Error::new("io", format!("signals cannot be heard: {error}"), "try again");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(deaf)?;
    tokio::spawn(async move {
        loop {
            let asked = tokio::select! {
                _ = interrupt.recv() => Asked::Interrupt,
                _ = terminate.recv() => Asked::Terminate,
            };
            hand_over(asked);
        }
    });
    Ok(())
}

fn hand_over(asked: Asked) {
    let handed = holders().last().is_some_and(|(_, holder)| holder.send(asked).is_ok());
    if !handed {
        end_process(asked);
    }
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
