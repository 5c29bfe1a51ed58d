//! Folds what agents recorded: actions and decisions beside the plan, and steps that an agent undid itself.

use super::super::attempt::Attempt;
use super::super::due::CallKind;
use super::super::state::{ANNOTATIONS_MAX, Annotation, AnnotationKind, ExecutionState, PayloadRef};
use crate::event;
use crate::id::{StepId, StepNo};
use crate::policy::Outcome;

impl ExecutionState {
    pub(super) fn action_recorded(&mut self, event: &event::ActionRecorded) -> Result<(), String> {
        let facts = PayloadRef { position: self.position, digest: event.facts };
        let step = self.find_optional_step(event.step.as_ref())?;
        if let Some(no) = step {
            self.steps[no.index()].facts = Some(facts);
            return Ok(());
        }
        let kind = AnnotationKind::Action { status: event.status, facts };
        self.push_annotation(step, kind);
        Ok(())
    }

    pub(super) fn decision_recorded(&mut self, event: &event::DecisionRecorded) -> Result<(), String> {
        let step = self.find_optional_step(event.step.as_ref())?;
        let details = self.own_payload(event.details);
        let (decision, reason) = (event.decision.clone(), event.reason.clone());
        let kind = AnnotationKind::Decision { decision, reason, details };
        self.push_annotation(step, kind);
        Ok(())
    }

    fn find_optional_step(&self, step: Option<&StepId>) -> Result<Option<StepNo>, String> {
        step.map(|step| self.find_step(step)).transpose()
    }

    /// Keeps the newest annotations only.
    fn push_annotation(&mut self, step: Option<StepNo>, kind: AnnotationKind) {
        if self.annotations.len() == ANNOTATIONS_MAX {
            self.annotations.pop_front();
        }
        let (position, at_ms) = (self.position, self.last_entry_at_ms);
        self.annotations.push_back(Annotation { position, at_ms, step, kind });
    }

    /// An agent undid these attempts itself; a failed try changes nothing.
    pub(super) fn compensation_recorded(
        &mut self,
        event: &event::CompensationRecorded,
    ) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        for number in &event.attempts {
            let (undone, _) = self.find_attempt(&event.step, CallKind::Run, *number)?;
            if !event.failed {
                self.mark_undone_by_hand(no, undone.index);
            }
        }
        if event.failed {
            return Ok(());
        }
        let step = &mut self.steps[no.index()];
        (step.undo.left_in_place, step.undo.retry) = (false, false);
        self.after_undo(no);
        Ok(())
    }

    /// Adds a succeeded compensation of this attempt, so that a success that arrives later makes the
    /// compensation due again.
    fn mark_undone_by_hand(&mut self, no: StepNo, attempt: u32) {
        let rules = self.rules(no);
        let step = &mut self.steps[no.index()];
        step.compensations.push(Attempt {
            undoes: Some(attempt),
            key: step.next_undo_key(attempt),
            by_agent: true,
            outcome: Some(Outcome::Succeeded),
            started_at_ms: self.last_entry_at_ms,
            ..Attempt::default()
        });
        let others = step.undo.again.iter().copied();
        step.undo.again = others.filter(|other| !step.have_same_effect(rules, *other, attempt)).collect();
        step.undo.undone.insert(attempt);
    }
}
