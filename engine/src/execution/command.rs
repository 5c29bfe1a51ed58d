//! Commands to an execution.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::claim::Reporter;
use super::due::CallId;
use crate::chain::Digest;
use crate::event::{ApprovalScope, CallNote, MatchedStep, ReportedStatus, StateMoment, UndoTemplate};
use crate::id::{Epoch, NodeId, Position};
use crate::policy::{ErrorCategory, StepAnswer};
use crate::refusal::Refusal;
use crate::tool_policy::ToolPolicies;

/// A command to an execution: from its driver, from a caller, or about a call that was made.
#[derive(Clone, Debug)]
pub enum Command {
    /// Become the driver. The former driver's open calls become unknown, except those proven unsent.
    Claim {
        node: NodeId,
        /// The epoch whose driver was found dead; `unsent` was proven for that driver alone.
        expected_epoch: Epoch,
        /// Calls that were certainly not sent.
        unsent: BTreeSet<CallId>,
    },
    /// Stay the driver under a new epoch, so that the claim of a process that took it for dead is too late.
    Reclaim {
        node: NodeId,
        epoch: Epoch,
    },
    /// Continue with the next automatic events.
    Drive {
        epoch: Epoch,
    },
    /// How a call ended, from the process that made it. Only the current driver continues from there.
    ReportOutcome {
        epoch: Epoch,
        call: CallId,
        outcome: ReportedOutcome,
    },
    /// Continue with another toolset: the digest of the current server definitions.
    AdoptToolset {
        toolset: Digest,
    },
    /// Use the tool definition that an operator has accepted since the start.
    MovePin {
        tool: String,
        digest: Digest,
    },
    /// Start nothing until `Resume`; calls in flight finish.
    Pause {
        reason: Option<String>,
    },
    Resume,
    /// Start nothing more, and end cancelled once the calls in flight have ended.
    Cancel {
        reason: Option<String>,
    },
    /// Unwind the execution.
    Undo {
        reason: Option<String>,
        /// In a session: the only steps to undo. `None`: all.
        steps: Option<Vec<String>>,
        /// Whether the caller may approve, so that the command also approves the calls under approval.
        approves: bool,
    },
    /// Approve a step; without a step, the whole plan or a proposed undo.
    Approve {
        step: Option<String>,
        reason: Option<String>,
        /// As in `Decide`.
        replies_to: Option<Position>,
        /// In a session: what a yes to a call covers.
        scope: ApprovalScope,
    },
    /// Reject what `Approve` would approve.
    Reject {
        step: Option<String>,
        reason: Option<String>,
        /// As in `Decide`.
        replies_to: Option<Position>,
    },
    /// Answer about a step that failed, is unknown or could not be undone.
    Decide {
        step: String,
        answer: StepAnswer,
        reason: Option<String>,
        /// The step's output; with `retry` the reply to its tool's question, as the tool expects it.
        output: Option<Value>,
        /// Corrected arguments for the next attempt.
        arguments: Option<Value>,
        /// With `compensate`: as in `Undo`. With `retry` and a reply: whether the caller may give content for a call
        /// for which the config demands an approval.
        approves: bool,
        /// The question that the caller was shown (`Question::asked_at`): refused where another one, or none,
        /// is open. `None`: the caller answers whatever the step asks; no reply to a tool's question is taken.
        replies_to: Option<Position>,
    },
    /// An agent's report on its own step or compensation, with further facts.
    RecordReport {
        step: String,
        report: AgentReport,
        facts: Box<ActionFacts>,
        /// `None`: a caller that may report on any step.
        by: Option<Reporter>,
        /// The entry since which the work was awaited that the caller was shown (`agent_awaited_since`): refused
        /// where other work, or none, is awaited by now. `None`: whatever is awaited.
        replies_to: Option<Position>,
    },
    /// An action to record that changes nothing: outside the plan, or a remark about a step.
    RecordAction {
        step: Option<String>,
        status: Option<ReportedStatus>,
        facts: Box<ActionFacts>,
    },
    /// A decision to record. `stop` cancels and `continue` resumes; any other text is only recorded.
    RecordDecision {
        decision: String,
        reason: Option<String>,
        step: Option<String>,
        details: Option<Value>,
    },
    /// An agent undid a step itself, or tried to and failed (`done: false`).
    RecordCompensation {
        step: String,
        done: bool,
        facts: Box<ActionFacts>,
    },
    /// The server runs a call as a task of its own and returned a handle; reported by the calling process.
    AcceptTask {
        call: CallId,
        task: String,
    },
    /// Erase the payloads and the salt of an ended execution.
    ErasePayloads,
    /// A command to a session.
    Session(SessionCommand),
}

/// A command that only a session takes: an execution whose plan grows with each call of an agent.
#[derive(Clone, Debug)]
pub enum SessionCommand {
    /// A call of a session: adds a step and, by its verdict, starts it, asks about it or refuses it.
    AddCall(Box<SessionCall>),
    /// The waiting call of a session starts, with the yes that was given to it.
    StartCall {
        step: String,
        /// The labels that the call was judged with.
        labels: BTreeSet<String>,
        /// As in `SessionCall`.
        node: Option<NodeId>,
        /// As in `SessionCall`.
        before: Option<Value>,
    },
    /// The caller of a waiting call stopped waiting. The question stays.
    StopWaiting { step: String },
    /// How a call of a session ended, from the process that made it or from the hook that saw it end.
    EndCall {
        step: String,
        outcome: ReportedOutcome,
        /// The state after the call, which its undo compares.
        after: Option<Value>,
    },
    /// The process that sent calls of a session is gone: they are unknown, except those proven unsent.
    LoseCalls { node: NodeId, unsent: BTreeSet<CallId> },
    /// Keep the state around a session's call.
    KeepState { step: String, moment: StateMoment, state: Value },
    /// A person takes a label off a session.
    ClearLabel { label: String, reason: Option<String> },
    /// End a session: it takes no more calls.
    Close {
        reason: Option<String>,
        /// The last entry when the session was found idle; refused where anything happened since.
        idle_since: Option<Position>,
    },
}

/// A call of a session, as it was judged.
#[derive(Clone, Debug)]
pub struct SessionCall {
    /// `server/tool`; the client's own tools are `client/…`.
    pub tool: String,
    /// Sent as they are: `${…}` is plain text.
    pub arguments: Value,
    /// The client makes the call itself and a hook reports it.
    pub by_agent: bool,
    /// The process that sends the call; `None` for an agent's.
    pub node: Option<NodeId>,
    /// The policies and pins of the tool and of the tool that undoes the call.
    pub policies: ToolPolicies,
    /// The digests of the definitions of the servers that the call and its undo name.
    pub servers: BTreeMap<String, Digest>,
    pub undo: Option<UndoTemplate>,
    /// The labels that join the session with the intent of this call.
    pub adds: BTreeSet<String>,
    /// The client's own id of the call.
    pub call: Option<String>,
    /// The subagent that makes the call.
    pub agent: Option<String>,
    /// The client's own name of the tool, where the client makes the call: several of them may be one `tool` here.
    pub client_tool: Option<String>,
    /// The folder that the client makes the call in.
    pub folder: Option<String>,
    /// The arguments with the source of each secret in the secret's place; `None`: no secret was struck out of them.
    pub secrets: Option<Value>,
    pub matched: Option<MatchedStep>,
    /// The state before the call, read for its undo; kept only where the call starts.
    pub before: Option<Value>,
    /// The labels that the call was judged with: where the session has others now, it is judged again.
    pub labels: BTreeSet<String>,
    pub verdict: CallVerdict,
    /// The rule behind a question or a refusal.
    pub rule: Option<String>,
    pub note: Option<CallNote>,
    /// When a question about the call expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// The mode that suspends rules and budget, and neither approvals nor pins.
    pub observed: bool,
}

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallVerdict {
    Allow,
    /// A person is to say yes first, unless one that was given before covers the call.
    Ask,
    /// The step fails with category `policy` and this error.
    Refuse {
        error: Value,
    },
}

/// How a call ended, as reported to the engine; `tools` classifies it.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportedOutcome {
    Succeeded {
        output: Value,
    },
    Failed {
        category: ErrorCategory,
        error: Value,
        /// The call was certainly not sent.
        unsent: bool,
        retry_after_ms: Option<u64>,
    },
    Unknown {
        category: ErrorCategory,
        error: Value,
        retry_after_ms: Option<u64>,
    },
    /// The tool asks for input before it continues.
    InputRequired {
        /// As `tools` reads it; opaque here.
        question: Value,
        /// The call may already have had an effect, so its outcome is unknown instead of failed.
        may_have_run: bool,
    },
}

/// What an agent or a person reports about its own step or compensation.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentReport {
    Started,
    Succeeded { output: Option<Value> },
    Failed { reason: Option<String>, category: ErrorCategory },
    Compensated { output: Option<Value> },
}

impl AgentReport {
    /// The report's status, without its data.
    pub fn status(&self) -> ReportedStatus {
        match self {
            Self::Started => ReportedStatus::Started,
            Self::Succeeded { .. } => ReportedStatus::Succeeded,
            Self::Failed { .. } => ReportedStatus::Failed,
            Self::Compensated { .. } => ReportedStatus::Compensated,
        }
    }
}

/// What an agent says of its action besides how it ended. Stored as the payload of an entry, field by field.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ActionFacts {
    pub description: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The object of the action: a file, a record, a ticket.
    pub entity: Option<String>,
    pub before_state: Option<Value>,
    pub after_state: Option<Value>,
    /// The output of an action outside the plan; a step's output is a payload of its own.
    pub output: Option<Value>,
    /// How sure the agent is, from 0 to 1.
    pub confidence: Option<f64>,
    pub error: Option<String>,
    pub reason: Option<String>,
    /// What was done to undo a step.
    pub action_taken: Option<String>,
    /// `failed`: undoing the step by hand did not work.
    pub outcome: Option<ReportedStatus>,
    pub details: Option<Value>,
}

/// Largest payload of facts or decision details in one entry, in bytes.
pub const FACTS_BYTES_MAX: usize = 1024 * 1024;

impl ActionFacts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Serialises the facts; refused where the confidence is not from 0 to 1, or the payload too large.
    pub fn to_payload(&self) -> Result<Vec<u8>, Refusal> {
        if self.confidence.is_some_and(|sure| !(0.0..=1.0).contains(&sure)) {
            return Err(Refusal::InvalidConfidence);
        }
        let payload = serde_json::to_vec(self).expect("texts, numbers and JSON values always serialise");
        if payload.len() > FACTS_BYTES_MAX {
            return Err(Refusal::FactsTooLarge { bytes: payload.len(), bytes_max: FACTS_BYTES_MAX });
        }
        Ok(payload)
    }
}

impl From<SessionCommand> for Command {
    fn from(command: SessionCommand) -> Self {
        Self::Session(command)
    }
}

impl Command {
    /// The epoch of a driver's `Drive` or `ReportOutcome`: automatic events follow only if it is the execution's.
    /// `None` for all other commands.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Drive { epoch } | Self::ReportOutcome { epoch, .. } => Some(*epoch),
            Self::Claim { .. }
            | Self::Reclaim { .. }
            | Self::AdoptToolset { .. }
            | Self::MovePin { .. }
            | Self::Pause { .. }
            | Self::Resume
            | Self::Cancel { .. }
            | Self::Undo { .. }
            | Self::Approve { .. }
            | Self::Reject { .. }
            | Self::Decide { .. }
            | Self::RecordReport { .. }
            | Self::RecordAction { .. }
            | Self::RecordDecision { .. }
            | Self::RecordCompensation { .. }
            | Self::AcceptTask { .. }
            | Self::ErasePayloads
            | Self::Session(_) => None,
        }
    }
}
