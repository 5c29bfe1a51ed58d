//! Commands become events or refusals. Nothing here starts an attempt: that is `follow`, and only
//! the driver's commands are followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Fresh;
use super::asks::answers;
use super::command::{Command, Ended, Refusal, Report};
use super::due::{CallId, CallKind};
use super::follow::{Missing, Values};
use super::state::{Execution, Gate, Phase, ProbeState, Proposal};
use crate::chain::Digest;
use crate::event::*;
use crate::id::{Epoch, ExecutionId, SeatId, StepNo};
use crate::plan::Plan;
use crate::policy::{Answer, Category, Outcome, StepStatus};
use crate::terms::Terms;

/// The first entry of an execution; the caller has checked the inputs.
pub fn begin(
    id: ExecutionId,
    plan_ref: PlanRef,
    plan: &Plan,
    inputs: Option<&Value>,
    place: Digest,
    terms: &Terms,
    salt: &Arc<[u8]>,
) -> Fresh {
    let payload = inputs.map(bytes);
    let kept =
        payload.as_deref().map(|body| Kept { digest: Digest::salted(salt, body), size: body.len() as u64 });
    let (task, terms) = (plan.task.clone(), terms.clone());
    Fresh { event: ExecutionStarted { id, plan: plan_ref, inputs: kept, place, task, terms }.into(), payload }
}

pub(super) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Why a command gives no events: it is refused, or payloads must be loaded first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    Refused(Refusal),
    Missing(Missing),
}

impl From<Missing> for No {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

pub fn decide(execution: &Execution, command: &Command, values: &Values) -> Result<Vec<Fresh>, No> {
    let decided = match command {
        Command::Report { call, ended, .. } => Ok(report(execution, *call, ended, values)?),
        Command::Claim { seat, after, unsent } => claim(execution, seat, *after, unsent),
        Command::Drive { epoch } => drive(execution, *epoch),
        Command::Adopt { place } => adopt(execution, *place),
        Command::MovePin { tool, digest } => move_pin(execution, tool, *digest),
        Command::Pause { reason } => pause(execution, reason),
        Command::Resume => resume(execution),
        Command::Cancel { reason } => cancel(execution, reason),
        Command::Undo { reason } => undo(execution, reason),
        Command::Approve { step, reason } => approve(execution, step.as_deref(), reason),
        Command::Reject { step, reason } => reject(execution, step.as_deref(), reason),
        Command::Decide { step, answer, reason, output } => {
            answer_step(execution, step, *answer, reason, output)
        }
        Command::Record { step, report } => record(execution, step, report),
        Command::Erase => erase(execution),
    };
    decided.map_err(No::Refused)
}

fn drive(execution: &Execution, epoch: Epoch) -> Result<Vec<Fresh>, Refusal> {
    match epoch == execution.epoch {
        true => Ok(Vec::new()),
        false => {
            Err(Refusal::new("not_the_driver", "another process drives this execution", "watch it instead"))
        }
    }
}

fn not_now(execution: &Execution, verb: &str) -> Refusal {
    let status = execution.status();
    let cure = match execution.ended {
        Some(_) if execution.can_undo() && !execution.erased => "start a new one, or `undo` this one",
        Some(_) => "start a new one",
        None if execution.phase == Phase::Unwind && !execution.paused => "`pause` it, or answer what it asks",
        None => "`show` it: it says what can be done now",
    };
    Refusal::new("does_not_fit", format!("cannot {verb}: the execution is {status}"), cure)
}

/// What the driver before left open is unknown, but for calls proven unsent.
fn claim(
    execution: &Execution,
    seat: &SeatId,
    after: Epoch,
    unsent: &BTreeSet<CallId>,
) -> Result<Vec<Fresh>, Refusal> {
    if after != execution.epoch || execution.ended.is_some() {
        let message = "another process was faster to take it up";
        return Err(Refusal::new("claimed_by_another", message, "look again who drives"));
    }
    let epoch = Epoch(execution.epoch.0 + 1);
    let mut events = vec![DriverChanged { epoch, seat: seat.clone() }.into()];
    for call in &execution.index.open_tools {
        events.push(lost(execution, *call, unsent.contains(call)).into());
    }
    Ok(events)
}

fn lost(execution: &Execution, call: CallId, unsent: bool) -> Event {
    let step = execution.step_id(call.step);
    let outcome = if unsent { Outcome::Failed } else { Outcome::Unknown };
    let category = Some(Category::Unavailable);
    match call.kind {
        CallKind::Run => AttemptEnded {
            step,
            attempt: call.no + 1,
            outcome,
            category,
            result: None,
            unsent,
            takeover: true,
            retry_after_ms: None,
        }
        .into(),
        CallKind::Probe => {
            ProbeEnded { step, attempt: call.no + 1, found: Probed::Lost, result: None }.into()
        }
        CallKind::Compensation => CompensationEnded {
            step,
            compensation: call.no + 1,
            outcome,
            category,
            result: None,
            unsent,
            takeover: true,
            retry_after_ms: None,
        }
        .into(),
    }
}

/// An ended call as an entry's parts.
struct Told {
    outcome: Outcome,
    category: Option<Category>,
    payload: Vec<u8>,
    unsent: bool,
    retry_after_ms: Option<u64>,
}

fn told(ended: &Ended) -> Told {
    let (outcome, category, said) = match ended {
        Ended::Succeeded { output } => (Outcome::Succeeded, None, output),
        Ended::Failed { category, said, .. } => (Outcome::Failed, Some(*category), said),
        Ended::Unknown { category, said, .. } => (Outcome::Unknown, Some(*category), said),
    };
    let (unsent, retry_after_ms) = match ended {
        Ended::Succeeded { .. } => (false, None),
        Ended::Failed { unsent, retry_after_ms, .. } => (*unsent, *retry_after_ms),
        Ended::Unknown { retry_after_ms, .. } => (false, *retry_after_ms),
    };
    Told { outcome, category, payload: bytes(said), unsent, retry_after_ms }
}

/// A call's end. The first one counts; what comes later is kept as evidence; a third changes nothing.
fn report(
    execution: &Execution,
    call: CallId,
    ended: &Ended,
    values: &Values,
) -> Result<Vec<Fresh>, Missing> {
    if call.kind == CallKind::Probe {
        return probe_report(execution, call, ended, values);
    }
    Ok(call_report(execution, call, ended))
}

fn call_report(execution: &Execution, call: CallId, ended: &Ended) -> Vec<Fresh> {
    let Told { outcome, category, payload, unsent, retry_after_ms } = told(ended);
    let (step, state) = (execution.step_id(call.step), execution.step(call.step));
    // What was erased stays erased: the entry alone is evidence enough.
    let result = (!execution.erased).then(|| execution.keep(&payload));
    let payload = result.is_some().then_some(payload);
    let definite = outcome != Outcome::Unknown;
    let event: Option<Event> = match call.kind {
        CallKind::Run | CallKind::Probe => state.attempts.get(call.no as usize).and_then(|attempt| {
            let attempt_no = call.no + 1;
            if attempt.open() {
                let takeover = false;
                Some(
                    AttemptEnded {
                        step,
                        attempt: attempt_no,
                        outcome,
                        category,
                        result,
                        unsent,
                        takeover,
                        retry_after_ms,
                    }
                    .into(),
                )
            } else {
                let news = definite && attempt.late.is_none() && attempt.outcome != Some(outcome);
                news.then(|| LateAnswer { step, attempt: attempt_no, outcome, category, result }.into())
            }
        }),
        CallKind::Compensation => state.compensations.get(call.no as usize).and_then(|one| {
            let compensation = call.no + 1;
            if one.outcome.is_none() {
                let takeover = false;
                Some(
                    CompensationEnded {
                        step,
                        compensation,
                        outcome,
                        category,
                        result,
                        unsent,
                        takeover,
                        retry_after_ms,
                    }
                    .into(),
                )
            } else {
                let news = definite && one.late.is_none() && one.outcome != Some(outcome);
                news.then(|| LateCompensation { step, compensation, outcome, result }.into())
            }
        }),
    };
    event.map(|event| Fresh { event, payload }).into_iter().collect()
}

/// The probe's tool answered; whether the effect stands is what the plan's `happened` says of it.
fn probe_report(
    execution: &Execution,
    call: CallId,
    ended: &Ended,
    values: &Values,
) -> Result<Vec<Fresh>, Missing> {
    let attempt = execution.step(call.step).attempts.get(call.no as usize);
    if !attempt.is_some_and(|attempt| matches!(attempt.probe, ProbeState::Open { .. })) {
        return Ok(Vec::new());
    }
    let found = super::follow::probe_found(execution, call, ended, values)?;
    let payload = told(ended).payload;
    let result = Some(execution.keep(&payload));
    let event = ProbeEnded { step: execution.step_id(call.step), attempt: call.no + 1, found, result };
    Ok(vec![Fresh { event: event.into(), payload: Some(payload) }])
}

fn adopt(execution: &Execution, place: Digest) -> Result<Vec<Fresh>, Refusal> {
    if execution.place == place {
        return Ok(Vec::new());
    }
    Ok(vec![PlaceAdopted { place }.into()])
}

/// Only where there is a pin: a tool that was never pinned has none to move.
fn move_pin(execution: &Execution, tool: &str, digest: Digest) -> Result<Vec<Fresh>, Refusal> {
    let pin = execution.terms.get(tool).and_then(|terms| terms.pin);
    match pin.is_some_and(|pin| pin != digest) && execution.ended.is_none() {
        true => Ok(vec![PinMoved { tool: tool.to_owned(), digest }.into()]),
        false => Ok(Vec::new()),
    }
}

fn pause(execution: &Execution, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_some() || execution.paused {
        return Err(not_now(execution, "pause"));
    }
    Ok(vec![Paused { reason: reason.clone() }.into()])
}

fn resume(execution: &Execution) -> Result<Vec<Fresh>, Refusal> {
    match execution.paused && execution.ended.is_none() {
        true => Ok(vec![Resumed {}.into()]),
        false => Err(not_now(execution, "resume")),
    }
}

fn cancel(execution: &Execution, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_some() || execution.stopping() {
        return Err(not_now(execution, "cancel"));
    }
    Ok(vec![CancelAsked { reason: reason.clone() }.into()])
}

fn undo(execution: &Execution, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    if execution.erased {
        let message = "its arguments and outputs were erased by `cleanup`, so nothing can be undone";
        return Err(Refusal::new("erased", message, "undo by hand what `journal` shows"));
    }
    if execution.phase == Phase::Unwind && execution.ended.is_none() {
        return Err(Refusal::new(
            "already_undoing",
            "it is being undone already",
            "`watch` it, or answer what it asks",
        ));
    }
    if execution.ended.is_some() && !execution.can_undo() {
        let message = "nothing that ran is left to undo";
        return Err(Refusal::new(
            "nothing_to_undo",
            message,
            "`show` it: the brief names what cannot be undone",
        ));
    }
    Ok(vec![UnwindStarted { reason: reason.clone() }.into()])
}

fn approve(
    execution: &Execution,
    step: Option<&str>,
    reason: &Option<String>,
) -> Result<Vec<Fresh>, Refusal> {
    let reason = reason.clone();
    Ok(match asked(execution, step)? {
        Asked::Plan => vec![PlanApproved { reason }.into()],
        Asked::Undo => vec![UnwindStarted { reason }.into()],
        Asked::Step(no) => vec![StepApproved { step: execution.step_id(no), reason }.into()],
    })
}

fn reject(execution: &Execution, step: Option<&str>, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    let reason = reason.clone();
    Ok(match asked(execution, step)? {
        Asked::Plan => vec![PlanRejected { reason }.into()],
        Asked::Undo => vec![UnwindRejected { reason }.into()],
        Asked::Step(no) => vec![StepRejected { step: execution.step_id(no), reason }.into()],
    })
}

enum Asked {
    Plan,
    Undo,
    Step(StepNo),
}

fn asked(execution: &Execution, step: Option<&str>) -> Result<Asked, Refusal> {
    if execution.ended.is_some() || execution.stopping() {
        return Err(not_now(execution, "approve or reject"));
    }
    if let Some(step) = step {
        let no = find(execution, step)?;
        return match execution.step(no).status() == StepStatus::AwaitingApproval {
            true => Ok(Asked::Step(no)),
            false => Err(nothing_asked(execution)),
        };
    }
    if execution.gate == Gate::Asked {
        return Ok(Asked::Plan);
    }
    if execution.proposal == Proposal::Asked {
        return Ok(Asked::Undo);
    }
    // A yes to a step names it, so that nobody approves the one that happens to wait by now.
    Err(nothing_asked(execution))
}

fn nothing_asked(execution: &Execution) -> Refusal {
    let waiting =
        execution.numbers().filter(|no| execution.step(*no).status() == StepStatus::AwaitingApproval);
    let names: Vec<String> = waiting.map(|no| format!("`{}`", execution.plan.step(no).id)).collect();
    let cure = match names.is_empty() {
        true => "`show` it: it says what waits".to_owned(),
        false => format!("name the step: {}", names.join(", ")),
    };
    Refusal::new("nothing_to_approve", "that does not wait for an approval", cure)
}

fn find(execution: &Execution, step: &str) -> Result<StepNo, Refusal> {
    execution.plan.find(step).ok_or_else(|| {
        let ids: Vec<&str> = execution.plan.steps.iter().map(|step| step.id.as_str()).collect();
        let cure = match crate::analysis::nearest(step, ids.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its steps: {}", ids.iter().take(20).copied().collect::<Vec<_>>().join(", ")),
        };
        Refusal::new("no_such_step", format!("the plan has no step `{step}`"), cure)
    })
}

fn answer_step(
    execution: &Execution,
    step: &str,
    answer: Answer,
    reason: &Option<String>,
    output: &Option<Value>,
) -> Result<Vec<Fresh>, Refusal> {
    let no = find(execution, step)?;
    let fitting = answers(execution, no);
    if !fitting.contains(&answer) {
        return Err(does_not_fit(execution, no, answer, &fitting));
    }
    if output.is_some() && !matches!(answer, Answer::Skip | Answer::Happened) {
        let message = format!("an output does not go with `{answer}`");
        return Err(Refusal::new("does_not_fit", message, "give one with `skip` or `happened` only"));
    }
    if answer == Answer::Compensate {
        return Ok(vec![UnwindStarted { reason: reason.clone() }.into()]);
    }
    let mut events = Vec::new();
    let state = execution.step(no);
    if state.compensation_open() && answer != Answer::Abandon {
        // The agent is no longer waited for; the answer stands in for its report.
        events.push(let_go(execution, no).into());
    }
    let payload = output.as_ref().map(bytes);
    let kept = payload.as_deref().map(|body| execution.keep(body));
    let step = Some(execution.step_id(no));
    let event = Decided { step, answer, reason: reason.clone(), output: kept };
    events.push(Fresh { event: event.into(), payload });
    Ok(events)
}

fn let_go(execution: &Execution, no: StepNo) -> CompensationEnded {
    CompensationEnded {
        step: execution.step_id(no),
        compensation: execution.step(no).compensations.len() as u32,
        outcome: Outcome::Unknown,
        category: None,
        result: None,
        unsent: false,
        takeover: false,
        retry_after_ms: None,
    }
}

fn does_not_fit(execution: &Execution, no: StepNo, answer: Answer, fitting: &[Answer]) -> Refusal {
    if execution.ended.is_some() || execution.stop.is_some() {
        return not_now(execution, "decide");
    }
    let (id, status) = (&execution.plan.step(no).id, execution.step(no).status());
    let message = format!("`{answer}` does not fit: step `{id}` is {status}");
    let fitting: Vec<&str> = fitting.iter().map(|answer| answer.as_str()).collect();
    let cure = match fitting.is_empty() {
        true => "`show` the execution: it says what waits for an answer".to_owned(),
        false => format!("answers that fit: {}", fitting.join(", ")),
    };
    Refusal::new("does_not_fit", message, cure)
}

fn record(execution: &Execution, step: &str, report: &Report) -> Result<Vec<Fresh>, Refusal> {
    let no = find(execution, step)?;
    let open = execution.open_agent(no);
    let kind = open.map(|call| call.kind);
    match (report, kind) {
        (Report::Started, Some(CallKind::Run)) if !execution.step(no).agent_started && !execution.paused => {
            let attempt = execution.step(no).attempts.len() as u32;
            Ok(vec![AgentStarted { step: execution.step_id(no), attempt }.into()])
        }
        (Report::Succeeded { .. } | Report::Failed { .. }, Some(CallKind::Run))
        | (Report::Compensated { .. } | Report::Failed { .. }, Some(CallKind::Compensation)) => {
            let call = open.expect("the kind is that of an open call");
            Ok(call_report(execution, call, &ended(report)))
        }
        (Report::Succeeded { .. } | Report::Failed { .. } | Report::Compensated { .. }, None) => {
            late_record(execution, no, report)
        }
        (Report::Started, _)
        | (Report::Failed { .. }, Some(CallKind::Probe))
        | (Report::Compensated { .. }, Some(CallKind::Run | CallKind::Probe))
        | (Report::Succeeded { .. }, Some(CallKind::Compensation | CallKind::Probe)) => {
            Err(nothing_to_record(execution, no))
        }
    }
}

fn ended(report: &Report) -> Ended {
    match report {
        Report::Started => unreachable!("a start is no end"),
        Report::Succeeded { output } | Report::Compensated { output } => {
            Ended::Succeeded { output: output.clone().unwrap_or(Value::Null) }
        }
        Report::Failed { reason, category } => {
            let said = json!({ "message": reason });
            Ended::Failed { category: *category, said, unsent: false, retry_after_ms: None }
        }
    }
}

/// An agent's report after its work was given up settles it.
fn late_record(execution: &Execution, no: StepNo, report: &Report) -> Result<Vec<Fresh>, Refusal> {
    let state = execution.step(no);
    let lost = |by_agent: bool, outcome: Option<Outcome>, late: Option<Outcome>| {
        by_agent && outcome == Some(Outcome::Unknown) && late.is_none()
    };
    let run = state.last().is_some_and(|last| lost(last.by_agent, last.outcome, last.late));
    let undo = state.last_compensation().is_some_and(|last| lost(last.by_agent, last.outcome, last.late));
    let (kind, count) = match report {
        Report::Compensated { .. } | Report::Failed { .. } if undo => {
            (CallKind::Compensation, state.compensations.len())
        }
        Report::Succeeded { .. } | Report::Failed { .. } if run => (CallKind::Run, state.attempts.len()),
        Report::Started | Report::Succeeded { .. } | Report::Failed { .. } | Report::Compensated { .. } => {
            return Err(nothing_to_record(execution, no));
        }
    };
    let call = CallId { step: no, kind, no: count as u32 - 1 };
    Ok(call_report(execution, call, &ended(report)))
}

fn nothing_to_record(execution: &Execution, no: StepNo) -> Refusal {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let message = format!("nothing to record for step `{}`: it is {}", spec.id, state.status());
    let waiting: Vec<String> = execution
        .index
        .open_agents
        .iter()
        .map(|call| format!("`{}`", execution.plan.step(call.step).id))
        .collect();
    let cure = match (execution.open_agent(no).map(|call| call.kind), waiting.is_empty()) {
        (Some(CallKind::Compensation), _) => "say `compensated` or `failed`".to_owned(),
        (Some(_), _) => "say `succeeded` or `failed`".to_owned(),
        (None, true) => "no step waits for its agent; `show` the execution".to_owned(),
        (None, false) => format!("steps that wait for their agent: {}", waiting.join(", ")),
    };
    Refusal::new("not_awaited", message, cure)
}

fn erase(execution: &Execution) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_none() {
        return Err(Refusal::new(
            "not_ended",
            "only ended executions can be erased",
            "wait for its end, or cancel it",
        ));
    }
    if execution.erased {
        return Ok(Vec::new());
    }
    Ok(vec![PayloadsErased {}.into()])
}
