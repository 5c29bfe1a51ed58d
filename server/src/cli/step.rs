//! `show EXECUTION STEP`: one step whole, with everything that was sent and came back.

use actbook::service::view::ErrorView;
use actbook::service::{ApprovalView, AttemptView, CompensationView, StepDetail, ToUndo};
use serde_json::Value;

use super::output::Output;
use super::session::Session;
use super::signs::{self, BAD, QUIET, STRONG, painted, short};
use super::{Ended, Exit, brief, times};

pub async fn show(session: &Session, id: &str, step: &str) -> Ended {
    let detail = session.service.step(id, step).await?;
    let output = &session.output;
    if output.json {
        output.document(&detail);
        return Ok(Exit::Done);
    }
    head(output, &detail);
    value(output, "arguments", detail.step.arguments.as_ref());
    value(output, "output", detail.step.output.as_ref());
    error(output, detail.step.error.as_ref());
    value(output, "recorded", detail.step.recorded.as_ref());
    attempts(output, &detail.history);
    approvals(output, &detail.approvals);
    compensation(output, &detail);
    brief::questions(output, short(detail.execution_id.as_str()), &detail.waiting);
    Ok(Exit::Done)
}

fn head(output: &Output, detail: &StepDetail) {
    let step = &detail.step;
    let (sign, style) = signs::step(step.status);
    let state = painted(style, format_args!("{sign} {}", step.status));
    let name = step.name.as_ref().map(|name| format!(" · {name}")).unwrap_or_default();
    output.line(format_args!("{}{name} · {state}", painted(STRONG, &step.id)));
    let does = step.tool.as_ref().or(step.action.as_ref()).cloned().unwrap_or_default();
    let took = step.took_ms.map(|ms| format!(", the last attempt took {}", times::took(ms)));
    let line = format!("{does} · execution {}{}", detail.execution_id, took.unwrap_or_default());
    output.line(painted(QUIET, line));
    if !detail.depends_on.is_empty() {
        output.line(format_args!("{} {}", painted(QUIET, "after"), brief::listed(&detail.depends_on)));
    }
}

/// A value whole, indented under its title. Text stands as text.
fn value(output: &Output, title: &str, value: Option<&Value>) {
    let Some(value) = value else { return };
    output.line(painted(STRONG, title));
    indented(output, &pretty(value), 2);
}

fn pretty(value: &Value) -> String {
    match brief::only_text(value) {
        Some(text) => text.to_owned(),
        None => format!("{value:#}"),
    }
}

fn indented(output: &Output, text: &str, columns: usize) {
    let indent = " ".repeat(columns);
    text.lines().for_each(|line| output.line(format_args!("{indent}{line}")));
}

fn error(output: &Output, error: Option<&ErrorView>) {
    let Some(error) = error else { return };
    output.line(format_args!("{} {}", painted(BAD, "error"), error.category));
    indented(output, &error.message, 2);
}

/// Each try with what was sent and what came back; of a single one that is shown above.
fn attempts(output: &Output, history: &[AttemptView]) {
    if history.len() > 1 {
        output.line(painted(STRONG, "attempts"));
    }
    for (index, attempt) in history.iter().enumerate().filter(|_| history.len() > 1) {
        let happened = attempt.happened.map(|yes| if yes { ", happened" } else { ", did not happen" });
        let late = attempt.late.map(|late| format!(", late answer: {late}")).unwrap_or_default();
        let outcome = outcome(attempt.outcome, attempt.category);
        let at = times::date(&attempt.started_at);
        let line = format!("  {}. {at}  {outcome}{}{late}", index + 1, happened.unwrap_or_default());
        output.line(line);
        sent_and_received(output, attempt.arguments.as_ref(), attempt.result.as_ref());
    }
}

fn outcome(outcome: Option<impl ToString>, category: Option<impl ToString>) -> String {
    let outcome = outcome.map_or_else(|| "under way".to_owned(), |outcome| outcome.to_string());
    let category = category.map(|category| format!(" ({})", category.to_string()));
    outcome + &category.unwrap_or_default()
}

fn sent_and_received(output: &Output, arguments: Option<&Value>, result: Option<&Value>) {
    for (sign, value) in [("←", arguments), ("→", result)] {
        if let Some(value) = value {
            output.line(format_args!("     {} {}", painted(QUIET, sign), brief::value_text(value)));
        }
    }
}

fn approvals(output: &Output, approvals: &[ApprovalView]) {
    if !approvals.is_empty() {
        output.line(painted(STRONG, "approval"));
    }
    for one in approvals {
        let what = if one.approved { "approved" } else { "rejected" };
        let reason = one.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let at = times::date(&one.at);
        output.line(format_args!("  {at}  {what} by {}{reason} (position {})", one.by, one.position));
    }
}

fn compensation(output: &Output, detail: &StepDetail) {
    if !detail.compensations.is_empty() || !detail.to_undo.is_empty() {
        output.line(painted(STRONG, "compensation"));
    }
    for CompensationView { attempt, started_at, outcome: came, category, arguments, result } in
        &detail.compensations
    {
        let at = times::date(started_at);
        output.line(format_args!("  {at}  of attempt {attempt}: {}", outcome(*came, *category)));
        sent_and_received(output, arguments.as_ref(), result.as_ref());
    }
    for ToUndo { tool, action, arguments, .. } in &detail.to_undo {
        let what = tool.clone().or_else(|| action.as_ref().map(|action| format!("by hand: {action}")));
        output.line(format_args!("  undoing would run {}", what.unwrap_or_default()));
        sent_and_received(output, arguments.as_ref(), None);
    }
}
