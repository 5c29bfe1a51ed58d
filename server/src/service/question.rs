//! Builds the text of a question that a person reads before answering: what would happen, with which
//! arguments, what was done so far, where the point of no return lies, who asks and why. Every interface that
//! asks a person shows this text.

use actbook_engine::analysis;
use actbook_engine::chain::Digest;
use actbook_engine::execution::{
    Brief, Execution, LoadedPayloads, NotUndoable, Question, QuestionSubject, UndoItem, planned_arguments,
    questions,
};
use actbook_engine::id::{ExecutionId, StepId, StepNo};
use actbook_engine::plan::{Plan, StepWork};
use actbook_engine::policy::{StepAnswer, StepStatus};
use serde_json::{Value, json};

use super::Service;
use super::quote::{block, line, name, quoted};
use super::view::{ExecutionView, WaitingView};
use crate::error::Error;
use crate::store::journal;

/// Longest arguments of the one call that a question is about.
const ARGUMENTS_CHARS_MAX: usize = 4_000;
/// Longest text of each item of a list.
const LISTED_CHARS_MAX: usize = 400;
/// At most this many steps or calls are listed; the rest are counted.
const LISTED_MAX: usize = 20;
const REASON_CHARS_MAX: usize = 600;

/// The actor that asks a person to answer, and the reason that it gave.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub actor: &'a str,
    pub reason: Option<&'a str>,
}

/// An open question with the text that a person needs to answer it.
#[derive(Clone, Debug)]
pub struct PersonQuestion {
    pub execution: ExecutionId,
    pub waiting: WaitingView,
    /// Several lines. Text from outside Actbook is quoted in it.
    pub text: String,
    /// Digest of the text and of the full values that the text shows truncated; an answer is bound to it. The
    /// progress of other steps is left out: they may continue while the person reads.
    pub digest: Digest,
}

impl Service {
    /// The view of an execution, and its open questions with their texts, in the order of
    /// `ExecutionView::waiting`.
    pub async fn person_questions(
        &self,
        id: &str,
        asker: Option<Asker<'_>>,
    ) -> Result<(ExecutionView, Vec<PersonQuestion>), Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream)?;
        let view = self.render_live(found.stream, &execution).await?;
        if view.waiting.is_empty() {
            return Ok((view, Vec::new()));
        }
        let started = journal::by_position(self.tenant, found.stream.0).first(&self.db).await?;
        let context = QuestionContext {
            values: self.load_planned_values(&execution).await?,
            brief: self.brief(&execution).await?,
            starter: started.map(|entry| entry.actor.to_string()),
            execution: &execution,
            view: &view,
            asker,
        };
        let open = questions(&execution);
        let all = open
            .iter()
            .zip(&view.waiting)
            .map(|(question, waiting)| context.build_question(question, waiting));
        let all = all.collect();
        Ok((view, all))
    }

    /// The values to which arguments of steps that have not begun can be bound already: the inputs.
    async fn load_planned_values(&self, execution: &Execution) -> Result<LoadedPayloads, Error> {
        let mut values = LoadedPayloads::default();
        let inputs = execution.inputs.iter().map(|stored| stored.position);
        self.load_values(inputs.collect(), &mut values).await?;
        Ok(values)
    }
}

/// What the questions of one execution are built from.
struct QuestionContext<'a> {
    execution: &'a Execution,
    view: &'a ExecutionView,
    values: LoadedPayloads,
    brief: Brief,
    /// The actor that started the execution.
    starter: Option<String>,
    asker: Option<Asker<'a>>,
}

impl QuestionContext<'_> {
    /// Builds the text and the digest of one question.
    fn build_question(&self, question: &Question, waiting: &WaitingView) -> PersonQuestion {
        let mut lines = vec![self.headline(question, waiting)];
        lines.extend(self.background_lines());
        lines.extend(match question.subject {
            QuestionSubject::PlanApproval => self.planned_step_lines(),
            QuestionSubject::UndoApproval => self.undo_lines(),
            QuestionSubject::StepApproval => self.call_lines(question.step),
            QuestionSubject::AgentWork | QuestionSubject::AgentUndo | QuestionSubject::ToolQuestion => {
                Vec::new()
            }
            QuestionSubject::Failure | QuestionSubject::Unknown | QuestionSubject::FailedUndo => {
                let mut lines = self.call_lines(question.step);
                if question.answers.contains(&StepAnswer::Compensate) {
                    lines.extend(self.undo_lines());
                }
                lines
            }
        });
        lines.extend(self.point_of_no_return_line());
        let bound = json!([lines, self.bound_values(question, waiting)]).to_string();
        lines.push(self.done_line());
        PersonQuestion {
            execution: self.execution.id.clone(),
            waiting: waiting.clone(),
            text: lines.join("\n"),
            digest: Digest::of(bound.as_bytes()),
        }
    }

    /// What an answer is bound to beyond the text: the full values, the attempt and the entry that asks. The
    /// same text asked again, or about another attempt, is another question.
    fn bound_values(&self, question: &Question, waiting: &WaitingView) -> Value {
        let attempts = question.step.map(|no| self.execution.step(no).attempts.len());
        let undo = (question.subject == QuestionSubject::UndoApproval).then_some(&self.brief.undo);
        let arguments = question.step.and_then(|no| self.view.steps[no.index()].arguments.as_ref());
        json!([waiting.question, waiting.options, waiting.asked, attempts, arguments, undo])
    }

    /// The first line: which execution, and what is asked.
    fn headline(&self, question: &Question, waiting: &WaitingView) -> String {
        let step = question.step.map(|no| self.execution.step_id(no).to_string()).unwrap_or_default();
        let asked = match question.subject {
            QuestionSubject::PlanApproval => "may this plan start?".to_owned(),
            QuestionSubject::UndoApproval => "may what was done be undone?".to_owned(),
            QuestionSubject::StepApproval => format!("may step `{step}` run?"),
            QuestionSubject::AgentWork
            | QuestionSubject::AgentUndo
            | QuestionSubject::ToolQuestion
            | QuestionSubject::Failure
            | QuestionSubject::Unknown
            | QuestionSubject::FailedUndo => line(&waiting.question, ARGUMENTS_CHARS_MAX),
        };
        format!("Actbook asks about execution {}: {asked}", self.execution.id)
    }

    /// Lines on the plan and its reasoning, who started it, and who asks now and why.
    fn background_lines(&self) -> Vec<String> {
        let plan = &self.execution.plan_ref;
        let (named, version, digest) = (name(&plan.name), plan.version, plan.digest);
        let mut lines = vec![format!("Plan: {named}, version {version} ({digest})")];
        let reasoning = self.execution.plan.reasoning.as_deref();
        lines
            .extend(reasoning.map(|why| format!("Reasoning in the plan: {}", quoted(why, REASON_CHARS_MAX))));
        lines.extend(
            self.starter.as_deref().map(|who| format!("Started by: {}", line(who, LISTED_CHARS_MAX))),
        );
        lines.extend(self.asker.map(|Asker { actor, reason }| {
            let why = reason.map_or("without a reason".to_owned(), |why| {
                format!("who gives as the reason: {}", quoted(why, REASON_CHARS_MAX))
            });
            format!("Asked by: {}, {why}", line(actor, LISTED_CHARS_MAX))
        }));
        lines
    }

    /// The call or the work that a question is about, with the arguments that are, or were, sent.
    fn call_lines(&self, no: Option<StepNo>) -> Vec<String> {
        let Some(view) = no.map(|no| &self.view.steps[no.index()]) else { return Vec::new() };
        let mut text = match (&view.tool, &view.action) {
            (Some(tool), _) => format!("The call: {}", line(tool, LISTED_CHARS_MAX)),
            (None, Some(action)) => format!("The work: {}", quoted(action, REASON_CHARS_MAX)),
            (None, None) => return Vec::new(),
        };
        if let Some(arguments) = &view.arguments {
            text.push_str(" with these arguments:");
            text.push_str(&block(&arguments.to_string(), ARGUMENTS_CHARS_MAX));
        }
        vec![text]
    }

    /// A line for each step that would run, with its arguments as far as they can be bound.
    fn planned_step_lines(&self) -> Vec<String> {
        let plan = &self.execution.plan;
        let mut lines = vec![format!("It would run {}:", count_with_noun(plan.steps.len(), "step"))];
        let written = document_steps(plan);
        for (no, step) in plan.numbered_steps().take(LISTED_MAX) {
            let bound = planned_arguments(self.execution, no, &self.values).ok().flatten();
            let arguments = match (&step.work, bound) {
                (StepWork::Action { action, .. }, _) => quoted(action, LISTED_CHARS_MAX),
                (_, Some(bound)) => line(&bound.to_string(), LISTED_CHARS_MAX),
                (_, None) => {
                    let text = written[no.index()]["arguments"].to_string();
                    format!("{} (as written; bound when it runs)", line(&text, LISTED_CHARS_MAX))
                }
            };
            let what = step.tool().unwrap_or("work of an agent or a person:");
            lines.push(format!("  - `{}`: {what} {arguments}", step.id));
        }
        lines.extend(more_line(plan.steps.len(), "step"));
        lines
    }

    /// Lines on the calls that undoing would make, in order, and the steps that cannot be undone.
    fn undo_lines(&self) -> Vec<String> {
        let Brief { undo, cannot_undo, .. } = &self.brief;
        let mut lines =
            vec![format!("Undoing would make {}, in this order:", count_with_noun(undo.len(), "call"))];
        lines.extend(undo.iter().take(LISTED_MAX).map(undo_line));
        lines.extend(more_line(undo.len(), "call"));
        let stays = cannot_undo.iter().take(LISTED_MAX);
        lines.extend(stays.map(|NotUndoable { step, why }| format!("  - `{step}` cannot be undone: {why}")));
        lines
    }

    /// The line on the point of no return.
    fn point_of_no_return_line(&self) -> Option<String> {
        let check = analysis::check_plan(&self.execution.plan, &self.execution.tool_policies);
        Some(match check.point_of_no_return {
            Some(step) => {
                format!("Point of no return: step `{step}`; what runs from there on cannot be fully undone.")
            }
            None => "Point of no return: none; everything can be undone.".to_owned(),
        })
    }

    /// The line on the steps that have succeeded.
    fn done_line(&self) -> String {
        let has_succeeded = |no: &StepNo| self.execution.step(*no).status() == StepStatus::Succeeded;
        let done: Vec<StepId> = self
            .execution
            .step_numbers()
            .filter(has_succeeded)
            .map(|no| self.execution.step_id(no))
            .collect();
        let shown: Vec<&str> = done.iter().take(LISTED_MAX).map(|id| id.as_str()).collect();
        let total = self.execution.steps.len();
        match done.len() {
            0 => format!("Done so far: none of {}.", count_with_noun(total, "step")),
            count if count > LISTED_MAX => {
                format!("Done so far: {count} of {total} steps: {} and others.", shown.join(", "))
            }
            count => format!("Done so far: {count} of {total} steps: {}.", shown.join(", ")),
        }
    }
}

/// The line of one call that undoing would make.
fn undo_line(undo: &UndoItem) -> String {
    let how = match (&undo.tool, &undo.action) {
        (Some(tool), _) => {
            let arguments =
                undo.arguments.as_ref().map(|arguments| arguments.to_string()).unwrap_or_default();
            format!("{} {}", line(tool, LISTED_CHARS_MAX), line(&arguments, LISTED_CHARS_MAX))
        }
        (None, Some(action)) => format!("work of an agent or a person: {}", quoted(action, LISTED_CHARS_MAX)),
        (None, None) => "nothing takes it back".to_owned(),
    };
    let trouble =
        undo.trouble.as_ref().map(|why| format!(" (cannot be called: {})", line(why, LISTED_CHARS_MAX)));
    format!("  - `{}`: {how}{}", undo.step, trouble.unwrap_or_default())
}

/// The plan's steps as JSON, as its document writes them.
fn document_steps(plan: &Plan) -> Value {
    let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
    document.get("steps").cloned().unwrap_or_default()
}

/// A count with its noun: `1 step`, `2 steps`.
fn count_with_noun(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The line on items beyond `LISTED_MAX`. `None`: there are none.
fn more_line(count: usize, what: &str) -> Option<String> {
    let more = count.checked_sub(LISTED_MAX).filter(|more| *more > 0)?;
    Some(format!("  - and {} more", count_with_noun(more, what)))
}
