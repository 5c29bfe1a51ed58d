//! One run of one version of a plan, as a fold over its entries.
//!
//!   decide (&Execution, &Command, &Values) → the events that a command gives, or a refusal
//!   follow (&Execution, Now, &Values)  → the events that follow by themselves, for the driver alone
//!   evolve (Execution, &Recorded)      → the next state; the only code that changes one
//!   due    (&Execution)                → the calls whose intent is durable, and when to look again
//!
//! What should happen next is derived from the state each time (`next`), so a crash needs no path of its own.

mod asks;
mod brief;
mod claim;
mod command;
mod decide;
mod due;
mod ending;
mod evolve;
mod follow;
mod index;
mod next;
mod question;
mod record;
mod state;
mod terms;
mod unwind;

pub use asks::{Question, Subject, answers, questions};
pub use brief::{Brief, CannotUndo, ToUndo, brief, planned_arguments};
pub use claim::{CLAIM_MS, Claim, Reporter};
pub use command::{Command, Ended, FACTS_BYTES_MAX, Facts, Refusal, Report};
pub use decide::{No, StartContext, begin, decide};
pub use due::{Call, CallId, CallKind, Due, due};
pub use evolve::{Corrupt, Recorded, evolve, open};
pub use follow::{Missing, Values, follow, undo_arguments};
pub use state::{
    Answered, Attempt, Compensation, Execution, Failure, Gate, NOTES_KEPT, Note, Noted, Phase, ProbeState,
    Proposal, StepState, Stop, Stored, UndoYes,
};

use crate::event::Event;

/// The clock and the dice, handed in.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at_ms: i64,
    /// Fresh randomness for one decision (a retry's jitter).
    pub dice: u64,
}

/// An event that is about to be appended, with the payload that its entry owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Fresh {
    pub event: Event,
    pub payload: Option<Vec<u8>>,
}

impl<E: Into<Event>> From<E> for Fresh {
    fn from(event: E) -> Self {
        Self { event: event.into(), payload: None }
    }
}
