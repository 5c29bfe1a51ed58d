//! `show`: explains an execution. If it has many steps, only those that failed or are under way are listed;
//! the rest is counted.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::service::quote;
use crate::service::view::{ExecutionView, StepView};
use crate::service::{Driver, UndoSelection};
use actbook_engine::plan::duration_text;
use actbook_engine::policy::{ExecutionStatus, StepStatus};
use serde_json::{Value, json};

use super::output::Output;
use super::session::Session;
use super::status_style::{self, QUIET, STRONG, painted, short_id};
use super::table::{Table, cell, styled_cell, truncate};
use super::{CommandResult, Exit, brief, control, times, undo};

/// Up to this many steps are all listed, in order.
const STEPS_LISTED_MAX: usize = 40;
/// Beyond `STEPS_LISTED_MAX`, at most this many failed or unknown steps are listed, and late answers.
const TROUBLES_SHOWN: usize = 50;
/// Beyond `STEPS_LISTED_MAX`, at most this many steps under way are listed.
const UNDER_WAY_SHOWN: usize = 20;
/// Arguments and outputs are printed only for executions of at most this many steps.
const VALUES_STEPS_MAX: usize = 12;
/// Columns of the inputs, or of one step's arguments or output.
const VALUE_SHOWN: usize = 160;

/// Whether a process drives an execution.
enum DriverState {
    By(Driver),
    /// The execution could continue, and no process drives it.
    Nobody,
    /// The execution has ended, is paused, or waits for an answer.
    NotDue,
}

/// Prints an execution: steps, values, records, the recovery brief, open questions and the next commands.
pub async fn show(session: &Session, id: &str) -> CommandResult {
    let view = session.service.executions().view(id).await?;
    let driving = driver_state(session, &view).await?;
    let output = &session.output;
    if output.json {
        output.document(&with_stopped_flag(&view, &driving));
        return Ok(Exit::Done);
    }
    print_head(output, &view, &driving);
    print_steps(output, &view);
    print_values(output, &view);
    print_late_answers(output, &view);
    brief::print_records(output, &view);
    brief::print_reports(output, &view);
    if view.session.is_some() {
        print_session_outlook(session, &view).await?;
    } else {
        brief::print_brief(output, &view);
    }
    brief::print_waiting(output, &view);
    if view.waiting.is_empty() {
        output.line("");
        print_hints(output, &view, &driving);
    }
    Ok(Exit::Done)
}

/// Prints what an undo of a session would do, call by call.
async fn print_session_outlook(session: &Session, view: &ExecutionView) -> Result<(), Error> {
    let watching = session.service.executions().watch(view.id.as_str()).await?;
    let calls = watching.session_undo(&UndoSelection::default()).await?.unwrap_or_default();
    if !calls.is_empty() {
        session.output.line("");
        undo::print_session_undo(&session.output, &calls);
    }
    Ok(())
}

async fn driver_state(session: &Session, view: &ExecutionView) -> Result<DriverState, Error> {
    if !view.needs_driver() {
        return Ok(DriverState::NotDue);
    }
    let found = session.service.executions().find(view.id.as_str()).await?;
    let driver = session.service.executions().driver(&found).await?;
    Ok(driver.map_or(DriverState::Nobody, DriverState::By))
}

/// The view as JSON, with `stopped: true` if no process drives an execution that could continue.
fn with_stopped_flag(view: &ExecutionView, driving: &DriverState) -> Value {
    let mut document = json!(view);
    if let DriverState::Nobody = driving {
        document["stopped"] = Value::Bool(true);
    }
    document
}

/// Prints plan, status, times, time estimates, blocker notes, a session's labels, the driver and the inputs.
fn print_head(output: &Output, view: &ExecutionView, driving: &DriverState) {
    let plan = &view.plan;
    output.line(format_args!(
        "{} version {} · execution {}",
        painted(STRONG, &plan.name),
        plan.version,
        view.id
    ));
    match driving {
        DriverState::Nobody => output.line(stopped_line(view)),
        DriverState::By(_) | DriverState::NotDue => output.line(brief::headline(view)),
    }
    let ended = view
        .ended_at
        .as_ref()
        .map(|at| format!(", ended {}", times::local_date_time(at)))
        .unwrap_or_default();
    let task = view.task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
    let started = format!(
        "started {}{ended}{task}, at position {}",
        times::local_date_time(&view.started_at),
        view.position
    );
    output.line(painted(QUIET, started));
    for line in brief::progress_lines(view) {
        output.line(line);
    }
    if let Some(session) = &view.session {
        let labels = if session.labels.is_empty() { "none".to_owned() } else { session.labels.join(", ") };
        output.line(format_args!("{} {labels}", painted(QUIET, "labels")));
    }
    if let DriverState::By(driver) = driving {
        output.line(format_args!("{} drives it", control::process_label(driver)));
    }
    if let Some(inputs) = &view.inputs {
        output.line(format_args!(
            "{} {}",
            painted(QUIET, "inputs"),
            truncate(&inputs.to_string(), VALUE_SHOWN)
        ));
    }
    output.line("");
}

/// The line that says that no process drives the execution, with the command that resumes it.
fn stopped_line(view: &ExecutionView) -> String {
    let (done, total) = (view.progress.done, view.progress.total);
    let resume = format!("actbook resume {}", short_id(view.id.as_str()));
    let word = painted(status_style::ATTENTION, "stopped");
    format!(
        "{word}: no process drives it; `{resume}` continues it ({}, {done} of {total} steps done)",
        view.status
    )
}

fn print_steps(output: &Output, view: &ExecutionView) {
    let mut table = Table::new(2, &["", "step", "state", "time", "tries", "does", "error"]);
    let shown = listed_steps(&view.steps);
    shown.iter().for_each(|step| table.push_row(step_row(step)));
    table.print(output);
    if shown.len() < view.steps.len() {
        output.line(format_args!("  {}", unlisted_count_line(view, &shown)));
    }
}

/// The steps to list: all of a few; of many those that failed or are unknown, then those under way.
fn listed_steps(steps: &[StepView]) -> Vec<&StepView> {
    if steps.len() <= STEPS_LISTED_MAX {
        return steps.iter().collect();
    }
    let troubles = steps.iter().filter(|step| is_failed_or_unknown(step.status)).take(TROUBLES_SHOWN);
    let under_way = steps.iter().filter(|step| status_style::is_under_way(step.status)).take(UNDER_WAY_SHOWN);
    troubles.chain(under_way).collect()
}

/// The line that counts the steps not listed: `… 812 succeeded, 3 skipped; …`
fn unlisted_count_line(view: &ExecutionView, shown: &[&StepView]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    view.steps.iter().for_each(|step| *counts.entry(step.status.as_str()).or_default() += 1);
    for step in shown {
        counts.entry(step.status.as_str()).and_modify(|count| *count -= 1);
    }
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<String> = counted.map(|(status, count)| format!("{count} {status}")).collect();
    let id = short_id(view.id.as_str());
    let more = painted(QUIET, format_args!("`actbook show {id} STEP` shows one, `--json` all"));
    format!("… {}; {more}", counted.join(", "))
}

/// Whether the step, or its compensation, failed or is unknown.
fn is_failed_or_unknown(status: StepStatus) -> bool {
    matches!(status, StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed)
}

/// Prints the outcomes of calls whose answer came after the call had been given up.
fn print_late_answers(output: &Output, view: &ExecutionView) {
    let late = view.steps.iter().flat_map(|step| step.late.iter().map(move |late| (step, late)));
    for (step, late) in late.take(TROUBLES_SHOWN) {
        output.line(format_args!("  {}: {late}", step.id));
    }
}

fn step_row(step: &StepView) -> Vec<super::table::Cell> {
    let (symbol, style) = status_style::step_symbol_and_style(step.status);
    let does = step.tool.as_ref().or(step.action.as_ref()).cloned().unwrap_or_default();
    let error = step.error.as_ref().map(|error| format!("{}: {}", error.category, error.message));
    let attempts = if step.attempts == 0 { String::new() } else { step.attempts.to_string() };
    vec![
        styled_cell(style, symbol),
        cell(step.id.as_str()),
        styled_cell(style, step.status.as_str()),
        cell(time_text(step)),
        cell(attempts),
        styled_cell(QUIET, truncate(&does, 40)),
        styled_cell(status_style::BAD, truncate(&error.unwrap_or_default(), 200)),
    ]
}

/// Prints the arguments and the output of each step of a small execution.
fn print_values(output: &Output, view: &ExecutionView) {
    let with_values = |step: &&StepView| step.arguments.is_some() || step.output.is_some();
    let steps: Vec<&StepView> = view.steps.iter().filter(with_values).collect();
    if steps.is_empty() || view.steps.len() > VALUES_STEPS_MAX {
        return;
    }
    output.line("");
    output.line(painted(STRONG, "Arguments and outputs"));
    let mut table = Table::new(2, &[]);
    for step in steps {
        let mut id = step.id.as_str();
        for (arrow, value) in [("←", &step.arguments), ("→", &step.output)] {
            if let Some(value) = value {
                table.push_row(vec![
                    cell(id),
                    styled_cell(QUIET, arrow),
                    cell(truncate(&quote::readable(value), VALUE_SHOWN)),
                ]);
                id = "";
            }
        }
    }
    table.print(output);
    let id = short_id(view.id.as_str());
    output.line(painted(QUIET, format_args!("  `actbook show {id} STEP` shows one whole")));
}

/// `2.1 s / 30s`: how long the step ran, and its estimate. A step that was undone or skipped since shows no
/// time.
fn time_text(step: &StepView) -> String {
    let ran = matches!(step.status, StepStatus::Succeeded | StepStatus::Failed | StepStatus::Unknown);
    let took = step.took_ms.filter(|_| ran).map(times::elapsed_text).unwrap_or_default();
    match step.estimated_ms {
        Some(estimate) => format!("{took} / {}", duration_text(estimate)).trim_start().to_owned(),
        None => took,
    }
}

/// Prints the commands that fit the status.
fn print_hints(output: &Output, view: &ExecutionView, driving: &DriverState) {
    let id = short_id(view.id.as_str());
    let hints: &[(&str, &str)] = match (view.status, driving) {
        (_, DriverState::Nobody) => {
            &[("resume", "continues it"), ("journal --execution", "shows every entry")]
        }
        (ExecutionStatus::Running, _) if view.session.is_some() => {
            &[("pause", "lets no further call start"), ("journal --execution", "shows every entry")]
        }
        (ExecutionStatus::Running | ExecutionStatus::Compensating, _) => {
            &[("watch", "follows it"), ("pause", "starts nothing further")]
        }
        (ExecutionStatus::Succeeded, _) => {
            &[("undo --dry-run", "shows what can be undone"), ("journal --execution", "shows every entry")]
        }
        (
            ExecutionStatus::Paused
            | ExecutionStatus::Blocked
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Compensated,
            _,
        ) => &[("journal --execution", "shows every entry")],
    };
    for (verb, does) in hints {
        output.line(format_args!(
            "  {}   {}",
            painted(status_style::BUSY, format_args!("actbook {verb} {id}")),
            painted(QUIET, does)
        ));
    }
}
