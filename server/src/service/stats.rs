//! Statistics of tool calls from the journal: how many, with which outcome, how long they took. Calls by hand
//! (`ToolCatalog::call`) belong to no execution and are not counted.

use std::collections::BTreeMap;

use actbook_engine::policy::{ErrorCategory, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::count_range::{CountRange, PeriodCount};
use super::figures::DurationPercentiles;
use super::journal::Journal;
use super::view::format_time;
use crate::error::{Corruption, Error};
use crate::store::counts::{Count, CountKey, CountKind, Top};
use crate::store::figures::StatsFilter;
use crate::store::{Histogram, payloads};

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
        self.0.projector.catch_up().await?;
        let project = Some(self.0.project().to_owned());
        let filter = StatsFilter { since: since_ms, project, ..StatsFilter::default() };
        self.read_tool_call_stats(&CountRange::open(self.0, &filter).await?).await
    }

    /// The statistics of calls in a range.
    pub(super) async fn read_tool_call_stats(
        self,
        counts: &CountRange<'_>,
    ) -> Result<ToolCallStatsByName, Error> {
        let (mut tools, mut servers) = (BTreeMap::new(), BTreeMap::new());
        for PeriodCount { key, count, .. } in counts.read(CountKind::Call, false).await? {
            let server = key.name.split_once('/').map_or(key.name.as_str(), |(server, _)| server).to_owned();
            for (by_name, name) in [(&mut servers, server), (&mut tools, key.name.clone())] {
                let counts: &mut ToolCallCounts = by_name.entry(name).or_default();
                counts.add(&key, &count)?;
            }
        }
        let mut stats = ToolCallStatsByName::default();
        for (counts, by_name) in [(tools, &mut stats.tools), (servers, &mut stats.servers)] {
            for (name, counts) in counts {
                by_name.insert(name, self.complete_stats(counts).await?);
            }
        }
        Ok(stats)
    }

    /// The statistics of counted calls, with their percentiles and their last error.
    async fn complete_stats(self, counts: ToolCallCounts) -> Result<ToolCallStats, Error> {
        let ToolCallCounts { mut stats, durations, last_error } = counts;
        stats.took = DurationPercentiles::of(&durations);
        if let Some((Top { value, at }, outcome, category)) = last_error {
            let message = self.error_message_at(at).await?;
            stats.last_error = Some(LastError { at: format_time(value), outcome, category, message });
        }
        Ok(stats)
    }

    /// The error message in the payload at a position. `None`: no position, no message, erased, or withheld.
    pub(super) async fn error_message_at(self, position: Option<u64>) -> Result<Option<String>, Error> {
        let Some(position) = position.filter(|_| !self.0.withholds()) else { return Ok(None) };
        let payload = payloads::by_position(self.0.tenant, position).first(&self.0.db).await?;
        let result: Option<Value> = payload.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        Ok(result.and_then(|result| Some(result.get("message")?.as_str()?.to_owned())))
    }
}

/// The calls of a tool or a server while they are counted.
#[derive(Debug, Default)]
struct ToolCallCounts {
    stats: ToolCallStats,
    durations: Histogram,
    last_error: Option<(Top, Outcome, Option<ErrorCategory>)>,
}

impl ToolCallCounts {
    /// Adds the calls of one row.
    fn add(&mut self, key: &CountKey, count: &Count) -> Result<(), Error> {
        let corrupt = |error: String| Error::Corrupt(Corruption::Row(error));
        let outcome: Outcome = key.outcome.parse().map_err(corrupt)?;
        let category: Option<ErrorCategory> = Some(&key.category)
            .filter(|word| !word.is_empty())
            .map(|word| word.parse())
            .transpose()
            .map_err(corrupt)?;
        let calls = count.n.max(0) as u64;
        let word = category.map_or(NO_CATEGORY, ErrorCategory::as_str).to_owned();
        self.stats.calls += calls;
        match outcome {
            Outcome::Succeeded => self.stats.succeeded += calls,
            Outcome::Failed => *self.stats.failed.entry(word).or_default() += calls,
            Outcome::Unknown => *self.stats.unknown.entry(word).or_default() += calls,
        }
        self.durations.merge(&count.durations, 1);
        let known = self.last_error.map(|(top, ..)| top.value);
        if let Some(top) = count.top.filter(|top| known.is_none_or(|known| known < top.value)) {
            self.last_error = Some((top, outcome, category));
        }
        Ok(())
    }
}
