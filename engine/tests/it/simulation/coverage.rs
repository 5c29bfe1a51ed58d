//! Coverage counters of the simulations, so that a simulation that explores nothing fails.

use std::cell::RefCell;
use std::collections::BTreeMap;

use actbook_engine::event::Event;
use actbook_engine::execution::{Command, Execution};
use actbook_engine::policy::{EndStatus, ErrorCategory, ExecutionStatus, StepAnswer, StepStatus};

type CoveragePoint = (&'static str, &'static str, &'static str);

thread_local! {
    static SEEN: RefCell<BTreeMap<CoveragePoint, u64>> = const { RefCell::new(BTreeMap::new()) };
}

pub fn count(what: &'static str, which: &'static str, detail: &'static str) {
    SEEN.with_borrow_mut(|seen| *seen.entry((what, which, detail)).or_default() += 1);
}

pub fn count_state(execution: &Execution) {
    count("status", execution.status().as_str(), "");
    for step in &execution.steps {
        count("step", step.status().as_str(), "");
    }
}

pub fn count_event(event: &Event) {
    count("event", event.kind(), "");
    let category = match event {
        Event::AttemptEnded(event) => event.category,
        Event::StepFailed(event) => Some(event.category),
        Event::StepUnknown(event) => Some(event.category),
        Event::CompensationEnded(event) => event.category,
        Event::LateAnswer(event) => event.category,
        _ => None,
    };
    if let Some(category) = category {
        count("category", category.as_str(), "");
    }
    if let Event::ExecutionEnded(event) = event {
        count("end", event.status.as_str(), "");
    }
}

pub fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Claim { .. } => "claim",
        Command::Reclaim { .. } => "claim again",
        Command::Drive { .. } => "drive",
        Command::ReportOutcome { .. } => "report",
        Command::AdoptToolset { .. } => "adopt",
        Command::Pause { .. } => "pause",
        Command::Resume => "resume",
        Command::Cancel { .. } => "cancel",
        Command::Undo { .. } => "undo",
        Command::Approve { .. } => "approve",
        Command::Reject { .. } => "reject",
        Command::Decide { .. } => "decide",
        Command::RecordReport { .. } => "record",
        Command::RecordAction { .. } => "note",
        Command::RecordDecision { .. } => "record decision",
        Command::RecordCompensation { .. } => "record compensation",
        Command::AcceptTask { .. } => "accept",
        Command::MovePin { .. } => "move pin",
        Command::ErasePayloads => "erase",
        Command::Session(_) => "session",
    }
}

/// Every answer with every status that it fits.
fn answers_by_status() -> Vec<(StepAnswer, StepStatus)> {
    use StepAnswer::{Abandon, Compensate, DidNotHappen, Happened, Retry, Skip};
    let mut fitting = Vec::new();
    let mut add =
        |status: StepStatus, answers: &[StepAnswer]| fitting.extend(answers.iter().map(|one| (*one, status)));
    add(StepStatus::Failed, &[Retry, Skip, Happened, Compensate, Abandon]);
    add(StepStatus::Unknown, &[Retry, Skip, Happened, DidNotHappen, Compensate, Abandon]);
    add(StepStatus::CompensationFailed, &[Retry, Skip, Happened, DidNotHappen, Abandon]);
    add(StepStatus::Compensating, &[Skip, Happened, Abandon]);
    fitting
}

fn expected_points() -> Vec<CoveragePoint> {
    let mut all: Vec<CoveragePoint> = Vec::new();
    all.extend(ExecutionStatus::ALL.iter().map(|one| ("status", one.as_str(), "")));
    all.extend(StepStatus::ALL.iter().map(|one| ("step", one.as_str(), "")));
    all.extend(ErrorCategory::ALL.iter().map(|one| ("category", one.as_str(), "")));
    all.extend(EndStatus::ALL.iter().map(|one| ("end", one.as_str(), "")));
    all.extend(
        answers_by_status().into_iter().map(|(answer, status)| ("answer", answer.as_str(), status.as_str())),
    );
    // Sessions have a simulation of their own.
    let of_other_streams = [
        "plan_saved",
        "plan_deleted",
        "tool_accepted",
        "server_listed",
        "note_",
        "task_set",
        "step_added",
        "yes_spent",
        "state_kept",
        "labels_changed",
        "closed",
        "unwind_ended",
    ];
    let elsewhere = |kind: &str| of_other_streams.iter().any(|stream| kind.starts_with(stream));
    let of_executions = Event::KINDS.iter().filter(|kind| !elsewhere(kind));
    all.extend(
        of_executions.filter(|kind| !kind.starts_with("execution_started")).map(|kind| ("event", *kind, "")),
    );
    let commands = ["pause", "resume", "cancel", "undo", "approve", "reject", "decide", "record", "erase"];
    let commands = commands.into_iter().chain(["record decision", "record compensation"]);
    let commands: Vec<&'static str> = commands.collect();
    all.extend(
        ["adopt", "accept", "note", "move pin", "claim again"]
            .into_iter()
            .chain(commands.iter().copied())
            .map(|one| ("accepted", one, "")),
    );
    all.extend(["drive"].into_iter().chain(commands).map(|one| ("refused", one, "")));
    all
}

/// Prints the counters; returns the expected points that were never reached.
pub fn report_unseen() -> Vec<CoveragePoint> {
    SEEN.with_borrow(|seen| {
        for ((what, which, detail), count) in seen {
            eprintln!("{count:>9}  {what} {which} {detail}");
        }
        expected_points().into_iter().filter(|one| !seen.contains_key(one)).collect()
    })
}
