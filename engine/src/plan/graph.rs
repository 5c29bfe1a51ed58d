//! Names become numbers: dependencies declared and inferred, propagation, what compensations and
//! probes may read; and that nothing waits for itself. No recursion: a graph is as deep as it likes.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{At, Findings};
use super::step::Draft;
use super::{Need, Probe, Step, Undo, Work, ancestry};
use crate::bind::Reads;
use crate::id::{StepId, StepNo};
use crate::spelling::nearest;

/// Cycles named before the rest is left to be found after these are cured.
const CYCLES_SHOWN: usize = 5;

pub(super) type ById = BTreeMap<StepId, StepNo>;

pub(super) fn connect(drafts: Vec<Draft>, steps_at: &At<'_>, found: &mut Findings) -> (Vec<Step>, ById) {
    let by_id = numbered(&drafts, steps_at, found);
    let mut steps = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        let names = Names { by_id: &by_id, own: StepNo(index as u32) };
        steps.push(names.resolve(draft, &steps_at.item(index), found));
    }
    for index in 0..steps.len() {
        for need in 0..steps[index].needs.len() {
            let needed = steps[index].needs[need].step.index();
            steps[needed].needed_by.push(StepNo(index as u32));
        }
    }
    if !cycles(&steps, steps_at, found) {
        ancestry::check(&steps, &by_id, steps_at, found);
    }
    (steps, by_id)
}

fn numbered(drafts: &[Draft], steps_at: &At<'_>, found: &mut Findings) -> ById {
    let mut by_id = ById::new();
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

struct Names<'a> {
    by_id: &'a ById,
    own: StepNo,
}

impl Names<'_> {
    fn resolve(&self, draft: Draft, at: &At<'_>, found: &mut Findings) -> Step {
        let mut step = draft.step;
        let mut needs: BTreeMap<StepNo, bool> = BTreeMap::new();
        let mut need = |no: Option<StepNo>, status_read: bool| {
            no.map(|no| needs.entry(no).and_modify(|read| *read |= status_read).or_insert(status_read));
        };
        let depends_on = at.field("depends_on");
        for (index, id) in &draft.depends_on {
            need(self.other(id, &depends_on.item(*index), "waits for itself", found), false);
        }
        let (field, reads) = match &step.work {
            Work::Tool { arguments, .. } | Work::AgentTool { arguments, .. } => {
                ("arguments", arguments.reads())
            }
            Work::Action { text, .. } => ("action", text.reads()),
        };
        let reads_at = at.field(field);
        self.not_own(reads, &reads_at, found);
        for id in reads.outputs.union(&reads.statuses) {
            need(self.other(id, &reads_at, "reads itself", found), false);
        }
        if let Some(when) = &step.when {
            let reads = when.reads();
            let at = at.field("when");
            self.not_own(reads, &at, found);
            for id in reads.outputs.union(&reads.statuses) {
                need(self.other(id, &at, "reads itself", found), reads.statuses.contains(id));
            }
        }
        step.needs = needs.into_iter().map(|(step, status_read)| Need { step, status_read }).collect();
        step.propagate_to = self.propagated(&draft.propagate_to, at, found);
        step
    }

    fn propagated(&self, ids: &[(usize, String)], at: &At<'_>, found: &mut Findings) -> BTreeSet<StepNo> {
        let policy = at.field("failure_policy");
        let at = policy.field("propagate_to");
        ids.iter()
            .filter_map(|(index, id)| self.other(id, &at.item(*index), "propagates to itself", found))
            .collect()
    }

    fn other(&self, id: &str, at: &At<'_>, to_itself: &str, found: &mut Findings) -> Option<StepNo> {
        let no = known(id, self.by_id, at, found)?;
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

    fn not_own(&self, reads: &Reads, at: &At<'_>, found: &mut Findings) {
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

pub(super) fn known(id: &str, by_id: &ById, at: &At<'_>, found: &mut Findings) -> Option<StepNo> {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Fresh,
    Open,
    Done,
}

/// Walks along the needs; a step met again while it is still open closes a cycle.
fn cycles(steps: &[Step], steps_at: &At<'_>, found: &mut Findings) -> bool {
    let mut marks = vec![Mark::Fresh; steps.len()];
    let mut shown = 0;
    for start in 0..steps.len() {
        if marks[start] != Mark::Fresh {
            continue;
        }
        marks[start] = Mark::Open;
        let mut trail = vec![(start, 0)];
        while let Some((index, next)) = trail.last_mut() {
            let Some(need) = steps[*index].needs.get(*next) else {
                marks[*index] = Mark::Done;
                trail.pop();
                continue;
            };
            *next += 1;
            let needed = need.step.index();
            match marks[needed] {
                Mark::Done => {}
                Mark::Fresh => {
                    marks[needed] = Mark::Open;
                    trail.push((needed, 0));
                }
                Mark::Open if shown < CYCLES_SHOWN => {
                    shown += 1;
                    name_cycle(steps, &trail, needed, steps_at, found);
                }
                Mark::Open => {}
            }
        }
    }
    shown > 0
}

fn name_cycle(
    steps: &[Step],
    trail: &[(usize, usize)],
    closes: usize,
    steps_at: &At<'_>,
    found: &mut Findings,
) {
    let from = trail.iter().position(|(index, _)| *index == closes).unwrap_or(0);
    let members: Vec<usize> = trail[from..].iter().map(|(index, _)| *index).collect();
    // Told from the step that stands first in the list, so that the same cycle reads the same.
    let first = (0..members.len()).min_by_key(|place| members[*place]).unwrap_or(0);
    let mut ids: Vec<&str> =
        (0..=members.len()).map(|step| steps[members[(first + step) % members.len()]].id.as_str()).collect();
    const NAMED_MAX: usize = 20;
    if ids.len() > NAMED_MAX {
        ids.splice(NAMED_MAX / 2..ids.len() - NAMED_MAX / 2, ["…"]);
    }
    let at = steps_at.item(members[first]);
    let message = format!("each step waits for the next: {}", ids.join(" → "));
    found.error("cycle", at.field("depends_on"), message, "take one of these dependencies or references out");
}

/// What is read when the step's outcome is unknown or it is undone, by field.
pub(super) fn undoing(step: &Step) -> Vec<(&'static str, &Reads)> {
    let mut reads = Vec::new();
    if let Some(compensation) = &step.compensation {
        reads.push((
            "compensation",
            match &compensation.work {
                Undo::Tool { arguments, .. } => arguments.reads(),
                Undo::Action { action } => action.reads(),
            },
        ));
    }
    if let Some(Probe { arguments, happened, .. }) = &step.probe {
        reads.push(("probe", arguments.reads()));
        reads.push(("probe", happened.reads()));
    }
    reads
}
