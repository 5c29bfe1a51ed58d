//! Statistics of tool calls from the journal: how many, with which outcome, how long they took. Calls by hand
//! (`ToolCatalog::call`) belong to no execution and are not counted.

use std::collections::BTreeMap;

use actbook_engine::policy::{ErrorCategory, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::figures::DurationPercentiles;
use super::journal::Journal;
use super::view::format_time;
use crate::error::Error;
use crate::ledger;
use crate::store::figures::{self, StatsRowFilter};
use crate::store::payloads;

/// Statistics of the calls of one tool, or of all tools of a server.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCallStats {
    pub calls: u64,
    pub succeeded: u64,
    /// By category; `none` if the journal states no category. The same for `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, u64>,
    /// Of calls that were sent and whose end was observed.
    #[serde(flatten)]
    pub took: DurationPercentiles,
    pub last_error: Option<LastError>,
}

/// The newest call that failed or is unknown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastError {
    pub at: String,
    pub outcome: Outcome,
    pub category: Option<ErrorCategory>,
    /// The tool's error message. `None`: there was none, or `cleanup` erased it.
    pub message: Option<String>,
    #[serde(skip)]
    at_ms: i64,
}

/// Call statistics of each server and each tool, by name; those that were never called are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCallStatsByName {
    pub servers: BTreeMap<String, ToolCallStats>,
    pub tools: BTreeMap<String, ToolCallStats>,
}

/// Stands for a missing category.
const NO_CATEGORY: &str = "none";

impl Journal<'_> {
    /// Statistics of this project's calls since a time, in milliseconds since 1970 (`None`: from the
    /// beginning), up to the journal's head: another project's server of the same name is another server.
    pub async fn tool_call_stats(self, since_ms: Option<i64>) -> Result<ToolCallStatsByName, Error> {
        ledger::catch_up_call_stats(&self.0.db, self.0.tenant, &self.0.plan_cache).await?;
        let within = Some(self.0.project().to_owned());
        self.read_tool_call_stats(&StatsRowFilter { since: since_ms, within, ..StatsRowFilter::default() })
            .await
    }

    /// Reads the statistics from the projections as they are, without bringing them up to date.
    pub(super) async fn read_tool_call_stats(
        self,
        filter: &StatsRowFilter,
    ) -> Result<ToolCallStatsByName, Error> {
        let mut stats = ToolCallStatsByName::default();
        for count in figures::call_counts(self.0.tenant, filter).all(&self.0.db).await? {
            stats.servers.entry(count.server.clone()).or_default().add_calls(&count);
            stats.tools.entry(count.tool.clone()).or_default().add_calls(&count);
        }
        let tools = figures::percentiles_of_tools(self.0.tenant, filter).all(&self.0.db).await?;
        let servers = figures::percentiles_of_servers(self.0.tenant, filter).all(&self.0.db).await?;
        for (by_name, rows) in [(&mut stats.tools, tools), (&mut stats.servers, servers)] {
            for row in rows {
                by_name.entry(row.group.clone()).or_default().took = DurationPercentiles::of(&row);
            }
        }
        self.add_last_errors(filter, &mut stats).await?;
        Ok(stats)
    }

    /// Adds the last error of each tool and each server.
    async fn add_last_errors(
        self,
        filter: &StatsRowFilter,
        stats: &mut ToolCallStatsByName,
    ) -> Result<(), Error> {
        for found in figures::last_errors(self.0.tenant, filter).all(&self.0.db).await? {
            let error = LastError {
                at: format_time(found.started_at),
                at_ms: found.started_at,
                outcome: found.outcome,
                category: found.category,
                message: self.error_message_at(found.error_position).await?,
            };
            let server = found.tool.split_once('/').map_or(found.tool.as_str(), |(server, _)| server);
            stats.servers.entry(server.to_owned()).or_default().keep_last_error(&error);
            stats.tools.entry(found.tool).or_default().keep_last_error(&error);
        }
        Ok(())
    }

    /// The error message in the payload at a position. `None`: no position, no message, or erased.
    async fn error_message_at(self, position: Option<u64>) -> Result<Option<String>, Error> {
        let Some(position) = position else { return Ok(None) };
        let payload = payloads::by_position(self.0.tenant, position).first(&self.0.db).await?;
        let result: Option<Value> = payload.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        Ok(result.and_then(|result| Some(result.get("message")?.as_str()?.to_owned())))
    }
}

impl ToolCallStats {
    /// Adds the calls of one row.
    fn add_calls(&mut self, count: &figures::CallCount) {
        let category = count.category.map_or(NO_CATEGORY, ErrorCategory::as_str).to_owned();
        self.calls += count.calls;
        match count.outcome {
            Outcome::Succeeded => self.succeeded += count.calls,
            Outcome::Failed => *self.failed.entry(category).or_default() += count.calls,
            Outcome::Unknown => *self.unknown.entry(category).or_default() += count.calls,
        }
    }

    /// Keeps `error` as the last error if it is newer than the known one.
    fn keep_last_error(&mut self, error: &LastError) {
        if self.last_error.as_ref().is_none_or(|known| known.at_ms < error.at_ms) {
            self.last_error = Some(error.clone());
        }
    }
}
