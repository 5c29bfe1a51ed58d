//! What is shown: the one set of views that `--json`, the HTTP API and MCP all render.

use std::collections::BTreeMap;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::{PlanRef, Reported};
use actbook_engine::execution::{
    Brief, Execution, Note, Noted, Proposal, Question, StepState, Stop, Stored, Subject, ToUndo, Values,
    brief, questions,
};
use actbook_engine::id::{ExecutionId, Position, StepId, StepNo};
use actbook_engine::plan::Work;
use actbook_engine::policy::{Category, Status, StepStatus};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::context::NoteView;
pub use super::entries::EntryView;
use super::guarantee::guarantee;
use super::late::LateView;
use super::pace::{self, Durations};
use super::quote::{self, quoted};
use super::tool_questions::asks_for;
use crate::error::Error;
use crate::store::{executions, payloads, plans};

/// What a tool says is cut to this where it stands in a question.
pub(super) const SAID_CHARS_MAX: usize = 500;
/// What a step would do is cut to this where it stands in a question.
const WORK_CHARS_MAX: usize = 20_000;

#[derive(Clone, Debug, Serialize)]
pub struct ExecutionView {
    pub id: ExecutionId,
    pub status: Status,
    /// What it comes to once what is in flight has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<&'static str>,
    pub plan: PlanShown,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// None: started before there were projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip)]
    pub agents_may_approve: bool,
    /// Without what is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub progress: ProgressView,
    /// The steps that it is at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current: Vec<StepId>,
    /// Where its plan estimates some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durations: Option<Durations>,
    pub position: u64,
    /// What the plan's policy promises, in one line.
    pub guarantee: String,
    pub steps: Vec<StepView>,
    pub waiting: Vec<WaitingView>,
    /// Notes that say what is in its way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<NoteView>,
    /// The newest of what was put on record beside the plan's work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordView>,
    /// When something went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlanShown {
    pub id: String,
    pub name: String,
    pub version: u32,
    pub digest: String,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProgressView {
    pub done: usize,
    pub total: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct StepView {
    pub id: StepId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub status: StepStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `agent`: an agent or a person does it and reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    pub attempts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// While it runs in this process, where its tool tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<StepProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of its last attempt.
    pub took_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// What its agent told besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Value>,
    /// Answers that came after their call had been given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateView>,
}

/// Something on record beside the plan's work: an act of an agent, or a decision.
#[derive(Clone, Debug, Serialize)]
pub struct RecordView {
    pub position: u64,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Reported>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// An act's facts, or a decision's details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// How far a step's call has come, in its tool's own measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepProgress {
    pub done: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ErrorView {
    pub category: Category,
    pub message: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct WaitingView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    #[serde(rename = "for")]
    pub kind: &'static str,
    pub question: String,
    pub options: Vec<&'static str>,
    /// What a tool asks, in the protocol's own form: the reply has one part under each of these names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Value>,
    /// Who has started an agent's step, and until when nobody else may report on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// Where the journal asks for this approval: the same words asked again are another question.
    #[serde(skip)]
    pub asked: Option<u64>,
}

/// An agent's claim of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimView {
    pub holder: String,
    pub until: String,
}

/// A line of a list.
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionRow {
    pub id: String,
    pub status: String,
    pub plan: PlanShown,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// It could go on, and no living process drives it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    #[serde(skip)]
    pub stream: u64,
}

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

/// RFC 3339 in UTC.
pub fn time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

impl ExecutionRow {
    pub(super) fn of(row: &executions::Execution, digest: &str) -> Self {
        Self {
            id: row.public_id.clone(),
            status: row.status.clone(),
            plan: PlanShown {
                id: row.plan.clone(),
                name: row.plan_name.clone(),
                version: u32::try_from(row.plan_version).unwrap_or(u32::MAX),
                digest: digest.to_owned(),
            },
            task: row.task.clone(),
            project: row.project.clone(),
            started_at: time(row.started_at),
            ended_at: row.ended_at.map(time),
            stopped: false,
            stream: row.id,
        }
    }
}

impl PlanView {
    pub(super) fn of(row: &plans::Plan) -> Self {
        Self {
            id: row.id.clone(),
            name: row.name.clone(),
            version: row.version,
            digest: row.digest.clone(),
            steps: row.steps,
            project: row.project.clone(),
            saved_at: time(row.saved_at),
        }
    }
}

impl Service {
    pub(super) async fn render(&self, execution: &Execution) -> Result<ExecutionView, Error> {
        let values = self.shown_values(execution).await?;
        let steps: Vec<StepView> = execution.numbers().map(|no| step_view(execution, no, &values)).collect();
        let brief = if went_wrong(execution) { Some(self.brief(execution).await?) } else { None };
        let undo = brief.as_ref().map_or(&[][..], |brief| &brief.undo);
        let open = questions(execution);
        let waiting = open.iter().map(|question| {
            let step = question.step.map(|no| execution.step(no));
            let asked = step.and_then(|step| step.asked).map(|stored| stored.position.0);
            let asked = asked.or(proposed_at(execution, question));
            let said = step.and_then(|step| step.question());
            let said = said.and_then(|stored| values.0.get(&stored.position));
            let pin = step.and_then(|step| step.asked_pin);
            WaitingView {
                asked,
                claim: claim_view(question, step),
                ..waiting(&execution.plan_ref, question, &steps, undo, said.map(Arc::as_ref), pin)
            }
        });
        let waiting: Vec<WaitingView> = waiting.collect();
        let records = execution.notes.iter().map(|note| record_view(execution, note, &values)).collect();
        let finished = |step: &&StepView| matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped);
        let done = steps.iter().filter(finished).count();
        let plan = &execution.plan_ref;
        let inputs = execution.inputs.and_then(|stored| values.0.get(&stored.position));
        let inputs = inputs.map(|inputs| inputs.as_ref().clone());
        Ok(ExecutionView {
            id: execution.id.clone(),
            status: execution.status(),
            ending: execution.stop.filter(|_| execution.ended.is_none()).map(|stop| match stop {
                Stop::Cancel => "cancelled",
                Stop::Abandon => "failed",
            }),
            plan: PlanShown {
                id: plan.id.to_string(),
                name: plan.name.clone(),
                version: plan.version,
                digest: plan.digest.to_string(),
            },
            task: execution.task.clone(),
            project: execution.project.clone(),
            agents_may_approve: execution.agents_may_approve,
            inputs: inputs.filter(|inputs| !inputs.is_null()),
            started_at: time(execution.started_at_ms),
            ended_at: execution.ended_at_ms.map(time),
            progress: ProgressView { done, total: steps.len() },
            current: pace::current(&steps, &waiting),
            durations: pace::durations(&steps),
            blockers: self.blockers(execution).await?,
            position: execution.position.0,
            guarantee: guarantee(&execution.plan),
            brief,
            steps,
            waiting,
            records,
        })
    }

    /// The same, with what this process knows beyond the journal.
    pub(super) async fn render_live(
        &self,
        stream: u64,
        execution: &Execution,
    ) -> Result<ExecutionView, Error> {
        let mut view = self.render(execution).await?;
        for (no, step) in execution.numbers().zip(&mut view.steps) {
            step.progress = self.progress(stream, no, step.status);
        }
        Ok(view)
    }

    pub(super) fn progress(&self, stream: u64, step: StepNo, status: StepStatus) -> Option<StepProgress> {
        if !matches!(status, StepStatus::Running | StepStatus::Compensating) {
            return None;
        }
        let said = self.runner.get()?.progress(stream, step)?;
        Some(StepProgress { done: said.done, total: said.total, message: said.message })
    }

    pub async fn brief(&self, execution: &Execution) -> Result<Brief, Error> {
        let mut values = Values::default();
        loop {
            match brief(execution, &values) {
                Ok(brief) => return Ok(brief),
                Err(missing) => self.load(missing.0, &mut values).await?,
            }
        }
    }

    /// What was erased reads as null.
    pub(super) async fn load(&self, positions: Vec<Position>, values: &mut Values) -> Result<(), Error> {
        let wanted: Vec<u64> = positions.iter().map(|position| position.0).collect();
        for payload in payloads::at_each(&self.db, self.tenant, &wanted).await? {
            let value = serde_json::from_slice(&payload.body).unwrap_or_default();
            values.0.insert(Position(payload.position), Arc::new(value));
        }
        for position in positions {
            values.0.entry(position).or_default();
        }
        Ok(())
    }

    async fn shown_values(&self, execution: &Execution) -> Result<Values, Error> {
        let stored = |step: &StepState| {
            let arguments = step.attempts.last().and_then(|attempt| attempt.arguments).or(step.asked);
            let said = step.error.and_then(|error| error.said);
            [arguments, step.output, said, step.facts]
                .into_iter()
                .flatten()
                .map(|stored| stored.position)
                .collect::<Vec<_>>()
        };
        let mut values = Values::default();
        let notes = execution.notes.iter().filter_map(|note| match &note.what {
            Noted::Action { facts, .. } => Some(facts.position),
            Noted::Decision { details, .. } => details.map(|stored| stored.position),
        });
        let of_steps = execution.steps.iter().flat_map(stored);
        let inputs = execution.inputs.map(|stored| stored.position);
        self.load(of_steps.chain(notes).chain(inputs).collect(), &mut values).await?;
        Ok(values)
    }
}

fn went_wrong(execution: &Execution) -> bool {
    use StepStatus as S;
    let wrong = |step: &StepState| {
        matches!(
            step.status(),
            S::Failed | S::Unknown | S::Cancelled | S::Compensating | S::Compensated | S::CompensationFailed
        )
    };
    !execution.erased && execution.steps.iter().any(wrong)
}

fn step_view(execution: &Execution, no: StepNo, values: &Values) -> StepView {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let value = |stored: Option<Stored>| {
        stored.and_then(|stored| values.0.get(&stored.position)).map(|value| value.as_ref().clone())
    };
    let arguments = state.attempts.last().and_then(|attempt| attempt.arguments).or(state.asked);
    let error = state.error.filter(|_| !has_begun_anew(state)).map(|error| ErrorView {
        category: error.category,
        message: value(error.said).as_ref().and_then(message_of).unwrap_or_else(|| silent(execution, state)),
    });
    let action = match &spec.work {
        Work::Tool { .. } | Work::AgentTool { .. } => None,
        Work::Action { action, .. } => Some(value(arguments).map_or_else(|| action.clone(), text_of)),
    };
    StepView {
        id: spec.id.clone(),
        name: spec.name.clone(),
        status: state.status(),
        tool: spec.tool().map(str::to_owned),
        action,
        by: spec.by_agent().then_some("agent"),
        attempts: state.attempts.len(),
        started_at: state.started_at_ms.map(time),
        progress: None,
        ended_at: state.ended_at_ms.map(time),
        took_ms: last_started(state).zip(state.ended_at_ms).map(|(from, to)| to - from),
        estimated_ms: pace::estimate(spec),
        arguments: value(arguments).filter(|_| spec.tool().is_some()),
        output: value(state.output).filter(|output| !output.is_null()),
        error,
        recorded: value(state.facts).filter(|facts| !facts.is_null()),
        late: LateView::of(state),
    }
}

/// The step waits to run or runs again, so that its last error is about an earlier attempt. Between two
/// automatic attempts the error says what is being retried.
fn has_begun_anew(state: &StepState) -> bool {
    match state.status() {
        StepStatus::Pending | StepStatus::AwaitingApproval | StepStatus::AwaitingAgent => true,
        StepStatus::Running => state.last().is_some_and(|attempt| attempt.open()),
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

/// When its last attempt, or its agent, began: what came before is told by the number of attempts.
pub(super) fn last_started(state: &StepState) -> Option<i64> {
    let attempt = state.last().map(|attempt| attempt.started_at_ms);
    state.agent_began_ms.or(attempt).or(state.started_at_ms)
}

fn record_view(execution: &Execution, note: &Note, values: &Values) -> RecordView {
    let value = |stored: &Stored| values.0.get(&stored.position).map(|value| value.as_ref().clone());
    let (status, decision, reason, details) = match &note.what {
        Noted::Action { status, facts } => (*status, None, None, value(facts)),
        Noted::Decision { decision, reason, details } => {
            (None, Some(decision.clone()), reason.clone(), details.as_ref().and_then(value))
        }
    };
    RecordView {
        position: note.position.0,
        at: time(note.at_ms),
        step: note.step.map(|no| execution.step_id(no)),
        status,
        decision,
        reason,
        details: details.filter(|details| !details.is_null()),
    }
}

/// An action's text as it was bound.
fn text_of(bound: Value) -> String {
    match bound {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn message_of(said: &Value) -> Option<String> {
    said.get("message").and_then(Value::as_str).map(str::to_owned)
}

/// What to say of an end about which nobody said anything.
fn silent(execution: &Execution, state: &StepState) -> String {
    let said = match (state.last(), &state.rejected) {
        (_, Some(reason)) => return format!("it was rejected: {reason}"),
        (Some(attempt), _) if attempt.costs_nothing() => "its driver went away before the call was sent",
        (Some(attempt), _) if attempt.takeover => "its driver went away while the call was out",
        (Some(attempt), _) if attempt.by_agent && execution.stopping() => {
            "the agent had not reported when the execution was stopped"
        }
        (Some(attempt), _) if attempt.by_agent => "the agent did not report in time",
        (Some(_), _) => "no reason was given",
        (None, _) => "it was rejected",
    };
    said.to_owned()
}

fn waiting(
    plan: &PlanRef,
    question: &Question,
    steps: &[StepView],
    undo: &[ToUndo],
    asked: Option<&Value>,
    pin: Option<Digest>,
) -> WaitingView {
    let view = question.step.map(|no| &steps[no.index()]);
    let id = view.map(|view| view.id.to_string()).unwrap_or_default();
    let said = view
        .and_then(|view| view.error.as_ref())
        .map(|error| format!(" ({}: {})", error.category, quoted(&error.message, SAID_CHARS_MAX)));
    let said = said.unwrap_or_default();
    let answers: Vec<&'static str> = question.answers.iter().map(|answer| answer.as_str()).collect();
    let approvals = vec!["approve", "reject"];
    let (kind, text, options) = match question.subject {
        Subject::PlanApproval => {
            let PlanRef { name, version, digest, .. } = plan;
            let name = quote::name(name);
            let text = format!("May the plan {name} start, as version {version} ({digest}) has it?");
            ("approval", text, approvals)
        }
        Subject::UndoApproval => {
            ("approval", "May what has been done be undone, as the brief lists it?".to_owned(), approvals)
        }
        Subject::StepApproval => {
            let pinned = pin.map(|pin| format!(", as its definition {pin} has it")).unwrap_or_default();
            ("approval", format!("May step `{id}` run? {}{pinned}", work_text(view)), approvals)
        }
        Subject::AgentWork => (
            "agent",
            format!("Step `{id}` is yours: {}", work_text(view)),
            vec!["started", "succeeded", "failed"],
        ),
        Subject::AgentUndo => {
            let what = undo.iter().find(|one| one.step.as_str() == id).and_then(|one| one.action.as_deref());
            let text = what.map_or("take its effect back".to_owned(), |what| quoted(what, WORK_CHARS_MAX));
            ("agent", format!("Undo step `{id}`: {text}"), vec!["compensated", "failed"])
        }
        Subject::Question => ("decision", format!("Step `{id}` asks{}", asks_for(asked)), answers),
        Subject::Failure => ("decision", format!("Step `{id}` failed{said}. What now?"), answers),
        Subject::Unknown => {
            ("decision", format!("Nobody knows whether step `{id}` took effect{said}. Did it?"), answers)
        }
        Subject::FailedUndo => {
            ("decision", format!("Undoing step `{id}` did not work{said}. What now?"), answers)
        }
    };
    let requests = asked.and_then(|asked| asked.get("inputRequests")).cloned();
    WaitingView {
        step: view.map(|view| view.id.clone()),
        kind,
        question: text,
        options,
        requests,
        claim: None,
        asked: None,
    }
}

/// Where the journal proposes the undo that this question is about.
fn proposed_at(execution: &Execution, question: &Question) -> Option<u64> {
    match (&execution.proposal, question.subject) {
        (Proposal::Asked { position, .. }, Subject::UndoApproval) => Some(position.0),
        _ => None,
    }
}

fn claim_view(question: &Question, step: Option<&StepState>) -> Option<ClaimView> {
    let claim = step.and_then(|step| step.claim.as_ref());
    let claim = claim.filter(|_| question.subject == Subject::AgentWork)?;
    Some(ClaimView { holder: claim.holder.clone(), until: time(claim.until_ms) })
}

fn work_text(view: Option<&StepView>) -> String {
    let Some(view) = view else { return String::new() };
    let arguments = view.arguments.as_ref().map(|arguments| format!(" with {arguments}")).unwrap_or_default();
    match (&view.tool, &view.action) {
        (Some(tool), _) => quote::line(&format!("It calls {tool}{arguments}"), WORK_CHARS_MAX),
        (None, Some(action)) => quoted(action, WORK_CHARS_MAX),
        (None, None) => String::new(),
    }
}

/// Executions' public ids by stream, for showing entries.
pub(super) type Names = BTreeMap<u64, String>;
