//! A call to a tool, what it carries over from earlier attempts, and its classified outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::id::{ExecutionId, StepId};
use actbook_engine::policy::ErrorCategory;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::classify::RawOutcome;

/// One call to one tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// `server/tool`.
    pub tool: String,
    /// The arguments as they were bound and journaled.
    pub arguments: Value,
    /// The digest of the tool description that the plan was saved with. None: any description is accepted.
    #[doc(hidden)]
    pub pin: Option<Digest>,
    /// Idempotency key: the same for every attempt that must not take effect twice.
    pub key: String,
    /// Time limit from sending to the answer. Waiting for a server to start has the same limit but is timed
    /// separately, so that a slow start does not become an unknown outcome.
    pub timeout: Duration,
    #[doc(hidden)]
    pub context: CallContext,
    /// The attempt that makes the call. None: a user calls the tool directly.
    pub origin: Option<Origin>,
}

/// The attempt of an execution that makes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The execution's public id.
    pub execution: ExecutionId,
    /// The step's id in the plan.
    pub step: StepId,
    /// What the step makes the call for.
    pub purpose: Purpose,
    /// Counted from 1 for each step and purpose.
    pub attempt: u32,
}

/// What a step makes a call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To perform the step itself.
    Run,
    /// To find out whether an attempt of unknown outcome took effect.
    Probe,
    /// To undo the step's effect.
    Undo,
}

/// State that a call carries over from earlier attempts, and callbacks for events during the call.
#[derive(Clone, Default)]
pub struct CallContext {
    /// The id of the MCP task that an earlier call created: the task is polled, and no new call is made.
    pub mcp_task: Option<String>,
    /// The answer to the question that the tool asked in an earlier attempt.
    pub reply: Option<ToolQuestionReply>,
    /// Stores the id of an MCP task durably, before the task is polled for the first time.
    pub save_mcp_task: Option<SaveMcpTask>,
    /// Called when an MCP server answers after the call's timeout, on a connection that is still up.
    pub on_late: Option<OnLateOutcome>,
    /// For in-process executors: true once the call is asked to stop.
    pub stop_requested: Option<watch::Receiver<bool>>,
    /// For in-process executors: receives progress reports.
    pub on_progress: Option<OnProgress>,
    /// Receives the answer of an MCP server as it came, before it is classified, for a client that the call is relayed
    /// for.
    pub on_answer: Option<OnAnswer>,
    /// Answers what the server asks during the call, in the protocol with sessions.
    pub on_question: Option<OnQuestion>,
    /// For calls that are relayed: the request that is sent instead of a tool call.
    pub request: Option<RelayedRequest>,
    /// What the client that the call is relayed for sent as `_meta`.
    pub client_meta: Map<String, Value>,
}

/// A request to an MCP server that is no tool call, with its parameters as the client sent them.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayedRequest {
    ReadResource(Value),
    GetPrompt(Value),
    Complete(Value),
}

/// What an MCP server offers beside tools, as it describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerOffers {
    pub resources: Vec<Value>,
    pub resource_templates: Vec<Value>,
    pub prompts: Vec<Value>,
}

/// The answer of an MCP server to a call, as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerAnswer {
    /// A tool result, also one with `isError`.
    Result(Value),
    /// A JSON-RPC error.
    Error { code: i32, message: String, data: Option<Value> },
    /// A question of the protocol without sessions.
    InputRequired(Value),
}

/// Answers a server's elicitation, given its parameters. `None`: nobody was asked.
pub type OnQuestion = Arc<dyn Fn(Value) -> BoxFuture<'static, Option<Value>> + Send + Sync>;

/// Receives the answer of an MCP server.
pub type OnAnswer = Arc<dyn Fn(ServerAnswer) + Send + Sync>;

/// A tool's question as it was received, and the reply to it, keyed like the requests in the question.
#[derive(Clone, Debug)]
pub struct ToolQuestionReply {
    pub question: Value,
    pub answer: Value,
}

/// Receives the outcome of a call that was answered after its timeout.
pub type OnLateOutcome = Arc<dyn Fn(CallOutcome) + Send + Sync>;

/// Receives the outcome of a call that was answered after its timeout, before it is classified.
pub(super) type OnLateRawOutcome = Box<dyn FnOnce(RawOutcome) + Send>;

/// Stores the id of an MCP task durably.
pub type SaveMcpTask = Arc<dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for CallContext {
    /// Leaves out the callbacks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CallContext");
        shown.field("mcp_task", &self.mcp_task).field("reply", &self.reply).finish_non_exhaustive()
    }
}

/// The classified outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// `structuredContent`, or `{"text": …}` where there is none.
    Succeeded { output: Value },
    /// The tool reported a failure; or, where `sent` is false, certainly nothing was sent.
    Failed {
        category: ErrorCategory,
        message: String,
        sent: bool,
        output: Option<Value>,
        retry_after: Option<Duration>,
    },
    /// The call may or may not have taken effect.
    Unknown { category: ErrorCategory, message: String, retry_after: Option<Duration> },
    /// The tool asks a question before it goes on. `began`: it may have had effects already.
    InputRequired { question: Value, began: bool },
}

/// The progress of a call, in units that the tool chooses. `total`: `None` if the tool does not know it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Receives progress reports, on whichever Tokio task reads them.
pub type OnProgress = Arc<dyn Fn(CallProgress) + Send + Sync>;
