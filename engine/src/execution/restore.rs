//! Restoring files: the undo of a session's calls whose files were kept. Files are restored by path: to the state
//! before the earliest undone call, where the path still holds what the latest left. Where a path was changed between
//! two calls by something else, the calls before that are a run of their own, and a person is asked about them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::evolve::Execution;
use super::follow::{LoadedPayloads, MissingPayloads};
use super::state::{ExecutionState, PayloadRef};
use crate::bind::BindError;
use crate::event::StateMoment;
use crate::id::{Position, StepId, StepNo};
use crate::policy::{ErrorCategory, RESTORE_TOOL, StepStatus};

/// What one call did to one path.
struct PathChange<'a> {
    before: &'a Value,
    /// `None`: what the call left there was not seen.
    after: Option<&'a Value>,
    before_at: Position,
    after_at: Option<Position>,
}

/// One call's changes, by path.
struct CallChanges<'a> {
    step: StepNo,
    paths: BTreeMap<&'a str, PathChange<'a>>,
}

/// What people have answered about what the restores of this undo found changed.
struct RestoreAnswers {
    /// The states that the step's restore may replace all the same, by path.
    consent: BTreeMap<String, Value>,
    /// The paths that the restore of a step left as they are. `None`: nobody knows which, so all of the step's.
    left: BTreeMap<StepNo, Option<BTreeSet<String>>>,
}

impl RestoreAnswers {
    fn leaves(&self, step: StepNo, path: &str) -> bool {
        let left = self.left.get(&step);
        left.is_some_and(|paths| paths.as_ref().is_none_or(|paths| paths.contains(path)))
    }
}

impl ExecutionState {
    /// Whether the undo of this step restores files that were kept around its call.
    pub fn restores_files(&self, no: StepNo) -> bool {
        self.plan.step(no).compensation.as_ref().and_then(|undo| undo.tool()) == Some(RESTORE_TOOL)
    }

    /// Whether a call to this tool, and no restore of files, undoes a step.
    pub fn undoes_by(&self, tool: &str) -> bool {
        let undo = |no: StepNo| self.plan.step(no).compensation.as_ref().and_then(|undo| undo.tool());
        tool != RESTORE_TOOL && self.step_numbers().any(|no| undo(no) == Some(tool))
    }

    /// Whether the undo of this step stopped because something else has changed since what the call left.
    pub fn asks_to_undo_changed(&self, no: StepNo) -> bool {
        let last = self.step(no).last_compensation();
        self.step(no).status() == StepStatus::CompensationFailed
            && last.is_some_and(|last| last.category == Some(ErrorCategory::Policy))
    }

    /// Whether the step's files are still to be restored, by an undo of `selection`.
    fn is_to_be_restored(&self, no: StepNo, selection: Option<&[StepId]>) -> bool {
        let step = self.step(no);
        self.restores_files(no)
            && !step.undo.outside_selection
            && !self.is_outside_selection(no, selection)
            && !step.attempts_to_undo(self.rules(no)).is_empty()
    }
}

/// The arguments that restore the files of a step's call. The inner `Err`: nothing was kept of them.
pub(super) fn restore_arguments(
    execution: &Execution,
    no: StepNo,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Result<Value, BindError>, MissingPayloads> {
    let mut order: Vec<StepNo> =
        execution.step_numbers().filter(|other| execution.is_to_be_restored(*other, selection)).collect();
    order.sort_by_key(|other| execution.undo_rank(*other));
    let kept = load_kept(execution, &order, values)?;
    let Some(own_before) = kept.get(&no).and_then(|(before, _)| before.as_ref()) else {
        let message = "nothing was kept of what this call changed".to_owned();
        return Ok(Err(BindError { path: "before".into(), message }));
    };
    let calls: Vec<CallChanges<'_>> =
        order.iter().filter_map(|step| kept.get(step).map(|kept| call_changes(*step, kept))).collect();
    let answers = RestoreAnswers {
        consent: consented_states(execution, no, values)?,
        left: left_paths(execution, &order, values)?,
    };
    let own = calls.iter().find(|call| call.step == no).expect("the step itself is to be restored");
    if let Some(message) = unseen_changes(execution, no, own, &kept[&no]) {
        return Ok(Err(BindError { path: "after".into(), message: message.to_owned() }));
    }
    let goals = own.paths.keys().filter_map(|path| goal(&calls, no, path, &answers));
    let files: Vec<Value> = goals.collect();
    let field = |name: &str| own_before.1.get(name).cloned().unwrap_or_default();
    Ok(Ok(json!({ "folder": field("folder"), "machine": field("machine"), "files": files })))
}

/// Why what a call did cannot be told from what was kept; `None`: it can. Of a whole folder, the changed paths are
/// known only from the state after the call; and what a server does beside its files nobody sees.
fn unseen_changes(
    execution: &Execution,
    no: StepNo,
    own: &CallChanges<'_>,
    (before, after): &(KeptState<'_>, KeptState<'_>),
) -> Option<&'static str> {
    let is_of_folder = before.is_some_and(|(_, before)| before.get("place").is_some());
    if is_of_folder && after.and_then(|(_, after)| object(after, "was")).is_none() {
        return Some("what this call changed was not kept");
    }
    let is_of_server = execution.plan.step(no).tool().is_some_and(|tool| !tool.starts_with("client/"));
    (is_of_server && own.paths.is_empty())
        .then_some("this call changed no file, and its server may have done more")
}

/// A kept state with its entry's position.
type KeptState<'a> = Option<(Position, &'a Value)>;

/// The kept states before and after each of these steps' calls.
fn load_kept<'a>(
    execution: &Execution,
    steps: &[StepNo],
    values: &'a LoadedPayloads,
) -> Result<BTreeMap<StepNo, (KeptState<'a>, KeptState<'a>)>, MissingPayloads> {
    let mut missing = Vec::new();
    let mut load = |stored: Option<PayloadRef>| -> KeptState<'a> {
        let position = stored?.position;
        let found = values.0.get(&position);
        if found.is_none() {
            missing.push(position);
        }
        found.map(|value| (position, &**value))
    };
    let session = execution.session.as_deref();
    let mut kept = BTreeMap::new();
    for no in steps {
        let state = |moment: StateMoment| session.and_then(|session| session.kept_state(*no, moment));
        kept.insert(*no, (load(state(StateMoment::Before)), load(state(StateMoment::After))));
    }
    if missing.is_empty() { Ok(kept) } else { Err(MissingPayloads(missing)) }
}

/// The paths that a call changed. A shell call's are known only after it; `was` are their states before it.
fn call_changes<'a>(step: StepNo, (before, after): &(KeptState<'a>, KeptState<'a>)) -> CallChanges<'a> {
    let mut paths = BTreeMap::new();
    let Some((before_at, before)) = *before else { return CallChanges { step, paths } };
    let after_at = after.map(|(position, _)| position);
    let states_after = after.and_then(|(_, value)| object(value, "files"));
    let was = after.and_then(|(_, value)| object(value, "was"));
    for (path, state) in [object(before, "files"), was].into_iter().flatten().flatten() {
        let left = states_after.map(|states| states.get(path).unwrap_or(state));
        if left != Some(state) {
            let change = PathChange { before: state, after: left, before_at, after_at };
            paths.insert(path.as_str(), change);
        }
    }
    CallChanges { step, paths }
}

fn object<'a>(value: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    value.get(field)?.as_object()
}

/// What a path is to hold after the undo of a call, and what may be replaced. `None`: an answer left a later change of
/// the path in place, so this one stays too.
fn goal(calls: &[CallChanges<'_>], no: StepNo, path: &str, answers: &RestoreAnswers) -> Option<Value> {
    let with_path = calls.iter().filter_map(|call| Some((call.step, call.paths.get(path)?)));
    let chain: Vec<(StepNo, &PathChange<'_>)> = with_path.collect();
    let own = chain.iter().position(|(step, _)| *step == no)?;
    if chain[own + 1..].iter().any(|(step, _)| answers.leaves(*step, path)) {
        return None;
    }
    let follows = |at: usize| is_undisturbed(chain[at].1, chain[at + 1].1);
    let first = (0..own).rev().take_while(|at| follows(*at)).last().unwrap_or(own);
    let last = (own..chain.len() - 1).take_while(|at| follows(*at)).last().map_or(own, |at| at + 1);
    let (goal, own) = (chain[first].1.before, chain[own].1);
    let mut from: Vec<&Value> = chain[last].1.after.into_iter().collect();
    from.extend(answers.consent.get(path));
    from.extend(own.after.filter(|left| is_folder(left) && !from.contains(left)));
    // A folder goes with the call that made it: until then it holds what other calls left in it.
    let to = if is_folder(own.before) && !is_folder(goal) { own.before } else { goal };
    Some(json!({ "path": path, "to": to, "from": from }))
}

fn is_folder(state: &Value) -> bool {
    state.get("kind").is_some_and(|kind| kind == "folder")
}

/// Whether nothing else wrote the path between two calls. Of calls that overlap, and of one whose end was not seen,
/// the order is unknown, and the restore itself compares what is there.
fn is_undisturbed(earlier: &PathChange<'_>, later: &PathChange<'_>) -> bool {
    match (earlier.after, earlier.after_at) {
        (Some(after), Some(after_at)) => after == later.before || later.before_at < after_at,
        (_, _) => true,
    }
}

/// The states that a person agreed to replace: those that an earlier try found changed, and named in its question.
fn consented_states(
    execution: &Execution,
    no: StepNo,
    values: &LoadedPayloads,
) -> Result<BTreeMap<String, Value>, MissingPayloads> {
    let Some(stored) = execution.step(no).undo.consent else { return Ok(BTreeMap::new()) };
    let changed = found_changed(stored, values)?;
    Ok(changed.into_iter().flatten().map(|(path, state)| (path.clone(), state.clone())).collect())
}

/// The steps whose restore was answered with leaving what it had found changed, with the paths that it left: all
/// others of the step were restored.
fn left_paths(
    execution: &Execution,
    steps: &[StepNo],
    values: &LoadedPayloads,
) -> Result<BTreeMap<StepNo, Option<BTreeSet<String>>>, MissingPayloads> {
    let mut left = BTreeMap::new();
    for no in steps.iter().filter(|no| execution.step(**no).undo.left_in_place) {
        let last = execution.step(*no).last_compensation();
        let found = last.filter(|last| last.category == Some(ErrorCategory::Policy));
        let changed = match found.and_then(|last| last.result) {
            Some(stored) => found_changed(stored, values)?,
            None => None,
        };
        left.insert(*no, changed.map(|changed| changed.keys().cloned().collect()));
    }
    Ok(left)
}

/// The paths that a restore found changed, with what they held, from its result. `None`: the result names none.
fn found_changed(
    stored: PayloadRef,
    values: &LoadedPayloads,
) -> Result<Option<&Map<String, Value>>, MissingPayloads> {
    let found = values.0.get(&stored.position).ok_or_else(|| MissingPayloads(vec![stored.position]))?;
    Ok(found.pointer("/output/changed").and_then(Value::as_object))
}
