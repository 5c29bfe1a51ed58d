//! The answer that shows one step whole, with its long values page by page.

use serde_json::{Value, json};

use super::outputs::truncation_text;
use super::suggestions::status_step_arguments;
use super::{AgentAnswer, MESSAGE_CHARS_MAX};
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::mcp::text::{AnswerText, Suggestion};
use crate::service::quote::{self, quoted};
use crate::service::{ApprovalView, StepDetail};

/// Characters of one value on one page.
const PAGE_CHARS: usize = 8_000;
/// The newest attempts that the text shows.
const ATTEMPTS_SHOWN_MAX: usize = 10;

/// A value of a step: its title in the text, and its JSON pointer in the structured content.
struct TitledValue<'a> {
    title: String,
    pointer: String,
    value: &'a Value,
}

/// The answer that shows a step, its values from character `offset` on; the history is only on the first
/// page. Err: no value is that long.
pub fn step_answer(detail: &StepDetail, offset: usize) -> Result<AgentAnswer, Error> {
    let mut structured = serde_json::to_value(detail).unwrap_or_default();
    let whole = structured.clone();
    let parts = titled_values(detail, &whole);
    let longest = parts.iter().map(|part| quote::readable(part.value).chars().count()).max().unwrap_or(0);
    if offset > 0 && offset >= longest {
        let message = format!("`offset`: no value of the step has more than {longest} characters");
        let cure = "leave `offset` out: it begins with 0";
        let error = AgentError::new(AgentErrorCode::InvalidArgument, message, cure);
        return Err(error.with_path("offset").into());
    }
    let mut text = step_heading(detail);
    for part in &parts {
        let page = push_page(part, offset, &mut text);
        if let (Some(page), Some(value)) = (page, structured.pointer_mut(&part.pointer)) {
            *value = page;
        }
    }
    if offset == 0 {
        push_history(detail, &mut text);
    }
    drop_repeated_values(detail, &mut structured);
    let next: Vec<Suggestion> = suggest_next_page(detail, offset, longest).into_iter().collect();
    text.push_suggestions(&next);
    let structured = json!({ "step": structured, "next": next });
    Ok(AgentAnswer { structured, text: text.into_string() })
}

/// Removes the values of the last attempt from the structured content where the step itself shows the same ones.
fn drop_repeated_values(detail: &StepDetail, structured: &mut Value) {
    let last = structured["history"].as_array_mut().and_then(|history| history.last_mut());
    if let Some(last) = last.and_then(Value::as_object_mut).filter(|_| !detail.has_corrected_arguments()) {
        last.retain(|name, _| !matches!(name.as_str(), "arguments" | "result"));
    }
}

/// The first lines: status, attempts, tool or action, and times.
fn step_heading(detail: &StepDetail) -> AnswerText {
    let step = &detail.step;
    let tries =
        if step.attempts == 1 { "1 attempt".to_owned() } else { format!("{} attempts", step.attempts) };
    let named = step.name.as_deref().map(|name| format!(" ({})", quote::name(name))).unwrap_or_default();
    let mut text = AnswerText::new(format!(
        "Step `{}`{named} of execution {} is {}, {tries}.",
        step.id, detail.execution_id, step.status
    ));
    match (&step.tool, &step.action) {
        (Some(tool), _) => text.push_line(format!("Tool: {}", quote::line(tool, MESSAGE_CHARS_MAX))),
        (None, Some(action)) => text.push_line(format!("Work: {}", quoted(action, MESSAGE_CHARS_MAX))),
        (None, None) => {}
    }
    let took = step.took_ms.map(|ms| format!(", took {ms} ms")).unwrap_or_default();
    if let Some(started) = &step.started_at {
        let ended = step.ended_at.as_deref().unwrap_or("not yet");
        text.push_line(format!("Started {started}, ended {ended}{took}."));
    }
    text
}

/// The values of a step that can be long, in the order in which they are shown. `whole`: the detail as JSON.
fn titled_values<'a>(detail: &StepDetail, whole: &'a Value) -> Vec<TitledValue<'a>> {
    let mut parts = Vec::new();
    let mut add = |title: String, path: String| {
        parts.extend(whole.pointer(&path).map(|value| TitledValue { title, pointer: path.clone(), value }));
    };
    if let Some(error) = &detail.step.error {
        add(format!("Error, {}", error.category), "/error/message".to_owned());
    }
    add("Output".to_owned(), "/output".to_owned());
    add("Arguments".to_owned(), "/arguments".to_owned());
    add("Reported by its agent".to_owned(), "/recorded".to_owned());
    // The step itself shows the last attempt, unless its next attempt sends other arguments.
    let shown_above = usize::from(!detail.has_corrected_arguments());
    for no in 0..detail.history.len().saturating_sub(shown_above) {
        add(format!("Arguments of attempt {}", no + 1), format!("/history/{no}/arguments"));
        add(format!("Result of attempt {}", no + 1), format!("/history/{no}/result"));
    }
    for no in 0..detail.to_undo.len() {
        add("Undoing it would send".to_owned(), format!("/to_undo/{no}/arguments"));
    }
    for no in 0..detail.compensations.len() {
        add(format!("Arguments of compensation {}", no + 1), format!("/compensations/{no}/arguments"));
        add(format!("Result of compensation {}", no + 1), format!("/compensations/{no}/result"));
    }
    parts
}

/// Adds one page of a value, from character `offset` on. Returns what replaces the value in the structured
/// content; None: it is whole.
fn push_page(part: &TitledValue<'_>, offset: usize, text: &mut AnswerText) -> Option<Value> {
    let readable = quote::readable(part.value);
    let size = readable.chars().count();
    let shown: String = readable.chars().skip(offset).take(PAGE_CHARS).collect();
    let whole = size <= PAGE_CHARS && offset == 0;
    if !shown.is_empty() {
        let from = if whole { String::new() } else { format!(", from {offset} on") };
        let cut = truncation_text(part.value);
        text.push_line(format!("{} ({size} characters{from}{cut}):", part.title));
        text.push_quoted_block(&shown, PAGE_CHARS);
    }
    (!whole).then(|| json!({ "page": shown, "offset": offset, "characters": size }))
}

/// Adds attempts, approvals, compensations and open questions, one line each.
fn push_history(detail: &StepDetail, text: &mut AnswerText) {
    let older = detail.history.len().saturating_sub(ATTEMPTS_SHOWN_MAX);
    if older > 0 {
        text.push_line(format!("{older} older attempts are only in the structured content."));
    }
    for (no, attempt) in detail.history.iter().enumerate().skip(older) {
        let outcome = attempt.outcome.map_or("under way".to_owned(), |outcome| outcome.to_string());
        let category = attempt.category.map(|category| format!(" ({category})")).unwrap_or_default();
        let ended = attempt.ended_at.as_deref().unwrap_or("not yet");
        let (no, started) = (no + 1, &attempt.started_at);
        text.push_line(format!("Attempt {no}: {outcome}{category}, started {started}, ended {ended}."));
    }
    detail
        .approvals
        .iter()
        .for_each(|approval| text.push_line(format!("Approval: {}", approval_text(approval))));
    for one in &detail.to_undo {
        let how = one.tool.as_deref().or(one.action.as_deref()).unwrap_or("nothing");
        text.push_line(format!("Compensation: {} would take it back.", quoted(how, MESSAGE_CHARS_MAX)));
    }
    for (no, one) in detail.compensations.iter().enumerate() {
        let outcome = one.outcome.map_or("under way".to_owned(), |outcome| outcome.to_string());
        text.push_line(format!(
            "Compensation {} of attempt {}: {outcome}, started {}.",
            no + 1,
            one.attempt,
            one.started_at
        ));
    }
    for waiting in &detail.waiting {
        text.push_line(format!("Waits: {}", quote::line(&waiting.question, PAGE_CHARS)));
    }
}

/// Who approved or rejected, when and why: `approved by person:ada at …: "reason"`.
pub(super) fn approval_text(approval: &ApprovalView) -> String {
    let verdict = if approval.approved { "approved" } else { "rejected" };
    let why = approval.reason.as_ref().map(|why| format!(": {}", quoted(why, MESSAGE_CHARS_MAX)));
    let by = quote::line(&approval.by, MESSAGE_CHARS_MAX);
    format!("{verdict} by {by} at {}{}", approval.at, why.unwrap_or_default())
}

/// Suggests the call that reads the next page; `longest`: characters of the longest value. None: this page is
/// the last.
fn suggest_next_page(detail: &StepDetail, offset: usize, longest: usize) -> Option<Suggestion> {
    let next_offset = offset + PAGE_CHARS;
    let arguments = status_step_arguments(detail.execution_id.as_str(), detail.step.id.as_str(), next_offset);
    (longest > next_offset).then(|| Suggestion::tool_call("status", arguments, "reads on"))
}
