//! Compares two versions of a plan: which fields and steps differ, and what the difference takes away from those who
//! answer for the plan: a compensation, an approval, the possibility to undo.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::point_of_no_return;
use crate::id::StepId;
use crate::plan::{Finding, Plan, Step};
use crate::policy::{PlanApproval, string_enum};

/// What differs between two versions of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanComparison {
    /// Fields outside of the steps.
    pub fields: Vec<FieldChange>,
    /// The steps that differ, in the order of the newer version; removed ones come first.
    pub steps: Vec<StepChange>,
    /// What the newer version does without, and the older one had.
    pub findings: Vec<Finding>,
}

/// A step that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepChange {
    pub step: StepId,
    pub change: StepChangeKind,
    pub fields: Vec<FieldChange>,
}

/// A field with another value in each version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Within the plan or the step, as in `arguments.path`.
    pub path: String,
    /// `None`: the older version does not have the field.
    pub from: Option<Value>,
    /// `None`: the newer version does not have the field.
    pub to: Option<Value>,
}

string_enum!(
    /// How a step differs. A step that only moved has the same fields at another place in the list.
    StepChangeKind { Added = "added", Removed = "removed", Changed = "changed", Moved = "moved" }
);

/// Compares the older version of a plan with the newer one.
pub fn compare_plans(older: &Plan, newer: &Plan) -> PlanComparison {
    let documents = [older, newer].map(|plan| serde_json::from_str(&plan.document));
    let [Ok(Value::Object(mut from)), Ok(Value::Object(mut to))] = documents else {
        return PlanComparison { findings: findings(older, newer), ..PlanComparison::default() };
    };
    let (from_steps, to_steps) = (take_steps(&mut from), take_steps(&mut to));
    PlanComparison {
        fields: changed_fields(&from, &to),
        steps: changed_steps(&from_steps, &to_steps),
        findings: findings(older, newer),
    }
}

/// Takes the steps out of a document, each with its id.
fn take_steps(document: &mut Map<String, Value>) -> Vec<(String, Map<String, Value>)> {
    let steps = document.remove("steps");
    let steps = steps.as_ref().and_then(Value::as_array).into_iter().flatten();
    let step = |step: &Value| {
        let fields = step.as_object()?;
        Some((fields.get("id")?.as_str()?.to_owned(), fields.clone()))
    };
    steps.filter_map(step).collect()
}

/// The fields that differ, by name; those of an object by their paths.
fn changed_fields(from: &Map<String, Value>, to: &Map<String, Value>) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    collect_changes("", from, to, &mut changes);
    changes
}

fn collect_changes(
    prefix: &str,
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    changes: &mut Vec<FieldChange>,
) {
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    for name in names {
        let path = format!("{prefix}{name}");
        match (from.get(name), to.get(name)) {
            (from, to) if from == to => {}
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                collect_changes(&format!("{path}."), from, to, changes);
            }
            (from, to) => changes.push(FieldChange { path, from: from.cloned(), to: to.cloned() }),
        }
    }
}

/// The steps that differ: removed ones, then the others in their newer order.
fn changed_steps(
    from: &[(String, Map<String, Value>)],
    to: &[(String, Map<String, Value>)],
) -> Vec<StepChange> {
    let older: BTreeMap<&str, usize> =
        from.iter().enumerate().map(|(no, (id, _))| (id.as_str(), no)).collect();
    let newer: BTreeSet<&str> = to.iter().map(|(id, _)| id.as_str()).collect();
    let change = |id: &str, change, fields| StepChange { step: StepId::new(id), change, fields };
    let removed = from.iter().filter(|(id, _)| !newer.contains(id.as_str()));
    let mut changes: Vec<StepChange> = removed
        .map(|(id, fields)| change(id, StepChangeKind::Removed, changed_fields(fields, &Map::new())))
        .collect();
    let places: Vec<usize> = to.iter().filter_map(|(id, _)| older.get(id.as_str()).copied()).collect();
    let kept = longest_rising(&places);
    for (id, fields) in to {
        let Some(place) = older.get(id.as_str()) else {
            changes.push(change(id, StepChangeKind::Added, changed_fields(&Map::new(), fields)));
            continue;
        };
        let differing = changed_fields(&from[*place].1, fields);
        if !differing.is_empty() {
            changes.push(change(id, StepChangeKind::Changed, differing));
        } else if !kept.contains(place) {
            changes.push(change(id, StepChangeKind::Moved, differing));
        }
    }
    changes
}

/// The longest increasing subsequence of distinct numbers, as a set.
fn longest_rising(numbers: &[usize]) -> BTreeSet<usize> {
    // For each length, the index of the number that ends such a sequence lowest.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end] < *number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() { ends.push(at) } else { ends[length] = at }
    }
    let mut rising = BTreeSet::new();
    let mut at = ends.last().copied();
    while let Some(index) = at {
        rising.insert(numbers[index]);
        at = before[index];
    }
    rising
}

/// What the newer version does without, most of it step by step.
fn findings(older: &Plan, newer: &Plan) -> Vec<Finding> {
    let mut found: Vec<Finding> = fewer_approvals(older, newer).into_iter().collect();
    found.extend(moved_point_of_no_return(older, newer));
    for (no, step) in newer.numbered_steps() {
        let Some(before) = older.find_step(step.id.as_str()).map(|no| older.step(no)) else { continue };
        let path = format!("steps[{}]", no.index());
        let of_step = step_findings(before, step, &path);
        found.extend(of_step.into_iter().map(|one| Finding { step: Some(step.id.to_string()), ..one }));
    }
    found.extend(new_tools(older, newer));
    found
}

/// What a step does without that it had before.
fn step_findings(before: &Step, step: &Step, path: &str) -> Vec<Finding> {
    let id = &step.id;
    let mut found = Vec::new();
    if before.compensation.is_some() && step.compensation.is_none() && !step.read_only {
        let message = format!("nothing undoes step `{id}` any more");
        let cure = "give it a compensation again, unless its effect may stay";
        found.push(Finding::warning("compensation_lost", format!("{path}.compensation"), message, cure));
    }
    if before.cancellable < step.cancellable {
        let message = format!("step `{id}` was {}, and is {}", before.cancellable, step.cancellable);
        let cure = "check that its effect really may stay";
        found.push(Finding::warning("reversibility_weakened", format!("{path}.cancellable"), message, cure));
    }
    if before.approval && !step.approval {
        let message = format!("step `{id}` no longer waits for an approval");
        let cure = "set it to `required` again, unless nobody has to look at it";
        found.push(Finding::warning("approval_weakened", format!("{path}.approval"), message, cure));
    }
    if !before.idempotent && step.idempotent {
        let message = format!("step `{id}` may be sent twice now, where its outcome is unknown");
        let cure = "check that a second call does no harm";
        found.push(Finding::warning("repeat_allowed", format!("{path}.idempotent"), message, cure));
    }
    if before.probe.is_some() && step.probe.is_none() {
        let message = format!("nothing finds out any more whether step `{id}` took effect");
        let cure = "give it a probe again, or be ready to answer an unknown outcome";
        found.push(Finding::warning("probe_lost", format!("{path}.probe"), message, cure));
    }
    found
}

/// The policy asks for fewer approvals.
fn fewer_approvals(older: &Plan, newer: &Plan) -> Option<Finding> {
    use PlanApproval::{AtPointOfNoReturn, EveryWrite, None as Nothing, Plan as Whole};
    let (before, after) = (older.policy.approval, newer.policy.approval);
    let is_weaker = match (before, after) {
        (Nothing, _) | (_, EveryWrite) => false,
        (_, Nothing) | (EveryWrite, Whole | AtPointOfNoReturn) => true,
        (Whole | AtPointOfNoReturn, Whole | AtPointOfNoReturn) => false,
    };
    let message = format!("the plan asked for approval `{before}`, and asks for `{after}`");
    let cure = "set it back, unless nobody has to look at the calls in between";
    is_weaker.then(|| Finding::warning("approval_weakened", "policy.approval", message, cure))
}

/// The step from which on not everything can be undone is another one.
fn moved_point_of_no_return(older: &Plan, newer: &Plan) -> Option<Finding> {
    let id = |plan: &Plan| point_of_no_return(plan).map(|no| plan.step(no).id.clone());
    let (before, after) = (id(older), id(newer));
    let code = "point_of_no_return_moved";
    let cure = "check that what runs before it is all that has to be right by then";
    match (&before, &after) {
        (before, after) if before == after => None,
        (None, Some(step)) => {
            let message = format!("everything could be undone; from step `{step}` on it no longer can");
            Some(Finding::warning(code, "steps", message, cure))
        }
        (Some(step), None) => {
            let message = format!("everything can be undone; before, this ended with step `{step}`");
            Some(Finding::note(code, "steps", message, "nothing has to be done"))
        }
        (before, after) => {
            let names = [before, after].map(|step| step.as_ref().map_or("none", StepId::as_str));
            let message =
                format!("the point of no return was step `{}`, and is step `{}`", names[0], names[1]);
            Some(Finding::warning(code, "steps", message, cure))
        }
    }
}

/// Tools that the older version does not call, each where the newer one names it first.
fn new_tools(older: &Plan, newer: &Plan) -> Vec<Finding> {
    let mut known: BTreeSet<&str> = older.named_tools().into_iter().map(|(_, tool)| tool).collect();
    let named = newer.named_tools();
    let unknown = named.iter().filter(|(_, tool)| known.insert(tool));
    let finding = |(path, tool): &(String, &str)| {
        let message = format!("`{tool}` was not called before");
        Finding::warning("new_tool", path, message, "check what it does, and that it may be called")
    };
    unknown.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_rising_sequence_leaves_out_the_fewest() {
        let rising = |numbers: &[usize]| longest_rising(numbers).into_iter().collect::<Vec<_>>();
        assert_eq!(rising(&[]), [0_usize; 0]);
        assert_eq!(rising(&[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(rising(&[3, 0, 1, 2]), [0, 1, 2], "the last step was moved to the front");
        assert_eq!(rising(&[1, 2, 3, 0]), [1, 2, 3], "the first step was moved to the end");
        assert_eq!(rising(&[2, 1, 0]).len(), 1);
    }
}
