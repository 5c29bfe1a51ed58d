//! Folds the start and end of attempts and of their probes.

use std::sync::Arc;

use super::super::due::{CallId, CallKind};
use super::super::state::{Attempt, Execution, PayloadRef, ProbeState, StepFailure};
use super::super::tool_policy::TAKEOVER_REPEATS_MAX;
use crate::event::{self, ProbeFinding};
use crate::id::{StepId, StepNo};
use crate::policy::{Outcome, StepStatus};

impl Execution {
    pub(super) fn attempt_started(
        &mut self,
        event: &event::AttemptStarted,
        arguments: Option<PayloadRef>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let by_agent = self.plan.step(no).is_agent_step();
        let step = &mut self.steps[no.index()];
        if event.attempt as usize != step.attempts.len() + 1 {
            return Err(format!("attempt {} of `{}` is out of turn", event.attempt, event.step));
        }
        // An answered `retry` also covers the automatic attempts that follow it.
        let continues_forced =
            step.status() == StepStatus::Running && step.last_attempt().is_some_and(|last| last.forced);
        // An automatic retry is the same call, and sends the same reply along.
        let inherited = step.last_attempt().and_then(|last| last.reply);
        let inherited = inherited.filter(|_| step.status() == StepStatus::Running);
        let earlier = if step.approved {
            step.approval_arguments
        } else {
            step.last_attempt().and_then(|last| last.arguments)
        };
        step.attempts.push(Attempt {
            key: step.next_key(),
            by_agent,
            forced: step.forced || continues_forced,
            arguments: arguments.or(earlier),
            pin: step.approval_pin.filter(|_| step.approved),
            outcome: None,
            category: None,
            result: None,
            settled: None,
            late_outcome: None,
            probe: ProbeState::None,
            probes_lost: 0,
            unsent: false,
            takeover: false,
            repeat_after_takeover: false,
            ended_with_question: false,
            reply: step.next_reply.take().or(inherited),
            task_handle: None,
            started_at_ms: at_ms,
            ended_at_ms: None,
        });
        (step.forced, step.needs_new_key) = (false, false);
        step.retry_at_ms = None;
        (step.agent_started_at_ms, step.claim) = (None, None);
        step.former_holders.clear();
        step.tries += 1;
        step.started_at_ms.get_or_insert(at_ms);
        step.ended_at_ms = None;
        self.calls_made += u32::from(!by_agent);
        self.open_call(CallId { step: no, kind: CallKind::Run, index: event.attempt - 1 }, by_agent);
        let status = if by_agent { StepStatus::AwaitingAgent } else { StepStatus::Running };
        self.set_status(no, status, None);
        Ok(())
    }

    /// Finds an attempt by its number, from 1: the step, the attempt's index and the attempt itself.
    pub(super) fn find_attempt(
        &mut self,
        step: &StepId,
        attempt: u32,
    ) -> Result<(StepNo, u32, &mut Attempt), String> {
        let no = self.find_step(step)?;
        let index = attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let found = self.steps[no.index()].attempts.get_mut(index as usize);
        Ok((no, index, found.ok_or_else(|| format!("`{step}` has no attempt {attempt}"))?))
    }

    pub(super) fn attempt_ended(
        &mut self,
        event: &event::AttemptEnded,
        result: Option<PayloadRef>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, _) = self.find_attempt(&event.step, event.attempt)?;
        let may_repeat = self.rules(no).repeatable && self.step(no).takeover_repeats < TAKEOVER_REPEATS_MAX;
        let attempt = &mut self.steps[no.index()].attempts[index as usize];
        if !attempt.is_open() {
            return Err(format!("attempt {} of `{}` has ended before", event.attempt, event.step));
        }
        attempt.outcome = Some(event.outcome);
        attempt.category = event.category;
        attempt.result = result;
        attempt.unsent = event.unsent;
        attempt.takeover = event.takeover;
        attempt.ended_with_question = event.asks;
        attempt.ended_at_ms = Some(at_ms);
        attempt.repeat_after_takeover = event.takeover && event.outcome == Outcome::Unknown && may_repeat;
        let (repeats, is_free) =
            (attempt.repeat_after_takeover, attempt.is_proven_unsent() || attempt.repeat_after_takeover);
        let by_agent = attempt.by_agent;
        self.close_call(CallId { step: no, kind: CallKind::Run, index });
        self.calls_made -= u32::from(event.unsent && !by_agent);
        let step = &mut self.steps[no.index()];
        step.tries -= u32::from(is_free);
        step.takeover_repeats += u32::from(repeats);
        step.not_before_ms = event.retry_after_ms.map(|wait| at_ms.saturating_add_unsigned(wait));
        step.has_open_question = event.asks;
        if event.outcome != Outcome::Succeeded {
            step.error = event.category.map(|category| StepFailure { category, detail: result });
            self.after_unsuccessful_attempt(no);
            return Ok(());
        }
        self.succeed_step(no, at_ms);
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
        let task: Arc<str> = event.task.as_str().into();
        match (event.attempt, event.compensation) {
            (Some(attempt), None) => self.find_attempt(&event.step, attempt)?.2.task_handle = Some(task),
            (None, Some(compensation)) => {
                self.find_compensation(&event.step, compensation)?.2.task_handle = Some(task);
            }
            (Some(_), Some(_)) | (None, None) => return Err("a task is one call's".into()),
        }
        Ok(())
    }

    pub(super) fn probe_started(
        &mut self,
        event: &event::ProbeStarted,
        arguments: PayloadRef,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.find_attempt(&event.step, event.attempt)?;
        attempt.probe = ProbeState::Open { arguments };
        self.calls_made += 1;
        self.open_call(CallId { step: no, kind: CallKind::Probe, index }, false);
        self.refresh(no);
        Ok(())
    }

    pub(super) fn probe_ended(
        &mut self,
        event: &event::ProbeEnded,
        result: Option<PayloadRef>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.find_attempt(&event.step, event.attempt)?;
        let is_unknown = attempt.effective_outcome() == Some(Outcome::Unknown);
        attempt.probes_lost += u32::from(event.found == ProbeFinding::Lost);
        attempt.probe = match event.found {
            ProbeFinding::Lost => ProbeState::None,
            ProbeFinding::Happened | ProbeFinding::DidNotHappen | ProbeFinding::Error => {
                ProbeState::Done(event.found)
            }
        };
        let happened = match event.found {
            ProbeFinding::Happened => Some(true),
            ProbeFinding::DidNotHappen => Some(false),
            ProbeFinding::Error | ProbeFinding::Lost => None,
        };
        if is_unknown && happened.is_some() {
            attempt.settled = happened;
            if happened == Some(true) {
                attempt.result = result;
            }
        }
        self.close_call(CallId { step: no, kind: CallKind::Probe, index });
        self.refresh(no);
        let status = self.step(no).status();
        if is_unknown && happened.is_some() && status == StepStatus::Unknown {
            self.settle_from_attempts(no, at_ms);
        }
        Ok(())
    }
}
