//! Commands to sessions. One command appends a step together with its start, its question or its refusal; all that a
//! call depends on is checked once more here, where nothing can change any more before the entry is written.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::command::{CallVerdict, ReportedOutcome, SessionCall, SessionCommand};
use super::super::due::{CallId, CallKind};
use super::super::evolve::Execution;
use super::super::session::{CallAnswer, SessionState, YesRequest};
use super::super::{NewEvent, Now};
use super::{find_step, lost_call_event, record_call_outcome, to_json_bytes, wrong_status_refusal};
use crate::chain::{Digest, with_sorted_keys};
use crate::event::*;
use crate::id::{NodeId, Position, StepId, StepNo};
use crate::policy::{ErrorCategory, StepStatus};
use crate::refusal::{Refusal, StatusAction};

/// The events of a command that only a session takes.
pub(super) fn decide_session_command(
    execution: &Execution,
    command: &SessionCommand,
    now: Now,
) -> Result<Vec<NewEvent>, Refusal> {
    let session = execution.session.as_deref().ok_or(Refusal::NotASession)?;
    match command {
        SessionCommand::AddCall(call) => add_call(execution, session, call, now),
        SessionCommand::StartCall { step, labels, node, before } => {
            let start = CallStart { node, before: before.as_ref() };
            start_waiting_call(execution, session, find_step(execution, step)?, (labels, start), now)
        }
        SessionCommand::StopWaiting { step } => stop_waiting(execution, find_step(execution, step)?),
        SessionCommand::EndCall { step, outcome, after } => {
            end_call(execution, find_step(execution, step)?, outcome, after.as_ref())
        }
        SessionCommand::LoseCalls { node, unsent } => Ok(lose_calls(execution, node, unsent)),
        SessionCommand::KeepState { .. } if execution.erased => Ok(Vec::new()),
        SessionCommand::KeepState { step, moment, state } => {
            Ok(vec![state_kept(execution, find_step(execution, step)?, *moment, state)])
        }
        SessionCommand::ClearLabel { label, reason } => clear_label(session, label, reason),
        SessionCommand::Close { reason, idle_since } => close(execution, reason, *idle_since),
    }
}

/// What the intent of a call carries: who sends it, and the state before it.
#[derive(Clone, Copy)]
struct CallStart<'a> {
    node: &'a Option<NodeId>,
    before: Option<&'a Value>,
}

/// Adds a call as a step, with what becomes of it.
fn add_call(
    execution: &Execution,
    session: &SessionState,
    call: &SessionCall,
    now: Now,
) -> Result<Vec<NewEvent>, Refusal> {
    if execution.is_session_part_over() {
        return Err(Refusal::SessionPartOver);
    }
    if execution.is_session_part_full() {
        return Err(wrong_status_refusal(execution, StatusAction::Call));
    }
    let no = StepNo(execution.steps.len() as u32);
    let step = StepId::new(format!("c{}", no.0 + 1));
    let payload = to_json_bytes(&with_sorted_keys(&call.arguments));
    let arguments = execution.digest_payload(&payload);
    let secrets = call.secrets.as_ref();
    let secrets =
        secrets.map(|secrets| execution.digest_payload(&to_json_bytes(&with_sorted_keys(secrets))).digest);
    let added = step_added(call, &step, arguments, secrets);
    let mut events = vec![NewEvent { event: added.into(), payload: Some(payload) }];
    if let CallVerdict::Refuse { error } = &call.verdict {
        events.push(refused(execution, &step, error));
        return Ok(events);
    }
    if !execution.takes_calls() {
        return Err(wrong_status_refusal(execution, StatusAction::Call));
    }
    if session.labels != call.labels {
        return Err(Refusal::LabelsMoved);
    }
    if let Some(message) = execution.spent_budget(&call.tool, now.at_ms).filter(|_| !call.observed) {
        events.push(refused(execution, &step, &json!({ "message": message })));
        return Ok(events);
    }
    let policy = call.policies.get(&call.tool);
    let (pin, demands_yes) = policy.map_or((None, false), |policy| (policy.pin, policy.approval));
    let start = CallStart { node: &call.node, before: call.before.as_ref() };
    if call.verdict == CallVerdict::Allow && !demands_yes {
        events.extend(start_events(execution, session, &step, &call.adds, start));
        return Ok(events);
    }
    let request = YesRequest {
        tool: &call.tool,
        client_tool: call.client_tool.as_deref(),
        folder: call.folder.as_deref(),
        pin,
        arguments: arguments.digest,
        secrets,
        adds: &call.adds,
    };
    match session.find_yes(request, now.at_ms) {
        Some(asked_by) => {
            events.push(YesSpent { step: step.clone(), asked_by: execution.step_id(asked_by) }.into());
            events.extend(start_events(execution, session, &step, &call.adds, start));
        }
        None => events.push(ApprovalAsked { step, arguments: None, pin }.into()),
    }
    Ok(events)
}

/// The event that adds a call as a step.
fn step_added(
    call: &SessionCall,
    step: &StepId,
    arguments: PayloadDigest,
    secrets: Option<Digest>,
) -> StepAdded {
    StepAdded {
        step: step.clone(),
        tool: call.tool.clone(),
        arguments,
        by_agent: call.by_agent,
        terms: call.policies.clone(),
        servers: call.servers.clone(),
        undo: call.undo.clone(),
        adds: call.adds.clone(),
        call: call.call.clone(),
        agent: call.agent.clone(),
        client_tool: call.client_tool.clone(),
        folder: call.folder.clone(),
        secrets,
        rule: call.rule.clone(),
        note: call.note,
        expires_at_ms: call.expires_at_ms,
        matched: call.matched.clone().map(Box::new),
    }
}

/// The refusal of a call: its step has failed, and nothing was sent.
fn refused(execution: &Execution, step: &StepId, error: &Value) -> NewEvent {
    let payload = to_json_bytes(error);
    let result = Some(execution.digest_payload(&payload));
    let event = StepFailed { step: step.clone(), category: ErrorCategory::Policy, result };
    NewEvent { event: event.into(), payload: Some(payload) }
}

/// The intent of a call: the labels that it adds, the state before it, and its attempt.
fn start_events(
    execution: &Execution,
    session: &SessionState,
    step: &StepId,
    adds: &BTreeSet<String>,
    start: CallStart<'_>,
) -> Vec<NewEvent> {
    let mut events: Vec<NewEvent> = Vec::new();
    let added: BTreeSet<String> = adds.difference(&session.labels).cloned().collect();
    if !added.is_empty() {
        let (step, removed) = (Some(step.clone()), BTreeSet::new());
        events.push(LabelsChanged { step, added, removed, reason: None }.into());
    }
    events.extend(start.before.map(|state| kept(execution, step, StateMoment::Before, state)));
    let (step, node) = (step.clone(), start.node.clone());
    events.push(AttemptStarted { step, attempt: 1, arguments: None, node }.into());
    events
}

/// The state around a step's call, kept for its undo.
fn kept(execution: &Execution, step: &StepId, moment: StateMoment, state: &Value) -> NewEvent {
    let payload = to_json_bytes(state);
    let state = execution.digest_payload(&payload);
    let event = StateKept { step: step.clone(), attempt: 1, moment, state };
    NewEvent { event: event.into(), payload: Some(payload) }
}

fn state_kept(execution: &Execution, no: StepNo, moment: StateMoment, state: &Value) -> NewEvent {
    kept(execution, &execution.step_id(no), moment, state)
}

/// Starts a call that asked and has its yes. A yes that is void by now fails the call; asked again, it is a new one.
fn start_waiting_call(
    execution: &Execution,
    session: &SessionState,
    no: StepNo,
    (labels, start): (&BTreeSet<String>, CallStart<'_>),
    now: Now,
) -> Result<Vec<NewEvent>, Refusal> {
    let (step, state) = (execution.step_id(no), execution.step(no));
    let question = session.questions.get(&no).filter(|_| state.status() == StepStatus::Pending);
    let Some(question) = question else {
        return Err(Refusal::NotWaiting { step, status: state.status() });
    };
    if !execution.takes_calls() {
        return Err(wrong_status_refusal(execution, StatusAction::Call));
    }
    if session.labels != *labels {
        return Err(Refusal::LabelsMoved);
    }
    let adds = &session.call(no).adds;
    let request = question.own_request(adds);
    let Some(asked_by) = session.find_yes(request, now.at_ms) else {
        let message = void_message(question.answer, question.has_expired(now.at_ms));
        return Ok(vec![refused(execution, &step, &json!({ "message": message }))]);
    };
    let mut events = vec![YesSpent { step: step.clone(), asked_by: execution.step_id(asked_by) }.into()];
    events.extend(start_events(execution, session, &step, adds, start));
    Ok(events)
}

/// Why no yes covers a call that was approved, for the agent.
fn void_message(answer: CallAnswer, has_expired: bool) -> &'static str {
    match answer {
        CallAnswer::Spent => "the approval was used by an equal call",
        CallAnswer::Open | CallAnswer::No => "the call was not approved",
        CallAnswer::Yes(_) if has_expired => "the approval has expired",
        CallAnswer::Yes(_) | CallAnswer::Void => {
            "the session has got a label since that the approval did not show"
        }
    }
}

/// Cancels a step whose caller no longer waits; nothing where it has started or failed already.
fn stop_waiting(execution: &Execution, no: StepNo) -> Result<Vec<NewEvent>, Refusal> {
    let waits = matches!(execution.step(no).status(), StepStatus::AwaitingApproval | StepStatus::Pending);
    if waits && execution.ended.is_none() {
        return Ok(vec![StepsCancelled { steps: vec![execution.step_id(no)] }.into()]);
    }
    Ok(Vec::new())
}

/// Records how a call ended, and the state after it. A repeat changes nothing.
fn end_call(
    execution: &Execution,
    no: StepNo,
    outcome: &ReportedOutcome,
    after: Option<&Value>,
) -> Result<Vec<NewEvent>, Refusal> {
    let state = execution.step(no);
    if state.attempts.is_empty() {
        return Err(Refusal::NoOpenCall { step: execution.step_id(no), status: state.status() });
    }
    let call = CallId { step: no, kind: CallKind::Run, index: 0 };
    let mut events = record_call_outcome(execution, call, outcome);
    let keeps = !events.is_empty() && !execution.erased;
    events.extend(after.filter(|_| keeps).map(|state| state_kept(execution, no, StateMoment::After, state)));
    Ok(events)
}

/// Ends the calls that a process had in flight when it died.
fn lose_calls(execution: &Execution, node: &NodeId, unsent: &BTreeSet<CallId>) -> Vec<NewEvent> {
    let is_lost = |call: &&CallId| {
        let attempt = execution.attempt(**call);
        call.kind == CallKind::Run && attempt.node.as_ref() == Some(node) && attempt.task_handle.is_none()
    };
    let open = execution.index.open_tool_calls.iter().filter(is_lost);
    open.map(|call| lost_call_event(execution, *call, unsent.contains(call)).into()).collect()
}

/// Takes a label off the session.
fn clear_label(
    session: &SessionState,
    label: &str,
    reason: &Option<String>,
) -> Result<Vec<NewEvent>, Refusal> {
    if !session.labels.contains(label) {
        return Err(Refusal::NoSuchLabel { label: label.to_owned() });
    }
    let (removed, reason) = (BTreeSet::from([label.to_owned()]), reason.clone());
    Ok(vec![LabelsChanged { step: None, added: BTreeSet::new(), removed, reason }.into()])
}

/// Ends the session. Refused while it is undone, and where it was found idle and something has happened since.
fn close(
    execution: &Execution,
    reason: &Option<String>,
    idle_since: Option<Position>,
) -> Result<Vec<NewEvent>, Refusal> {
    if execution.ended.is_some() || execution.is_stopping() {
        return Err(wrong_status_refusal(execution, StatusAction::Close));
    }
    if idle_since.is_some_and(|last| last != execution.position) {
        return Err(Refusal::NotIdle);
    }
    Ok(closing_events(execution, reason, idle_since.is_some()))
}

/// The events that end a session: what waits for a yes is cancelled. Calls in flight still report how they end.
pub(super) fn closing_events(execution: &Execution, reason: &Option<String>, idle: bool) -> Vec<NewEvent> {
    let waits = |no: &StepNo| {
        matches!(execution.step(*no).status(), StepStatus::AwaitingApproval | StepStatus::Pending)
    };
    let steps: Vec<StepId> = execution.step_numbers().filter(waits).map(|no| execution.step_id(no)).collect();
    let mut events: Vec<NewEvent> = Vec::new();
    if !steps.is_empty() {
        events.push(StepsCancelled { steps }.into());
    }
    events.push(Closed { reason: reason.clone(), idle }.into());
    events
}
