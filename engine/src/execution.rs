//! One run of one version of a plan, as a fold over its journal entries.
//!
//!   decide (&Execution, &Command, Now, &LoadedPayloads) → the events that a command causes, or a rejection
//!   follow (&Execution, Now, &LoadedPayloads)      → the next automatic events, for the driver alone
//!   evolve (Execution, &RecordedEvent)             → the next state; nothing else can change an execution
//!   due    (&Execution)                            → the calls whose intent is durable, and when to wake up
//!
//! The next action is derived from the state each time (`next_action`), so crash recovery needs no code path
//! of its own.

mod attempt;
mod brief;
mod call_ending;
mod claim;
mod command;
mod decide;
mod due;
mod evolve;
mod follow;
mod index;
mod next;
mod questions;
mod record;
mod restore;
mod session;
mod state;
mod tool_policy;
mod unwind;

pub use attempt::{Attempt, ProbeState, QuestionReply, ToolQuestion};
pub use brief::{Brief, NotUndoable, UndoItem, brief, brief_of, planned_arguments, undo_of_step};
pub use claim::{CLAIM_DURATION_MS, Claim, Reporter};
pub use command::{
    ActionFacts, AgentReport, CallVerdict, Command, FACTS_BYTES_MAX, ReportedOutcome, SessionCall,
    SessionCommand,
};
pub use decide::{
    Rejection, SESSION_PLAN_ID, StartContext, build_session_start_event, build_start_event,
    check_corrected_answer, decide,
};
pub use due::{CallId, CallKind, DueCall, DueWork, StateCheck, due, open_session_calls, session_call};
pub use evolve::{CorruptJournal, Execution, RecordedEvent, evolve, initial_state};
pub use follow::{LoadedPayloads, MissingPayloads, bind_undo_arguments, follow};
pub use questions::{Question, QuestionSubject, allowed_answers, questions};
pub use record::{DECISION_BYTES_MAX, parse_acting_decision};
pub use session::{
    CallAnswer, CallQuestion, CallRecord, HOOKED_CALL_WAIT_MS, SESSION_STEPS_MAX, SessionState, YesRequest,
};
pub use state::{
    ANNOTATIONS_MAX, Annotation, AnnotationKind, ApprovalAnswer, ApprovalGate, ApprovalState, ExecutionState,
    PayloadRef, Phase, RetryState, StepFailure, StepState, UndoApproval, UndoProgress, UnwindProposal,
};

use crate::event::Event;

/// The current time and random bits, passed in because the engine reads neither clock nor randomness.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// Random bits for one decision: the jitter of a retry.
    pub random: u64,
}

/// An event that is to be appended, with the payload that is stored beside its entry.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub event: Event,
    pub payload: Option<Vec<u8>>,
}

impl<E: Into<Event>> From<E> for NewEvent {
    fn from(event: E) -> Self {
        Self { event: event.into(), payload: None }
    }
}
