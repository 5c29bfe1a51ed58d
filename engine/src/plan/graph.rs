//! Resolves step ids to step numbers (declared and inferred dependencies, propagation, what compensations and
//! probes read) and refuses cycles. Iterative rather than recursive: a graph may be thousands of steps deep.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::finding::{DocumentPath, FindingCollector};
use super::step::StepDraft;
use super::{CompensationWork, Dependency, Probe, Step, StepWork, ancestry};
use crate::bind::ReadSet;
use crate::id::{StepId, StepNo};
use crate::spelling::nearest;

/// Most cycles reported at a time.
const CYCLES_SHOWN: usize = 5;

/// Step numbers by id.
pub(super) type StepNumbers = BTreeMap<StepId, StepNo>;

/// Resolves the drafts' references into a dependency graph; reports unknown steps, cycles and forbidden
/// reads.
pub(super) fn connect_steps(
    drafts: Vec<StepDraft>,
    steps_at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> (Vec<Step>, StepNumbers) {
    let by_id = number_steps(&drafts, steps_at, found);
    let mut steps = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        let names = StepResolver { by_id: &by_id, own: StepNo(index as u32) };
        steps.push(names.resolve(draft, &steps_at.item(index), found));
    }
    for index in 0..steps.len() {
        for need in 0..steps[index].dependencies.len() {
            let needed = steps[index].dependencies[need].step.index();
            steps[needed].dependents.push(StepNo(index as u32));
        }
    }
    if !report_cycles(&steps, steps_at, found) {
        ancestry::check_undo_reads(&steps, &by_id, steps_at, found);
    }
    (steps, by_id)
}

/// See `Plan::sequential_order`. Steps on a cycle are missing.
pub(super) fn sequential_order(steps: &[Step]) -> Vec<StepNo> {
    let mut waiting: Vec<usize> = steps.iter().map(|step| step.dependencies.len()).collect();
    let numbers = (0..steps.len()).map(|index| StepNo(index as u32));
    let mut ready: BinaryHeap<_> = numbers.filter(|no| waiting[no.index()] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse(no)) = ready.pop() {
        order.push(no);
        for next in &steps[no.index()].dependents {
            waiting[next.index()] -= 1;
            if waiting[next.index()] == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    order
}

/// Maps ids to numbers and reports duplicates. A step whose id could not be read is left out.
fn number_steps(
    drafts: &[StepDraft],
    steps_at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> StepNumbers {
    let mut by_id = StepNumbers::new();
    for (index, draft) in drafts.iter().enumerate() {
        let id = &draft.step.id;
        if id.as_str().is_empty() {
            continue;
        }
        if let Some(first) = by_id.get(id) {
            let at = steps_at.item(index);
            found.error(
                "duplicate_id",
                at.field("id"),
                format!("`{id}` is already the id of steps[{}]", first.0),
                "give each step its own id",
            );
        } else {
            by_id.insert(id.clone(), StepNo(index as u32));
        }
    }
    by_id
}

/// Resolves the step ids that one step refers to.
struct StepResolver<'a> {
    by_id: &'a StepNumbers,
    /// The referring step.
    own: StepNo,
}

impl StepResolver<'_> {
    /// The draft's step with its dependencies and propagation resolved.
    fn resolve(&self, draft: StepDraft, at: &DocumentPath<'_>, found: &mut FindingCollector) -> Step {
        let mut step = draft.step;
        let mut dependencies: BTreeMap<StepNo, bool> = BTreeMap::new();
        let mut depend_on = |no: Option<StepNo>, status_read: bool| {
            no.map(|no| {
                dependencies.entry(no).and_modify(|read| *read |= status_read).or_insert(status_read)
            });
        };
        let depends_on = at.field("depends_on");
        for (index, id) in &draft.depends_on {
            depend_on(
                self.resolve_other_step(id, &depends_on.item(*index), "waits for itself", found),
                false,
            );
        }
        let (field, reads) = match &step.work {
            StepWork::Tool { arguments, .. } | StepWork::AgentTool { arguments, .. } => {
                ("arguments", arguments.reads())
            }
            StepWork::Action { text, .. } => ("action", text.reads()),
        };
        let reads_at = at.field(field);
        self.refuse_own_values(reads, &reads_at, found);
        for id in reads.outputs.union(&reads.statuses) {
            depend_on(self.resolve_other_step(id, &reads_at, "reads itself", found), false);
        }
        if let Some(when) = &step.when {
            let reads = when.reads();
            let at = at.field("when");
            self.refuse_own_values(reads, &at, found);
            for id in reads.outputs.union(&reads.statuses) {
                depend_on(
                    self.resolve_other_step(id, &at, "reads itself", found),
                    reads.statuses.contains(id),
                );
            }
        }
        step.dependencies =
            dependencies.into_iter().map(|(step, status_read)| Dependency { step, status_read }).collect();
        step.propagate_to = self.resolve_propagation(&draft.propagate_to, at, found);
        step
    }

    /// Resolves `failure_policy.propagate_to`.
    fn resolve_propagation(
        &self,
        ids: &[(usize, String)],
        at: &DocumentPath<'_>,
        found: &mut FindingCollector,
    ) -> BTreeSet<StepNo> {
        let policy = at.field("failure_policy");
        let at = policy.field("propagate_to");
        ids.iter()
            .filter_map(|(index, id)| {
                self.resolve_other_step(id, &at.item(*index), "propagates to itself", found)
            })
            .collect()
    }

    /// The number of another step; `None` for an unknown id or the step itself, which is reported.
    fn resolve_other_step(
        &self,
        id: &str,
        at: &DocumentPath<'_>,
        to_itself: &str,
        found: &mut FindingCollector,
    ) -> Option<StepNo> {
        let no = resolve_step_id(id, self.by_id, at, found)?;
        if no == self.own {
            found.error(
                "self_reference",
                at,
                format!("the step `{id}` {to_itself}"),
                "name another step, or leave it out",
            );
            return None;
        }
        Some(no)
    }

    /// Reports reads of the step's own `arguments` or `output`, which do not exist before the step has run.
    fn refuse_own_values(&self, reads: &ReadSet, at: &DocumentPath<'_>, found: &mut FindingCollector) {
        for (name, read) in [("arguments", reads.own_arguments), ("output", reads.own_output)] {
            if read {
                let cure = format!(
                    "read another step's, as in steps.<id>.{}",
                    if name == "output" { "output" } else { "output, or repeat the value" }
                );
                found.error(
                    "bad_reference",
                    at,
                    format!("`{name}` is in scope in compensations and probes only"),
                    cure,
                );
            }
        }
    }
}

/// The number of the step with this id; `None` for an unknown id, which is reported.
pub(super) fn resolve_step_id(
    id: &str,
    by_id: &StepNumbers,
    at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> Option<StepNo> {
    let no = by_id.get(id).copied();
    if no.is_none() {
        let cure = match nearest(id, by_id.keys().map(StepId::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "name a step of this plan".to_owned(),
        };
        found.error("unknown_step", at, format!("there is no step `{id}`"), cure);
    }
    no
}

/// A step's state in the depth-first search for cycles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    Unvisited,
    /// On the path that is being followed.
    OnPath,
    Visited,
}

/// Searches depth first along the dependencies and reports cycles, up to `CYCLES_SHOWN`; true if there is
/// one.
fn report_cycles(steps: &[Step], steps_at: &DocumentPath<'_>, found: &mut FindingCollector) -> bool {
    let mut marks = vec![VisitState::Unvisited; steps.len()];
    let mut shown = 0;
    for start in 0..steps.len() {
        if marks[start] != VisitState::Unvisited {
            continue;
        }
        marks[start] = VisitState::OnPath;
        let mut trail = vec![(start, 0)];
        while let Some((index, next)) = trail.last_mut() {
            let Some(need) = steps[*index].dependencies.get(*next) else {
                marks[*index] = VisitState::Visited;
                trail.pop();
                continue;
            };
            *next += 1;
            let needed = need.step.index();
            match marks[needed] {
                VisitState::Visited => {}
                VisitState::Unvisited => {
                    marks[needed] = VisitState::OnPath;
                    trail.push((needed, 0));
                }
                VisitState::OnPath if shown < CYCLES_SHOWN => {
                    shown += 1;
                    report_cycle(steps, &trail, needed, steps_at, found);
                }
                VisitState::OnPath => {}
            }
        }
    }
    shown > 0
}

/// Reports the cycle that the path `trail` forms with its last edge, which leads to the step `closes`.
fn report_cycle(
    steps: &[Step],
    trail: &[(usize, usize)],
    closes: usize,
    steps_at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) {
    let from = trail.iter().position(|(index, _)| *index == closes).unwrap_or(0);
    let members: Vec<usize> = trail[from..].iter().map(|(index, _)| *index).collect();
    // The cycle is listed from its first step in the plan, so that its message does not depend on the search.
    let first = (0..members.len()).min_by_key(|index| members[*index]).unwrap_or(0);
    let mut ids: Vec<&str> = (0..=members.len())
        .map(|offset| steps[members[(first + offset) % members.len()]].id.as_str())
        .collect();
    /// Most ids that the message names; the middle of a longer cycle is replaced by `…`.
    const NAMED_MAX: usize = 20;
    if ids.len() > NAMED_MAX {
        ids.splice(NAMED_MAX / 2..ids.len() - NAMED_MAX / 2, ["…"]);
    }
    let at = steps_at.item(members[first]);
    let message = format!("each step waits for the next: {}", ids.join(" → "));
    found.error("cycle", at.field("depends_on"), message, "take one of these dependencies or references out");
}

/// What the step's compensation and probe read, each with the name of the document field.
pub(super) fn undo_reads(step: &Step) -> Vec<(&'static str, &ReadSet)> {
    let mut reads = Vec::new();
    if let Some(compensation) = &step.compensation {
        reads.push((
            "compensation",
            match &compensation.work {
                CompensationWork::Tool { arguments, .. } => arguments.reads(),
                CompensationWork::Action { action } => action.reads(),
            },
        ));
    }
    if let Some(Probe { arguments, happened, .. }) = &step.probe {
        reads.push(("probe", arguments.reads()));
        reads.push(("probe", happened.reads()));
    }
    reads
}
