//! What a person or an agent decided about a step, or about its compensation.

use super::super::state::{Answered, Attempt, Execution, ProbeState, Stop, Stored};
use super::{Recorded, is_undoing};
use crate::event::{self, Kept};
use crate::id::StepNo;
use crate::policy::{Answer, Outcome, StepStatus};

impl Execution {
    pub(super) fn decided(&mut self, event: &event::Decided, recorded: &Recorded) -> Result<(), String> {
        let stored = |kept: Kept| Stored { position: recorded.position, kept };
        let (output, arguments) = (event.output.map(stored), event.arguments.map(stored));
        let at_ms = recorded.at_ms;
        if event.answer == Answer::Abandon {
            self.stop_for(Stop::Abandon);
            return Ok(());
        }
        let step = event.step.as_ref().ok_or("this answer is about a step")?;
        let no = self.find(step)?;
        if is_undoing(self.step(no).status()) {
            self.decided_undo(no, event.answer, at_ms);
            return Ok(());
        }
        match event.answer {
            Answer::Retry if output.is_some() => self.reply(no, output),
            Answer::Retry | Answer::DidNotHappen => {
                self.try_again(no, event.answer == Answer::DidNotHappen);
                self.correct(no, arguments);
            }
            Answer::Skip => {
                let step = &mut self.steps[no.index()];
                (step.output, step.error) = (output, None);
                self.end_step(no, StepStatus::Skipped, None, at_ms);
            }
            Answer::Happened => self.happened(no, output, at_ms),
            Answer::Compensate | Answer::Abandon => return Err("an answer that is not about one step".into()),
        }
        self.undo_asked = false;
        self.unfail(no);
        Ok(())
    }

    /// The next attempt sends these arguments, as a call of its own: under a new key.
    fn correct(&mut self, no: StepNo, arguments: Option<Stored>) {
        if arguments.is_some() {
            let step = &mut self.steps[no.index()];
            (step.corrected, step.new_key) = (arguments, true);
        }
    }

    /// What the tool asked has been answered: the same call goes out again, approved as it was.
    fn reply(&mut self, no: StepNo, answer: Option<Stored>) {
        let question = self.step(no).question();
        let approved = self.step(no).approved;
        self.try_again(no, false);
        let step = &mut self.steps[no.index()];
        step.approved = approved;
        step.answering = question.zip(answer).map(|(question, answer)| Answered { question, answer });
        self.refresh(no);
    }

    pub(super) fn try_again(&mut self, no: StepNo, settled_as_not_run: bool) {
        let idempotent = self.rules(no).idempotent;
        let step = &mut self.steps[no.index()];
        if let (true, Some(newest)) = (settled_as_not_run, step.counting()) {
            let key = step.attempts[newest as usize].key;
            for (no, attempt) in step.attempts.iter_mut().enumerate() {
                // With one key they are one call to the tool, and one answer speaks of them all.
                let meant = no as u32 == newest || (idempotent && attempt.key == key);
                if meant && attempt.counts_as() == Some(Outcome::Unknown) {
                    attempt.settled = Some(false);
                }
            }
        }
        (step.asks, step.answering) = (false, None);
        step.forced = true;
        step.approved = false;
        (step.tries, step.takeover_repeats) = (0, 0);
        step.retry_at_ms = None;
        step.ended_at_ms = None;
        self.set_status(no, StepStatus::Pending, None);
    }

    /// The attempt that an answer about undoing the step speaks of: that of the compensation which did not
    /// succeed, else the one that would be undone next.
    fn being_undone(&self, no: StepNo) -> Option<u32> {
        let step = self.step(no);
        let tried = step.last_compensation().filter(|last| last.counts_as() != Some(Outcome::Succeeded));
        tried.map(|last| last.attempt).or_else(|| step.to_undo(self.rules(no)).last().copied())
    }

    /// Done, by the answer's word: an unknown attempt is settled; a failed one was made good by hand.
    pub(super) fn happened(&mut self, no: StepNo, output: Option<Stored>, at_ms: i64) {
        let step = &mut self.steps[no.index()];
        let key = step.next_key();
        match step.counting().map(|newest| &mut step.attempts[newest as usize]) {
            Some(last) if last.counts_as() == Some(Outcome::Unknown) => {
                last.settled = Some(true);
                last.result = output;
            }
            Some(_) | None => step.attempts.push(Attempt {
                key,
                by_agent: true,
                forced: false,
                arguments: step.attempts.last().and_then(|last| last.arguments),
                pin: None,
                outcome: Some(Outcome::Succeeded),
                category: None,
                result: output,
                settled: None,
                late: None,
                probe: ProbeState::None,
                probes_lost: 0,
                unsent: false,
                takeover: false,
                repeats: false,
                asks: false,
                answered: None,
                task: None,
                started_at_ms: at_ms,
                ended_at_ms: Some(at_ms),
            }),
        }
        self.succeed(no, at_ms);
    }

    pub(super) fn decided_undo(&mut self, no: StepNo, answer: Answer, at_ms: i64) {
        let undoing = self.being_undone(no);
        let step = &mut self.steps[no.index()];
        step.undo_yes.clear();
        match answer {
            Answer::Skip => {
                step.left = true;
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
            Answer::Happened => {
                if let Some(last) = step.compensations.last_mut().filter(|last| Some(last.attempt) == undoing)
                {
                    last.settled = Some(true);
                }
                step.undone.extend(undoing);
                self.after_undo(no, at_ms);
            }
            Answer::Retry | Answer::DidNotHappen | Answer::Compensate | Answer::Abandon => {
                if let (Answer::DidNotHappen, Some(last)) = (answer, step.compensations.last_mut()) {
                    last.settled = Some(false);
                }
                step.undo_retry = true;
                self.refresh(no);
            }
        }
    }
}
