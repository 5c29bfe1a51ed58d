//! A tenant's saved plans and templates, folded from one stream. Saving the same document again yields the
//! same version.

use std::collections::BTreeMap;

use crate::chain::Digest;
use crate::event::{Event, PlanDeleted, PlanRef, PlanSaved, ToolAccepted};
use crate::execution::{CorruptJournal, RecordedEvent};
use crate::id::{PlanId, Position};
use crate::plan::Plan;
use crate::refusal::Refusal;

/// All saved plans and templates of a tenant, and the tool definitions that its operator accepted.
#[derive(Debug, Default)]
pub struct PlanLibrary {
    plans: BTreeMap<PlanId, LibraryPlan>,
    /// The plan that each name stands for now; a deleted plan is not in here.
    by_name: BTreeMap<QualifiedName, PlanId>,
    /// The highest version that each name ever had. Deleting a plan keeps it, so that a name and a version
    /// identify one document for ever.
    last_versions: BTreeMap<QualifiedName, u32>,
    /// By tool: the digest of the definition that an operator accepted last.
    accepted_definitions: BTreeMap<String, Digest>,
    /// By project and server: the definitions that a guarded session found first, by the tool's name.
    listed_servers: BTreeMap<(String, String), BTreeMap<String, Digest>>,
    /// Number of entries in the stream.
    pub version: u64,
    /// Position of the last entry; 0 before the first.
    pub position: Position,
}

/// A name within its namespace: the project, whether it names a template, and the name itself.
type QualifiedName = (Option<String>, bool, String);

/// All versions of one plan or template, oldest first.
#[derive(Debug)]
struct LibraryPlan {
    project: Option<String>,
    template: bool,
    name: String,
    /// A deleted plan cannot be found by name; its versions stay, because executions still read their pins.
    deleted: bool,
    versions: Vec<SavedVersion>,
}

/// One saved version of a plan or template.
#[derive(Debug)]
struct SavedVersion {
    number: u32,
    digest: Digest,
    pins: ToolPins,
    /// Visible in every project.
    everywhere: bool,
}

/// How a document is saved: as a plan or a template, and who can see it.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    /// Saved as a template, from which plans are made.
    pub template: bool,
    pub project: Option<String>,
    /// Visible in every project.
    pub everywhere: bool,
}

/// By tool: the digest of the definition that a plan version was checked against.
pub type ToolPins = BTreeMap<String, Digest>;

impl PlanLibrary {
    /// The plan's reference in the library, and the event that saves it; `None` where its newest version is
    /// the same. The same document with other `pins` is a new version; without `pins` (unchecked) it is not.
    pub fn save(
        &self,
        plan: &Plan,
        placement: &SaveOptions,
        pins: Option<&ToolPins>,
        new_id: PlanId,
    ) -> (PlanRef, Option<PlanSaved>) {
        let SaveOptions { template, project, everywhere } = placement.clone();
        let name = (project.clone(), template, plan.name.clone());
        let existing = self.by_name.get(&name).and_then(|id| Some((id, self.plans.get(id)?)));
        let last = self.last_versions.get(&name).copied().unwrap_or(0);
        let id = existing.map_or(new_id, |(id, _)| id.clone());
        let newest = existing.and_then(|(_, plan)| plan.versions.last());
        let is_unchanged = |newest: &SavedVersion| {
            newest.digest == plan.digest
                && newest.everywhere == everywhere
                && pins.is_none_or(|pins| *pins == newest.pins)
        };
        let version = if newest.is_some_and(is_unchanged) { last } else { last + 1 };
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

    /// The pins of a plan version, also of a deleted plan; `None` for an unknown version.
    pub fn pins(&self, plan: &PlanRef) -> Option<&ToolPins> {
        let versions = &self.plans.get(&plan.id)?.versions;
        versions.iter().rev().find(|version| version.number == plan.version).map(|version| &version.pins)
    }

    /// The pins of a plan's newest version; `None` for an unknown plan.
    pub fn newest_pins(&self, plan: &PlanId) -> Option<&ToolPins> {
        Some(&self.plans.get(plan)?.versions.last()?.pins)
    }

    /// The digest of the definition that an operator accepted last for this tool.
    pub fn accepted_definition(&self, tool: &str) -> Option<Digest> {
        self.accepted_definitions.get(tool).copied()
    }

    /// The tools of a server as the first guarded session of the project listed them; `None`: none has.
    pub fn first_listing(&self, project: &str, server: &str) -> Option<&BTreeMap<String, Digest>> {
        self.listed_servers.get(&(project.to_owned(), server.to_owned()))
    }

    /// The event that deletes a plan or template; refused where there is none with this id.
    pub fn delete(&self, id: &PlanId) -> Result<PlanDeleted, Refusal> {
        if self.plans.get(id).is_some_and(|plan| !plan.deleted) {
            return Ok(PlanDeleted { id: id.clone() });
        }
        Err(Refusal::NoSuchPlan { id: id.clone() })
    }

    /// Folds one entry of the library's stream.
    pub fn evolve(mut self, recorded: &RecordedEvent) -> Result<Self, CorruptJournal> {
        match &recorded.event {
            Event::PlanSaved(saved) => self.add_version(saved),
            Event::PlanDeleted(deleted) => {
                if let Some(plan) = self.plans.get_mut(&deleted.id) {
                    plan.deleted = true;
                    let name = (plan.project.clone(), plan.template, plan.name.clone());
                    self.by_name.remove(&name);
                }
            }
            Event::ToolAccepted(ToolAccepted { tool, digest, .. }) => {
                self.accepted_definitions.insert(tool.clone(), *digest);
            }
            Event::ServerListed(listed) => {
                let key = (listed.project.clone(), listed.server.clone());
                self.listed_servers.entry(key).or_insert_with(|| listed.tools.clone());
            }
            other => {
                let why = format!("`{}` in the library of plans", other.kind());
                return Err(CorruptJournal { position: recorded.position, why });
            }
        }
        self.version += 1;
        self.position = recorded.position;
        Ok(self)
    }

    /// Adds a saved version, and its plan where the version is the first.
    fn add_version(&mut self, saved: &PlanSaved) {
        let name = (saved.project.clone(), saved.template, saved.name.clone());
        // In journals of earlier releases a name's versions restart at 1 after a deletion.
        let last = self.last_versions.entry(name.clone()).or_insert(0);
        *last = saved.version.max(*last);
        self.by_name.insert(name, saved.id.clone());
        let plan = self.plans.entry(saved.id.clone());
        let plan = plan.or_insert_with(|| LibraryPlan {
            project: saved.project.clone(),
            template: saved.template,
            name: saved.name.clone(),
            deleted: false,
            versions: Vec::new(),
        });
        plan.versions.push(SavedVersion {
            number: saved.version,
            digest: saved.digest,
            pins: saved.pins.clone(),
            everywhere: saved.everywhere,
        });
    }
}
