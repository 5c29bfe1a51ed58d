//! Views of late outcomes: answers to calls that had timed out or been given up before.

use std::fmt;

use actbook_engine::execution::StepState;
use actbook_engine::policy::Outcome;
use serde::Serialize;

/// The outcome of a call whose answer came after the call had been given up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LateOutcomeView {
    /// `run`, or `compensation`.
    pub call: &'static str,
    /// Number of the attempt, from 1, counted separately for runs and compensations.
    pub attempt: usize,
    pub outcome: Outcome,
}

impl fmt::Display for LateOutcomeView {
    /// A sentence without its end: `the answer to attempt 2 came late: succeeded`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, attempt, outcome } = self;
        let noun = if *call == "run" { "attempt" } else { "compensation" };
        write!(f, "the answer to {noun} {attempt} came late: {outcome}")
    }
}

impl LateOutcomeView {
    /// The late outcomes of a step: those of its runs, then those of its compensations, each in order.
    pub(super) fn of(state: &StepState) -> Vec<Self> {
        let late = |call, outcomes: Vec<Option<Outcome>>| {
            let numbered = outcomes.into_iter().zip(1..).filter_map(|(late, attempt)| Some((late?, attempt)));
            numbered
                .map(move |(outcome, attempt)| LateOutcomeView { call, attempt, outcome })
                .collect::<Vec<_>>()
        };
        let runs = late("run", state.attempts.iter().map(|attempt| attempt.late_outcome).collect());
        let compensations =
            late("compensation", state.compensations.iter().map(|one| one.late_outcome).collect());
        [runs, compensations].concat()
    }
}
