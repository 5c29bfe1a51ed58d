//! Answers that came after their call had been given up, as they are shown.

use std::fmt;

use actbook_engine::execution::StepState;
use actbook_engine::policy::Outcome;
use serde::Serialize;

/// An answer that came after its call had been given up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LateView {
    /// `run`, or `compensation`.
    pub call: &'static str,
    /// Counted from 1 for each of the two.
    pub attempt: usize,
    pub outcome: Outcome,
}

impl fmt::Display for LateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, attempt, outcome } = self;
        let of = if *call == "run" { "attempt" } else { "compensation" };
        write!(f, "the answer to {of} {attempt} came late: {outcome}")
    }
}

impl LateView {
    /// Those of a step, in the order of its calls.
    pub(super) fn of(state: &StepState) -> Vec<Self> {
        let late = |call, outcomes: Vec<Option<Outcome>>| {
            let told = outcomes.into_iter().zip(1..).filter_map(|(late, attempt)| Some((late?, attempt)));
            told.map(move |(outcome, attempt)| LateView { call, attempt, outcome }).collect::<Vec<_>>()
        };
        let run = late("run", state.attempts.iter().map(|attempt| attempt.late).collect());
        let undone = late("compensation", state.compensations.iter().map(|one| one.late).collect());
        [run, undone].concat()
    }
}
