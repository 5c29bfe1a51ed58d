//! Turns the next automatic action into events. Only here do attempts, probes and compensations start, and
//! `follow` runs only after the driver's commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::call_ending::CallEnding;
use super::command::ReportedOutcome;
use super::decide::to_json_bytes;
use super::due::{CallId, CallKind};
use super::evolve::Execution;
use super::next::{NextAction, next_action};
use super::restore::restore_arguments;
use super::state::PayloadRef;
use super::{NewEvent, Now};
use crate::bind::{BindError, ExpressionScope, ReadSet, ValueTemplate};
use crate::event::*;
use crate::id::{Position, StepId, StepNo};
use crate::plan::{Compensation, CompensationWork, RetryPolicy, StepWork};
use crate::policy::{ErrorCategory, FailureAction, Outcome, PlanApproval, Reversibility, StepStatus};

/// The payloads that are loaded, by the position of the entry that owns them.
#[derive(Debug, Default)]
pub struct LoadedPayloads(pub BTreeMap<Position, Arc<Value>>);

/// The positions of payloads that must be loaded before the call can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPayloads(pub Vec<Position>);

/// The next automatic events; empty where the execution waits. `Err` lists the payloads to load first.
pub fn follow(
    execution: &Execution,
    now: Now,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    match next_action(execution, now.at_ms) {
        None => Ok(Vec::new()),
        Some(action) => to_events(execution, action, now, values),
    }
}

/// The events that carry out an action.
fn to_events(
    execution: &Execution,
    action: NextAction,
    now: Now,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    let id = |no: StepNo| execution.step_id(no);
    let one = |event: Event| Ok(vec![event.into()]);
    match action {
        NextAction::AskPlanApproval => one(PlanApprovalAsked {}.into()),
        NextAction::CancelUnstarted => one(StepsCancelled { steps: unstarted_steps(execution) }.into()),
        NextAction::GiveUpAgentCall(call) => one(agent_call_given_up(execution, call)),
        NextAction::Probe(no) => start_probe(execution, no, values),
        NextAction::ScheduleRetry(no) => {
            one(RetryScheduled { step: id(no), at_ms: retry_at_ms(execution, no, now) }.into())
        }
        NextAction::Retry(no) => Ok(vec![attempt_started(execution, no, None)]),
        NextAction::Settle(no, outcome) => one(step_settled(execution, no, outcome)),
        NextAction::HandleFailure(no) => one(apply_failure_policy(execution, no).into()),
        NextAction::CancelDependents(no) => one(cancel_dependent(execution, no)),
        NextAction::Start(no) => start_step(execution, no, now, values),
        NextAction::ProposeUnwind => {
            one(UnwindProposed { calls: undo_calls(execution, None, values)? }.into())
        }
        NextAction::StartUnwind => one(UnwindStarted { reason: None, calls: Vec::new(), steps: None }.into()),
        NextAction::Compensate { step, attempt } => start_compensation(execution, step, attempt, values),
        NextAction::GiveUpCompensation(no) => one(CompensationGivenUp { step: id(no) }.into()),
        NextAction::End(status) => one(ExecutionEnded { status }.into()),
        NextAction::EndUnwind => one(UnwindEnded {}.into()),
    }
}

/// Ids of the steps that are pending or await approval.
fn unstarted_steps(execution: &Execution) -> Vec<StepId> {
    let is_unstarted = |no: &StepNo| {
        matches!(execution.step(*no).status(), StepStatus::Pending | StepStatus::AwaitingApproval)
    };
    execution.step_numbers().filter(is_unstarted).map(|no| execution.step_id(no)).collect()
}

/// Ends an agent's open call as unknown with category `timeout`.
fn agent_call_given_up(execution: &Execution, call: CallId) -> Event {
    CallEnding::new(Outcome::Unknown, Some(ErrorCategory::Timeout)).into_event(execution, call)
}

/// The event that ends a step with the outcome of its attempts.
fn step_settled(execution: &Execution, no: StepNo, outcome: Outcome) -> Event {
    let step = execution.step_id(no);
    let category = execution
        .step(no)
        .last_counted_attempt()
        .and_then(|attempt| attempt.category)
        .unwrap_or(ErrorCategory::Internal);
    match outcome {
        Outcome::Succeeded => StepSucceeded { step }.into(),
        Outcome::Failed => StepFailed { step, category, result: None }.into(),
        Outcome::Unknown => StepUnknown { step, category }.into(),
    }
}

/// The time of the next attempt, in Unix milliseconds: exponential backoff less a random part of up to half,
/// and no sooner than the server asked for.
fn retry_at_ms(execution: &Execution, no: StepNo, now: Now) -> i64 {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    let (retry, tries): (RetryPolicy, u32) = match &spec.compensation {
        Some(compensation) if step.status() == StepStatus::Compensating => {
            (execution.compensation_retry(compensation), step.undo_tries())
        }
        Some(_) | None => (execution.step_retry(spec), step.retry.tries),
    };
    let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX);
    let backoff_ms = (retry.backoff_ms as f64 * retry.factor.powi(exponent)).min(retry.max_backoff_ms as f64);
    let fraction = 0.5 + 0.5 * (now.random >> 11) as f64 / (1u64 << 53) as f64;
    let at_ms = now.at_ms + (backoff_ms * fraction) as i64;
    at_ms.max(step.retry.not_before_ms.unwrap_or(at_ms))
}

/// Applies the failure policy of a failed step to the steps that have not started.
fn apply_failure_policy(execution: &Execution, no: StepNo) -> FailureHandled {
    let spec = execution.plan.step(no);
    let may_end = |other: &StepNo| {
        let step = execution.step(*other);
        *other != no
            && !step.forced
            && matches!(step.status(), StepStatus::Pending | StepStatus::AwaitingApproval)
    };
    let ids = |set: BTreeSet<StepNo>| {
        set.into_iter().filter(may_end).map(|other| execution.step_id(other)).collect()
    };
    let (cancelled, skipped) = match execution.failure_action(no) {
        None | Some(FailureAction::ManualDecision) => (Vec::new(), Vec::new()),
        Some(FailureAction::CancelAll) => (ids(execution.step_numbers().collect()), Vec::new()),
        Some(FailureAction::ContinueOthers) => (Vec::new(), ids(transitive_dependents(execution, [no]))),
        Some(FailureAction::CancelDependent) => {
            let mut reached: BTreeSet<StepNo> = spec.propagate_to.iter().copied().filter(may_end).collect();
            reached.extend(transitive_dependents(
                execution,
                reached.iter().copied().chain([no]).collect::<Vec<_>>(),
            ));
            (ids(reached), Vec::new())
        }
    };
    FailureHandled { step: spec.id.clone(), cancelled, skipped }
}

/// All steps that depend on one of these, directly or through others. A step that only reads a status does
/// not count.
fn transitive_dependents(execution: &Execution, from: impl IntoIterator<Item = StepNo>) -> BTreeSet<StepNo> {
    let plan = &execution.plan;
    let mut found = BTreeSet::new();
    let mut queue: Vec<StepNo> = from.into_iter().collect();
    while let Some(step) = queue.pop() {
        for &other in &plan.step(step).dependents {
            let depends =
                plan.step(other).dependencies.iter().any(|need| need.step == step && !need.status_read);
            if depends && found.insert(other) {
                queue.push(other);
            }
        }
    }
    found
}

/// Cancels a step that depends on a cancelled step; skips one that depends on a step that a failure skipped.
fn cancel_dependent(execution: &Execution, no: StepNo) -> Event {
    let needs = execution.plan.step(no).dependencies.iter().filter(|need| !need.status_read);
    let unsatisfiable = needs.map(|need| execution.step(need.step)).find(|step| {
        let skipped_by_failure = step.status() == StepStatus::Skipped && step.cause.is_some();
        skipped_by_failure || step.status() == StepStatus::Cancelled
    });
    let steps = vec![execution.step_id(no)];
    match unsatisfiable.and_then(|step| Some((step.status(), step.cause?))) {
        None => StepsCancelled { steps }.into(),
        Some((StepStatus::Skipped, cause)) => {
            FailureHandled { step: execution.step_id(cause), cancelled: Vec::new(), skipped: steps }.into()
        }
        Some((_, cause)) => {
            FailureHandled { step: execution.step_id(cause), cancelled: steps, skipped: Vec::new() }.into()
        }
    }
}

/// Starts a step: checks its condition and the limits, binds its arguments, asks for an approval where one is
/// needed, else writes the intent.
fn start_step(
    execution: &Execution,
    no: StepNo,
    now: Now,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let fails = |category: ErrorCategory, message: &str| {
        Ok(vec![fail_before_sending(execution, no, category, message)])
    };
    if state.next_reply().is_some() {
        // The same call again with the reply to its question: condition, limits and approval still hold.
        return Ok(vec![attempt_started(execution, no, None)]);
    }
    if let (Some(when), false) = (&spec.when, state.forced || state.is_approved()) {
        match when.test(&load_scope(execution, when.reads(), None, values)?) {
            Ok(true) => {}
            Ok(false) => return Ok(vec![StepSkipped { step: spec.id.clone() }.into()]),
            Err(error) => return fails(ErrorCategory::InvalidArguments, &format!("when: {}", error.message)),
        }
    }
    if let (Some(limit), false) = (execution.reached_limit(spec.is_agent_step(), now.at_ms), state.forced) {
        return fails(limit.category(), limit.message());
    }
    if state.is_approved() {
        return Ok(vec![attempt_started(execution, no, None)]);
    }
    let arguments = match step_arguments(execution, no, values)? {
        Ok(bound) => bound.as_deref().map(to_json_bytes),
        Err(error) => return fails(ErrorCategory::InvalidArguments, &error.to_string()),
    };
    if needs_approval(execution, no) {
        let digest = arguments.as_deref().map(|body| execution.digest_payload(body));
        let pin = spec.tool().and_then(|tool| execution.pin(tool));
        let event = ApprovalAsked { step: spec.id.clone(), arguments: digest, pin };
        return Ok(vec![NewEvent { event: event.into(), payload: arguments }]);
    }
    Ok(vec![attempt_started(execution, no, arguments)])
}

/// A step's arguments: those that an answer corrected, else the plan's, bound. `None` for a literal action.
fn step_arguments(
    execution: &Execution,
    no: StepNo,
    values: &LoadedPayloads,
) -> Result<Result<Option<Arc<Value>>, BindError>, MissingPayloads> {
    if let Some(corrected) = execution.step(no).corrected_arguments {
        let loaded = values.0.get(&corrected.position).cloned();
        return loaded.map(|value| Ok(Some(value))).ok_or(MissingPayloads(vec![corrected.position]));
    }
    let template = match &execution.plan.step(no).work {
        StepWork::Tool { arguments, .. } | StepWork::AgentTool { arguments, .. } => Some(arguments),
        // A literal text needs no payload: the plan has it.
        StepWork::Action { text, .. } => Some(text).filter(|text| text.as_literal().is_none()),
    };
    let Some(template) = template else { return Ok(Ok(None)) };
    let bound = template.bind(&load_scope(execution, template.reads(), None, values)?);
    Ok(bound.map(|value| Some(Arc::new(value))))
}

/// The intent of the step's next attempt; without `payload` it sends the approved or previous arguments.
fn attempt_started(execution: &Execution, no: StepNo, payload: Option<Vec<u8>>) -> NewEvent {
    let arguments = payload.as_deref().map(|body| execution.digest_payload(body));
    let number = execution.step(no).attempts.len() as u32 + 1;
    let event = AttemptStarted { step: execution.step_id(no), attempt: number, arguments, node: None };
    NewEvent { event: event.into(), payload }
}

/// The payload of an error that Actbook itself raises.
fn message_payload(message: &str) -> Vec<u8> {
    to_json_bytes(&json!({ "message": message }))
}

/// Fails a step before anything is sent.
fn fail_before_sending(
    execution: &Execution,
    no: StepNo,
    category: ErrorCategory,
    message: &str,
) -> NewEvent {
    let payload = message_payload(message);
    let result = Some(execution.digest_payload(&payload));
    NewEvent {
        event: StepFailed { step: execution.step_id(no), category, result }.into(),
        payload: Some(payload),
    }
}

/// Whether the step waits for an approval: by its own rules or by the plan's policy.
fn needs_approval(execution: &Execution, no: StepNo) -> bool {
    let rules = execution.rules(no);
    let by_policy = match execution.plan.policy.approval {
        PlanApproval::None | PlanApproval::Plan => false,
        PlanApproval::EveryWrite => !rules.read_only,
        PlanApproval::AtPointOfNoReturn => {
            let is_covered = execution.past_point_of_no_return && !execution.step(no).forced;
            rules.cancellable != Reversibility::Reversible && !is_covered
        }
    };
    rules.needs_approval || by_policy
}

/// Collects the values that an expression reads; a step without output yields null. `own` is the attempt, by
/// step and index, whose arguments and output a probe or compensation reads.
pub(super) fn load_scope(
    execution: &Execution,
    reads: &ReadSet,
    own: Option<(StepNo, u32)>,
    values: &LoadedPayloads,
) -> Result<ExpressionScope, MissingPayloads> {
    let mut missing = Vec::new();
    let mut load = |stored: Option<PayloadRef>| match stored {
        None => Arc::new(Value::Null),
        Some(stored) => values.0.get(&stored.position).cloned().unwrap_or_else(|| {
            missing.push(stored.position);
            Arc::default()
        }),
    };
    let state_of = |id: &String| execution.plan.find_step(id).map(|no| execution.step(no));
    let mut scope = ExpressionScope { execution_id: execution.id.to_string(), ..ExpressionScope::default() };
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
    if let Some((no, index)) = own {
        let attempt = &execution.step(no).attempts[index as usize];
        scope.arguments = reads.own_arguments.then(|| load(attempt.arguments));
        scope.output = reads.own_output.then(|| load(attempt.result.filter(|_| attempt.has_succeeded())));
        if reads.own_before {
            let kept = execution.session.as_ref().and_then(|session| session.call(no).before);
            scope.facts.insert("before", load(kept));
        }
    }
    if missing.is_empty() { Ok(scope) } else { Err(MissingPayloads(missing)) }
}

/// Starts the probe of the last attempt. Where its arguments cannot be bound it ends at once with an error.
fn start_probe(
    execution: &Execution,
    no: StepNo,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let probe = spec.probe.as_ref().expect("a probe is due only where the step has one");
    let index = state.attempts.len() as u32 - 1;
    let (step, attempt) = (spec.id.clone(), index + 1);
    let bound =
        probe.arguments.bind(&load_scope(execution, probe.arguments.reads(), Some((no, index)), values)?);
    let (event, payload): (Event, Vec<u8>) = match bound {
        Ok(bound) => {
            let payload = to_json_bytes(&bound);
            (ProbeStarted { step, attempt, arguments: execution.digest_payload(&payload) }.into(), payload)
        }
        Err(error) => {
            let payload = message_payload(&error.to_string());
            let result = Some(execution.digest_payload(&payload));
            (ProbeEnded { step, attempt, found: ProbeFinding::Error, result }.into(), payload)
        }
    };
    Ok(vec![NewEvent { event, payload: Some(payload) }])
}

/// Evaluates the plan's `happened` on the probe's output: did the attempt take effect?
pub(super) fn evaluate_probe(
    execution: &Execution,
    call: CallId,
    outcome: &ReportedOutcome,
    values: &LoadedPayloads,
) -> Result<ProbeFinding, MissingPayloads> {
    let ReportedOutcome::Succeeded { output } = outcome else { return Ok(ProbeFinding::Error) };
    let Some(probe) = &execution.plan.step(call.step).probe else { return Ok(ProbeFinding::Error) };
    let mut reads = probe.happened.reads().clone();
    reads.own_output = false;
    let mut scope = load_scope(execution, &reads, Some((call.step, call.index)), values)?;
    scope.output = Some(Arc::new(output.clone()));
    Ok(match probe.happened.test(&scope) {
        Ok(true) => ProbeFinding::Happened,
        Ok(false) => ProbeFinding::DidNotHappen,
        Err(_) => ProbeFinding::Error,
    })
}

/// Starts the compensation of the attempt with index `target`, or proposes it where it lacks an approval.
/// Where its arguments cannot be bound it ends at once as failed.
fn start_compensation(
    execution: &Execution,
    no: StepNo,
    target: u32,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    let step = execution.step_id(no);
    let number = execution.step(no).compensations.len() as u32 + 1;
    let attempt = target + 1;
    let bound = bind_undo_arguments(execution, no, target, None, values)?;
    let payload = bound.as_ref().ok().map(to_json_bytes);
    let arguments = payload.as_deref().map(|body| execution.digest_payload(body));
    if bound.is_ok() && execution.lacks_undo_approval(no, target, arguments.map(|arguments| arguments.digest))
    {
        return Ok(vec![UnwindProposed { calls: unapproved_undo_calls(execution, values)? }.into()]);
    }
    let event = CompensationStarted { step, compensation: number, attempt, arguments };
    let mut events = vec![NewEvent { event: event.into(), payload }];
    if let Err(error) = bound {
        let payload = message_payload(&error.to_string());
        let call = CallId { step: no, kind: CallKind::Compensation, index: number - 1 };
        let failed = CallEnding::new(Outcome::Failed, Some(ErrorCategory::InvalidArguments));
        let ending = CallEnding { result: Some(execution.digest_payload(&payload)), unsent: true, ..failed };
        let event = ending.into_event(execution, call);
        events.push(NewEvent { event, payload: Some(payload) });
    }
    Ok(events)
}

/// Binds a compensation's arguments (or an action's text) for the attempt with index `target`. `selection`: the only
/// steps that an undo would cover which has not begun. The inner `Err`: they cannot be bound; the outer: payloads to
/// load first. Null where the step has no compensation.
pub fn bind_undo_arguments(
    execution: &Execution,
    no: StepNo,
    target: u32,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Result<Value, BindError>, MissingPayloads> {
    if execution.restores_files(no) {
        return restore_arguments(execution, no, selection, values);
    }
    let compensation = execution.plan.step(no).compensation.as_ref();
    let template: &ValueTemplate = match compensation.map(|compensation| &compensation.work) {
        Some(CompensationWork::Tool { arguments, .. }) => arguments,
        Some(CompensationWork::Action { action }) => action,
        None => return Ok(Ok(Value::Null)),
    };
    Ok(template.bind(&load_scope(execution, template.reads(), Some((no, target)), values)?))
}

/// The compensation calls that an unwinding of these steps (`None`: of all) would make as of now, in its order.
pub(super) fn undo_calls(
    execution: &Execution,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Vec<UndoCall>, MissingPayloads> {
    let steps = execution.undoable_steps(selection);
    let ordered: BTreeSet<(u32, StepNo)> = steps.map(|no| (execution.undo_rank(no), no)).collect();
    let mut calls = Vec::new();
    let mut missing = Vec::new();
    for (_, no) in ordered.into_iter().rev() {
        for target in execution.step(no).attempts_to_undo(execution.rules(no)).into_iter().rev() {
            match undo_call(execution, no, target, selection, values) {
                Ok(call) => calls.extend(call),
                Err(MissingPayloads(more)) => missing.extend(more),
            }
        }
    }
    if missing.is_empty() { Ok(calls) } else { Err(MissingPayloads(missing)) }
}

/// The compensation call of one attempt; `None` where an agent or a person undoes the step.
fn undo_call(
    execution: &Execution,
    no: StepNo,
    target: u32,
    selection: Option<&[StepId]>,
    values: &LoadedPayloads,
) -> Result<Option<UndoCall>, MissingPayloads> {
    let Some(tool) = execution.plan.step(no).compensation.as_ref().and_then(Compensation::tool) else {
        return Ok(None);
    };
    let bound = bind_undo_arguments(execution, no, target, selection, values)?;
    let arguments = bound.ok().map(|bound| execution.digest_payload(&to_json_bytes(&bound)).digest);
    let (step, pin) = (execution.step_id(no), execution.pin(tool));
    Ok(Some(UndoCall { step, attempt: target + 1, tool: tool.to_owned(), arguments, pin }))
}

/// The compensation calls under approval whose current arguments and pin are not approved.
fn unapproved_undo_calls(
    execution: &Execution,
    values: &LoadedPayloads,
) -> Result<Vec<UndoCall>, MissingPayloads> {
    let mut calls = undo_calls(execution, None, values)?;
    calls.retain(|call| {
        let no = execution.plan.find_step(call.step.as_str());
        no.is_some_and(|no| execution.lacks_undo_approval(no, call.attempt - 1, call.arguments))
    });
    Ok(calls)
}
