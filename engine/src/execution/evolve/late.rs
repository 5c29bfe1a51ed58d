//! What is learnt after the fact: an attempt that has been settled, a failure that no longer stands.

use super::super::state::{Execution, Failure, Proposal, Stored};
use super::is_undoing;
use crate::event;
use crate::id::StepNo;
use crate::policy::{Outcome, StepStatus};

impl Execution {
    /// An unknown step whose attempt has been settled moves with it.
    pub(super) fn resettle(&mut self, no: StepNo, at_ms: i64) {
        if self.step(no).attempts.iter().any(|attempt| attempt.succeeded()) {
            self.succeed(no, at_ms);
            self.unfail(no);
        } else {
            self.set_status(no, StepStatus::Failed, None);
        }
    }

    /// The failure is settled: what it cancelled or skipped is pending again, and the failures that
    /// still stand apply anew.
    pub(super) fn unfail(&mut self, no: StepNo) {
        if self.ended.is_none() {
            self.proposal = Proposal::None;
        }
        if self.ended.is_some() || self.stopping() {
            return;
        }
        self.steps[no.index()].handled = false;
        let revived: Vec<StepNo> =
            self.numbers().filter(|other| self.step(*other).cause == Some(no)).collect();
        for other in revived {
            self.steps[other.index()].ended_at_ms = None;
            self.set_status(other, StepStatus::Pending, None);
        }
        for other in self.index.failed.clone() {
            self.steps[other.index()].handled = false;
            self.refresh(other);
        }
    }

    pub(super) fn late_answer(
        &mut self,
        event: &event::LateAnswer,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(&event.step, event.attempt)?;
        let unknown = attempt.counts_as() == Some(Outcome::Unknown);
        attempt.late = Some(event.outcome);
        let succeeded = event.outcome == Outcome::Succeeded;
        if succeeded || unknown {
            attempt.result = result;
        }
        let undoing = is_undoing(self.step(no).status());
        if succeeded {
            self.undo_again(no, index);
        }
        if unknown && !undoing {
            self.settle_late(no, index, event, result);
        }
        self.refresh(no);
        if !undoing {
            self.move_late(no, event, at_ms);
        }
        Ok(())
    }

    /// A success that arrives after its compensation began may have taken effect after it.
    fn undo_again(&mut self, no: StepNo, index: u32) {
        let rules = self.rules(no);
        let step = &mut self.steps[no.index()];
        if step.compensations.iter().any(|one| step.same_effect(rules, one.attempt, index)) {
            let others = step.undone.iter().copied().filter(|other| !step.same_effect(rules, *other, index));
            step.undone = others.collect();
            step.undo_again.insert(index);
        }
        if step.status() == StepStatus::Compensated && !step.to_undo(rules).is_empty() {
            step.undo_retry = true;
            self.set_status(no, StepStatus::CompensationFailed, None);
        }
    }

    fn settle_late(&mut self, no: StepNo, index: u32, event: &event::LateAnswer, said: Option<Stored>) {
        let step = &mut self.steps[no.index()];
        let newest = step.counting() == Some(index);
        let attempt = &mut step.attempts[index as usize];
        attempt.settled = Some(event.outcome == Outcome::Succeeded);
        if event.outcome == Outcome::Failed {
            attempt.category = event.category.or(attempt.category);
            if newest {
                step.error = event.category.map(|category| Failure { category, said }).or(step.error);
            }
        }
    }

    /// A late answer moves no step that has an attempt in flight, or that waits to be settled: those are
    /// running, and what follows settles them. One that was skipped or cancelled stays so.
    fn move_late(&mut self, no: StepNo, event: &event::LateAnswer, at_ms: i64) {
        use StepStatus as S;
        let step = self.step(no);
        let newest = step.counting() == event.attempt.checked_sub(1);
        match (event.outcome, step.status()) {
            (Outcome::Succeeded, S::Unknown | S::Failed | S::Pending | S::AwaitingApproval) => {
                self.resettle(no, at_ms);
            }
            (Outcome::Failed, S::Unknown) if newest => self.set_status(no, S::Failed, None),
            (Outcome::Succeeded | Outcome::Failed | Outcome::Unknown, _) => {}
        }
    }
}
