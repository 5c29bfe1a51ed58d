//! The plans of a tenant: one stream, folded. Saving the same document again gives the same version.

use std::collections::BTreeMap;

use crate::chain::Digest;
use crate::event::{Event, PlanDeleted, PlanRef, PlanSaved, ToolAccepted};
use crate::execution::{Corrupt, Recorded, Refusal};
use crate::id::{PlanId, Position};
use crate::plan::Plan;

#[derive(Debug, Default)]
pub struct Library {
    shelves: BTreeMap<PlanId, Shelf>,
    /// Templates have names of their own, and so has each project.
    by_name: BTreeMap<Name, PlanId>,
    /// The newest version that each name ever had. Deleting a plan keeps it, so that a name and a version mean
    /// one document for good.
    last_versions: BTreeMap<Name, u32>,
    /// The definition of a tool that an operator took last.
    accepted: BTreeMap<String, Digest>,
    /// How many entries the stream has.
    pub version: u64,
    /// Where the last of them is; zero before the first.
    pub position: Position,
}

/// The project, whether it is a template's, and the name itself.
type Name = (Option<String>, bool, String);

/// All versions of one plan or template, oldest first.
#[derive(Debug)]
struct Shelf {
    project: Option<String>,
    template: bool,
    name: String,
    /// No longer offered by its name; executions of its versions keep what they were checked against.
    deleted: bool,
    versions: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    number: u32,
    digest: Digest,
    pins: Pins,
    everywhere: bool,
}

/// As what, and for whom, a document is saved.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// It is kept to make plans of.
    pub template: bool,
    pub project: Option<String>,
    /// Every project sees it.
    pub everywhere: bool,
}

/// The definition of each tool that a version was checked against.
pub type Pins = BTreeMap<String, Digest>;

impl Library {
    /// The plan's place in the library, and the entry that puts it there where it is not yet. The same
    /// document checked against other tools is a version of its own; unchecked (no `pins`) it is not.
    pub fn save(
        &self,
        plan: &Plan,
        placement: &Placement,
        pins: Option<&Pins>,
        new_id: PlanId,
    ) -> (PlanRef, Option<PlanSaved>) {
        let Placement { template, project, everywhere } = placement.clone();
        let name = (project.clone(), template, plan.name.clone());
        let found = self.by_name.get(&name).and_then(|id| Some((id, self.shelves.get(id)?)));
        let last = self.last_versions.get(&name).copied().unwrap_or(0);
        let id = found.map_or(new_id, |(id, _)| id.clone());
        let newest = found.and_then(|(_, shelf)| shelf.versions.last());
        let same = |newest: &Version| {
            newest.digest == plan.digest
                && newest.everywhere == everywhere
                && pins.is_none_or(|pins| *pins == newest.pins)
        };
        let version = if newest.is_some_and(same) { last } else { last + 1 };
        let reference = PlanRef { id: id.clone(), name: plan.name.clone(), version, digest: plan.digest };
        let saved = (version > last).then(|| PlanSaved {
            id,
            name: plan.name.clone(),
            version,
            digest: plan.digest,
            size: plan.document.len() as u64,
            steps: plan.steps.len() as u32,
            pins: pins.cloned().unwrap_or_default(),
            task: plan.task.clone(),
            template,
            project,
            everywhere,
        });
        (reference, saved)
    }

    /// What a version was checked against, also once its plan is no longer offered.
    pub fn pins(&self, plan: &PlanRef) -> Option<&Pins> {
        let versions = &self.shelves.get(&plan.id)?.versions;
        versions.iter().rev().find(|version| version.number == plan.version).map(|version| &version.pins)
    }

    pub fn accepted(&self, tool: &str) -> Option<Digest> {
        self.accepted.get(tool).copied()
    }

    pub fn delete(&self, id: &PlanId) -> Result<PlanDeleted, Refusal> {
        if self.shelves.get(id).is_some_and(|shelf| !shelf.deleted) {
            return Ok(PlanDeleted { id: id.clone() });
        }
        Err(Refusal::new("no_such_plan", format!("there is no plan `{id}`"), "`plan list` shows them"))
    }

    pub fn evolve(mut self, recorded: &Recorded) -> Result<Self, Corrupt> {
        match &recorded.event {
            Event::PlanSaved(saved) => self.put(saved),
            Event::PlanDeleted(deleted) => {
                if let Some(shelf) = self.shelves.get_mut(&deleted.id) {
                    shelf.deleted = true;
                    let name = (shelf.project.clone(), shelf.template, shelf.name.clone());
                    self.by_name.remove(&name);
                }
            }
            Event::ToolAccepted(ToolAccepted { tool, digest, .. }) => {
                self.accepted.insert(tool.clone(), *digest);
            }
            other => {
                let why = format!("`{}` in the library of plans", other.kind());
                return Err(Corrupt { position: recorded.position, why });
            }
        }
        self.version += 1;
        self.position = recorded.position;
        Ok(self)
    }

    fn put(&mut self, saved: &PlanSaved) {
        let name = (saved.project.clone(), saved.template, saved.name.clone());
        // Journals of earlier releases hold names whose versions began again at 1 after a deletion.
        let last = self.last_versions.entry(name.clone()).or_insert(0);
        *last = saved.version.max(*last);
        self.by_name.insert(name, saved.id.clone());
        let shelf = self.shelves.entry(saved.id.clone());
        let shelf = shelf.or_insert_with(|| Shelf {
            project: saved.project.clone(),
            template: saved.template,
            name: saved.name.clone(),
            deleted: false,
            versions: Vec::new(),
        });
        shelf.versions.push(Version {
            number: saved.version,
            digest: saved.digest,
            pins: saved.pins.clone(),
            everywhere: saved.everywhere,
        });
    }
}
