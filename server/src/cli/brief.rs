//! What came of an execution, in words: the outcome, the recovery brief, what waits, what to type next.

use actbook::service::view::{ExecutionView, StepView, WaitingView};
use actbook::service::{Brief, Durations, NoteView};
use actbook_engine::id::StepId;
use actbook_engine::plan::duration_text;
use actbook_engine::policy::{Status, StepStatus};
use serde_json::Value;

use super::output::Output;
use super::signs::{self, ASKS, BAD, BUSY, QUIET, STRONG, painted, short};
use super::table::cut;
use super::times;

/// Names in a sentence; the count tells of the rest.
const NAMES_SHOWN: usize = 12;
const ARGUMENTS_SHOWN: usize = 160;
const MESSAGE_SHOWN: usize = 400;
const RECORDS_SHOWN: usize = 20;
/// Outputs are shown after runs of at most so many steps.
const OUTPUTS_STEPS: usize = 10;
const OUTPUT_SHOWN: usize = 300;

/// After a run: one line, then only what a person needs now.
pub fn outcome(output: &Output, view: &ExecutionView) {
    output.line("");
    output.line(headline(view));
    troubles(output, view);
    outputs(output, view);
    if !matches!(view.status, Status::Succeeded | Status::Compensated)
        && let Some(brief) = &view.brief
    {
        self::brief(output, brief);
    }
    waiting(output, view);
}

pub fn headline(view: &ExecutionView) -> String {
    let done = format!("{} of {} steps done", view.progress.done, view.progress.total);
    let took = match (instant(&view.started_at), view.ended_at.as_deref().and_then(instant)) {
        (Some(from), Some(to)) => format!(" after {}", times::took(to - from)),
        (_, _) => String::new(),
    };
    let meaning = match view.status {
        Status::Running => "it is under way",
        Status::Paused => "nothing starts until it is resumed",
        Status::Blocked => "it waits for an answer",
        Status::Compensating => "what was done is being undone",
        Status::Succeeded => "everything ran",
        Status::Failed => "it ended, and something is not as the plan wanted it",
        Status::Cancelled => "it was stopped; what was done stands",
        Status::Compensated => "everything that ran has been undone",
    };
    let status = painted(signs::execution(view.status), view.status);
    format!("{status}{took}: {done}; {meaning}")
}

fn instant(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond())
}

/// What it is at, how long that should take, and what somebody noted that blocks it.
pub fn pace(view: &ExecutionView) -> Vec<String> {
    let now = view.durations.map(|Durations { estimated_ms, took_ms, left_ms }| {
        let at =
            if view.current.is_empty() { String::new() } else { format!("at {}; ", listed(&view.current)) };
        let (estimated, left) = (duration_text(estimated_ms), duration_text(left_ms));
        format!(
            "{at}estimated {estimated}; what is done took {}; {left} left by the estimates",
            times::took(took_ms)
        )
    });
    let blocker = |note: &NoteView| {
        let text = cut(&super::context::text(&note.value), MESSAGE_SHOWN);
        let from = format!("({}, position {})", note.author, note.position);
        format!("{} {}: {text} {}", painted(BAD, "blocker"), note.key, painted(QUIET, from))
    };
    now.into_iter().chain(view.blockers.iter().map(blocker)).collect()
}

/// The steps that did not go well, each with its reason.
fn troubles(output: &Output, view: &ExecutionView) {
    let wrong = |step: &&StepView| {
        matches!(step.status, StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed)
    };
    for step in view.steps.iter().filter(wrong).take(NAMES_SHOWN) {
        let (sign, style) = signs::step(step.status);
        let why = step
            .error
            .as_ref()
            .map(|error| format!(": {} ({})", cut(&error.message, MESSAGE_SHOWN), error.category));
        let text = format!("{sign} {} {}", step.id, step.status);
        output.line(format_args!("  {}{}", painted(style, text), why.unwrap_or_default()));
    }
}

/// What the steps of a small run gave.
fn outputs(output: &Output, view: &ExecutionView) {
    if view.steps.len() > OUTPUTS_STEPS {
        return;
    }
    for step in view.steps.iter().filter(|step| step.status == StepStatus::Succeeded) {
        if let Some(value) = &step.output {
            let text = cut(&value_text(value), OUTPUT_SHOWN);
            output.line(format_args!("  {} {} {text}", step.id, painted(QUIET, "→")));
        }
    }
}

/// A value for people: a tool's text alone stands without the JSON around it.
pub fn value_text(value: &Value) -> String {
    only_text(value).map_or_else(|| value.to_string(), str::to_owned)
}

/// The text of a value that has nothing else.
pub fn only_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(fields) if fields.len() == 1 => fields.get("text")?.as_str(),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

pub fn brief(output: &Output, brief: &Brief) {
    output.line("");
    output.line(painted(STRONG, "Recovery brief"));
    names(output, "done", &brief.done);
    names(output, "may have run", &brief.may_have_run);
    names(output, "not done", &brief.not_done);
    undo(output, brief);
    for left in &brief.cannot_undo {
        output.line(format_args!("  {} {}: {}", painted(BAD, "cannot undo"), left.step, left.why));
    }
}

/// How undoing would go, call by call.
pub fn undo(output: &Output, brief: &Brief) {
    if brief.undo.is_empty() {
        output.line(format_args!("  {}  nothing", painted(QUIET, "undo would run")));
        return;
    }
    output.line(format_args!("  {}", painted(QUIET, "undo would run, in this order:")));
    for (index, call) in brief.undo.iter().enumerate() {
        let what = match (&call.tool, &call.action) {
            (Some(tool), _) => format!("{tool} {}", shown(call.arguments.as_ref())),
            (None, Some(action)) => format!("by hand: {action}"),
            (None, None) => String::new(),
        };
        output.line(format_args!("    {}. {} ← {}", index + 1, call.step, what.trim_end()));
        if let Some(trouble) = &call.trouble {
            output.line(format_args!("       {}", painted(ASKS, trouble)));
        }
    }
}

fn shown(arguments: Option<&Value>) -> String {
    arguments.map(|arguments| cut(&arguments.to_string(), ARGUMENTS_SHOWN)).unwrap_or_default()
}

fn names(output: &Output, what: &str, steps: &[StepId]) {
    if !steps.is_empty() {
        output.line(format_args!("  {:14}  {}", painted_wide(what), listed(steps)));
    }
}

fn painted_wide(what: &str) -> String {
    painted(QUIET, format_args!("{what:14}"))
}

pub fn listed(steps: &[StepId]) -> String {
    let shown: Vec<&str> = steps.iter().take(NAMES_SHOWN).map(StepId::as_str).collect();
    let more = steps.len().saturating_sub(NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// What agents and people put on record: of steps, and beside them.
pub fn records(output: &Output, view: &ExecutionView) {
    let of_steps = view.steps.iter().filter_map(|step| Some((step.id.as_str(), step.recorded.as_ref()?)));
    let of_steps = of_steps.map(|(step, facts)| format!("{step}: {}", told(facts)));
    let others = view.records.iter().map(|one| {
        let step = one.step.as_ref().map(|step| format!("{step}: ")).unwrap_or_default();
        let decision = one.decision.as_ref().map(|decision| format!("decided: {decision}"));
        let reason = one.reason.as_ref().map(|reason| format!("because {reason}"));
        let details = one.details.as_ref().map(told);
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
        output.line(format_args!("  {}", cut(line, MESSAGE_SHOWN)));
    }
    if lines.len() > RECORDS_SHOWN {
        output.line(format_args!("  … {} more; `--json` has them", lines.len() - RECORDS_SHOWN));
    }
}

/// An act's facts in one line, its description first.
fn told(facts: &Value) -> String {
    let Value::Object(fields) = facts else { return facts.to_string() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = fields.get("description").or(fields.get("action_taken")).map(text);
    let rest = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "description" | "action_taken"));
    let rest = rest
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), cut(&text(value), ARGUMENTS_SHOWN)));
    first.into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}

/// Every question with the commands that answer it.
pub fn waiting(output: &Output, view: &ExecutionView) {
    let id = short(view.id.as_str());
    questions(output, id, &view.waiting);
    for command in next(view, id) {
        output.line(format_args!("  {}", painted(BUSY, command)));
    }
}

pub fn questions(output: &Output, id: &str, waiting: &[WaitingView]) {
    if !waiting.is_empty() {
        output.line("");
        output.line(painted(STRONG, "What waits"));
    }
    for waiting in waiting {
        output.line(format_args!("  {} {}", painted(ASKS, "?"), waiting.question));
        for command in commands(id, waiting) {
            output.line(format_args!("      {}", painted(BUSY, command)));
        }
    }
}

fn commands(id: &str, waiting: &WaitingView) -> Vec<String> {
    let step = waiting.step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
    let one = |option: &&'static str| match waiting.kind {
        "approval" => match *option {
            "reject" => format!("actbook reject {id}{step} --reason \"…\""),
            other => format!("actbook {other} {id}{step}"),
        },
        "agent" => match *option {
            "failed" => format!("actbook record {id}{step} failed --reason \"…\""),
            other => format!("actbook record {id}{step} {other}"),
        },
        _ => {
            let output = match (*option, &waiting.requests) {
                ("happened", _) => " --output '{…}'".to_owned(),
                ("retry", Some(requests)) => format!(" --output '{}'", reply(requests)),
                (_, _) => String::new(),
            };
            format!("actbook decide {id}{step} {option} --reason \"…\"{output}")
        }
    };
    waiting.options.iter().map(one).collect()
}

/// What a tool's question wants filled in; for one form its fields are enough.
fn reply(requests: &Value) -> String {
    let Value::Object(requests) = requests else { return "{…}".to_owned() };
    let form = |request: &Value| -> Value {
        let fields = request["params"]["requestedSchema"]["properties"].as_object();
        fields.into_iter().flatten().map(|(name, _)| (name.clone(), Value::from("…"))).collect()
    };
    match requests.len() {
        1 => requests.values().map(form).map(|form| form.to_string()).collect(),
        _ => requests.iter().map(|(key, one)| (key.clone(), form(one))).collect::<Value>().to_string(),
    }
}

/// What fits the state as a whole.
fn next(view: &ExecutionView, id: &str) -> Vec<String> {
    let undoing =
        |step: &StepView| matches!(step.status, StepStatus::Compensating | StepStatus::CompensationFailed);
    let waits_to_undo = view.status == Status::Blocked && view.steps.iter().any(undoing);
    let undoable = !waits_to_undo && view.brief.as_ref().is_some_and(|brief| !brief.undo.is_empty());
    let undo = undoable.then(|| format!("actbook undo {id}   takes back what may have run"));
    match view.status {
        Status::Paused => vec![format!("actbook resume {id}   goes on")],
        Status::Failed | Status::Cancelled | Status::Blocked => undo.into_iter().collect(),
        Status::Running | Status::Compensating | Status::Succeeded | Status::Compensated => Vec::new(),
    }
}
