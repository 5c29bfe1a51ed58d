//! What follows by itself, as events. Only the driver's commands are followed, so only here do
//! attempts, probes and compensations start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::command::Ended;
use super::decide::bytes;
use super::due::{CallId, CallKind};
use super::ending::Ending;
use super::next::{Next, next};
use super::state::{Execution, Stored};
use super::{Fresh, Now};
use crate::bind::{Reads, Scope, Template, Unbound};
use crate::event::*;
use crate::id::{Position, StepId, StepNo};
use crate::plan::{Compensation, Retry, Undo, Work};
use crate::policy::{Cancellable, Category, FailureAction, Outcome, PlanApproval, StepStatus};

/// Payloads by the position of the entry that owns them, as far as they have been loaded.
#[derive(Debug, Default)]
pub struct Values(pub BTreeMap<Position, Arc<Value>>);

/// Payloads that must be loaded before the question can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<Position>);

/// The next events that follow by themselves; none: the execution waits.
pub fn follow(execution: &Execution, now: Now, values: &Values) -> Result<Vec<Fresh>, Missing> {
    match next(execution, now.at_ms) {
        None => Ok(Vec::new()),
        Some(what) => realise(execution, what, now, values),
    }
}

fn realise(execution: &Execution, what: Next, now: Now, values: &Values) -> Result<Vec<Fresh>, Missing> {
    let id = |no: StepNo| execution.step_id(no);
    let one = |event: Event| Ok(vec![event.into()]);
    match what {
        Next::AskForPlan => one(PlanApprovalAsked {}.into()),
        Next::CancelUnstarted => one(StepsCancelled { steps: unstarted(execution) }.into()),
        Next::TakeBack(call) => one(taken_back(execution, call)),
        Next::Probe(no) => probe(execution, no, values),
        Next::ScheduleRetry(no) => {
            one(RetryScheduled { step: id(no), at_ms: retry_at(execution, no, now) }.into())
        }
        Next::Retry(no) => Ok(vec![attempt(execution, no, None)]),
        Next::Settle(no, outcome) => one(settled(execution, no, outcome)),
        Next::HandleFailure(no) => one(failure_handled(execution, no).into()),
        Next::Doom(no) => one(doomed(execution, no)),
        Next::Start(no) => start(execution, no, now, values),
        Next::Propose => one(UnwindProposed { calls: undo_calls(execution, values)? }.into()),
        Next::Unwind => one(UnwindStarted { reason: None, calls: Vec::new() }.into()),
        Next::Undo { step, attempt } => undo(execution, step, attempt, values),
        Next::GiveUpUndo(no) => one(CompensationGivenUp { step: id(no) }.into()),
        Next::End(status) => one(ExecutionEnded { status }.into()),
    }
}

fn unstarted(execution: &Execution) -> Vec<StepId> {
    let waits = |no: &StepNo| {
        matches!(execution.step(*no).status(), StepStatus::Pending | StepStatus::AwaitingApproval)
    };
    execution.numbers().filter(waits).map(|no| execution.step_id(no)).collect()
}

fn taken_back(execution: &Execution, call: CallId) -> Event {
    Ending::new(Outcome::Unknown, Some(Category::Timeout)).of(execution, call)
}

fn settled(execution: &Execution, no: StepNo, outcome: Outcome) -> Event {
    let step = execution.step_id(no);
    let category = execution
        .step(no)
        .last_that_counts()
        .and_then(|attempt| attempt.category)
        .unwrap_or(Category::Internal);
    match outcome {
        Outcome::Succeeded => StepSucceeded { step }.into(),
        Outcome::Failed => StepFailed { step, category, result: None }.into(),
        Outcome::Unknown => StepUnknown { step, category }.into(),
    }
}

/// Exponential backoff, with a jitter that takes off up to half; no sooner than the server asked for.
fn retry_at(execution: &Execution, no: StepNo, now: Now) -> i64 {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    let (retry, tries): (Retry, u32) = match (&spec.compensation, step.last_compensation()) {
        (Some(compensation), Some(last)) if step.status() == StepStatus::Compensating => {
            (execution.undo_retry(compensation), step.undo_tries(last.attempt))
        }
        _ => (execution.retry(spec), step.tries),
    };
    let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX);
    let whole = (retry.backoff_ms as f64 * retry.factor.powi(exponent)).min(retry.max_backoff_ms as f64);
    let share = 0.5 + 0.5 * (now.dice >> 11) as f64 / (1u64 << 53) as f64;
    let backoff = now.at_ms + (whole * share) as i64;
    backoff.max(step.not_before_ms.unwrap_or(backoff))
}

/// What the failure policy of a failed step does to others that have not started.
fn failure_handled(execution: &Execution, no: StepNo) -> FailureHandled {
    let spec = execution.plan.step(no);
    let open = |other: &StepNo| {
        let step = execution.step(*other);
        *other != no
            && !step.forced
            && matches!(step.status(), StepStatus::Pending | StepStatus::AwaitingApproval)
    };
    let name =
        |set: BTreeSet<StepNo>| set.into_iter().filter(open).map(|other| execution.step_id(other)).collect();
    let (cancelled, skipped) = match execution.failure_action(no) {
        None | Some(FailureAction::ManualDecision) => (Vec::new(), Vec::new()),
        Some(FailureAction::CancelAll) => (name(execution.numbers().collect()), Vec::new()),
        Some(FailureAction::ContinueOthers) => (Vec::new(), name(dependants(execution, [no]))),
        Some(FailureAction::CancelDependent) => {
            let named = spec.propagate_to.iter().copied().filter(open);
            let mut reached: BTreeSet<StepNo> = named.collect();
            reached.extend(dependants(execution, reached.iter().copied().chain([no]).collect::<Vec<_>>()));
            (name(reached), Vec::new())
        }
    };
    FailureHandled { step: spec.id.clone(), cancelled, skipped }
}

/// All that need one of these, directly or through others. Reading a status makes no dependant.
fn dependants(execution: &Execution, from: impl IntoIterator<Item = StepNo>) -> BTreeSet<StepNo> {
    let plan = &execution.plan;
    let mut found = BTreeSet::new();
    let mut open: Vec<StepNo> = from.into_iter().collect();
    while let Some(step) = open.pop() {
        for &other in &plan.step(step).needed_by {
            let ordinary = plan.step(other).needs.iter().any(|need| need.step == step && !need.status_read);
            if ordinary && found.insert(other) {
                open.push(other);
            }
        }
    }
    found
}

/// What depends on a cancelled step is cancelled; on one that a failure skipped, skipped.
fn doomed(execution: &Execution, no: StepNo) -> Event {
    let needs = execution.plan.step(no).needs.iter().filter(|need| !need.status_read);
    let dead = needs.map(|need| execution.step(need.step)).find(|step| {
        let skipped_by_failure = step.status() == StepStatus::Skipped && step.cause.is_some();
        skipped_by_failure || step.status() == StepStatus::Cancelled
    });
    let steps = vec![execution.step_id(no)];
    match dead.and_then(|step| Some((step.status(), step.cause?))) {
        None => StepsCancelled { steps }.into(),
        Some((StepStatus::Skipped, cause)) => {
            FailureHandled { step: execution.step_id(cause), cancelled: Vec::new(), skipped: steps }.into()
        }
        Some((_, cause)) => {
            FailureHandled { step: execution.step_id(cause), cancelled: steps, skipped: Vec::new() }.into()
        }
    }
}

/// Starts a step: its condition, the limits, its arguments, the approval it needs, and then the intent.
fn start(execution: &Execution, no: StepNo, now: Now, values: &Values) -> Result<Vec<Fresh>, Missing> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let fails = |category: Category, message: &str| Ok(vec![unsendable(execution, no, category, message)]);
    if state.answering.is_some() {
        // The same call again, with what it asked for: nothing is decided anew.
        return Ok(vec![attempt(execution, no, None)]);
    }
    if let (Some(when), false) = (&spec.when, state.forced || state.approved) {
        match when.test(&scope(execution, when.reads(), None, values)?) {
            Ok(true) => {}
            Ok(false) => return Ok(vec![StepSkipped { step: spec.id.clone() }.into()]),
            Err(error) => return fails(Category::InvalidArguments, &format!("when: {}", error.message)),
        }
    }
    if let (Some(spent), false) = (execution.spent(spec.by_agent(), now.at_ms), state.forced) {
        return fails(spent.category(), spent.message());
    }
    if state.approved {
        return Ok(vec![attempt(execution, no, None)]);
    }
    let arguments = match step_arguments(execution, no, values)? {
        Ok(bound) => bound.as_deref().map(bytes),
        Err(error) => return fails(Category::InvalidArguments, &error.to_string()),
    };
    if needs_approval(execution, no) {
        let kept = arguments.as_deref().map(|body| execution.keep(body));
        let pin = spec.tool().and_then(|tool| execution.pin(tool));
        let event = ApprovalAsked { step: spec.id.clone(), arguments: kept, pin };
        return Ok(vec![Fresh { event: event.into(), payload: arguments }]);
    }
    Ok(vec![attempt(execution, no, arguments)])
}

/// What a step sends: what an answer corrected, else what the plan binds; none for a literal action.
fn step_arguments(
    execution: &Execution,
    no: StepNo,
    values: &Values,
) -> Result<Result<Option<Arc<Value>>, Unbound>, Missing> {
    if let Some(corrected) = execution.step(no).corrected {
        let loaded = values.0.get(&corrected.position).cloned();
        return loaded.map(|value| Ok(Some(value))).ok_or(Missing(vec![corrected.position]));
    }
    let template = match &execution.plan.step(no).work {
        Work::Tool { arguments, .. } | Work::AgentTool { arguments, .. } => Some(arguments),
        // A text that is always the same is in the plan.
        Work::Action { text, .. } => Some(text).filter(|text| text.literal().is_none()),
    };
    let Some(template) = template else { return Ok(Ok(None)) };
    let bound = template.bind(&scope(execution, template.reads(), None, values)?);
    Ok(bound.map(|value| Some(Arc::new(value))))
}

fn attempt(execution: &Execution, no: StepNo, payload: Option<Vec<u8>>) -> Fresh {
    let arguments = payload.as_deref().map(|body| execution.keep(body));
    let number = execution.step(no).attempts.len() as u32 + 1;
    let event = AttemptStarted { step: execution.step_id(no), attempt: number, arguments };
    Fresh { event: event.into(), payload }
}

fn said(message: &str) -> Vec<u8> {
    bytes(&json!({ "message": message }))
}

/// The step fails before anything is sent.
fn unsendable(execution: &Execution, no: StepNo, category: Category, message: &str) -> Fresh {
    let payload = said(message);
    let result = Some(execution.keep(&payload));
    Fresh {
        event: StepFailed { step: execution.step_id(no), category, result }.into(),
        payload: Some(payload),
    }
}

fn needs_approval(execution: &Execution, no: StepNo) -> bool {
    let rules = execution.rules(no);
    let by_policy = match execution.plan.policy.approval {
        PlanApproval::None | PlanApproval::Plan => false,
        PlanApproval::EveryWrite => !rules.read_only,
        PlanApproval::AtPointOfNoReturn => {
            let covered = execution.past_no_return && !execution.step(no).forced;
            rules.cancellable != Cancellable::Reversible && !covered
        }
    };
    rules.approval || by_policy
}

/// The values that an expression reads. What a skipped or empty step gave is null.
pub(super) fn scope(
    execution: &Execution,
    reads: &Reads,
    own: Option<(StepNo, u32)>,
    values: &Values,
) -> Result<Scope, Missing> {
    let mut missing = Vec::new();
    let mut load = |stored: Option<Stored>| match stored {
        None => Arc::new(Value::Null),
        Some(stored) => values.0.get(&stored.position).cloned().unwrap_or_else(|| {
            missing.push(stored.position);
            Arc::default()
        }),
    };
    let state_of = |id: &String| execution.plan.find(id).map(|no| execution.step(no));
    let mut scope = Scope { execution_id: execution.id.to_string(), ..Scope::default() };
    if reads.inputs {
        let empty = || Arc::new(Value::Object(Default::default()));
        scope.inputs = Some(execution.inputs.map_or_else(empty, |inputs| load(Some(inputs))));
    }
    for id in &reads.outputs {
        scope.outputs.insert(id.clone(), load(state_of(id).and_then(|state| state.output)));
    }
    for id in &reads.statuses {
        let status = state_of(id).map_or("pending", |state| state.status().as_str());
        scope.statuses.insert(id.clone(), status);
    }
    if let Some((no, number)) = own {
        let attempt = &execution.step(no).attempts[number as usize];
        scope.arguments = reads.own_arguments.then(|| load(attempt.arguments));
        scope.output = reads.own_output.then(|| load(attempt.result.filter(|_| attempt.succeeded())));
    }
    if missing.is_empty() { Ok(scope) } else { Err(Missing(missing)) }
}

fn probe(execution: &Execution, no: StepNo, values: &Values) -> Result<Vec<Fresh>, Missing> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let probe = spec.probe.as_ref().expect("a probe is due only where the step has one");
    let number = state.attempts.len() as u32 - 1;
    let (step, attempt) = (spec.id.clone(), number + 1);
    let bound = probe.arguments.bind(&scope(execution, probe.arguments.reads(), Some((no, number)), values)?);
    let (event, payload): (Event, Vec<u8>) = match bound {
        Ok(bound) => {
            let payload = bytes(&bound);
            (ProbeStarted { step, attempt, arguments: execution.keep(&payload) }.into(), payload)
        }
        Err(error) => {
            let payload = said(&error.to_string());
            let result = Some(execution.keep(&payload));
            (ProbeEnded { step, attempt, found: Probed::Error, result }.into(), payload)
        }
    };
    Ok(vec![Fresh { event, payload: Some(payload) }])
}

/// What the plan's `happened` makes of the probe's answer.
pub(super) fn probe_found(
    execution: &Execution,
    call: CallId,
    ended: &Ended,
    values: &Values,
) -> Result<Probed, Missing> {
    let Ended::Succeeded { output } = ended else { return Ok(Probed::Error) };
    let Some(probe) = &execution.plan.step(call.step).probe else { return Ok(Probed::Error) };
    let mut reads = probe.happened.reads().clone();
    reads.own_output = false;
    let mut scope = scope(execution, &reads, Some((call.step, call.no)), values)?;
    scope.output = Some(Arc::new(output.clone()));
    Ok(match probe.happened.test(&scope) {
        Ok(true) => Probed::Happened,
        Ok(false) => Probed::DidNotHappen,
        Err(_) => Probed::Error,
    })
}

/// Starts a compensation. Where its arguments cannot be bound it ends at once, and asks.
fn undo(execution: &Execution, no: StepNo, target: u32, values: &Values) -> Result<Vec<Fresh>, Missing> {
    let step = execution.step_id(no);
    let number = execution.step(no).compensations.len() as u32 + 1;
    let attempt = target + 1;
    let bound = undo_arguments(execution, no, target, values)?;
    let payload = bound.as_ref().ok().map(bytes);
    let arguments = payload.as_deref().map(|body| execution.keep(body));
    if bound.is_ok() && execution.lacks_yes(no, target, arguments.map(|kept| kept.digest)) {
        return Ok(vec![UnwindProposed { calls: calls_without_yes(execution, values)? }.into()]);
    }
    let event = CompensationStarted { step, compensation: number, attempt, arguments };
    let mut events = vec![Fresh { event: event.into(), payload }];
    if let Err(error) = bound {
        let payload = said(&error.to_string());
        let call = CallId { step: no, kind: CallKind::Compensation, no: number - 1 };
        let failed = Ending::new(Outcome::Failed, Some(Category::InvalidArguments));
        let event = Ending { result: Some(execution.keep(&payload)), unsent: true, ..failed };
        let event = event.of(execution, call);
        events.push(Fresh { event, payload: Some(payload) });
    }
    Ok(events)
}

/// A compensation's arguments (or an action's text) for one attempt, bound to what is known.
pub fn undo_arguments(
    execution: &Execution,
    no: StepNo,
    target: u32,
    values: &Values,
) -> Result<Result<Value, Unbound>, Missing> {
    let compensation = execution.plan.step(no).compensation.as_ref();
    let template: &Template = match compensation.map(|compensation| &compensation.work) {
        Some(Undo::Tool { arguments, .. }) => arguments,
        Some(Undo::Action { action }) => action,
        None => return Ok(Ok(Value::Null)),
    };
    Ok(template.bind(&scope(execution, template.reads(), Some((no, target)), values)?))
}

/// The calls that an unwinding would make, in its order, as far as they can be told now.
pub(super) fn undo_calls(execution: &Execution, values: &Values) -> Result<Vec<UndoCall>, Missing> {
    let index = &execution.index;
    let left = index.left.iter().map(|no| (execution.plan.order(*no), *no));
    let ordered: BTreeSet<(u32, StepNo)> = index.to_undo.iter().copied().chain(left).collect();
    let mut calls = Vec::new();
    let mut missing = Vec::new();
    for (_, no) in ordered.into_iter().rev() {
        for target in execution.step(no).to_undo(execution.rules(no)).into_iter().rev() {
            match undo_call(execution, no, target, values) {
                Ok(call) => calls.extend(call),
                Err(Missing(more)) => missing.extend(more),
            }
        }
    }
    if missing.is_empty() { Ok(calls) } else { Err(Missing(missing)) }
}

/// One of them; none where an agent or a person does it.
fn undo_call(
    execution: &Execution,
    no: StepNo,
    target: u32,
    values: &Values,
) -> Result<Option<UndoCall>, Missing> {
    let Some(tool) = execution.plan.step(no).compensation.as_ref().and_then(Compensation::tool) else {
        return Ok(None);
    };
    let bound = undo_arguments(execution, no, target, values)?;
    let arguments = bound.ok().map(|bound| execution.keep(&bytes(&bound)).digest);
    let (step, pin) = (execution.step_id(no), execution.pin(tool));
    Ok(Some(UndoCall { step, attempt: target + 1, tool: tool.to_owned(), arguments, pin }))
}

/// The calls under approval that no yes covers as they stand now.
fn calls_without_yes(execution: &Execution, values: &Values) -> Result<Vec<UndoCall>, Missing> {
    let mut calls = undo_calls(execution, values)?;
    calls.retain(|call| {
        let no = execution.plan.find(call.step.as_str());
        no.is_some_and(|no| execution.lacks_yes(no, call.attempt - 1, call.arguments))
    });
    Ok(calls)
}
