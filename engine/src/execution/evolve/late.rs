//! What is learnt after the fact: an attempt that has been settled, a failure that no longer stands.

use super::super::state::{Attempt, Execution, Failure, Proposal, Stored};
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
        self.proposal = Proposal::None;
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
        let plan = self.plan.clone();
        let (spec, step) = (plan.step(no), &mut self.steps[no.index()]);
        let key_of = |attempt: u32| step.attempts[attempt as usize].key;
        let same = |other: u32| other == index || (spec.idempotent && key_of(other) == key_of(index));
        if step.compensations.iter().any(|one| same(one.attempt)) {
            let undone = step.undone.iter().copied().filter(|other| !same(*other)).collect();
            step.undone = undone;
            step.undo_again.insert(index);
        }
        if step.status() == StepStatus::Compensated && !step.to_undo(spec).is_empty() {
            step.undo_retry = true;
            self.set_status(no, StepStatus::CompensationFailed, None);
        }
    }

    fn settle_late(&mut self, no: StepNo, index: u32, event: &event::LateAnswer, said: Option<Stored>) {
        let step = &mut self.steps[no.index()];
        let newest = index as usize + 1 == step.attempts.len();
        let attempt = &mut step.attempts[index as usize];
        attempt.settled = Some(event.outcome == Outcome::Succeeded);
        if event.outcome == Outcome::Failed {
            attempt.category = event.category.or(attempt.category);
            if newest {
                step.key += 1;
                step.error = event.category.map(|category| Failure { category, said }).or(step.error);
            }
        }
    }

    /// A late answer moves the step only once none of its attempts is in flight.
    pub(super) fn move_late(&mut self, no: StepNo, event: &event::LateAnswer, at_ms: i64) {
        let step = self.step(no);
        let in_flight = step.last().is_some_and(Attempt::open);
        match step.status() {
            _ if in_flight => {}
            StepStatus::Unknown | StepStatus::Failed if event.outcome == Outcome::Succeeded => {
                self.resettle(no, at_ms)
            }
            StepStatus::Pending | StepStatus::AwaitingApproval if event.outcome == Outcome::Succeeded => {
                self.resettle(no, at_ms);
            }
            StepStatus::Unknown => {
                let newest = event.attempt as usize == step.attempts.len();
                if newest {
                    self.set_status(no, StepStatus::Failed, None);
                }
            }
            StepStatus::Pending
            | StepStatus::AwaitingApproval
            | StepStatus::Running
            | StepStatus::AwaitingAgent
            | StepStatus::Succeeded
            | StepStatus::Failed
            | StepStatus::Skipped
            | StepStatus::Cancelled
            | StepStatus::Compensating
            | StepStatus::Compensated
            | StepStatus::CompensationFailed => {}
        }
    }
}
