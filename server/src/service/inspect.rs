//! One execution with all that a person needs to understand and answer it: its view, its plan, its questions,
//! who started it and whether a process drives it; and the inbox, the questions of all executions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actbook_engine::execution::Execution;
use actbook_engine::id::StreamId;
use actbook_engine::plan::Plan;

use super::executions::{Executions, FoundExecution};
use super::question::{PersonQuestion, QuestionMedium};
use super::question_list::is_question_of;
use super::step_values::StepValues;
use super::view::{ExecutionView, StepProgress, needs_driver};
use crate::error::Error;
use crate::store::executions;
use crate::store::stream_rows::WaitRow;

/// One execution as a person reads it.
#[derive(Clone, Debug)]
pub struct InspectedExecution {
    /// Its steps have no values but the texts of errors, and those that questions are about; see
    /// `steps_with_values`.
    pub view: ExecutionView,
    pub plan: Arc<Plan>,
    /// In the order of `ExecutionView::waiting`.
    pub questions: Vec<PersonQuestion>,
    /// The actor that started it.
    pub started_by: Option<String>,
    /// It is running or compensating, and no live process drives it.
    pub is_orphaned: bool,
    /// A step that may have run can be undone: its compensation is known, and its payloads are not erased.
    pub can_undo: bool,
}

/// A question that waits for a person, and the execution that asks it.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    pub execution: Arc<InspectedExecution>,
    pub question: PersonQuestion,
}

/// A page of open questions.
#[derive(Clone, Debug)]
pub struct InboxPage {
    pub questions: Vec<OpenQuestion>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
}

impl Executions<'_> {
    /// An execution by its id or a unique prefix of it.
    pub async fn inspect(self, id: &str) -> Result<Arc<InspectedExecution>, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        self.inspect_fold(&found, &execution).await
    }

    /// Inspects an execution that was found and folded.
    pub(super) async fn inspect_fold(
        self,
        found: &FoundExecution,
        execution: &Arc<Execution>,
    ) -> Result<Arc<InspectedExecution>, Error> {
        let is_orphaned = self.is_orphaned(found, execution).await?;
        // What is kept is whole, so it is not for callers from whom values are withheld.
        let may_keep = !self.0.withholds();
        if may_keep && let Some(kept) = self.0.folds.inspected(found.stream, execution) {
            return self.refresh(kept, found.stream, execution, is_orphaned).await;
        }
        let medium = QuestionMedium::Terminal;
        let (view, questions) =
            self.questions_of(found.stream, execution, None, medium, StepValues::Asked).await?;
        let (plan, started_by) = (execution.plan.clone(), self.starter(found.stream.0).await?);
        let can_undo = execution.can_undo() && !execution.erased;
        let inspected =
            Arc::new(InspectedExecution { view, plan, questions, started_by, is_orphaned, can_undo });
        if may_keep {
            self.0.folds.put_inspected(found.stream, execution, &inspected);
        }
        Ok(inspected)
    }

    /// Whether an execution needs a driver and no live process is one.
    async fn is_orphaned(self, found: &FoundExecution, execution: &Execution) -> Result<bool, Error> {
        let needs_driver = needs_driver(execution.status(), execution.plan_ref.id.as_str());
        Ok(needs_driver && self.driver(found).await?.is_none())
    }

    /// The kept execution with what changes without an entry of its own: notes that block it, the progress of calls
    /// in flight, and whether it is driven.
    async fn refresh(
        self,
        mut kept: Arc<InspectedExecution>,
        stream: StreamId,
        execution: &Execution,
        is_orphaned: bool,
    ) -> Result<Arc<InspectedExecution>, Error> {
        let blockers = self.blockers(execution).await?;
        let progress: Vec<Option<StepProgress>> = execution
            .step_numbers()
            .map(|no| self.progress(stream, no, execution.step(no).status()))
            .collect();
        let view = &kept.view;
        let is_current = kept.is_orphaned == is_orphaned
            && blockers.is_empty()
            && view.blockers.is_empty()
            && view.steps.iter().map(|step| &step.progress).eq(&progress);
        if !is_current {
            let changed = Arc::make_mut(&mut kept);
            changed.is_orphaned = is_orphaned;
            changed.view.blockers = blockers;
            changed.view.steps.iter_mut().zip(progress).for_each(|(step, now)| step.progress = now);
        }
        Ok(kept)
    }

    /// A page of the questions that wait for a person, oldest first. `cursor`: the `next_cursor` of the page before.
    pub async fn inbox(self, cursor: Option<&str>, limit: u64) -> Result<InboxPage, Error> {
        self.0.projector.catch_up().await?;
        let (rows, next_cursor) = self.question_row_page(cursor, limit).await?;
        let streams: BTreeSet<u64> = rows.iter().map(|row| row.stream.0).collect();
        let streams: Vec<u64> = streams.into_iter().collect();
        let mut inspected = BTreeMap::new();
        for row in executions::by_ids(&self.0.db, self.0.tenant, &streams).await? {
            inspected.insert(row.id, self.inspect(&row.public_id).await?);
        }
        let open = |row: &WaitRow| {
            let execution = inspected.get(&row.stream)?.clone();
            let question = execution.questions.iter().find(|one| is_question_of(row, one))?.clone();
            Some(OpenQuestion { execution, question })
        };
        Ok(InboxPage { questions: rows.iter().filter_map(open).collect(), next_cursor })
    }
}
