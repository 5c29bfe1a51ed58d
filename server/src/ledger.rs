//! The only code that appends to the journal: command → load → fold → decide → append → notify.
//!
//! The caller's thread decides, evolves, serialises and chains under the mutex and pushes rows onto the
//! queue. One writer thread takes everything queued as a batch, appends it in one transaction, and only
//! then replies. If another process has moved the head, all pending requests are decided again on a new
//! fold. The ledger knows how commands become appended events, never why a command was given.

mod fold;
mod journal_index;
mod pending;
mod projection_check;
mod projector;
mod rebuild;
mod request;
mod writer;

use std::sync::Arc;

use actbook_engine::execution::{Command, CorruptJournal, DueCall, DueWork, Execution, due};
use actbook_engine::id::{Epoch, ExecutionId, NodeId, Position, StreamId, TenantId};
use actbook_engine::library::PlanLibrary;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::boot_instant::BootInstant;
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::store::{self, Appender, Db};
pub use fold::{LIBRARY_STREAM, PlanCache, catch_up, fold_library, load_execution, replay_execution};
pub use journal_index::catch_up_journal_index;
pub use pending::{DRIVER_ACTOR, FollowPermit, LocalDriver};
use pending::{PendingRequest, PendingState, TypedRequest};
pub use projection_check::{RowDifference, find_row_difference};
pub use projector::Projector;
pub use rebuild::rebuild;
pub use request::{
    AcceptToolRequest, AddTaskReply, AddTaskRequest, CommandRequest, DeleteNoteRequest, DeletePlanRequest,
    EraseActionRequest, EraseNoteRequest, KeyedReply, KeyedRequest, LedgerRequest, ListServerRequest,
    PublicId, RecordActionRequest, RequestKey, SavePlanReply, SavePlanRequest, SetNoteRequest,
    SetTasksRequest, StartRequest, StartSessionRequest, TaskPlanRequest,
};
use writer::WriteUntil;

/// An epoch that no driver ever has: a report under it records an outcome and starts nothing.
pub const STALE_EPOCH: Epoch = Epoch(u64::MAX);

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
    /// A session that takes its agent's calls: nobody drives it, and nobody needs to.
    pub is_open_session: bool,
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
            is_open_session: execution.session.is_some() && execution.status() == ExecutionStatus::Running,
            due: due(execution),
            decided_at: BootInstant::now(),
            arguments: Vec::new(),
        }
    }

    /// The arguments of a due call as JSON. `None`: the call has none, or another command started it, and its
    /// arguments are read from the journal.
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
    #[error("the journal is inconsistent: {0}; run `actbook verify`")]
    Corrupt(String),
    #[error("the ledger is closed")]
    Closed,
}

impl From<CorruptJournal> for Error {
    fn from(corrupt: CorruptJournal) -> Self {
        Self::Corrupt(corrupt.to_string())
    }
}

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
    /// request could join the batch. The request sends its reply once it is durable.
    fn enqueue(&self, request: Box<dyn PendingRequest>) -> Result<(), Error> {
        let mut pending = self.lock();
        if pending.closed {
            return Err(Error::Closed);
        }
        let writes_inline = pending.can_write_inline(&*request);
        pending.enqueue(request);
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

    /// Decides the request and replies once its entries are durable; the journal names `actor` for them.
    /// Deciding may block for a read of what is not cached.
    pub async fn submit<R: LedgerRequest>(&self, actor: &Arc<str>, request: R) -> Result<R::Reply, Error> {
        let (request, reply) = TypedRequest::new(actor.clone(), request);
        self.shared.enqueue(request)?;
        reply.await.map_err(|_| Error::Closed)?.result
    }

    /// Registers a driver of the execution, for as long as the result is held.
    pub fn register_driver(&self, stream: StreamId) -> Arc<LocalDriver> {
        self.shared.lock().register_driver(stream)
    }

    /// Whether a driver in this process is registered for the execution.
    pub fn is_driven_here(&self, stream: StreamId) -> bool {
        self.shared.lock().is_driven_here(stream)
    }

    /// Handles a notification that the journal has reached `position`. If this process did not write up to
    /// there, drops its cached state and wakes the drivers of the executions that others have changed.
    pub async fn on_remote_append(&self, position: u64) -> Result<(), Error> {
        store::run_blocking(&self.shared, move |shared| shared.lock().on_remote_append(position)).await
    }

    /// Reads an execution, queued entries included. They may yet fail to be written: the result is a hint. Blocks
    /// if the execution is not cached.
    pub fn with_execution<T>(
        &self,
        stream: StreamId,
        read: impl FnOnce(&Execution) -> T,
    ) -> Result<T, Error> {
        self.shared.lock().with_execution(stream, read)
    }

    /// Whether the state of an execution that `with_execution` reads is cached and holds no queued entry.
    pub fn is_durable(&self, stream: StreamId) -> bool {
        self.shared.lock().is_durable(stream)
    }

    /// The cached state of an execution. None: not cached, not known to be durable, or nothing was appended to the
    /// execution after this position.
    pub fn cached_execution_after(&self, stream: StreamId, position: u64) -> Option<Execution> {
        self.shared.lock().cached_execution_after(stream, position)
    }

    /// Reads the library, queued entries included. The result is a hint and the call may block, as with
    /// `with_execution`.
    pub fn with_library<T>(&self, read: impl FnOnce(&PlanLibrary) -> T) -> Result<T, Error> {
        self.shared.lock().with_library(read)
    }

    /// Folds these executions into the cache: one bulk read is faster than one read for each.
    pub async fn prefetch(&self, streams: Vec<StreamId>) -> Result<(), Error> {
        store::run_blocking(&self.shared, move |shared| shared.lock().prefetch(&streams)).await
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
        self.submit(actor, CommandRequest { stream, command: command.into(), as_of: None }).await
    }
}
