//! What agents record: reports on their steps and compensations, other actions, and decisions with reasons. A
//! report changes its step; of everything else only the decisions `stop` and `continue` have an effect.

use serde_json::{Value, json};

use super::NewEvent;
use super::attempt::Attempt;
use super::claim::{self, CLAIM_DURATION_MS, ReportEffect, Reporter};
use super::command::{ActionFacts, AgentReport, FACTS_BYTES_MAX, ReportedOutcome};
use super::decide::{
    REFUSAL_STEPS_MAX, cancel, find_step, record_call_outcome, resume, to_json_bytes, wrong_status_refusal,
};
use super::due::{CallId, CallKind};
use super::evolve::Execution;
use super::state::Phase;
use super::unwind::effect_remains;
use crate::event::*;
use crate::id::{StepId, StepNo};
use crate::policy::{ActingDecision, EndStatus};
use crate::refusal::{AwaitedReport, DecisionPart, Refusal, StatusAction, UndoByHandProblem};
use crate::spelling::nearest;

/// Longest decision and longest reason, in bytes: both are stored in the entry itself, not as a payload.
pub const DECISION_BYTES_MAX: usize = 8 * 1024;

/// The events of an agent's report on its step or compensation; its facts come first, in the same append.
pub(super) fn record_report(
    execution: &Execution,
    step: &str,
    report: &AgentReport,
    facts: &ActionFacts,
    by: Option<&Reporter>,
) -> Result<Vec<NewEvent>, Refusal> {
    let no = find_step(execution, step)?;
    match by.map(|by| claim::check_claim(execution, no, by)).transpose()? {
        None | Some(ReportEffect::MovesStep) => {}
        Some(ReportEffect::EvidenceOnly) => {
            let facts = claim::evidence_facts(report, facts);
            return Ok(vec![action_event(execution, Some(no), Some(report.status()), &facts)?]);
        }
    }
    let mut events = report_events(execution, no, report, by)?;
    if !facts.is_empty() {
        events.insert(0, action_event(execution, Some(no), Some(report.status()), facts)?);
    }
    Ok(events)
}

/// The event of an action that changes nothing: outside the plan, or a remark about a step.
pub(super) fn record_action(
    execution: &Execution,
    step: Option<&str>,
    status: Option<ReportedStatus>,
    facts: &ActionFacts,
) -> Result<Vec<NewEvent>, Refusal> {
    let no = step.map(|step| find_step(execution, step)).transpose()?;
    Ok(vec![action_event(execution, no, status, facts)?])
}

/// The event that records facts; refused where the execution was erased or the facts are invalid.
fn action_event(
    execution: &Execution,
    no: Option<StepNo>,
    status: Option<ReportedStatus>,
    facts: &ActionFacts,
) -> Result<NewEvent, Refusal> {
    check_not_erased(execution)?;
    let payload = facts.to_payload()?;
    let step = no.map(|no| execution.step_id(no));
    let event = ActionRecorded { step, status, facts: execution.digest_payload(&payload), project: None };
    Ok(NewEvent { event: event.into(), payload: Some(payload) })
}

/// Refuses to record in an erased execution: its salt is gone, so no further payload can be stored.
fn check_not_erased(execution: &Execution) -> Result<(), Refusal> {
    if execution.erased {
        return Err(Refusal::RecordInErased);
    }
    Ok(())
}

/// The event that records a decision, and the events of its effect where it is `stop` or `continue`.
pub(super) fn record_decision(
    execution: &Execution,
    decision: &str,
    reason: &Option<String>,
    step: Option<&str>,
    details: &Option<Value>,
) -> Result<Vec<NewEvent>, Refusal> {
    let no = step.map(|step| find_step(execution, step)).transpose()?;
    check_length(decision)?;
    check_length(reason.as_deref().unwrap_or_default())?;
    let payload = details.as_ref().map(to_json_bytes);
    if payload.is_some() {
        check_not_erased(execution)?;
    }
    if payload.as_ref().is_some_and(|payload| payload.len() > FACTS_BYTES_MAX) {
        let part = DecisionPart::Details;
        return Err(Refusal::DecisionTooLarge { part, bytes_max: FACTS_BYTES_MAX });
    }
    let effect = match parse_acting_decision(decision)? {
        Some(ActingDecision::Stop) => cancel(execution, reason)?,
        Some(ActingDecision::Continue) if execution.paused => resume(execution)?,
        Some(ActingDecision::Continue) if execution.ended.is_some() => {
            return Err(wrong_status_refusal(execution, StatusAction::Continue));
        }
        Some(ActingDecision::Continue) | None => Vec::new(),
    };
    let event = DecisionRecorded {
        step: no.map(|no| execution.step_id(no)),
        decision: decision.to_owned(),
        reason: reason.clone(),
        details: payload.as_deref().map(|body| execution.digest_payload(body)),
    };
    let mut events = vec![NewEvent { event: event.into(), payload }];
    events.extend(effect);
    Ok(events)
}

/// `stop` or `continue`, in any letter case and with or without a full stop; `None`: free text. A single word
/// that nearly matches is refused, because as free text it would silently have no effect.
pub fn parse_acting_decision(decision: &str) -> Result<Option<ActingDecision>, Refusal> {
    let all = || ActingDecision::ALL.iter().copied();
    let word = decision.trim().trim_end_matches(['.', '!']);
    let matched = all().find(|acting| acting.as_str().eq_ignore_ascii_case(word));
    if matched.is_some() || word.contains(char::is_whitespace) {
        return Ok(matched);
    }
    let near = nearest(word, all().map(ActingDecision::as_str));
    match all().find(|acting| Some(acting.as_str()) == near) {
        Some(nearest) => Err(Refusal::UnclearDecision { decision: decision.to_owned(), nearest }),
        None => Ok(None),
    }
}

/// Refuses a decision or a reason that is too long.
fn check_length(text: &str) -> Result<(), Refusal> {
    if text.len() > DECISION_BYTES_MAX {
        let part = DecisionPart::Text;
        return Err(Refusal::DecisionTooLarge { part, bytes_max: DECISION_BYTES_MAX });
    }
    Ok(())
}

/// The events of an agent's statement that it undid a step itself, or failed to. Where the plan's own
/// compensation waits for an agent, this is its report; else the effect counts as undone, which is refused
/// while the execution runs forward.
pub(super) fn record_compensation(
    execution: &Execution,
    step: &str,
    done: bool,
    facts: &ActionFacts,
) -> Result<Vec<NewEvent>, Refusal> {
    let no = find_step(execution, step)?;
    let is_awaited = execution.open_agent_call(no).is_some_and(|call| call.kind == CallKind::Compensation);
    if is_awaited || has_given_up_compensation(execution, no) {
        let mut facts = facts.clone();
        let agent_report = if done {
            AgentReport::Compensated { output: facts.output.take() }
        } else {
            failed_report(&facts)
        };
        return record_report(execution, step, &agent_report, &facts, None);
    }
    check_undo_by_hand(execution, no)?;
    let status = if done { ReportedStatus::Compensated } else { ReportedStatus::Failed };
    let facts = ActionFacts { outcome: (!done).then_some(status), ..facts.clone() };
    let mut events = vec![action_event(execution, Some(no), Some(status), &facts)?];
    let attempts = execution.step(no).attempts_to_undo(execution.rules(no));
    let attempts = attempts.into_iter().map(|attempt| attempt + 1).collect();
    events.push(CompensationRecorded { step: execution.step_id(no), attempts, failed: !done }.into());
    let new_end = if done { end_after_undo(execution, no) } else { None };
    events.extend(new_end.map(|status| ExecutionEnded { status }.into()));
    Ok(events)
}

/// The new end status of an ended execution once the step `undone` was undone by hand, as an unwinding would
/// set it. `None`: the execution has not ended, another step can still be undone, or the status stays as it
/// is (`failed` and `cancelled` only ever change to `compensated`).
fn end_after_undo(execution: &Execution, undone: StepNo) -> Option<EndStatus> {
    let ended = execution.ended?;
    let others = || execution.step_numbers().filter(|no| *no != undone);
    if others().any(|no| is_undoable(execution, no)) {
        return None;
    }
    let leaves_behind = execution.rules(undone).leaves_effect_after_undo();
    let remains = leaves_behind || others().any(|no| effect_remains(execution, no));
    match (remains, ended) {
        (false, EndStatus::Succeeded | EndStatus::Failed | EndStatus::Cancelled) => {
            Some(EndStatus::Compensated)
        }
        // A session stays ended as it was: its calls were not one piece of work that failed.
        (true, EndStatus::Succeeded) if execution.session.is_some() => None,
        (true, EndStatus::Succeeded | EndStatus::Compensated) => Some(EndStatus::Failed),
        (true, EndStatus::Failed | EndStatus::Cancelled) | (false, EndStatus::Compensated) => None,
    }
}

/// The report that undoing a step failed.
fn failed_report(facts: &ActionFacts) -> AgentReport {
    let reason = facts.reason.clone().or_else(|| facts.error.clone());
    AgentReport::Failed { reason, category: crate::policy::ErrorCategory::ToolError }
}

/// Refuses an undo by hand: with nothing to undo, while the execution runs forward, or before its dependents.
fn check_undo_by_hand(execution: &Execution, no: StepNo) -> Result<(), Refusal> {
    let (step, state) = (execution.step_id(no), execution.step(no));
    let is_unwinding = execution.phase == Phase::Unwind && execution.stop.is_none();
    let refused = |problem: UndoByHandProblem| Err(Refusal::UndoByHandNotAllowed(problem));
    if !may_have_effect(execution, no) {
        let with_effect = execution.step_numbers().filter(|no| may_have_effect(execution, *no));
        let (status, others) = (state.status(), first_step_ids(execution, with_effect));
        return refused(UndoByHandProblem::NoEffect { step, status, others });
    }
    if execution.ended.is_none() && !is_unwinding {
        return refused(UndoByHandProblem::GoesForward { status: execution.status() });
    }
    if state.is_compensation_open() {
        return refused(UndoByHandProblem::UndoneByActbook { step });
    }
    if has_open_work(execution, no) {
        return refused(UndoByHandProblem::InProgress { step });
    }
    let dependents = undoable_dependents(execution, no);
    if !dependents.is_empty() {
        return refused(UndoByHandProblem::DependentsFirst { step, dependents });
    }
    Ok(())
}

/// Whether a call of the step is in flight, or the step is still to be settled or probed.
fn has_open_work(execution: &Execution, no: StepNo) -> bool {
    let index = &execution.index;
    let in_flight = index.open_tool_calls.iter().chain(&index.open_agent_calls).any(|call| call.step == no);
    in_flight || index.settling.contains(&no) || index.probes_due.contains(&no)
}

/// Whether an effect of the step may exist that has not been undone.
fn may_have_effect(execution: &Execution, no: StepNo) -> bool {
    !execution.step(no).attempts_to_undo(execution.rules(no)).is_empty()
}

/// Whether the step may have an effect that can be undone. An effect that was left in place, or that is
/// irreversible without a compensation, holds up no other undo, as in an unwinding.
fn is_undoable(execution: &Execution, no: StepNo) -> bool {
    let irreversible =
        execution.rules(no).is_irreversible() && execution.plan.step(no).compensation.is_none();
    may_have_effect(execution, no) && !irreversible && !execution.step(no).undo.left_in_place
}

/// The first of the steps that depend on this one, directly or not, and are to be undone before it.
fn undoable_dependents(execution: &Execution, no: StepNo) -> Vec<StepId> {
    let mut found = std::collections::BTreeSet::new();
    let mut queue = vec![no];
    while let Some(step) = queue.pop() {
        for &other in &execution.plan.step(step).dependents {
            if found.insert(other) {
                queue.push(other);
            }
        }
    }
    first_step_ids(execution, found.into_iter().filter(|other| is_undoable(execution, *other)))
}

/// The ids of the first of these steps, as many as a refusal lists.
fn first_step_ids(execution: &Execution, steps: impl Iterator<Item = StepNo>) -> Vec<StepId> {
    steps.take(REFUSAL_STEPS_MAX).map(|no| execution.step_id(no)).collect()
}

/// The events of a report that counts; refused where the step waits for no such report.
fn report_events(
    execution: &Execution,
    no: StepNo,
    report: &AgentReport,
    by: Option<&Reporter>,
) -> Result<Vec<NewEvent>, Refusal> {
    if execution.session.is_some() {
        return Err(nothing_to_record(execution, no));
    }
    let open = execution.open_agent_call(no);
    let kind = open.map(|call| call.kind);
    match (report, kind) {
        (AgentReport::Started, Some(CallKind::Run)) if may_start(execution, no, by) => {
            let (step, attempt) = (execution.step_id(no), execution.step(no).attempts.len() as u32);
            let holder = by.map(|by| by.holder.clone());
            let until_ms = by.map(|by| by.at_ms.saturating_add(CLAIM_DURATION_MS));
            let node = by.and_then(|by| by.node.clone());
            Ok(vec![AgentStarted { step, attempt, holder, until_ms, node }.into()])
        }
        (AgentReport::Succeeded { .. } | AgentReport::Failed { .. }, Some(CallKind::Run))
        | (AgentReport::Compensated { .. } | AgentReport::Failed { .. }, Some(CallKind::Compensation)) => {
            let call = open.expect("the kind is that of an open call");
            Ok(record_call_outcome(execution, call, &report_outcome(report)))
        }
        (
            AgentReport::Succeeded { .. } | AgentReport::Failed { .. } | AgentReport::Compensated { .. },
            None,
        ) => record_late_report(execution, no, report),
        (AgentReport::Started, _)
        | (AgentReport::Failed { .. }, Some(CallKind::Probe))
        | (AgentReport::Compensated { .. }, Some(CallKind::Run | CallKind::Probe))
        | (AgentReport::Succeeded { .. }, Some(CallKind::Compensation | CallKind::Probe)) => {
            Err(nothing_to_record(execution, no))
        }
    }
}

/// Whether a report of a start is accepted: the first one, or one that renews or takes over the claim.
fn may_start(execution: &Execution, no: StepNo, by: Option<&Reporter>) -> bool {
    let step = execution.step(no);
    let renews_claim = by.is_some() && step.claim.is_some();
    (step.agent_started_at_ms.is_none() || renews_claim) && !execution.paused
}

/// The outcome of the call that a report ends.
fn report_outcome(report: &AgentReport) -> ReportedOutcome {
    match report {
        AgentReport::Started => unreachable!("a start is no end"),
        AgentReport::Succeeded { output } | AgentReport::Compensated { output } => {
            ReportedOutcome::Succeeded { output: output.clone().unwrap_or(Value::Null) }
        }
        AgentReport::Failed { reason, category } => {
            let error = json!({ "message": reason });
            ReportedOutcome::Failed { category: *category, error, unsent: false, retry_after_ms: None }
        }
    }
}

/// The events of a report on work that was given up: it settles the unknown outcome.
fn record_late_report(
    execution: &Execution,
    no: StepNo,
    report: &AgentReport,
) -> Result<Vec<NewEvent>, Refusal> {
    let state = execution.step(no);
    let run_given_up = state.last_attempt().is_some_and(Attempt::is_given_up);
    let undo_given_up = has_given_up_compensation(execution, no);
    let kind = match report {
        AgentReport::Compensated { .. } | AgentReport::Failed { .. } if undo_given_up => {
            CallKind::Compensation
        }
        AgentReport::Succeeded { .. } | AgentReport::Failed { .. } if run_given_up => CallKind::Run,
        AgentReport::Started
        | AgentReport::Succeeded { .. }
        | AgentReport::Failed { .. }
        | AgentReport::Compensated { .. } => {
            return Err(nothing_to_record(execution, no));
        }
    };
    let call = CallId { step: no, kind, index: state.attempts_of(kind).len() as u32 - 1 };
    Ok(record_call_outcome(execution, call, &report_outcome(report)))
}

/// The refusal of a report that the step does not wait for.
fn nothing_to_record(execution: &Execution, no: StepNo) -> Refusal {
    let waiting = || execution.index.open_agent_calls.iter().map(|call| execution.step_id(call.step));
    let awaited = match execution.open_agent_call(no).map(|call| call.kind) {
        Some(CallKind::Compensation) => AwaitedReport::Compensation,
        Some(CallKind::Run | CallKind::Probe) => AwaitedReport::Outcome,
        None if waiting().next().is_some() => AwaitedReport::OtherSteps(waiting().collect()),
        None => AwaitedReport::None,
    };
    Refusal::NotAwaited { step: execution.step_id(no), status: execution.step(no).status(), awaited }
}

/// Whether the step's last compensation is an agent's that became unknown and was not reported since.
fn has_given_up_compensation(execution: &Execution, no: StepNo) -> bool {
    execution.step(no).last_compensation().is_some_and(Attempt::is_given_up)
}
