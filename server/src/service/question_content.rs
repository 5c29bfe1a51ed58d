//! The lines of a question that name what an answer sets off: the call of a step, the steps of a plan, or the
//! calls of an undo, each with its arguments. Every interface that shows a question takes them from here.

use actbook_engine::execution::{
    Brief, Execution, LoadedPayloads, NotUndoable, Question, QuestionSubject, UndoItem, planned_arguments,
};
use actbook_engine::id::StepNo;
use actbook_engine::plan::{Plan, StepWork};
use actbook_engine::policy::StepAnswer;
use serde_json::Value;

use super::quote::{self, block, line, quoted};
use super::view::{StepView, format_time};

/// How much of a question's content is written out; in characters, and in list items.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentLimits {
    /// Most characters of the arguments of the one call that a question is about.
    pub arguments_chars_max: usize,
    /// Most characters of each item of a list.
    pub listed_chars_max: usize,
    /// Most items of a list; further steps or calls are only counted.
    pub listed_max: usize,
}

/// Longest label, rule or agent's id that a question shows, in characters.
const LABEL_CHARS_MAX: usize = 100;
/// Longest folder that a question shows, in characters.
const FOLDER_CHARS_MAX: usize = 400;

/// Longest content that a form shows, in bytes. Padding could hide an argument in a longer one.
pub(super) const FORM_BYTES_MAX: usize = 8_000;

/// What a form shows of a content that is too long for it.
pub(super) const CUT: ContentLimits =
    ContentLimits { arguments_chars_max: 4_000, listed_chars_max: 400, listed_max: 20 };

/// Everything is written out.
pub(super) const WHOLE: ContentLimits =
    ContentLimits { arguments_chars_max: usize::MAX, listed_chars_max: usize::MAX, listed_max: usize::MAX };

/// What the content of an execution's questions is built from.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionContent<'a> {
    pub execution: &'a Execution,
    pub steps: &'a [StepView],
    /// `None` only where no question is about an undo or a failure.
    pub brief: Option<&'a Brief>,
    /// Holds at least the inputs.
    pub values: &'a LoadedPayloads,
}

/// What a yes to a session's call depends on besides the call: the rule that asks, the labels that it covers, and until
/// when it can be given. Empty for the step of a plan.
pub(super) fn yes_terms(execution: &Execution, no: StepNo) -> Vec<(&'static str, String)> {
    let Some(session) = &execution.session else { return Vec::new() };
    let (call, question) = (session.call(no), session.questions.get(&no));
    let labels = question.map(|question| Vec::from_iter(&question.labels)).unwrap_or_default();
    let labels = labels.into_iter().map(|label| line(label, LABEL_CHARS_MAX)).collect::<Vec<_>>().join(", ");
    let folder = call.folder.as_ref().or(session.start.folder.as_ref());
    let expires = question.and_then(|question| question.expires_at_ms).map(format_time);
    let named = [
        ("Asked by the rule", call.rule.as_ref().map(|rule| line(rule, LABEL_CHARS_MAX))),
        (
            "Labels, with those that the call adds",
            Some(if labels.is_empty() { "none".to_owned() } else { labels }),
        ),
        ("The client's name of the tool", call.client_tool.as_ref().map(|name| line(name, LABEL_CHARS_MAX))),
        ("Folder", folder.map(|folder| line(folder, FOLDER_CHARS_MAX))),
        ("Subagent", call.agent.as_ref().map(|agent| line(agent, LABEL_CHARS_MAX))),
        ("A yes is possible until", expires),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

impl QuestionContent<'_> {
    /// The lines of one question; empty where an answer sets off no call that Actbook makes.
    pub fn lines(&self, question: &Question, limits: ContentLimits) -> Vec<String> {
        match question.subject {
            QuestionSubject::PlanApproval => self.planned_step_lines(limits),
            QuestionSubject::UndoApproval => self.undo_lines(limits),
            QuestionSubject::StepApproval => {
                let mut lines = self.call_lines(question.step, limits);
                let attempts = question.step.and_then(|no| step_attempts_max(self.execution, no));
                lines.extend(
                    attempts.map(|max| format!("One approval covers up to {max} attempts of this call.")),
                );
                let terms = question.step.map(|no| yes_terms(self.execution, no)).unwrap_or_default();
                lines.extend(terms.into_iter().map(|(name, value)| format!("{name}: {value}")));
                lines
            }
            QuestionSubject::AgentWork | QuestionSubject::AgentUndo | QuestionSubject::ToolQuestion => {
                Vec::new()
            }
            QuestionSubject::Failure | QuestionSubject::Unknown | QuestionSubject::FailedUndo => {
                let mut lines = self.call_lines(question.step, limits);
                if question.answers.contains(&StepAnswer::Compensate) {
                    lines.extend(self.undo_lines(limits));
                }
                lines
            }
        }
    }

    /// Size in bytes of the lines on an undo, written out. The same for every question that offers one.
    pub fn undo_bytes(&self) -> usize {
        self.undo_lines(WHOLE).iter().map(String::len).sum()
    }

    /// The call or the work that a question is about, with the arguments that are, or were, sent. Empty
    /// without a step.
    fn call_lines(&self, no: Option<StepNo>, limits: ContentLimits) -> Vec<String> {
        let Some(view) = no.map(|no| &self.steps[no.index()]) else { return Vec::new() };
        let mut text = match (&view.tool, &view.action) {
            (Some(tool), _) => format!("The call: {}", quote::tool(tool)),
            (None, Some(action)) => format!("The work: {}", quoted(action, limits.arguments_chars_max)),
            (None, None) => return Vec::new(),
        };
        if let Some(arguments) = &view.arguments {
            text.push_str(" with these arguments:");
            text.push_str(&block(&arguments.to_string(), limits.arguments_chars_max));
        }
        vec![text]
    }

    /// A heading, and a line for each step that would run, with its arguments as far as they can be bound.
    fn planned_step_lines(&self, limits: ContentLimits) -> Vec<String> {
        let plan = &self.execution.plan;
        let mut lines = vec![format!("It would run {}:", count_with_noun(plan.steps.len(), "step"))];
        let written = document_steps(plan);
        for (no, step) in plan.numbered_steps().take(limits.listed_max) {
            let bound = planned_arguments(self.execution, no, self.values).ok().flatten();
            let arguments = match (&step.work, bound) {
                (StepWork::Action { action, .. }, _) => quoted(action, limits.listed_chars_max),
                (_, Some(bound)) => line(&bound.to_string(), limits.listed_chars_max),
                (_, None) => {
                    let text = written[no.index()]["arguments"].to_string();
                    format!("{} (as written; bound when it runs)", line(&text, limits.listed_chars_max))
                }
            };
            let what = step.tool().unwrap_or("work of an agent or a person:");
            lines.push(format!("  - `{}`: {what} {arguments}", step.id));
        }
        lines.extend(more_line(plan.steps.len(), "step", limits));
        lines
    }

    /// Lines on the calls that undoing would make, in order, and the steps that cannot be undone.
    fn undo_lines(&self, limits: ContentLimits) -> Vec<String> {
        let Some(Brief { undo, cannot_undo, .. }) = self.brief else { return Vec::new() };
        let mut lines =
            vec![format!("Undoing would make {}, in this order:", count_with_noun(undo.len(), "call"))];
        lines.extend(undo.iter().take(limits.listed_max).map(|item| {
            let attempts = undo_attempts_max(self.execution, item);
            let attempts = attempts.map(|max| format!(" (up to {max} attempts)")).unwrap_or_default();
            undo_line(item, limits) + &attempts
        }));
        lines.extend(more_line(undo.len(), "call", limits));
        let stays = cannot_undo.iter().take(limits.listed_max);
        lines.extend(stays.map(|NotUndoable { step, why }| format!("  - `{step}` cannot be undone: {why}")));
        lines
    }
}

/// How many attempts of a step's call one approval covers. `None`: one, or Actbook makes no call.
pub(super) fn step_attempts_max(execution: &Execution, no: StepNo) -> Option<u32> {
    let step = execution.plan.step(no);
    let attempts = execution.step_retry(step).max_attempts;
    (attempts > 1 && !step.is_agent_step()).then_some(attempts)
}

/// One call that an undo would make, and how many attempts of it one yes covers. `None`: one, or Actbook makes no
/// call.
#[derive(Clone, Debug)]
pub struct CoveredCall {
    pub item: UndoItem,
    pub attempts_max: Option<u32>,
}

/// The calls of an undo, in its order.
pub(super) fn undo_calls(execution: &Execution, brief: &Brief) -> Vec<CoveredCall> {
    let call = |item: &UndoItem| CoveredCall {
        item: item.clone(),
        attempts_max: undo_attempts_max(execution, item),
    };
    brief.undo.iter().map(call).collect()
}

/// How many attempts of a compensation one approval covers. `None`: one, or Actbook makes no call.
fn undo_attempts_max(execution: &Execution, item: &UndoItem) -> Option<u32> {
    let no = execution.plan.find_step(item.step.as_str())?;
    let compensation = execution.plan.step(no).compensation.as_ref()?;
    let attempts = execution.compensation_retry(compensation).max_attempts;
    (attempts > 1 && item.tool.is_some()).then_some(attempts)
}

/// The line of one call that undoing would make.
fn undo_line(undo: &UndoItem, limits: ContentLimits) -> String {
    let chars_max = limits.listed_chars_max;
    let how = match (&undo.tool, &undo.action) {
        (Some(tool), _) => {
            let arguments =
                undo.arguments.as_ref().map(|arguments| arguments.to_string()).unwrap_or_default();
            format!("{} {}", line(tool, chars_max), line(&arguments, chars_max))
        }
        (None, Some(action)) => format!("work of an agent or a person: {}", quoted(action, chars_max)),
        (None, None) => "no compensation".to_owned(),
    };
    let trouble = undo.trouble.as_ref().map(|why| format!(" (cannot be called: {})", line(why, chars_max)));
    format!("  - `{}`: {how}{}", undo.step, trouble.unwrap_or_default())
}

/// The plan's steps as JSON, as its document writes them; null if the document is not JSON.
fn document_steps(plan: &Plan) -> Value {
    let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
    document.get("steps").cloned().unwrap_or_default()
}

/// A count with its noun: `1 step`, `2 steps`.
pub(super) fn count_with_noun(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The line on the items beyond `listed_max`; `what` is their noun, in the singular. `None`: there are none.
fn more_line(count: usize, what: &str, limits: ContentLimits) -> Option<String> {
    let more = count.checked_sub(limits.listed_max).filter(|more| *more > 0)?;
    Some(format!("  - and {} more", count_with_noun(more, what)))
}
