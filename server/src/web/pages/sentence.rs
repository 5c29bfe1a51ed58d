//! What happened to an execution, in one or two sentences.

use actbook_engine::policy::{ExecutionStatus, StepStatus};

use super::markup::{Markup, count};
use super::times::{PageDuration, elapsed};
use crate::service::view::{ExecutionView, StepView};
use crate::service::{InspectedExecution, QuestionSubject};

/// Most characters of an error in the sentence; the step's panel shows all.
const ERROR_CHARS_MAX: usize = 240;
/// Most steps that a list of names has.
const NAMES_MAX: usize = 3;

/// The sentences; `shows_values`: the reader may see the texts of errors.
pub fn sentence(inspected: &InspectedExecution, shows_values: bool) -> Markup {
    let view = &inspected.view;
    let mut text = Markup::default();
    match view.status {
        ExecutionStatus::Running => running(inspected, &mut text),
        ExecutionStatus::Compensating => {
            text.push_text("It is undoing what was done");
            push_current(view, StepStatus::Compensating, &mut text);
            text.push_text(". ");
            push_bad_steps(view, shows_values, &mut text);
        }
        ExecutionStatus::Blocked => blocked(inspected, shows_values, &mut text),
        ExecutionStatus::Paused => {
            text.push_text("Paused: calls in flight finish, and nothing starts until it is resumed. ");
            push_done(view, &mut text);
        }
        ExecutionStatus::Succeeded => succeeded(view, &mut text),
        ExecutionStatus::Failed => {
            text.push_text("Ended as failed. ");
            push_bad_steps(view, shows_values, &mut text);
            push_done(view, &mut text);
        }
        ExecutionStatus::Cancelled => {
            text.push_text("Cancelled, and nothing was undone by that. ");
            push_bad_steps(view, shows_values, &mut text);
            push_done(view, &mut text);
        }
        ExecutionStatus::Compensated => compensated(view, shows_values, &mut text),
    }
    if view.ending.is_some() {
        text.push_text(" It ends once the calls in flight have ended.");
    }
    text
}

fn running(inspected: &InspectedExecution, text: &mut Markup) {
    if let Some(calls) = inspected.view.call_summary() {
        text.push_text(&format!("The session is open. {calls}."));
        return;
    }
    if inspected.is_orphaned {
        text.push_text("No process drives it: the one that did is gone. Resume takes it up. ");
        push_done(&inspected.view, text);
        return;
    }
    text.push_text("Running");
    push_current(&inspected.view, StepStatus::Running, text);
    text.push_text(". ");
    push_done(&inspected.view, text);
}

fn blocked(inspected: &InspectedExecution, shows_values: bool, text: &mut Markup) {
    let view = &inspected.view;
    if let Some(asked) = inspected.questions.iter().filter_map(|one| one.facts.asked_at.as_deref()).min() {
        text.push_text("Stopped ");
        text.push(elapsed(asked, None));
        text.push_text(" ago: ");
    }
    push_bad_steps(view, shows_values, text);
    for question in inspected.questions.iter().take(NAMES_MAX) {
        match question.facts.subject {
            QuestionSubject::PlanApproval => {
                text.push_text("the plan waits for a yes before its first step. ")
            }
            QuestionSubject::UndoApproval => text.push_text("an undo is proposed and waits for a yes. "),
            QuestionSubject::StepApproval => {
                push_named(question.waiting.step.as_ref(), " waits for a yes. ", text)
            }
            QuestionSubject::AgentWork => {
                push_named(
                    question.waiting.step.as_ref(),
                    " waits for an agent or a person to do it. ",
                    text,
                );
            }
            QuestionSubject::AgentUndo => {
                push_named(
                    question.waiting.step.as_ref(),
                    " waits for an agent or a person to undo it. ",
                    text,
                );
            }
            QuestionSubject::ToolQuestion => {
                push_named(question.waiting.step.as_ref(), " asks for input. ", text);
            }
            QuestionSubject::Failure | QuestionSubject::Unknown | QuestionSubject::FailedUndo => {}
        }
    }
    let more = inspected.questions.len().saturating_sub(NAMES_MAX);
    if more > 0 {
        text.push_text(&format!("{} beside. ", count(more, "more question")));
    }
    push_done(view, text);
    text.push_text(" Nothing more starts until this is answered.");
}

fn push_named(step: Option<&actbook_engine::id::StepId>, words: &str, text: &mut Markup) {
    text.push_code(step.map(|step| step.as_str()).unwrap_or_default());
    text.push_text(words);
}

fn succeeded(view: &ExecutionView, text: &mut Markup) {
    if let Some(calls) = view.call_summary() {
        text.push_text(&format!("The session has ended. {calls}."));
        return;
    }
    let took: PageDuration = elapsed(&view.started_at, view.ended_at.as_deref());
    let retries: usize = view.steps.iter().map(|step| step.attempts.saturating_sub(1)).sum();
    let skipped = view.steps.iter().filter(|step| step.status == StepStatus::Skipped).count();
    match view.progress.total {
        1 => text.push_text("Its one step is done, in "),
        total => text.push_text(&format!("All {total} steps are done, in ")),
    }
    text.push(took);
    if skipped > 0 {
        text.push_text(&format!("; {skipped} of them skipped"));
    }
    if retries > 0 {
        text.push_text(if retries == 1 { "; 1 retry was needed" } else { "; retries were needed" });
    }
    text.push_text(".");
}

fn compensated(view: &ExecutionView, shows_values: bool, text: &mut Markup) {
    let undone = view.steps.iter().filter(|step| step.status == StepStatus::Compensated).count();
    text.push_text(&match undone {
        0 => "Ended by an undo; nothing had to be undone. ".to_owned(),
        1 => "Undone: what its 1 effective step did was taken back. ".to_owned(),
        many => format!("Undone: what {many} steps did was taken back. "),
    });
    push_bad_steps(view, shows_values, text);
    let stays = view.brief.as_ref().map_or(0, |brief| brief.cannot_undo.len());
    if stays > 0 {
        text.push_text(&format!("The effect of {} remains.", count(stays, "step")));
    }
}

/// Adds the steps of a status: `, at x and y`.
fn push_current(view: &ExecutionView, status: StepStatus, text: &mut Markup) {
    let current: Vec<&StepView> = view.steps.iter().filter(|step| step.status == status).collect();
    for (index, step) in current.iter().take(NAMES_MAX).enumerate() {
        text.push_text(if index == 0 { ", at " } else { ", " });
        text.push_code(step.id.as_str());
    }
    if current.len() > NAMES_MAX {
        text.push_text(&format!(" and {} more", current.len() - NAMES_MAX));
    }
}

/// Adds a clause for each step that failed, is unknown or could not be undone.
fn push_bad_steps(view: &ExecutionView, shows_values: bool, text: &mut Markup) {
    let is_bad = |step: &&StepView| {
        matches!(step.status, StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed)
    };
    let bad: Vec<&StepView> = view.steps.iter().filter(is_bad).collect();
    for (index, step) in bad.iter().take(NAMES_MAX).enumerate() {
        text.push_text(if index == 0 { "" } else { ", and " });
        push_bad_step(step, shows_values, text);
    }
    if bad.len() > NAMES_MAX {
        text.push_text(&format!(", and {} more", count(bad.len() - NAMES_MAX, "step")));
    }
    text.push_text(if bad.is_empty() { "" } else { ". " });
}

fn push_bad_step(step: &StepView, shows_values: bool, text: &mut Markup) {
    let attempts = match step.attempts {
        0 | 1 => " failed".to_owned(),
        many => format!(" failed after {many} attempts"),
    };
    let (before, after) = if step.status == StepStatus::Unknown {
        ("nobody can tell whether ", " took effect")
    } else if step.status == StepStatus::CompensationFailed {
        ("undoing ", " failed")
    } else {
        ("", attempts.as_str())
    };
    text.push_text(before);
    text.push_code(step.id.as_str());
    text.push_text(after);
    if let Some(error) = step.error.as_ref().filter(|_| shows_values) {
        text.push_text(&format!(" ({}: ", error.category));
        text.push_quote(&error.message, ERROR_CHARS_MAX);
        text.push_text(")");
    }
}

/// Adds how many steps are done.
fn push_done(view: &ExecutionView, text: &mut Markup) {
    let total = count(view.progress.total, "step");
    text.push_text(&match view.progress.done {
        0 => format!("None of {total} is done."),
        1 => format!("1 of {total} is done."),
        done => format!("{done} of {total} are done."),
    });
}
