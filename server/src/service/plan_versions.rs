//! Saved plans as people look for them: by type, task and words, and one version of many.

use std::sync::Arc;

use actbook_engine::plan::Plan;
use serde::Deserialize;

use super::Service;
use super::view::PlanView;
use crate::error::Error;
use crate::store::{payloads, plans};

/// Which plans to list. Everything left out lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFilter {
    /// The plan's `type`.
    pub kind: Option<String>,
    pub task: Option<String>,
    /// Each must occur in the name, the description, the type or the task, in any case.
    pub words: Vec<String>,
}

/// The parts of a stored document that filters look at.
#[derive(Deserialize)]
struct Header {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    task: String,
}

impl PlanFilter {
    /// Whether the rows alone can tell which plans pass.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn passes(&self, header: &Header) -> bool {
        let Header { name, description, kind, task } = header;
        let text = format!("{name}\n{description}\n{kind}\n{task}").to_lowercase();
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
            && self.task.as_ref().is_none_or(|wanted| wanted == task)
            && self.words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}

impl Service {
    /// The newest version of each plan that passes, by name.
    pub async fn find_plans(&self, filter: &PlanFilter) -> Result<Vec<PlanView>, Error> {
        if filter.is_empty() {
            return self.plans().await;
        }
        let mut found = Vec::new();
        for row in self.plan_rows().await? {
            if filter.passes(&self.header(&row).await?) {
                found.push(PlanView::of(&row));
            }
        }
        Ok(found)
    }

    async fn header(&self, row: &plans::Plan) -> Result<Header, Error> {
        let lost = || Error::new("corrupt", "the plan's document is missing", "run `actbook verify`");
        let document = payloads::at(self.tenant, row.position).first(&self.db).await?.ok_or_else(lost)?;
        serde_json::from_slice(&document.body).map_err(|_| lost())
    }

    /// A plan by name or id, in one of its versions; without one, in its newest.
    pub async fn plan_version(
        &self,
        name_or_id: &str,
        version: Option<u64>,
    ) -> Result<(PlanView, Arc<Plan>), Error> {
        let newest = self.plan_row(name_or_id).await?;
        let row = match version.filter(|version| *version != newest.version) {
            None => newest,
            Some(version) => {
                let found = plans::version(self.tenant, &newest.id, version).first(&self.db).await?;
                match found {
                    Some(row) => row,
                    None => return Err(no_such_version(&newest, version)),
                }
            }
        };
        Ok((PlanView::of(&row), self.document_at(row.position).await?))
    }
}

/// Versions count on after a deletion, so that an older one that is not there belonged to what was deleted.
fn no_such_version(newest: &plans::Plan, version: u64) -> Error {
    let name = &newest.name;
    let message = match (1..newest.version).contains(&version) {
        true => format!("version {version} of the plan `{name}` was deleted"),
        false => format!("the plan `{name}` has no version {version}"),
    };
    Error::new("no_such_version", message, format!("its newest version is {}", newest.version))
}
