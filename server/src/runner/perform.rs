//! Performs one call: the line in the node file, the tool, and the outcome in the engine's types.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::{CallId, Command, DueCall, ReportedOutcome};
use actbook_engine::id::StreamId;
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::pins::{self, PinVerdict};
use super::{RunnerInner, wait_until_true};
use crate::boot_instant::BootInstant;
use crate::{ledger, tools};

/// Lets the driver ask a call in flight to stop, and tells whether the call may outlive this process.
#[derive(Debug)]
pub struct CallHandle {
    /// Set to true to ask the call to stop.
    pub stop: watch::Sender<bool>,
    /// The server runs the call as a task, and the journal has the task's handle.
    pub handle_recorded: Arc<AtomicBool>,
}

impl CallHandle {
    /// Whether the call need not be waited for: any node can ask its server for the outcome later.
    pub fn survives_this_process(&self) -> bool {
        self.handle_recorded.load(Ordering::Relaxed)
    }
}

/// What a call sends.
#[derive(Debug)]
pub struct CallInput {
    pub origin: tools::Origin,
    pub arguments: Value,
    /// The question that the tool asked before, with the answer.
    pub reply: Option<tools::ToolQuestionReply>,
    /// The client that the call is relayed for.
    pub relay: CallRelay,
}

/// What passes between a call's server and the client of an agent that the call is relayed for, beside the arguments.
#[derive(Clone, Default)]
pub struct CallRelay {
    /// Receives the server's own answer.
    pub on_answer: Option<tools::OnAnswer>,
    pub on_progress: Option<tools::OnProgress>,
    /// Answers what the server asks during the call.
    pub on_question: Option<tools::OnQuestion>,
    /// The request that is sent instead of a tool call.
    pub request: Option<tools::RelayedRequest>,
    /// The client's `_meta`.
    pub client_meta: serde_json::Map<String, Value>,
}

impl std::fmt::Debug for CallRelay {
    /// Leaves out the callbacks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallRelay").field("client_meta", &self.client_meta).finish_non_exhaustive()
    }
}

/// A call and its outcome. None: it was not sent, because the lease has lapsed or expires soon.
pub type FinishedCall = (CallId, Option<ReportedOutcome>);

/// Calls the tool. `since`: this process drives the execution since then; the call is sent only if the lease
/// has held ever since. `handle_recorded` is set once the journal has the handle of the server's task.
pub async fn perform_call(
    inner: Arc<RunnerInner>,
    stream: StreamId,
    call: DueCall,
    CallInput { origin, mut arguments, reply, relay }: CallInput,
    stop: watch::Receiver<bool>,
    handle_recorded: Arc<AtomicBool>,
    since: BootInstant,
) -> FinishedCall {
    let id = call.id;
    let keep = Some(task_handle_recorder(inner.clone(), stream, id, handle_recorded));
    let (task, stop_signal) = (call.task_handle.as_deref().map(str::to_owned), Some(stop.clone()));
    let late = Some(late_reporter(Arc::downgrade(&inner), stream, id));
    let context = tools::CallContext {
        mcp_task: task,
        reply,
        save_mcp_task: keep,
        on_late: late,
        stop_requested: stop_signal,
        on_progress: None,
        on_answer: relay.on_answer,
        on_question: relay.on_question,
        request: relay.request,
        client_meta: relay.client_meta,
    };
    let may_send = OnceLock::new();
    let holds = || inner.lease.borrow().allows_sending_since(since);
    let write_mark = |child: Option<tools::ProcessIdentity>| {
        if let Err(error) = inner.node.record_sending(stream, id, child) {
            // Without the line, a crash would make this call count as never sent.
            tracing::error!("the node file cannot be written ({error}); aborting before the call is sent");
            std::process::abort();
        }
    };
    let sending = |child: Option<tools::ProcessIdentity>| {
        // A command is marked a second time once its child process is known; it cannot be held back then.
        if may_send.get() == Some(&true) {
            write_mark(child);
        }
        // The call may have waited long for a free slot or for its server, so the lease is checked here. It
        // is checked again after the mark, in case the process was frozen while it wrote the mark.
        *may_send.get_or_init(|| {
            holds() && {
                write_mark(child);
                holds()
            }
        })
    };
    if let Some(refused) = refuse_changed_state(&inner, &call).await {
        return (id, Some(refused));
    }
    let _slot = inner.progress.open_slot(stream, id.step);
    let progress = progress_receiver(&inner, stream, id, relay.on_progress);
    let mut pin = call.pin;
    loop {
        // Only a call with a pin may have to be made again.
        let arguments = if pin.is_some() { arguments.clone() } else { std::mem::take(&mut arguments) };
        let timeout = Duration::from_millis(ms_left(&call, inner.ledger.clock().now_ms()));
        let request = tool_call(&call, &origin, arguments, pin, &context, timeout);
        let stop = wait_until_true(stop.clone(), |asked| *asked);
        let ended = inner.tools.call_with_progress(request, sending, progress.clone(), stop).await;
        if may_send.get() == Some(&false) {
            return (id, None);
        }
        match pins::check_pin(&inner, stream, &call, pin, ended).await {
            PinVerdict::Final(ended) => return (id, Some(to_engine_outcome(ended))),
            PinVerdict::CallAgain(accepted) => pin = Some(accepted),
        }
    }
}

/// Receives a call's progress for this process's board and for the client that the call is relayed for.
fn progress_receiver(
    inner: &RunnerInner,
    stream: StreamId,
    call: CallId,
    relay: Option<tools::OnProgress>,
) -> tools::OnProgress {
    let board = inner.progress.clone();
    Arc::new(move |report| {
        if let Some(relay) = &relay {
            relay(report.clone());
        }
        board.update(stream, call.step, report);
    })
}

/// Reads the state that an undo depends on once more. `None`: it is what the undone call left. Otherwise the undo fails
/// unsent, which asks a person: it was changed since, or cannot be read.
async fn refuse_changed_state(inner: &RunnerInner, undo: &DueCall) -> Option<ReportedOutcome> {
    let check = undo.check.as_ref()?;
    let read = tools::Call {
        tool: check.read.tool.clone(),
        arguments: check.read.arguments.clone(),
        pin: None,
        key: format!("{}-check", undo.idempotency_key),
        timeout: Duration::from_millis(undo.timeout_ms),
        context: tools::CallContext::default(),
        origin: None,
    };
    let error = match inner.tools.call(read, |_| {}, std::future::pending()).await {
        tools::CallOutcome::Succeeded { output } if check.is_unchanged(&output) => return None,
        tools::CallOutcome::Succeeded { output } => error_payload(
            "the state has changed since the call, or was not read after it; `retry` undoes the call all the same",
            Some(output),
        ),
        tools::CallOutcome::Failed { message, .. } | tools::CallOutcome::Unknown { message, .. } => {
            error_payload(
                &format!(
                    "the state cannot be read once more ({message}); `retry` undoes the call all the same"
                ),
                None,
            )
        }
        tools::CallOutcome::InputRequired { .. } => {
            error_payload("the tool that reads the state asks for input", None)
        }
    };
    Some(ReportedOutcome::Failed {
        category: ErrorCategory::Policy,
        error,
        unsent: true,
        retry_after_ms: None,
    })
}

fn tool_call(
    call: &DueCall,
    origin: &tools::Origin,
    arguments: Value,
    pin: Option<Digest>,
    context: &tools::CallContext,
    timeout: Duration,
) -> tools::Call {
    tools::Call {
        tool: call.tool.clone(),
        arguments,
        pin,
        key: call.idempotency_key.clone(),
        timeout,
        context: context.clone(),
        origin: Some(origin.clone()),
    }
}

/// How long the call may take from now on, in milliseconds. A server's task may outlive its driver, so its
/// time counts from the start of the attempt.
fn ms_left(call: &DueCall, now_ms: i64) -> u64 {
    let elapsed = u64::try_from(now_ms - call.started_at_ms).unwrap_or(0);
    if call.task_handle.is_some() { call.timeout_ms.saturating_sub(elapsed) } else { call.timeout_ms }
}

/// A callback that writes the handle of a server's task into the journal and then sets `recorded`. Without
/// the handle, a node that takes over would count the call as lost.
fn task_handle_recorder(
    inner: Arc<RunnerInner>,
    stream: StreamId,
    call: CallId,
    recorded: Arc<AtomicBool>,
) -> tools::SaveMcpTask {
    Arc::new(move |task| {
        let (inner, recorded) = (inner.clone(), recorded.clone());
        Box::pin(async move {
            let command = Arc::new(Command::AcceptTask { call, task });
            loop {
                match inner.ledger.command(&inner.actor, stream, command.clone()).await {
                    Ok(_) => return recorded.store(true, Ordering::Relaxed),
                    Err(ledger::Error::Store(error)) if error.is_transient() => {
                        inner.wait_for_database().await
                    }
                    Err(error) => return tracing::warn!("a task's handle could not be recorded: {error}"),
                }
            }
        })
    })
}

/// A callback that reports the outcome that a server sends after the call has timed out. It holds the runner
/// weakly, so that it does not keep the process alive.
fn late_reporter(inner: Weak<RunnerInner>, stream: StreamId, call: CallId) -> tools::OnLateOutcome {
    Arc::new(move |ended| {
        let Some(inner) = inner.upgrade() else { return };
        let ended = to_engine_outcome(ended);
        tokio::spawn(async move {
            // Under the stale epoch: this records a fact, and the current driver decides what follows.
            let command =
                Arc::new(Command::ReportOutcome { epoch: ledger::STALE_EPOCH, call, outcome: ended });
            loop {
                match inner.ledger.command(&inner.actor, stream, command.clone()).await {
                    Ok(_) => return,
                    Err(ledger::Error::Store(error)) if error.is_transient() => {
                        inner.wait_for_database().await
                    }
                    Err(error) => return tracing::warn!("a late outcome could not be recorded: {error}"),
                }
            }
        });
    })
}

/// The engine's type for a tool's outcome.
pub(super) fn to_engine_outcome(ended: tools::CallOutcome) -> ReportedOutcome {
    let ms = |wait: Option<Duration>| wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    match ended {
        tools::CallOutcome::Succeeded { output } => ReportedOutcome::Succeeded { output },
        tools::CallOutcome::Failed { category, message, sent, output, retry_after } => {
            ReportedOutcome::Failed {
                category,
                error: error_payload(&message, output),
                unsent: !sent,
                retry_after_ms: ms(retry_after),
            }
        }
        tools::CallOutcome::Unknown { category, message, retry_after } => ReportedOutcome::Unknown {
            category,
            error: error_payload(&message, None),
            retry_after_ms: ms(retry_after),
        },
        tools::CallOutcome::InputRequired { question, began } => {
            ReportedOutcome::InputRequired { question, may_have_run: began }
        }
    }
}

/// The error payload that the journal keeps.
fn error_payload(message: &str, output: Option<Value>) -> Value {
    match output {
        Some(output) => json!({ "message": message, "output": output }),
        None => json!({ "message": message }),
    }
}

/// The failure of a call whose arguments could not be read back, and which was therefore not sent.
pub fn unreadable_input(call: CallId, why: &str) -> FinishedCall {
    let said = error_payload(why, None);
    (
        call,
        Some(ReportedOutcome::Failed {
            category: ErrorCategory::Internal,
            error: said,
            unsent: true,
            retry_after_ms: None,
        }),
    )
}
