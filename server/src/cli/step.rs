//! `show EXECUTION STEP`: prints one step in full, with everything that was sent and received.

use crate::service::quote;
use crate::service::view::ErrorView;
use crate::service::{ApprovalView, AttemptView, CompensationView, StepDetail, UndoItem};
use serde_json::Value;

use super::output::Output;
use super::session::Session;
use super::status_style::{self, BAD, QUIET, STRONG, painted, short_id};
use super::{CommandResult, Exit, brief, times};

/// Prints a step: values, error, attempts, approvals, compensation, open questions.
pub async fn show(session: &Session, id: &str, step: &str) -> CommandResult {
    let detail = session.service.executions().step(id, step).await?;
    let output = &session.output;
    if output.json {
        output.document(&detail);
        return Ok(Exit::Done);
    }
    print_head(output, &detail);
    print_value(output, "arguments", detail.step.arguments.as_ref());
    print_value(output, "output", detail.step.output.as_ref());
    print_error(output, detail.step.error.as_ref());
    print_value(output, "recorded", detail.step.recorded.as_ref());
    print_attempts(output, &detail);
    print_approvals(output, &detail.approvals);
    print_compensation(output, &detail);
    brief::print_questions(output, short_id(detail.execution_id.as_str()), &detail.waiting);
    Ok(Exit::Done)
}

fn print_head(output: &Output, detail: &StepDetail) {
    let step = &detail.step;
    let (symbol, style) = status_style::step_symbol_and_style(step.status);
    let state = painted(style, format_args!("{symbol} {}", step.status));
    let name = step.name.as_ref().map(|name| format!(" · {name}")).unwrap_or_default();
    output.line(format_args!("{}{name} · {state}", painted(STRONG, &step.id)));
    let does = step.tool.as_ref().or(step.action.as_ref()).cloned().unwrap_or_default();
    let took = step.took_ms.map(|ms| format!(", the last attempt took {}", times::elapsed_text(ms)));
    let line = format!("{does} · execution {}{}", detail.execution_id, took.unwrap_or_default());
    output.line(painted(QUIET, line));
    if !detail.depends_on.is_empty() {
        output.line(format_args!("{} {}", painted(QUIET, "after"), brief::step_names(&detail.depends_on)));
    }
}

/// Prints a value in full, indented under its title; a text without quotes.
fn print_value(output: &Output, title: &str, value: Option<&Value>) {
    let Some(value) = value else { return };
    output.line(painted(STRONG, title));
    print_indented(output, &pretty_text(value), 2);
}

/// A text as it is; any other value as indented JSON.
fn pretty_text(value: &Value) -> String {
    match quote::only_text(value) {
        Some(text) => text.to_owned(),
        None => format!("{value:#}"),
    }
}

/// Prints each line of the text, indented by `columns` spaces; long lines are not wrapped.
fn print_indented(output: &Output, text: &str, columns: usize) {
    let indent = " ".repeat(columns);
    text.lines().for_each(|line| output.line(format_args!("{indent}{line}")));
}

fn print_error(output: &Output, error: Option<&ErrorView>) {
    let Some(error) = error else { return };
    output.line(format_args!("{} {}", painted(BAD, "error"), error.category));
    print_indented(output, &error.message, 2);
}

/// Prints each attempt with what was sent and received. A single one is shown above, unless its arguments were
/// corrected since.
fn print_attempts(output: &Output, detail: &StepDetail) {
    let history: &[AttemptView] = &detail.history;
    if history.len() < 2 && !detail.has_corrected_arguments() {
        return;
    }
    output.line(painted(STRONG, "attempts"));
    for (index, attempt) in history.iter().enumerate() {
        let happened = attempt.happened.map(|yes| if yes { ", happened" } else { ", did not happen" });
        let late = attempt.late.map(|late| format!(", late answer: {late}")).unwrap_or_default();
        let outcome = outcome_text(attempt.outcome, attempt.category);
        let at = times::local_date_time(&attempt.started_at);
        let line = format!("  {}. {at}  {outcome}{}{late}", index + 1, happened.unwrap_or_default());
        output.line(line);
        print_sent_and_received(output, attempt.arguments.as_ref(), attempt.result.as_ref());
    }
}

/// `failed (timeout)`; `under way` without an outcome.
fn outcome_text(outcome: Option<impl ToString>, category: Option<impl ToString>) -> String {
    let outcome = outcome.map_or_else(|| "under way".to_owned(), |outcome| outcome.to_string());
    let category = category.map(|category| format!(" ({})", category.to_string()));
    outcome + &category.unwrap_or_default()
}

fn print_sent_and_received(output: &Output, arguments: Option<&Value>, result: Option<&Value>) {
    for (arrow, value) in [("←", arguments), ("→", result)] {
        if let Some(value) = value {
            output.line(format_args!("     {} {}", painted(QUIET, arrow), quote::readable(value)));
        }
    }
}

fn print_approvals(output: &Output, approvals: &[ApprovalView]) {
    if !approvals.is_empty() {
        output.line(painted(STRONG, "approval"));
    }
    for approval in approvals {
        let what = if approval.approved { "approved" } else { "rejected" };
        let reason = approval.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let at = times::local_date_time(&approval.at);
        output
            .line(format_args!("  {at}  {what} by {}{reason} (position {})", approval.by, approval.position));
    }
}

/// Prints the compensations that were made, and the calls that an undo would make.
fn print_compensation(output: &Output, detail: &StepDetail) {
    if !detail.compensations.is_empty() || !detail.to_undo.is_empty() {
        output.line(painted(STRONG, "compensation"));
    }
    for undo in &detail.compensations {
        let CompensationView {
            attempt,
            started_at,
            ended_at: _,
            outcome: result_outcome,
            category,
            arguments,
            result,
        } = undo;
        let at = times::local_date_time(started_at);
        output
            .line(format_args!("  {at}  of attempt {attempt}: {}", outcome_text(*result_outcome, *category)));
        print_sent_and_received(output, arguments.as_ref(), result.as_ref());
    }
    for UndoItem { tool, action, arguments, .. } in &detail.to_undo {
        let what = tool.clone().or_else(|| action.as_ref().map(|action| format!("by hand: {action}")));
        output.line(format_args!("  undoing would run {}", what.unwrap_or_default()));
        print_sent_and_received(output, arguments.as_ref(), None);
    }
}
