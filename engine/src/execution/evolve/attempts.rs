//! Attempts and their probes: started, ended.

use std::sync::Arc;

use super::super::due::{CallId, CallKind};
use super::super::state::{Attempt, Execution, Failure, ProbeState, Stored};
use super::super::terms::TAKEOVER_REPEATS_MAX;
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
            probes_lost: 0,
            unsent: false,
            takeover: false,
            repeats: false,
            asks: false,
            answered: step.answering.take().or(inherited),
            task: None,
            started_at_ms: at_ms,
            ended_at_ms: None,
        });
        (step.forced, step.new_key) = (false, false);
        step.retry_at_ms = None;
        (step.agent_began_ms, step.claim) = (None, None);
        step.former_holders.clear();
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
        let (no, index, _) = self.attempt(&event.step, event.attempt)?;
        let harmless = self.rules(no).repeatable && self.step(no).takeover_repeats < TAKEOVER_REPEATS_MAX;
        let attempt = &mut self.steps[no.index()].attempts[index as usize];
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
        attempt.repeats = event.takeover && event.outcome == Outcome::Unknown && harmless;
        let (repeats, free) = (attempt.repeats, attempt.costs_nothing() || attempt.repeats);
        let by_agent = attempt.by_agent;
        self.close_call(CallId { step: no, kind: CallKind::Run, no: index });
        self.calls -= u32::from(event.unsent && !by_agent);
        let step = &mut self.steps[no.index()];
        step.tries -= u32::from(free);
        step.takeover_repeats += u32::from(repeats);
        step.not_before_ms = event.retry_after_ms.map(|wait| at_ms.saturating_add_unsigned(wait));
        step.asks = event.asks;
        if event.outcome != Outcome::Succeeded {
            step.error = event.category.map(|category| Failure { category, said: result });
            self.after_bad_end(no);
            return Ok(());
        }
        self.succeed(no, at_ms);
        Ok(())
    }

    /// A step of which nothing was ever sent is as one that was never started. Any other is settled or
    /// tried again by what follows.
    fn after_bad_end(&mut self, no: StepNo) {
        let step = &mut self.steps[no.index()];
        if step.attempts.iter().all(Attempt::costs_nothing) {
            step.forced = step.last().is_some_and(|last| last.forced);
            step.error = None;
            self.set_status(no, StepStatus::Pending, None);
        } else {
            self.set_status(no, StepStatus::Running, None);
        }
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
        self.calls += 1;
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
        attempt.probes_lost += u32::from(event.found == Probed::Lost);
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
