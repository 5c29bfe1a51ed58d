//! What agents record: reports on their steps and compensations, other actions, and decisions with reasons. A
//! report changes its step; of everything else only the decisions `stop` and `continue` have an effect.

use serde_json::{Value, json};

use super::NewEvent;
use super::attempt::Attempt;
use super::claim::{self, CLAIM_DURATION_MS, ReportEffect, Reporter};
use super::command::{ActionFacts, AgentReport, FACTS_BYTES_MAX, Refusal, ReportedOutcome};
use super::decide::{cancel, find_step, record_call_outcome, resume, to_json_bytes, wrong_status_refusal};
use super::due::{CallId, CallKind};
use super::evolve::Execution;
use super::state::Phase;
use super::unwind::effect_remains;
use crate::event::*;
use crate::id::StepNo;
use crate::policy::EndStatus;
use crate::spelling::nearest;

/// Longest decision and longest reason, in bytes: both are stored in the entry itself, not as a payload.
const DECISION_BYTES_MAX: usize = 8 * 1024;
/// The decisions that have an effect: `stop` cancels, `continue` resumes.
const STOP: &str = "stop";
const CONTINUE: &str = "continue";

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
        let message = "`cleanup` has erased this execution, and nothing is kept of it any more";
        return Err(Refusal::new("erased", message, "record it without an execution"));
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
        return Err(too_large("the details", FACTS_BYTES_MAX));
    }
    let effect = match parse_acting_decision(decision)? {
        Some(STOP) => cancel(execution, reason)?,
        Some(_) if execution.paused => resume(execution)?,
        Some(_) if execution.ended.is_some() => return Err(wrong_status_refusal(execution, CONTINUE)),
        Some(_) | None => Vec::new(),
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

/// `STOP` or `CONTINUE`, in any letter case and with or without a full stop; `None`: free text. A single word
/// that nearly matches is refused, because as free text it would silently have no effect.
fn parse_acting_decision(decision: &str) -> Result<Option<&'static str>, Refusal> {
    let word = decision.trim().trim_end_matches(['.', '!']);
    let matched = [STOP, CONTINUE].into_iter().find(|acting| acting.eq_ignore_ascii_case(word));
    if matched.is_some() || word.contains(char::is_whitespace) {
        return Ok(matched);
    }
    match nearest(word, [STOP, CONTINUE]) {
        Some(near) => {
            let message = format!("`{decision}` would only be kept, and nothing would follow from it");
            let cure = format!("did you mean `{near}`? To keep a remark, say it in more than one word");
            Err(Refusal::new("unclear_decision", message, cure))
        }
        None => Ok(None),
    }
}

/// Refuses a decision or a reason that is too long.
fn check_length(text: &str) -> Result<(), Refusal> {
    if text.len() > DECISION_BYTES_MAX {
        return Err(too_large("a decision and its reason", DECISION_BYTES_MAX));
    }
    Ok(())
}

fn too_large(what: &str, limit: usize) -> Refusal {
    let cure = "say it in short, and name a file for the rest";
    Refusal::new("too_large", format!("{what} may have {limit} bytes at most"), cure)
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
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let is_unwinding = execution.phase == Phase::Unwind && execution.stop.is_none();
    let refused = |message: String, cure: String| Err(Refusal::new("out_of_order", message, cure));
    if state.attempts_to_undo(execution.rules(no)).is_empty() {
        let message = format!("nothing of step `{}` stands: it is {}", spec.id, state.status());
        return refused(message, list_effects(execution));
    }
    if execution.ended.is_none() && !is_unwinding {
        let message = format!("the execution is {}, and goes forward", execution.status());
        return refused(message, "stop it first, or `undo` it, and then compensate".to_owned());
    }
    if state.is_compensation_open() {
        let message = format!("actbook itself is undoing step `{}`", spec.id);
        return refused(message, "wait for its end".to_owned());
    }
    if has_open_work(execution, no) {
        let message = format!("step `{}` has not come to rest", spec.id);
        return refused(message, "wait for its end, or report it".to_owned());
    }
    let dependents = undoable_dependents(execution, no);
    if !dependents.is_empty() {
        let message = format!("step `{}` is undone after what depends on it", spec.id);
        return refused(message, format!("first compensate {}", dependents.join(", ")));
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

/// The part of a refusal that lists the steps with an effect to undo.
fn list_effects(execution: &Execution) -> String {
    let steps: Vec<String> =
        quoted_step_ids(execution, execution.step_numbers().filter(|no| may_have_effect(execution, *no)));
    if steps.is_empty() {
        "nothing that ran is left to compensate".to_owned()
    } else {
        format!("what may have run: {}", steps.join(", "))
    }
}

/// The quoted ids of the steps that depend on this one, directly or not, and are to be undone first.
fn undoable_dependents(execution: &Execution, no: StepNo) -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    let mut queue = vec![no];
    while let Some(step) = queue.pop() {
        for &other in &execution.plan.step(step).dependents {
            if found.insert(other) {
                queue.push(other);
            }
        }
    }
    quoted_step_ids(execution, found.into_iter().filter(|other| is_undoable(execution, *other)))
}

/// The first ids of these steps, in backquotes.
fn quoted_step_ids(execution: &Execution, steps: impl Iterator<Item = StepNo>) -> Vec<String> {
    steps.take(QUOTED_STEPS_MAX).map(|no| format!("`{}`", execution.plan.step(no).id)).collect()
}

/// Most step ids that a refusal lists.
const QUOTED_STEPS_MAX: usize = 20;

/// The events of a report that counts; refused where the step waits for no such report.
fn report_events(
    execution: &Execution,
    no: StepNo,
    report: &AgentReport,
    by: Option<&Reporter>,
) -> Result<Vec<NewEvent>, Refusal> {
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
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let message = format!("nothing to record for step `{}`: it is {}", spec.id, state.status());
    let waiting: Vec<String> = execution
        .index
        .open_agent_calls
        .iter()
        .map(|call| format!("`{}`", execution.plan.step(call.step).id))
        .collect();
    let cure = match (execution.open_agent_call(no).map(|call| call.kind), waiting.is_empty()) {
        (Some(CallKind::Compensation), _) => "say `compensated` or `failed`".to_owned(),
        (Some(_), _) => "say `succeeded` or `failed`".to_owned(),
        (None, true) => "no step waits for its agent; `show` the execution".to_owned(),
        (None, false) => format!("steps that wait for their agent: {}", waiting.join(", ")),
    };
    Refusal::new("not_awaited", message, cure)
}

/// Whether the step's last compensation is an agent's that became unknown and was not reported since.
fn has_given_up_compensation(execution: &Execution, no: StepNo) -> bool {
    execution.step(no).last_compensation().is_some_and(Attempt::is_given_up)
}
