//! The view of a guarded session: its calls as they come, what an undo would do, labels and budget.

use actbook_engine::policy::StepStatus;
use askama::Template;
use askama::filters::HtmlSafe;

use super::execution::PageQuery;
use super::markup::{Icon, Markup, StatusMark, count, icon};
use super::times::{PageTime, duration, going_on_since, page_time};
use crate::service::{
    CallUndoView, SessionCallView, SessionPageView, StayingEffect, StaysBecause, UndoClass,
};

/// Files that one line names.
const FILES_SHOWN: usize = 4;
/// Width of the bars of the budget, in per cent.
const FULL: u64 = 100;

/// The view of the calls.
#[derive(Debug, Template)]
#[template(path = "execution_session.html")]
pub struct SessionCallsPart {
    calls: Vec<SessionCallLine>,
    more: usize,
    effects: Vec<EffectLine>,
    execution: String,
    /// The reader may undo it, and an undo would restore files.
    restores_files: bool,
    labels: Vec<LabelLine>,
    budget: Vec<BudgetLine>,
    command: String,
}

impl HtmlSafe for SessionCallsPart {}

/// One call, as it came.
#[derive(Debug)]
struct SessionCallLine {
    step: String,
    path: String,
    at: Option<PageTime>,
    icon: Icon,
    summary: String,
    /// The tool, and what is particular about the call.
    about: String,
    mark: StatusMark,
    is_denied: bool,
    undo: String,
    /// The reader may undo it and what came after it.
    may_undo_from: bool,
    rule: Option<String>,
    refusal: Option<Markup>,
    joined: Vec<String>,
}

/// One thing that an undo would do, or that stays.
#[derive(Debug)]
pub struct EffectLine {
    pub icon: Icon,
    pub class: &'static str,
    pub what: String,
    pub why: String,
}

#[derive(Debug)]
struct LabelLine {
    label: String,
    since: String,
}

#[derive(Debug)]
struct BudgetLine {
    name: &'static str,
    used: Markup,
    limit: String,
    percent: u64,
}

impl SessionCallsPart {
    /// `may_undo`: an undo is possible, and the reader may ask for it.
    pub fn of(id: &str, page: &SessionPageView, query: &PageQuery, may_undo: bool, now_ms: i64) -> Self {
        let line = |call: &SessionCallView| {
            let undo = page.undo.iter().find(|undo| undo.step == call.step);
            let may_undo_from = may_undo && undo.is_some_and(is_undone);
            let summary = within_folder(&call.summary, page.folder.as_deref());
            let summary = if summary.is_empty() { &call.tool } else { summary }.to_owned();
            SessionCallLine { may_undo_from, summary, ..SessionCallLine::of(id, call, undo, query) }
        };
        let has_files = |undo: &CallUndoView| !undo.restores.is_empty() || !undo.removes.is_empty();
        Self {
            calls: page.calls.iter().map(line).collect(),
            more: page.more,
            effects: effect_lines(&page.undo),
            execution: id.to_owned(),
            restores_files: may_undo && page.undo.iter().any(has_files),
            labels: page
                .labels
                .iter()
                .map(|(label, step)| LabelLine::of(label, step.as_ref(), page))
                .collect(),
            budget: budget_lines(page, now_ms),
            command: format!("actbook undo {} --dry-run", super::markup::short_id(id)),
        }
    }
}

impl SessionCallLine {
    fn of(id: &str, call: &SessionCallView, undo: Option<&CallUndoView>, query: &PageQuery) -> Self {
        let is_denied = call.status == StepStatus::Failed && call.at.is_none();
        let mut about = call.tool.clone();
        if let Some(agent) = &call.agent {
            about += &format!(" · subagent {agent}");
        }
        if call.is_asked_in_client {
            about += " · asked in the client";
        }
        if call.is_not_seen {
            about += " · only its end was seen";
        }
        Self {
            step: call.step.to_string(),
            path: query.step_path(id, call.step.as_str()),
            at: call.at.as_deref().map(page_time),
            icon: icon(tool_icon(&call.tool)),
            summary: String::new(),
            about,
            mark: StatusMark::of_call(call.status, is_denied),
            is_denied,
            undo: undo_text(call, undo, is_denied),
            may_undo_from: false,
            rule: call.rule.clone(),
            refusal: call.refusal.as_deref().map(|text| Markup::quote(text, 300)),
            joined: call.joined.clone(),
        }
    }
}

/// A path within the session's folder, without the folder; any other text as it is.
fn within_folder<'a>(summary: &'a str, folder: Option<&str>) -> &'a str {
    let within = folder.and_then(|folder| summary.strip_prefix(folder)?.strip_prefix('/'));
    within.unwrap_or(summary)
}

impl LabelLine {
    fn of(label: &str, step: Option<&actbook_engine::id::StepId>, page: &SessionPageView) -> Self {
        let since = match step {
            Some(step) => {
                let call = page.calls.iter().find(|call| call.step == *step);
                let tool = call.map(|call| format!(", {}", call.tool)).unwrap_or_default();
                format!("Since {step}{tool}. Outlives compaction and restarts.")
            }
            None => "From earlier sessions of the project.".to_owned(),
        };
        Self { label: label.to_owned(), since }
    }
}

/// The icon of a tool.
fn tool_icon(tool: &str) -> &'static str {
    match tool {
        "client/shell" => "shell",
        "client/write" | "client/edit" => "edit",
        "client/read" => "read",
        "client/fetch" => "web",
        "client/agent" => "agent",
        _ => "mcp",
    }
}

/// What an undo would do with a call, in a few words.
fn undo_text(call: &SessionCallView, undo: Option<&CallUndoView>, is_denied: bool) -> String {
    let Some(undo) = undo else {
        let text = match call.status {
            _ if is_denied => "never sent",
            StepStatus::AwaitingApproval | StepStatus::Pending | StepStatus::Cancelled => "not started",
            StepStatus::Compensated => "undone",
            StepStatus::Failed
            | StepStatus::Succeeded
            | StepStatus::Running
            | StepStatus::AwaitingAgent
            | StepStatus::Unknown
            | StepStatus::Skipped
            | StepStatus::Compensating
            | StepStatus::CompensationFailed => "nothing to undo",
        };
        return text.to_owned();
    };
    match undo.class {
        _ if call.status == StepStatus::AwaitingAgent => "when it ends".to_owned(),
        UndoClass::Restored if undo.restores.is_empty() && undo.removes.is_empty() => undo
            .stays
            .first()
            .map_or("no file changed".to_owned(), |stays| format!("cannot: {}", word(stays.why))),
        UndoClass::Restored => "can be restored".to_owned(),
        UndoClass::Compensated => "undo call".to_owned(),
        UndoClass::CannotUndo => {
            format!("cannot: {}", undo.stays.first().map_or("no undo".to_owned(), |stays| word(stays.why)))
        }
    }
}

fn word(why: StaysBecause) -> String {
    why.as_str().replace('_', " ")
}

/// Whether an undo does something about the call.
fn is_undone(call: &CallUndoView) -> bool {
    call.call.is_some() || !call.restores.is_empty() || !call.removes.is_empty()
}

/// What an undo would do with these calls, and what stays.
pub fn effect_lines(calls: &[CallUndoView]) -> Vec<EffectLine> {
    calls.iter().flat_map(effects_of_call).collect()
}

/// What an undo would do, in a sentence: how many files and calls, and how much stays.
pub fn undo_sentence(calls: &[CallUndoView]) -> String {
    let files: usize = calls.iter().map(|call| call.restores.len() + call.removes.len()).sum();
    let (taken_back, stays) = (
        calls.iter().filter(|call| call.call.is_some()).count(),
        calls.iter().filter(|call| !call.stays.is_empty()).count(),
    );
    let mut sentence = match (files, taken_back) {
        (0, 0) => "Undoes nothing".to_owned(),
        (0, _) => format!("Takes {} back", count(taken_back, "call")),
        (_, 0) => format!("Restores {}", count(files, "file")),
        (_, _) => format!("Restores {} and takes {} back", count(files, "file"), count(taken_back, "call")),
    };
    match stays {
        0 => {}
        1 => sentence += "; of 1 call something stays",
        many => sentence += &format!("; of {many} calls something stays"),
    }
    sentence + "."
}

fn effects_of_call(call: &CallUndoView) -> Vec<EffectLine> {
    let mut lines = Vec::new();
    let mut push = |name: &'static str, class: &'static str, what: String, why: String| {
        lines.push(EffectLine { icon: icon(name), class, what, why });
    };
    if let Some(tool) = &call.call {
        push(
            "compensating",
            "compensated",
            format!("{} taken back", call.tool),
            format!("{}: by {tool}", call.step),
        );
    }
    if !call.restores.is_empty() {
        push("edit", "compensated", files_text(&call.restores), format!("to before {}", call.step));
    }
    if !call.removes.is_empty() {
        let why = format!("made by {}: goes to the trash folder", call.step);
        push("x", "compensated", files_text(&call.removes), why);
    }
    for StayingEffect { path, why } in &call.stays {
        let what = match path {
            Some(path) => format!("{path} stays"),
            None => format!("{} {} stays", call.step, call.tool),
        };
        push("cancelled", "failed", what, format!("{}: {}", word(*why), why.text()));
    }
    lines
}

fn files_text(files: &[String]) -> String {
    let shown = files[..files.len().min(FILES_SHOWN)].join(", ");
    let more = files.len().saturating_sub(FILES_SHOWN);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn budget_lines(page: &SessionPageView, now_ms: i64) -> Vec<BudgetLine> {
    let percent = |part: u64, whole: u64| (part * FULL / whole.max(1)).min(FULL);
    let calls = u64::from(page.calls_started);
    let mut lines = vec![BudgetLine {
        name: "Calls",
        used: Markup::text(&calls.to_string()),
        limit: page.budget.calls.map(|limit| limit.to_string()).unwrap_or_default(),
        percent: page.budget.calls.map_or(0, |limit| percent(calls, u64::from(limit))),
    }];
    if let Some(wall_ms) = page.budget.wall_ms {
        let passed = u64::try_from(now_ms - page.began_at_ms).unwrap_or(0);
        lines.push(BudgetLine {
            name: "Time",
            // The script counts it, so that it does not make each rendering another.
            used: Markup::from_rendered(going_on_since(page.began_at_ms).to_string()),
            limit: duration(i64::try_from(wall_ms).unwrap_or(i64::MAX)),
            percent: percent(passed, wall_ms),
        });
    }
    lines
}
