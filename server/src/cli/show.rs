//! `show` and `list`: executions explained, and in a table.

use actbook::service::view::{ExecutionView, StepView};
use actbook_engine::plan::duration_text;
use actbook_engine::policy::{Status, StepStatus};

use super::output::Output;
use super::session::Session;
use super::signs::{self, QUIET, STRONG, painted, short};
use super::table::{Table, cell, coloured};
use super::{Ended, Exit, answers, brief, times};

/// Steps in the table of `show`; `--json` has them all.
const STEPS_SHOWN: usize = 200;

pub async fn show(session: &Session, id: &str) -> Ended {
    let view = session.service.view(id).await?;
    let output = &session.output;
    if output.json {
        output.document(&view);
        return Ok(Exit::Done);
    }
    head(session, &view).await?;
    steps(output, &view);
    brief::records(output, &view);
    if let Some(found) = &view.brief {
        brief::brief(output, found);
    }
    brief::waiting(output, &view);
    if view.waiting.is_empty() {
        output.line("");
        hints(output, &view);
    }
    Ok(Exit::Done)
}

async fn head(session: &Session, view: &ExecutionView) -> Result<(), actbook::error::Error> {
    let output = &session.output;
    let plan = &view.plan;
    output.line(format_args!(
        "{} version {} · execution {}",
        painted(STRONG, &plan.name),
        plan.version,
        view.id
    ));
    output.line(brief::headline(view));
    let ended = view.ended_at.as_ref().map(|at| format!(", ended {}", times::date(at))).unwrap_or_default();
    let task = view.task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
    let started =
        format!("started {}{ended}{task}, at position {}", times::date(&view.started_at), view.position);
    output.line(painted(QUIET, started));
    for line in brief::pace(view) {
        output.line(line);
    }
    if matches!(view.status, Status::Running | Status::Compensating) {
        let found = session.service.find(view.id.as_str()).await?;
        let who = match session.service.driver(&found).await? {
            Some(driver) => format!("{} drives it", answers::process(&driver)),
            None => format!("nobody drives it: `actbook resume {}` takes it up", short(view.id.as_str())),
        };
        output.line(who);
    }
    output.line("");
    Ok(())
}

fn steps(output: &Output, view: &ExecutionView) {
    let mut table = Table::new(2, &["", "step", "state", "time", "tries", "does", "error"]);
    for step in view.steps.iter().take(STEPS_SHOWN) {
        table.row(row(step));
    }
    table.print(output);
    if view.steps.len() > STEPS_SHOWN {
        output.line(format_args!("  … {} more; `--json` has them all", view.steps.len() - STEPS_SHOWN));
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
        coloured(QUIET, super::table::cut(&does, 40)),
        coloured(signs::BAD, super::table::cut(&error.unwrap_or_default(), 200)),
    ]
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

fn hints(output: &Output, view: &ExecutionView) {
    let id = short(view.id.as_str());
    let hints: &[(&str, &str)] = match view.status {
        Status::Running | Status::Compensating => {
            &[("watch", "follows it"), ("pause", "starts nothing further")]
        }
        Status::Succeeded => {
            &[("undo --dry-run", "says what can be taken back"), ("journal --execution", "shows every entry")]
        }
        Status::Paused | Status::Blocked | Status::Failed | Status::Cancelled | Status::Compensated => {
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
