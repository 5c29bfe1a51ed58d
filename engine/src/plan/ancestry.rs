//! Checks that compensations and probes read only their own step, its ancestors, the inputs and the
//! execution. Those values exist however far the execution came, so that an undo never lacks a value it
//! reads.

use std::collections::BTreeMap;

use super::Step;
use super::finding::{DocumentPath, FindingCollector};
use super::graph::{StepNumbers, resolve_step_id, sequential_order, undo_reads};

/// A read of another step's output or status, by a step's compensation or probe.
struct StepRead {
    /// Index of the reading step.
    step: usize,
    /// `compensation` or `probe`.
    field: &'static str,
    /// Index of the step that is read.
    source: usize,
}

/// Reports compensations and probes that read a step which is no ancestor of theirs. Needs an acyclic graph.
pub(super) fn check_undo_reads(
    steps: &[Step],
    by_id: &StepNumbers,
    steps_at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) {
    let reads = collect_undo_reads(steps, by_id, steps_at, found);
    for StepRead { step, field, source: of } in reads_of_non_ancestors(steps, reads) {
        let (own, other) = (&steps[step].id, &steps[of].id);
        let message = format!("`{own}` does not depend on `{other}`, which it reads here");
        let cure = format!("let the step depend on `{other}`, or read inputs, `arguments` or an ancestor");
        found.error("bad_reference", steps_at.item(step).field(field), message, cure);
    }
}

/// Collects the reads of other steps; reports reads of unknown steps and of the step itself.
fn collect_undo_reads(
    steps: &[Step],
    by_id: &StepNumbers,
    steps_at: &DocumentPath<'_>,
    found: &mut FindingCollector,
) -> Vec<StepRead> {
    let mut list = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let at = steps_at.item(index);
        for (field, reads) in undo_reads(step) {
            let at = at.field(field);
            for id in reads.outputs.union(&reads.statuses) {
                let Some(no) = resolve_step_id(id, by_id, &at, found) else { continue };
                if no.index() == index {
                    let message = format!("reads `steps.{id}` of its own step");
                    found.error("bad_reference", at, message, "write `output`, or `arguments`");
                    continue;
                }
                list.push(StepRead { step: index, field, source: no.index() });
            }
        }
    }
    list
}

/// The reads whose source is no ancestor of the reading step. For each source, its descendants are marked
/// once, in topological order, up to the last step that reads it.
fn reads_of_non_ancestors(steps: &[Step], reads: Vec<StepRead>) -> Vec<StepRead> {
    let not_direct =
        |read: &StepRead| !steps[read.step].dependencies.iter().any(|need| need.step.index() == read.source);
    let mut by_source: BTreeMap<usize, Vec<StepRead>> = BTreeMap::new();
    for read in reads.into_iter().filter(not_direct) {
        by_source.entry(read.source).or_default().push(read);
    }
    if by_source.is_empty() {
        return Vec::new();
    }
    let order = sequential_order(steps);
    let mut rank = vec![0; steps.len()];
    order.iter().enumerate().for_each(|(position, no)| rank[no.index()] = position);
    // For each step, the last source that was found to be its ancestor.
    let mut reached = vec![usize::MAX; steps.len()];
    let mut violations = Vec::new();
    for (source, readers) in by_source {
        reached[source] = source;
        let last = readers.iter().map(|read| rank[read.step]).max().unwrap_or(0);
        for no in order.iter().take(last + 1).skip(rank[source] + 1) {
            if steps[no.index()].dependencies.iter().any(|need| reached[need.step.index()] == source) {
                reached[no.index()] = source;
            }
        }
        violations.extend(readers.into_iter().filter(|read| reached[read.step] != source));
    }
    violations.sort_by_key(|read| read.step);
    violations
}
