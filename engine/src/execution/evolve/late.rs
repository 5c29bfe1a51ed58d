//! Folds late outcomes: an attempt is settled after its end, and a failure may be cleared by it.

use super::super::due::{CallId, CallKind};
use super::super::state::{ExecutionState, UnwindProposal};
use super::is_undoing;
use crate::event;
use crate::id::StepNo;
use crate::policy::{Outcome, StepStatus};

impl ExecutionState {
    /// Sets a step's status after one of its attempts was settled: succeeded if any attempt has, else failed.
    pub(super) fn settle_from_attempts(&mut self, no: StepNo) {
        if self.step(no).attempts.iter().any(|attempt| attempt.has_succeeded()) {
            self.succeed_step(no);
            self.clear_failure(no);
        } else {
            self.set_status(no, StepStatus::Failed, None);
        }
    }

    /// Clears a step's failure: the steps that it cancelled or skipped are pending again, and the failure
    /// policies of the remaining failures are applied anew.
    pub(super) fn clear_failure(&mut self, no: StepNo) {
        if self.session.is_some() {
            return;
        }
        if self.ended.is_none() {
            self.proposal = UnwindProposal::None;
        }
        if self.ended.is_some() || self.is_stopping() {
            return;
        }
        self.steps[no.index()].failure_handled = false;
        let affected: Vec<StepNo> =
            self.step_numbers().filter(|other| self.step(*other).cause == Some(no)).collect();
        for other in affected {
            self.steps[other.index()].ended_at_ms = None;
            self.set_status(other, StepStatus::Pending, None);
        }
        for other in self.index.failed.clone() {
            self.steps[other.index()].failure_handled = false;
            self.refresh(other);
        }
    }

    /// Records an outcome that arrived after its attempt had ended; it settles an unknown attempt.
    pub(super) fn late_answer(&mut self, event: &event::LateAnswer) -> Result<(), String> {
        let result = self.own_payload(event.result);
        let (CallId { step: no, index, .. }, attempt) =
            self.find_attempt(&event.step, CallKind::Run, event.attempt)?;
        let was_unknown = attempt.record_late(event.outcome);
        let succeeded = event.outcome == Outcome::Succeeded;
        if succeeded || was_unknown {
            attempt.result = result;
        }
        let is_being_undone = is_undoing(self.step(no).status());
        self.mark_settled(no);
        if succeeded {
            self.schedule_undo_again(no, index);
        }
        if was_unknown && !is_being_undone {
            self.settle_attempt_late(no, index, event);
        }
        self.refresh(no);
        if !is_being_undone {
            self.update_step_late(no, event);
        }
        Ok(())
    }

    /// Makes a compensation due again: a success that arrives after the compensation started may have taken
    /// effect after it.
    fn schedule_undo_again(&mut self, no: StepNo, index: u32) {
        let rules = self.rules(no);
        let step = &mut self.steps[no.index()];
        let undone = step.compensations.iter().filter_map(|undo| undo.undoes);
        if undone.into_iter().any(|other| step.have_same_effect(rules, other, index)) {
            let others =
                step.undo.undone.iter().copied().filter(|other| !step.have_same_effect(rules, *other, index));
            step.undo.undone = others.collect();
            step.undo.again.insert(index);
        }
        if step.status() == StepStatus::Compensated && !step.attempts_to_undo(rules).is_empty() {
            step.undo.retry = true;
            self.set_status(no, StepStatus::CompensationFailed, None);
        }
    }

    /// Settles an unknown attempt by its late outcome.
    fn settle_attempt_late(&mut self, no: StepNo, index: u32, event: &event::LateAnswer) {
        let failure = self.own_failure(event.category, event.result);
        let step = &mut self.steps[no.index()];
        let is_newest = step.last_counted_index() == Some(index);
        let attempt = &mut step.attempts[index as usize];
        attempt.settled = Some(event.outcome == Outcome::Succeeded);
        if event.outcome == Outcome::Failed {
            attempt.category = event.category.or(attempt.category);
            if is_newest {
                step.error = failure.or(step.error);
            }
        }
    }

    /// Updates the step's status after a late outcome. A running step is left to `follow`, which settles it
    /// once no attempt is in flight; a skipped or cancelled step stays so.
    fn update_step_late(&mut self, no: StepNo, event: &event::LateAnswer) {
        use StepStatus as S;
        let step = self.step(no);
        let is_newest = step.last_counted_index() == event.attempt.checked_sub(1);
        match (event.outcome, step.status()) {
            (Outcome::Succeeded, S::Unknown | S::Failed | S::Pending | S::AwaitingApproval) => {
                self.settle_from_attempts(no);
            }
            (Outcome::Failed, S::Unknown) if is_newest => self.set_status(no, S::Failed, None),
            (Outcome::Succeeded | Outcome::Failed | Outcome::Unknown, _) => {}
        }
    }
}
