//! When each step of an execution ran, waited and was undone: one span an attempt or a compensation, and one for
//! each stretch in which the step waited for its turn, for a person or for a retry.

mod waits;

use std::sync::Arc;

use actbook_engine::execution::{Attempt, Execution, QuestionSubject, StepState, questions};
use actbook_engine::id::{StepId, StepNo};
use actbook_engine::policy::{ExecutionStatus, Outcome, StepStatus};

use super::executions::Executions;
use crate::error::Error;
use waits::RecordedWaits;

/// The spans of an execution and of every step, in the plan's order. Times are in milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub from_ms: i64,
    /// The execution's end. `None`: it has not ended.
    pub ended_ms: Option<i64>,
    /// Stretches in which the whole execution waited for an answer or was paused.
    pub whole: Vec<StepSpan>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSpan {
    pub kind: SpanKind,
    pub from_ms: i64,
    /// `None`: it goes on.
    pub to_ms: Option<i64>,
}

/// What happened in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It could have started, and waited for its turn.
    Queued,
    /// It waited for an answer, or for work that an agent or a person does.
    Waiting,
    /// Nothing was started until the execution was resumed.
    Paused,
    /// An attempt, with its outcome once it has ended.
    Attempt(Option<Outcome>),
    /// Between two automatic attempts.
    RetryDelay,
    /// A compensating call, with its outcome once it has ended.
    Compensation(Option<Outcome>),
}

impl SpanKind {
    /// The kind's word, as serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Attempt(_) => "attempt",
            Self::RetryDelay => "retry_delay",
            Self::Compensation(_) => "compensation",
        }
    }

    /// How the attempt or the compensation ended. `None`: it has not ended, or is neither.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Attempt(outcome) | Self::Compensation(outcome) => outcome,
            Self::Queued | Self::Waiting | Self::Paused | Self::RetryDelay => None,
        }
    }
}

impl Executions<'_> {
    /// The timeline of an execution, by its id or a unique prefix of it.
    pub async fn timeline(self, id: &str) -> Result<Arc<Timeline>, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        if let Some(kept) = self.0.folds.timeline(found.stream, &execution) {
            return Ok(kept);
        }
        let waits = RecordedWaits::of(&*self.wait_entries(found.stream, &execution).await?);
        let timeline = Arc::new(timeline(&execution, waits));
        self.0.folds.put_timeline(found.stream, &execution, &timeline);
        Ok(timeline)
    }
}

fn timeline(execution: &Execution, mut waits: RecordedWaits) -> Timeline {
    waits.end_at(execution.ended_at_ms);
    let releases = release_times(execution, &waits.whole);
    let asked: Vec<Option<StepNo>> = questions(execution)
        .iter()
        .filter(|question| waits_after_an_attempt(question.subject))
        .map(|question| question.step)
        .collect();
    let steps = execution.step_numbers().map(|no| {
        let state = execution.step(no);
        let id = execution.step_id(no);
        let mut spans = attempt_spans(state);
        spans.extend(open_question(state).filter(|_| asked.contains(&Some(no))));
        spans.extend(waits.of_step(&id, state, execution.last_entry_at_ms));
        spans.sort_by_key(|span| (span.from_ms, span.to_ms));
        spans.splice(..0, queued(execution, no, spans.first(), &releases));
        StepTimeline { id, status: state.status(), attempts: state.attempts.len(), spans }
    });
    Timeline {
        from_ms: execution.started_at_ms,
        ended_ms: execution.ended_at_ms,
        steps: steps.collect(),
        whole: waits.whole,
    }
}

/// Whether a question asks about a call that has ended: what its tool asks, its failure or unknown outcome,
/// or a failed undo. The step then waits from that end on; waits for approval and for an agent have other
/// spans.
fn waits_after_an_attempt(subject: QuestionSubject) -> bool {
    match subject {
        QuestionSubject::ToolQuestion
        | QuestionSubject::Failure
        | QuestionSubject::Unknown
        | QuestionSubject::FailedUndo => true,
        QuestionSubject::PlanApproval
        | QuestionSubject::UndoApproval
        | QuestionSubject::StepApproval
        | QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo => false,
    }
}

/// The attempts, what lies between them, and the compensations.
fn attempt_spans(state: &StepState) -> Vec<StepSpan> {
    let mut spans: Vec<StepSpan> = Vec::new();
    let mut before: Option<i64> = None;
    for attempt in &state.attempts {
        if let Some(ended) = before.filter(|ended| *ended < attempt.started_at_ms) {
            let kind = if attempt.forced { SpanKind::Waiting } else { SpanKind::RetryDelay };
            spans.push(StepSpan { kind, from_ms: ended, to_ms: Some(attempt.started_at_ms) });
        }
        before = attempt.ended_at_ms;
        spans.extend(attempt_span(state, attempt));
    }
    let is_scheduled = state.retry.at_ms.is_some() && state.compensations.is_empty();
    if let Some(from_ms) = before.filter(|_| is_scheduled) {
        spans.push(StepSpan { kind: SpanKind::RetryDelay, from_ms, to_ms: None });
    }
    spans.extend(state.compensations.iter().map(|undo| StepSpan {
        kind: SpanKind::Compensation(undo.outcome),
        from_ms: undo.started_at_ms,
        to_ms: undo.ended_at_ms,
    }));
    spans
}

/// The span of an attempt; before an agent began its work, that of waiting for it.
fn attempt_span(state: &StepState, attempt: &Attempt) -> Vec<StepSpan> {
    let (from_ms, to_ms) = (attempt.started_at_ms, attempt.ended_at_ms);
    let worked = StepSpan { kind: SpanKind::Attempt(attempt.outcome), from_ms, to_ms };
    if !attempt.by_agent || to_ms.is_some() {
        return vec![worked];
    }
    match state.agent_started_at_ms {
        None => vec![StepSpan { kind: SpanKind::Waiting, ..worked }],
        Some(began) => vec![
            StepSpan { kind: SpanKind::Waiting, to_ms: Some(began), ..worked },
            StepSpan { from_ms: began, ..worked },
        ],
    }
}

/// From the end of the last call on, the step waits for an answer.
fn open_question(state: &StepState) -> Option<StepSpan> {
    let last = state.compensations.last().or(state.attempts.last())?;
    Some(StepSpan { kind: SpanKind::Waiting, from_ms: last.ended_at_ms?, to_ms: None })
}

/// The times, in order, after which the next step may have started: the ends of pauses and of waits of the whole
/// execution; and where steps run one at a time, the ends of attempts.
fn release_times(execution: &Execution, whole: &[StepSpan]) -> Vec<i64> {
    let mut times: Vec<i64> = whole.iter().filter_map(|span| span.to_ms).collect();
    if execution.plan.policy.concurrency == 1 {
        let attempts = execution.steps.iter().flat_map(|step| &step.attempts);
        times.extend(attempts.filter_map(|attempt| attempt.ended_at_ms));
    }
    times.sort_unstable();
    times
}

/// The span in which a step could have started, up to its first other span. `None`: it started at once, or
/// cannot start yet.
fn queued(execution: &Execution, no: StepNo, first: Option<&StepSpan>, releases: &[i64]) -> Option<StepSpan> {
    let begins = first.map(|span| span.from_ms);
    let from_ms = ready_at(execution, no)?;
    let is_waiting = execution.status() == ExecutionStatus::Running
        && execution.step(no).status() == StepStatus::Pending
        && execution.plan.policy.concurrency != 1;
    if begins.is_none() && !is_waiting {
        return None;
    }
    let before = releases.partition_point(|at| begins.is_none_or(|begins| *at <= begins));
    let released = before.checked_sub(1).and_then(|last| releases.get(last)).copied();
    let from_ms = released.map_or(from_ms, |released| released.max(from_ms));
    begins.is_none_or(|begins| from_ms < begins).then_some(StepSpan {
        kind: SpanKind::Queued,
        from_ms,
        to_ms: begins,
    })
}

/// When the last step that this one comes after had ended; the start if it comes after none. `None`: one has not
/// ended well.
fn ready_at(execution: &Execution, no: StepNo) -> Option<i64> {
    let mut ready = execution.started_at_ms;
    for need in &execution.plan.step(no).dependencies {
        let state = execution.step(need.step);
        let first_success = state.attempts.iter().find(|one| one.outcome == Some(Outcome::Succeeded));
        ready = ready.max(first_success.and_then(|one| one.ended_at_ms).or(state.ended_at_ms)?);
    }
    Some(ready)
}
