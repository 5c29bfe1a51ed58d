//! A stream's entries → the questions that people were asked, and how long each waited: a yes to a plan, a
//! step or an undo; what becomes of a step that was left failed or unknown.

use std::collections::BTreeMap;

use actbook_engine::event::Event;
use actbook_engine::execution::{Execution, Recorded, Subject, questions};
use actbook_engine::id::StepId;
use actbook_engine::policy::Outcome;

use crate::store::seen::{Wait, WaitKind};

/// An entry, and whether a person or an agent wrote it rather than the driver.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    pub recorded: &'a Recorded,
    pub by_somebody: bool,
}

/// Questions that were answered, and those that may still stand.
#[derive(Debug, Default)]
pub struct Waits {
    pub answered: Vec<Wait>,
    pub open: Vec<Wait>,
}

pub fn waits<'a>(stream: u64, entries: impl Iterator<Item = Told<'a>>) -> Waits {
    let mut asked = Asked { stream, ..Asked::default() };
    for told in entries {
        asked.read(told);
    }
    let open = asked.open();
    Waits { answered: asked.answered, open }
}

/// Those of the open ones that the execution, as it stands, asks people.
pub fn standing(open: Vec<Wait>, execution: &Execution) -> Vec<Wait> {
    let asked: Vec<(WaitKind, Option<String>)> = questions(execution)
        .into_iter()
        .filter_map(|question| {
            let kind = match question.subject {
                Subject::PlanApproval | Subject::UndoApproval | Subject::StepApproval => WaitKind::Approval,
                Subject::Question | Subject::Failure | Subject::Unknown | Subject::FailedUndo => {
                    WaitKind::Decision
                }
                Subject::AgentWork | Subject::AgentUndo => return None,
            };
            Some((kind, question.step.map(|no| execution.step_id(no).to_string())))
        })
        .collect();
    open.into_iter().filter(|wait| asked.contains(&(wait.kind, wait.step.clone()))).collect()
}

#[derive(Debug, Clone, Copy)]
struct Since {
    position: u64,
    at: i64,
}

#[derive(Debug, Default)]
struct Asked {
    stream: u64,
    plan: Option<Since>,
    undo: Option<Since>,
    approvals: BTreeMap<StepId, Since>,
    troubles: BTreeMap<StepId, Since>,
    answered: Vec<Wait>,
}

impl Asked {
    fn read(&mut self, told: Told<'_>) {
        let now = Since { position: told.recorded.position.0, at: told.recorded.at_ms };
        match &told.recorded.event {
            Event::PlanApprovalAsked(_) => self.plan = Some(now),
            Event::PlanApproved(_) | Event::PlanRejected(_) => {
                let asked = self.plan.take();
                self.answer(WaitKind::Approval, None, asked, now.at);
            }
            Event::ApprovalAsked(event) => {
                self.approvals.insert(event.step.clone(), now);
            }
            Event::StepApproved(event) => self.approve(&event.step, now.at),
            Event::StepRejected(event) => {
                self.approve(&event.step, now.at);
                self.troubles.insert(event.step.clone(), now);
            }
            Event::UnwindProposed(_) => self.undo = Some(now),
            Event::UnwindApproved(_) => {
                let asked = self.undo.take();
                self.answer(WaitKind::Approval, None, asked, now.at);
            }
            Event::UnwindRejected(_) => {
                let asked = self.undo.take();
                self.answer(WaitKind::Approval, None, asked, now.at);
                self.troubles.values_mut().for_each(|since| since.at = now.at);
            }
            Event::UnwindStarted(_) => match self.undo.take() {
                Some(asked) => {
                    self.answer(WaitKind::Approval, None, Some(asked), now.at);
                    self.drop_all();
                }
                None => self.stopped(told.by_somebody, now.at),
            },
            Event::CancelAsked(_) => self.stopped(told.by_somebody, now.at),
            Event::Decided(event) => match &event.step {
                Some(step) => self.decide(step, now.at),
                None => self.decide_all(now.at),
            },
            Event::StepFailed(event) => self.trouble(&event.step, now),
            Event::StepUnknown(event) => self.trouble(&event.step, now),
            Event::CompensationGivenUp(event) => self.trouble(&event.step, now),
            Event::CompensationEnded(event) if event.outcome != Outcome::Succeeded => {
                self.trouble(&event.step, now);
            }
            Event::AttemptEnded(event) if event.asks => self.trouble(&event.step, now),
            Event::AttemptStarted(event) => self.at_work(&event.step),
            Event::CompensationStarted(event) => self.at_work(&event.step),
            Event::StepSucceeded(event) => self.at_work(&event.step),
            Event::FailureHandled(event) => {
                self.forget(event.cancelled.iter().chain(&event.skipped));
            }
            Event::StepsCancelled(event) => self.forget(event.steps.iter()),
            Event::ExecutionEnded(_) => self.drop_all(),
            _ => {}
        }
    }

    fn trouble(&mut self, step: &StepId, now: Since) {
        self.troubles.insert(step.clone(), now);
    }

    /// It goes on without an answer.
    fn at_work(&mut self, step: &StepId) {
        self.troubles.remove(step);
    }

    fn forget<'a>(&mut self, steps: impl Iterator<Item = &'a StepId>) {
        for step in steps {
            self.approvals.remove(step);
        }
    }

    fn approve(&mut self, step: &StepId, at: i64) {
        let asked = self.approvals.remove(step);
        self.answer(WaitKind::Approval, Some(step), asked, at);
    }

    fn decide(&mut self, step: &StepId, at: i64) {
        let asked = self.troubles.remove(step);
        self.answer(WaitKind::Decision, Some(step), asked, at);
    }

    fn decide_all(&mut self, at: i64) {
        for (step, asked) in std::mem::take(&mut self.troubles) {
            self.answer(WaitKind::Decision, Some(&step), Some(asked), at);
        }
    }

    /// Somebody's word ends every question; the driver's own only says that nobody is asked.
    fn stopped(&mut self, by_somebody: bool, at: i64) {
        if by_somebody {
            self.decide_all(at);
        }
        self.drop_all();
    }

    fn drop_all(&mut self) {
        (self.plan, self.undo) = (None, None);
        self.approvals.clear();
        self.troubles.clear();
    }

    fn answer(&mut self, kind: WaitKind, step: Option<&StepId>, asked: Option<Since>, at: i64) {
        let Some(Since { position, at: asked_at }) = asked else { return };
        let step = step.map(ToString::to_string);
        let took_ms = Some(at - asked_at);
        self.answered.push(Wait { stream: self.stream, position, kind, step, asked_at, took_ms });
    }

    fn open(&self) -> Vec<Wait> {
        let wait = |kind, step: Option<&StepId>, since: &Since| Wait {
            stream: self.stream,
            position: since.position,
            kind,
            step: step.map(ToString::to_string),
            asked_at: since.at,
            took_ms: None,
        };
        let whole = self.plan.iter().chain(&self.undo).map(|since| wait(WaitKind::Approval, None, since));
        let approvals =
            self.approvals.iter().map(|(step, since)| wait(WaitKind::Approval, Some(step), since));
        let troubles = self.troubles.iter().map(|(step, since)| wait(WaitKind::Decision, Some(step), since));
        whole.chain(approvals).chain(troubles).collect()
    }
}
