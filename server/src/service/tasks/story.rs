//! A task's whole story: its plans, executions, decisions and notes, in time. What they say is data, told
//! with who said it and where it stands.

use std::collections::BTreeMap;

use actbook_engine::event::Event;
use actbook_engine::id::{ExecutionId, PlanId};
use actbook_engine::note::Scope;
use serde::Serialize;
use serde_json::Value;

use super::{TaskView, no_such_task};
use crate::error::Error;
use crate::service::context::NoteView;
use crate::service::view::{ExecutionRow, PlanView, time};
use crate::service::{ExecutionFilter, Service};
use crate::store::words::readable;
use crate::store::{Entry, journal, notes, payloads, plans};

const PLANS_MAX: u64 = 100;
/// The newest; older ones are for the ledger's queries.
const EXECUTIONS_MAX: u64 = 20;
const NOTES_MAX: u64 = 200;
/// Of what was said in one entry.
const TEXT_CHARS_MAX: usize = 2_000;

#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// None: others name it, but nobody has put it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskView>,
    pub subtasks: Vec<TaskView>,
    pub plans: Vec<PlanView>,
    pub executions: Vec<ExecutionRow>,
    pub notes: Vec<NoteView>,
    /// Everything in the order in which it happened.
    pub story: Vec<Happening>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Happening {
    pub position: u64,
    pub at: String,
    pub author: String,
    /// `task`, `plan`, `execution`, `decision`, `action` or `note`
    pub what: &'static str,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
}

impl Service {
    pub async fn task_story(&self, id: &str) -> Result<Story, Error> {
        let row = self.task_row(id).await?;
        let plans = plans::of_task(self.tenant, self.boundary(), id, PLANS_MAX).all(&self.db).await?;
        let filter = ExecutionFilter { task: Some(id.to_owned()), ..Default::default() };
        let executions = self.list(&filter, EXECUTIONS_MAX).await?;
        let notes = self.notes_of_task(id, &plans, &executions).await?;
        if row.is_none() && plans.is_empty() && executions.is_empty() && notes.is_empty() {
            return Err(no_such_task(id));
        }
        let mut story = Vec::new();
        if let Some(row) = &row {
            story.extend(self.happenings(row.stream, None).await?);
        }
        for plan in &plans {
            let saved = journal::at(self.tenant, plan.position).first(&self.db).await?;
            story.extend(saved.and_then(|entry| happening(&entry, None, None)));
        }
        for execution in &executions {
            story.extend(self.happenings(execution.stream, Some(&execution.id)).await?);
        }
        story.extend(notes.iter().map(noted));
        story.sort_by_key(|happening| happening.position);
        let task = match &row {
            Some(row) => Some(self.task_view(row).await?),
            None => None,
        };
        let subtasks = self.subtasks(id).await?;
        let plans = plans.iter().map(PlanView::of).collect();
        Ok(Story { task, subtasks, plans, executions, notes, story })
    }

    /// What belongs in a story of one stream, with what was said at the time.
    async fn happenings(&self, stream: u64, execution: Option<&str>) -> Result<Vec<Happening>, Error> {
        let entries = journal::of_stream(self.db.dialect(), self.tenant, stream, 0).all(&self.db).await?;
        let places = places_of_words(&entries);
        let wanted: Vec<u64> = places.values().copied().collect();
        let kept = payloads::at_each(&self.db, self.tenant, &wanted).await?;
        let kept: BTreeMap<u64, String> =
            kept.into_iter().filter_map(|one| Some((one.position, words_of(&one.body)?))).collect();
        let said = |entry: &Entry| kept.get(places.get(&entry.position)?).map(String::as_str);
        Ok(entries.iter().filter_map(|entry| happening(entry, execution, said(entry))).collect())
    }

    async fn notes_of_task(
        &self,
        id: &str,
        plans: &[plans::Plan],
        executions: &[ExecutionRow],
    ) -> Result<Vec<NoteView>, Error> {
        let mut scopes = vec![Scope::Task(id.to_owned())];
        scopes.extend(plans.iter().map(|plan| Scope::Plan(PlanId::new(plan.id.as_str()))));
        scopes.extend(executions.iter().map(|row| Scope::Execution(ExecutionId::new(row.id.as_str()))));
        let mut found = Vec::new();
        for scope in scopes {
            let filter = notes::Filter { scope: Some(scope), ..self.note_filter() };
            let rows = notes::list(self.tenant, &filter, NOTES_MAX).all(&self.db).await?;
            found.extend(rows.into_iter().map(|note| notes::Hit { rank: note.position, note }));
        }
        found.sort_by_key(|hit| hit.note.position);
        found.dedup_by_key(|hit| hit.note.position);
        self.views(&found, None).await
    }
}

/// By the position of an entry: the position of the payload that holds what was said about it.
fn places_of_words(entries: &[Entry]) -> BTreeMap<u64, u64> {
    let mut last_attempts = BTreeMap::new();
    let mut places = BTreeMap::new();
    for entry in entries {
        let place = match Event::decode(&entry.kind, &entry.body) {
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
        places.extend(place.map(|place| (entry.position, place)));
    }
    places
}

/// The words of a payload: a tool's message, or an agent's description with whatever else it told.
fn words_of(payload: &[u8]) -> Option<String> {
    let mut said: Value = serde_json::from_slice(payload).ok()?;
    let mut first = |name: &str| said.as_object_mut()?.remove(name)?.as_str().map(str::to_owned);
    let words = first("message").or_else(|| first("description"));
    let rest = Some(readable(&said)).filter(|rest| !rest.trim().is_empty() && said != serde_json::json!({}));
    let words: Vec<String> = words.into_iter().chain(rest).collect();
    let words = words.join("; ").chars().take(TEXT_CHARS_MAX).collect::<String>();
    (!words.is_empty()).then_some(words)
}

/// An entry that belongs in a story; the engine's own book-keeping does not.
fn happening(entry: &Entry, execution: Option<&str>, said: Option<&str>) -> Option<Happening> {
    let event = Event::decode(&entry.kind, &entry.body).ok()?;
    let because = |reason: &Option<String>| reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let about = |step: &Option<actbook_engine::id::StepId>| {
        step.as_ref().map(|step| format!("step {step}: ")).unwrap_or_default()
    };
    let (what, text) = match &event {
        Event::TaskSet(set) => ("task", task_text(set, entry.version)),
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
        _ => return None,
    };
    let text = said.map_or_else(|| text.clone(), |said| format!("{text}: {said}"));
    let (position, at, author) = (entry.position, time(entry.at), entry.actor.to_string());
    Some(Happening { position, at, author, what, text, execution_id: execution.map(str::to_owned) })
}

fn task_text(set: &actbook_engine::event::TaskSet, version: u64) -> String {
    let verb = if version == 1 { "added" } else { "changed" };
    let title = set.title.as_deref().map(|title| format!(": {title}")).unwrap_or_default();
    let status = set.status.map(|status| format!(", {status}")).unwrap_or_default();
    format!("task {verb}{title}{status}")
}

fn noted(note: &NoteView) -> Happening {
    let said = match &note.value {
        Value::Null => "nothing".to_owned(),
        value => readable(value).chars().take(TEXT_CHARS_MAX).collect(),
    };
    Happening {
        position: note.position,
        at: note.at.clone(),
        author: note.author.clone(),
        what: "note",
        text: format!("{} ({}): {said}", note.key, note.r#type),
        execution_id: note.of.execution_id.clone(),
    }
}
