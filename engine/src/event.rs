//! Journal events: one struct per kind, and the enum that holds any of them.
//!
//! A kind carries its version (`attempt_started.1`); stored bodies are never rewritten. Only `decode` reads
//! an older version into the current struct. docs/journal.md explains each kind.

mod note_scope;
mod payload;
mod session_parts;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::id::{Epoch, ExecutionId, NodeId, PlanId, StepId};
use crate::policy::{EndStatus, ErrorCategory, Outcome, StepAnswer, TaskStatus, string_enum};
use crate::tool_policy::ToolPolicies;
pub use note_scope::NoteScope;
pub use session_parts::{
    ApprovalScope, CallBudget, CallNote, MatchedStep, SessionStart, StateMoment, StateRead, UndoTemplate,
};

/// Salted digest and size, in bytes, of a payload. The entry holds these; the payload is stored beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadDigest {
    pub digest: Digest,
    pub size: u64,
}

/// Serialised as `digest.size`: short, because nearly every entry has one.
impl Serialize for PayloadDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}.{}", self.digest, self.size))
    }
}

impl<'de> Deserialize<'de> for PayloadDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::{Error, IntoDeserializer};
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let (digest, size) = text.split_once('.').ok_or_else(|| Error::custom("expected digest.size"))?;
        let digest: serde::de::value::StrDeserializer<'_, D::Error> = digest.into_deserializer();
        Ok(Self { digest: Digest::deserialize(digest)?, size: size.parse().map_err(Error::custom)? })
    }
}

/// Which version of which plan an execution runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRef {
    pub id: PlanId,
    pub name: String,
    pub version: u32,
    pub digest: Digest,
}

string_enum!(
    /// What a probe found out about an unknown attempt. `Lost`: its process died, and the probe runs again.
    ProbeFinding { Happened = "happened", DidNotHappen = "did_not_happen", Error = "error", Lost = "lost" }
);

string_enum!(
    /// How far an agent says that its own action has come.
    ReportedStatus { Started = "started", Succeeded = "succeeded", Failed = "failed", Compensated = "compensated" }
);

/// A compensation call that an unwinding would make, as shown to the person who approves it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoCall {
    pub step: StepId,
    /// The attempt whose effect the call undoes, counted from 1.
    pub attempt: u32,
    pub tool: String,
    /// Digest of the bound arguments; `None` where they cannot be bound yet.
    pub arguments: Option<Digest>,
    /// Digest of the tool definition that the approval is for.
    pub pin: Option<Digest>,
}

/// Why a stored entry cannot be decoded: a later release wrote it, or its body does not match its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("entries of kind `{0}` were written by a newer actbook; update this one")]
    UnknownKind(String),
    #[error("the body of a `{kind}` entry cannot be read: {why}")]
    InvalidBody { kind: String, why: String },
}

/// A pattern for events of these kinds, whatever they say. It keeps a match exhaustive where most kinds do not
/// matter, so that the compiler still lists each match that a new kind has to be added to.
#[macro_export]
macro_rules! any_event {
    ($($name:ident)|+) => { $($crate::event::Event::$name(_))|+ };
}

/// For fields that are left out of the body where they have their default.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares one struct per kind, the `Event` enum, and the conversions between an event and its stored form.
/// A new kind is one block here; the compiler then lists every match to extend. After `|` come the older
/// versions that decode into the same struct; fields that they lack get their default.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal $(| $older:literal)* { $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)? })+) => {
        $(
            $(#[$doc])*
            #[serde_with::skip_serializing_none]
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name { $($(#[$fdoc])* pub $field: $type),* }

            impl $name {
                /// The kind and version that is written today.
                pub const KIND: &'static str = $kind;
                /// All versions that can be decoded, the newest first.
                pub const VERSIONS: [&'static str; [$kind, $($older),*].len()] = [$kind, $($older),*];
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Self { Self::$name(event) }
            }
        )+

        /// A journal event of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event { $($name($name)),+ }

        impl Event {
            /// Each kind in the version that is written today.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];
            /// All versions that can be decoded; those of one kind are adjacent.
            pub const KINDS_READ: &'static [&'static str] = &[$($kind, $($older,)*)+];

            /// The kind with its version, as stored.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind),+ }
            }

            /// The body as stored: JSON.
            pub fn body(&self) -> String {
                let body = match self { $(Self::$name(event) => serde_json::to_string(event)),+ };
                body.expect("an event holds only text, numbers and lists, which always serialise")
            }

            /// Decodes a stored entry of any readable version.
            pub fn decode(kind: &str, body: &str) -> Result<Self, DecodeError> {
                match kind {
                    $($kind $(| $older)* => serde_json::from_str(body).map(Self::$name),)+
                    _ => return Err(DecodeError::UnknownKind(kind.to_owned())),
                }
                .map_err(|error| DecodeError::InvalidBody { kind: kind.to_owned(), why: error.to_string() })
            }
        }
    };
}

events! {
    /// A version of a plan or template was saved. Its document is the entry's payload.
    PlanSaved = "plan_saved.2" | "plan_saved.1" {
        id: PlanId,
        name: String,
        version: u32,
        digest: Digest,
        size: u64,
        steps: u32,
        /// By tool: the definition that the plan was checked against; empty where it was not checked.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pins: BTreeMap<String, Digest>,
        /// The outside task that the plan belongs to.
        task: Option<String>,
        /// Saved as a template: plans are made from it, and it does not run itself.
        #[serde(default, skip_serializing_if = "is_default")]
        template: bool,
        /// The project that wrote it first; `None`: written before projects existed, visible in all.
        project: Option<String>,
        /// Visible in every project.
        #[serde(default, skip_serializing_if = "is_default")]
        everywhere: bool,
    }
    /// A plan or template was deleted: its name no longer finds it.
    PlanDeleted = "plan_deleted.1" { id: PlanId }
    /// An operator accepted a tool's current definition; from here on it counts for every plan.
    ToolAccepted = "tool_accepted.1" {
        tool: String,
        digest: Digest,
        reason: Option<String>,
    }

    /// A guarded session listed a server's tools, as the first one in its project. A tool that is new or changed since is
    /// not offered to agents until an operator accepts it.
    ServerListed = "server_listed.1" {
        server: String,
        project: String,
        /// The digest of the definition of each tool, by its name without the server.
        tools: BTreeMap<String, Digest>,
    }

    /// An execution was started; the first entry of its stream.
    ExecutionStarted = "execution_started.3" | "execution_started.2" | "execution_started.1" {
        id: ExecutionId,
        plan: PlanRef,
        inputs: Option<PayloadDigest>,
        /// The toolset: the digest of the definitions of the servers that the plan names.
        place: Digest,
        task: Option<String>,
        /// The tool policies: what the operator's config says of each tool, and its pin.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        terms: ToolPolicies,
        /// The execution's project: agents of other projects neither see it nor act on it. `None` in entries
        /// of version 1, which were written before projects existed.
        project: Option<String>,
        /// Whether the config at the start lets agents answer the execution's approvals.
        #[serde(default, skip_serializing_if = "is_default")]
        agents_may_approve: bool,
        /// An open execution: it starts without steps, and each call of this session adds one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<Box<SessionStart>>,
    }
    /// A node became the driver; from here on only commands that carry this epoch start attempts.
    DriverChanged = "driver_changed.1" { epoch: Epoch, seat: NodeId }
    /// The execution continues with another toolset.
    PlaceAdopted = "place_adopted.1" { place: Digest }
    /// The execution follows a tool's definition that was accepted after its start.
    PinMoved = "pin_moved.1" { tool: String, digest: Digest }

    /// The execution waits for an approval of the whole plan.
    PlanApprovalAsked = "plan_approval_asked.1" {}
    /// The whole plan was approved.
    PlanApproved = "plan_approved.1" {
        reason: Option<String>,
    }
    /// The whole plan was rejected: the execution ends cancelled.
    PlanRejected = "plan_rejected.1" {
        reason: Option<String>,
    }

    /// A step waits for an approval of exactly these arguments, and of the tool definition in `pin`.
    ApprovalAsked = "approval_asked.1" {
        step: StepId,
        arguments: Option<PayloadDigest>,
        pin: Option<Digest>,
    }
    /// A step's call was approved.
    StepApproved = "step_approved.2" | "step_approved.1" {
        step: StepId,
        reason: Option<String>,
        /// In a session: whether the yes is for this call, or for its tool as long as the session lasts.
        #[serde(default, skip_serializing_if = "is_default")]
        scope: ApprovalScope,
    }
    /// A step's call was rejected: the step fails with category `policy`.
    StepRejected = "step_rejected.1" {
        step: StepId,
        reason: Option<String>,
    }

    /// The intent to call, durable before the call is sent. Without `arguments` the attempt sends what was
    /// approved, or what the attempt before sent.
    AttemptStarted = "attempt_started.2" | "attempt_started.1" {
        step: StepId,
        attempt: u32,
        arguments: Option<PayloadDigest>,
        /// In a session: the process that sends the call, which is lost only with it. `None`: the driver, or an
        /// agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    }
    /// The server runs the call as a task of its own and returned this handle; durable before the first poll.
    TaskAccepted = "task_accepted.1" {
        step: StepId,
        /// The number of the attempt; exactly one of `attempt` and `compensation` is given.
        attempt: Option<u32>,
        compensation: Option<u32>,
        task: String,
    }
    /// An agent started its step: it holds the step until its claim lapses.
    AgentStarted = "agent_started.3" | "agent_started.2" | "agent_started.1" {
        step: StepId,
        attempt: u32,
        holder: Option<String>,
        until_ms: Option<i64>,
        /// The process that serves the holder's session; `None`: the holder has no session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    }
    /// An attempt ended.
    AttemptEnded = "attempt_ended.1" {
        step: StepId,
        attempt: u32,
        outcome: Outcome,
        category: Option<ErrorCategory>,
        /// The output, or the error.
        result: Option<PayloadDigest>,
        /// The call was certainly not sent.
        #[serde(default, skip_serializing_if = "is_default")]
        unsent: bool,
        /// The process that took over concluded the outcome without observing it.
        #[serde(default, skip_serializing_if = "is_default")]
        takeover: bool,
        /// The server's minimum wait before the next attempt.
        retry_after_ms: Option<u64>,
        /// The tool asks for input first; `result` is its question.
        #[serde(default, skip_serializing_if = "is_default")]
        asks: bool,
    }
    /// The outcome of an attempt arrived after the attempt had been given up.
    LateAnswer = "late_answer.1" {
        step: StepId,
        attempt: u32,
        outcome: Outcome,
        category: Option<ErrorCategory>,
        result: Option<PayloadDigest>,
    }
    /// The time of the next attempt at the step or its compensation, with backoff and jitter included.
    RetryScheduled = "retry_scheduled.1" { step: StepId, at_ms: i64 }

    /// The intent to probe an unknown attempt, durable before the call is sent.
    ProbeStarted = "probe_started.1" { step: StepId, attempt: u32, arguments: PayloadDigest }
    /// A probe ended.
    ProbeEnded = "probe_ended.1" {
        step: StepId,
        attempt: u32,
        found: ProbeFinding,
        result: Option<PayloadDigest>,
    }

    /// The step failed as its last attempt did, or without an attempt where nothing could be sent.
    StepFailed = "step_failed.1" {
        step: StepId,
        category: ErrorCategory,
        result: Option<PayloadDigest>,
    }
    /// The step ended with an unknown outcome.
    StepUnknown = "step_unknown.1" { step: StepId, category: ErrorCategory }
    /// The step succeeded by an attempt that a probe or a late answer settled.
    StepSucceeded = "step_succeeded.1" { step: StepId }
    /// The step was skipped because its `when` was false.
    StepSkipped = "step_skipped.1" { step: StepId }
    /// A compensation is not tried again; it waits for an answer.
    CompensationGivenUp = "compensation_given_up.1" { step: StepId }

    /// The failure policy of a failed step was applied to these other steps.
    FailureHandled = "failure_handled.1" {
        step: StepId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cancelled: Vec<StepId>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<StepId>,
    }
    /// These steps will not start, because the execution stops or a dependency was cancelled.
    StepsCancelled = "steps_cancelled.1" { steps: Vec<StepId> }

    /// Nothing starts until `Resumed`; calls in flight finish.
    Paused = "paused.1" {
        reason: Option<String>,
    }
    /// The pause is over.
    Resumed = "resumed.1" {}
    /// A caller cancelled the execution: it ends once the calls in flight have ended.
    CancelAsked = "cancel_asked.1" {
        reason: Option<String>,
    }
    /// A person or an agent answered about a step, or abandoned the execution.
    Decided = "decided.2" | "decided.1" {
        step: Option<StepId>,
        answer: StepAnswer,
        reason: Option<String>,
        output: Option<PayloadDigest>,
        /// With `retry` and `did-not-happen`: arguments that replace the bound ones in the next attempt.
        arguments: Option<PayloadDigest>,
    }

    /// A caller who may not approve asked for an unwinding that needs an approval. Nothing starts until then.
    UndoAsked = "undo_asked.2" | "undo_asked.1" {
        reason: Option<String>,
        /// In a session: the only steps to undo. `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steps: Option<Vec<StepId>>,
    }
    /// The unwinding, or calls that its start did not list, wait for an approval of exactly these calls.
    UnwindProposed = "unwind_proposed.2" | "unwind_proposed.1" {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<UndoCall>,
    }
    /// The calls that a running unwinding proposed were approved.
    UnwindApproved = "unwind_approved.1" {
        reason: Option<String>,
    }
    /// The proposed calls were rejected.
    UnwindRejected = "unwind_rejected.1" {
        reason: Option<String>,
    }
    /// The unwinding started.
    UnwindStarted = "unwind_started.3" | "unwind_started.2" | "unwind_started.1" {
        reason: Option<String>,
        /// The calls under approval that are approved because their approver started the unwinding.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<UndoCall>,
        /// In a session: the only steps to undo. `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steps: Option<Vec<StepId>>,
    }
    /// The unwinding of a session that is open ended: calls may start again.
    UnwindEnded = "unwind_ended.1" {}
    /// The intent to compensate, durable before the call is sent. `compensation` counts the step's
    /// compensations from 1; `attempt` is the attempt to undo.
    CompensationStarted = "compensation_started.1" {
        step: StepId,
        compensation: u32,
        attempt: u32,
        arguments: Option<PayloadDigest>,
    }
    /// A compensation ended.
    CompensationEnded = "compensation_ended.1" {
        step: StepId,
        compensation: u32,
        outcome: Outcome,
        category: Option<ErrorCategory>,
        result: Option<PayloadDigest>,
        #[serde(default, skip_serializing_if = "is_default")]
        unsent: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        takeover: bool,
        retry_after_ms: Option<u64>,
    }
    /// The outcome of a compensation arrived after it had been given up.
    LateCompensation = "late_compensation.1" {
        step: StepId,
        compensation: u32,
        outcome: Outcome,
        result: Option<PayloadDigest>,
    }

    /// An agent undid these attempts of a step itself, without a compensation of the plan; or tried to.
    CompensationRecorded = "compensation_recorded.2" | "compensation_recorded.1" {
        step: StepId,
        attempts: Vec<u32>,
        /// It did not work: nothing counts as undone.
        #[serde(default, skip_serializing_if = "is_default")]
        failed: bool,
    }
    /// An agent described what it did, for a step or outside the plan. Nothing follows from it.
    ActionRecorded = "action_recorded.2" | "action_recorded.1" {
        step: Option<StepId>,
        status: Option<ReportedStatus>,
        facts: PayloadDigest,
        /// For an action outside any execution: the project that recorded it.
        project: Option<String>,
    }
    /// A decision and its reason. What it does to the execution follows as an entry of its own.
    DecisionRecorded = "decision_recorded.1" {
        step: Option<StepId>,
        decision: String,
        reason: Option<String>,
        details: Option<PayloadDigest>,
    }

    /// A call of a session became a step. Its start, its question or its refusal follows in the same append. The
    /// arguments are literal: `${…}` in them is plain text.
    StepAdded = "step_added.2" | "step_added.1" {
        step: StepId,
        tool: String,
        arguments: PayloadDigest,
        /// The client makes the call itself and a hook reports it; otherwise Actbook relays it.
        #[serde(default, skip_serializing_if = "is_default")]
        by_agent: bool,
        /// The policies and pins of the tool and of the tool that undoes the call.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        terms: ToolPolicies,
        /// The digests of the definitions of the servers that the call and its undo name, by server.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        servers: BTreeMap<String, Digest>,
        undo: Option<UndoTemplate>,
        /// The labels that join the session with the intent of this call.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        adds: BTreeSet<String>,
        /// The client's own id of the call.
        call: Option<String>,
        /// The subagent that makes the call.
        agent: Option<String>,
        /// The client's own name of the tool, where the client makes the call.
        client_tool: Option<String>,
        /// The folder that the client makes the call in.
        folder: Option<String>,
        /// Salted digest of the arguments with the source of each secret in its place; `None`: no secret was struck out.
        secrets: Option<Digest>,
        /// The rule that asked about the call or refused it.
        rule: Option<String>,
        note: Option<CallNote>,
        /// When the question about the call expires.
        expires_at_ms: Option<i64>,
        /// The awaiting step of a plan that this call is.
        matched: Option<Box<MatchedStep>>,
    }
    /// The call of a step spends the yes that was given to the question of `asked_by`, together with its intent.
    YesSpent = "yes_spent.1" { step: StepId, asked_by: StepId }
    /// The state around a call, which its undo needs, was read and kept; the payload is that state.
    StateKept = "state_kept.1" {
        step: StepId,
        attempt: u32,
        moment: StateMoment,
        state: PayloadDigest,
    }
    /// The session's labels changed: with the intent of the call that adds them, or because a person removed one.
    LabelsChanged = "labels_changed.1" {
        step: Option<StepId>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        added: BTreeSet<String>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        removed: BTreeSet<String>,
        reason: Option<String>,
    }
    /// The session takes no more calls. It has ended, succeeded unless it was cancelled.
    Closed = "closed.1" {
        reason: Option<String>,
        /// Nothing had happened in it for a day.
        #[serde(default, skip_serializing_if = "is_default")]
        idle: bool,
    }

    /// A note was stored; the payload is its value and metadata. Each key has a stream of its own.
    NoteSet = "note_set.2" | "note_set.1" {
        key: String,
        r#type: String,
        #[serde(default, skip_serializing_if = "is_default")]
        scope: NoteScope,
        expires_at_ms: Option<i64>,
        note: PayloadDigest,
        /// The project that wrote it first; `None`: written before projects existed, visible in all.
        project: Option<String>,
        /// Visible in every project.
        #[serde(default, skip_serializing_if = "is_default")]
        everywhere: bool,
    }
    /// A note was deleted: it is no longer found; its history stays in the journal.
    NoteDeleted = "note_deleted.1" {
        key: String,
        #[serde(default, skip_serializing_if = "is_default")]
        scope: NoteScope,
    }
    /// A task was created or changed; a field that is absent stays as it was.
    TaskSet = "task_set.2" | "task_set.1" {
        id: String,
        title: Option<String>,
        status: Option<TaskStatus>,
        priority: Option<i64>,
        estimate_ms: Option<u64>,
        parent: Option<String>,
        r#type: Option<String>,
        labels: Option<Vec<String>>,
        /// The plan and the step that the task stands for.
        plan: Option<PlanId>,
        step: Option<StepId>,
        /// Further fields, by name: a JSON object.
        fields: Option<PayloadDigest>,
        /// The project that wrote it first; `None`: written before projects existed, visible in all.
        project: Option<String>,
    }

    /// The execution ended, or, after an undo by hand, ended anew with another status.
    ExecutionEnded = "execution_ended.1" { status: EndStatus }
    /// The payloads and the salt of this ended stream were erased; the hash chain still verifies.
    PayloadsErased = "payloads_erased.1" {}
}
