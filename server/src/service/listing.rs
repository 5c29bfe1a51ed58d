//! Executions as a page of the dashboard lists them: with progress, what each asks for, its first error and
//! who started it; and the number of executions of each status.

use std::collections::BTreeMap;

use actbook_engine::execution::{Execution, LoadedPayloads, QuestionSubject, StepState, questions};
use actbook_engine::id::{Position, StepId, StepNo};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepStatus};
use serde_json::Value;

use super::executions::Executions;
use super::view::{ExecutionSummary, ProgressView};
use crate::error::Error;
use crate::store::execution_filter::ExecutionFilter;
use crate::store::{counts, journal};

/// At most this many steps under way are named.
const CURRENT_MAX: usize = 3;

/// A page of a list of executions.
#[derive(Clone, Debug)]
pub struct ExecutionPage {
    /// Newest first.
    pub rows: Vec<ListedExecution>,
    /// The cursor of the next page: `ExecutionFilter::before`. `None`: this is the last page.
    pub next: Option<u64>,
}

/// One execution of a list.
#[derive(Clone, Debug)]
pub struct ListedExecution {
    pub summary: ExecutionSummary,
    /// The actor that started it. `None`: its first entry is missing.
    pub started_by: Option<String>,
    pub progress: ProgressView,
    /// The first question that it asks.
    pub asks: Option<ListedQuestion>,
    /// The error of the first step that failed or is unknown.
    pub first_error: Option<ListedError>,
    /// Some of the steps that are under way.
    pub current: Vec<ListedStep>,
    /// How many attempts were made beyond the first of each step.
    pub retries: usize,
    /// Steps whose effect was undone.
    pub undone: usize,
}

/// A question in short: what it is about, and the step.
#[derive(Clone, Debug)]
pub struct ListedQuestion {
    pub subject: QuestionSubject,
    pub step: Option<ListedStep>,
}

/// A step in short.
#[derive(Clone, Debug)]
pub struct ListedStep {
    pub id: StepId,
    /// `None`: an agent or a person does it.
    pub tool: Option<String>,
}

/// A step's error in short.
#[derive(Clone, Debug)]
pub struct ListedError {
    pub step: StepId,
    /// `failed` or `unknown`.
    pub status: StepStatus,
    pub category: ErrorCategory,
    /// `None`: no reason was given, or it was erased.
    pub message: Option<String>,
}

impl Executions<'_> {
    pub async fn page(self, filter: &ExecutionFilter, limit: usize) -> Result<ExecutionPage, Error> {
        let mut summaries = self.list(filter, limit as u64 + 1).await?;
        let has_more = summaries.len() > limit;
        summaries.truncate(limit);
        let next = summaries.last().filter(|_| has_more).map(|last| last.stream.0);
        let mut rows = Vec::with_capacity(summaries.len());
        for summary in summaries {
            rows.push(self.listed(summary).await?);
        }
        Ok(ExecutionPage { rows, next })
    }

    /// Brings lists and figures up to date, if that is quick. Returns how many entries of the journal they lack, of
    /// which a page that shows them must tell.
    pub async fn behind(self) -> Result<u64, Error> {
        Ok(self.0.projector.catch_up().await?)
    }

    /// The number of visible executions of each status; a status that none has is left out.
    pub async fn count_by_status(self) -> Result<BTreeMap<ExecutionStatus, u64>, Error> {
        self.0.projector.catch_up().await?;
        let counts = counts::totals(self.0.tenant, self.0.boundary()).all(&self.0.db).await?;
        let known = |(status, count): (String, u64)| Some((status.parse().ok()?, count));
        Ok(counts.into_iter().filter_map(known).collect())
    }

    /// The actor of an execution's first entry.
    pub(super) async fn starter(self, stream: u64) -> Result<Option<String>, Error> {
        let first = journal::by_position(self.0.tenant, stream).first(&self.0.db).await?;
        Ok(first.map(|entry| entry.actor.to_string()))
    }

    async fn listed(self, summary: ExecutionSummary) -> Result<ListedExecution, Error> {
        let execution = self.fold(summary.stream).await?;
        let count = |wanted: &[StepStatus]| {
            execution.steps.iter().filter(|step| wanted.contains(&step.status())).count()
        };
        let done = count(&[StepStatus::Succeeded, StepStatus::Skipped]);
        let retries = execution.steps.iter().map(|step| step.attempts.len().saturating_sub(1)).sum();
        let asks = questions(&execution).first().map(|question| ListedQuestion {
            subject: question.subject,
            step: question.step.map(|no| listed_step(&execution, no)),
        });
        Ok(ListedExecution {
            started_by: self.starter(summary.stream.0).await?,
            progress: ProgressView { done, total: execution.steps.len() },
            asks,
            first_error: self.first_error(&execution).await?,
            current: current_steps(&execution),
            retries,
            undone: count(&[StepStatus::Compensated]),
            summary,
        })
    }

    /// The error of the first step that failed or is unknown, or was undone after it failed.
    async fn first_error(self, execution: &Execution) -> Result<Option<ListedError>, Error> {
        let is_bad = |no: &StepNo| {
            matches!(
                execution.step(*no).status(),
                StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed
            )
        };
        let Some(no) = execution.step_numbers().find(is_bad) else { return Ok(None) };
        let Some(error) = execution.step(no).error else { return Ok(None) };
        let message = match error.detail {
            Some(detail) => self.load_message(detail.position).await?,
            None => None,
        };
        let (step, status) = (execution.step_id(no), execution.step(no).status());
        Ok(Some(ListedError { step, status, category: error.category, message }))
    }

    /// The message of a stored error. `None`: it was erased, has none, or is withheld.
    async fn load_message(self, position: Position) -> Result<Option<String>, Error> {
        if self.0.withholds() {
            return Ok(None);
        }
        let mut values = LoadedPayloads::default();
        self.load_values(vec![position], &mut values).await?;
        let message = values.0.get(&position).and_then(|value| value.get("message"));
        Ok(message.and_then(Value::as_str).map(str::to_owned))
    }
}

/// Some of the steps that are running or being undone.
fn current_steps(execution: &Execution) -> Vec<ListedStep> {
    let is_current =
        |step: &StepState| matches!(step.status(), StepStatus::Running | StepStatus::Compensating);
    let numbers = execution.step_numbers().filter(|no| is_current(execution.step(*no)));
    numbers.take(CURRENT_MAX).map(|no| listed_step(execution, no)).collect()
}

fn listed_step(execution: &Execution, no: StepNo) -> ListedStep {
    ListedStep { id: execution.step_id(no), tool: execution.plan.step(no).tool().map(str::to_owned) }
}
