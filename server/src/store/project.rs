//! Event and state → row: the one place that says what the projections hold. `rebuild` uses the same
//! functions, so rebuilt equals live.

mod calls;
mod claims;
mod waits;

use actbook_engine::chain::Digest;
use actbook_engine::event::Event;
use actbook_engine::execution::{self, Recorded, due};
use actbook_engine::id::Epoch;
use actbook_engine::policy::Status;

use super::executions::{Change, Execution};
use super::{Statement, notes, plans, tasks};
pub use calls::calls;
pub use claims::{claims, troubles};
pub use waits::{Told, Waits, standing, waits};

/// The row that a plan's entry adds or hides.
pub fn plan(tenant: i64, recorded: &Recorded) -> Option<Statement> {
    match &recorded.event {
        Event::PlanSaved(saved) => Some(plans::insert(
            tenant,
            &plans::Plan {
                id: saved.id.to_string(),
                name: saved.name.clone(),
                version: u64::from(saved.version),
                digest: saved.digest.to_string(),
                position: recorded.position.0,
                saved_at: recorded.at_ms,
                steps: u64::from(saved.steps),
                deleted: false,
                task: saved.task.clone(),
                template: saved.template,
                project: saved.project.clone(),
                everywhere: saved.everywhere,
            },
        )),
        Event::PlanDeleted(deleted) => Some(plans::delete(tenant, deleted.id.as_str())),
        _ => None,
    }
}

/// A note's row after one more of its entries; none: it is no entry of a note, or nothing is kept any more.
pub fn note(before: Option<notes::Note>, entry: &notes::Written<'_>) -> Option<notes::Note> {
    let notes::Written { stream, version, author, recorded } = *entry;
    let (position, at) = (recorded.position.0, recorded.at_ms);
    match &recorded.event {
        Event::NoteSet(set) => Some(notes::Note {
            stream,
            scope: set.scope.word().to_owned(),
            owner: set.scope.owner().to_owned(),
            key: set.key.clone(),
            r#type: set.r#type.clone(),
            version,
            position,
            at,
            author: author.to_owned(),
            expires_at: set.expires_at_ms,
            deleted: false,
            project: set.project.clone(),
            everywhere: set.everywhere,
        }),
        Event::NoteDeleted(_) => {
            before.map(|note| notes::Note { version, position, at, deleted: true, ..note })
        }
        _ => None,
    }
}

/// A task's row after one more of its entries: what an entry leaves out stays.
pub fn task(before: Option<tasks::Task>, entry: &notes::Written<'_>) -> Option<tasks::Task> {
    let notes::Written { stream, version, author, recorded } = *entry;
    let (position, at) = (recorded.position.0, recorded.at_ms);
    let Event::TaskSet(set) = &recorded.event else { return None };
    let before = before.unwrap_or_else(|| tasks::Task::fresh(stream, &set.id, at, author));
    Some(tasks::Task {
        title: set.title.clone().unwrap_or(before.title),
        status: set.status.map_or(before.status, |status| status.as_str().to_owned()),
        priority: set.priority.unwrap_or(before.priority),
        estimate_ms: set.estimate_ms.or(before.estimate_ms),
        parent: set.parent.clone().or(before.parent),
        r#type: set.r#type.clone().or(before.r#type),
        labels: set.labels.clone().unwrap_or(before.labels),
        plan: set.plan.as_ref().map(ToString::to_string).or(before.plan),
        step: set.step.as_ref().map(ToString::to_string).or(before.step),
        fields: set.fields.map(|_| position).or(before.fields),
        project: set.project.clone(),
        version,
        position,
        at,
        ..before
    })
}

/// What of an execution its row depends on, cheap enough to compare around every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    status: Status,
    place: Digest,
    /// The seat changes with it.
    epoch: Epoch,
    ended_at: Option<i64>,
    look_again_at: Option<i64>,
}

pub fn summary(execution: &execution::Execution) -> Summary {
    let status = execution.status();
    Summary {
        status,
        place: execution.place,
        epoch: execution.epoch,
        ended_at: execution.ended_at_ms,
        look_again_at: look_again_at(status, execution),
    }
}

pub fn execution(stream: u64, execution: &execution::Execution) -> Execution {
    let status = execution.status();
    Execution {
        id: stream,
        public_id: execution.id.to_string(),
        plan: execution.plan_ref.id.to_string(),
        plan_name: execution.plan_ref.name.clone(),
        plan_version: u64::from(execution.plan_ref.version),
        task: execution.task.clone(),
        project: execution.project.clone(),
        status: status.as_str().to_owned(),
        place: execution.place.to_string(),
        seat: execution.seat.as_ref().map(ToString::to_string),
        epoch: execution.epoch.0,
        started_at: execution.started_at_ms,
        ended_at: execution.ended_at_ms,
        look_again_at: look_again_at(status, execution),
    }
}

/// When somebody should look: at once while it goes on, at its next deadline while it waits, never
/// once it has ended or while it is paused. Not touched at each step.
fn look_again_at(status: Status, execution: &execution::Execution) -> Option<i64> {
    match status {
        Status::Running | Status::Compensating => Some(0),
        Status::Blocked => due(execution).look_again_at,
        Status::Paused | Status::Succeeded | Status::Failed | Status::Cancelled | Status::Compensated => None,
    }
}

pub fn change(row: &Execution) -> Change<'_> {
    Change {
        status: &row.status,
        place: &row.place,
        seat: row.seat.as_deref(),
        epoch: row.epoch,
        ended_at: row.ended_at,
        look_again_at: row.look_again_at,
    }
}
