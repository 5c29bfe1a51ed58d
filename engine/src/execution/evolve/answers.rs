//! Folds the answers of a person or an agent about a step, or about its compensation.

use super::super::attempt::{Attempt, QuestionReply, ToolQuestion};
use super::super::state::{ApprovalAnswer, ExecutionState, PayloadRef, RetryState};
use super::is_undoing;
use crate::event;
use crate::id::StepNo;
use crate::policy::{EndStatus, ErrorCategory, Outcome, StepAnswer, StepStatus};

impl ExecutionState {
    /// Applies an answer to its step, or stops the execution on `abandon`.
    pub(super) fn decided(&mut self, event: &event::Decided) -> Result<(), String> {
        let (output, arguments) = (self.own_payload(event.output), self.own_payload(event.arguments));
        if event.answer == StepAnswer::Abandon {
            self.set_stop(EndStatus::Failed);
            return Ok(());
        }
        let step = event.step.as_ref().ok_or("this answer is about a step")?;
        let no = self.find_step(step)?;
        if is_undoing(self.step(no).status()) {
            self.apply_undo_answer(no, event.answer);
            return Ok(());
        }
        if self.session.is_some() {
            return self.settle_by_answer(no, event.answer, output);
        }
        match event.answer {
            StepAnswer::Retry if output.is_some() => self.retry_with_reply(no, output),
            StepAnswer::Retry | StepAnswer::DidNotHappen => {
                self.reset_for_retry(no, event.answer == StepAnswer::DidNotHappen);
                self.set_corrected_arguments(no, arguments);
            }
            StepAnswer::Skip => {
                let step = &mut self.steps[no.index()];
                (step.output, step.error) = (output, None);
                self.end_step(no, StepStatus::Skipped, None);
            }
            StepAnswer::Happened => self.settle_as_happened(no, output),
            StepAnswer::Compensate | StepAnswer::Abandon => {
                return Err("an answer that is not about one step".into());
            }
        }
        self.undo_requested = false;
        self.clear_failure(no);
        Ok(())
    }

    /// Makes the next attempt send these arguments, under a new idempotency key because it is another call.
    fn set_corrected_arguments(&mut self, no: StepNo, arguments: Option<PayloadRef>) {
        if arguments.is_some() {
            let step = &mut self.steps[no.index()];
            (step.corrected_arguments, step.needs_new_key) = (arguments, true);
        }
    }

    /// The tool's question was answered: the same call is sent again with the reply, still approved.
    fn retry_with_reply(&mut self, no: StepNo, answer: Option<PayloadRef>) {
        let reply = self.step(no).open_question().zip(answer);
        let approval = self.step(no).approval.clone();
        self.reset_for_retry(no, false);
        let step = &mut self.steps[no.index()];
        step.approval = approval;
        if let Some(last) = step.attempts.last_mut() {
            let reply = reply.map(|(question, answer)| QuestionReply { question, answer });
            last.question = ToolQuestion::Closed(reply);
        }
        self.refresh(no);
    }

    /// Makes a step pending again with fresh attempts; `settled_as_not_run`: its unknown attempt did not run.
    pub(super) fn reset_for_retry(&mut self, no: StepNo, settled_as_not_run: bool) {
        let idempotent = self.rules(no).idempotent;
        let step = &mut self.steps[no.index()];
        if let (true, Some(newest)) = (settled_as_not_run, step.last_counted_index()) {
            let key = step.attempts[newest as usize].key;
            for (index, attempt) in step.attempts.iter_mut().enumerate() {
                // Idempotent attempts with one key are one call to the tool, so the answer covers them all.
                let is_covered = index as u32 == newest || (idempotent && attempt.key == key);
                if is_covered && attempt.is_unknown() {
                    attempt.settled = Some(false);
                }
            }
        }
        if let Some(last) = step.attempts.last_mut().filter(|last| last.ended_with_question()) {
            last.question = ToolQuestion::Closed(None);
        }
        step.forced = true;
        step.approval.answer = ApprovalAnswer::None;
        step.retry = RetryState::default();
        step.ended_at_ms = None;
        self.set_status(no, StepStatus::Pending, None);
    }

    /// The index of the attempt that an answer about undoing the step refers to: the target of the last
    /// compensation if that did not succeed, else the attempt to be undone next.
    fn attempt_being_undone(&self, no: StepNo) -> Option<u32> {
        let step = self.step(no);
        let tried =
            step.last_compensation().filter(|last| last.effective_outcome() != Some(Outcome::Succeeded));
        tried.and_then(|last| last.undoes).or_else(|| step.attempts_to_undo(self.rules(no)).last().copied())
    }

    /// The answer says that the step's effect happened: settles an unknown attempt as succeeded; after a
    /// failed one it adds a succeeded attempt, because the work was done by hand.
    pub(super) fn settle_as_happened(&mut self, no: StepNo, output: Option<PayloadRef>) {
        let step = &mut self.steps[no.index()];
        let key = step.next_key();
        match step.last_counted_index().map(|newest| &mut step.attempts[newest as usize]) {
            Some(last) if last.is_unknown() => {
                last.settled = Some(true);
                last.result = output;
            }
            Some(_) | None => step.attempts.push(Attempt {
                key,
                by_agent: true,
                arguments: step.attempts.last().and_then(|last| last.arguments),
                outcome: Some(Outcome::Succeeded),
                result: output,
                started_at_ms: self.last_entry_at_ms,
                ended_at_ms: Some(self.last_entry_at_ms),
                ..Attempt::default()
            }),
        }
        self.succeed_step(no);
    }

    /// Applies an answer about a step's compensation.
    pub(super) fn apply_undo_answer(&mut self, no: StepNo, answer: StepAnswer) {
        let target = self.attempt_being_undone(no);
        let step = &mut self.steps[no.index()];
        step.undo.approvals.clear();
        match answer {
            StepAnswer::Skip => {
                step.undo.left_in_place = true;
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
            StepAnswer::Happened => {
                if let Some(last) = step.compensations.last_mut().filter(|last| last.undoes == target) {
                    last.settled = Some(true);
                }
                step.undo.undone.extend(target);
                self.after_undo(no);
            }
            StepAnswer::Retry | StepAnswer::DidNotHappen | StepAnswer::Compensate | StepAnswer::Abandon => {
                if let (StepAnswer::DidNotHappen, Some(last)) = (answer, step.compensations.last_mut()) {
                    last.settled = Some(false);
                }
                let last = step.compensations.last();
                // What the try found changed was in the question that this answers.
                let named = last.filter(|last| last.category == Some(ErrorCategory::Policy));
                step.undo.consent = named.and_then(|last| last.result).or(step.undo.consent);
                step.undo.retry = true;
                self.refresh(no);
            }
        }
    }
}
