//! Everything that waits for a person, over all executions, the oldest first, in pages.

use actbook_engine::id::StepId;
use actbook_engine::policy::WaitKind;

use super::executions::Executions;
use super::question::{PersonQuestion, QuestionMedium};
use super::view::{ExecutionSummary, QuestionKind, format_time};
use crate::error::Error;
use crate::store::executions;
use crate::store::stream_rows::{self, WaitRow};

/// One page of questions.
#[derive(Clone, Debug)]
pub struct QuestionPage {
    pub items: Vec<WaitingQuestion>,
    /// `None`: this is the last page.
    pub next_cursor: Option<String>,
    /// How many entries of the journal are not in the list yet.
    pub behind: u64,
}

/// A question that waits for a person.
#[derive(Clone, Debug)]
pub struct WaitingQuestion {
    pub asked_at: String,
    /// The entry that asked.
    pub position: u64,
    pub execution: ExecutionSummary,
    /// The actor who started the execution.
    pub started_by: Option<String>,
    /// The question with the text that a person needs to answer it.
    pub question: PersonQuestion,
}

impl Executions<'_> {
    /// Questions that wait for a person, the oldest first. `cursor`: the `next_cursor` of the page before.
    pub async fn questions(self, cursor: Option<&str>, limit: u64) -> Result<QuestionPage, Error> {
        let behind = self.0.projector.catch_up().await?;
        let (rows, next_cursor) = self.question_row_page(cursor, limit).await?;
        let mut items = Vec::new();
        for row in &rows {
            items.extend(self.waiting_question(row).await?);
        }
        Ok(QuestionPage { items, next_cursor, behind })
    }

    /// How many questions wait for a person, counted up to `limit`.
    pub async fn count_questions(self, limit: u64) -> Result<u64, Error> {
        self.0.projector.catch_up().await?;
        let select = stream_rows::count_open_questions(self.0.tenant, self.0.boundary(), limit);
        Ok(select.first(&self.0.db).await?.unwrap_or(0))
    }

    /// At most `limit` rows of questions after a cursor, and the cursor after them.
    pub(super) async fn question_row_page(
        self,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<(Vec<WaitRow>, Option<String>), Error> {
        let after = match cursor {
            Some(cursor) => parse_cursor(cursor).ok_or(Error::ForeignCursor)?,
            None => (i64::MIN, 0),
        };
        let select =
            stream_rows::open_questions(self.0.tenant, self.0.boundary(), after, limit.saturating_add(1));
        let mut rows = select.all(&self.0.db).await?;
        let has_more = rows.len() as u64 > limit;
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let last = rows.last().filter(|_| has_more);
        let next = last.map(|last| format!("{}.{}", last.asked_at, last.position));
        Ok((rows, next))
    }

    /// The question that a row stands for. `None`: it was answered since.
    async fn waiting_question(self, row: &WaitRow) -> Result<Option<WaitingQuestion>, Error> {
        let found = executions::by_id(self.0.tenant, row.stream).first(&self.0.db).await?;
        let Some(execution) = found else { return Ok(None) };
        let (_, questions) =
            self.person_questions(&execution.public_id, None, QuestionMedium::Terminal).await?;
        let Some(question) = questions.into_iter().find(|question| is_question_of(row, question)) else {
            return Ok(None);
        };
        let mut summaries = self.summaries(std::slice::from_ref(&execution)).await?;
        let Some(execution) = summaries.pop() else { return Ok(None) };
        let (asked_at, position) = (format_time(row.asked_at), row.position);
        let started_by = self.starter(row.stream.0).await?;
        Ok(Some(WaitingQuestion { asked_at, position, execution, started_by, question }))
    }
}

/// Whether a row stands for this question of its execution.
pub(super) fn is_question_of(row: &WaitRow, question: &PersonQuestion) -> bool {
    let kind = match row.kind {
        WaitKind::Approval => QuestionKind::Approval,
        WaitKind::Decision => QuestionKind::Decision,
    };
    question.waiting.kind == kind && question.waiting.step.as_ref().map(StepId::as_str) == row.step.as_deref()
}

/// Time and position in a cursor. `None`: it is not a cursor of this list.
fn parse_cursor(cursor: &str) -> Option<(i64, u64)> {
    let (at, position) = cursor.split_once('.')?;
    Some((at.parse().ok()?, position.parse().ok()?))
}
