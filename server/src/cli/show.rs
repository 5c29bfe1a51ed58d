//! `show`: an execution explained. Of many steps those come first that went wrong or are under way; the rest is
//! counted.

use std::collections::BTreeMap;

use actbook::error::Error;
use actbook::service::Driver;
use actbook::service::view::{ExecutionView, StepView};
use actbook_engine::plan::duration_text;
use actbook_engine::policy::{Status, StepStatus};
use serde_json::{Value, json};

use super::output::Output;
use super::session::Session;
use super::signs::{self, QUIET, STRONG, painted, short};
use super::table::{Table, cell, coloured, cut};
use super::{Ended, Exit, answers, brief, times};

/// So many steps are shown whole and in order.
const STEPS_WHOLE: usize = 40;
/// Of more, so many that went wrong, and so many that are under way.
const TROUBLES_SHOWN: usize = 50;
const UNDER_WAY_SHOWN: usize = 20;
/// Arguments and outputs are shown of executions with at most so many steps.
const VALUES_STEPS: usize = 12;
const VALUE_SHOWN: usize = 160;

/// Who drives an execution that can go on.
enum Driving {
    By(Driver),
    /// It could go on, and no process is at it.
    Nobody,
    /// It has ended, or waits for an answer.
    NotDue,
}

pub async fn show(session: &Session, id: &str) -> Ended {
    let view = session.service.view(id).await?;
    let driving = driving(session, &view).await?;
    let output = &session.output;
    if output.json {
        output.document(&document(&view, &driving));
        return Ok(Exit::Done);
    }
    head(output, &view, &driving);
    steps(output, &view);
    values(output, &view);
    late_answers(output, &view);
    brief::records(output, &view);
    if let Some(found) = &view.brief {
        brief::brief(output, found);
    }
    brief::waiting(output, &view);
    if view.waiting.is_empty() {
        output.line("");
        hints(output, &view, &driving);
    }
    Ok(Exit::Done)
}

async fn driving(session: &Session, view: &ExecutionView) -> Result<Driving, Error> {
    match view.status {
        Status::Running | Status::Compensating => {
            let found = session.service.find(view.id.as_str()).await?;
            Ok(session.service.driver(&found).await?.map_or(Driving::Nobody, Driving::By))
        }
        Status::Paused
        | Status::Blocked
        | Status::Succeeded
        | Status::Failed
        | Status::Cancelled
        | Status::Compensated => Ok(Driving::NotDue),
    }
}

/// The view, which says `stopped` where nobody drives what could go on.
fn document(view: &ExecutionView, driving: &Driving) -> Value {
    let mut shown = json!(view);
    if let Driving::Nobody = driving {
        shown["stopped"] = Value::Bool(true);
    }
    shown
}

fn head(output: &Output, view: &ExecutionView, driving: &Driving) {
    let plan = &view.plan;
    output.line(format_args!(
        "{} version {} · execution {}",
        painted(STRONG, &plan.name),
        plan.version,
        view.id
    ));
    match driving {
        Driving::Nobody => output.line(stopped(view)),
        Driving::By(_) | Driving::NotDue => output.line(brief::headline(view)),
    }
    let ended = view.ended_at.as_ref().map(|at| format!(", ended {}", times::date(at))).unwrap_or_default();
    let task = view.task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
    let started =
        format!("started {}{ended}{task}, at position {}", times::date(&view.started_at), view.position);
    output.line(painted(QUIET, started));
    for line in brief::pace(view) {
        output.line(line);
    }
    if let Driving::By(driver) = driving {
        output.line(format_args!("{} drives it", answers::process(driver)));
    }
    if let Some(inputs) = &view.inputs {
        output.line(format_args!("{} {}", painted(QUIET, "inputs"), cut(&inputs.to_string(), VALUE_SHOWN)));
    }
    output.line("");
}

/// `stopped: nobody drives it; actbook resume 7k2m`
fn stopped(view: &ExecutionView) -> String {
    let (done, total) = (view.progress.done, view.progress.total);
    let resume = format!("actbook resume {}", short(view.id.as_str()));
    let word = painted(signs::ASKS, "stopped");
    format!(
        "{word}: nobody drives it; `{resume}` takes it up ({}, {done} of {total} steps done)",
        view.status
    )
}

fn steps(output: &Output, view: &ExecutionView) {
    let mut table = Table::new(2, &["", "step", "state", "time", "tries", "does", "error"]);
    let shown = chosen(&view.steps);
    shown.iter().for_each(|step| table.row(row(step)));
    table.print(output);
    if shown.len() < view.steps.len() {
        output.line(format_args!("  {}", folded(view, &shown)));
    }
}

/// All of a few steps; of many those that went wrong, then those under way.
fn chosen(steps: &[StepView]) -> Vec<&StepView> {
    if steps.len() <= STEPS_WHOLE {
        return steps.iter().collect();
    }
    let troubles = steps.iter().filter(|step| is_trouble(step.status)).take(TROUBLES_SHOWN);
    let under_way = steps.iter().filter(|step| is_under_way(step.status)).take(UNDER_WAY_SHOWN);
    troubles.chain(under_way).collect()
}

/// `… 812 succeeded, 3 skipped; …`
fn folded(view: &ExecutionView, shown: &[&StepView]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    view.steps.iter().for_each(|step| *counts.entry(step.status.as_str()).or_default() += 1);
    for step in shown {
        counts.entry(step.status.as_str()).and_modify(|count| *count -= 1);
    }
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<String> = counted.map(|(status, count)| format!("{count} {status}")).collect();
    let id = short(view.id.as_str());
    let more = painted(QUIET, format_args!("`actbook show {id} STEP` shows one, `--json` all"));
    format!("… {}; {more}", counted.join(", "))
}

fn is_trouble(status: StepStatus) -> bool {
    matches!(status, StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed)
}

fn is_under_way(status: StepStatus) -> bool {
    use StepStatus::{AwaitingAgent, AwaitingApproval, Compensating, Running};
    matches!(status, Running | AwaitingApproval | AwaitingAgent | Compensating)
}

fn late_answers(output: &Output, view: &ExecutionView) {
    let late = view.steps.iter().flat_map(|step| step.late.iter().map(move |late| (step, late)));
    for (step, late) in late.take(TROUBLES_SHOWN) {
        output.line(format_args!("  {}: {late}", step.id));
    }
}

fn row(step: &StepView) -> Vec<super::table::Cell> {
    let (sign, style) = signs::step(step.status);
    let does = step.tool.as_ref().or(step.action.as_ref()).cloned().unwrap_or_default();
    let error = step.error.as_ref().map(|error| format!("{}: {}", error.category, error.message));
    let attempts = if step.attempts == 0 { String::new() } else { step.attempts.to_string() };
    vec![
        coloured(style, sign),
        cell(step.id.as_str()),
        coloured(style, step.status.as_str()),
        cell(took(step)),
        cell(attempts),
        coloured(QUIET, cut(&does, 40)),
        coloured(signs::BAD, cut(&error.unwrap_or_default(), 200)),
    ]
}

/// What each step of a small execution was given, and what it gave.
fn values(output: &Output, view: &ExecutionView) {
    let with_values = |step: &&StepView| step.arguments.is_some() || step.output.is_some();
    let steps: Vec<&StepView> = view.steps.iter().filter(with_values).collect();
    if steps.is_empty() || view.steps.len() > VALUES_STEPS {
        return;
    }
    output.line("");
    output.line(painted(STRONG, "Arguments and outputs"));
    let mut table = Table::new(2, &[]);
    for step in steps {
        let mut id = step.id.as_str();
        for (what, value) in [("←", &step.arguments), ("→", &step.output)] {
            if let Some(value) = value {
                table.row(vec![
                    cell(id),
                    coloured(QUIET, what),
                    cell(cut(&brief::value_text(value), VALUE_SHOWN)),
                ]);
                id = "";
            }
        }
    }
    table.print(output);
    let id = short(view.id.as_str());
    output.line(painted(QUIET, format_args!("  `actbook show {id} STEP` shows one whole")));
}

/// How long it ran, and what it was estimated at; what was undone or skipped since has no such time any more.
fn took(step: &StepView) -> String {
    let ran = matches!(step.status, StepStatus::Succeeded | StepStatus::Failed | StepStatus::Unknown);
    let took = step.took_ms.filter(|_| ran).map(times::took).unwrap_or_default();
    match step.estimated_ms {
        Some(estimate) => format!("{took} / {}", duration_text(estimate)).trim_start().to_owned(),
        None => took,
    }
}

fn hints(output: &Output, view: &ExecutionView, driving: &Driving) {
    let id = short(view.id.as_str());
    let hints: &[(&str, &str)] = match (view.status, driving) {
        (_, Driving::Nobody) => &[("resume", "takes it up"), ("journal --execution", "shows every entry")],
        (Status::Running | Status::Compensating, _) => {
            &[("watch", "follows it"), ("pause", "starts nothing further")]
        }
        (Status::Succeeded, _) => {
            &[("undo --dry-run", "says what can be taken back"), ("journal --execution", "shows every entry")]
        }
        (Status::Paused | Status::Blocked | Status::Failed | Status::Cancelled | Status::Compensated, _) => {
            &[("journal --execution", "shows every entry")]
        }
    };
    for (verb, does) in hints {
        output.line(format_args!(
            "  {}   {}",
            painted(signs::BUSY, format_args!("actbook {verb} {id}")),
            painted(QUIET, does)
        ));
    }
}
