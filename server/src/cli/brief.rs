//! An execution's result in words: the outcome, the recovery brief, open questions, and the next commands to
//! type.

use crate::service::quote;
use crate::service::view::{AnswerOption, ExecutionView, QuestionKind, StepView, WaitingView};
use crate::service::{ApprovalView, Brief, Durations, NoteView, ReportedStatus};
use crate::tools::{AskedInput, RequestedInput};
use actbook_engine::id::StepId;
use actbook_engine::plan::duration_text;
use actbook_engine::policy::{ExecutionStatus, StepAnswer, StepStatus};
use actbook_engine::template::escape_expressions;
use serde_json::Value;

use super::output::Output;
use super::status_style::{self, ATTENTION, BAD, BUSY, QUIET, STRONG, painted, short_id};
use super::table::truncate;
use super::times;

/// Step names listed in one line; the rest is counted.
const NAMES_SHOWN: usize = 12;
const ARGUMENTS_SHOWN: usize = 160;
/// Columns of an error message, a blocker or a record.
const MESSAGE_SHOWN: usize = 400;
const RECORDS_SHOWN: usize = 20;
/// Outputs are printed only for executions of at most this many steps.
const OUTPUTS_STEPS_MAX: usize = 10;
const OUTPUT_SHOWN: usize = 300;

/// Prints the end of a run: the headline, failed steps, outputs, the recovery brief and open questions.
pub fn print_outcome(output: &Output, view: &ExecutionView) {
    output.line("");
    output.line(headline(view));
    print_failed_steps(output, view);
    print_outputs(output, view);
    if !matches!(view.status, ExecutionStatus::Succeeded | ExecutionStatus::Compensated) {
        print_brief(output, view);
    }
    print_waiting(output, view);
}

/// `succeeded after 2.1 s: 6 of 6 steps done; everything ran`
pub fn headline(view: &ExecutionView) -> String {
    let took = took_text(view);
    if let Some(calls) = view.call_summary() {
        let status = if view.status == ExecutionStatus::Succeeded { "ended" } else { view.status.as_str() };
        return format!("{}{took}: {calls}", painted(status_style::execution_style(view.status), status));
    }
    let done = view.progress_text();
    let meaning = match view.status {
        ExecutionStatus::Running => "it is under way",
        ExecutionStatus::Paused => "nothing starts until it is resumed",
        ExecutionStatus::Blocked => "it waits for an answer",
        ExecutionStatus::Compensating => "what was done is being undone",
        ExecutionStatus::Succeeded => "everything ran",
        ExecutionStatus::Failed if view.remains_after_undo() => {
            "it ended, and what can be undone has been; the rest cannot"
        }
        ExecutionStatus::Failed if view.undone().next().is_some() => {
            "it ended, and what can be undone has been"
        }
        ExecutionStatus::Failed => "it ended, and the plan was not carried out in full",
        ExecutionStatus::Cancelled => "it was stopped; what was done remains",
        ExecutionStatus::Compensated => "everything that ran has been undone",
    };
    let status = painted(status_style::execution_style(view.status), view.status);
    format!("{status}{took}: {done}; {meaning}")
}

/// ` after 2.1 s`; empty if it has not ended.
fn took_text(view: &ExecutionView) -> String {
    match (timestamp_ms(&view.started_at), view.ended_at.as_deref().and_then(timestamp_ms)) {
        (Some(from), Some(to)) => format!(" after {}", times::elapsed_text(to - from)),
        (_, _) => String::new(),
    }
}

/// An RFC 3339 time as Unix milliseconds; `None` if it cannot be parsed.
fn timestamp_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond())
}

/// One line with the current steps and the time estimates, if the plan has any, then a line for each blocker
/// note.
pub fn progress_lines(view: &ExecutionView) -> Vec<String> {
    let estimates = view.durations.map(|Durations { estimated_ms, took_ms, left_ms }| {
        let at = if view.current.is_empty() {
            String::new()
        } else {
            format!("at {}; ", step_names(&view.current))
        };
        let (estimated, left) = (duration_text(estimated_ms), duration_text(left_ms));
        format!(
            "{at}estimated {estimated}; what is done took {}; {left} left by the estimates",
            times::elapsed_text(took_ms)
        )
    });
    let blocker = |note: &NoteView| {
        let text = truncate(&super::context::note_text(&note.value), MESSAGE_SHOWN);
        let from = format!("({}, position {})", note.author, note.position);
        format!("{} {}: {text} {}", painted(BAD, "blocker"), note.key, painted(QUIET, from))
    };
    estimates.into_iter().chain(view.blockers.iter().map(blocker)).collect()
}

/// Prints the steps that failed or are unknown, each with its error.
fn print_failed_steps(output: &Output, view: &ExecutionView) {
    let failed = |step: &&StepView| {
        matches!(step.status, StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed)
    };
    for step in view.steps.iter().filter(failed).take(NAMES_SHOWN) {
        let (sign, style) = status_style::step_symbol_and_style(step.status);
        let why = step
            .error
            .as_ref()
            .map(|error| format!(": {} ({})", truncate(&error.message, MESSAGE_SHOWN), error.category));
        let text = format!("{sign} {} {}", step.id, step.status);
        output.line(format_args!("  {}{}", painted(style, text), why.unwrap_or_default()));
    }
}

/// Prints the outputs of the steps of a small execution.
fn print_outputs(output: &Output, view: &ExecutionView) {
    if view.steps.len() > OUTPUTS_STEPS_MAX {
        return;
    }
    for step in view.steps.iter().filter(|step| step.status == StepStatus::Succeeded) {
        if let Some(value) = &step.output {
            let text = truncate(&quote::readable(value), OUTPUT_SHOWN);
            output.line(format_args!("  {} {} {text}", step.id, painted(QUIET, "→")));
        }
    }
}

/// Prints the recovery brief, if there is one: what is done, what may have run, what an undo would do. The
/// last is left out if a question asks to approve the undo: `print_waiting` prints the same calls with it.
pub fn print_brief(output: &Output, view: &ExecutionView) {
    let Some(brief) = &view.brief else { return };
    output.line("");
    output.line(painted(STRONG, "Recovery brief"));
    print_step_names(output, "done", &brief.done);
    print_step_names(output, "may have run", &brief.may_have_run);
    print_step_names(output, "not done", &brief.not_done);
    // A plan's approval has no step either, but is asked before there is anything to undo.
    let asks_to_undo =
        |waiting: &WaitingView| waiting.kind == QuestionKind::Approval && waiting.step.is_none();
    if view.waiting.iter().any(asks_to_undo) {
        return;
    }
    print_undo_calls(output, brief, ARGUMENTS_SHOWN);
    for left in &brief.cannot_undo {
        output.line(format_args!("  {} {}: {}", painted(BAD, "cannot undo"), left.step, left.why));
    }
}

/// Prints the calls that an undo would make, in order; arguments up to `arguments_shown` characters.
pub fn print_undo_calls(output: &Output, brief: &Brief, arguments_shown: usize) {
    if brief.undo.is_empty() {
        output.line(format_args!("  {}  nothing", painted(QUIET, "undo would run")));
        return;
    }
    output.line(format_args!("  {}", painted(QUIET, "undo would run, in this order:")));
    for (index, call) in brief.undo.iter().enumerate() {
        let what = match (&call.tool, &call.action) {
            (Some(tool), _) => {
                let arguments = call.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{tool} {}", truncate(&arguments, arguments_shown))
            }
            (None, Some(action)) => format!("by hand: {action}"),
            (None, None) => String::new(),
        };
        output.line(format_args!("    {}. {} ← {}", index + 1, call.step, what.trim_end()));
        if let Some(trouble) = &call.trouble {
            output.line(format_args!("       {}", painted(ATTENTION, trouble)));
        }
    }
}

/// Prints a label and the step ids behind it; nothing if there are none.
fn print_step_names(output: &Output, what: &str, steps: &[StepId]) {
    if !steps.is_empty() {
        output.line(format_args!("  {:14}  {}", padded_label(what), step_names(steps)));
    }
}

/// The label padded to 14 columns before it is styled, since style marks would count as width.
fn padded_label(what: &str) -> String {
    painted(QUIET, format_args!("{what:14}"))
}

/// Step ids joined with commas, with a count of those that are left out.
pub fn step_names(steps: &[StepId]) -> String {
    let shown: Vec<&str> = steps.iter().take(NAMES_SHOWN).map(StepId::as_str).collect();
    let more = steps.len().saturating_sub(NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Prints what agents and people recorded, about steps and about the execution.
pub fn print_records(output: &Output, view: &ExecutionView) {
    let of_steps = view.steps.iter().filter_map(|step| Some((step.id.as_str(), step.recorded.as_ref()?)));
    let of_steps = of_steps.map(|(step, facts)| format!("{step}: {}", facts_line(facts)));
    let others = view.records.iter().map(|record| {
        let step = record.step.as_ref().map(|step| format!("{step}: ")).unwrap_or_default();
        let decision = record.decision.as_ref().map(|decision| format!("decided: {decision}"));
        let reason = record.reason.as_ref().map(|reason| format!("because {reason}"));
        let details = record.details.as_ref().map(facts_line);
        let words = [decision, reason, details].into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("{step}{words}")
    });
    let lines: Vec<String> = of_steps.chain(others).collect();
    if lines.is_empty() {
        return;
    }
    output.line("");
    output.line(painted(STRONG, "On record"));
    for line in lines.iter().take(RECORDS_SHOWN) {
        output.line(format_args!("  {}", truncate(line, MESSAGE_SHOWN)));
    }
    if lines.len() > RECORDS_SHOWN {
        output.line(format_args!("  … {} more; `--json` has them", lines.len() - RECORDS_SHOWN));
    }
}

/// Prints how reports of agents agree with the calls that a guard saw.
pub fn print_reports(output: &Output, view: &ExecutionView) {
    let Some(reports) = &view.reports else { return };
    output.line("");
    output.line(format_args!("{} {}", painted(STRONG, "Reported against seen"), reports.counts()));
    for item in reports.disagreements().take(RECORDS_SHOWN) {
        output.line(format_args!("  {}", item.line()));
    }
}

/// Recorded facts in one line, the description first.
fn facts_line(facts: &Value) -> String {
    let Value::Object(fields) = facts else { return facts.to_string() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = fields.get("description").or(fields.get("action_taken")).map(text);
    let rest = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "description" | "action_taken"));
    let rest = rest.map(|(name, value)| {
        format!("{} {}", name.replace('_', " "), truncate(&text(value), ARGUMENTS_SHOWN))
    });
    first.into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}

/// Prints every open question with the commands that answer it, then the commands that fit the execution's
/// status.
pub fn print_waiting(output: &Output, view: &ExecutionView) {
    let id = short_id(view.id.as_str());
    if let Some(ApprovalView { by, at, reason, position, .. }) = &view.undo_rejected {
        let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let at = times::local_date_time(at);
        output.line("");
        output.line(format_args!("undo rejected by {by} at {at}{reason} (position {position})"));
    }
    print_questions(output, id, &view.waiting);
    for command in next_commands(view, id) {
        output.line(format_args!("  {}", painted(BUSY, command)));
    }
}

/// Prints each question with the commands that answer it.
pub fn print_questions(output: &Output, id: &str, waiting: &[WaitingView]) {
    if !waiting.is_empty() {
        output.line("");
        output.line(painted(STRONG, "What waits"));
    }
    for waiting in waiting {
        output.line(format_args!("  {} {}", painted(ATTENTION, "?"), waiting.headline()));
        // Of a step the question itself shows the call, which is the first line.
        for line in waiting.content.iter().skip(usize::from(waiting.step.is_some())) {
            output.line(format_args!("    {line}"));
        }
        for command in answer_commands(id, waiting) {
            output.line(format_args!("      {}", painted(BUSY, command)));
        }
        if waiting.options.contains(&AnswerOption::Decide(StepAnswer::Retry))
            && waiting.refused_arguments.is_none()
        {
            let hint = "a call is corrected by `retry --arguments JSON`, with all of its arguments";
            output.line(format_args!("      {}", painted(QUIET, hint)));
        }
        if let Some(page) = &waiting.page {
            output.line(format_args!("      {} {page}", painted(QUIET, "or in a browser:")));
        }
    }
}

/// The command lines that answer one question, one for each option.
fn answer_commands(id: &str, waiting: &WaitingView) -> Vec<String> {
    let step = waiting.step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
    let command = |option: &AnswerOption| match *option {
        AnswerOption::Approve => format!("actbook approve {id}{step}"),
        AnswerOption::Reject => format!("actbook reject {id}{step} --reason \"…\""),
        AnswerOption::Report(status) => {
            let reason = if status == ReportedStatus::Failed { " --reason \"…\"" } else { "" };
            format!("actbook record {id}{step} {status}{reason}")
        }
        AnswerOption::Decide(answer) => {
            let asked = waiting.asked_input.as_ref().filter(|asked| asked.as_sent().is_some());
            let output = match (answer, asked) {
                (StepAnswer::Happened, _) => " --output '{}'".to_owned(),
                (StepAnswer::Retry, Some(asked)) => format!(" --output '{}'", reply_skeleton(asked)),
                (StepAnswer::Retry, None) => {
                    waiting.refused_arguments.as_ref().map(correction).unwrap_or_default()
                }
                (
                    StepAnswer::Skip
                    | StepAnswer::DidNotHappen
                    | StepAnswer::Compensate
                    | StepAnswer::Abandon,
                    _,
                ) => String::new(),
            };
            format!("actbook decide {id}{step} {answer} --reason \"…\"{output}")
        }
    };
    waiting.options.iter().map(command).collect()
}

/// The option that corrects refused arguments: short ones are filled in as they were, with `${` escaped
/// because an answer may hold no expression.
fn correction(refused: &Value) -> String {
    let text = escape_expressions(refused).to_string().replace('\'', r"'\''");
    let text = if text.len() <= ARGUMENTS_SHOWN { text } else { "{}".to_owned() };
    format!(" --arguments '{text}'")
}

/// A JSON skeleton of the reply to what a tool asks: for one form its fields, for several keyed by request.
fn reply_skeleton(asked: &AskedInput) -> String {
    let form = |request: &RequestedInput| -> Value {
        request.fields.iter().map(|field| (field.name.clone(), Value::from("…"))).collect()
    };
    match asked.requests.as_slice() {
        [only] => form(only).to_string(),
        several => {
            let forms = several.iter().map(|request| (request.key.clone(), form(request)));
            forms.collect::<Value>().to_string()
        }
    }
}

/// The command lines that fit the execution's status: resume, or undo if there is something to undo.
fn next_commands(view: &ExecutionView, id: &str) -> Vec<String> {
    let undoing =
        |step: &StepView| matches!(step.status, StepStatus::Compensating | StepStatus::CompensationFailed);
    let waits_to_undo = view.status == ExecutionStatus::Blocked && view.steps.iter().any(undoing);
    let undoable = !waits_to_undo
        && view.undo_rejected.is_none()
        && view.brief.as_ref().is_some_and(|brief| !brief.undo.is_empty());
    let undo = undoable.then(|| format!("actbook undo {id}   undoes what may have run"));
    match view.status {
        ExecutionStatus::Paused => vec![format!("actbook resume {id}   continues it")],
        ExecutionStatus::Failed | ExecutionStatus::Cancelled | ExecutionStatus::Blocked => {
            undo.into_iter().collect()
        }
        ExecutionStatus::Running
        | ExecutionStatus::Compensating
        | ExecutionStatus::Succeeded
        | ExecutionStatus::Compensated => Vec::new(),
    }
}
