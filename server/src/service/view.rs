//! The views of executions and plans that `--json`, the HTTP API and MCP all render.

use std::collections::BTreeMap;

use actbook_engine::event::ReportedStatus;
use actbook_engine::execution::{
    Annotation, AnnotationKind, ApprovalAnswer, Brief, Execution, LoadedPayloads, PayloadRef,
    SESSION_PLAN_ID, SessionState, StepState, brief,
};
use actbook_engine::id::{ExecutionId, StepId, StepNo, StreamId};
use actbook_engine::plan::StepWork;
use actbook_engine::policy::{EndStatus, ErrorCategory, ExecutionStatus, StepStatus};
use serde::Serialize;
use serde_json::Value;

use super::context::NoteView;
pub use super::entries::EntryView;
use super::executions::Executions;
use super::guarantee::guarantee;
use super::late::LateOutcomeView;
use super::progress::{self, Durations};
use super::question_content::QuestionContent;
use super::report_checks::ReportChecksView;
use super::step::ApprovalView;
use super::step_values::StepValues;
use super::waiting::waiting_views;
pub use super::waiting::{AnswerOption, ClaimView, QuestionKind, WaitingView};
use crate::error::{Corruption, Error};
use crate::store::{executions, plans};

/// Longest quotation of a tool's text in a question.
pub(super) const QUOTE_CHARS_MAX: usize = 500;

/// An execution as it is shown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionView {
    pub id: ExecutionId,
    pub status: ExecutionStatus,
    /// `cancelled` or `failed`: the status that it will end with once the calls in flight have ended.
    pub ending: Option<EndStatus>,
    pub plan: PlanRefView,
    pub task: Option<String>,
    /// `None`: started before projects existed.
    pub project: Option<String>,
    /// `None`: it runs a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
    #[serde(skip)]
    pub agents_may_approve: bool,
    /// Without secret inputs.
    pub inputs: Option<Value>,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub progress: ProgressView,
    /// The steps that are running or wait for an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current: Vec<StepId>,
    /// `None`: the plan estimates no step.
    pub durations: Option<Durations>,
    pub position: u64,
    /// What the plan's policy promises, in one line.
    pub guarantee: String,
    pub steps: Vec<StepView>,
    pub waiting: Vec<WaitingView>,
    /// The newest undo was rejected, and none was approved since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_rejected: Option<ApprovalView>,
    /// Notes that say what blocks it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<NoteView>,
    /// The newest records of actions outside of the plan and of decisions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordView>,
    /// How what agents reported agrees with the calls that a guard saw. `None`: there is nothing to compare, or the view
    /// is one of many while the execution runs, as in the answer to an agent's act.
    pub reports: Option<ReportChecksView>,
    /// `None`: no undo waits for a yes, and no step has failed, is unknown, or was cancelled or undone.
    pub brief: Option<Brief>,
}

/// Whether an execution of this plan goes on only if a process drives it. A session that is open waits for its agent.
pub(super) fn needs_driver(status: ExecutionStatus, plan_id: &str) -> bool {
    match status {
        ExecutionStatus::Running => plan_id != SESSION_PLAN_ID,
        ExecutionStatus::Compensating => true,
        ExecutionStatus::Paused
        | ExecutionStatus::Blocked
        | ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled
        | ExecutionStatus::Compensated => false,
    }
}

impl ExecutionView {
    /// Whether the execution goes on only if a process drives it.
    pub fn needs_driver(&self) -> bool {
        needs_driver(self.status, &self.plan.id)
    }

    /// The steps whose effect was undone (status `compensated`), in the plan's order.
    pub fn undone(&self) -> impl Iterator<Item = &StepView> {
        self.steps.iter().filter(|step| step.status == StepStatus::Compensated)
    }

    /// `2 of 3 steps done`, and how many of them were skipped.
    pub fn progress_text(&self) -> String {
        let ProgressView { done, total } = self.progress;
        match self.steps.iter().filter(|step| step.status == StepStatus::Skipped).count() {
            0 => format!("{done} of {total} steps done"),
            skipped => format!("{done} of {total} steps done, {skipped} of them skipped"),
        }
    }

    /// Whether it ended failed after an undo, because some of what was done cannot be undone.
    pub fn remains_after_undo(&self) -> bool {
        let remains = self.brief.as_ref().is_some_and(|brief| !brief.cannot_undo.is_empty());
        self.status == ExecutionStatus::Failed && remains && self.undone().next().is_some()
    }

    /// How the calls of a session stand, such as `3 calls: 2 succeeded, 1 unknown`. `None`: it is no session.
    pub fn call_summary(&self) -> Option<String> {
        self.session.as_ref()?;
        let mut counts: Vec<(StepStatus, usize)> = Vec::new();
        for step in &self.steps {
            match counts.iter_mut().find(|(status, _)| *status == step.status) {
                Some((_, count)) => *count += 1,
                None => counts.push((step.status, 1)),
            }
        }
        let calls =
            if self.steps.len() == 1 { "1 call".to_owned() } else { format!("{} calls", self.steps.len()) };
        let word = |status: &StepStatus| match status {
            StepStatus::AwaitingAgent => "in flight",
            other => other.as_str(),
        };
        let counted: Vec<String> =
            counts.iter().map(|(status, count)| format!("{count} {}", word(status))).collect();
        Some(if counted.is_empty() { calls } else { format!("{calls}: {}", counted.join(", ")) })
    }
}

/// What is particular about a session of an agent that follows no plan.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct SessionView {
    pub client: String,
    pub folder: Option<String>,
    pub labels: Vec<String>,
    /// The calls that have started, those of earlier parts included.
    pub calls: u32,
    /// The execution that is the part of the session before this one.
    pub continues: Option<ExecutionId>,
}

impl SessionView {
    fn of(session: &SessionState) -> Self {
        Self {
            client: session.start.client.clone(),
            folder: session.start.folder.clone(),
            labels: session.labels.iter().cloned().collect(),
            calls: session.calls_started(),
            continues: session.start.continues.clone(),
        }
    }
}

/// The version of a plan that an execution runs.
#[derive(Clone, Debug, Serialize)]
pub struct PlanRefView {
    pub id: String,
    pub name: String,
    pub version: u32,
    pub digest: String,
}

/// Numbers of steps that have succeeded or were skipped, and of all steps.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProgressView {
    pub done: usize,
    pub total: usize,
}

impl ProgressView {
    /// Whether no step is left.
    pub fn is_complete(self) -> bool {
        self.done == self.total
    }
}

/// A step of an execution as it is shown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct StepView {
    pub id: StepId,
    pub name: Option<String>,
    pub status: StepStatus,
    pub tool: Option<String>,
    pub action: Option<String>,
    /// `agent`: an agent or a person performs it and reports. `None`: Actbook calls the tool.
    pub by: Option<&'static str>,
    pub attempts: usize,
    pub started_at: Option<String>,
    /// While it runs in this process and its tool reports progress.
    pub progress: Option<StepProgress>,
    pub ended_at: Option<String>,
    /// Duration of the last attempt.
    pub took_ms: Option<i64>,
    pub estimated_ms: Option<u64>,
    /// The arguments of the next attempt, as far as they are known; if none follows, those of the last one.
    pub arguments: Option<Value>,
    pub output: Option<Value>,
    pub error: Option<ErrorView>,
    /// Further facts that its agent reported.
    pub recorded: Option<Value>,
    /// Outcomes of calls that were answered after they had been given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateOutcomeView>,
}

/// A record beside the plan's steps: an action of an agent, or a decision.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct RecordView {
    pub position: u64,
    pub at: String,
    pub step: Option<StepId>,
    pub status: Option<ReportedStatus>,
    pub decision: Option<String>,
    pub reason: Option<String>,
    /// The facts of an action, or the details of a decision.
    pub details: Option<Value>,
}

/// The progress of a step's call, in the tool's own unit.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepProgress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// The error of a step.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorView {
    pub category: ErrorCategory,
    pub message: String,
}

/// An execution as lists show it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionSummary {
    pub id: String,
    pub status: ExecutionStatus,
    pub plan: PlanRefView,
    pub task: Option<String>,
    pub project: Option<String>,
    pub started_at: String,
    pub ended_at: Option<String>,
    /// The actor that started it. `None` in lists that are no pages.
    pub started_by: Option<String>,
    /// Steps that have succeeded or were skipped. `None` in a list while it runs.
    pub done: Option<u64>,
    /// Steps of its plan. `None`: a former version started it, and it has not changed since.
    pub total: Option<u64>,
    /// The error of the first step that failed or is unknown, on one line. `None` while it runs.
    pub first_error: Option<String>,
    /// It is running or compensating, and no live process drives it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// It has ended, and an undo of it waits for a yes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undo_waits: bool,
    #[serde(skip)]
    pub stream: StreamId,
}

/// A saved plan version as lists show it.
#[derive(Clone, Debug, Serialize)]
pub struct PlanView {
    pub id: String,
    pub name: String,
    pub version: u64,
    pub digest: String,
    pub steps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub saved_at: String,
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC, with milliseconds; a time out of range as the number.
pub fn format_time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

impl ExecutionSummary {
    /// The summary of a row; `digest` is that of its plan version. `stopped` is false until the caller sets
    /// it. `Err`: the row's status was forged or damaged.
    pub(super) fn of(row: &executions::ExecutionRow, digest: &str) -> Result<Self, Error> {
        Ok(Self {
            id: row.public_id.clone(),
            status: parse_status(row)?,
            plan: PlanRefView {
                id: row.plan.clone(),
                name: row.plan_name.clone(),
                version: u32::try_from(row.plan_version).unwrap_or(u32::MAX),
                digest: digest.to_owned(),
            },
            task: row.task.clone(),
            project: row.project.clone(),
            started_at: format_time(row.started_at),
            ended_at: row.ended_at.map(format_time),
            started_by: None,
            done: row.done,
            total: row.total,
            first_error: None,
            stopped: false,
            undo_waits: row.wake_at == Some(executions::WAITS_AFTER_END),
            stream: row.id,
        })
    }
}

/// The status in an execution's row. `Err`: the row was forged or damaged.
pub(super) fn parse_status(row: &executions::ExecutionRow) -> Result<ExecutionStatus, Error> {
    row.status.parse().map_err(|error| Error::Corrupt(Corruption::Row(error)))
}

impl PlanView {
    pub(super) fn of(row: &plans::PlanRow) -> Self {
        Self {
            id: row.id.clone(),
            name: row.name.clone(),
            version: row.version,
            digest: row.digest.clone(),
            steps: row.steps,
            project: row.project.clone(),
            saved_at: format_time(row.saved_at),
        }
    }
}

impl Executions<'_> {
    /// The view of a folded execution, from the journal alone.
    pub(super) async fn render(
        self,
        execution: &Execution,
        held: StepValues,
    ) -> Result<ExecutionView, Error> {
        let values = self.load_shown_values(execution, held).await?;
        let steps: Vec<StepView> =
            execution.step_numbers().map(|no| step_view(execution, no, &values)).collect();
        let brief = if needs_brief(execution) { Some(self.brief(execution).await?) } else { None };
        let waiting = waiting_views(QuestionContent {
            execution,
            steps: &steps,
            brief: brief.as_ref(),
            values: &values,
        });
        let finished = |step: &&StepView| matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped);
        let done = steps.iter().filter(finished).count();
        let plan = &execution.plan_ref;
        let inputs = execution.inputs.and_then(|stored| values.0.get(&stored.position));
        Ok(ExecutionView {
            id: execution.id.clone(),
            status: execution.status(),
            ending: execution.stop.filter(|_| execution.ended.is_none()),
            plan: PlanRefView {
                id: plan.id.to_string(),
                name: plan.name.clone(),
                version: plan.version,
                digest: plan.digest.to_string(),
            },
            task: execution.task.clone(),
            project: execution.project.clone(),
            session: execution.session.as_deref().map(SessionView::of),
            agents_may_approve: execution.agents_may_approve,
            inputs: inputs.map(|inputs| inputs.as_ref().clone()).filter(|inputs| !inputs.is_null()),
            started_at: format_time(execution.started_at_ms),
            ended_at: execution.ended_at_ms.map(format_time),
            progress: ProgressView { done, total: steps.len() },
            current: progress::current_steps(&steps, &waiting),
            durations: progress::sum_durations(&steps),
            blockers: self.blockers(execution).await?,
            undo_rejected: self.undo_rejection(execution).await?,
            position: execution.position.0,
            guarantee: guarantee(execution),
            brief,
            steps,
            waiting,
            records: execution.annotations.iter().map(|note| record_view(execution, note, &values)).collect(),
            reports: None,
        })
    }

    /// Like `render`, with the live progress of calls that this process makes.
    pub(super) async fn render_live(
        self,
        stream: StreamId,
        state: &Execution,
        held: StepValues,
    ) -> Result<ExecutionView, Error> {
        let mut view = self.render(state, held).await?;
        for (no, step) in state.step_numbers().zip(&mut view.steps) {
            step.progress = self.progress(stream, no, step.status);
        }
        self.link_questions(&mut view).await?;
        self.0.withhold_view(&mut view);
        Ok(view)
    }

    /// Gives each question the address of the page on which a person answers it, if a live process serves pages.
    async fn link_questions(self, view: &mut ExecutionView) -> Result<(), Error> {
        if view.waiting.iter().all(|waiting| waiting.id.is_none()) {
            return Ok(());
        }
        let served = self.served_urls().await?;
        let Some(base_url) = served.first() else { return Ok(()) };
        let id = view.id.as_str();
        for waiting in view.waiting.iter_mut().filter(|waiting| waiting.id.is_some()) {
            waiting.page = Some(format!("{base_url}/executions/{id}#{}", waiting.anchor(id)));
        }
        Ok(())
    }

    /// The live progress of a step's call. `None`: no call runs in this process, or its tool reports none.
    pub(super) fn progress(self, stream: StreamId, step: StepNo, status: StepStatus) -> Option<StepProgress> {
        if !matches!(status, StepStatus::Running | StepStatus::Compensating) {
            return None;
        }
        let reported = self.0.runner.get()?.call_progress(stream, step)?;
        Some(StepProgress { done: reported.done, total: reported.total, message: reported.message })
    }

    /// The recovery brief of an execution: what is done, may have run or is not done, and what an undo would
    /// do.
    pub async fn brief(self, execution: &Execution) -> Result<Brief, Error> {
        let mut values = LoadedPayloads::default();
        loop {
            match brief(execution, &values) {
                Ok(brief) => return Ok(brief),
                Err(missing) => self.load_values(missing.0, &mut values).await?,
            }
        }
    }
}

/// Whether the view shows the brief: an undo waits for a yes, or a step has failed, is unknown, or was
/// cancelled or undone.
fn needs_brief(execution: &Execution) -> bool {
    use StepStatus as S;
    let is_affected = |step: &StepState| {
        matches!(
            step.status(),
            S::Failed | S::Unknown | S::Cancelled | S::Compensating | S::Compensated | S::CompensationFailed
        )
    };
    !execution.erased && (execution.awaits_undo_approval() || execution.steps.iter().any(is_affected))
}

/// The view of a step, without the live progress of its call; `values` holds what it shows.
pub(super) fn step_view(execution: &Execution, no: StepNo, values: &LoadedPayloads) -> StepView {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let value = |stored: Option<PayloadRef>| {
        stored.and_then(|stored| values.0.get(&stored.position)).map(|value| value.as_ref().clone())
    };
    let arguments = state.current_arguments();
    let error = state.error.filter(|_| !is_error_outdated(state)).map(|error| ErrorView {
        category: error.category,
        message: value(error.detail)
            .as_ref()
            .and_then(message_of)
            .unwrap_or_else(|| default_error_message(execution, state)),
    });
    let action = match &spec.work {
        StepWork::Tool { .. } | StepWork::AgentTool { .. } => None,
        StepWork::Action { action, .. } => Some(value(arguments).map_or_else(|| action.clone(), action_text)),
    };
    StepView {
        id: spec.id.clone(),
        name: spec.name.clone(),
        status: state.status(),
        tool: spec.tool().map(str::to_owned),
        action,
        by: spec.is_agent_step().then_some("agent"),
        attempts: state.attempts.len(),
        started_at: state.started_at_ms.map(format_time),
        progress: None,
        ended_at: state.ended_at_ms.map(format_time),
        took_ms: last_started_at_ms(state).zip(last_ended_at_ms(state)).map(|(from, to)| to - from),
        estimated_ms: progress::estimated_ms(spec),
        arguments: value(arguments).filter(|_| spec.tool().is_some()),
        output: value(state.output).filter(|output| !output.is_null()),
        error,
        recorded: value(state.facts).filter(|facts| !facts.is_null()),
        late: LateOutcomeView::of(state),
    }
}

/// Whether the step's last error is outdated: it waits to run again, or another attempt is in flight. Between
/// two automatic attempts the error is shown: it says what is being retried.
fn is_error_outdated(state: &StepState) -> bool {
    match state.status() {
        StepStatus::Pending | StepStatus::AwaitingApproval | StepStatus::AwaitingAgent => true,
        StepStatus::Running => state.last_attempt().is_some_and(|attempt| attempt.is_open()),
        StepStatus::Succeeded
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensating
        | StepStatus::Compensated
        | StepStatus::CompensationFailed => false,
    }
}

/// When the step's last attempt, or its agent, began, in milliseconds since 1970. `None`: it has not begun.
pub(super) fn last_started_at_ms(state: &StepState) -> Option<i64> {
    let attempt = state.last_attempt().map(|attempt| attempt.started_at_ms);
    state.agent_started_at_ms.or(attempt).or(state.started_at_ms)
}

/// When the step's last attempt, or its agent, ended, in milliseconds since 1970; a compensation came later. `None`: it
/// has not ended, or it is not known any more.
fn last_ended_at_ms(state: &StepState) -> Option<i64> {
    match state.last_attempt() {
        Some(attempt) => attempt.ended_at_ms,
        None => state.ended_at_ms.filter(|_| state.compensations.is_empty()),
    }
}

/// The view of a recorded action or decision; its details come from `values`.
fn record_view(execution: &Execution, note: &Annotation, values: &LoadedPayloads) -> RecordView {
    let value = |stored: &PayloadRef| values.0.get(&stored.position).map(|value| value.as_ref().clone());
    let (status, decision, reason, details) = match &note.kind {
        AnnotationKind::Action { status, facts } => (*status, None, None, value(facts)),
        AnnotationKind::Decision { decision, reason, details } => {
            (None, Some(decision.clone()), reason.clone(), details.as_ref().and_then(value))
        }
    };
    RecordView {
        position: note.position.0,
        at: format_time(note.at_ms),
        step: note.step.map(|no| execution.step_id(no)),
        status,
        decision,
        reason,
        details: details.filter(|details| !details.is_null()),
    }
}

/// The text of an action as it was bound; JSON if it is not a text.
fn action_text(bound: Value) -> String {
    match bound {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The `message` of a tool's error. `None`: it has none.
fn message_of(error: &Value) -> Option<String> {
    error.get("message").and_then(Value::as_str).map(str::to_owned)
}

/// The error message of a step whose end came without a message.
fn default_error_message(execution: &Execution, state: &StepState) -> String {
    if let ApprovalAnswer::Rejected { reason: Some(reason) } = &state.approval.answer {
        return format!("it was rejected: {reason}");
    }
    let message = match state.last_attempt() {
        Some(attempt) if attempt.is_proven_unsent() => "its driver was lost before the call was sent",
        Some(attempt) if attempt.takeover => "its driver was lost while the call was in flight",
        Some(attempt) if attempt.by_agent && execution.is_stopping() => {
            "the agent had not reported when the execution was stopped"
        }
        Some(attempt) if attempt.by_agent => "the agent did not report in time",
        Some(_) => "no reason was given",
        None => "it was rejected",
    };
    message.to_owned()
}

/// Ids of executions by stream.
pub(super) type ExecutionIds = BTreeMap<StreamId, String>;
