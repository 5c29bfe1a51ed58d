//! One execution with all that a person needs to understand and answer it: its view, its plan, its questions,
//! who started it and whether a process drives it; and the inbox, the questions of all executions.

use std::sync::Arc;

use actbook_engine::plan::Plan;

use super::executions::Executions;
use super::question::{PersonQuestion, QuestionMedium};
use super::view::{ExecutionView, QuestionKind};
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
}

/// A question that waits for a person, and the execution that asks it.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    pub execution: Arc<InspectedExecution>,
    pub question: PersonQuestion,
}

impl Executions<'_> {
    /// An execution by its id or a unique prefix of it.
    pub async fn inspect(self, id: &str) -> Result<InspectedExecution, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        let medium = QuestionMedium::Terminal;
        let (view, questions) = self.questions_of(found.stream, &execution, None, medium).await?;
        Ok(InspectedExecution {
            plan: execution.plan.clone(),
            started_by: self.starter(found.stream.0).await?,
            is_orphaned: view.needs_driver() && self.driver(&found).await?.is_none(),
            view,
            questions,
        })
    }

    /// Every question that waits for a person, oldest first.
    pub async fn open_questions(self) -> Result<Vec<OpenQuestion>, Error> {
        let mut found = Vec::new();
        for id in self.open_ids().await? {
            let inspected = Arc::new(self.inspect(&id).await?);
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
