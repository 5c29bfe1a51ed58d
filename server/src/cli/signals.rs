//! Ctrl-C and SIGTERM. A command that handles them holds a `SignalGuard`; without one a signal ends the
//! process at once, together with the child processes that it started. One task receives every signal and
//! delivers it to the newest guard only, so that a handled signal never ends the process as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{CommandLineCode, Error};
use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::output::Output;

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The living guards by number, with their channels; a signal goes to the last one.
static GUARDS: Mutex<Vec<(u64, UnboundedSender<StopSignal>)>> = Mutex::new(Vec::new());
/// Whether the task that receives signals has been started.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// While a guard lives, signals are delivered to it, or to a newer guard, and do not end the process.
#[derive(Debug)]
pub struct SignalGuard {
    number: u64,
    receiver: UnboundedReceiver<StopSignal>,
}

impl SignalGuard {
    /// Registers a guard; starts receiving signals if need be. `Err` if signals cannot be received.
    pub fn register() -> Result<Self, Error> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        start_signal_task()?;
        let (sender, receiver) = unbounded_channel();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        GUARDS.lock().push((number, sender));
        Ok(Self { number, receiver })
    }

    /// Waits for the next signal. Cancel-safe: dropping the future loses none.
    pub async fn next(&mut self) -> StopSignal {
        match self.receiver.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        GUARDS.lock().retain(|(number, _)| *number != self.number);
    }
}

/// Starts the task that receives signals: from here on a signal without a guard ends the process through
/// `end_process`. A second call does nothing.
pub fn start_signal_task() -> Result<(), Error> {
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        let message = format!("signals cannot be received: {error}");
        Error::command_line(CommandLineCode::Io, message, "try again")
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                _ = interrupt.recv() => StopSignal::Interrupt,
                _ = terminate.recv() => StopSignal::Terminate,
            };
            deliver(signal);
        }
    });
    Ok(())
}

/// Sends the signal to the newest guard; without one, ends the process.
fn deliver(signal: StopSignal) {
    let delivered = GUARDS.lock().last().is_some_and(|(_, sender)| sender.send(signal).is_ok());
    if !delivered {
        end_process(signal);
    }
}

/// Kills the child processes and exits at once, with the exit code that shells report for this signal.
pub fn end_process(signal: StopSignal) -> ! {
    Output::finish_drawing();
    crate::tools::kill_child_processes();
    std::process::exit(match signal {
        StopSignal::Interrupt => 130,
        StopSignal::Terminate => 143,
    })
}
