//! What was put on record: remarks and decisions beside the work, and steps that an agent undid itself.

use super::super::state::{Compensation, Execution, NOTES_KEPT, Note, Noted, Stored};
use super::Recorded;
use crate::event;
use crate::id::{StepId, StepNo};
use crate::policy::Outcome;

impl Execution {
    pub(super) fn action_recorded(
        &mut self,
        event: &event::ActionRecorded,
        at: &Recorded,
    ) -> Result<(), String> {
        let facts = Stored { position: at.position, kept: event.facts };
        let step = self.noted_step(event.step.as_ref())?;
        if let Some(no) = step {
            self.steps[no.index()].facts = Some(facts);
            return Ok(());
        }
        let what = Noted::Action { status: event.status, facts };
        self.note(Note { position: at.position, at_ms: at.at_ms, step, what });
        Ok(())
    }

    pub(super) fn decision_recorded(
        &mut self,
        event: &event::DecisionRecorded,
        at: &Recorded,
    ) -> Result<(), String> {
        let step = self.noted_step(event.step.as_ref())?;
        let details = event.details.map(|kept| Stored { position: at.position, kept });
        let (decision, reason) = (event.decision.clone(), event.reason.clone());
        let what = Noted::Decision { decision, reason, details };
        self.note(Note { position: at.position, at_ms: at.at_ms, step, what });
        Ok(())
    }

    fn noted_step(&self, step: Option<&StepId>) -> Result<Option<StepNo>, String> {
        step.map(|step| self.find(step)).transpose()
    }

    fn note(&mut self, note: Note) {
        if self.notes.len() == NOTES_KEPT {
            self.notes.pop_front();
        }
        self.notes.push_back(note);
    }

    pub(super) fn compensation_recorded(
        &mut self,
        event: &event::CompensationRecorded,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(&event.step)?;
        for attempt in &event.attempts {
            let attempt = attempt.checked_sub(1).ok_or("attempts count from 1")?;
            if attempt as usize >= self.step(no).attempts.len() {
                return Err(format!("`{}` has no attempt {}", event.step, attempt + 1));
            }
            self.undone_by_hand(no, attempt, at_ms);
        }
        let step = &mut self.steps[no.index()];
        (step.left, step.undo_retry) = (false, false);
        self.after_undo(no, at_ms);
        Ok(())
    }

    /// As if a compensation had been made and had succeeded, so that a success that is heard of later
    /// makes it due again.
    fn undone_by_hand(&mut self, no: StepNo, attempt: u32, at_ms: i64) {
        let rules = self.rules(no);
        let step = &mut self.steps[no.index()];
        let key = step.next_undo_key(attempt);
        let begun = Compensation::begun(attempt, key, true, None, None, at_ms);
        step.compensations.push(Compensation { outcome: Some(Outcome::Succeeded), ..begun });
        let others = step.undo_again.iter().copied();
        step.undo_again = others.filter(|other| !step.same_effect(rules, *other, attempt)).collect();
        step.undone.insert(attempt);
    }
}
