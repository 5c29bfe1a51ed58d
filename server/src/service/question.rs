//! A question as a person reads it before answering: what would happen, with which arguments, what was done
//! so far, where the point of no return lies, who asks and why. Every door that asks a person shows this text.

use actbook_engine::analysis;
use actbook_engine::chain::Digest;
use actbook_engine::execution::{
    Brief, CannotUndo, Execution, Question, Subject, ToUndo, Values, planned_arguments, questions,
};
use actbook_engine::id::{ExecutionId, StepId, StepNo};
use actbook_engine::plan::{Plan, Work};
use actbook_engine::policy::{Answer, StepStatus};
use serde_json::{Value, json};

use super::Service;
use super::quote::{block, line, name, quoted};
use super::view::{ExecutionView, WaitingView};
use crate::error::Error;
use crate::store::journal;

/// Of the one call that is asked about.
const ARGUMENTS_CHARS_MAX: usize = 4_000;
/// Of each of several.
const LISTED_CHARS_MAX: usize = 400;
/// More steps or calls than this are counted.
const LISTED_MAX: usize = 20;
const REASON_CHARS_MAX: usize = 600;

/// Who puts a question to a person, and the reason that was given.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub actor: &'a str,
    pub reason: Option<&'a str>,
}

/// An open question, with all that a person needs in order to answer it.
#[derive(Clone, Debug)]
pub struct PersonQuestion {
    pub execution: ExecutionId,
    pub waiting: WaitingView,
    /// Several lines. Whatever is not Actbook's own stands quoted in it.
    pub text: String,
    /// Covers the text, and whole what the text shows cut. How far other steps have come is left out: they
    /// may go on while the person reads.
    pub digest: Digest,
}

impl Service {
    /// The execution, and each of its open questions as it is put to a person, in the order of
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
        let started = journal::at(self.tenant, found.stream).first(&self.db).await?;
        let facts = Facts {
            values: self.planned_values(&execution).await?,
            brief: self.brief(&execution).await?,
            starter: started.map(|entry| entry.actor.to_string()),
            execution: &execution,
            view: &view,
            asker,
        };
        let open = questions(&execution);
        let all = open.iter().zip(&view.waiting).map(|(question, waiting)| facts.ask(question, waiting));
        let all = all.collect();
        Ok((view, all))
    }

    /// The inputs, and whatever else the arguments of steps that have not begun can be bound to already.
    async fn planned_values(&self, execution: &Execution) -> Result<Values, Error> {
        let mut values = Values::default();
        let inputs = execution.inputs.iter().map(|stored| stored.position);
        self.load(inputs.collect(), &mut values).await?;
        Ok(values)
    }
}

/// What the questions of one execution are told from.
struct Facts<'a> {
    execution: &'a Execution,
    view: &'a ExecutionView,
    values: Values,
    brief: Brief,
    starter: Option<String>,
    asker: Option<Asker<'a>>,
}

impl Facts<'_> {
    fn ask(&self, question: &Question, waiting: &WaitingView) -> PersonQuestion {
        let mut lines = vec![self.headline(question, waiting)];
        lines.extend(self.background());
        lines.extend(match question.subject {
            Subject::PlanApproval => self.planned_steps(),
            Subject::UndoApproval => self.undo(),
            Subject::StepApproval => self.call(question.step),
            Subject::AgentWork | Subject::AgentUndo | Subject::Question => Vec::new(),
            Subject::Failure | Subject::Unknown | Subject::FailedUndo => {
                let mut lines = self.call(question.step);
                if question.answers.contains(&Answer::Compensate) {
                    lines.extend(self.undo());
                }
                lines
            }
        });
        lines.extend(self.point_of_no_return());
        let bound = json!([lines, self.whole(question, waiting)]).to_string();
        lines.push(self.done());
        PersonQuestion {
            execution: self.execution.id.clone(),
            waiting: waiting.clone(),
            text: lines.join("\n"),
            digest: Digest::of(bound.as_bytes()),
        }
    }

    /// What the answer is bound to beyond the words shown. The same words may be asked again, or about
    /// another attempt, and are another question then.
    fn whole(&self, question: &Question, waiting: &WaitingView) -> Value {
        let attempts = question.step.map(|no| self.execution.step(no).attempts.len());
        let undo = (question.subject == Subject::UndoApproval).then_some(&self.brief.undo);
        let arguments = question.step.and_then(|no| self.view.steps[no.index()].arguments.as_ref());
        json!([waiting.question, waiting.options, waiting.asked, attempts, arguments, undo])
    }

    fn headline(&self, question: &Question, waiting: &WaitingView) -> String {
        let step = question.step.map(|no| self.execution.step_id(no).to_string()).unwrap_or_default();
        let asked = match question.subject {
            Subject::PlanApproval => "may this plan start?".to_owned(),
            Subject::UndoApproval => "may what was done be undone?".to_owned(),
            Subject::StepApproval => format!("may step `{step}` run?"),
            Subject::AgentWork
            | Subject::AgentUndo
            | Subject::Question
            | Subject::Failure
            | Subject::Unknown
            | Subject::FailedUndo => line(&waiting.question, ARGUMENTS_CHARS_MAX),
        };
        format!("Actbook asks about execution {}: {asked}", self.execution.id)
    }

    /// The plan, who started it and why, and who asks now and why.
    fn background(&self) -> Vec<String> {
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

    /// The one call that is asked about, with the arguments that are, or were, sent.
    fn call(&self, no: Option<StepNo>) -> Vec<String> {
        let Some(view) = no.map(|no| &self.view.steps[no.index()]) else { return Vec::new() };
        let mut told = match (&view.tool, &view.action) {
            (Some(tool), _) => format!("The call: {}", line(tool, LISTED_CHARS_MAX)),
            (None, Some(action)) => format!("The work: {}", quoted(action, REASON_CHARS_MAX)),
            (None, None) => return Vec::new(),
        };
        if let Some(arguments) = &view.arguments {
            told.push_str(" with these arguments:");
            told.push_str(&block(&arguments.to_string(), ARGUMENTS_CHARS_MAX));
        }
        vec![told]
    }

    /// Every step that would run, with its arguments as far as they are known.
    fn planned_steps(&self) -> Vec<String> {
        let plan = &self.execution.plan;
        let mut lines = vec![format!("It would run {}:", counted(plan.steps.len(), "step"))];
        let written = as_written(plan);
        for (no, step) in plan.numbered().take(LISTED_MAX) {
            let bound = planned_arguments(self.execution, no, &self.values).ok().flatten();
            let arguments = match (&step.work, bound) {
                (Work::Action { action, .. }, _) => quoted(action, LISTED_CHARS_MAX),
                (_, Some(bound)) => line(&bound.to_string(), LISTED_CHARS_MAX),
                (_, None) => {
                    let text = written[no.index()]["arguments"].to_string();
                    format!("{} (as written; bound when it runs)", line(&text, LISTED_CHARS_MAX))
                }
            };
            let what = step.tool().unwrap_or("work of an agent or a person:");
            lines.push(format!("  - `{}`: {what} {arguments}", step.id));
        }
        lines.extend(more(plan.steps.len(), "step"));
        lines
    }

    /// What undoing would call, in order, and what stays.
    fn undo(&self) -> Vec<String> {
        let Brief { undo, cannot_undo, .. } = &self.brief;
        let mut lines = vec![format!("Undoing would make {}, in this order:", counted(undo.len(), "call"))];
        lines.extend(undo.iter().take(LISTED_MAX).map(undo_line));
        lines.extend(more(undo.len(), "call"));
        let stays = cannot_undo.iter().take(LISTED_MAX);
        lines.extend(stays.map(|CannotUndo { step, why }| format!("  - `{step}` cannot be undone: {why}")));
        lines
    }

    fn point_of_no_return(&self) -> Option<String> {
        let check = analysis::check(&self.execution.plan, &self.execution.terms);
        Some(match check.point_of_no_return {
            Some(step) => {
                format!("Point of no return: step `{step}`; what runs from there on cannot be fully undone.")
            }
            None => "Point of no return: none; everything can be undone.".to_owned(),
        })
    }

    fn done(&self) -> String {
        let done = |no: &StepNo| self.execution.step(*no).status() == StepStatus::Succeeded;
        let done: Vec<StepId> =
            self.execution.numbers().filter(done).map(|no| self.execution.step_id(no)).collect();
        let shown: Vec<&str> = done.iter().take(LISTED_MAX).map(|id| id.as_str()).collect();
        let total = self.execution.steps.len();
        match done.len() {
            0 => format!("Done so far: none of {}.", counted(total, "step")),
            count if count > LISTED_MAX => {
                format!("Done so far: {count} of {total} steps: {} and others.", shown.join(", "))
            }
            count => format!("Done so far: {count} of {total} steps: {}.", shown.join(", ")),
        }
    }
}

fn undo_line(one: &ToUndo) -> String {
    let how = match (&one.tool, &one.action) {
        (Some(tool), _) => {
            let arguments = one.arguments.as_ref().map(|arguments| arguments.to_string()).unwrap_or_default();
            format!("{} {}", line(tool, LISTED_CHARS_MAX), line(&arguments, LISTED_CHARS_MAX))
        }
        (None, Some(action)) => format!("work of an agent or a person: {}", quoted(action, LISTED_CHARS_MAX)),
        (None, None) => "nothing takes it back".to_owned(),
    };
    let trouble =
        one.trouble.as_ref().map(|why| format!(" (cannot be called: {})", line(why, LISTED_CHARS_MAX)));
    format!("  - `{}`: {how}{}", one.step, trouble.unwrap_or_default())
}

/// The plan's steps as its document has them.
fn as_written(plan: &Plan) -> Value {
    let document: Value = serde_json::from_str(&plan.document).unwrap_or_default();
    document.get("steps").cloned().unwrap_or_default()
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn more(count: usize, what: &str) -> Option<String> {
    let more = count.checked_sub(LISTED_MAX).filter(|more| *more > 0)?;
    Some(format!("  - and {} more", counted(more, what)))
}
