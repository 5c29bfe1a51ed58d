//! Turns commands into events or rejections. Nothing here starts an attempt: only `follow` does, and it runs
//! only after the driver's commands.

mod answer;
mod session;
mod undo;

pub use answer::check_corrected_answer;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::attempt::Attempt;
use super::call_ending::CallEnding;
use super::command::{Command, ReportedOutcome};
use super::due::{CallId, CallKind};
use super::evolve::Execution;
use super::follow::{LoadedPayloads, MissingPayloads};
use super::state::{ApprovalGate, Phase};
use super::{NewEvent, Now, record};
use crate::chain::Digest;
use crate::event::*;
use crate::id::{Epoch, ExecutionId, NodeId, PlanId, Position, StepId, StepNo};
use crate::plan::Plan;
use crate::policy::{ErrorCategory, Outcome, StepAnswer, StepStatus};
use crate::refusal::{ExecutionStage, Refusal, StatusAction, StepSuggestion};
use crate::spelling::nearest;
use crate::tool_policy::ToolPolicies;

/// What an execution's first entry records of the config at its start.
#[derive(Clone, Debug)]
pub struct StartContext {
    /// Digest of the definitions of the servers that the plan names.
    pub toolset: Digest,
    pub project: Option<String>,
    pub agents_may_approve: bool,
}

/// Builds the first event of an execution of a plan, and its payload: the inputs, which the caller has validated.
/// `terms`: the tools' policies at the start, which hold for the whole execution. `salt`: for the digests of
/// payloads.
pub fn build_start_event(
    id: ExecutionId,
    plan_ref: PlanRef,
    plan: &Plan,
    inputs: Option<&Value>,
    context: &StartContext,
    terms: &ToolPolicies,
    salt: &Arc<[u8]>,
) -> (ExecutionStarted, Option<Vec<u8>>) {
    let payload = inputs.map(to_json_bytes);
    let inputs = payload
        .as_deref()
        .map(|body| PayloadDigest { digest: Digest::salted(salt, body), size: body.len() as u64 });
    let StartContext { toolset: place, project, agents_may_approve } = context.clone();
    let started = ExecutionStarted {
        id,
        plan: plan_ref,
        inputs,
        place,
        task: plan.task.clone(),
        terms: terms.clone(),
        project,
        agents_may_approve,
        session: None,
    };
    (started, payload)
}

/// Builds the first event of an open execution. `plan`: the empty plan of the session.
pub fn build_session_start_event(
    id: ExecutionId,
    plan: &Plan,
    context: &StartContext,
    session: SessionStart,
) -> ExecutionStarted {
    let StartContext { toolset: place, project, agents_may_approve } = context.clone();
    let plan_id = PlanId::new(SESSION_PLAN_ID);
    ExecutionStarted {
        id,
        plan: PlanRef { id: plan_id, name: plan.name.clone(), version: 0, digest: plan.digest },
        inputs: None,
        place,
        task: None,
        terms: ToolPolicies::new(),
        project,
        agents_may_approve,
        session: Some(Box::new(session)),
    }
}

/// The plan id in the start of a session, whose plan is not saved.
pub const SESSION_PLAN_ID: &str = "session";

/// A JSON value as the bytes of a payload: compact JSON.
pub(super) fn to_json_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value always serialises")
}

/// Why a command yields no events: it is refused, or payloads must be loaded first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    Refused(Refusal),
    MissingPayloads(MissingPayloads),
}

impl From<MissingPayloads> for Rejection {
    fn from(missing: MissingPayloads) -> Self {
        Self::MissingPayloads(missing)
    }
}

/// The events that a command causes; empty where it changes nothing.
pub fn decide(
    execution: &Execution,
    command: &Command,
    now: Now,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, Rejection> {
    let decided = match command {
        command if is_outdated(execution, command) => Err(Refusal::StaleQuestion),
        Command::ReportOutcome { call, outcome, .. } => {
            Ok(record_outcome(execution, *call, outcome, values)?)
        }
        Command::Claim { node, expected_epoch, unsent } => claim(execution, node, *expected_epoch, unsent),
        Command::Reclaim { node, epoch } => reclaim(execution, node, *epoch),
        Command::Drive { epoch } => check_driver(execution, *epoch),
        Command::AdoptToolset { toolset } => adopt_toolset(execution, *toolset),
        Command::MovePin { tool, digest } => move_pin(execution, tool, *digest),
        Command::Pause { reason } => pause(execution, reason),
        Command::Resume => resume(execution),
        Command::Cancel { reason } => cancel(execution, reason),
        Command::Undo { reason, steps, approves } => {
            return undo::undo(execution, reason, steps.as_deref(), *approves, values);
        }
        Command::Approve { step, reason, replies_to, scope } => {
            let reply = ApprovalDecision::yes(reason, *replies_to, *scope);
            answer_approval(execution, step.as_deref(), reply, now)
        }
        Command::Reject { step, reason, replies_to } => {
            answer_approval(execution, step.as_deref(), ApprovalDecision::no(reason, *replies_to), now)
        }
        Command::Decide {
            step,
            answer: StepAnswer::Compensate,
            reason,
            output: None,
            arguments: None,
            approves,
            ..
        } => {
            return undo::compensate(execution, step, reason, *approves, values);
        }
        Command::Decide { step, answer, reason, output, arguments, approves, replies_to } => {
            let (output, arguments) = (output.as_ref(), arguments.as_ref());
            let (names_question, approves) = (replies_to.is_some(), *approves);
            let input = answer::AnswerInput { output, arguments, names_question, approves };
            answer::answer_step(execution, step, *answer, reason, input)
        }
        Command::RecordReport { step, report, facts, by, .. } => {
            record::record_report(execution, step, report, facts, by.as_ref())
        }
        Command::RecordAction { step, status, facts } => {
            record::record_action(execution, step.as_deref(), *status, facts)
        }
        Command::RecordDecision { decision, reason, step, details } => {
            record::record_decision(execution, decision, reason, step.as_deref(), details)
        }
        Command::RecordCompensation { step, done, facts } => {
            record::record_compensation(execution, step, *done, facts)
        }
        Command::AcceptTask { call, task } => Ok(accept_task(execution, *call, task)),
        Command::ErasePayloads => erase_payloads(execution),
        Command::Session(command) => session::decide_session_command(execution, command, now),
    };
    decided.map_err(Rejection::Refused)
}

/// Whether a decision names a question, or a report names work, that was answered or replaced meanwhile.
fn is_outdated(execution: &Execution, command: &Command) -> bool {
    if let Command::Decide { step, replies_to: Some(asked_at), .. } = command {
        return !is_still_asked(execution, Some(step), *asked_at);
    }
    if let Command::RecordReport { step, replies_to: Some(since), .. } = command {
        return !is_still_awaited(execution, step, *since);
    }
    false
}

/// Whether the question that the entry at `asked_at` asked, about a step or the whole execution, is the open one.
fn is_still_asked(execution: &Execution, step: Option<&str>, asked_at: Position) -> bool {
    let Some(step) = step else { return execution.asked_at(None) == Some(asked_at) };
    // An unknown step is refused for that.
    execution.plan.find_step(step).is_none_or(|no| execution.asked_at(Some(no)) == Some(asked_at))
}

/// Whether the agent's work on this step that was awaited since this entry still is.
fn is_still_awaited(execution: &Execution, step: &str, since: Position) -> bool {
    // An unknown step is refused for that.
    execution.plan.find_step(step).is_none_or(|no| execution.agent_awaited_since(no) == Some(since))
}

/// Refuses a command whose epoch is not the current one: another process has become the driver.
fn check_driver(execution: &Execution, epoch: Epoch) -> Result<Vec<NewEvent>, Refusal> {
    if epoch != execution.epoch {
        return Err(Refusal::NotTheDriver);
    }
    Ok(Vec::new())
}

/// The refusal of a command that the execution's status does not allow.
pub(super) fn wrong_status_refusal(execution: &Execution, action: StatusAction) -> Refusal {
    let stage = match execution.ended {
        Some(_) => ExecutionStage::Ended { can_undo: execution.can_undo() && !execution.erased },
        None if execution.phase == Phase::Unwind && !execution.paused => ExecutionStage::Unwinding,
        None => ExecutionStage::Unfinished,
    };
    Refusal::WrongStatus { action, status: execution.status(), stage }
}

/// Makes `node` the driver. The former driver's open calls become unknown, except those proven unsent.
fn claim(
    execution: &Execution,
    node: &NodeId,
    expected_epoch: Epoch,
    unsent: &BTreeSet<CallId>,
) -> Result<Vec<NewEvent>, Refusal> {
    if expected_epoch != execution.epoch || execution.ended.is_some() {
        return Err(Refusal::ClaimedByAnother);
    }
    let mut events = vec![driver_changed_event(execution, node)];
    // A call that its server runs as a task of its own is not lost with the process that made it.
    // A session's call is lost with the process that sent it, not with the driver.
    let of_driver = |call: &&CallId| execution.session.is_none() || call.kind == CallKind::Compensation;
    let open = execution.index.open_tool_calls.iter().filter(of_driver);
    for call in open.filter(|call| execution.task_handle(**call).is_none()) {
        events.push(lost_call_event(execution, *call, unsent.contains(call)).into());
    }
    Ok(events)
}

/// Starts a new epoch for the current driver and keeps its calls in flight. A repeat changes nothing.
fn reclaim(execution: &Execution, node: &NodeId, epoch: Epoch) -> Result<Vec<NewEvent>, Refusal> {
    let is_repeat = execution.epoch.0 == epoch.0 + 1 && execution.node.as_ref() == Some(node);
    if is_repeat || execution.ended.is_some() {
        return Ok(Vec::new());
    }
    check_driver(execution, epoch)?;
    Ok(vec![driver_changed_event(execution, node)])
}

fn driver_changed_event(execution: &Execution, node: &NodeId) -> NewEvent {
    DriverChanged { epoch: Epoch(execution.epoch.0 + 1), seat: node.clone() }.into()
}

/// Records the task handle of an open call that has none yet. A probe gets none: it is called again instead.
fn accept_task(execution: &Execution, call: CallId, task: &str) -> Vec<NewEvent> {
    let needs_handle =
        execution.index.open_tool_calls.contains(&call) && execution.task_handle(call).is_none();
    let (attempt, compensation) = match call.kind {
        CallKind::Run => (Some(call.index + 1), None),
        CallKind::Compensation => (None, Some(call.index + 1)),
        CallKind::Probe => return Vec::new(),
    };
    let (step, task) = (execution.step_id(call.step), task.to_owned());
    let event = TaskAccepted { step, attempt, compensation, task };
    if needs_handle { vec![event.into()] } else { Vec::new() }
}

/// The end of a call whose process died: failed where proven unsent, else unknown.
fn lost_call_event(execution: &Execution, call: CallId, unsent: bool) -> Event {
    let step = execution.step_id(call.step);
    let outcome = if unsent { Outcome::Failed } else { Outcome::Unknown };
    if call.kind == CallKind::Probe {
        let may_repeat = unsent || execution.may_probe_again(call);
        let found = if may_repeat { ProbeFinding::Lost } else { ProbeFinding::Error };
        return ProbeEnded { step, attempt: call.index + 1, found, result: None }.into();
    }
    let ending = CallEnding::new(outcome, Some(ErrorCategory::Unavailable));
    CallEnding { unsent, takeover: true, ..ending }.into_event(execution, call)
}

/// Splits an outcome into the fields of its event and the payload: the output, the error or the question.
fn split_outcome(outcome: &ReportedOutcome) -> (CallEnding, Vec<u8>) {
    let (ending, value) = match outcome {
        ReportedOutcome::Succeeded { output } => (CallEnding::new(Outcome::Succeeded, None), output),
        ReportedOutcome::Failed { category, error, unsent, retry_after_ms } => {
            let failed = CallEnding::new(Outcome::Failed, Some(*category));
            (CallEnding { unsent: *unsent, retry_after_ms: *retry_after_ms, ..failed }, error)
        }
        ReportedOutcome::Unknown { category, error, retry_after_ms } => {
            let unknown = CallEnding::new(Outcome::Unknown, Some(*category));
            (CallEnding { retry_after_ms: *retry_after_ms, ..unknown }, error)
        }
        ReportedOutcome::InputRequired { question, may_have_run } => {
            let outcome = if *may_have_run { Outcome::Unknown } else { Outcome::Failed };
            (CallEnding { asks: true, ..CallEnding::new(outcome, Some(ErrorCategory::Policy)) }, question)
        }
    };
    (ending, to_json_bytes(value))
}

/// Records how a call ended. The first outcome counts, a later one is evidence, a third changes nothing.
fn record_outcome(
    execution: &Execution,
    call: CallId,
    outcome: &ReportedOutcome,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    if call.kind == CallKind::Probe {
        return record_probe_outcome(execution, call, outcome, values);
    }
    Ok(record_call_outcome(execution, call, outcome))
}

/// The event for the outcome of an attempt or a compensation; none where the outcome is nothing new.
pub(super) fn record_call_outcome(
    execution: &Execution,
    call: CallId,
    outcome: &ReportedOutcome,
) -> Vec<NewEvent> {
    let (ending, payload) = split_outcome(outcome);
    let attempts = execution.step(call.step).attempts_of(call.kind);
    // An erased execution stores no payload any more: the entry alone is evidence enough.
    let result = (!execution.erased).then(|| execution.digest_payload(&payload));
    let payload = result.is_some().then_some(payload);
    let ending = CallEnding { result, ..ending };
    let outcome = ending.outcome;
    let event = match attempts.get(call.index as usize) {
        Some(open) if open.is_open() => ending.into_event(execution, call),
        Some(ended)
            if outcome != Outcome::Unknown
                && ended.late_outcome.is_none()
                && ended.outcome != Some(outcome) =>
        {
            ending.into_late_event(execution, call)
        }
        Some(_) | None => return Vec::new(),
    };
    vec![NewEvent { event, payload }]
}

/// Records a probe's outcome; the plan's `happened` expression decides what it says about the effect.
fn record_probe_outcome(
    execution: &Execution,
    call: CallId,
    outcome: &ReportedOutcome,
    values: &LoadedPayloads,
) -> Result<Vec<NewEvent>, MissingPayloads> {
    let attempt = execution.step(call.step).attempts.get(call.index as usize);
    if !attempt.is_some_and(Attempt::is_probing) {
        return Ok(Vec::new());
    }
    let found = super::follow::evaluate_probe(execution, call, outcome, values)?;
    let (_, payload) = split_outcome(outcome);
    let result = Some(execution.digest_payload(&payload));
    let event = ProbeEnded { step: execution.step_id(call.step), attempt: call.index + 1, found, result };
    Ok(vec![NewEvent { event: event.into(), payload: Some(payload) }])
}

/// Switches to another toolset; no event where it is the current one.
fn adopt_toolset(execution: &Execution, toolset: Digest) -> Result<Vec<NewEvent>, Refusal> {
    if execution.toolset == toolset {
        return Ok(Vec::new());
    }
    Ok(vec![PlaceAdopted { place: toolset }.into()])
}

/// Moves a tool's pin to another definition; a tool that was never pinned stays without a pin.
fn move_pin(execution: &Execution, tool: &str, digest: Digest) -> Result<Vec<NewEvent>, Refusal> {
    let pin = execution.tool_policies.get(tool).and_then(|terms| terms.pin);
    if pin.is_some_and(|pin| pin != digest) && execution.ended.is_none() {
        return Ok(vec![PinMoved { tool: tool.to_owned(), digest }.into()]);
    }
    Ok(Vec::new())
}

/// Pauses the execution; refused where it has ended or is paused.
fn pause(execution: &Execution, reason: &Option<String>) -> Result<Vec<NewEvent>, Refusal> {
    if execution.ended.is_some() || execution.paused {
        return Err(wrong_status_refusal(execution, StatusAction::Pause));
    }
    Ok(vec![Paused { reason: reason.clone() }.into()])
}

/// Ends a pause; refused where the execution is not paused.
pub(super) fn resume(execution: &Execution) -> Result<Vec<NewEvent>, Refusal> {
    if !execution.paused || execution.ended.is_some() {
        return Err(wrong_status_refusal(execution, StatusAction::Resume));
    }
    Ok(vec![Resumed {}.into()])
}

/// Cancels the execution; refused where it has ended, is being stopped or unwinds.
pub(super) fn cancel(execution: &Execution, reason: &Option<String>) -> Result<Vec<NewEvent>, Refusal> {
    if execution.ended.is_some() || execution.is_stopping() {
        return Err(wrong_status_refusal(execution, StatusAction::Cancel));
    }
    let mut events = vec![CancelAsked { reason: reason.clone() }.into()];
    if execution.session.is_some() {
        events.extend(session::closing_events(execution, reason, false));
    }
    Ok(events)
}

/// A yes or a no.
#[derive(Clone, Copy)]
struct ApprovalDecision<'a> {
    reason: &'a Option<String>,
    /// The entry that asked what the caller was shown; `None`: the caller answers whatever is asked.
    replies_to: Option<Position>,
    approves: bool,
    /// In a session: what the yes covers.
    scope: ApprovalScope,
}

impl<'a> ApprovalDecision<'a> {
    fn yes(reason: &'a Option<String>, replies_to: Option<Position>, scope: ApprovalScope) -> Self {
        Self { reason, replies_to, approves: true, scope }
    }

    fn no(reason: &'a Option<String>, replies_to: Option<Position>) -> Self {
        Self { reason, replies_to, approves: false, scope: ApprovalScope::Once }
    }
}

/// Approves or rejects the plan, a step or an unwinding; refused where none of them waits for an approval.
fn answer_approval(
    execution: &Execution,
    step: Option<&str>,
    reply: ApprovalDecision<'_>,
    now: Now,
) -> Result<Vec<NewEvent>, Refusal> {
    if reply.replies_to.is_some_and(|asked_at| !is_still_asked(execution, step, asked_at)) {
        return Err(Refusal::StaleQuestion);
    }
    let (reason, scope) = (reply.reason.clone(), reply.scope);
    let target = find_approval_target(execution, step, now)?;
    if scope == ApprovalScope::Session && !(execution.session.is_some() && step.is_some()) {
        return Err(Refusal::ScopeNotAllowed);
    }
    let event: Event = match (target, reply.approves) {
        (ApprovalTarget::Plan, true) => PlanApproved { reason }.into(),
        (ApprovalTarget::Plan, false) => PlanRejected { reason }.into(),
        (ApprovalTarget::Undo, true) => {
            let steps = execution.session.as_ref().and_then(|session| session.undo_selection.clone());
            UnwindStarted { reason, calls: Vec::new(), steps }.into()
        }
        (ApprovalTarget::AddedUndoCalls, true) => UnwindApproved { reason }.into(),
        (ApprovalTarget::Undo | ApprovalTarget::AddedUndoCalls, false) => UnwindRejected { reason }.into(),
        (ApprovalTarget::Step(no), true) => {
            StepApproved { step: execution.step_id(no), reason, scope }.into()
        }
        (ApprovalTarget::Step(no), false) => StepRejected { step: execution.step_id(no), reason }.into(),
    };
    Ok(vec![event.into()])
}

/// What an approval or a rejection is about.
enum ApprovalTarget {
    Plan,
    Undo,
    /// Calls that a running unwinding added to those approved before.
    AddedUndoCalls,
    Step(StepNo),
}

/// Finds the open question that an approval or a rejection answers; refused where there is none.
fn find_approval_target(
    execution: &Execution,
    step: Option<&str>,
    now: Now,
) -> Result<ApprovalTarget, Refusal> {
    if step.is_none() && execution.awaits_undo_approval() {
        let is_unwinding = execution.phase == Phase::Unwind && execution.ended.is_none();
        return Ok(if is_unwinding { ApprovalTarget::AddedUndoCalls } else { ApprovalTarget::Undo });
    }
    if execution.ended.is_some() || execution.is_stopping() {
        return Err(wrong_status_refusal(execution, StatusAction::Approve));
    }
    if let Some(step) = step {
        let no = find_step(execution, step)?;
        let asks = match &execution.session {
            None => execution.step(no).status() == StepStatus::AwaitingApproval,
            Some(_) => execution.call_question(no).is_some_and(|question| !question.has_expired(now.at_ms)),
        };
        return if asks { Ok(ApprovalTarget::Step(no)) } else { Err(nothing_to_approve(execution)) };
    }
    if matches!(execution.gate, ApprovalGate::Asked { .. }) {
        return Ok(ApprovalTarget::Plan);
    }
    // An approval of a step must name the step: another one may be waiting by the time it arrives.
    Err(nothing_to_approve(execution))
}

/// The refusal of an approval that nothing waits for, with the steps that do wait.
fn nothing_to_approve(execution: &Execution) -> Refusal {
    let awaiting =
        execution.step_numbers().filter(|no| execution.step(*no).status() == StepStatus::AwaitingApproval);
    Refusal::NothingToApprove { awaiting: awaiting.map(|no| execution.step_id(no)).collect() }
}

/// The number of the step with this id; refused, with the nearest id, where the plan has none.
pub(super) fn find_step(execution: &Execution, step: &str) -> Result<StepNo, Refusal> {
    execution.plan.find_step(step).ok_or_else(|| {
        let ids = || execution.plan.steps.iter().map(|step| &step.id);
        let suggestion = match nearest(step, ids().map(StepId::as_str)) {
            Some(near) => StepSuggestion::Nearest(StepId::new(near)),
            None => StepSuggestion::Known(ids().take(REFUSAL_STEPS_MAX).cloned().collect()),
        };
        Refusal::NoSuchStep { step: step.to_owned(), suggestion }
    })
}

/// Most steps that a refusal lists.
pub(super) const REFUSAL_STEPS_MAX: usize = 20;

/// Erases the payloads; refused before the end, and while an undo waits for its approval.
fn erase_payloads(execution: &Execution) -> Result<Vec<NewEvent>, Refusal> {
    if execution.ended.is_none() {
        return Err(Refusal::EraseBeforeEnd);
    }
    if execution.awaits_undo_approval() {
        return Err(Refusal::EraseBeforeUndoApproval);
    }
    if execution.erased {
        return Ok(Vec::new());
    }
    Ok(vec![PayloadsErased {}.into()])
}
