//! Folds the unwinding, and the start, the end and the late outcome of compensations.

use super::super::attempt::Attempt;
use super::super::due::CallKind;
use super::super::state::{ExecutionState, Phase, StepFailure, UndoApproval, UnwindProposal};
use super::super::unwind;
use crate::event::{self, UndoCall};
use crate::id::StepNo;
use crate::plan::CompensationWork;
use crate::policy::{ErrorCategory, Outcome, StepStatus};

impl ExecutionState {
    pub(super) fn undo_asked(&mut self, event: &event::UndoAsked) {
        self.undo_requested = true;
        if let Some(session) = &mut self.session {
            session.undo_selection = event.steps.clone();
        }
    }

    pub(super) fn unwind_started(&mut self, event: &event::UnwindStarted) -> Result<(), String> {
        self.unwind_approved()?;
        self.store_undo_approvals(&event.calls)?;
        self.begin_session_unwind(event.steps.as_deref())?;
        self.undo_requested = false;
        self.phase = Phase::Unwind;
        self.ended = None;
        self.ended_at_ms = None;
        self.stop = None;
        self.paused = false;
        for no in self.step_numbers() {
            let step = &mut self.steps[no.index()];
            step.undo.left_in_place = false;
            step.undo.consent = None;
            step.undo.retry = step.status == StepStatus::CompensationFailed;
        }
        self.build_undo_order();
        Ok(())
    }

    pub(super) fn unwind_proposed(&mut self, event: &event::UnwindProposed) {
        self.proposal = UnwindProposal::Asked { position: self.position, calls: event.calls.clone() };
    }

    /// Stores the approval of the proposed calls.
    pub(super) fn unwind_approved(&mut self) -> Result<(), String> {
        self.undo_rejected_at = None;
        match std::mem::replace(&mut self.proposal, UnwindProposal::None) {
            UnwindProposal::Asked { calls, .. } => self.store_undo_approvals(&calls),
            UnwindProposal::None | UnwindProposal::Rejected => Ok(()),
        }
    }

    /// Stores an approval for each of these calls: for its arguments and its tool definition.
    fn store_undo_approvals(&mut self, calls: &[UndoCall]) -> Result<(), String> {
        for UndoCall { step, attempt, arguments, pin, .. } in calls {
            let no = self.find_step(step)?;
            let attempt = attempt.checked_sub(1).ok_or("attempts count from 1")?;
            let approval = UndoApproval { arguments: *arguments, pin: *pin };
            self.steps[no.index()].undo.approvals.insert(attempt, approval);
        }
        Ok(())
    }

    /// Before an unwinding, a rejection leaves everything as it is. During one, each rejected call counts as
    /// a failed compensation, which waits for an answer.
    pub(super) fn unwind_rejected(&mut self) -> Result<(), String> {
        let is_unwinding = self.phase == Phase::Unwind && self.ended.is_none();
        let next = if is_unwinding { UnwindProposal::None } else { UnwindProposal::Rejected };
        let UnwindProposal::Asked { calls, .. } = std::mem::replace(&mut self.proposal, next) else {
            return Ok(());
        };
        self.undo_requested = false;
        self.undo_rejected_at = Some(self.position);
        for call in calls.iter().filter(|_| is_unwinding) {
            let no = self.find_step(&call.step)?;
            if !self.step(no).attempts_to_undo(self.rules(no)).is_empty() {
                let step = &mut self.steps[no.index()];
                step.error = Some(StepFailure { category: ErrorCategory::Policy, detail: None });
                (step.undo.retry, step.retry.at_ms) = (false, None);
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
        }
        Ok(())
    }

    pub(super) fn compensation_started(&mut self, event: &event::CompensationStarted) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let plan = self.plan.clone();
        let spec = plan.step(no).compensation.as_ref().ok_or("the step has no compensation")?;
        let by_agent = matches!(spec.work, CompensationWork::Action { .. });
        let target = event.attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let rules = self.rules(no);
        let arguments = self.own_payload(event.arguments);
        let step = &mut self.steps[no.index()];
        let attempt = Attempt {
            undoes: Some(target),
            key: step.next_undo_key(target),
            by_agent,
            arguments,
            pin: step.undo.approvals.get(&target).and_then(|approval| approval.pin),
            started_at_ms: self.last_entry_at_ms,
            ..Attempt::default()
        };
        step.undo.retry = false;
        // Until this compensation has succeeded, no attempt with the same effect counts as undone. It covers
        // every success that was known before it started.
        let same_effect: Vec<u32> = (0..step.attempts.len() as u32)
            .filter(|other| step.have_same_effect(rules, *other, target))
            .collect();
        for other in same_effect {
            step.undo.again.remove(&other);
            step.undo.undone.remove(&other);
        }
        let (kind, status) = (CallKind::Compensation, StepStatus::Compensating);
        self.start_attempt(no, kind, event.compensation, attempt, status)
    }

    pub(super) fn compensation_ended(&mut self, event: &event::CompensationEnded) -> Result<(), String> {
        let (call, undo) = self.find_attempt(&event.step, CallKind::Compensation, event.compensation)?;
        let (no, undoes) = (call.step, undo.undoes);
        let is_free = self.end_attempt(call, event.into())?;
        if event.outcome == Outcome::Succeeded {
            self.steps[no.index()].undo.undone.extend(undoes);
            self.after_undo(no);
        } else if is_free {
            self.steps[no.index()].undo.retry = true;
            self.refresh(no);
        } else {
            let retries = unwind::may_retry_compensation(self, no) && self.stop.is_none();
            let status = if retries { StepStatus::Compensating } else { StepStatus::CompensationFailed };
            self.steps[no.index()].error = self.own_failure(event.category, event.result);
            self.set_status(no, status, None);
        }
        Ok(())
    }

    /// After a successful undo: the step is compensated once none of its attempts is left to undo.
    pub(super) fn after_undo(&mut self, no: StepNo) {
        self.steps[no.index()].retry.at_ms = None;
        if self.step(no).attempts_to_undo(self.rules(no)).is_empty() {
            self.end_step(no, StepStatus::Compensated, None);
        } else {
            self.set_status(no, StepStatus::Compensating, None);
        }
    }

    /// Records an outcome that arrived after its compensation had ended; it may complete the undo.
    pub(super) fn late_compensation(&mut self, event: &event::LateCompensation) -> Result<(), String> {
        let result = self.own_payload(event.result);
        let (call, undo) = self.find_attempt(&event.step, CallKind::Compensation, event.compensation)?;
        let was_unknown = undo.record_late(event.outcome);
        undo.result = result.or(undo.result);
        let (no, undoes) = (call.step, undo.undoes);
        let step = &mut self.steps[no.index()];
        let is_newest = call.index as usize + 1 == step.compensations.len();
        let is_unfinished =
            matches!(step.status(), StepStatus::CompensationFailed | StepStatus::Compensating);
        let succeeded = event.outcome == Outcome::Succeeded;
        if (was_unknown || succeeded) && is_newest && is_unfinished {
            step.compensations[call.index as usize].settled = Some(succeeded);
            if succeeded {
                step.undo.left_in_place = false;
                step.undo.undone.extend(undoes);
                self.after_undo(no);
            }
        }
        self.refresh(no);
        Ok(())
    }
}
