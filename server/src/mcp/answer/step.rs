//! One step whole, its long values page by page.

use serde_json::{Value, json};

use super::next::reads_step;
use super::{Answer, MESSAGE_CHARS_MAX};
use crate::error::Error;
use crate::mcp::text::{Next, Text};
use crate::service::quote::{self, quoted};
use crate::service::{ApprovalView, StepDetail};

/// Characters of one value on one page.
const PAGE_CHARS: usize = 8_000;
/// Older attempts than these are only counted.
const ATTEMPTS_SHOWN_MAX: usize = 10;

/// A value of a step: what it is called in the text, and where it stands in the structured content.
struct Part<'a> {
    title: String,
    path: String,
    value: &'a Value,
}

/// The step from character `offset` of its values on; those that end before it are left out.
pub fn step(detail: &StepDetail, offset: usize) -> Result<Answer, Error> {
    let mut structured = serde_json::to_value(detail).unwrap_or_default();
    let whole = structured.clone();
    let parts = parts(detail, &whole);
    let longest = parts.iter().map(|part| quote::readable(part.value).chars().count()).max().unwrap_or(0);
    if offset > 0 && offset >= longest {
        let message = format!("`offset`: no value of the step has more than {longest} characters");
        let error = Error::new("invalid_argument", message, "leave `offset` out: it begins with 0");
        return Err(Error { path: Some("offset".to_owned()), ..error });
    }
    let mut text = heading(detail);
    for part in &parts {
        let page = page(part, offset, &mut text);
        if let (Some(page), Some(place)) = (page, structured.pointer_mut(&part.path)) {
            *place = page;
        }
    }
    if offset == 0 {
        told_besides(detail, &mut text);
    }
    let next: Vec<Next> = reads_on(detail, offset, longest).into_iter().collect();
    text.next(&next);
    let structured = json!({ "step": structured, "next": next });
    Ok(Answer { structured, text: text.into_string() })
}

fn heading(detail: &StepDetail) -> Text {
    let step = &detail.step;
    let tries =
        if step.attempts == 1 { "1 attempt".to_owned() } else { format!("{} attempts", step.attempts) };
    let named = step.name.as_deref().map(|name| format!(" ({})", quote::name(name))).unwrap_or_default();
    let mut text = Text::new(format!(
        "Step `{}`{named} of execution {} is {}, {tries}.",
        step.id, detail.execution_id, step.status
    ));
    match (&step.tool, &step.action) {
        (Some(tool), _) => text.line(format!("Tool: {}", quote::line(tool, MESSAGE_CHARS_MAX))),
        (None, Some(action)) => text.line(format!("Work: {}", quoted(action, MESSAGE_CHARS_MAX))),
        (None, None) => {}
    }
    let took = step.took_ms.map(|ms| format!(", took {ms} ms")).unwrap_or_default();
    if let Some(started) = &step.started_at {
        let ended = step.ended_at.as_deref().unwrap_or("not yet");
        text.line(format!("Started {started}, ended {ended}{took}."));
    }
    text
}

fn parts<'a>(detail: &StepDetail, whole: &'a Value) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut add = |title: String, path: String| {
        parts.extend(whole.pointer(&path).map(|value| Part { title, path: path.clone(), value }));
    };
    if let Some(error) = &detail.step.error {
        add(format!("Error, {}", error.category), "/error/message".to_owned());
    }
    add("Output".to_owned(), "/output".to_owned());
    add("Arguments".to_owned(), "/arguments".to_owned());
    add("Its agent told".to_owned(), "/recorded".to_owned());
    // The last attempt is what the step itself shows.
    for no in 0..detail.history.len().saturating_sub(1) {
        add(format!("Arguments of attempt {}", no + 1), format!("/history/{no}/arguments"));
        add(format!("What came of attempt {}", no + 1), format!("/history/{no}/result"));
    }
    for no in 0..detail.to_undo.len() {
        add("Undoing it would send".to_owned(), format!("/to_undo/{no}/arguments"));
    }
    for no in 0..detail.compensations.len() {
        add(format!("Arguments of compensation {}", no + 1), format!("/compensations/{no}/arguments"));
        add(format!("What came of compensation {}", no + 1), format!("/compensations/{no}/result"));
    }
    parts
}

/// Tells one page of a value; what stands for it in the structured content where it is not whole there.
fn page(part: &Part<'_>, offset: usize, text: &mut Text) -> Option<Value> {
    let said = quote::readable(part.value);
    let size = said.chars().count();
    let shown: String = said.chars().skip(offset).take(PAGE_CHARS).collect();
    let whole = size <= PAGE_CHARS && offset == 0;
    if !shown.is_empty() {
        let place = if whole { String::new() } else { format!(", from {offset} on") };
        text.line(format!("{} ({size} characters{place}):", part.title));
        text.block(&shown, PAGE_CHARS);
    }
    (!whole).then(|| json!({ "page": shown, "offset": offset, "characters": size }))
}

/// Attempts, approvals and compensations, one line each.
fn told_besides(detail: &StepDetail, text: &mut Text) {
    let older = detail.history.len().saturating_sub(ATTEMPTS_SHOWN_MAX);
    if older > 0 {
        text.line(format!("{older} older attempts are only in the structured content."));
    }
    for (no, attempt) in detail.history.iter().enumerate().skip(older) {
        let outcome = attempt.outcome.map_or("under way".to_owned(), |outcome| outcome.to_string());
        let category = attempt.category.map(|category| format!(" ({category})")).unwrap_or_default();
        let ended = attempt.ended_at.as_deref().unwrap_or("not yet");
        let (no, started) = (no + 1, &attempt.started_at);
        text.line(format!("Attempt {no}: {outcome}{category}, started {started}, ended {ended}."));
    }
    detail.approvals.iter().for_each(|approval| text.line(approval_line(approval)));
    for one in &detail.to_undo {
        let how = one.tool.as_deref().or(one.action.as_deref()).unwrap_or("nothing");
        text.line(format!("Compensation: {} would take it back.", quoted(how, MESSAGE_CHARS_MAX)));
    }
    for (no, one) in detail.compensations.iter().enumerate() {
        let outcome = one.outcome.map_or("under way".to_owned(), |outcome| outcome.to_string());
        text.line(format!(
            "Compensation {} of attempt {}: {outcome}, started {}.",
            no + 1,
            one.attempt,
            one.started_at
        ));
    }
    for waiting in &detail.waiting {
        text.line(format!("Waits: {}", quote::line(&waiting.question, PAGE_CHARS)));
    }
}

fn approval_line(approval: &ApprovalView) -> String {
    let said = if approval.approved { "approved" } else { "rejected" };
    let why = approval.reason.as_ref().map(|why| format!(": {}", quoted(why, MESSAGE_CHARS_MAX)));
    let by = quote::line(&approval.by, MESSAGE_CHARS_MAX);
    format!("Approval: {said} by {by} at {}{}", approval.at, why.unwrap_or_default())
}

fn reads_on(detail: &StepDetail, offset: usize, longest: usize) -> Option<Next> {
    let on = offset + PAGE_CHARS;
    let arguments = reads_step(detail.execution_id.as_str(), detail.step.id.as_str(), on);
    (longest > on).then(|| Next::call("status", arguments, "reads on"))
}
