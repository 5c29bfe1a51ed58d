//! What happened: the closed vocabulary of the journal, one struct per kind.
//!
//! A kind carries its version (`attempt_started.1`); bodies are never rewritten. `decode` is the one
//! place where an older version is read into today's shape. docs/journal.md explains each kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::id::{Epoch, ExecutionId, PlanId, SeatId, StepId};
use crate::note::Scope;
use crate::policy::{Answer, Category, End, Outcome, words};
use crate::task::Status as TaskStatus;
use crate::terms::Terms;

/// A payload that is kept beside its entry: the entry itself holds only what proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub digest: Digest,
    pub size: u64,
}

/// Written `digest.size`: narrow, since nearly every entry has one.
impl Serialize for Kept {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}.{}", self.digest, self.size))
    }
}

impl<'de> Deserialize<'de> for Kept {
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

words!(
    /// What a probe found. `Lost`: the process that probed went away; a probe is read-only, so it runs again.
    Probed { Happened = "happened", DidNotHappen = "did_not_happen", Error = "error", Lost = "lost" }
);

words!(
    /// What an agent says of its own act.
    Reported { Started = "started", Succeeded = "succeeded", Failed = "failed", Compensated = "compensated" }
);

/// A compensation that an unwinding would call, as it is put to the person who says yes to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoCall {
    pub step: StepId,
    /// The attempt whose effect it takes back, counted from 1.
    pub attempt: u32,
    pub tool: String,
    /// Of the bound arguments; none where they cannot be bound yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Digest>,
    /// The definition of the tool that the yes is given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Digest>,
}

/// An entry was written by a later release, or is not what it claims to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    #[error("entries of kind `{0}` were written by a newer actbook; update this one")]
    UnknownKind(String),
    #[error("the body of a `{kind}` entry does not read: {why}")]
    Body { kind: String, why: String },
}

fn no(flag: &bool) -> bool {
    !*flag
}

/// Declares one struct per kind, the `Event` that holds any of them, and the two ways between an
/// event and its stored form. A new kind is one block here; the compiler lists the rest. After a `|` stand
/// the older versions whose bodies read into the same struct, the fields that they lack by default.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal $(| $older:literal)* { $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)? })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name { $($(#[$fdoc])* pub $field: $type),* }

            impl $name {
                pub const KIND: &'static str = $kind;
                /// Every version that can be read, the newest first.
                pub const VERSIONS: &'static [&'static str] = &[$kind, $($older),*];
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Self { Self::$name(event) }
            }
        )+

        #[derive(Clone, Debug, PartialEq)]
        pub enum Event { $($name($name)),+ }

        impl Event {
            /// The versions that are written today.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];
            /// Every version that can be read, those of one kind next to each other.
            pub const KINDS_READ: &'static [&'static str] = &[$($kind, $($older,)*)+];

            pub fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind),+ }
            }

            pub fn body(&self) -> String {
                let body = match self { $(Self::$name(event) => serde_json::to_string(event)),+ };
                body.expect("an event holds only text, numbers and lists, which always serialise")
            }

            pub fn decode(kind: &str, body: &str) -> Result<Self, Undecodable> {
                match kind {
                    $($kind $(| $older)* => serde_json::from_str(body).map(Self::$name),)+
                    _ => return Err(Undecodable::UnknownKind(kind.to_owned())),
                }
                .map_err(|error| Undecodable::Body { kind: kind.to_owned(), why: error.to_string() })
            }
        }
    };
}

events! {
    /// A version of a plan was added to the library. Its document is the entry's payload.
    PlanSaved = "plan_saved.2" | "plan_saved.1" {
        id: PlanId,
        name: String,
        version: u32,
        digest: Digest,
        size: u64,
        steps: u32,
        /// The definition of each tool that it was checked against; none of them where it was not.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pins: BTreeMap<String, Digest>,
        /// The outside task that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// It is kept to make plans of, and not to run.
        #[serde(default, skip_serializing_if = "no")]
        template: bool,
        /// The project that wrote it first; None: it is older than projects, and all of them see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
        /// Every project sees it.
        #[serde(default, skip_serializing_if = "no")]
        everywhere: bool,
    }
    /// Of a plan, or of a template.
    PlanDeleted = "plan_deleted.1" { id: PlanId }
    /// An operator takes a tool as it is now: from here on this definition counts for every plan.
    ToolAccepted = "tool_accepted.1" {
        tool: String,
        digest: Digest,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    ExecutionStarted = "execution_started.2" | "execution_started.1" {
        id: ExecutionId,
        plan: PlanRef,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Kept>,
        /// The digest of the definitions of the servers that the plan names.
        place: Digest,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// What the operator said of its tools, and what they are pinned to.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        terms: Terms,
        /// The project that it belongs to: agents of other projects neither see it nor act on it. None in
        /// entries of version 1, which were written before there were projects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
        /// Whether the config that it was started under lets agents answer its approvals.
        #[serde(default, skip_serializing_if = "no")]
        agents_may_approve: bool,
    }
    /// Who drives from here on: only commands that carry this epoch start attempts.
    DriverChanged = "driver_changed.1" { epoch: Epoch, seat: SeatId }
    /// The execution goes on with the tools as this place defines them.
    PlaceAdopted = "place_adopted.1" { place: Digest }
    /// A tool that was accepted since goes by its new definition here too.
    PinMoved = "pin_moved.1" { tool: String, digest: Digest }

    PlanApprovalAsked = "plan_approval_asked.1" {}
    PlanApproved = "plan_approved.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    PlanRejected = "plan_rejected.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// A step waits for a yes to exactly these arguments, and to the tool as this pin has it.
    ApprovalAsked = "approval_asked.1" {
        step: StepId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Kept>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pin: Option<Digest>,
    }
    StepApproved = "step_approved.1" {
        step: StepId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    StepRejected = "step_rejected.1" {
        step: StepId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// The intent: durable before anything leaves. Without `arguments` it sends what was approved.
    AttemptStarted = "attempt_started.1" {
        step: StepId,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Kept>,
    }
    /// The server goes on with the call by itself and gave this handle; durable before it is asked after.
    TaskAccepted = "task_accepted.1" {
        step: StepId,
        /// The attempt, or the compensation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensation: Option<u32>,
        task: String,
    }
    /// The agent said that it has begun; from then on the step is the holder's until its claim lapses.
    AgentStarted = "agent_started.2" | "agent_started.1" {
        step: StepId,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<i64>,
    }
    AttemptEnded = "attempt_ended.1" {
        step: StepId,
        attempt: u32,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<Category>,
        /// The output, or what the tool said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
        /// It certainly did not leave the house.
        #[serde(default, skip_serializing_if = "no")]
        unsent: bool,
        /// Concluded by the process that took over, not seen.
        #[serde(default, skip_serializing_if = "no")]
        takeover: bool,
        /// The least that the server wants to be left alone for before the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// The tool wants to know something first; `result` is its question.
        #[serde(default, skip_serializing_if = "no")]
        asks: bool,
    }
    /// An answer to an attempt that had already been given up.
    LateAnswer = "late_answer.1" {
        step: StepId,
        attempt: u32,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<Category>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
    }
    /// The next attempt, at the step or its compensation, with the backoff and jitter that were chosen.
    RetryScheduled = "retry_scheduled.1" { step: StepId, at_ms: i64 }

    ProbeStarted = "probe_started.1" { step: StepId, attempt: u32, arguments: Kept }
    ProbeEnded = "probe_ended.1" {
        step: StepId,
        attempt: u32,
        found: Probed,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
    }

    /// The step ends as its last attempt did, or without one where nothing could be sent.
    StepFailed = "step_failed.1" {
        step: StepId,
        category: Category,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
    }
    StepUnknown = "step_unknown.1" { step: StepId, category: Category }
    StepSucceeded = "step_succeeded.1" { step: StepId }
    /// Its `when` was false.
    StepSkipped = "step_skipped.1" { step: StepId }
    CompensationGivenUp = "compensation_given_up.1" { step: StepId }

    /// What a failure did to other steps.
    FailureHandled = "failure_handled.1" {
        step: StepId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cancelled: Vec<StepId>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<StepId>,
    }
    /// Steps that will not start: the execution stops.
    StepsCancelled = "steps_cancelled.1" { steps: Vec<StepId> }

    Paused = "paused.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    Resumed = "resumed.1" {}
    CancelAsked = "cancel_asked.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    Decided = "decided.2" | "decided.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        answer: Answer,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Kept>,
        /// With `retry` and `did-not-happen`: what the next attempt sends instead of what was bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Kept>,
    }

    /// A caller who may not approve asks for an unwinding that needs a yes. Nothing starts until it is answered.
    UndoAsked = "undo_asked.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// The unwinding, or what was not listed when it began, waits for a yes to exactly these calls.
    UnwindProposed = "unwind_proposed.2" | "unwind_proposed.1" {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<UndoCall>,
    }
    /// A yes to calls that an unwinding under way has asked for.
    UnwindApproved = "unwind_approved.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    UnwindRejected = "unwind_rejected.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    UnwindStarted = "unwind_started.2" | "unwind_started.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The calls under approval that the word of whoever started it says yes to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<UndoCall>,
    }
    /// `compensation` counts the tries at undoing this step; `attempt` is the one to undo.
    CompensationStarted = "compensation_started.1" {
        step: StepId,
        compensation: u32,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Kept>,
    }
    CompensationEnded = "compensation_ended.1" {
        step: StepId,
        compensation: u32,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<Category>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
        #[serde(default, skip_serializing_if = "no")]
        unsent: bool,
        #[serde(default, skip_serializing_if = "no")]
        takeover: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    }
    LateCompensation = "late_compensation.1" {
        step: StepId,
        compensation: u32,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Kept>,
    }

    /// An agent undid the step itself, outside any compensation of the plan; these attempts are undone.
    CompensationRecorded = "compensation_recorded.1" { step: StepId, attempts: Vec<u32> }
    /// What an agent did, in its own words: of a step, or outside the plan. Decides nothing.
    ActionRecorded = "action_recorded.2" | "action_recorded.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<Reported>,
        facts: Kept,
        /// Of an act that belongs to no execution: the project that recorded it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
    }
    /// What was decided and why. What it asks of the execution follows as an entry of its own.
    DecisionRecorded = "decision_recorded.1" {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        decision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Kept>,
    }

    /// A note got this value; the payload is the value and its metadata. A stream of its own per key.
    NoteSet = "note_set.2" | "note_set.1" {
        key: String,
        r#type: String,
        #[serde(default, skip_serializing_if = "Scope::is_everybodys")]
        scope: Scope,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at_ms: Option<i64>,
        note: Kept,
        /// The project that wrote it first; None: it is older than projects, and all of them see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
        /// Every project sees it.
        #[serde(default, skip_serializing_if = "no")]
        everywhere: bool,
    }
    /// It is not found any more; what it was stays in the journal.
    NoteDeleted = "note_deleted.1" {
        key: String,
        #[serde(default, skip_serializing_if = "Scope::is_everybodys")]
        scope: Scope,
    }
    /// A task is there, or what it says has changed; what is left out stays as it was.
    TaskSet = "task_set.2" | "task_set.1" {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<TaskStatus>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimate_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        r#type: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        labels: Option<Vec<String>>,
        /// The plan and the step that it stands for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<PlanId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        /// What else is said of it, by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fields: Option<Kept>,
        /// The project that wrote it first; None: it is older than projects, and all of them see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
    }

    ExecutionEnded = "execution_ended.1" { status: End }
    /// The payloads and the salt of this ended execution are gone; the chain still closes.
    PayloadsErased = "payloads_erased.1" {}
}

impl Event {
    /// The project that the first entry of a stream puts the stream into. None where it was written before
    /// there were projects, and for every entry that is not the first of a stream.
    pub fn project(&self) -> Option<&str> {
        let project = if let Self::ExecutionStarted(event) = self {
            &event.project
        } else if let Self::NoteSet(event) = self {
            &event.project
        } else if let Self::TaskSet(event) = self {
            &event.project
        } else if let Self::ActionRecorded(event) = self {
            &event.project
        } else {
            return None;
        };
        project.as_deref()
    }

    /// The payload that the entry owns, if it has one.
    pub fn kept(&self) -> Option<Kept> {
        match self {
            Self::PlanSaved(event) => Some(Kept { digest: event.digest, size: event.size }),
            Self::ExecutionStarted(event) => event.inputs,
            Self::ApprovalAsked(event) => event.arguments,
            Self::AttemptStarted(event) => event.arguments,
            Self::AttemptEnded(event) => event.result,
            Self::LateAnswer(event) => event.result,
            Self::ProbeStarted(event) => Some(event.arguments),
            Self::ProbeEnded(event) => event.result,
            Self::StepFailed(event) => event.result,
            Self::Decided(event) => event.output.or(event.arguments),
            Self::CompensationStarted(event) => event.arguments,
            Self::CompensationEnded(event) => event.result,
            Self::LateCompensation(event) => event.result,
            Self::ActionRecorded(event) => Some(event.facts),
            Self::DecisionRecorded(event) => event.details,
            Self::NoteSet(event) => Some(event.note),
            Self::TaskSet(event) => event.fields,
            Self::NoteDeleted(_)
            | Self::PlanDeleted(_)
            | Self::ToolAccepted(_)
            | Self::DriverChanged(_)
            | Self::PlaceAdopted(_)
            | Self::PinMoved(_)
            | Self::PlanApprovalAsked(_)
            | Self::PlanApproved(_)
            | Self::PlanRejected(_)
            | Self::StepApproved(_)
            | Self::StepRejected(_)
            | Self::TaskAccepted(_)
            | Self::AgentStarted(_)
            | Self::CompensationRecorded(_)
            | Self::RetryScheduled(_)
            | Self::StepUnknown(_)
            | Self::StepSucceeded(_)
            | Self::StepSkipped(_)
            | Self::CompensationGivenUp(_)
            | Self::FailureHandled(_)
            | Self::StepsCancelled(_)
            | Self::Paused(_)
            | Self::Resumed(_)
            | Self::CancelAsked(_)
            | Self::UndoAsked(_)
            | Self::UnwindProposed(_)
            | Self::UnwindApproved(_)
            | Self::UnwindRejected(_)
            | Self::UnwindStarted(_)
            | Self::ExecutionEnded(_)
            | Self::PayloadsErased(_) => None,
        }
    }
}
