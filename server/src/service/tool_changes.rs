//! Tools whose definition is no longer the one that saved plans are pinned to, and that nobody has accepted since.

use std::collections::BTreeMap;

use actbook_engine::chain::Digest;
use actbook_engine::id::PlanId;
use serde::Serialize;
use serde_json::Value;

use super::tools::ToolCatalog;
use crate::error::Error;
use crate::store::tools as rows;
use crate::tools::{ServerTools, ToolInfo, summarize_changes};

/// A tool that has changed since plans were saved with it: these do not start until the change is accepted.
#[derive(Clone, Debug, Serialize)]
pub struct ToolChange {
    pub tool: String,
    /// The digest of the definition that its server gives now.
    pub digest: Digest,
    /// The definition that plans are pinned to. `None`: it was not stored here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Value>,
    pub current: Value,
    /// The differences in one line.
    pub summary: String,
    /// Names of the plans that are pinned to the former definition.
    pub plans: Vec<String>,
}

/// By tool: the digests that the newest versions of plans are pinned to, each with the plans' names.
type PinnedPlans = BTreeMap<String, BTreeMap<String, Vec<String>>>;

impl ToolCatalog<'_> {
    /// The changed tools of these servers.
    pub async fn changes(self, servers: &[ServerTools]) -> Result<Vec<ToolChange>, Error> {
        let pinned = self.pinned_plans().await?;
        let mut changes = Vec::new();
        for info in servers.iter().flat_map(|server| &server.tools) {
            let Some((digest, former)) = info.pin().zip(pinned.get(&info.name)) else { continue };
            let accepted = self.0.ledger.with_library(|library| library.accepted_definition(&info.name))?;
            if former.contains_key(&digest.to_string()) || accepted == Some(digest) {
                continue;
            }
            changes.push(self.change(info, digest, former).await?);
        }
        Ok(changes)
    }

    async fn change(
        self,
        info: &ToolInfo,
        digest: Digest,
        pinned: &BTreeMap<String, Vec<String>>,
    ) -> Result<ToolChange, Error> {
        let mut former = None;
        for pin in pinned.keys() {
            let row = rows::by_digest(self.0.tenant, pin).first(&self.0.db).await?;
            former = former.or(row.and_then(|row| serde_json::from_str(&row.definition).ok()));
        }
        let mut current = info.object.as_ref().clone();
        self.0.tools.redact(&mut current);
        let summary = former.as_ref().map_or_else(
            || "its former definition is not known here".to_owned(),
            |former| summarize_changes(&info.name, former, &current),
        );
        let plans = pinned.values().flatten().cloned().collect();
        Ok(ToolChange { tool: info.name.clone(), digest, former, current, summary, plans })
    }

    /// The pins of the newest version of every visible plan.
    async fn pinned_plans(self) -> Result<PinnedPlans, Error> {
        let plans = self.0.plans().list().await?;
        Ok(self.0.ledger.with_library(|library| {
            let mut pinned = PinnedPlans::new();
            for plan in plans {
                let pins = library.newest_pins(&PlanId::new(plan.id));
                for (tool, digest) in pins.into_iter().flatten() {
                    let by_digest = pinned.entry(tool.clone()).or_default();
                    by_digest.entry(digest.to_string()).or_default().push(plan.name.clone());
                }
            }
            pinned
        })?)
    }
}
