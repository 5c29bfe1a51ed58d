//! Compensations and probes read their own step, its ancestors, inputs and the execution, and
//! nothing else: whatever undoes a step must find what it reads, however far the execution came.

use std::collections::BTreeMap;

use super::Step;
use super::finding::{At, Findings};
use super::graph::{ById, known, undoing};

/// A read of another step's output or status.
struct Read {
    step: usize,
    field: &'static str,
    of: usize,
}

pub(super) fn check(steps: &[Step], by_id: &ById, steps_at: &At<'_>, found: &mut Findings) {
    let reads = reads(steps, by_id, steps_at, found);
    for Read { step, field, of } in strangers(steps, reads) {
        let (own, other) = (&steps[step].id, &steps[of].id);
        let message = format!("`{own}` does not depend on `{other}`, which it reads here");
        let cure = format!("let the step depend on `{other}`, or read inputs, `arguments` or an ancestor");
        found.error("bad_reference", steps_at.item(step).field(field), message, cure);
    }
}

fn reads(steps: &[Step], by_id: &ById, steps_at: &At<'_>, found: &mut Findings) -> Vec<Read> {
    let mut list = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let at = steps_at.item(index);
        for (field, reads) in undoing(step) {
            let at = at.field(field);
            for id in reads.outputs.union(&reads.statuses) {
                let Some(no) = known(id, by_id, &at, found) else { continue };
                if no.index() == index {
                    let message = format!("reads `steps.{id}` of its own step");
                    found.error("bad_reference", at, message, "write `output`, or `arguments`");
                    continue;
                }
                list.push(Read { step: index, field, of: no.index() });
            }
        }
    }
    list
}

/// The reads of steps that are no ancestors. Each step that is read is followed once, along the order
/// of the graph, up to the last step that reads it.
fn strangers(steps: &[Step], reads: Vec<Read>) -> Vec<Read> {
    let far = |read: &Read| !steps[read.step].needs.iter().any(|need| need.step.index() == read.of);
    let mut by_read: BTreeMap<usize, Vec<Read>> = BTreeMap::new();
    for read in reads.into_iter().filter(far) {
        by_read.entry(read.of).or_default().push(read);
    }
    if by_read.is_empty() {
        return Vec::new();
    }
    let order = order(steps);
    let mut place = vec![0; steps.len()];
    order.iter().enumerate().for_each(|(at, step)| place[*step] = at);
    // The step from which each step was reached last.
    let mut reached = vec![usize::MAX; steps.len()];
    let mut strangers = Vec::new();
    for (of, readers) in by_read {
        reached[of] = of;
        let last = readers.iter().map(|read| place[read.step]).max().unwrap_or(0);
        for step in order.iter().take(last + 1).skip(place[of] + 1) {
            if steps[*step].needs.iter().any(|need| reached[need.step.index()] == of) {
                reached[*step] = of;
            }
        }
        strangers.extend(readers.into_iter().filter(|read| reached[read.step] != of));
    }
    strangers.sort_by_key(|read| read.step);
    strangers
}

/// Every step after those it needs. Without a cycle this holds them all.
fn order(steps: &[Step]) -> Vec<usize> {
    let mut waiting: Vec<usize> = steps.iter().map(|step| step.needs.len()).collect();
    let mut order: Vec<usize> = (0..steps.len()).filter(|step| waiting[*step] == 0).collect();
    let mut next = 0;
    while let Some(step) = order.get(next).copied() {
        next += 1;
        for after in &steps[step].needed_by {
            waiting[after.index()] -= 1;
            if waiting[after.index()] == 0 {
                order.push(after.index());
            }
        }
    }
    order
}
