//! Failures grouped by the fingerprint of their text.

use serde::Serialize;

use super::journal::Journal;
use super::quote;
use super::view::format_time;
use crate::error::Error;
use crate::store::executions;
use crate::store::figures::{self, StatsFilter};

/// Most characters of a group's text.
const TEXT_CHARS_MAX: usize = 600;

/// Calls of one tool that failed or are unknown, whose texts differ only in numbers, ids and quoted parts.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    /// Empty: the calls have no text, or `cleanup` erased it.
    pub fingerprint: String,
    pub tool: String,
    /// `None`: the journal states no category.
    pub category: Option<String>,
    pub calls: u64,
    pub first: String,
    pub last: String,
    /// The last one's text, on one line.
    pub message: Option<String>,
    /// Id of the newest execution with such a failure.
    pub execution: Option<String>,
}

impl Journal<'_> {
    /// Groups of similar failures, the most frequent first.
    pub async fn failures(self, filter: &StatsFilter, limit: u64) -> Result<Vec<FailureGroup>, Error> {
        self.0.projector.catch_up().await?;
        let (db, tenant) = (&self.0.db, self.0.tenant);
        let filter = self.within_boundary(filter);
        let mut groups = Vec::new();
        for row in figures::error_groups(tenant, &filter, limit).all(db).await? {
            let message = self.error_message_at(Some(row.position)).await?;
            let execution = executions::by_ids(db, tenant, &[row.stream]).await?.pop();
            groups.push(FailureGroup {
                fingerprint: row.fingerprint,
                tool: row.tool,
                category: Some(row.category).filter(|category| !category.is_empty()),
                calls: row.calls,
                first: format_time(row.first),
                last: format_time(row.last),
                message: message.map(|message| quote::line(&message, TEXT_CHARS_MAX)),
                execution: execution.map(|row| row.public_id),
            });
        }
        Ok(groups)
    }
}
