//! Views become answers: `structuredContent` that fits the declared schema, and a text that says what is so,
//! what came of the steps, what waits and which call to make next. Cuts what would flood an agent's context,
//! and names the call that reads the rest.

mod next;
mod outputs;
mod schema;
mod step;

use actbook_engine::id::StepId;
use actbook_engine::plan::duration_text;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use next::{Doors, lines as next_lines, reads_step};
pub use outputs::last_outputs;
pub use schema::{answer, execution as execution_schema, execution_or, objects};
pub use step::step;

use super::cures;
use super::text::{Next, Text};
use crate::error::Error;
use crate::service::quote::{self, quoted};
use crate::service::view::{ExecutionView, RecordView, StepView, WaitingView};
use crate::service::{Brief, Durations};

/// A plan with more steps than this is shown by the steps that matter.
const STEPS_SHOWN_MAX: usize = 40;
/// A value with a longer JSON text is cut; `status` with a `step_id` has it whole.
const VALUE_CHARS_MAX: usize = 2_000;
const MESSAGE_CHARS_MAX: usize = 500;
const HOW_CHARS_MAX: usize = 80;
const FINDINGS_SHOWN_MAX: usize = 10;
/// Acts and decisions that are told in the text, the newest.
const RECORDS_SHOWN_MAX: usize = 3;

const REPEATED: &str = "Repeated: this idempotency_key came with the same request before, so nothing was started or changed now. This is how it stands:";

#[derive(Clone, Debug)]
pub struct Answer {
    pub structured: Value,
    pub text: String,
}

impl Answer {
    pub fn new(structured: &impl Serialize, text: impl Into<String>) -> Self {
        let structured = serde_json::to_value(structured).unwrap_or_else(
            |error| json!({ "error": { "code": "internal", "message": error.to_string(), "cure": "" } }),
        );
        Self { structured, text: text.into() }
    }

    pub fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

/// A no that the agent reads: what, and what to do instead.
pub fn refused(error: &Error) -> CallToolResult {
    let mut text = Text::new(format!("{}: {}", error.code, error.message));
    text.line(format!("→ {}", error.cure));
    for finding in error.findings.iter().skip(1).take(FINDINGS_SHOWN_MAX) {
        text.item(format!("{}: {} → {}", finding.place(), finding.message, finding.cure));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text.into_string())]);
    result.structured_content = Some(json!({ "error": error }));
    result
}

/// The answer to a request that was made before under the same key.
pub fn repeated(response: CallToolResponse) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(mut result) => {
            if let Some(ContentBlock::Text(said)) = result.content.first_mut() {
                said.text = format!("{REPEATED}\n{}", said.text);
            }
            if let Some(structured) = &mut result.structured_content {
                structured["repeated"] = json!(true);
            }
            CallToolResponse::Complete(result)
        }
        CallToolResponse::Task(mut created) => {
            let before = created.task.status_message.unwrap_or_default();
            created.task.status_message = Some(format!("{REPEATED} {before}"));
            CallToolResponse::Task(created)
        }
        // A question is put once more; nothing was done for it yet.
        other => other,
    }
}

/// An execution, as every tool that moves one answers.
pub fn execution(view: &ExecutionView, doors: Doors) -> Answer {
    shown(view, next::lines(view, doors))
}

/// The same, where nobody of this place can go on with it.
pub fn execution_elsewhere(view: &ExecutionView, doors: Doors, why: &str) -> Answer {
    shown(view, next::elsewhere(view, doors, why))
}

fn shown(view: &ExecutionView, next: Vec<Next>) -> Answer {
    let (steps, left_out) = shown_steps(view);
    let mut structured = serde_json::to_value(view).unwrap_or_default();
    structured["steps"] = json!(steps);
    structured["next"] = json!(next);
    name_actions(&mut structured["waiting"]);
    let blockers = structured.get_mut("blockers").and_then(Value::as_array_mut);
    blockers.into_iter().flatten().for_each(|note| clip(&mut note["value"]));
    if left_out > 0 {
        structured["steps_left_out"] = json!(left_out);
    }
    if let Some(brief) = structured.get_mut("brief") {
        clip_brief(brief);
    }
    Answer { structured, text: told(view, &next) }
}

/// What a question can be answered with, as `control` spells it.
pub fn name_actions(waiting: &mut Value) {
    let options = waiting.as_array_mut().into_iter().flatten();
    let options = options.filter_map(|one| one["options"].as_array_mut());
    for option in options.flatten() {
        if let Value::String(text) = option {
            *text = cures::spelled_here(text);
        }
    }
}

/// Everything that is at work, has gone wrong or waits; of the rest as many as there is room for.
fn shown_steps(view: &ExecutionView) -> (Vec<Value>, usize) {
    let quiet =
        |step: &StepView| matches!(step.status.as_str(), "pending" | "succeeded" | "skipped" | "cancelled");
    let mut room = STEPS_SHOWN_MAX.saturating_sub(view.steps.iter().filter(|step| !quiet(step)).count());
    let mut shown = Vec::new();
    for step in &view.steps {
        let fits = !quiet(step) || room > 0;
        room -= usize::from(quiet(step) && room > 0);
        if fits && shown.len() < 2 * STEPS_SHOWN_MAX {
            shown.push(clipped_step(view, step));
        }
    }
    let left_out = view.steps.len() - shown.len();
    (shown, left_out)
}

fn clipped_step(view: &ExecutionView, step: &StepView) -> Value {
    let mut shown = serde_json::to_value(step).unwrap_or_default();
    for field in ["arguments", "output"] {
        let Some(value) = shown.get_mut(field) else { continue };
        clip(value);
        if value.get("clipped").is_some() && value.get("bytes").is_some() {
            value["whole"] =
                json!({ "tool": "status", "arguments": reads_step(view.id.as_str(), step.id.as_str(), 0) });
        }
    }
    if let Some(Value::String(message)) = shown.pointer_mut("/error/message") {
        *message = cut(message, MESSAGE_CHARS_MAX);
    }
    shown
}

pub fn clip(value: &mut Value) {
    let text = value.to_string();
    if text.len() > VALUE_CHARS_MAX {
        *value = json!({ "clipped": cut(&text, VALUE_CHARS_MAX / 2), "bytes": text.len() });
    }
}

pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn told(view: &ExecutionView, next: &[Next]) -> String {
    let ExecutionView { id, status, plan, progress, position, guarantee, .. } = view;
    let ending = view.ending.map(|end| format!(", and will be {end} once what is in flight has ended"));
    let ending = ending.unwrap_or_default();
    let mut text = Text::new(format!(
        "Execution {id} of plan {} is {status}{ending}: {} of {} steps done (position {position}).",
        quote::name(&plan.name),
        progress.done,
        progress.total
    ));
    text.line(format!("Guarantee: {guarantee}."));
    troubles(view).chain(late_answers(view)).chain(pace(view)).for_each(|line| text.line(line));
    for WaitingView { question, .. } in view.waiting.iter().take(FINDINGS_SHOWN_MAX) {
        text.line(format!("Waits: {}", cut(question, VALUE_CHARS_MAX)));
    }
    if let Some(more) = view.waiting.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        text.line(format!("Waits: {more} more questions"));
    }
    if let Some(brief) = &view.brief {
        text.line(briefly(brief));
    }
    outputs::tell(&mut text, view);
    records(&mut text, view);
    text.next(next);
    text.into_string()
}

fn troubles(view: &ExecutionView) -> impl Iterator<Item = String> {
    let bad = view.steps.iter().filter_map(|step| Some((step, step.error.as_ref()?)));
    bad.take(FINDINGS_SHOWN_MAX).map(|(step, error)| {
        let (tries, message) = (step.attempts, quoted(&error.message, MESSAGE_CHARS_MAX));
        let tries = if tries == 1 { "1 attempt".to_owned() } else { format!("{tries} attempts") };
        let rest = match error.message.chars().count() > MESSAGE_CHARS_MAX {
            true => format!(" — status {} has it whole", reads_step(view.id.as_str(), step.id.as_str(), 0)),
            false => String::new(),
        };
        format!("Step `{}` is {}: {} after {tries}: {message}{rest}", step.id, step.status, error.category)
    })
}

/// The newest acts and decisions on record, and the call that reads them all.
fn records(text: &mut Text, view: &ExecutionView) {
    let Some(older) = view.records.len().checked_sub(RECORDS_SHOWN_MAX.min(view.records.len())) else {
        return;
    };
    for record in view.records.iter().skip(older) {
        text.line(record_line(record));
    }
    if older > 0 {
        let all = json!({ "execution_id": view.id });
        text.line(format!("On record: {older} earlier ones; query_ledger {all} reads them."));
    }
}

pub fn record_line(record: &RecordView) -> String {
    let step = record.step.as_ref().map(|step| format!(", step `{step}`")).unwrap_or_default();
    let said = match (&record.decision, &record.details) {
        (Some(decision), _) => format!("decided {}", quoted(decision, MESSAGE_CHARS_MAX)),
        (None, Some(facts)) => {
            let facts = facts["description"].as_str().map_or_else(|| facts.to_string(), str::to_owned);
            format!("done {}", quoted(&facts, MESSAGE_CHARS_MAX))
        }
        (None, None) => "a remark".to_owned(),
    };
    let why = record.reason.as_ref().map(|why| format!(", because {}", quoted(why, MESSAGE_CHARS_MAX)));
    format!("On record at position {}{step}: {said}{}", record.position, why.unwrap_or_default())
}

fn late_answers(view: &ExecutionView) -> impl Iterator<Item = String> {
    let late = view.steps.iter().flat_map(|step| step.late.iter().map(move |late| (step, late)));
    late.take(FINDINGS_SHOWN_MAX).map(|(step, late)| format!("Step `{}`: {late}.", step.id))
}

/// What it is at, how long that should take, and what somebody noted that blocks it.
fn pace(view: &ExecutionView) -> impl Iterator<Item = String> {
    let now = view.durations.map(|Durations { estimated_ms, took_ms, left_ms }| {
        let at = view.current.iter().take(FINDINGS_SHOWN_MAX).map(|step| step.as_str());
        let at = at.collect::<Vec<_>>().join(", ");
        let at = if at.is_empty() { String::new() } else { format!("At {at}. ") };
        let took = duration_text(u64::try_from(took_ms).unwrap_or_default());
        let (estimated, left) = (duration_text(estimated_ms), duration_text(left_ms));
        format!("{at}Estimated {estimated}; what is done took {took}; estimated of the rest {left}.")
    });
    let blockers = view.blockers.iter().take(FINDINGS_SHOWN_MAX).map(|note| {
        let (author, position) = (quote::line(&note.author, MESSAGE_CHARS_MAX), note.position);
        let value = quoted(&quote::readable(&note.value), MESSAGE_CHARS_MAX);
        format!("Blocker {}, by {author} at position {position}: {value}", quote::name(&note.key))
    });
    now.into_iter().chain(blockers)
}

fn briefly(brief: &Brief) -> String {
    let named = |steps: &[StepId]| listed(steps, |step| step.to_string());
    let undo = listed(&brief.undo, |one| {
        let how = match (&one.tool, &one.action) {
            (Some(tool), _) => quote::line(tool, HOW_CHARS_MAX),
            (None, Some(action)) => quoted(action, HOW_CHARS_MAX),
            (None, None) => "no way".to_owned(),
        };
        format!("{} by {how}", one.step)
    });
    let stays = listed(&brief.cannot_undo, |one| format!("{} ({})", one.step, one.why));
    let stays =
        if brief.cannot_undo.is_empty() { String::new() } else { format!(" Cannot be undone: {stays}.") };
    format!(
        "Brief: done {}; not done {}; may have run {}. Undo would take back, in order: {undo}.{stays}",
        named(&brief.done),
        named(&brief.not_done),
        named(&brief.may_have_run)
    )
}

/// The first of them, and how many more there are.
fn listed<T>(all: &[T], say: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = all.iter().take(STEPS_SHOWN_MAX).map(say).collect();
    match all.len() - shown.len() {
        0 if shown.is_empty() => "nothing".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Cuts the lists of a brief, and says how much of each was left out.
fn clip_brief(brief: &mut Value) {
    let mut left_out = Map::new();
    for (name, list) in brief.as_object_mut().into_iter().flatten() {
        if let Value::Array(list) = list
            && list.len() > STEPS_SHOWN_MAX
        {
            left_out.insert(name.clone(), json!(list.len() - STEPS_SHOWN_MAX));
            list.truncate(STEPS_SHOWN_MAX);
        }
    }
    for one in brief["undo"].as_array_mut().into_iter().flatten() {
        one.get_mut("arguments").into_iter().for_each(clip);
    }
    if !left_out.is_empty() {
        brief["left_out"] = Value::Object(left_out);
    }
}
