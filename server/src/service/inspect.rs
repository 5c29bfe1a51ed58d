//! One execution with all that a person needs to understand and answer it: its view, its plan, its questions,
//! who started it and whether a process drives it; and the inbox, the questions of all executions.

use std::sync::Arc;

use actbook_engine::plan::Plan;
use actbook_engine::policy::ExecutionStatus;

use super::executions::Executions;
use super::question::{PersonQuestion, QuestionMedium};
use super::view::{ExecutionView, QuestionKind};
use crate::error::Error;
use crate::store::executions;

/// At most this many open executions of each status are looked through for questions.
const OPEN_EXECUTIONS_MAX: u64 = 200;

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
        let needs_driver = matches!(view.status, ExecutionStatus::Running | ExecutionStatus::Compensating);
        Ok(InspectedExecution {
            plan: execution.plan.clone(),
            started_by: self.starter(found.stream.0).await?,
            is_orphaned: needs_driver && self.driver(&found).await?.is_none(),
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

    /// Ids of the executions that may ask something: the open ones, and ended ones whose undo waits for a yes.
    async fn open_ids(self) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        for status in [
            ExecutionStatus::Blocked,
            ExecutionStatus::Paused,
            ExecutionStatus::Running,
            ExecutionStatus::Compensating,
        ] {
            let filter = executions::ExecutionRowFilter { status: Some(status), ..Default::default() };
            let open = executions::list(self.0.tenant, self.0.boundary(), &filter, OPEN_EXECUTIONS_MAX);
            ids.extend(open.all(&self.0.db).await?.into_iter().map(|row| row.public_id));
        }
        let all = executions::ExecutionRowFilter::default();
        let ended =
            executions::waiting_after_end(self.0.tenant, self.0.boundary(), &all, OPEN_EXECUTIONS_MAX);
        ids.extend(ended.all(&self.0.db).await?.into_iter().map(|row| row.public_id));
        Ok(ids)
    }
}
