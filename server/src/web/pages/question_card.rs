//! One question as a card: what would be called with which arguments, why, what was done, where the point of no
//! return lies, and the answers.

use serde_json::Value;

use super::answer_words::{AnswerButton, buttons};
use super::json_tree::{TreeExtent, json_tree};
use super::markup::{Markup, count, icon};
use super::times::{PageDuration, elapsed};
use crate::service::view::{StepView, WaitingView};
use crate::service::{CoveredCall, InspectedExecution, PersonQuestion, QuestionSubject};

/// Most characters of the arguments of a call in a list of calls.
const SUMMARY_CHARS_MAX: usize = 160;
/// Finished steps that are named; the rest are counted.
const DONE_NAMED_MAX: usize = 12;

/// A question as a page shows it.
#[derive(Debug)]
pub struct QuestionCard {
    pub execution: String,
    /// The element's id, and the fragment of a link to this question.
    pub anchor: String,
    /// What an answer is bound to.
    pub digest: String,
    pub kind: &'static str,
    /// The class of the kind's colour and icon.
    pub class: &'static str,
    pub icon: Markup,
    /// The question in a sentence.
    pub title: Markup,
    /// What went wrong, in short.
    pub trouble: Option<String>,
    /// The bound arguments of the call that waits for a yes.
    pub arguments: Option<Markup>,
    /// Calls or steps that an answer sets off.
    pub calls: Vec<CallLine>,
    pub facts: Vec<(&'static str, Markup)>,
    /// The step in question is the point of no return, or lies behind it.
    pub warning: Option<Markup>,
    pub buttons: Vec<AnswerButton>,
    pub plan: String,
    pub version: u32,
    pub task: Option<String>,
    pub done: usize,
    pub total: usize,
    /// Since when it is asked.
    pub asked: Option<PageDuration>,
}

/// One call of a list, in short.
#[derive(Debug)]
pub struct CallLine {
    pub step: String,
    pub what: Markup,
}

impl QuestionCard {
    /// The card of a question; `shows_values`: the reader may see arguments.
    pub fn of(inspected: &InspectedExecution, question: &PersonQuestion, shows_values: bool) -> Self {
        let view = &inspected.view;
        let step = step_of(inspected, question);
        let (kind, class, title) = kind_and_title(question, step, shows_values);
        Self {
            execution: view.id.to_string(),
            anchor: question.waiting.anchor(view.id.as_str()),
            digest: question.digest.to_string(),
            kind,
            class,
            icon: Markup::from_rendered(icon(class).to_string()),
            title,
            trouble: step
                .and_then(|step| step.error.as_ref())
                .filter(|_| shows_values)
                .map(|error| format!("{}: {}", error.category, error.message)),
            arguments: step
                .filter(|_| shows_values && question.facts.subject == QuestionSubject::StepApproval)
                .and_then(|step| step.arguments.as_ref())
                .map(|arguments| json_tree(arguments, None, TreeExtent::Whole).html),
            calls: calls(question, shows_values),
            facts: facts(inspected, question, step, shows_values),
            warning: warning(question, step),
            buttons: buttons(question, step),
            plan: view.plan.name.clone(),
            version: view.plan.version,
            task: view.task.clone(),
            done: view.progress.done,
            total: view.progress.total,
            asked: question.facts.asked_at.as_deref().map(|at| elapsed(at, None)),
        }
    }
}

/// The step that a question is about. `None`: it is about the plan or its undo.
pub fn step_of<'a>(inspected: &'a InspectedExecution, question: &PersonQuestion) -> Option<&'a StepView> {
    let id = question.waiting.step.as_ref()?;
    inspected.view.steps.iter().find(|step| step.id == *id)
}

/// Whether a question is about a call that was sent.
fn is_about_a_sent_call(subject: QuestionSubject) -> bool {
    match subject {
        QuestionSubject::Failure | QuestionSubject::Unknown | QuestionSubject::ToolQuestion => true,
        QuestionSubject::StepApproval
        | QuestionSubject::PlanApproval
        | QuestionSubject::UndoApproval
        | QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo
        | QuestionSubject::FailedUndo => false,
    }
}

/// The kind of a question in words, its class, and the question as a sentence.
fn kind_and_title(
    question: &PersonQuestion,
    step: Option<&StepView>,
    shows_values: bool,
) -> (&'static str, &'static str, Markup) {
    let id = step.map(|step| Markup::code(step.id.as_str())).unwrap_or_default();
    let work = step.map(|step| work_markup(step, shows_values)).unwrap_or_default();
    let sentence = |parts: &[&Markup]| {
        let mut whole = Markup::default();
        parts.iter().for_each(|part| whole.push((*part).clone()));
        whole
    };
    let text = Markup::text;
    match question.facts.subject {
        QuestionSubject::PlanApproval => ("Plan approval", "awaiting_approval", text("May the plan start?")),
        QuestionSubject::UndoApproval => {
            let calls = count(question.facts.brief.undo.len(), "call");
            ("Proposed undo", "compensating", text(&format!("Undo what was done, by {calls}?")))
        }
        QuestionSubject::StepApproval => {
            ("Approval", "awaiting_approval", sentence(&[&text("Let "), &id, &text(" "), &work, &text("?")]))
        }
        QuestionSubject::AgentWork => {
            ("Work to do", "awaiting_agent", sentence(&[&id, &text(" is for an agent or a person: "), &work]))
        }
        QuestionSubject::AgentUndo => (
            "Undo by hand",
            "awaiting_agent",
            sentence(&[&id, &text(" is to be undone by an agent or a person")]),
        ),
        QuestionSubject::ToolQuestion => {
            ("A tool asks", "awaiting_approval", sentence(&[&id, &text(" asks for input before it goes on")]))
        }
        QuestionSubject::Failure => {
            let attempts = step.map_or(0, |step| step.attempts);
            let times = if attempts > 1 {
                format!(" failed after {attempts} attempts")
            } else {
                " failed".to_owned()
            };
            ("Failed step", "failed", sentence(&[&id, &text(&format!("{times}: what now?"))]))
        }
        QuestionSubject::Unknown => {
            ("Unknown outcome", "unknown", sentence(&[&text("Did "), &id, &text(" take effect?")]))
        }
        QuestionSubject::FailedUndo => (
            "Failed undo",
            "compensation_failed",
            sentence(&[&text("Undoing "), &id, &text(" failed: what now?")]),
        ),
    }
}

/// `call bank/create_transfer`, or the action in words.
fn work_markup(step: &StepView, shows_values: bool) -> Markup {
    match (&step.tool, &step.action) {
        (Some(tool), _) => {
            let mut text = Markup::text("call ");
            text.push_code(tool);
            text
        }
        (None, Some(action)) if shows_values => Markup::quote(action, usize::MAX),
        (None, _) => Markup::text("work for an agent or a person"),
    }
}

fn calls(question: &PersonQuestion, shows_values: bool) -> Vec<CallLine> {
    match question.facts.subject {
        QuestionSubject::UndoApproval => undo_lines(&question.facts.undo, shows_values, usize::MAX),
        QuestionSubject::PlanApproval => {
            let lines = question.facts.content.iter().filter_map(|line| line.strip_prefix("  - `"));
            let split = |line: &str| {
                let (step, what) = line.split_once("`: ")?;
                Some(CallLine { step: step.to_owned(), what: Markup::text(what) })
            };
            if shows_values { lines.filter_map(split).collect() } else { Vec::new() }
        }
        QuestionSubject::StepApproval
        | QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo
        | QuestionSubject::ToolQuestion
        | QuestionSubject::Failure
        | QuestionSubject::Unknown
        | QuestionSubject::FailedUndo => Vec::new(),
    }
}

/// The calls that an undo would make, each on a line with at most `chars_max` characters of its arguments.
pub fn undo_lines(undo: &[CoveredCall], shows_values: bool, chars_max: usize) -> Vec<CallLine> {
    let line = |CoveredCall { item, attempts_max }: &CoveredCall| {
        let mut what = match (&item.tool, &item.action) {
            (Some(tool), _) => Markup::code(tool),
            (None, Some(_)) if !shows_values => Markup::text("by hand"),
            (None, Some(action)) => {
                let mut what = Markup::text("by hand: ");
                what.push_quote(action, chars_max);
                what
            }
            (None, None) => Markup::text("no compensation"),
        };
        if let Some(arguments) = item.arguments.as_ref().filter(|_| shows_values) {
            let text = summary(arguments, chars_max);
            what.push_text(" ");
            what.push(Markup::data(&text));
        }
        if let Some(max) = attempts_max {
            what.push_text(&format!(" (up to {max} attempts)"));
        }
        if let Some(trouble) = &item.trouble {
            what.push_text(" (cannot be called");
            if shows_values {
                what.push_text(": ");
                what.push_quote(trouble, chars_max);
            }
            what.push_text(")");
        }
        CallLine { step: item.step.to_string(), what }
    };
    undo.iter().map(line).collect()
}

/// The fields of an object in short: `booking "HT-90311", refund "full"`.
pub fn summary(arguments: &Value, chars_max: usize) -> String {
    let text = match arguments {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let cut: String = text.chars().take(chars_max).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// The same, as long as a table has room for.
pub fn short_summary(arguments: &Value) -> String {
    summary(arguments, SUMMARY_CHARS_MAX)
}

fn facts(
    inspected: &InspectedExecution,
    question: &PersonQuestion,
    step: Option<&StepView>,
    shows_values: bool,
) -> Vec<(&'static str, Markup)> {
    let mut facts = Vec::new();
    let is_sent = shows_values && is_about_a_sent_call(question.facts.subject);
    facts.extend(step.filter(|_| is_sent).and_then(sent_call).map(|sent| ("Sent", sent)));
    if let Some(error) = step.and_then(|step| step.error.as_ref()).filter(|_| shows_values) {
        let mut text = Markup::from_rendered(format!("<b>{}</b> ", error.category.as_str()));
        text.push_quote(&error.message, usize::MAX);
        facts.push(("Error", text));
    }
    if question.facts.subject == QuestionSubject::ToolQuestion && shows_values {
        facts.push(("It asks", quoted(&question.waiting.question)));
    }
    if question.facts.subject == QuestionSubject::StepApproval {
        facts.extend(question.facts.terms.iter().map(|(name, value)| (*name, Markup::text(value))));
    }
    if let Some((_, Some(reason))) = &question.facts.asked_by {
        facts.push(("Reason given", quoted(reason)));
    }
    if let Some(name) = step.and_then(|step| step.name.as_deref()) {
        facts.push(("Step", Markup::quote(name, usize::MAX)));
    }
    if let Some(reasoning) = inspected.plan.reasoning.as_ref().filter(|_| shows_values) {
        facts.push(("Plan’s reasoning", quoted(reasoning)));
    }
    facts.push(("Done so far", done_so_far(&question.facts.brief.done)));
    let stays = &question.facts.brief.cannot_undo;
    if !stays.is_empty() && inspected.view.session.is_none() {
        facts.push(("Cannot be undone", cannot_undo(stays)));
    }
    let asker = question.facts.asked_by.as_ref().map(|(actor, _)| actor.as_str());
    if let Some(actor) = asker.or(inspected.started_by.as_deref()) {
        facts.push((if asker.is_some() { "Asked by" } else { "Started by" }, Markup::text(actor)));
    }
    facts.extend(claim_fact(&question.waiting));
    facts
}

/// The call that was sent: its tool, and all of its arguments. `None`: Actbook does not call the step.
fn sent_call(step: &StepView) -> Option<Markup> {
    let mut text = Markup::code(step.tool.as_deref()?);
    if let Some(arguments) = &step.arguments {
        text.push_text(" ");
        text.push(Markup::data(&summary(arguments, usize::MAX)));
    }
    Some(text)
}

fn claim_fact(waiting: &WaitingView) -> Option<(&'static str, Markup)> {
    let claim = waiting.claim.as_ref()?;
    let mut text = Markup::quote(&claim.holder, usize::MAX);
    text.push_text(&format!(", until {}", claim.until));
    Some(("Held by", text))
}

fn quoted(text: &str) -> Markup {
    Markup::from_rendered(format!("<blockquote class=\"why\">{}</blockquote>", Markup::text(text)))
}

fn done_so_far(done: &[actbook_engine::id::StepId]) -> Markup {
    if done.is_empty() {
        return Markup::text("nothing yet");
    }
    let mut text = Markup::default();
    for (index, step) in done.iter().take(DONE_NAMED_MAX).enumerate() {
        text.push_text(if index == 0 { "" } else { ", " });
        text.push_code(step.as_str());
    }
    if done.len() > DONE_NAMED_MAX {
        text.push_text(&format!(" and {} more", done.len() - DONE_NAMED_MAX));
    }
    text
}

fn cannot_undo(stays: &[crate::service::NotUndoable]) -> Markup {
    let mut text = Markup::default();
    for (index, one) in stays.iter().enumerate() {
        text.push_text(if index == 0 { "" } else { "; " });
        text.push_code(one.step.as_str());
        text.push_text(": ");
        text.push_quote(&one.why, usize::MAX);
    }
    text
}

/// Says that the approved step is the point of no return, or where that lies.
fn warning(question: &PersonQuestion, step: Option<&StepView>) -> Option<Markup> {
    let no_return = question.facts.point_of_no_return.as_ref()?;
    let is_approval =
        matches!(question.facts.subject, QuestionSubject::StepApproval | QuestionSubject::PlanApproval);
    if !is_approval {
        return None;
    }
    let mut text = Markup::from_rendered("<b>Point of no return.</b> ".to_owned());
    if step.is_some_and(|step| step.id == *no_return) {
        text.push_text("What this step does cannot be undone fully. Until here everything can.");
    } else {
        text.push_text("It lies at ");
        text.push_code(no_return.as_str());
        text.push_text(": what runs from there on cannot be undone fully.");
    }
    Some(text)
}
