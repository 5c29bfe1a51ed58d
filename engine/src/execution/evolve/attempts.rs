//! Attempts and their probes: started, ended.

use std::sync::Arc;

use super::super::due::{CallId, CallKind};
use super::super::state::{Attempt, Execution, Failure, ProbeState, Stored};
use crate::event::{self, Probed};
use crate::id::{StepId, StepNo};
use crate::policy::{Outcome, StepStatus};

impl Execution {
    pub(super) fn attempt_started(
        &mut self,
        event: &event::AttemptStarted,
        arguments: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let by_agent = self.plan.step(no).by_agent();
        let step = &mut self.steps[no.index()];
        if event.attempt as usize != step.attempts.len() + 1 {
            return Err(format!("attempt {} of `{}` is out of turn", event.attempt, event.step));
        }
        // The automatic attempts that follow an answered `retry` are covered by it too.
        let goes_on = step.status() == StepStatus::Running && step.last().is_some_and(|last| last.forced);
        // What follows by itself is the same call, and takes the same answer along.
        let inherited = step.last().and_then(|last| last.answered);
        let inherited = inherited.filter(|_| step.status() == StepStatus::Running);
        let before = if step.approved { step.asked } else { step.last().and_then(|last| last.arguments) };
        step.attempts.push(Attempt {
            key: step.next_key(),
            by_agent,
            forced: step.forced || goes_on,
            arguments: arguments.or(before),
            pin: step.asked_pin.filter(|_| step.approved),
            outcome: None,
            category: None,
            result: None,
            settled: None,
            late: None,
            probe: ProbeState::None,
            unsent: false,
            takeover: false,
            asks: false,
            answered: step.answering.take().or(inherited),
            task: None,
            started_at_ms: at_ms,
            ended_at_ms: None,
        });
        step.forced = false;
        step.retry_at_ms = None;
        step.agent_began_ms = None;
        step.tries += 1;
        step.started_at_ms.get_or_insert(at_ms);
        step.ended_at_ms = None;
        self.calls += u32::from(!by_agent);
        self.open_call(CallId { step: no, kind: CallKind::Run, no: event.attempt - 1 }, by_agent);
        let status = if by_agent { StepStatus::AwaitingAgent } else { StepStatus::Running };
        self.set_status(no, status, None);
        Ok(())
    }

    pub(super) fn attempt(
        &mut self,
        step: &StepId,
        attempt: u32,
    ) -> Result<(StepNo, u32, &mut Attempt), String> {
        let no = self.find(step)?;
        let index = attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let found = self.steps[no.index()].attempts.get_mut(index as usize);
        Ok((no, index, found.ok_or_else(|| format!("`{step}` has no attempt {attempt}"))?))
    }

    pub(super) fn attempt_ended(
        &mut self,
        event: &event::AttemptEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(&event.step, event.attempt)?;
        if !attempt.open() {
            return Err(format!("attempt {} of `{}` has ended before", event.attempt, event.step));
        }
        attempt.outcome = Some(event.outcome);
        attempt.category = event.category;
        attempt.result = result;
        attempt.unsent = event.unsent;
        attempt.takeover = event.takeover;
        attempt.asks = event.asks;
        attempt.ended_at_ms = Some(at_ms);
        let free = attempt.costs_nothing();
        let by_agent = attempt.by_agent;
        self.close_call(CallId { step: no, kind: CallKind::Run, no: index });
        self.calls -= u32::from(event.unsent && !by_agent);
        let step = &mut self.steps[no.index()];
        step.tries -= u32::from(free);
        step.not_before_ms = event.retry_after_ms.map(|wait| at_ms.saturating_add_unsigned(wait));
        step.asks = event.asks;
        if event.outcome != Outcome::Succeeded {
            step.error = event.category.map(|category| Failure { category, said: result });
            self.set_status(no, StepStatus::Running, None);
            return Ok(());
        }
        self.succeed(no, at_ms);
        Ok(())
    }

    pub(super) fn task_accepted(&mut self, event: &event::TaskAccepted) -> Result<(), String> {
        let task: Arc<str> = event.task.as_str().into();
        match (event.attempt, event.compensation) {
            (Some(attempt), None) => self.attempt(&event.step, attempt)?.2.task = Some(task),
            (None, Some(compensation)) => {
                self.compensation(&event.step, compensation)?.2.task = Some(task);
            }
            (Some(_), Some(_)) | (None, None) => return Err("a task is one call's".into()),
        }
        Ok(())
    }

    pub(super) fn probe_started(
        &mut self,
        event: &event::ProbeStarted,
        arguments: Stored,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(&event.step, event.attempt)?;
        attempt.probe = ProbeState::Open { arguments };
        self.open_call(CallId { step: no, kind: CallKind::Probe, no: index }, false);
        self.refresh(no);
        Ok(())
    }

    pub(super) fn probe_ended(
        &mut self,
        event: &event::ProbeEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(&event.step, event.attempt)?;
        let unknown = attempt.counts_as() == Some(Outcome::Unknown);
        attempt.probe = match event.found {
            Probed::Lost => ProbeState::None,
            Probed::Happened | Probed::DidNotHappen | Probed::Error => ProbeState::Done(event.found),
        };
        let settles = match event.found {
            Probed::Happened => Some(true),
            Probed::DidNotHappen => Some(false),
            Probed::Error | Probed::Lost => None,
        };
        if unknown && settles.is_some() {
            attempt.settled = settles;
            if settles == Some(true) {
                attempt.result = result;
            }
        }
        self.close_call(CallId { step: no, kind: CallKind::Probe, no: index });
        self.refresh(no);
        let status = self.step(no).status();
        if unknown && settles.is_some() && status == StepStatus::Unknown {
            self.resettle(no, at_ms);
        }
        Ok(())
    }
}
