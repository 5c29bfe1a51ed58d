//! Finding saved plans by type, task and words, and loading one version of a plan.

use std::sync::Arc;

use actbook_engine::plan::Plan;
use serde::Deserialize;

use super::plans::Plans;
use super::view::PlanView;
use crate::error::{Corruption, Error};
use crate::store::{payloads, plans};

/// Rows that are read at a time to find those that match.
const ROWS_AT_A_TIME: u64 = 500;
/// At most this many versions of a plan are listed.
const VERSIONS_MAX: u64 = 100;

/// Which plans to list. A field that is not set does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFilter {
    /// The plan's `type`.
    pub kind: Option<String>,
    pub task: Option<String>,
    /// Each must occur in the name, the description, the type or the task; case is ignored.
    pub words: Vec<String>,
}

/// The parts of a stored plan document that filters compare.
#[derive(Deserialize)]
struct PlanHeader {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    task: String,
}

impl PlanFilter {
    /// Whether nothing is filtered, so that documents need not be read.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a plan matches every part of the filter.
    fn matches(&self, header: &PlanHeader) -> bool {
        let PlanHeader { name, description, kind, task } = header;
        let text = format!("{name}\n{description}\n{kind}\n{task}").to_lowercase();
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
            && self.task.as_ref().is_none_or(|wanted| wanted == task)
            && self.words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}

impl Plans<'_> {
    /// The newest version of each plan that matches, by name.
    pub async fn find(self, filter: &PlanFilter) -> Result<Vec<PlanView>, Error> {
        if filter.is_empty() {
            return self.list().await;
        }
        let mut found = Vec::new();
        for row in self.rows().await? {
            if filter.matches(&self.load_header(&row).await?) {
                found.push(PlanView::of(&row));
            }
        }
        Ok(found)
    }

    /// At most `limit` of the plans that match, by name, after the one with this name and id.
    pub async fn find_page(
        self,
        filter: &PlanFilter,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<PlanView>, Error> {
        let (mut found, mut after) = (Vec::new(), (after.0.to_owned(), after.1.to_owned()));
        loop {
            let boundary = self.0.boundary();
            let select = plans::list_after(self.0.tenant, boundary, (&after.0, &after.1), ROWS_AT_A_TIME);
            let rows = select.all(&self.0.db).await?;
            let is_last = (rows.len() as u64) < ROWS_AT_A_TIME;
            for row in rows {
                if found.len() == limit {
                    return Ok(found);
                }
                if filter.is_empty() || filter.matches(&self.load_header(&row).await?) {
                    found.push(PlanView::of(&row));
                }
                after = (row.name, row.id);
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Reads the parts that filters compare from a plan's stored document.
    async fn load_header(self, row: &plans::PlanRow) -> Result<PlanHeader, Error> {
        let missing = || Error::Corrupt(Corruption::Entry("the plan's document is missing".to_owned()));
        let document = payloads::by_position(self.0.tenant, row.position)
            .first(&self.0.db)
            .await?
            .ok_or_else(missing)?;
        let mut header: PlanHeader = serde_json::from_slice(&document.body).map_err(|_| missing())?;
        if self.0.withholds() {
            // A match would say whether a word occurs in it.
            header.description.clear();
        }
        Ok(header)
    }

    /// The newest versions of a plan, newest first, by its name, id or a unique prefix of the id.
    pub async fn versions(self, name_or_id: &str) -> Result<Vec<PlanView>, Error> {
        let newest = self.row(name_or_id).await?;
        let rows = plans::versions(self.0.tenant, &newest.id, VERSIONS_MAX).all(&self.0.db).await?;
        Ok(rows.iter().map(PlanView::of).collect())
    }

    /// A plan by name, id or a unique prefix of the id, in the given version or else its newest. Refused if
    /// there is no such plan or version.
    pub async fn version(
        self,
        name_or_id: &str,
        version: Option<u64>,
    ) -> Result<(PlanView, Arc<Plan>), Error> {
        let newest = self.row(name_or_id).await?;
        let row = match version.filter(|version| *version != newest.version) {
            None => newest,
            Some(version) => {
                let found = plans::by_version(self.0.tenant, &newest.id, version).first(&self.0.db).await?;
                match found {
                    Some(row) => row,
                    None => return Err(no_such_version(&newest, version)),
                }
            }
        };
        Ok((PlanView::of(&row), self.at(row.position).await?))
    }
}

/// The refusal of a version that a plan does not have; names the newest.
fn no_such_version(newest: &plans::PlanRow, version: u64) -> Error {
    Error::NoSuchVersion { plan: newest.name.clone(), version, newest: newest.version }
}
