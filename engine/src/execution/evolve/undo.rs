//! The unwinding and its compensations: started, ended, heard of late.

use super::super::due::{CallId, CallKind};
use super::super::state::{Compensation, Execution, Failure, Phase, Proposal, Stored, UndoYes};
use super::super::terms::TAKEOVER_REPEATS_MAX;
use super::super::unwind;
use crate::event::{self, UndoCall};
use crate::id::{Position, StepId, StepNo};
use crate::plan::Undo;
use crate::policy::{Category, Outcome, StepStatus};

impl Execution {
    pub(super) fn unwind_started(&mut self, calls: &[UndoCall]) -> Result<(), String> {
        self.unwind_approved()?;
        self.cover(calls)?;
        self.undo_asked = false;
        self.phase = Phase::Unwind;
        self.ended = None;
        self.ended_at_ms = None;
        self.stop = None;
        self.paused = false;
        for no in self.numbers() {
            let step = &mut self.steps[no.index()];
            step.left = false;
            step.undo_retry = step.status.0 == StepStatus::CompensationFailed;
        }
        self.order_undo();
        Ok(())
    }

    pub(super) fn unwind_proposed(&mut self, event: &event::UnwindProposed, position: Position) {
        self.proposal = Proposal::Asked { position, calls: event.calls.clone() };
    }

    /// The calls that were put to a person have their yes.
    pub(super) fn unwind_approved(&mut self) -> Result<(), String> {
        match std::mem::replace(&mut self.proposal, Proposal::None) {
            Proposal::Asked { calls, .. } => self.cover(&calls),
            Proposal::None | Proposal::Rejected => Ok(()),
        }
    }

    fn cover(&mut self, calls: &[UndoCall]) -> Result<(), String> {
        for UndoCall { step, attempt, arguments, pin, .. } in calls {
            let no = self.find(step)?;
            let attempt = attempt.checked_sub(1).ok_or("attempts count from 1")?;
            let yes = UndoYes { arguments: *arguments, pin: *pin };
            self.steps[no.index()].undo_yes.insert(attempt, yes);
        }
        Ok(())
    }

    /// Before an unwinding: everything stays as it is. While one is under way: what was refused its yes
    /// counts as a compensation that did not work, and asks.
    pub(super) fn unwind_rejected(&mut self) -> Result<(), String> {
        let under_way = self.phase == Phase::Unwind && self.ended.is_none();
        let kept = if under_way { Proposal::None } else { Proposal::Rejected };
        let Proposal::Asked { calls, .. } = std::mem::replace(&mut self.proposal, kept) else {
            return Ok(());
        };
        self.undo_asked = false;
        for call in calls.iter().filter(|_| under_way) {
            let no = self.find(&call.step)?;
            if !self.step(no).to_undo(self.rules(no)).is_empty() {
                let step = &mut self.steps[no.index()];
                step.error = Some(Failure { category: Category::Policy, said: None });
                (step.undo_retry, step.retry_at_ms) = (false, None);
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
        }
        Ok(())
    }

    pub(super) fn compensation_started(
        &mut self,
        event: &event::CompensationStarted,
        arguments: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let plan = self.plan.clone();
        let spec = plan.step(no).compensation.as_ref().ok_or("the step has no compensation")?;
        let by_agent = matches!(spec.work, Undo::Action { .. });
        let attempt = event.attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let rules = self.rules(no);
        let step = &mut self.steps[no.index()];
        if event.compensation as usize != step.compensations.len() + 1 {
            return Err(format!("compensation {} of `{}` is out of turn", event.compensation, event.step));
        }
        let key = step.next_undo_key(attempt);
        let pin = step.undo_yes.get(&attempt).and_then(|yes| yes.pin);
        step.compensations.push(Compensation::begun(attempt, key, by_agent, arguments, pin, at_ms));
        step.undo_retry = false;
        step.retry_at_ms = None;
        // Until it has succeeded, nothing with this effect counts as undone; all that was heard before
        // it began is covered by it.
        let same: Vec<u32> = (0..step.attempts.len() as u32)
            .filter(|other| step.same_effect(rules, *other, attempt))
            .collect();
        for other in same {
            step.undo_again.remove(&other);
            step.undone.remove(&other);
        }
        self.open_call(
            CallId { step: no, kind: CallKind::Compensation, no: event.compensation - 1 },
            by_agent,
        );
        self.set_status(no, StepStatus::Compensating, None);
        Ok(())
    }

    pub(super) fn compensation(
        &mut self,
        step: &StepId,
        compensation: u32,
    ) -> Result<(StepNo, u32, &mut Compensation), String> {
        let no = self.find(step)?;
        let index = compensation.checked_sub(1).ok_or("compensations count from 1")?;
        let found = self.steps[no.index()].compensations.get_mut(index as usize);
        Ok((no, index, found.ok_or_else(|| format!("`{step}` has no compensation {compensation}"))?))
    }

    pub(super) fn compensation_ended(
        &mut self,
        event: &event::CompensationEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, _) = self.compensation(&event.step, event.compensation)?;
        let harmless = self.may_repeat_undo(no);
        let one = &mut self.steps[no.index()].compensations[index as usize];
        if one.outcome.is_some() {
            return Err(format!("compensation {} of `{}` has ended before", event.compensation, event.step));
        }
        one.outcome = Some(event.outcome);
        one.category = event.category;
        one.result = result;
        one.unsent = event.unsent;
        one.takeover = event.takeover;
        one.repeats = event.takeover && event.outcome == Outcome::Unknown && harmless;
        let (attempt, repeats) = (one.attempt, one.repeats);
        let free = repeats || one.costs_nothing();
        self.steps[no.index()].takeover_repeats += u32::from(repeats);
        self.close_call(CallId { step: no, kind: CallKind::Compensation, no: index });
        let not_before_ms = event.retry_after_ms.map(|wait| at_ms.saturating_add_unsigned(wait));
        self.steps[no.index()].not_before_ms = not_before_ms;
        if event.outcome == Outcome::Succeeded {
            self.steps[no.index()].undone.insert(attempt);
            self.after_undo(no, at_ms);
        } else if free {
            self.steps[no.index()].undo_retry = true;
            self.refresh(no);
        } else {
            let again = unwind::may_retry(self, no) && self.stop.is_none();
            let status = if again { StepStatus::Compensating } else { StepStatus::CompensationFailed };
            self.steps[no.index()].error = event.category.map(|category| Failure { category, said: result });
            self.set_status(no, status, None);
        }
        Ok(())
    }

    /// After a takeover its compensation may be made again by itself.
    fn may_repeat_undo(&self, no: StepNo) -> bool {
        let spec = self.plan.step(no).compensation.as_ref();
        let harmless = spec.is_some_and(|spec| self.undo_repeatable(spec));
        harmless && self.step(no).takeover_repeats < TAKEOVER_REPEATS_MAX
    }

    /// The step is compensated once none of its attempts is left to undo.
    pub(super) fn after_undo(&mut self, no: StepNo, at_ms: i64) {
        self.steps[no.index()].retry_at_ms = None;
        match self.step(no).to_undo(self.rules(no)).is_empty() {
            true => self.end_step(no, StepStatus::Compensated, None, at_ms),
            false => self.set_status(no, StepStatus::Compensating, None),
        }
    }

    pub(super) fn late_compensation(
        &mut self,
        event: &event::LateCompensation,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, one) = self.compensation(&event.step, event.compensation)?;
        let unknown = one.counts_as() == Some(Outcome::Unknown);
        one.late = Some(event.outcome);
        one.result = result.or(one.result);
        let attempt = one.attempt;
        let step = &mut self.steps[no.index()];
        let newest = index as usize + 1 == step.compensations.len();
        let waits = matches!(step.status(), StepStatus::CompensationFailed | StepStatus::Compensating);
        let succeeded = event.outcome == Outcome::Succeeded;
        if (unknown || succeeded) && newest && waits {
            step.compensations[index as usize].settled = Some(succeeded);
            if succeeded {
                step.left = false;
                step.undone.insert(attempt);
                self.after_undo(no, at_ms);
            }
        }
        self.refresh(no);
        Ok(())
    }
}
