//! Projections: converts events and states to rows. `rebuild` uses the same functions as live appends, so
//! rebuilt rows equal live ones.

mod calls;
mod claims;
mod figures;
mod waits;

use actbook_engine::any_event;
use actbook_engine::chain::Digest;
use actbook_engine::event::Event;
use actbook_engine::execution::{self, RecordedEvent, due};
use actbook_engine::id::{Epoch, StreamId, TenantId};
use actbook_engine::policy::ExecutionStatus;

use super::executions::{ExecutionChange, ExecutionRow, WAITS_AFTER_END};
use super::{Statement, notes, plans, tasks};
pub use figures::{ActorEntry, ExecutionHistory, StreamFigures, stream_figures};

/// The statement that an entry of the plan library causes: insert a version, or mark a plan as deleted. None
/// for other entries.
pub fn plan_statement(tenant: TenantId, recorded: &RecordedEvent) -> Option<Statement> {
    match &recorded.event {
        Event::PlanSaved(saved) => Some(plans::insert(
            tenant,
            &plans::PlanRow {
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
        Event::PlanDeleted(deleted) => Some(plans::mark_deleted(tenant, deleted.id.as_str())),
        any_event! {
            ToolAccepted | ServerListed | ExecutionStarted | DriverChanged | PlaceAdopted | PinMoved
            | PlanApprovalAsked | PlanApproved | PlanRejected | ApprovalAsked | StepApproved
            | StepRejected | AttemptStarted | TaskAccepted | AgentStarted | AttemptEnded | LateAnswer
            | RetryScheduled | ProbeStarted | ProbeEnded | StepFailed | StepUnknown | StepSucceeded
            | StepSkipped | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed
            | CancelAsked | Decided | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected
            | UnwindStarted | CompensationStarted | CompensationEnded | LateCompensation
            | CompensationRecorded | ActionRecorded | DecisionRecorded | NoteSet | NoteDeleted | TaskSet
            | ExecutionEnded | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
        } => None,
    }
}

/// A note's row after one more entry of its stream. None: the entry is not about a note, or the note was
/// erased.
pub fn note_row(before: Option<notes::NoteRow>, entry: &notes::StreamEntry<'_>) -> Option<notes::NoteRow> {
    let notes::StreamEntry { stream, version, author, recorded } = *entry;
    let (position, at) = (recorded.position.0, recorded.at_ms);
    match &recorded.event {
        Event::NoteSet(set) => Some(notes::NoteRow {
            stream,
            scope: set.scope.as_str().to_owned(),
            owner: set.scope.owner_id().to_owned(),
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
            before.map(|note| notes::NoteRow { version, position, at, deleted: true, ..note })
        }
        any_event! {
            PlanSaved | PlanDeleted | ToolAccepted | ServerListed | ExecutionStarted | DriverChanged | PlaceAdopted
            | PinMoved | PlanApprovalAsked | PlanApproved | PlanRejected | ApprovalAsked | StepApproved
            | StepRejected | AttemptStarted | TaskAccepted | AgentStarted | AttemptEnded | LateAnswer
            | RetryScheduled | ProbeStarted | ProbeEnded | StepFailed | StepUnknown | StepSucceeded
            | StepSkipped | CompensationGivenUp | FailureHandled | StepsCancelled | Paused | Resumed
            | CancelAsked | Decided | UndoAsked | UnwindProposed | UnwindApproved | UnwindRejected
            | UnwindStarted | CompensationStarted | CompensationEnded | LateCompensation
            | CompensationRecorded | ActionRecorded | DecisionRecorded | TaskSet | ExecutionEnded
            | PayloadsErased | UnwindEnded | StepAdded | YesSpent | StateKept | LabelsChanged | Closed
        } => None,
    }
}

/// A task's row after one more entry of its stream; fields that the entry leaves out keep their value. None:
/// the entry is not about a task.
pub fn task_row(before: Option<tasks::TaskRow>, entry: &notes::StreamEntry<'_>) -> Option<tasks::TaskRow> {
    let notes::StreamEntry { stream, version, author, recorded } = *entry;
    let (position, at) = (recorded.position.0, recorded.at_ms);
    let Event::TaskSet(set) = &recorded.event else { return None };
    let before = before.unwrap_or_else(|| tasks::TaskRow::with_defaults(stream, &set.id, at, author));
    Some(tasks::TaskRow {
        title: set.title.clone().unwrap_or(before.title),
        status: set.status.map_or(before.status, |status| status.as_str().to_owned()),
        priority: set.priority.unwrap_or(before.priority),
        estimate_ms: set.estimate_ms.or(before.estimate_ms),
        parent: set.parent.clone().or(before.parent),
        r#type: set.r#type.clone().or(before.r#type),
        labels: set.labels.clone().unwrap_or(before.labels),
        plan: set.plan.as_ref().map(ToString::to_string).or(before.plan),
        step: set.step.as_ref().map(ToString::to_string).or(before.step),
        fields_position: set.fields.map(|_| position).or(before.fields_position),
        project: set.project.clone(),
        version,
        position,
        at,
        ..before
    })
}

/// The parts of an execution that its row depends on: cheap to compare before and after a command, to see
/// whether the row must be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSummary {
    status: ExecutionStatus,
    toolset: Digest,
    /// Stands for the node as well: a new node has a new epoch.
    epoch: Epoch,
    ended_at: Option<i64>,
    wake_at: Option<i64>,
    progress: Option<RowProgress>,
}

/// The progress of an execution that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowProgress {
    done: u64,
    total: u64,
    first_error: Option<u64>,
}

/// The progress in an execution's row. None while it runs or compensates.
fn row_progress(status: ExecutionStatus, execution: &execution::Execution) -> Option<RowProgress> {
    if matches!(status, ExecutionStatus::Running | ExecutionStatus::Compensating) {
        return None;
    }
    let error = execution.first_failed_step().and_then(|step| step.error?.detail);
    let first_error = error.map(|detail| detail.position.0);
    let (done, total) = (execution.steps_done() as u64, execution.steps.len() as u64);
    Some(RowProgress { done, total, first_error })
}

/// Summarises an execution.
pub fn summarize(execution: &execution::Execution) -> RowSummary {
    let status = execution.status();
    RowSummary {
        status,
        toolset: execution.toolset,
        epoch: execution.epoch,
        ended_at: execution.ended_at_ms,
        wake_at: wake_at(status, execution),
        progress: row_progress(status, execution),
    }
}

pub fn execution_row(stream: StreamId, execution: &execution::Execution) -> ExecutionRow {
    let status = execution.status();
    let progress = row_progress(status, execution);
    ExecutionRow {
        id: stream,
        public_id: execution.id.to_string(),
        plan: execution.plan_ref.id.to_string(),
        plan_name: execution.plan_ref.name.clone(),
        plan_version: u64::from(execution.plan_ref.version),
        task: execution.task.clone(),
        project: execution.project.clone(),
        status: status.as_str().to_owned(),
        toolset: execution.toolset.to_string(),
        node: execution.node.as_ref().map(ToString::to_string),
        epoch: execution.epoch.0,
        started_at: execution.started_at_ms,
        ended_at: execution.ended_at_ms,
        wake_at: wake_at(status, execution),
        done: progress.map(|progress| progress.done),
        total: match progress {
            Some(progress) => Some(progress.total),
            // Each call adds a step, and does not update the row.
            None if execution.session.is_some() => None,
            None => Some(execution.steps.len() as u64),
        },
        first_error: progress.and_then(|progress| progress.first_error),
    }
}

/// When the runner has work to do, in epoch milliseconds: 0 (at once) while the execution runs, its next
/// deadline while it is blocked, None while it is paused and after its end, unless an undo waits then. It
/// stays the same from step to step, so that a step does not update the row.
fn wake_at(status: ExecutionStatus, execution: &execution::Execution) -> Option<i64> {
    match status {
        // A session that is open is driven by nobody.
        ExecutionStatus::Running if execution.session.is_some() => None,
        ExecutionStatus::Running | ExecutionStatus::Compensating => Some(0),
        ExecutionStatus::Blocked => due(execution).wake_at,
        ExecutionStatus::Paused => None,
        ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled
        | ExecutionStatus::Compensated => execution.awaits_undo_approval().then_some(WAITS_AFTER_END),
    }
}

/// The changing columns of an execution's row.
pub fn execution_change(row: &ExecutionRow) -> ExecutionChange<'_> {
    ExecutionChange {
        status: &row.status,
        toolset: &row.toolset,
        node: row.node.as_deref(),
        epoch: row.epoch,
        ended_at: row.ended_at,
        wake_at: row.wake_at,
        done: row.done,
        total: row.total,
        first_error: row.first_error,
    }
}
