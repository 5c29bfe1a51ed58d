//! Folds the start and end of attempts, at a step or at its compensation, and of probes.

use super::super::attempt::{Attempt, ProbeState, ToolQuestion};
use super::super::call_ending::CallEnding;
use super::super::due::{CallId, CallKind};
use super::super::state::{ExecutionState, PayloadRef};
use super::super::tool_policy::TAKEOVER_REPEATS_MAX;
use crate::event::{self, ProbeFinding};
use crate::id::{StepId, StepNo};
use crate::policy::{Outcome, StepStatus};

impl ExecutionState {
    pub(super) fn attempt_started(&mut self, event: &event::AttemptStarted) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let by_agent = self.plan.step(no).is_agent_step();
        self.count_session_start(no);
        let arguments = self.own_payload(event.arguments);
        let step = &mut self.steps[no.index()];
        // An automatic attempt after an answered `retry` or a reply is the same call: it sends the same reply.
        let repeated = step.last_attempt().filter(|_| step.status() == StepStatus::Running);
        let earlier = if step.is_approved() {
            step.approval.arguments
        } else {
            step.last_attempt().and_then(|last| last.arguments)
        };
        let attempt = Attempt {
            key: step.next_key(),
            by_agent,
            forced: step.forced || repeated.is_some_and(|last| last.forced),
            arguments: arguments.or(earlier).or(step.literal_arguments),
            pin: step.approval.pin.filter(|_| step.is_approved()),
            reply: step.next_reply().or(repeated.and_then(|last| last.reply)),
            node: event.node.clone(),
            started_at_ms: self.last_entry_at_ms,
            ..Attempt::default()
        };
        (step.forced, step.needs_new_key) = (false, false);
        (step.agent_started_at_ms, step.claim) = (None, None);
        step.former_holders.clear();
        step.retry.tries += 1;
        step.started_at_ms.get_or_insert(self.last_entry_at_ms);
        step.ended_at_ms = None;
        self.calls_made += u32::from(!by_agent);
        let status = if by_agent { StepStatus::AwaitingAgent } else { StepStatus::Running };
        self.start_attempt(no, CallKind::Run, event.attempt, attempt, status)
    }

    /// Adds an attempt that has started at a step or at its compensation; `number` counts from 1.
    pub(super) fn start_attempt(
        &mut self,
        no: StepNo,
        kind: CallKind,
        number: u32,
        attempt: Attempt,
        status: StepStatus,
    ) -> Result<(), String> {
        let by_agent = attempt.by_agent;
        let step = &mut self.steps[no.index()];
        let attempts = step.attempts_of_mut(kind);
        if number as usize != attempts.len() + 1 {
            return Err(format!("{} {number} of `{}` is out of turn", kind.noun(), self.step_id(no)));
        }
        attempts.push(attempt);
        step.retry.at_ms = None;
        self.open_call(CallId { step: no, kind, index: number - 1 }, by_agent);
        self.set_status(no, status, None);
        Ok(())
    }

    /// Finds an attempt at a step or at its compensation by its number, from 1.
    pub(super) fn find_attempt(
        &mut self,
        step: &StepId,
        kind: CallKind,
        number: u32,
    ) -> Result<(CallId, &mut Attempt), String> {
        let no = self.find_step(step)?;
        let attempts = self.steps[no.index()].attempts_of_mut(kind);
        let index = number.checked_sub(1).filter(|index| (*index as usize) < attempts.len());
        let index = index.ok_or_else(|| format!("`{step}` has no {} {number}", kind.noun()))?;
        Ok((CallId { step: no, kind, index }, &mut attempts[index as usize]))
    }

    /// Records the end of an attempt at a step or at its compensation. Returns whether the attempt counts
    /// against no limit of tries.
    pub(super) fn end_attempt(&mut self, call: CallId, ending: CallEnding) -> Result<bool, String> {
        let may_repeat = ending.takeover
            && ending.outcome == Outcome::Unknown
            && (self.session.is_none() || call.kind == CallKind::Compensation)
            && self.is_repeatable(call)
            && self.step(call.step).retry.takeover_repeats < TAKEOVER_REPEATS_MAX;
        let result = self.own_payload(ending.result);
        let step = &mut self.steps[call.step.index()];
        let attempt = &mut step.attempts_of_mut(call.kind)[call.index as usize];
        if !attempt.is_open() {
            let (noun, number) = (call.kind.noun(), call.index + 1);
            return Err(format!("{noun} {number} of `{}` has ended before", self.step_id(call.step)));
        }
        attempt.outcome = Some(ending.outcome);
        attempt.category = ending.category;
        attempt.result = result;
        attempt.unsent = ending.unsent;
        attempt.takeover = ending.takeover;
        attempt.question = if ending.asks { ToolQuestion::Open } else { ToolQuestion::None };
        attempt.ended_at_ms = Some(self.last_entry_at_ms);
        attempt.repeat_after_takeover = may_repeat;
        let is_free = attempt.is_free();
        step.retry.takeover_repeats += u32::from(may_repeat);
        let now_ms = self.last_entry_at_ms;
        step.retry.not_before_ms = ending.retry_after_ms.map(|wait| now_ms.saturating_add_unsigned(wait));
        self.close_call(call);
        Ok(is_free)
    }

    pub(super) fn attempt_ended(&mut self, event: &event::AttemptEnded) -> Result<(), String> {
        let (call, attempt) = self.find_attempt(&event.step, CallKind::Run, event.attempt)?;
        let is_uncounted_call = event.unsent && !attempt.by_agent;
        let is_free = self.end_attempt(call, event.into())?;
        self.calls_made -= u32::from(is_uncounted_call);
        let failure = self.own_failure(event.category, event.result);
        let step = &mut self.steps[call.step.index()];
        step.retry.tries -= u32::from(is_free);
        if event.outcome == Outcome::Succeeded {
            self.succeed_step(call.step);
        } else if self.session.is_some() {
            self.settle_session_call(call.step, event.outcome.into(), failure);
        } else {
            step.error = failure;
            self.after_unsuccessful_attempt(call.step);
        }
        Ok(())
    }

    /// A step whose attempts are all proven unsent is pending again, as if never started. Any other keeps
    /// running until `follow` settles or retries it.
    fn after_unsuccessful_attempt(&mut self, no: StepNo) {
        let step = &mut self.steps[no.index()];
        if step.attempts.iter().all(Attempt::is_proven_unsent) {
            step.forced = step.last_attempt().is_some_and(|last| last.forced);
            step.error = None;
            self.set_status(no, StepStatus::Pending, None);
        } else {
            self.set_status(no, StepStatus::Running, None);
        }
    }

    /// Stores the handle of the server's task that performs an attempt or a compensation.
    pub(super) fn task_accepted(&mut self, event: &event::TaskAccepted) -> Result<(), String> {
        let (kind, number) = match (event.attempt, event.compensation) {
            (Some(attempt), None) => (CallKind::Run, attempt),
            (None, Some(compensation)) => (CallKind::Compensation, compensation),
            (Some(_), Some(_)) | (None, None) => return Err("a task is one call's".into()),
        };
        self.find_attempt(&event.step, kind, number)?.1.task_handle = Some(event.task.as_str().into());
        Ok(())
    }

    pub(super) fn probe_started(&mut self, event: &event::ProbeStarted) -> Result<(), String> {
        let arguments = PayloadRef { position: self.position, digest: event.arguments };
        let (call, attempt) = self.find_attempt(&event.step, CallKind::Probe, event.attempt)?;
        attempt.probe = ProbeState::Open { arguments };
        self.calls_made += 1;
        self.open_call(call, false);
        self.refresh(call.step);
        Ok(())
    }

    pub(super) fn probe_ended(&mut self, event: &event::ProbeEnded) -> Result<(), String> {
        let result = self.own_payload(event.result);
        let (call, attempt) = self.find_attempt(&event.step, CallKind::Probe, event.attempt)?;
        let happened = match event.found {
            ProbeFinding::Happened => Some(true),
            ProbeFinding::DidNotHappen => Some(false),
            ProbeFinding::Error | ProbeFinding::Lost => None,
        };
        let is_lost = event.found == ProbeFinding::Lost;
        attempt.probes_lost += u32::from(is_lost);
        attempt.probe = if is_lost { ProbeState::None } else { ProbeState::Done(event.found) };
        let settles = attempt.is_unknown() && happened.is_some();
        if settles {
            attempt.settled = happened;
            attempt.result = if happened == Some(true) { result } else { attempt.result };
        }
        self.close_call(call);
        self.refresh(call.step);
        if settles && self.step(call.step).status() == StepStatus::Unknown {
            self.settle_from_attempts(call.step);
        }
        Ok(())
    }
}
