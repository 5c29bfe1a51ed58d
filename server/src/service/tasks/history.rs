//! The history of a task: its plans, executions, decisions and notes, in the order in which they happened.
//! Their texts are data, shown with author and journal position.

use std::collections::BTreeMap;

use actbook_engine::any_event;
use actbook_engine::event::Event;
use actbook_engine::id::{ExecutionId, PlanId, StreamId};
use actbook_engine::note::NoteScope;
use serde::Serialize;
use serde_json::Value;

use super::{TaskView, Tasks, no_such_task};
use crate::error::Error;
use crate::service::ExecutionFilter;
use crate::service::context::NoteView;
use crate::service::view::{ExecutionSummary, PlanView, format_time};
use crate::service::withhold::WITHHELD_TEXT;
use crate::store::tokenizer::json_to_text;
use crate::store::{Entry, journal, notes, payloads, plans};

const PLANS_MAX: u64 = 100;
/// The newest executions; older ones are found with `list`.
const EXECUTIONS_MAX: u64 = 20;
/// Notes of each owner.
const NOTES_MAX: u64 = 200;
/// Longest text of one entry.
const TEXT_CHARS_MAX: usize = 2_000;

/// A task with everything that belongs to it.
#[derive(Clone, Debug, Serialize)]
pub struct TaskHistory {
    /// `None`: plans, executions or notes name the task, but it was never added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskView>,
    pub subtasks: Vec<TaskView>,
    pub plans: Vec<PlanView>,
    pub executions: Vec<ExecutionSummary>,
    pub notes: Vec<NoteView>,
    /// Everything that happened, in order.
    pub story: Vec<TaskHistoryEvent>,
}

/// One event in the history of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskHistoryEvent {
    pub position: u64,
    pub at: String,
    pub author: String,
    /// `task`, `plan`, `execution`, `decision`, `action` or `note`.
    pub what: &'static str,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
}

impl Tasks<'_> {
    /// The history of a task. Refused if there is no visible task with that id and nothing names it.
    pub async fn history(self, id: &str) -> Result<TaskHistory, Error> {
        let row = self.row(id).await?;
        let plans = plans::by_task(self.0.tenant, self.0.boundary(), id, PLANS_MAX).all(&self.0.db).await?;
        let filter = ExecutionFilter { task: id.to_owned().into(), ..Default::default() };
        let executions = self.0.executions().list(&filter, EXECUTIONS_MAX).await?;
        let notes = self.load_notes(id, &plans, &executions).await?;
        if row.is_none() && plans.is_empty() && executions.is_empty() && notes.is_empty() {
            return Err(no_such_task(id));
        }
        let mut history = Vec::new();
        if let Some(row) = &row {
            history.extend(self.history_of_stream(row.stream, None).await?);
        }
        for plan in &plans {
            let saved = journal::by_position(self.0.tenant, plan.position).first(&self.0.db).await?;
            history.extend(saved.and_then(|entry| history_event(&entry, None, None)));
        }
        for execution in &executions {
            history.extend(self.history_of_stream(execution.stream, Some(&execution.id)).await?);
        }
        history.extend(notes.iter().map(|note| note_event(note, self.0.withholds())));
        history.sort_by_key(|event| event.position);
        let task = match &row {
            Some(row) => Some(self.view(row).await?),
            None => None,
        };
        let subtasks = self.subtasks(id).await?;
        let plans = plans.iter().map(PlanView::of).collect();
        Ok(TaskHistory { task, subtasks, plans, executions, notes, story: history })
    }

    /// The events of one stream, with the texts from their payloads. `execution`: the id of its execution, if
    /// it is one's.
    async fn history_of_stream(
        self,
        stream: StreamId,
        execution: Option<&str>,
    ) -> Result<Vec<TaskHistoryEvent>, Error> {
        let entries =
            journal::by_stream(self.0.db.dialect(), self.0.tenant, stream, 0).all(&self.0.db).await?;
        let positions = text_payload_positions(&entries);
        let wanted: Vec<u64> = positions.values().copied().collect();
        let wanted = if self.0.withholds() { Vec::new() } else { wanted };
        let payloads = payloads::by_positions(&self.0.db, self.0.tenant, &wanted).await?.into_iter();
        let texts: BTreeMap<u64, String> =
            payloads.filter_map(|payload| Some((payload.position, payload_text(&payload.body)?))).collect();
        let text = |entry: &Entry| texts.get(positions.get(&entry.position)?).map(String::as_str);
        Ok(entries.iter().filter_map(|entry| history_event(entry, execution, text(entry))).collect())
    }

    /// The notes of a task, its plans and its executions, oldest first.
    async fn load_notes(
        self,
        id: &str,
        plans: &[plans::PlanRow],
        executions: &[ExecutionSummary],
    ) -> Result<Vec<NoteView>, Error> {
        let mut scopes = vec![NoteScope::Task(id.to_owned())];
        scopes.extend(plans.iter().map(|plan| NoteScope::Plan(PlanId::new(plan.id.as_str()))));
        scopes.extend(executions.iter().map(|row| NoteScope::Execution(ExecutionId::new(row.id.as_str()))));
        let mut found = Vec::new();
        for scope in scopes {
            let filter = notes::NoteRowFilter { scope: Some(scope), ..self.0.notes().filter() };
            let rows = notes::list(self.0.tenant, &filter, NOTES_MAX).all(&self.0.db).await?;
            found.extend(rows.into_iter().map(|note| notes::NoteHit { rank: note.position, note }));
        }
        found.sort_by_key(|hit| hit.note.position);
        found.dedup_by_key(|hit| hit.note.position);
        self.0.notes().views(&found, None).await
    }
}

/// Maps the position of an entry to that of the payload with its text. A failed or unknown step has the text
/// of its last attempt.
fn text_payload_positions(entries: &[Entry]) -> BTreeMap<u64, u64> {
    let mut last_attempts = BTreeMap::new();
    let mut positions = BTreeMap::new();
    for entry in entries {
        let position = match Event::decode(&entry.kind, &entry.body) {
            Ok(Event::ActionRecorded(_) | Event::DecisionRecorded(_)) => Some(entry.position),
            Ok(Event::AttemptEnded(ended)) => {
                last_attempts.insert(ended.step, entry.position);
                None
            }
            Ok(Event::StepFailed(failed)) if failed.result.is_some() => Some(entry.position),
            Ok(Event::StepFailed(failed)) => last_attempts.get(&failed.step).copied(),
            Ok(Event::StepUnknown(unknown)) => last_attempts.get(&unknown.step).copied(),
            Ok(_) | Err(_) => None,
        };
        positions.extend(position.map(|position| (entry.position, position)));
    }
    positions
}

/// A payload as text: the tool's message or the agent's description, then its other fields. `None`: it is
/// empty or no JSON.
fn payload_text(payload: &[u8]) -> Option<String> {
    let mut value: Value = serde_json::from_slice(payload).ok()?;
    let mut take = |name: &str| value.as_object_mut()?.remove(name)?.as_str().map(str::to_owned);
    let first = take("message").or_else(|| take("description"));
    let rest =
        Some(json_to_text(&value)).filter(|rest| !rest.trim().is_empty() && value != serde_json::json!({}));
    let parts: Vec<String> = first.into_iter().chain(rest).collect();
    let text = parts.join("; ").chars().take(TEXT_CHARS_MAX).collect::<String>();
    (!text.is_empty()).then_some(text)
}

/// The event of an entry, followed by the text of its payload. `None`: the entry is internal book-keeping.
fn history_event(
    entry: &Entry,
    execution: Option<&str>,
    payload_text: Option<&str>,
) -> Option<TaskHistoryEvent> {
    let event = Event::decode(&entry.kind, &entry.body).ok()?;
    let because = |reason: &Option<String>| reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let about = |step: &Option<actbook_engine::id::StepId>| {
        step.as_ref().map(|step| format!("step {step}: ")).unwrap_or_default()
    };
    let (what, text) = match &event {
        Event::TaskSet(set) => ("task", task_event_text(set, entry.version)),
        Event::PlanSaved(saved) => ("plan", format!("plan {} version {} saved", saved.name, saved.version)),
        Event::ExecutionStarted(started) => {
            ("execution", format!("execution of {} started", started.plan.name))
        }
        Event::ExecutionEnded(ended) => ("execution", format!("execution {}", ended.status)),
        Event::StepFailed(failed) => {
            ("execution", format!("step {} failed: {}", failed.step, failed.category))
        }
        Event::StepUnknown(unknown) => {
            ("execution", format!("step {} unknown: {}", unknown.step, unknown.category))
        }
        Event::ActionRecorded(action) => {
            let status = action.status.map_or("noted".to_owned(), |status| status.to_string());
            ("action", format!("{}{status}", about(&action.step)))
        }
        Event::DecisionRecorded(event) => {
            ("decision", format!("{}{}{}", about(&event.step), event.decision, because(&event.reason)))
        }
        Event::Decided(event) => {
            ("decision", format!("{}{}{}", about(&event.step), event.answer, because(&event.reason)))
        }
        Event::PlanApproved(event) => ("decision", format!("plan approved{}", because(&event.reason))),
        Event::PlanRejected(event) => ("decision", format!("plan rejected{}", because(&event.reason))),
        Event::StepApproved(event) => {
            ("decision", format!("step {} approved{}", event.step, because(&event.reason)))
        }
        Event::StepRejected(event) => {
            ("decision", format!("step {} rejected{}", event.step, because(&event.reason)))
        }
        Event::Paused(event) => ("decision", format!("paused{}", because(&event.reason))),
        Event::CancelAsked(event) => ("decision", format!("cancelled{}", because(&event.reason))),
        Event::UndoAsked(event) => ("decision", format!("undo asked for{}", because(&event.reason))),
        Event::UnwindApproved(event) => {
            ("decision", format!("more of the undo approved{}", because(&event.reason)))
        }
        Event::UnwindRejected(event) => ("decision", format!("undo rejected{}", because(&event.reason))),
        Event::UnwindStarted(event) => ("decision", format!("undoing began{}", because(&event.reason))),
        any_event! {
            PlanDeleted | ToolAccepted | ServerListed | DriverChanged | PlaceAdopted | PinMoved | PlanApprovalAsked
            | ApprovalAsked | AttemptStarted | TaskAccepted | AgentStarted | AttemptEnded | LateAnswer
            | RetryScheduled | ProbeStarted | ProbeEnded | StepSucceeded | StepSkipped
            | CompensationGivenUp | FailureHandled | StepsCancelled | Resumed | UnwindProposed
            | CompensationStarted | CompensationEnded | LateCompensation | CompensationRecorded
            | NoteSet | NoteDeleted | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
        } => return None,
    };
    let text = payload_text.map_or_else(|| text.clone(), |more| format!("{text}: {more}"));
    let (position, at, author) = (entry.position, format_time(entry.at), entry.actor.to_string());
    Some(TaskHistoryEvent { position, at, author, what, text, execution_id: execution.map(str::to_owned) })
}

/// The text of an entry that added or changed a task.
fn task_event_text(set: &actbook_engine::event::TaskSet, version: u64) -> String {
    let verb = if version == 1 { "added" } else { "changed" };
    let title = set.title.as_deref().map(|title| format!(": {title}")).unwrap_or_default();
    let status = set.status.map(|status| format!(", {status}")).unwrap_or_default();
    format!("task {verb}{title}{status}")
}

/// The event of a note's current value, at the time when that was written.
fn note_event(note: &NoteView, is_withheld: bool) -> TaskHistoryEvent {
    let value = match &note.value {
        _ if is_withheld => WITHHELD_TEXT.to_owned(),
        Value::Null => "nothing".to_owned(),
        value => json_to_text(value).chars().take(TEXT_CHARS_MAX).collect(),
    };
    TaskHistoryEvent {
        position: note.position,
        at: note.at.clone(),
        author: note.author.clone(),
        what: "note",
        text: format!("{} ({}): {value}", note.key, note.r#type),
        execution_id: note.owner.execution_id.clone(),
    }
}
