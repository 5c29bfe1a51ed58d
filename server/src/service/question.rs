//! Builds the text of a question that a person reads before answering: what would happen, with which
//! arguments, what was done so far, where the point of no return lies, who asks and why. Every interface that
//! asks a person shows this text.

use std::sync::Arc;

use actbook_engine::analysis;
use actbook_engine::chain::Digest;
use actbook_engine::event::Event;
use actbook_engine::execution::{Brief, Execution, LoadedPayloads, Question, QuestionSubject, questions};
use actbook_engine::id::{ExecutionId, Position, StepId, StepNo, StreamId};
use actbook_engine::policy::{StepAnswer, StepStatus};
use serde_json::{Value, json};

use super::executions::Executions;
use super::question_content::{
    CUT, CoveredCall, QuestionContent, WHOLE, count_with_noun, step_attempts_max, undo_calls, yes_terms,
};
use super::quote::{self, line, name, quoted};
use super::step_values::StepValues;
use super::view::{AnswerOption, ExecutionView, QuestionKind, WaitingView, format_time};
use super::wait_entries::WaitEntry;
use crate::error::Error;
use crate::store::journal;

/// At most this many finished steps are named; the rest are counted.
const DONE_LISTED_MAX: usize = 20;
const HEADLINE_CHARS_MAX: usize = 4_000;
/// Most characters of a quoted reason, reasoning or action.
const REASON_CHARS_MAX: usize = 600;

/// The actor that asks a person to answer, and the reason that it gave.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub actor: &'a str,
    pub reason: Option<&'a str>,
}

/// Where a person reads a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionMedium {
    /// A form of a client. A question that does not fit is cut and cannot be answered with a yes there.
    Form,
    /// The terminal, which shows all that an approval is about.
    Terminal,
}

/// The options that send the calls that a question shows.
const YES_OPTIONS: [AnswerOption; 2] = [AnswerOption::Approve, AnswerOption::Decide(StepAnswer::Compensate)];

/// An open question with the text that a person needs to answer it.
#[derive(Clone, Debug)]
pub struct PersonQuestion {
    pub execution: ExecutionId,
    /// Without the options that send calls, where the text had to be cut.
    pub waiting: WaitingView,
    /// Several lines. Text from outside Actbook is quoted in it.
    pub text: String,
    /// Digest of the text and of the full values that the text shows truncated; an answer is bound to it. The
    /// progress of other steps is left out: they may continue while the person reads.
    pub digest: Digest,
    pub facts: QuestionFacts,
}

/// The facts that the text of a question tells, for interfaces that lay them out.
#[derive(Clone, Debug)]
pub struct QuestionFacts {
    pub subject: QuestionSubject,
    /// When it was asked. `None`: the entry that asks is not known.
    pub asked_at: Option<String>,
    /// Who asked for the undo in question, and the reason given.
    pub asked_by: Option<(String, Option<String>)>,
    /// What undoing would do now, and what would remain. All questions of an execution share it.
    pub brief: Arc<Brief>,
    /// The calls of `brief`, with the attempts that a yes covers.
    pub undo: Arc<[CoveredCall]>,
    /// How many attempts of the step's call a yes covers. `None`: one, or Actbook makes no call.
    pub attempts_max: Option<u32>,
    /// The first step whose effect cannot be undone fully.
    pub point_of_no_return: Option<StepId>,
    /// What a yes to a session's call depends on besides the call, each with its name.
    pub terms: Vec<(&'static str, String)>,
    /// Lines on what an approval sets off; for a plan these are its steps.
    pub content: Vec<String>,
}

impl Executions<'_> {
    /// The view of an execution, and its open questions with their texts, in the order of
    /// `ExecutionView::waiting`. `asker`: `None` if a person reads the questions without being asked.
    pub async fn person_questions(
        self,
        id: &str,
        asker: Option<Asker<'_>>,
        medium: QuestionMedium,
    ) -> Result<(ExecutionView, Vec<PersonQuestion>), Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        self.questions_of(found.stream, &execution, asker, medium, StepValues::All).await
    }

    /// The view of a folded execution, and its open questions.
    pub(super) async fn questions_of(
        self,
        stream: StreamId,
        execution: &Execution,
        asker: Option<Asker<'_>>,
        medium: QuestionMedium,
        held: StepValues,
    ) -> Result<(ExecutionView, Vec<PersonQuestion>), Error> {
        let view = self.render_live(stream, execution, held).await?;
        if view.waiting.is_empty() {
            return Ok((view, Vec::new()));
        }
        let brief = Arc::new(self.brief(execution).await?);
        let (shown_brief, undo) = self.shown_undo(execution, &brief);
        let context = QuestionContext {
            values: self.load_planned_values(execution).await?,
            starter: self.starter(stream.0).await?,
            undo_request: self.undo_request(stream, execution).await?,
            point_of_no_return: point_of_no_return(execution),
            done_line: done_line(execution),
            execution,
            view: &view,
            brief,
            shown_brief,
            undo,
            asker,
            medium,
        };
        let open = questions(execution);
        let all = open
            .iter()
            .zip(&view.waiting)
            .map(|(question, waiting)| context.build_question(question, waiting));
        let mut all: Vec<PersonQuestion> = all.collect();
        for question in &mut all {
            question.facts.asked_at = self.time_of(question.waiting.asked_at).await?;
            self.0.withhold_person_question(question);
        }
        Ok((view, all))
    }

    /// A brief and its calls as this service's caller may see them.
    fn shown_undo(self, execution: &Execution, brief: &Arc<Brief>) -> (Arc<Brief>, Arc<[CoveredCall]>) {
        let mut undo = undo_calls(execution, brief);
        self.0.withhold_undo_calls(&mut undo);
        if !self.0.withholds() {
            return (brief.clone(), undo.into());
        }
        let mut shown = Brief::clone(brief);
        self.0.withhold_brief(&mut shown);
        (Arc::new(shown), undo.into())
    }

    /// The time of an entry. `None`: no entry is given, or there is none.
    async fn time_of(self, position: Option<Position>) -> Result<Option<String>, Error> {
        let Some(position) = position else { return Ok(None) };
        let entry = journal::by_position(self.0.tenant, position.0).first(&self.0.db).await?;
        Ok(entry.map(|entry| format_time(entry.at)))
    }

    /// Who asked for the undo that waits for an approval, and why. `None`: the plan proposes it.
    async fn undo_request(
        self,
        stream: StreamId,
        execution: &Execution,
    ) -> Result<Option<UndoRequest>, Error> {
        if !execution.undo_requested {
            return Ok(None);
        }
        let request = |entry: &WaitEntry| {
            let Event::UndoAsked(event) = &entry.event else { return None };
            Some(UndoRequest { actor: entry.actor.to_string(), reason: event.reason.clone() })
        };
        Ok(self.wait_entries(stream, execution).await?.entries.iter().rev().find_map(request))
    }

    /// Loads the values to which arguments of steps that have not begun can be bound already: the inputs.
    async fn load_planned_values(self, execution: &Execution) -> Result<LoadedPayloads, Error> {
        let mut values = LoadedPayloads::default();
        let inputs = execution.inputs.iter().map(|stored| stored.position);
        self.load_values(inputs.collect(), &mut values).await?;
        Ok(values)
    }
}

/// Who asked for an undo, and why.
struct UndoRequest {
    actor: String,
    reason: Option<String>,
}

/// What the questions of one execution are built from.
struct QuestionContext<'a> {
    execution: &'a Execution,
    view: &'a ExecutionView,
    values: LoadedPayloads,
    brief: Arc<Brief>,
    /// `brief` and its calls, as the caller may see them.
    shown_brief: Arc<Brief>,
    undo: Arc<[CoveredCall]>,
    point_of_no_return: Option<StepId>,
    done_line: String,
    /// The actor that started the execution.
    starter: Option<String>,
    asker: Option<Asker<'a>>,
    undo_request: Option<UndoRequest>,
    medium: QuestionMedium,
}

impl QuestionContext<'_> {
    /// Builds the text and the digest of one question; `waiting`: its view.
    fn build_question(&self, question: &Question, waiting: &WaitingView) -> PersonQuestion {
        let mut lines = vec![self.headline(question, waiting)];
        lines.extend(self.background_lines());
        lines.extend(self.asker_of(question).map(asker_line));
        let content = QuestionContent {
            execution: self.execution,
            steps: &self.view.steps,
            brief: Some(&self.brief),
            values: &self.values,
        };
        let is_whole = self.medium == QuestionMedium::Terminal && waiting.kind == QuestionKind::Approval;
        let is_cut = waiting.too_long && !is_whole;
        lines.extend(content.lines(question, if is_cut { CUT } else { WHOLE }));
        lines.extend(self.point_of_no_return_line());
        let bound = json!([lines, self.bound_values(question, waiting)]).to_string();
        lines.push(self.done_line.clone());
        let mut waiting = waiting.clone();
        if is_cut {
            let offered = waiting.options.len();
            waiting.options.retain(|option| !YES_OPTIONS.contains(option));
            if waiting.options.len() < offered {
                lines.push(format!("{}.", waiting.too_long_text(self.execution.id.as_str())));
            }
        }
        PersonQuestion {
            execution: self.execution.id.clone(),
            waiting,
            text: lines.join("\n"),
            digest: Digest::of(bound.as_bytes()),
            facts: QuestionFacts {
                subject: question.subject,
                asked_at: None,
                asked_by: self
                    .asker_of(question)
                    .map(|asker| (asker.actor.to_owned(), asker.reason.map(str::to_owned))),
                brief: self.shown_brief.clone(),
                undo: self.undo.clone(),
                attempts_max: question.step.and_then(|no| step_attempts_max(self.execution, no)),
                point_of_no_return: self.point_of_no_return.clone(),
                terms: question.step.map(|no| yes_terms(self.execution, no)).unwrap_or_default(),
                content: content.lines(question, WHOLE),
            },
        }
    }

    /// What an answer is bound to beyond the text: the full values, the attempt and the entry that asks. The
    /// same text asked again, or about another attempt, is another question.
    fn bound_values(&self, question: &Question, waiting: &WaitingView) -> Value {
        let attempts = question.step.map(|no| self.execution.step(no).attempts.len());
        let undo = (question.subject == QuestionSubject::UndoApproval).then_some(&self.brief.undo);
        let arguments = question.step.and_then(|no| self.view.steps[no.index()].arguments.as_ref());
        json!([waiting.question, waiting.options, waiting.asked_at, attempts, arguments, undo])
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
            | QuestionSubject::FailedUndo => line(&waiting.question, HEADLINE_CHARS_MAX),
        };
        format!("Actbook asks about execution {}: {asked}", self.execution.id)
    }

    /// Who asks now; where a person reads the question unasked, who asked for the undo that it is about.
    /// `None`: neither an agent nor a person asked for it.
    fn asker_of(&self, question: &Question) -> Option<Asker<'_>> {
        let request = || {
            let UndoRequest { actor, reason } = self.undo_request.as_ref()?;
            let is_undo = question.subject == QuestionSubject::UndoApproval;
            is_undo.then(|| Asker { actor, reason: reason.as_deref() })
        };
        self.asker.or_else(request)
    }

    /// The lines on the plan, its reasoning, and who started the execution.
    fn background_lines(&self) -> Vec<String> {
        let plan = &self.execution.plan_ref;
        let (named, version, digest) = (name(&plan.name), plan.version, plan.digest);
        let mut lines = vec![format!("Plan: {named}, version {version} ({digest})")];
        let reasoning = self.execution.plan.reasoning.as_deref();
        lines
            .extend(reasoning.map(|why| format!("Reasoning in the plan: {}", quoted(why, REASON_CHARS_MAX))));
        lines.extend(self.starter.as_deref().map(|who| format!("Started by: {}", quote::actor(who))));
        lines
    }

    fn point_of_no_return_line(&self) -> Option<String> {
        if self.execution.session.is_some() {
            return None;
        }
        Some(match &self.point_of_no_return {
            Some(step) => {
                format!("Point of no return: step `{step}`; what runs from there on cannot be fully undone.")
            }
            None => "Point of no return: none; everything can be undone.".to_owned(),
        })
    }
}

/// The first step of an execution's plan whose effect cannot be undone fully. `None` too for a session, which has no
/// plan.
fn point_of_no_return(execution: &Execution) -> Option<StepId> {
    if execution.session.is_some() {
        return None;
    }
    analysis::check_plan(&execution.plan, &execution.tool_policies).point_of_no_return
}

/// The line on the steps that have succeeded.
fn done_line(execution: &Execution) -> String {
    let has_succeeded = |no: &StepNo| execution.step(*no).status() == StepStatus::Succeeded;
    let done: Vec<StepId> =
        execution.step_numbers().filter(has_succeeded).map(|no| execution.step_id(no)).collect();
    let shown: Vec<&str> = done.iter().take(DONE_LISTED_MAX).map(|id| id.as_str()).collect();
    let total = execution.steps.len();
    match done.len() {
        0 => format!("Done so far: none of {}.", count_with_noun(total, "step")),
        count if count > DONE_LISTED_MAX => {
            format!("Done so far: {count} of {total} steps: {} and others.", shown.join(", "))
        }
        count => format!("Done so far: {count} of {total} steps: {}.", shown.join(", ")),
    }
}

/// The line on who asks and why; the reason is quoted.
fn asker_line(Asker { actor, reason }: Asker<'_>) -> String {
    let why = reason.map_or("without a reason".to_owned(), |why| {
        format!("who gives as the reason: {}", quoted(why, REASON_CHARS_MAX))
    });
    format!("Asked by: {}, {why}", quote::actor(actor))
}
