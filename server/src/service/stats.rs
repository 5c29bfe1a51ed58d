//! What was seen of the tools, from the journal: how often they were called, how it ended, how long it
//! took. Calls by hand belong to no execution and are not counted.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::view::time;
use crate::error::Error;
use crate::ledger;
use crate::store::figures::{self, Of};
use crate::store::payloads;

/// Figures of one tool, or of all tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    pub calls: u64,
    pub succeeded: u64,
    /// By category; what the journal gives none is under `none`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, u64>,
    /// Of calls that were sent and whose end was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastError {
    pub at: String,
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Gone where `cleanup` has erased it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip)]
    at_ms: i64,
}

/// By name; a tool or server that was never called is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolsSeen {
    pub servers: BTreeMap<String, Seen>,
    pub tools: BTreeMap<String, Seen>,
}

const UNSAID: &str = "none";

impl Service {
    /// Everything that was seen since a time, up to this moment.
    pub async fn tools_seen(&self, since_ms: Option<i64>) -> Result<ToolsSeen, Error> {
        ledger::catch_up_seen(&self.db, self.tenant, &self.plans).await?;
        let within = self.within();
        self.seen_of(&Of { since: since_ms, within, ..Of::default() }).await
    }

    /// As the rows have it.
    pub(super) async fn seen_of(&self, of: &Of) -> Result<ToolsSeen, Error> {
        let mut seen = ToolsSeen::default();
        for count in figures::tools(self.tenant, of).all(&self.db).await? {
            seen.servers.entry(count.server.clone()).or_default().add(&count);
            seen.tools.entry(count.tool.clone()).or_default().add(&count);
        }
        let tools = figures::percentiles_of_tools(self.tenant, of).all(&self.db).await?;
        let servers = figures::percentiles_of_servers(self.tenant, of).all(&self.db).await?;
        for (all, found) in [(&mut seen.tools, tools), (&mut seen.servers, servers)] {
            for one in found {
                all.entry(one.named.clone()).or_default().time(&one);
            }
        }
        self.last_errors(of, &mut seen).await?;
        Ok(seen)
    }

    async fn last_errors(&self, of: &Of, seen: &mut ToolsSeen) -> Result<(), Error> {
        for found in figures::last_errors(self.tenant, of).all(&self.db).await? {
            let error = LastError {
                at: time(found.started_at),
                at_ms: found.started_at,
                outcome: found.outcome,
                category: found.category,
                message: self.words_at(found.said).await?,
            };
            let server = found.tool.split_once('/').map_or(found.tool.as_str(), |(server, _)| server);
            seen.servers.entry(server.to_owned()).or_default().met(&error);
            seen.tools.entry(found.tool).or_default().met(&error);
        }
        Ok(())
    }

    async fn words_at(&self, position: Option<u64>) -> Result<Option<String>, Error> {
        let Some(position) = position else { return Ok(None) };
        let payload = payloads::at(self.tenant, position).first(&self.db).await?;
        let said: Option<Value> = payload.and_then(|payload| serde_json::from_slice(&payload.body).ok());
        Ok(said.and_then(|said| Some(said.get("message")?.as_str()?.to_owned())))
    }
}

impl Seen {
    fn add(&mut self, count: &figures::Count) {
        let category = count.category.as_deref().unwrap_or(UNSAID).to_owned();
        self.calls += count.calls;
        match count.outcome.as_str() {
            "succeeded" => self.succeeded += count.calls,
            "failed" => *self.failed.entry(category).or_default() += count.calls,
            _ => *self.unknown.entry(category).or_default() += count.calls,
        }
    }

    fn time(&mut self, found: &figures::Percentiles) {
        self.p50_ms = Some(found.p50_ms);
        self.p95_ms = Some(found.p95_ms);
        self.p99_ms = Some(found.p99_ms);
    }

    fn met(&mut self, error: &LastError) {
        if self.last_error.as_ref().is_none_or(|known| known.at_ms < error.at_ms) {
            self.last_error = Some(error.clone());
        }
    }
}
