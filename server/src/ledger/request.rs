//! What callers can ask the ledger to append, each with the type of its reply.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::{PlanRef, ReportedStatus, SessionStart};
use actbook_engine::execution::{ActionFacts, Command, StartContext};
use actbook_engine::id::{ExecutionId, NodeId, PlanId, Position, StreamId};
use actbook_engine::library::{SaveOptions, ToolPins};
use actbook_engine::note::{Note, NoteScope};
use actbook_engine::plan::Plan;
use actbook_engine::task::Task;
use actbook_engine::tool_policy::ToolPolicies;
use serde_json::Value;

use super::pending::PendingState;
use super::{DriveState, Error, STALE_EPOCH};
use crate::store::tokenizer::NoteTokens;
use crate::store::tools::ToolRow;

/// A change that a caller asks the ledger to append.
pub trait LedgerRequest: Debug + Send + 'static {
    /// What the caller gets once the request is durable.
    type Reply: Debug + Send + 'static;

    /// Pushes what the request appends onto the queue. On `Err` the caller takes it off again. A request is
    /// decided more than once if another process moves the head.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<Self::Reply, Error>;

    /// The command that the request gives to an execution. None: it is a request of another kind.
    fn command(&self) -> Option<&CommandRequest> {
        None
    }
}

/// A reply that can be stored with its request's key.
pub trait PublicId {
    /// The public id of what the request gave; empty: it gave nothing that has an id.
    fn public_id(&self) -> String {
        String::new()
    }
}

/// Saves a plan as the newest version of its name.
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

/// The saved version of a plan; `is_new` is false where the newest version already equals the plan.
#[derive(Debug)]
pub struct SavePlanReply {
    pub plan: PlanRef,
    pub is_new: bool,
}

/// Deletes a plan with all its versions.
#[derive(Debug)]
pub struct DeletePlanRequest {
    pub id: PlanId,
}

/// Accepts this definition of the tool for every plan from now on. The reply is false where it was accepted
/// already.
#[derive(Debug)]
pub struct AcceptToolRequest {
    pub digest: Digest,
    pub tool: ToolRow,
    pub reason: Option<String>,
}

/// Keeps a server's tools as the first guarded session of the project listed them. The reply is false where another one
/// did before.
#[derive(Debug)]
pub struct ListServerRequest {
    pub project: String,
    pub server: String,
    /// The digest of each definition, by the tool's name without the server.
    pub tools: BTreeMap<String, Digest>,
}

/// Starts an execution.
#[derive(Clone, Debug)]
pub struct StartRequest {
    pub id: ExecutionId,
    pub plan_ref: PlanRef,
    pub plan: Arc<Plan>,
    pub inputs: Option<Value>,
    pub context: StartContext,
    pub terms: ToolPolicies,
    pub salt: Arc<[u8]>,
    /// The node that claims the execution in the same batch; None: any node claims it later.
    pub node: Option<NodeId>,
}

/// Starts a part of a guarded session. One that was started under the same id before is returned instead.
#[derive(Clone, Debug)]
pub struct StartSessionRequest {
    pub id: ExecutionId,
    /// The empty plan of the session.
    pub plan: Arc<Plan>,
    pub context: StartContext,
    pub session: SessionStart,
    pub salt: Arc<[u8]>,
}

/// Applies a command to the execution of this stream.
#[derive(Debug)]
pub struct CommandRequest {
    pub stream: StreamId,
    pub command: Arc<Command>,
    /// The execution's last entry as the caller has seen it: refused as `StaleQuestion` if another one was appended
    /// since. None: it does not matter.
    pub as_of: Option<Position>,
}

impl CommandRequest {
    /// Whether the command comes from the execution's own driver, under that driver's epoch.
    pub(super) fn is_from_driver(&self) -> bool {
        self.command.epoch().is_some_and(|epoch| epoch != STALE_EPOCH)
    }
}

/// Records an action that belongs to no execution; the reply is the position of its entry.
#[derive(Debug)]
pub struct RecordActionRequest {
    pub facts: ActionFacts,
    pub status: Option<ReportedStatus>,
    pub project: Option<String>,
    pub salt: Arc<[u8]>,
}

/// Erases the payloads and the salt of an action that belongs to no execution.
#[derive(Debug)]
pub struct EraseActionRequest {
    pub stream: StreamId,
}

/// Sets a note's value; the reply is the position of its entry.
#[derive(Debug)]
pub struct SetNoteRequest {
    pub note: Note,
    /// The tokens that the search index holds of the note.
    pub tokens: NoteTokens,
    /// The salt of the note's stream, used only if this is the note's first value.
    pub salt: Arc<[u8]>,
}

/// Deletes a note; the reply is the position of the entry.
#[derive(Clone, Debug)]
pub struct DeleteNoteRequest {
    pub project: Option<String>,
    pub scope: NoteScope,
    pub key: String,
}

/// Erases a note's payloads and salt, if the note is still at this version.
#[derive(Debug)]
pub struct EraseNoteRequest {
    pub stream: StreamId,
    pub version: u64,
}

/// Creates tasks (`create`) or changes existing ones; the reply is the position of the last entry.
#[derive(Debug)]
pub struct SetTasksRequest {
    /// Each task with the salt for its stream, used only if the task is new.
    pub tasks: Vec<(Task, Arc<[u8]>)>,
    pub create: bool,
}

/// Creates a task and, atomically with it, a plan of its own and an execution of that plan.
#[derive(Debug)]
pub struct AddTaskRequest {
    pub task: Task,
    pub salt: Arc<[u8]>,
    pub plan: Option<TaskPlanRequest>,
}

/// The plan to save for a new task.
#[derive(Debug)]
pub struct TaskPlanRequest {
    pub save: SavePlanRequest,
    /// The execution to start; its `plan_ref` is replaced by the version saved with this task.
    pub start: Option<StartRequest>,
}

/// The position of a new task's entry, the plan saved for the task, and the execution started of that plan.
#[derive(Debug)]
pub struct AddTaskReply {
    pub position: Position,
    pub plan: Option<SavePlanReply>,
    pub started: Option<DriveState>,
}

/// A request with the caller's idempotency key, if there is one. If the key was used before, nothing is
/// appended and the reply is the public id of what the first request gave.
#[derive(Debug)]
pub struct KeyedRequest<R> {
    pub request: R,
    pub key: Option<RequestKey>,
}

/// A caller's idempotency key: a repeated request gets the first reply, a different one is refused.
#[derive(Clone, Debug)]
pub struct RequestKey {
    pub caller: String,
    pub key: String,
    /// The digest of the request.
    pub digest: Digest,
}

/// The reply to a request that may have a key.
#[derive(Debug)]
pub enum KeyedReply<T> {
    First(T),
    /// The key was used before: the public id of what the first request gave.
    Repeated(String),
}

impl PublicId for () {}

impl PublicId for bool {}

/// The reply to requests about notes, tasks and standalone actions, which have no other public id.
impl PublicId for Position {
    fn public_id(&self) -> String {
        self.0.to_string()
    }
}

impl PublicId for SavePlanReply {
    fn public_id(&self) -> String {
        format!("{}@{}", self.plan.id, self.plan.version)
    }
}

impl PublicId for DriveState {
    fn public_id(&self) -> String {
        self.id.to_string()
    }
}

impl PublicId for AddTaskReply {
    fn public_id(&self) -> String {
        match (&self.started, &self.plan) {
            (Some(started), _) => started.public_id(),
            (None, Some(plan)) => plan.public_id(),
            (None, None) => self.position.public_id(),
        }
    }
}
