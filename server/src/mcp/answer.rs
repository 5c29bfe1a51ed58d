//! Renders views as tool answers: `structuredContent` that fits the declared schema, and a text with the
//! state, the outputs of steps, the open questions and the calls to make next. Long values are clipped, with
//! the call that reads the rest.

mod output_schema;
mod outputs;
mod step;
mod suggestions;

use actbook_engine::id::StepId;
use actbook_engine::plan::duration_text;
use actbook_engine::policy::StepStatus;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use output_schema::{
    answer_schema, execution_answer_schema as execution_schema, execution_or_lists_schema,
    object_array_schema,
};
pub use outputs::last_output_line;
pub use step::step_answer;
pub use suggestions::{ApprovalRoute, execution_suggestions, page_words, status_step_arguments};

use super::text::{AnswerText, Suggestion};
use crate::error::cures::action_name;
use crate::error::{Error, ErrorReport};
use crate::service::quote::{self, quoted};
use crate::service::view::{AnswerOption, ExecutionView, QuestionKind, RecordView, StepView, WaitingView};
use crate::service::{Brief, Durations, ReportChecksView};

/// Up to this many steps are shown; of a longer plan, pending and finished steps are left out first.
const STEPS_SHOWN_MAX: usize = 40;
/// A value with a longer JSON text (in bytes) is clipped; `status` with a `step_id` shows it whole.
const VALUE_CHARS_MAX: usize = 2_000;
/// Most characters of one quoted text: an error message, decision, reason or blocker.
const MESSAGE_CHARS_MAX: usize = 500;
const QUESTION_CHARS_MAX: usize = 8_000;
/// Most characters of the tool or action that undoes one step, and of the arguments of its call.
const UNDO_CHARS_MAX: usize = 160;
/// Most items of each list in the text: findings, questions, errors, late answers, blockers.
const FINDINGS_SHOWN_MAX: usize = 10;
/// The newest recorded acts and decisions that the text shows.
const RECORDS_SHOWN_MAX: usize = 3;

/// Begins the text of an answer to a repeated idempotency key.
const REPEATED: &str = "Repeated: this idempotency_key came with the same request before, so nothing was started or changed now. This is how it stands:";

/// What a tool answers: the structured content and the text.
#[derive(Clone, Debug)]
pub struct AgentAnswer {
    pub structured: Value,
    pub text: String,
}

impl AgentAnswer {
    /// The answer with `structured` as JSON; if that cannot be serialised, with an `internal` error in its
    /// place.
    pub fn new(structured: &impl Serialize, text: impl Into<String>) -> Self {
        let structured = serde_json::to_value(structured).unwrap_or_else(
            |error| json!({ "error": { "code": "internal", "message": error.to_string(), "cure": "" } }),
        );
        Self { structured, text: text.into() }
    }

    /// The answer as a successful tool result.
    pub fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

impl From<AgentAnswer> for CallToolResponse {
    fn from(answer: AgentAnswer) -> Self {
        answer.into_result().into()
    }
}

/// An error as a tool result: message, cure and findings, in text and structured content. The text leaves out
/// the first finding, which the message and cure give already.
pub fn error_result(error: &ErrorReport) -> CallToolResult {
    let mut text = AnswerText::new(format!("{}: {}", error.code, error.message));
    text.push_line(format!("→ {}", error.cure));
    for finding in error.findings.iter().skip(1).take(FINDINGS_SHOWN_MAX) {
        text.push_item(format!("{}: {} → {}", finding.path_with_step(), finding.message, finding.cure));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text.into_string())]);
    result.structured_content = Some(json!({ "error": error }));
    result
}

/// Marks a response as the answer to a repeated idempotency key; a request for input stays as it is.
pub fn mark_repeated(response: CallToolResponse) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(mut result) => {
            if let Some(ContentBlock::Text(first)) = result.content.first_mut() {
                first.text = format!("{REPEATED}\n{}", first.text);
            }
            if let Some(structured) = &mut result.structured_content {
                structured["repeated"] = json!(true);
            }
            CallToolResponse::Complete(result)
        }
        CallToolResponse::Task(mut created) => {
            let message = created.task.status_message.unwrap_or_default();
            created.task.status_message = Some(format!("{REPEATED} {message}"));
            CallToolResponse::Task(created)
        }
        // A request for input is repeated as it is: nothing was done yet.
        other => other,
    }
}

/// The answer that shows one execution, with the calls to make next.
pub fn execution_answer(view: &ExecutionView, route: ApprovalRoute) -> AgentAnswer {
    render_execution(view, suggestions::execution_suggestions(view, route))
}

/// The answer for an execution that no process with this toolset can drive; `why` says so.
pub fn undrivable_execution_answer(view: &ExecutionView, route: ApprovalRoute, why: &str) -> AgentAnswer {
    render_execution(view, suggestions::undrivable_execution_suggestions(view, route, why))
}

/// The answer for an execution whose question could not be put to the person, or not be answered; `error`
/// says why. Suggests the command line for approvals.
pub fn dialog_failed_answer(view: &ExecutionView, error: &Error) -> AgentAnswer {
    let mut answer =
        render_execution(view, suggestions::execution_suggestions(view, ApprovalRoute::CommandLine));
    let cure = error.cures().agent;
    let note = format!("{}; {cure}", quote::line(&error.to_string(), MESSAGE_CHARS_MAX));
    answer.text.push_str(&format!("\nNote: the question was not answered: {note}"));
    answer.structured["note"] = json!(note);
    answer
}

/// The answer that shows one execution, with these suggestions.
fn render_execution(view: &ExecutionView, next: Vec<Suggestion>) -> AgentAnswer {
    let mut structured = serde_json::to_value(view).unwrap_or_default();
    let (steps, left_out) = select_steps(view, structured["steps"].take());
    structured["steps"] = json!(steps);
    structured["next"] = json!(next);
    rename_options_to_actions(&mut structured["waiting"], &view.waiting);
    let blockers = structured.get_mut("blockers").and_then(Value::as_array_mut);
    blockers.into_iter().flatten().for_each(|note| clip_value(&mut note["value"]));
    if left_out > 0 {
        structured["steps_left_out"] = json!(left_out);
    }
    if let Some(brief) = structured.get_mut("brief") {
        clip_brief(brief);
    }
    AgentAnswer { structured, text: execution_text(view, &next) }
}

/// Names the options of the open questions as agents give them; `structured` is the serialised `waiting`.
fn rename_options_to_actions(structured: &mut Value, waiting: &[WaitingView]) {
    for (question, waiting) in structured.as_array_mut().into_iter().flatten().zip(waiting) {
        let names: Vec<&str> = waiting.options.iter().map(|option| option_name(*option)).collect();
        question["options"] = json!(names);
    }
}

/// An option as agents give it: the action of `control`, or the status of a report.
fn option_name(option: AnswerOption) -> &'static str {
    match option {
        AnswerOption::Decide(answer) => action_name(answer),
        AnswerOption::Approve | AnswerOption::Reject | AnswerOption::Report(_) => option.as_str(),
    }
}

/// The steps to show, with clipped values, of `all` as JSON, and how many were left out. Steps that run, failed
/// or wait come before quiet ones.
fn select_steps(view: &ExecutionView, all: Value) -> (Vec<Value>, usize) {
    let is_quiet = |step: &StepView| {
        [StepStatus::Pending, StepStatus::Succeeded, StepStatus::Skipped, StepStatus::Cancelled]
            .contains(&step.status)
    };
    let mut room = STEPS_SHOWN_MAX.saturating_sub(view.steps.iter().filter(|step| !is_quiet(step)).count());
    let mut shown = Vec::new();
    let all = if let Value::Array(all) = all { all } else { Vec::new() };
    for (step, json) in view.steps.iter().zip(all) {
        let fits = !is_quiet(step) || room > 0;
        room -= usize::from(is_quiet(step) && room > 0);
        if fits && shown.len() < 2 * STEPS_SHOWN_MAX {
            shown.push(clip_step(view, step, json));
        }
    }
    let left_out = view.steps.len() - shown.len();
    (shown, left_out)
}

/// The step, given as JSON, with its long values clipped and with the call that reads them whole.
fn clip_step(view: &ExecutionView, step: &StepView, mut shown: Value) -> Value {
    for field in ["arguments", "output"] {
        let Some(value) = shown.get_mut(field) else { continue };
        clip_value(value);
        if value.get("clipped").is_some() && value.get("bytes").is_some() {
            value["whole"] = json!({ "tool": "status", "arguments": status_step_arguments(view.id.as_str(), step.id.as_str(), 0) });
        }
    }
    if let Some(Value::String(message)) = shown.pointer_mut("/error/message") {
        *message = truncate_chars(message, MESSAGE_CHARS_MAX);
    }
    shown
}

/// Replaces a value whose JSON is longer than `VALUE_CHARS_MAX` bytes by its beginning and its size:
/// `{"clipped": …, "bytes": …}`.
pub fn clip_value(value: &mut Value) {
    let text = value.to_string();
    if text.len() > VALUE_CHARS_MAX {
        *value = json!({ "clipped": truncate_chars(&text, VALUE_CHARS_MAX / 2), "bytes": text.len() });
    }
}

/// The first `chars_max` characters, with an ellipsis if there are more.
pub fn truncate_chars(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text of an answer that shows one execution.
fn execution_text(view: &ExecutionView, next: &[Suggestion]) -> String {
    let ExecutionView { id, status, plan, position, guarantee, .. } = view;
    let ending = view.ending.map(|end| format!(", and will be {end} once what is in flight has ended"));
    let ending = ending.unwrap_or_default();
    let mut text = AnswerText::new(format!(
        "Execution {id} of plan {} is {status}{ending}: {} (position {position}).",
        quote::name(&plan.name),
        view.progress_text()
    ));
    text.push_line(format!("Guarantee: {guarantee}."));
    error_lines(view)
        .chain(failed_undo_lines(view))
        .chain(late_answer_lines(view))
        .chain(duration_and_blocker_lines(view))
        .for_each(|line| text.push_line(line));
    for waiting in view.waiting.iter().take(FINDINGS_SHOWN_MAX) {
        text.push_line(waiting_line(view, waiting));
    }
    if let Some(more) = view.waiting.len().checked_sub(FINDINGS_SHOWN_MAX).filter(|more| *more > 0) {
        text.push_line(format!("Waits: {more} more questions"));
    }
    let undone: Vec<&StepId> = view.undone().map(|step| &step.id).collect();
    if !undone.is_empty() {
        text.push_line(format!(
            "Undone: {}. What they did has been taken back.{}",
            join_first(&undone, |id| id.to_string()),
            if view.remains_after_undo() {
                " It ended failed, not compensated, because the rest cannot be."
            } else {
                ""
            }
        ));
    }
    if let Some(rejection) = &view.undo_rejected {
        text.push_line(format!("Undo: {}", step::approval_text(rejection)));
    }
    if let Some(brief) = &view.brief {
        text.push_line(brief_line(view, brief));
    }
    outputs::push_outputs(&mut text, view);
    push_records(&mut text, view);
    view.reports.iter().flat_map(report_lines).for_each(|line| text.push_line(line));
    text.push_suggestions(next);
    text.into_string()
}

/// The line of an open question; if an approval is too long for a form, it says where the whole question
/// stands.
fn waiting_line(view: &ExecutionView, waiting: &WaitingView) -> String {
    let question = truncate_chars(&waiting.question, QUESTION_CHARS_MAX);
    let is_cut = waiting.kind == QuestionKind::Approval && waiting.too_long;
    let elsewhere = is_cut.then(|| format!(" — {}", waiting.too_long_text(view.id.as_str())));
    format!("Waits: {question}{}", elsewhere.unwrap_or_default())
}

/// One line for each of the first `FINDINGS_SHOWN_MAX` steps with an error.
fn error_lines(view: &ExecutionView) -> impl Iterator<Item = String> {
    let bad = view.steps.iter().filter_map(|step| Some((step, step.error.as_ref()?)));
    bad.take(FINDINGS_SHOWN_MAX).map(|(step, error)| {
        let message = quoted(&error.message, MESSAGE_CHARS_MAX);
        // The error of a failed compensation is not that of the step's own attempts.
        let tries = match step.attempts {
            _ if step.status == StepStatus::CompensationFailed => String::new(),
            1 => " after 1 attempt".to_owned(),
            tries => format!(" after {tries} attempts"),
        };
        let rest = if error.message.chars().count() > MESSAGE_CHARS_MAX {
            format!(" — status {} has it whole", status_step_arguments(view.id.as_str(), step.id.as_str(), 0))
        } else {
            String::new()
        };
        format!("Step `{}` is {}: {}{tries}: {message}{rest}", step.id, step.status, error.category)
    })
}

/// One line for each of the first `FINDINGS_SHOWN_MAX` steps that an agent tried to undo by hand without
/// success.
fn failed_undo_lines(view: &ExecutionView) -> impl Iterator<Item = String> {
    let told = view.steps.iter().filter_map(|step| Some((step, step.recorded.as_ref()?)));
    let failed = told.filter(|(_, facts)| facts["outcome"] == "failed" && facts["action_taken"].is_string());
    failed.take(FINDINGS_SHOWN_MAX).map(|(step, facts)| {
        let tried = quoted(facts["action_taken"].as_str().unwrap_or_default(), MESSAGE_CHARS_MAX);
        let why = facts["reason"].as_str().map(|why| format!(", because {}", quoted(why, MESSAGE_CHARS_MAX)));
        let why = why.unwrap_or_default();
        format!(
            "Step `{}` was not undone: its agent tried {tried}, and failed{why}. Its effect stands.",
            step.id
        )
    })
}

/// The lines that say how reports of agents agree with the calls that a guard saw.
pub fn report_lines(reports: &ReportChecksView) -> impl Iterator<Item = String> {
    let counts = format!("Reported against seen: {}.", reports.counts());
    let wrong = reports.disagreements().take(FINDINGS_SHOWN_MAX).map(|item| format!("  {}", item.line()));
    std::iter::once(counts).chain(wrong)
}

/// Adds the newest recorded acts and decisions, and the call that reads the earlier ones, if there are any.
fn push_records(text: &mut AnswerText, view: &ExecutionView) {
    let Some(older) = view.records.len().checked_sub(RECORDS_SHOWN_MAX.min(view.records.len())) else {
        return;
    };
    for record in view.records.iter().skip(older) {
        text.push_line(record_line(record));
    }
    if older > 0 {
        let all = json!({ "execution_id": view.id });
        text.push_line(format!("On record: {older} earlier ones; query_ledger {all} reads them."));
    }
}

/// One line for a recorded act, decision or remark.
pub fn record_line(record: &RecordView) -> String {
    let step = record.step.as_ref().map(|step| format!(", step `{step}`")).unwrap_or_default();
    let content = match (&record.decision, &record.details) {
        (Some(decision), _) => format!("decided {}", quoted(decision, MESSAGE_CHARS_MAX)),
        (None, Some(facts)) => {
            let facts = facts["description"].as_str().map_or_else(|| facts.to_string(), str::to_owned);
            format!("done {}", quoted(&facts, MESSAGE_CHARS_MAX))
        }
        (None, None) => "a remark".to_owned(),
    };
    let why = record.reason.as_ref().map(|why| format!(", because {}", quoted(why, MESSAGE_CHARS_MAX)));
    format!("On record at position {}{step}: {content}{}", record.position, why.unwrap_or_default())
}

/// One line for each of the first `FINDINGS_SHOWN_MAX` answers of tools that came after their attempts had
/// ended.
fn late_answer_lines(view: &ExecutionView) -> impl Iterator<Item = String> {
    let late = view.steps.iter().flat_map(|step| step.late.iter().map(move |late| (step, late)));
    late.take(FINDINGS_SHOWN_MAX).map(|(step, late)| format!("Step `{}`: {late}.", step.id))
}

/// A line on the current steps and the estimated durations, if there are any, and a line for each of the
/// first blocker notes.
fn duration_and_blocker_lines(view: &ExecutionView) -> impl Iterator<Item = String> {
    let current = join_first(&view.current, |step| step.to_string());
    let current = (!view.current.is_empty()).then(|| format!("At {current}."));
    let durations = view.durations.map(|Durations { estimated_ms, took_ms, left_ms }| {
        let took = duration_text(rounded_ms(u64::try_from(took_ms).unwrap_or_default()));
        let (estimated, left) = (duration_text(estimated_ms), duration_text(left_ms));
        format!("Estimated {estimated}; what is done took {took}; estimated of the rest {left}.")
    });
    let now: Vec<String> = current.into_iter().chain(durations).collect();
    let now = (!now.is_empty()).then(|| now.join(" "));
    let blockers = view.blockers.iter().take(FINDINGS_SHOWN_MAX).map(|note| {
        let (author, position) = (quote::line(&note.author, MESSAGE_CHARS_MAX), note.position);
        let value = quoted(&quote::readable(&note.value), MESSAGE_CHARS_MAX);
        format!("Blocker {}, by {author} at position {position}: {value}", quote::name(&note.key))
    });
    now.into_iter().chain(blockers)
}

/// A duration for people, in whole seconds from ten seconds on.
fn rounded_ms(ms: u64) -> u64 {
    if ms < 10_000 { ms } else { ms - ms % 1_000 }
}

/// The brief (what is done, what may have run, what undo would do) on one line. What was undone stands on a line of its own.
fn brief_line(view: &ExecutionView, brief: &Brief) -> String {
    let undone: Vec<&StepId> = view.undone().map(|step| &step.id).collect();
    let not_done: Vec<&StepId> = brief.not_done.iter().filter(|step| !undone.contains(step)).collect();
    let listed = |what: &str, steps: &[&StepId]| {
        let names = join_first(steps, |step| step.to_string());
        if steps.is_empty() { String::new() } else { format!("; {what} {names}") }
    };
    let rest = listed("not done", &not_done)
        + &listed("may have run", &brief.may_have_run.iter().collect::<Vec<_>>());
    let undo = join_first(&brief.undo, |one| {
        let how = match (&one.tool, &one.action) {
            (Some(tool), _) => {
                let arguments = one
                    .arguments
                    .as_ref()
                    .map(|arguments| quote::line(&arguments.to_string(), UNDO_CHARS_MAX));
                format!("{} {}", quote::line(tool, UNDO_CHARS_MAX), arguments.unwrap_or_default())
            }
            (None, Some(action)) => quoted(action, UNDO_CHARS_MAX),
            (None, None) => "no compensation".to_owned(),
        };
        format!("{} by {how}", one.step)
    });
    let stays = join_first(&brief.cannot_undo, |one| format!("{} ({})", one.step, one.why));
    let stays =
        if brief.cannot_undo.is_empty() { String::new() } else { format!(" Cannot be undone: {stays}.") };
    let done = join_first(&brief.done, |step| step.to_string());
    format!("Brief: done {done}{rest}. Undo would take back, in order: {undo}.{stays}")
}

/// Joins the texts of the first `STEPS_SHOWN_MAX` items, and says how many more there are; the word "nothing"
/// if there are no items.
fn join_first<T>(all: &[T], to_text: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = all.iter().take(STEPS_SHOWN_MAX).map(to_text).collect();
    match all.len() - shown.len() {
        0 if shown.is_empty() => "nothing".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Truncates the lists of a brief, as JSON, adds the numbers of items left out as `left_out`, and clips
/// arguments.
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
        one.get_mut("arguments").into_iter().for_each(clip_value);
    }
    if !left_out.is_empty() {
        brief["left_out"] = Value::Object(left_out);
    }
}
