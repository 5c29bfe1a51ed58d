//! Commands that people and agents give to an execution. Each becomes an entry in the journal, from which the
//! execution's driver continues.

use actbook_engine::chain::Digest;
use actbook_engine::event::{ApprovalScope, ReportedStatus};
use actbook_engine::execution::{
    ActionFacts, Brief, Command, LoadedPayloads, PayloadRef, SessionCommand, allowed_answers,
    check_corrected_answer,
};
use actbook_engine::id::{Position, StreamId};
use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::Refusal;
use serde_json::{Value, json};

use super::executions::Executions;
use super::executions::FoundExecution;
use super::question::PersonQuestion;
use super::records::ActionRecord;
use super::session_undo::{UndoSelection, select_steps};
use super::view::AnswerOption;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{CommandRequest, DriveState, KeyedReply};
use crate::tools::AskedInput;

/// The commanded execution as it was found before, and its progress after the command.
pub(super) type ExecutionCommandResult = Result<(FoundExecution, DriveState), Error>;

/// How often the calls of an undo are compared with those that were shown, while the execution goes on.
const UNDO_CHECKS_MAX: usize = 20;

/// The digest of what an undo would do, by which a caller says what it was shown.
pub fn undo_digest(brief: &Brief) -> String {
    Digest::of(json!([brief.undo, brief.cannot_undo]).to_string().as_bytes()).to_string()
}

impl Executions<'_> {
    /// Finds an execution by its id or a unique prefix of it, and gives it a command.
    pub(super) async fn find_and_command(
        self,
        caller: &Caller,
        id: &str,
        command: Command,
    ) -> ExecutionCommandResult {
        let found = self.find(id).await?;
        if let Command::Undo { .. } | Command::Cancel { .. } = &command {
            // An unwinding would wait for calls whose process is gone.
            self.0.sessions().settle_lost_calls_of(found.stream).await?;
        }
        let progress = self.command(caller, found.stream, command).await?;
        Ok((found, progress))
    }

    /// Gives a command to the execution of `stream`; a repeated request returns its current progress and
    /// changes nothing.
    pub(super) async fn command(
        self,
        caller: &Caller,
        stream: StreamId,
        command: Command,
    ) -> Result<DriveState, Error> {
        self.command_as_of(caller, stream, command, None).await
    }

    /// Like `command`; Err `stale_question` if the execution's last entry is not the given one.
    async fn command_as_of(
        self,
        caller: &Caller,
        stream: StreamId,
        command: Command,
        as_of: Option<Position>,
    ) -> Result<DriveState, Error> {
        match self.0.submit(caller, CommandRequest { stream, command: command.into(), as_of }).await? {
            KeyedReply::First(progress) => Ok(progress),
            KeyedReply::Repeated(_) => self.current(stream),
        }
    }

    /// Pauses the execution: starts nothing further; calls in flight finish.
    pub async fn pause(self, caller: &Caller, id: &str, reason: Option<String>) -> ExecutionCommandResult {
        self.find_and_command(caller, id, Command::Pause { reason }).await
    }

    /// Lifts a pause.
    pub async fn resume(self, caller: &Caller, id: &str) -> ExecutionCommandResult {
        self.find_and_command(caller, id, Command::Resume).await
    }

    /// Ends the execution without undoing anything; calls in flight are asked to stop.
    pub async fn cancel(self, caller: &Caller, id: &str, reason: Option<String>) -> ExecutionCommandResult {
        self.find_and_command(caller, id, Command::Cancel { reason }).await
    }

    /// Runs the compensations of what was done. Counts as their approval only if the caller may approve.
    pub async fn undo(self, caller: &Caller, id: &str, reason: Option<String>) -> ExecutionCommandResult {
        let approves = self.is_approver(caller, id).await?;
        self.find_and_command(caller, id, Command::Undo { reason, steps: None, approves }).await
    }

    /// Like `undo`, of a part of a session.
    pub async fn undo_selected(
        self,
        caller: &Caller,
        id: &str,
        reason: Option<String>,
        selection: &UndoSelection,
    ) -> ExecutionCommandResult {
        let approves = self.is_approver(caller, id).await?;
        let steps = select_steps(&*self.load(id).await?, selection)?;
        let steps = steps.map(|steps| steps.iter().map(ToString::to_string).collect());
        self.find_and_command(caller, id, Command::Undo { reason, steps, approves }).await
    }

    /// Like `undo`, if it would make the calls that the caller was shown: those with the digest `calls`. Err
    /// `stale_question`: it would make others by now.
    pub async fn undo_shown(
        self,
        caller: &Caller,
        id: &str,
        reason: Option<String>,
        selection: &UndoSelection,
        calls: &str,
    ) -> ExecutionCommandResult {
        if self.0.previous_result(caller).await?.is_some() {
            return self.undo_selected(caller, id, reason, selection).await;
        }
        let approves = self.is_approver(caller, id).await?;
        self.0.sessions().settle_lost_calls_of(self.find(id).await?.stream).await?;
        for _ in 0..UNDO_CHECKS_MAX {
            let found = self.find(id).await?;
            let execution = self.fold(found.stream).await?;
            let steps = select_steps(&execution, selection)?;
            if undo_digest(&self.brief_of(&execution, steps.as_deref()).await?) != calls {
                break;
            }
            let steps = steps.map(|steps| steps.iter().map(ToString::to_string).collect());
            let command = Command::Undo { reason: reason.clone(), steps, approves };
            match self.command_as_of(caller, found.stream, command, Some(execution.position)).await {
                // Something was appended since the calls were looked at: they may have changed by it.
                Err(Error::Refused(Refusal::StaleQuestion)) => {}
                result => return result.map(|progress| (found, progress)),
            }
        }
        Err(Refusal::StaleQuestion.into())
    }

    /// Approves a step or, if `step` is `None`, the plan or a proposed undo. Refused if the caller may not
    /// approve.
    pub async fn approve(
        self,
        caller: &Caller,
        id: &str,
        step: Option<String>,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        self.require_approver(caller, id).await?;
        self.find_and_command(
            caller,
            id,
            Command::Approve { step, reason, replies_to: None, scope: ApprovalScope::Once },
        )
        .await
    }

    /// Approves a call of a session, and later ones of its tool as long as the session gets no further label. Refused
    /// if the caller may not approve.
    pub async fn approve_for_session(
        self,
        caller: &Caller,
        id: &str,
        step: Option<String>,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        self.require_approver(caller, id).await?;
        let scope = ApprovalScope::Session;
        self.find_and_command(caller, id, Command::Approve { step, reason, replies_to: None, scope }).await
    }

    /// Takes a label off a session.
    pub async fn clear_label(
        self,
        caller: &Caller,
        id: &str,
        label: String,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        self.require_approver(caller, id).await?;
        let command = SessionCommand::ClearLabel { label, reason };
        self.find_and_command(caller, id, Command::Session(command)).await
    }

    /// Rejects a step or, if `step` is `None`, the plan or a proposed undo. Refused if the caller may not
    /// approve.
    pub async fn reject(
        self,
        caller: &Caller,
        id: &str,
        step: Option<String>,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        self.require_approver(caller, id).await?;
        self.find_and_command(caller, id, Command::Reject { step, reason, replies_to: None }).await
    }

    /// Answers the question of a step that failed, is unknown or asks for input. `output`: with `retry` the
    /// reply to the tool's question, with other answers the step's output.
    pub async fn decide(
        self,
        caller: &Caller,
        id: &str,
        step: String,
        answer: StepAnswer,
        reason: Option<String>,
        output: Option<Value>,
    ) -> ExecutionCommandResult {
        let approves = self.prepare_decision(caller, id, &step, answer).await?;
        let (output, replies_to) = match output {
            Some(reply) if answer == StepAnswer::Retry => {
                self.complete_reply(caller, id, &step, reply).await?
            }
            output => (output, None),
        };
        let arguments = None;
        let command = Command::Decide { step, answer, reason, output, arguments, approves, replies_to };
        self.find_and_command(caller, id, command).await
    }

    /// Before a decision: moves the pin of a step that is retried to the accepted definition. Returns whether
    /// the caller may approve.
    async fn prepare_decision(
        self,
        caller: &Caller,
        id: &str,
        step: &str,
        answer: StepAnswer,
    ) -> Result<bool, Error> {
        if answer == StepAnswer::Retry {
            let execution = self.load(id).await?;
            let no = execution.plan.find_step(step);
            if no.is_some_and(|no| execution.session.is_some() && execution.asks_to_undo_changed(no)) {
                // The answer lets an undo replace what somebody else has written since.
                self.require_approver(caller, id).await?;
            }
            self.0.catalog().move_pin_to_accepted(caller, id, step).await?;
        }
        self.is_approver(caller, id).await
    }

    /// The reply as the step's tool expects it, and the question that it was completed for. As given where no
    /// tool asks, which the engine refuses, and in a repeated request, whose question has been answered since.
    pub(super) async fn complete_reply(
        self,
        caller: &Caller,
        id: &str,
        step: &str,
        reply: Value,
    ) -> Result<(Option<Value>, Option<Position>), Error> {
        if self.0.previous_result(caller).await?.is_some() {
            return Ok((Some(reply), None));
        }
        let execution = self.load(id).await?;
        let no = execution.plan.find_step(step);
        let no = no.filter(|no| allowed_answers(&execution, *no).contains(&StepAnswer::Retry));
        let asked = no.and_then(|no| execution.step(no).open_question());
        let Some(PayloadRef { position, .. }) = asked else { return Ok((Some(reply), None)) };
        let mut values = LoadedPayloads::default();
        self.load_values(vec![position], &mut values).await?;
        let question = values.0.get(&position).map(|value| AskedInput::parse(value));
        let completed = question.unwrap_or_default().complete_reply(&reply)?;
        Ok((Some(completed), execution.asked_at(no)))
    }

    /// Answers a question as it was shown to a person. Err `stale_question`: it was answered or replaced since.
    pub async fn answer_question(
        self,
        caller: &Caller,
        shown: &PersonQuestion,
        option: AnswerOption,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        let (id, replies_to) = (shown.execution.as_str(), shown.waiting.asked_at);
        let step = shown.waiting.step.as_ref().map(ToString::to_string);
        let command = match option {
            AnswerOption::Report(status) => {
                return self.report_as_shown(caller, shown, status, None, reason).await;
            }
            AnswerOption::Approve => {
                self.require_approver(caller, id).await?;
                Command::Approve { step, reason, replies_to, scope: ApprovalScope::Once }
            }
            AnswerOption::Reject => {
                self.require_approver(caller, id).await?;
                Command::Reject { step, reason, replies_to }
            }
            AnswerOption::Decide(answer) => {
                let step = step.unwrap_or_default();
                let approves = self.prepare_decision(caller, id, &step, answer).await?;
                let (output, arguments) = (None, None);
                Command::Decide { step, answer, reason, output, arguments, approves, replies_to }
            }
        };
        self.find_and_command(caller, id, command).await
    }

    /// Reports on the agent's step of a question. Err `stale_question`: other work on the step is awaited by now.
    pub async fn report_as_shown(
        self,
        caller: &Caller,
        shown: &PersonQuestion,
        status: ReportedStatus,
        output: Option<Value>,
        reason: Option<String>,
    ) -> ExecutionCommandResult {
        let action = ActionRecord {
            step: shown.waiting.step.as_ref().map(ToString::to_string),
            status: Some(status),
            output,
            facts: ActionFacts { reason, ..ActionFacts::default() },
            replies_to: shown.waiting.awaited_since,
            ..ActionRecord::default()
        };
        self.record_in_execution(caller, shown.execution.as_str(), action).await
    }

    /// Retries a failed call with these arguments instead of those that the plan binds. The arguments are
    /// checked against the tool's schema first, so that no decision is journaled whose call could not be
    /// sent. A repeated request is not checked: its step has moved on since.
    pub async fn retry_with(
        self,
        caller: &Caller,
        id: &str,
        step: String,
        answer: StepAnswer,
        reason: Option<String>,
        arguments: Value,
    ) -> ExecutionCommandResult {
        if self.0.previous_result(caller).await?.is_none() {
            self.require_fitting_arguments(id, &step, answer, &arguments).await?;
            self.0.catalog().move_pin_to_accepted(caller, id, &step).await?;
        }
        let approves = self.is_approver(caller, id).await?;
        let (output, arguments, replies_to) = (None, Some(arguments), None);
        let command = Command::Decide { step, answer, reason, output, arguments, approves, replies_to };
        self.find_and_command(caller, id, command).await
    }

    /// Refuses corrected arguments that do not fit the step's state or that the tool's schema rejects; the
    /// schema is not checked if the tool cannot be described now.
    pub(super) async fn require_fitting_arguments(
        self,
        id: &str,
        step: &str,
        answer: StepAnswer,
        arguments: &Value,
    ) -> Result<(), Error> {
        let execution = self.load(id).await?;
        let arguments = check_corrected_answer(&execution, step, answer, arguments)?;
        let plan = &execution.plan;
        let tool = plan.find_step(step).and_then(|no| plan.step(no).tool().map(str::to_owned));
        let Some(tool) = tool else { return Ok(()) };
        let described = self.0.tools.describe(&tool).await;
        let Ok(info) = described else { return Ok(()) };
        info.check_arguments(&arguments).map_err(|why| Error::InvalidArguments { tool, why })
    }
}
