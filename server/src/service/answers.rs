//! Answers to questions, as programs and pages give them: with the question that was shown, so that an answer never
//! counts for another one.

use actbook_engine::event::{ApprovalScope, Event};
use actbook_engine::execution::Command;
use actbook_engine::id::Position;
use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::Refusal;
use serde::Serialize;
use serde_json::Value;

use super::commands::ExecutionCommandResult;
use super::executions::Executions;
use super::view::format_time;
use crate::caller::Caller;
use crate::error::Error;
use crate::store::journal;

/// An answer to an approval or to a step's question.
#[derive(Clone, Debug)]
pub struct GivenAnswer {
    /// `None`: the plan, or a proposed undo.
    pub step: Option<String>,
    pub choice: AnswerChoice,
    pub reason: Option<String>,
    /// The id of the question that the caller was shown. `None`: whatever is asked now.
    pub question: Option<u64>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum AnswerChoice {
    Approve,
    Reject,
    Decide {
        answer: StepAnswer,
        /// With `happened` or `skip`: the step's output; with `retry`: the fields that its tool asks for.
        output: Option<Value>,
        /// With `retry` or `did-not-happen`: all arguments of the call, corrected.
        arguments: Option<Value>,
    },
}

/// Who answered a question before, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierAnswer {
    pub by: String,
    pub at: String,
    pub position: u64,
    /// The kind of the entry, without its version: `step_approved`.
    pub kind: String,
}

impl Executions<'_> {
    /// Gives an answer. Err `stale_question`: the question was answered or replaced since it was shown.
    pub async fn answer(self, caller: &Caller, id: &str, given: GivenAnswer) -> ExecutionCommandResult {
        let GivenAnswer { step, choice, reason, question } = given;
        let Some(question) = question else {
            return self.answer_current(caller, id, step, choice, reason).await;
        };
        let replies_to = Some(Position(question));
        let command = match choice {
            AnswerChoice::Approve => {
                self.require_approver(caller, id).await?;
                Command::Approve { step, reason, replies_to, scope: ApprovalScope::Once }
            }
            AnswerChoice::Reject => {
                self.require_approver(caller, id).await?;
                Command::Reject { step, reason, replies_to }
            }
            AnswerChoice::Decide { answer, output, arguments } => {
                let step = step.unwrap_or_default();
                self.prepare_answer(caller, id, &step, answer, arguments.as_ref()).await?;
                let output = match output {
                    Some(reply) if answer == StepAnswer::Retry => {
                        self.complete_reply(caller, id, &step, reply).await?.0
                    }
                    output => output,
                };
                let approves = self.is_approver(caller, id).await?;
                Command::Decide { step, answer, reason, output, arguments, approves, replies_to }
            }
        };
        self.find_and_command(caller, id, command).await
    }

    /// Answers whatever the execution asks now.
    async fn answer_current(
        self,
        caller: &Caller,
        id: &str,
        step: Option<String>,
        choice: AnswerChoice,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        match choice {
            AnswerChoice::Approve => self.approve(caller, id, step, reason).await,
            AnswerChoice::Reject => self.reject(caller, id, step, reason).await,
            AnswerChoice::Decide { answer, output: None, arguments: Some(arguments) } => {
                self.retry_with(caller, id, step.unwrap_or_default(), answer, reason, arguments).await
            }
            AnswerChoice::Decide { output: Some(_), arguments: Some(_), .. } => {
                let both = actbook_engine::refusal::ArgumentsProblem::GivenWithOutput;
                Err(Refusal::ArgumentsNotAllowed(both).into())
            }
            AnswerChoice::Decide { answer, output, arguments: None } => {
                self.decide(caller, id, step.unwrap_or_default(), answer, reason, output).await
            }
        }
    }

    /// Checks corrected arguments, and moves the pin of a step that is retried. A repeated request is not checked:
    /// its step has moved on since.
    async fn prepare_answer(
        self,
        caller: &Caller,
        id: &str,
        step: &str,
        answer: StepAnswer,
        arguments: Option<&Value>,
    ) -> Result<(), Error> {
        if self.0.previous_result(caller).await?.is_some() {
            return Ok(());
        }
        if let Some(arguments) = arguments {
            self.require_fitting_arguments(id, step, answer, arguments).await?;
        }
        if answer == StepAnswer::Retry || arguments.is_some() {
            self.0.catalog().move_pin_to_accepted(caller, id, step).await?;
        }
        Ok(())
    }

    /// Who answered the question that was asked at `question`. `None`: it was not answered but replaced.
    pub async fn earlier_answer(
        self,
        id: &str,
        step: Option<&str>,
        question: u64,
    ) -> Result<Option<EarlierAnswer>, Error> {
        let stream = self.find(id).await?.stream;
        let entries =
            journal::by_stream(self.0.db.dialect(), self.0.tenant, stream, question).all(&self.0.db).await?;
        let answer = |entry: journal::Entry| {
            let event = Event::decode(&entry.kind, &entry.body).ok()?;
            is_answer(&event, step).then(|| EarlierAnswer {
                by: entry.actor.to_string(),
                at: format_time(entry.at),
                position: entry.position,
                kind: entry.kind.split('.').next().unwrap_or_default().to_owned(),
            })
        };
        Ok(entries.into_iter().find_map(answer))
    }
}

/// Whether an event answers a question about `step`; `None`: about the plan or an undo.
fn is_answer(event: &Event, step: Option<&str>) -> bool {
    if let Event::StepApproved(event) = event {
        return step == Some(event.step.as_str());
    }
    if let Event::StepRejected(event) = event {
        return step == Some(event.step.as_str());
    }
    if let Event::Decided(event) = event {
        return step == event.step.as_ref().map(|step| step.as_str());
    }
    let of_whole = matches!(
        event,
        Event::PlanApproved(_)
            | Event::PlanRejected(_)
            | Event::UnwindApproved(_)
            | Event::UnwindRejected(_)
            | Event::UnwindStarted(_)
    );
    of_whole && step.is_none() || matches!(event, Event::CancelAsked(_) | Event::UndoAsked(_))
}
