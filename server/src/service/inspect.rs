//! One execution with all that a person needs to understand and answer it: its view, its plan, its questions,
//! who started it and whether a process drives it; and the inbox, the questions of all executions.

use std::sync::Arc;

use actbook_engine::execution::Execution;
use actbook_engine::id::StreamId;
use actbook_engine::plan::Plan;

use super::executions::{Executions, FoundExecution};
use super::question::{PersonQuestion, QuestionMedium};
use super::view::{ExecutionView, QuestionKind, StepProgress, needs_driver};
use crate::error::Error;
use crate::store::executions;

/// Questions that are shown at most: the oldest ones.
const OPEN_QUESTIONS_MAX: u64 = 500;

/// One execution as a person reads it.
#[derive(Clone, Debug)]
pub struct InspectedExecution {
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

impl Executions<'_> {
    /// An execution by its id or a unique prefix of it.
    pub async fn inspect(self, id: &str) -> Result<Arc<InspectedExecution>, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        let is_orphaned = self.is_orphaned(&found, &execution).await?;
        // What is kept is whole, so it is not for callers from whom values are withheld.
        let may_keep = !self.0.withholds();
        if may_keep && let Some(kept) = self.0.folds.inspected(found.stream, &execution) {
            return self.refresh(kept, found.stream, &execution, is_orphaned).await;
        }
        let medium = QuestionMedium::Terminal;
        let (view, questions) = self.questions_of(found.stream, &execution, None, medium).await?;
        let (plan, started_by) = (execution.plan.clone(), self.starter(found.stream.0).await?);
        let can_undo = execution.can_undo() && !execution.erased;
        let inspected =
            Arc::new(InspectedExecution { view, plan, questions, started_by, is_orphaned, can_undo });
        if may_keep {
            self.0.folds.put_inspected(found.stream, &execution, &inspected);
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

    /// Every question that waits for a person, oldest first.
    pub async fn open_questions(self) -> Result<Vec<OpenQuestion>, Error> {
        let mut found = Vec::new();
        for id in self.open_ids().await? {
            let inspected = self.inspect(&id).await?;
            let asked = inspected.questions.iter().filter(|one| one.waiting.kind != QuestionKind::Agent);
            let questions =
                asked.cloned().map(|question| OpenQuestion { execution: inspected.clone(), question });
            found.extend(questions);
        }
        found.sort_by_key(|one: &OpenQuestion| one.question.waiting.asked_at);
        Ok(found)
    }

    /// Ids of the executions with a question, that with the oldest first.
    async fn open_ids(self) -> Result<Vec<String>, Error> {
        self.0.projector.catch_up().await?;
        let mut streams: Vec<u64> = Vec::new();
        for question in self.question_rows((i64::MIN, 0), OPEN_QUESTIONS_MAX).await? {
            if !streams.contains(&question.stream.0) {
                streams.push(question.stream.0);
            }
        }
        let rows = executions::by_ids(&self.0.db, self.0.tenant, &streams).await?;
        Ok(rows.into_iter().map(|row| row.public_id).collect())
    }
}
