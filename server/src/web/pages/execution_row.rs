//! One row of the list of executions: where the execution stands, and why.

use actbook_engine::policy::{ExecutionStatus, StepStatus};

use super::markup::{Markup, StatusMark, count, short_id};
use super::times::{PageDuration, PageTime, elapsed, page_time};
use crate::service::{ListedError, ListedExecution, ListedQuestion, ListedStep, QuestionSubject};

/// Most characters of an error in a row; the page of the execution shows all.
const ERROR_CHARS_MAX: usize = 200;

/// A row as it is rendered.
#[derive(Debug)]
pub struct ExecutionListRow {
    pub id: String,
    pub short: String,
    pub mark: StatusMark,
    pub plan: String,
    pub version: u32,
    /// Why it stands where it stands.
    pub why: Markup,
    /// `bad`, `ask` or nothing: the colour of `why`.
    pub why_class: &'static str,
    pub who: String,
    /// An agent or a program started it, not a person.
    pub is_agent: bool,
    pub task: Option<String>,
    pub done: usize,
    pub total: usize,
    /// Of the bar, from 0 to 100.
    pub percent: usize,
    pub elapsed: PageDuration,
    pub started: PageTime,
    /// No live process drives it although it runs.
    pub is_orphaned: bool,
}

impl ExecutionListRow {
    /// The row of an execution; `shows_values`: the reader may see the texts of errors.
    pub fn of(mut listed: ListedExecution, shows_values: bool) -> Self {
        if let Some(error) = listed.first_error.as_mut().filter(|_| !shows_values) {
            error.message = None;
        }
        let (why_class, why) = reason(&listed);
        let summary = listed.summary;
        let (kind, name) = split_actor(listed.started_by.as_deref().unwrap_or("unknown"));
        let total = listed.progress.total.max(1);
        Self {
            short: short_id(&summary.id).to_owned(),
            mark: StatusMark::of_execution(summary.status),
            plan: summary.plan.name,
            version: summary.plan.version,
            why,
            why_class,
            who: name.to_owned(),
            is_agent: kind != "person",
            task: summary.task,
            done: listed.progress.done,
            total: listed.progress.total,
            percent: listed.progress.done * 100 / total,
            elapsed: elapsed(&summary.started_at, summary.ended_at.as_deref()),
            started: page_time(&summary.started_at),
            is_orphaned: summary.stopped,
            id: summary.id,
        }
    }
}

/// The kind and the name of an actor: `agent:claude-code`.
pub fn split_actor(actor: &str) -> (&str, &str) {
    actor.split_once(':').unwrap_or(("", actor))
}

/// Why an execution stands where it stands, with the class of its colour.
fn reason(listed: &ListedExecution) -> (&'static str, Markup) {
    let is_undone = listed.summary.status == ExecutionStatus::Compensated;
    match (&listed.asks, &listed.first_error) {
        (Some(asks), _) if asks_for_approval(asks) => ("ask", question_text(asks)),
        (_, Some(error)) if !is_undone => ("bad", error_text(error)),
        (Some(asks), _) => ("ask", question_text(asks)),
        (None, _) => ("", progress_text(listed)),
    }
}

fn asks_for_approval(asks: &ListedQuestion) -> bool {
    match asks.subject {
        QuestionSubject::PlanApproval | QuestionSubject::UndoApproval | QuestionSubject::StepApproval => true,
        QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo
        | QuestionSubject::ToolQuestion
        | QuestionSubject::Failure
        | QuestionSubject::Unknown
        | QuestionSubject::FailedUndo => false,
    }
}

fn question_text(asks: &ListedQuestion) -> Markup {
    let words = match asks.subject {
        QuestionSubject::PlanApproval => "Asks whether the plan may start",
        QuestionSubject::UndoApproval => "Asks whether what was done may be undone",
        QuestionSubject::StepApproval => "Asks for approval: ",
        QuestionSubject::AgentWork => "Waits for an agent or a person: ",
        QuestionSubject::AgentUndo => "Waits for an agent or a person to undo ",
        QuestionSubject::ToolQuestion => "A tool asks for input: ",
        QuestionSubject::Failure => "Asks what to do about ",
        QuestionSubject::Unknown => "Asks whether it happened: ",
        QuestionSubject::FailedUndo => "An undo failed: ",
    };
    let mut text = Markup::text(words);
    if let Some(step) = &asks.step {
        push_step(&mut text, step);
    }
    text
}

fn error_text(error: &ListedError) -> Markup {
    let mut text = Markup::code(error.step.as_str());
    let words = if error.status == StepStatus::Unknown {
        " may have run: "
    } else if error.status == StepStatus::CompensationFailed {
        " could not be undone: "
    } else {
        " failed: "
    };
    text.push_text(words);
    text.push_text(error.category.as_str());
    if let Some(message) = &error.message {
        text.push_text(", ");
        text.push_text(&message.chars().take(ERROR_CHARS_MAX).collect::<String>());
    }
    text
}

fn progress_text(listed: &ListedExecution) -> Markup {
    let steps = count(listed.progress.total, "step");
    let mut text = Markup::default();
    match listed.summary.status {
        ExecutionStatus::Running | ExecutionStatus::Compensating if listed.summary.stopped => {
            text.push_text("Its process is gone; resume takes it up");
        }
        ExecutionStatus::Running | ExecutionStatus::Compensating => {
            let is_undo = listed.summary.status == ExecutionStatus::Compensating;
            text.push_text(if is_undo { "Undoing " } else { "" });
            if listed.current.is_empty() && !is_undo {
                text.push_text("Between two steps");
            }
            for (index, step) in listed.current.iter().enumerate() {
                text.push_text(if index == 0 { "" } else { ", " });
                push_step(&mut text, step);
            }
        }
        ExecutionStatus::Paused => text.push_text("Starts nothing until it is resumed"),
        ExecutionStatus::Blocked => text.push_text("Waits for an answer"),
        ExecutionStatus::Succeeded => {
            let retries = match listed.retries {
                0 => "no retry".to_owned(),
                1 => "1 retry".to_owned(),
                many => format!("{many} retries"),
            };
            text.push_text(&format!("{steps}, {retries}"));
        }
        ExecutionStatus::Failed => text.push_text("Ended as failed"),
        ExecutionStatus::Cancelled => {
            text.push_text(&format!("Stopped after {} of {steps}", listed.progress.done));
        }
        ExecutionStatus::Compensated => {
            text.push_text(&format!("{} undone", count(listed.undone, "step")));
        }
    }
    text
}

fn push_step(text: &mut Markup, step: &ListedStep) {
    text.push_code(step.id.as_str());
    if let Some(tool) = &step.tool {
        text.push_text(" ");
        text.push_text(tool);
    }
}
