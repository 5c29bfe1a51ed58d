//! One command to many executions: to all that match a filter, some hundred a call. A list of them is frozen at the
//! position of the first call: later starts are left alone, and a cursor leads from call to call.
//!
//! A yes to an approval, `happened` and an undo are decisions about one execution each, and are no bulk commands.

use std::str::FromStr;

use actbook_engine::execution::{QuestionSubject, questions};
use actbook_engine::id::{Position, StepId, StreamId};
use actbook_engine::policy::{ExecutionStatus, StepAnswer};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::answers::{AnswerChoice, GivenAnswer};
use super::executions::Executions;
use crate::caller::{Caller, Right};
use crate::error::Error;
use crate::store::execution_filter::{ExecutionFilter, Terms};
use crate::store::executions::ExecutionRow;

/// Most executions that one call acts on.
pub const BULK_EXECUTIONS_MAX: u64 = 500;
/// Executions that are commanded at the same time; the ledger appends what they cause in common batches.
const CONCURRENT_COMMANDS: usize = 16;
/// Executions that are read at a time to be counted.
const COUNTED_AT_A_TIME: u64 = 5_000;

/// What is done to each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    Pause,
    Resume,
    Cancel,
    /// Retries the steps that failed and wait for an answer; never one whose outcome is unknown.
    Retry,
}

/// A command, and the executions that get it.
#[derive(Clone, Debug)]
pub struct BulkCommand {
    pub action: BulkAction,
    pub filter: ExecutionFilter,
    /// Why; journaled with each command.
    pub reason: Option<String>,
}

/// What a call did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BulkResult {
    /// Executions that match: in a dry run all of them, else those that this call acted on.
    pub matched: u64,
    pub done: u64,
    pub refused: Vec<BulkRefusal>,
    /// The cursor of the next call. `None`: this was the last one.
    pub next_cursor: Option<String>,
}

/// An execution that refused the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BulkRefusal {
    pub execution: String,
    /// One word, for programs.
    pub code: String,
    pub message: String,
}

impl BulkAction {
    pub const ALL: [Self; 4] = [Self::Pause, Self::Resume, Self::Cancel, Self::Retry];

    /// The action's word, as requests give it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// The statuses of the executions that it can be done to.
    pub fn statuses(self) -> &'static [ExecutionStatus] {
        use ExecutionStatus::{Blocked, Compensating, Paused, Running};
        match self {
            Self::Pause => &[Running, Blocked, Compensating],
            Self::Resume => &[Paused],
            Self::Cancel => &[Running, Paused, Blocked],
            Self::Retry => &[Blocked],
        }
    }
}

impl FromStr for BulkAction {
    type Err = String;

    /// Err: the text is no bulk action; it names them.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|action| action.as_str() == text);
        let known = Self::ALL.map(Self::as_str).join(", ");
        found.ok_or_else(|| format!("`{text}` cannot be done to many executions at once; there are: {known}"))
    }
}

impl BulkCommand {
    /// The command for the executions that it can be done to, continued at `cursor` or else for those that were
    /// started up to `head`. Err: the cursor is of another command.
    fn continued_at(&self, cursor: Option<&str>, head: u64) -> Result<Self, Error> {
        let filter = match cursor {
            None => ExecutionFilter { before: Some(head.saturating_add(1)), ..self.filter.clone() },
            Some(cursor) => {
                let own = cursor.strip_prefix(self.action.as_str()).and_then(|rest| rest.strip_prefix('.'));
                let continued = own.and_then(|own| self.filter.continued_at(own).ok());
                continued.ok_or(Error::ForeignCursor)?
            }
        };
        Ok(Self { filter, ..self.clone() })
    }

    /// The cursor of the call that goes on after the execution of stream `last`.
    fn cursor_after(&self, last: u64) -> String {
        format!("{}.{}", self.action.as_str(), self.filter.cursor_after(last))
    }

    /// The filter limited to the statuses that the action fits. None: no execution can match it.
    fn fitting_filter(&self) -> Option<ExecutionFilter> {
        let Terms { any_of, none_of } = &self.filter.status;
        let is_wanted = |status: &&ExecutionStatus| {
            (any_of.is_empty() || any_of.contains(status)) && !none_of.contains(status)
        };
        let any_of: Vec<ExecutionStatus> = self.action.statuses().iter().filter(is_wanted).copied().collect();
        let status = Terms { any_of, none_of: Vec::new() };
        (!status.any_of.is_empty()).then(|| ExecutionFilter { status, ..self.filter.clone() })
    }
}

/// A failed step that waits for an answer, and the entry that asks.
#[derive(Clone, Debug)]
struct FailedStep {
    id: StepId,
    asked_at: Option<Position>,
}

impl Executions<'_> {
    /// Counts the executions that a bulk command would act on. `next_cursor` begins the command with exactly those.
    pub async fn count_bulk(
        self,
        caller: &Caller,
        command: &BulkCommand,
        cursor: Option<&str>,
    ) -> Result<BulkResult, Error> {
        self.0.require(caller, Right::Operate)?;
        let command = command.continued_at(cursor, self.0.journal().head().await?.0)?;
        let (mut matched, mut rest) = (0, command.clone());
        loop {
            let rows = rest.rows(self, COUNTED_AT_A_TIME).await?;
            matched += self.count_fitting(command.action, &rows).await?;
            let Some(last) = rows.last().filter(|_| rows.len() as u64 == COUNTED_AT_A_TIME) else { break };
            rest.filter.before = Some(last.id.0);
        }
        let next_cursor = command.filter.before.map(|before| command.cursor_after(before));
        Ok(BulkResult { matched, done: 0, refused: Vec::new(), next_cursor })
    }

    /// Gives a command to at most `limit` of the executions that match. `cursor`: the `next_cursor` of the call
    /// before. A repeated request gets the first result, and nothing is done again.
    pub async fn command_bulk(
        self,
        caller: &Caller,
        command: &BulkCommand,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<BulkResult, Error> {
        self.0.require(caller, Right::Operate)?;
        let perform = async {
            let command = command.continued_at(cursor, self.0.journal().head().await?.0)?;
            self.command_page(caller, &command, limit.min(BULK_EXECUTIONS_MAX)).await
        };
        self.0.perform_once(caller, perform).await
    }

    /// Gives the command to the next `limit` executions.
    async fn command_page(
        self,
        caller: &Caller,
        command: &BulkCommand,
        limit: u64,
    ) -> Result<BulkResult, Error> {
        let rows = command.rows(self, limit).await?;
        let last = rows.last().filter(|_| rows.len() as u64 == limit).map(|row| row.id.0);
        let outcomes = stream::iter(rows).map(|row| self.command_row(caller, command, row));
        let outcomes: Vec<RowOutcome> = outcomes.buffered(CONCURRENT_COMMANDS).try_collect().await?;
        let (mut done, mut refused) = (0, Vec::new());
        for outcome in outcomes {
            match outcome {
                RowOutcome::Done => done += 1,
                RowOutcome::Refused(refusal) => refused.push(refusal),
                RowOutcome::DoesNotMatch => {}
            }
        }
        let matched = done + refused.len() as u64;
        Ok(BulkResult { matched, done, refused, next_cursor: last.map(|last| command.cursor_after(last)) })
    }

    /// Gives the command to one execution and lets it continue. Err: the environment failed, so that further
    /// executions would not fare better.
    async fn command_row(
        self,
        caller: &Caller,
        command: &BulkCommand,
        row: ExecutionRow,
    ) -> Result<RowOutcome, Error> {
        // With a key of its own a command is not given twice, even if this process ends before the result is stored.
        let key = caller.key.as_ref().map(|key| key.for_part(row.id.0 as usize));
        let caller = caller.clone().with_key(key);
        let outcome = match self.command_one(&caller, command, &row).await {
            Ok(true) => RowOutcome::Done,
            Ok(false) => return Ok(RowOutcome::DoesNotMatch),
            Err(error @ (Error::Store(_) | Error::Closed(_) | Error::Corrupt(_) | Error::Bug(_))) => {
                return Err(error);
            }
            Err(error) => RowOutcome::Refused(BulkRefusal {
                execution: row.public_id.clone(),
                code: error.code().to_owned(),
                message: error.to_string(),
            }),
        };
        match self.0.background().continue_execution(row.id).await {
            Ok(_) => Ok(outcome),
            // A process with the execution's toolset continues it; the command is journaled either way.
            Err(error) if error.is_other_toolset() => Ok(outcome),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the command to one execution. False: it has nothing that the command could be about.
    async fn command_one(
        self,
        caller: &Caller,
        command: &BulkCommand,
        row: &ExecutionRow,
    ) -> Result<bool, Error> {
        let (id, reason) = (row.public_id.as_str(), command.reason.clone());
        match command.action {
            BulkAction::Pause => self.pause(caller, id, reason).await.map(|_| true),
            BulkAction::Resume => self.resume_with_reason(caller, id, reason).await.map(|_| true),
            BulkAction::Cancel => self.cancel(caller, id, reason).await.map(|_| true),
            BulkAction::Retry => self.retry_failed(caller, row, reason).await,
        }
    }

    /// Retries the failed steps of an execution. False: none waits for an answer. Refused if one of them is.
    async fn retry_failed(
        self,
        caller: &Caller,
        row: &ExecutionRow,
        reason: Option<String>,
    ) -> Result<bool, Error> {
        let steps = self.failed_steps(row.id).await?;
        for (number, step) in steps.iter().enumerate() {
            let key = caller.key.as_ref().map(|key| key.for_part(number));
            let choice = AnswerChoice::Decide { answer: StepAnswer::Retry, output: None, arguments: None };
            let question = step.asked_at.map(|asked_at| asked_at.0);
            let (step, reason) = (Some(step.id.to_string()), reason.clone());
            let given = GivenAnswer { step, choice, reason, question };
            self.answer(&caller.clone().with_key(key), &row.public_id, given).await?;
        }
        Ok(!steps.is_empty())
    }

    /// The steps of an execution that failed and can be retried.
    async fn failed_steps(self, stream: StreamId) -> Result<Vec<FailedStep>, Error> {
        let execution = self.fold(stream).await?;
        let failed = questions(&execution).into_iter().filter(|question| {
            question.subject == QuestionSubject::Failure && question.answers.contains(&StepAnswer::Retry)
        });
        let step = |question: actbook_engine::execution::Question| {
            let (id, asked_at) = (execution.step_id(question.step?), question.asked_at);
            Some(FailedStep { id, asked_at })
        };
        Ok(failed.filter_map(step).collect())
    }

    /// How many of the rows the action is about.
    async fn count_fitting(self, action: BulkAction, rows: &[ExecutionRow]) -> Result<u64, Error> {
        if action != BulkAction::Retry {
            return Ok(rows.len() as u64);
        }
        let mut fitting = 0;
        for row in rows {
            fitting += u64::from(!self.failed_steps(row.id).await?.is_empty());
        }
        Ok(fitting)
    }
}

impl BulkCommand {
    /// The rows of the next `limit` executions that the filter and the action's statuses select.
    async fn rows(&self, executions: Executions<'_>, limit: u64) -> Result<Vec<ExecutionRow>, Error> {
        match self.fitting_filter() {
            Some(filter) => Ok(executions.rows(&filter, limit).await?.0),
            None => Ok(Vec::new()),
        }
    }
}

/// What became of the command to one execution.
#[derive(Debug)]
enum RowOutcome {
    Done,
    Refused(BulkRefusal),
    /// It matches the filter, and has nothing that the command could be about.
    DoesNotMatch,
}
