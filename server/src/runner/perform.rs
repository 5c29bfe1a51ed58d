//! One call: the line in the seat file, the tool, and its end in the engine's words.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Call, CallId, Command, Ended};
use actbook_engine::policy::Category;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::pins::{self, Then};
use super::{Inner, becomes};
use crate::moment::Moment;
use crate::{ledger, tools};

/// A call on its way; it may be asked to stop.
#[derive(Debug)]
pub struct InFlight {
    pub stop: watch::Sender<bool>,
    /// Its server goes on with it, and the journal has the handle: it need not be waited for.
    pub kept: Arc<AtomicBool>,
}

impl InFlight {
    pub fn goes_on_without_us(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}

/// What a call sends.
#[derive(Debug)]
pub struct Words {
    pub origin: tools::Origin,
    pub arguments: Value,
    pub reply: Option<tools::Reply>,
}

/// None: another may drive by now, or soon; it was not sent.
pub type Performed = (CallId, Option<Ended>);

pub async fn perform(
    inner: Arc<Inner>,
    stream: u64,
    call: Call,
    Words { origin, mut arguments, reply }: Words,
    stop: watch::Receiver<bool>,
    kept: Arc<AtomicBool>,
    since: Moment,
) -> Performed {
    let id = call.id;
    let keep = Some(keeper(inner.clone(), stream, id, kept));
    let (task, told) = (call.task.as_deref().map(str::to_owned), Some(stop.clone()));
    let late = Some(late_reporter(Arc::downgrade(&inner), stream, id));
    let carry = tools::Carry { task, reply, keep, late, stop: told, progress: None };
    let leaves = OnceLock::new();
    let holds = || inner.lease.borrow().has_held_since(since);
    let note = |child: Option<tools::ChildProcess>| {
        if let Err(error) = inner.seat.sending(stream, id, child) {
            // Without the line a crash would pass this call off as never sent.
            tracing::error!("the seat file cannot be written ({error}); leaving before anything is sent");
            std::process::abort();
        }
    };
    let sending = |child: Option<tools::ChildProcess>| {
        // What has left once, a command that was started, is noted again and not taken back.
        if leaves.get() == Some(&true) {
            note(child);
        }
        // It may have waited for long, for its turn or its server. The lease is looked at again after the note: a
        // process that was frozen while it wrote the note finds out before it sends.
        *leaves.get_or_init(|| {
            holds() && {
                note(child);
                holds()
            }
        })
    };
    let _line = inner.board.open(stream, id.step);
    let board = inner.board.clone();
    let progress: tools::OnProgress = Arc::new(move |said| board.note(stream, id.step, said));
    let mut pin = call.pin;
    loop {
        // Only a call that is meant for a certain tool may have to be made again.
        let arguments = if pin.is_some() { arguments.clone() } else { std::mem::take(&mut arguments) };
        let timeout = Duration::from_millis(time_left(&call, inner.ledger.clock().now_ms()));
        let request = request(&call, &origin, arguments, pin, &carry, timeout);
        let stop = becomes(stop.clone(), |asked| *asked);
        let ended = inner.tools.call_reporting(request, sending, progress.clone(), stop).await;
        if leaves.get() == Some(&false) {
            return (id, None);
        }
        match pins::look(&inner, stream, &call, pin, ended).await {
            Then::Done(ended) => return (id, Some(in_engine_words(ended))),
            Then::Again(accepted) => pin = Some(accepted),
        }
    }
}

fn request(
    call: &Call,
    origin: &tools::Origin,
    arguments: Value,
    pin: Option<Digest>,
    carry: &tools::Carry,
    timeout: Duration,
) -> tools::Call {
    tools::Call {
        tool: call.tool.clone(),
        arguments,
        pin,
        key: call.key.clone(),
        timeout,
        carry: carry.clone(),
        origin: Some(origin.clone()),
    }
}

/// How long the call may take from now on, in milliseconds. A task's time is counted from its attempt's start,
/// whoever asks after it.
fn time_left(call: &Call, now_ms: i64) -> u64 {
    let passed = u64::try_from(now_ms - call.started_at_ms).unwrap_or(0);
    if call.task.is_some() { call.timeout_ms.saturating_sub(passed) } else { call.timeout_ms }
}

/// Writes a task's handle into the journal. Without it a takeover would take the call for lost.
fn keeper(inner: Arc<Inner>, stream: u64, call: CallId, kept: Arc<AtomicBool>) -> tools::Keep {
    Arc::new(move |task| {
        let (inner, kept) = (inner.clone(), kept.clone());
        Box::pin(async move {
            let command = Arc::new(Command::Accept { call, task });
            loop {
                match inner.ledger.command(&inner.actor, stream, command.clone()).await {
                    Ok(_) => return kept.store(true, Ordering::Relaxed),
                    Err(ledger::Error::Store(error)) if error.may_pass() => inner.answers_again().await,
                    Err(error) => return tracing::warn!("the handle of a task could not be kept: {error}"),
                }
            }
        })
    })
}

/// Hands in what a server answers after the call's time was up. The process is not kept alive for it.
fn late_reporter(inner: Weak<Inner>, stream: u64, call: CallId) -> tools::OnLate {
    Arc::new(move |ended| {
        let Some(inner) = inner.upgrade() else { return };
        let ended = in_engine_words(ended);
        tokio::spawn(async move {
            // Under no driver's epoch: it is a fact, and whoever drives decides what follows from it.
            let command = Arc::new(Command::Report { epoch: ledger::STALE_EPOCH, call, ended });
            loop {
                match inner.ledger.command(&inner.actor, stream, command.clone()).await {
                    Ok(_) => return,
                    Err(ledger::Error::Store(error)) if error.may_pass() => inner.answers_again().await,
                    Err(error) => return tracing::warn!("a late answer could not be kept: {error}"),
                }
            }
        });
    })
}

fn in_engine_words(ended: tools::Ended) -> Ended {
    let ms = |wait: Option<Duration>| wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    match ended {
        tools::Ended::Succeeded { output } => Ended::Succeeded { output },
        tools::Ended::Failed { category, message, sent, output, retry_after } => Ended::Failed {
            category,
            said: said(&message, output),
            unsent: !sent,
            retry_after_ms: ms(retry_after),
        },
        tools::Ended::Unknown { category, message, retry_after } => {
            Ended::Unknown { category, said: said(&message, None), retry_after_ms: ms(retry_after) }
        }
        tools::Ended::Asks { question, began } => Ended::Asks { question, began },
    }
}

fn said(message: &str, output: Option<Value>) -> Value {
    match output {
        Some(output) => json!({ "message": message, "output": output }),
        None => json!({ "message": message }),
    }
}

/// The arguments could not even be read back: certainly not sent.
pub fn unreadable(call: CallId, why: &str) -> Performed {
    let said = said(why, None);
    (call, Some(Ended::Failed { category: Category::Internal, said, unsent: true, retry_after_ms: None }))
}
