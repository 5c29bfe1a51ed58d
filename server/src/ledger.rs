//! The only code that appends to the journal: command → load → fold → decide → append → notify.
//!
//! The caller's thread decides, evolves, serialises and chains under the mutex and pushes rows onto the
//! queue. One writer thread takes everything queued as a batch, appends it in one transaction, and only
//! then replies. If another process has moved the head, all pending requests are decided again on a new
//! fold. The ledger knows how commands become appended events, never why a command was given.

mod call_stats;
mod fold;
mod pending;
mod projection_check;
mod rebuild;
mod writer;

use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::{PlanRef, ReportedStatus};
use actbook_engine::execution::{
    ActionFacts, Command, CorruptJournal, DueCall, DueWork, Execution, Refusal, StartContext, due,
};
use actbook_engine::id::{Epoch, ExecutionId, NodeId, PlanId, Position, StreamId, TenantId};
use actbook_engine::library::{PlanLibrary, SaveOptions, ToolPins};
use actbook_engine::note::{Note, NoteScope};
use actbook_engine::plan::Plan;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::task::Task;
use actbook_engine::tool_policy::ToolPolicies;
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::boot_instant::BootInstant;
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::store::tokenizer::NoteTokens;
use crate::store::tools::ToolRow;
use crate::store::{self, Appender, Db};
pub use call_stats::{catch_up_call_stats, catch_up_journal_index};
pub use fold::{LIBRARY_STREAM, PlanCache, catch_up, catch_up_in_place, fold_execution, fold_library};
pub use pending::DRIVER_ACTOR;
use pending::PendingState;
pub use projection_check::{RowDifference, find_row_difference};
pub use rebuild::rebuild;
use writer::WriteUntil;

/// An epoch that no driver ever has: a report under it records an outcome and starts nothing.
pub const STALE_EPOCH: Epoch = Epoch(u64::MAX);

/// An operation to append, the actor that the journal names for it, and an optional request key.
#[derive(Clone, Debug)]
pub struct LedgerRequest {
    pub actor: Arc<str>,
    pub operation: Operation,
    pub key: Option<RequestKey>,
}

impl LedgerRequest {
    /// Whether the request is a command by the execution's own driver, under that driver's epoch.
    fn is_from_driver(&self) -> bool {
        let is_driver_epoch = |epoch| epoch != STALE_EPOCH;
        matches!(&self.operation, Operation::Command { command, .. } if command.epoch().is_some_and(is_driver_epoch))
    }
}

/// What a caller can ask the ledger to append.
#[derive(Clone, Debug)]
pub enum Operation {
    SavePlan(Box<SavePlanRequest>),
    DeletePlan {
        id: PlanId,
    },
    /// Accepts this definition of the tool for every plan from now on.
    AcceptTool {
        digest: Digest,
        tool: ToolRow,
        reason: Option<String>,
    },
    /// Starts an execution; with a node, that node claims it in the same batch.
    Start(Box<StartRequest>),
    /// Applies a command to the execution of this stream.
    Command {
        stream: StreamId,
        command: Arc<Command>,
    },
    /// Records an act that belongs to no execution.
    RecordAct {
        facts: Box<ActionFacts>,
        status: Option<ReportedStatus>,
        project: Option<String>,
        salt: Arc<[u8]>,
    },
    /// Erases the payloads and the salt of such an act.
    EraseAct {
        stream: StreamId,
    },
    SetNote(Box<SetNoteRequest>),
    DeleteNote {
        project: Option<String>,
        scope: NoteScope,
        key: String,
    },
    /// Erases a note's payloads and salt, if the note is still at this version.
    EraseNote {
        stream: StreamId,
        version: u64,
    },
    /// Creates tasks (`create`) or changes existing ones; each comes with the salt for a new stream.
    SetTasks {
        tasks: Vec<(Task, Arc<[u8]>)>,
        create: bool,
    },
    /// Creates a task with a plan of its own and optionally an execution of that plan, atomically.
    AddTask(Box<AddTaskRequest>),
}

/// A plan to save as the newest version of its name.
#[derive(Clone, Debug)]
pub struct SavePlanRequest {
    pub plan: Arc<Plan>,
    /// The id that the plan gets if its name is new.
    pub new_id: PlanId,
    pub placement: SaveOptions,
    /// The digests of the tools' definitions; None: the tools were not queried.
    pub pins: Option<ToolPins>,
    /// The definitions of the pinned tools.
    pub tools: Vec<ToolRow>,
}

/// A task to create, with its plan.
#[derive(Clone, Debug)]
pub struct AddTaskRequest {
    pub task: Task,
    pub salt: Arc<[u8]>,
    pub plan: SavePlanRequest,
    /// The execution to start; its `plan_ref` is replaced by the version saved with this task.
    pub start: Option<StartRequest>,
}

/// A note's value to set.
#[derive(Clone, Debug)]
pub struct SetNoteRequest {
    pub note: Note,
    /// The tokens that the search index holds of the note.
    pub tokens: NoteTokens,
    /// The salt of the note's stream, used only if this is the note's first value.
    pub salt: Arc<[u8]>,
}

/// An execution to start.
#[derive(Clone, Debug)]
pub struct StartRequest {
    pub id: ExecutionId,
    pub plan_ref: PlanRef,
    pub plan: Arc<Plan>,
    pub inputs: Option<Value>,
    pub context: StartContext,
    pub terms: ToolPolicies,
    pub salt: Arc<[u8]>,
    /// The node that claims the execution at once; None: any node claims it later.
    pub node: Option<NodeId>,
}

/// A caller's idempotency key: a repeated request gets the first reply, a different one is refused.
#[derive(Clone, Debug)]
pub struct RequestKey {
    pub caller: String,
    pub key: String,
    /// The digest of the request.
    pub digest: Digest,
}

/// What a durable request gave.
#[derive(Clone, Debug)]
pub enum LedgerReply {
    /// `is_new` is false where the newest version already equals the plan.
    PlanSaved { plan: PlanRef, is_new: bool },
    /// A deletion or erasure is done; there is nothing to return.
    Done,
    /// `is_new` is false where this definition was accepted already.
    ToolAccepted { is_new: bool },
    /// The execution after a start or a command.
    Advanced(Box<DriveState>),
    /// The position of the appended entry.
    Recorded(Position),
    /// The request key was used before: the public id of what the first request gave.
    Repeated(String),
}

/// An execution's position and status after a command, and the calls that its driver has to make.
#[derive(Clone, Debug)]
pub struct DriveState {
    pub stream: StreamId,
    pub id: ExecutionId,
    pub position: Position,
    pub epoch: Epoch,
    /// The node that drives the execution.
    pub node: Option<NodeId>,
    pub status: ExecutionStatus,
    pub due: DueWork,
    /// When the command was decided. A driver keeps the value from its claim: it drives since then.
    pub decided_at: BootInstant,
    /// The arguments of the calls that this command started, by the position of their entry.
    pub arguments: Vec<(Position, Vec<u8>)>,
}

impl DriveState {
    /// The progress of an execution as it is, without a command and so without new arguments.
    pub fn from_execution(stream: StreamId, execution: &Execution) -> Self {
        Self {
            stream,
            id: execution.id.clone(),
            position: execution.position,
            epoch: execution.epoch,
            node: execution.node.clone(),
            status: execution.status(),
            due: due(execution),
            decided_at: BootInstant::now(),
            arguments: Vec::new(),
        }
    }

    /// The call's arguments as JSON; None: this command did not start the call, or it has none.
    pub fn arguments_of(&self, call: &DueCall) -> Option<&[u8]> {
        let position = call.arguments?.position;
        self.arguments.iter().find(|(at, _)| *at == position).map(|(_, bytes)| bytes.as_slice())
    }
}

/// Why the ledger did not append a request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the journal does not add up: {0}; run `actbook verify`")]
    Corrupt(String),
    #[error("the ledger is closed")]
    Closed,
}

impl From<CorruptJournal> for Error {
    fn from(corrupt: CorruptJournal) -> Self {
        Self::Corrupt(corrupt.to_string())
    }
}

/// The result of a request, which the caller gets once the batch is durable.
type LedgerResult = Result<LedgerReply, Error>;

/// One tenant's journal in this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
    /// Dropped with the last clone: tells the writer thread to finish and stop.
    _close_guard: Arc<CloseGuard>,
}

/// What all clones of a ledger and its writer thread share.
#[derive(Debug)]
struct Shared {
    pending: Mutex<PendingState>,
    /// Wakes the writer thread.
    work_available: Condvar,
    /// The thread that holds this lock writes. It is locked before `pending`, or only tried.
    appender: Mutex<Appender>,
    notifier: Notifier,
    clock: Arc<Clock>,
}

/// Closes the ledger when dropped.
#[derive(Debug)]
struct CloseGuard(Arc<Shared>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work_available.notify_all();
    }
}

impl Shared {
    /// Decides the request and queues it for the writer thread, or writes it on this thread where no other
    /// request could join the batch. `reply_to` gets the result once it is durable.
    fn enqueue(&self, request: LedgerRequest, reply_to: oneshot::Sender<LedgerResult>) -> Result<(), Error> {
        let mut pending = self.lock();
        if pending.closed {
            return Err(Error::Closed);
        }
        let writes_inline = pending.can_write_inline(&request);
        pending.enqueue(request, reply_to);
        let mut owes_notify = false;
        if writes_inline && let Some(appender) = self.appender.try_lock() {
            let db = pending.db();
            owes_notify = db
                .run_write_inline(|| {
                    writer::write_batches(self, pending, appender, WriteUntil::OneBatchWritten)
                })
                .is_some();
            pending = self.lock();
        }
        // Skip the wake-up when the writer is not waiting: it is a system call either way.
        let notify_is_new = owes_notify && !std::mem::replace(&mut pending.notify_pending, true);
        if pending.writer_is_waiting && (!pending.is_idle() || notify_is_new) {
            self.work_available.notify_one();
        }
        let retired = pending.take_retired();
        drop(pending);
        // Freed outside the lock.
        drop(retired);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.pending.lock()
    }
}

impl Ledger {
    /// Opens the journal of a tenant and starts its writer thread.
    pub fn open(db: Db, tenant: TenantId, notifier: Notifier) -> Result<Self, Error> {
        let appender = Mutex::new(db.appender()?);
        let clock = Arc::new(Clock::new());
        let pending = Mutex::new(PendingState::new(db, tenant, clock.clone()));
        let work_available = Condvar::new();
        let shared = Arc::new(Shared { pending, work_available, appender, notifier, clock });
        writer::spawn(shared.clone())?;
        let close_guard = Arc::new(CloseGuard(shared.clone()));
        Ok(Self { shared, _close_guard: close_guard })
    }

    /// The clock that stamps entries and measures backoffs and time limits.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Decides the request and replies once its entries are durable.
    pub async fn submit(&self, request: LedgerRequest) -> LedgerResult {
        let (reply_to, reply) = oneshot::channel();
        self.shared.enqueue(request, reply_to)?;
        reply.await.unwrap_or(Err(Error::Closed))
    }

    /// Registers a driver of the execution, for as long as the result is held. The result is notified
    /// when anyone but the driver has appended to the execution.
    pub fn register_driver(&self, stream: StreamId) -> Arc<Notify> {
        self.shared.lock().register_driver(stream)
    }

    /// Whether a driver in this process is registered for the execution.
    pub fn is_driven_here(&self, stream: StreamId) -> bool {
        self.shared.lock().is_driven_here(stream)
    }

    /// Handles a notification that the journal has reached `position`. If this process did not write up to
    /// there, drops its cached state and wakes the drivers of the executions that others have changed.
    pub async fn on_remote_append(&self, position: u64) -> Result<(), Error> {
        self.shared.lock().on_remote_append(position)
    }

    /// Reads an execution, queued entries included. They may yet fail to be written: the result is a hint.
    pub fn with_execution<T>(
        &self,
        stream: StreamId,
        read: impl FnOnce(&Execution) -> T,
    ) -> Result<T, Error> {
        self.shared.lock().with_execution(stream, read)
    }

    /// The cached state of an execution. None: not cached, or not known to be durable.
    pub fn cached_execution(&self, stream: StreamId) -> Option<Execution> {
        self.shared.lock().cached_execution(stream)
    }

    /// Reads the library, queued entries included. The result is a hint, as with `with_execution`.
    pub fn with_library<T>(&self, read: impl FnOnce(&PlanLibrary) -> T) -> Result<T, Error> {
        self.shared.lock().with_library(read)
    }

    /// Folds these executions into the cache: one bulk read is faster than one read for each.
    pub fn prefetch(&self, streams: &[StreamId]) -> Result<(), Error> {
        self.shared.lock().prefetch(streams)
    }

    /// The cache of parsed plans that all folds share.
    pub fn plans(&self) -> PlanCache {
        self.shared.lock().plans()
    }

    /// Applies a command to an execution, and returns its progress once the entries are durable.
    pub async fn command(
        &self,
        actor: &Arc<str>,
        stream: StreamId,
        command: impl Into<Arc<Command>>,
    ) -> Result<DriveState, Error> {
        let request = Operation::Command { stream, command: command.into() };
        match self.submit(LedgerRequest { actor: actor.clone(), operation: request, key: None }).await? {
            LedgerReply::Advanced(progress) => Ok(*progress),
            LedgerReply::PlanSaved { .. }
            | LedgerReply::Done
            | LedgerReply::ToolAccepted { .. }
            | LedgerReply::Recorded(_)
            | LedgerReply::Repeated(_) => {
                unreachable!("a command without a key moves its execution")
            }
        }
    }
}
