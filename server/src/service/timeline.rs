//! When each step of an execution ran: one span an attempt, a compensation, and the wait between two attempts.

use actbook_engine::execution::{Attempt, Execution, StepState};
use actbook_engine::id::StepId;
use actbook_engine::policy::{Outcome, StepStatus};

use super::executions::Executions;
use crate::error::Error;

/// The spans of every step, in the plan's order. Times are in milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub from_ms: i64,
    /// The execution's end. `None`: it has not ended.
    pub ended_ms: Option<i64>,
    pub steps: Vec<StepTimeline>,
}

/// The spans of one step, in order.
#[derive(Clone, Debug)]
pub struct StepTimeline {
    pub id: StepId,
    pub status: StepStatus,
    pub attempts: usize,
    pub spans: Vec<StepSpan>,
}

/// A stretch of time in which one thing happened to a step.
#[derive(Clone, Copy, Debug)]
pub struct StepSpan {
    pub kind: SpanKind,
    pub from_ms: i64,
    /// `None`: it goes on.
    pub to_ms: Option<i64>,
}

/// What happened in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// An attempt, with its outcome once it has ended.
    Attempt(Option<Outcome>),
    /// Between two automatic attempts.
    RetryDelay,
    /// A compensating call.
    Compensation,
}

impl SpanKind {
    /// The kind's word, as serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attempt(_) => "attempt",
            Self::RetryDelay => "retry_delay",
            Self::Compensation => "compensation",
        }
    }
}

impl Executions<'_> {
    /// The timeline of an execution, by its id or a unique prefix of it.
    pub async fn timeline(self, id: &str) -> Result<Timeline, Error> {
        let execution = self.load(id).await?;
        let steps = execution.step_numbers().map(|no| step_timeline(&execution, no, execution.step(no)));
        Ok(Timeline {
            from_ms: execution.started_at_ms,
            ended_ms: execution.ended_at_ms,
            steps: steps.collect(),
        })
    }
}

fn step_timeline(execution: &Execution, no: actbook_engine::id::StepNo, state: &StepState) -> StepTimeline {
    let mut spans: Vec<StepSpan> = Vec::new();
    let mut before: Option<i64> = None;
    for attempt in &state.attempts {
        if let Some(ended) = before.filter(|ended| *ended < attempt.started_at_ms) {
            let to_ms = Some(attempt.started_at_ms);
            spans.push(StepSpan { kind: SpanKind::RetryDelay, from_ms: ended, to_ms });
        }
        spans.push(span(SpanKind::Attempt(attempt.outcome), attempt));
        before = attempt.ended_at_ms;
    }
    spans.extend(state.compensations.iter().map(|undo| span(SpanKind::Compensation, undo)));
    let attempts = state.attempts.len();
    StepTimeline { id: execution.step_id(no), status: state.status(), attempts, spans }
}

fn span(kind: SpanKind, attempt: &Attempt) -> StepSpan {
    StepSpan { kind, from_ms: attempt.started_at_ms, to_ms: attempt.ended_at_ms }
}
