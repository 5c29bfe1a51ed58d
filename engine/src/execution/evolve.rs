//! The one fold: the only code that changes an execution's state, live or after a crash.
//! It decides nothing and recomputes nothing; an entry that cannot be is `Corrupt`.

mod answers;
mod attempts;
mod late;
mod records;
mod undo;

use std::sync::Arc;

use super::claim::Claim;
use super::state::{Execution, Failure, Gate, Phase, Proposal, StepState, Stop, Stored};
use crate::event::{self, Event, ExecutionStarted, Kept};
use crate::id::{Epoch, Position, StepId, StepNo};
use crate::plan::Plan;
use crate::policy::{Category, End, PlanApproval, Status, StepStatus};
use crate::terms::Rules;

/// An event with its place and time in the journal.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub position: Position,
    pub at_ms: i64,
    pub event: Event,
}

/// The journal says something that cannot have happened. Nothing goes on from here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {} cannot follow from those before it: {why}", position.0)]
pub struct Corrupt {
    pub position: Position,
    pub why: String,
}

/// The state after its first entry.
pub fn open(
    started: &ExecutionStarted,
    position: Position,
    at_ms: i64,
    plan: Arc<Plan>,
    salt: Arc<[u8]>,
) -> Execution {
    let gate = if plan.policy.approval == PlanApproval::Plan { Gate::Due } else { Gate::Open };
    let stored = |kept: Kept| Stored { position, kept };
    let mut execution = Execution {
        id: started.id.clone(),
        plan_ref: started.plan.clone(),
        inputs: started.inputs.map(stored),
        place: started.place,
        rules: plan.steps.iter().map(|step| Rules::of(step, &started.terms)).collect(),
        terms: started.terms.clone(),
        task: started.task.clone(),
        project: started.project.clone(),
        agents_may_approve: started.agents_may_approve,
        steps: plan.steps.iter().map(|_| StepState::default()).collect(),
        plan,
        epoch: Epoch(0),
        seat: None,
        paused: false,
        stop: None,
        phase: Phase::Forward,
        ended: None,
        gate,
        proposal: Proposal::None,
        undo_asked: false,
        calls: 0,
        past_no_return: false,
        erased: false,
        started_at_ms: at_ms,
        ended_at_ms: None,
        active_ms: 0,
        at_ms,
        position,
        version: 1,
        notes: Default::default(),
        salt,
        index: Default::default(),
    };
    execution.build_index();
    execution
}

pub fn evolve(mut execution: Execution, recorded: &Recorded) -> Result<Execution, Corrupt> {
    execution.count_time(recorded.at_ms);
    match execution.apply(recorded) {
        Ok(()) => {
            execution.position = recorded.position;
            execution.version += 1;
            Ok(execution)
        }
        Err(why) => Err(Corrupt { position: recorded.position, why }),
    }
}

impl Execution {
    /// Only plans with a time limit pay for deriving the status at every entry.
    fn count_time(&mut self, at_ms: i64) {
        if self.plan.policy.timeout_ms.is_some() {
            let counts = matches!(self.status(), Status::Running | Status::Compensating);
            let passed = u64::try_from(at_ms - self.at_ms).unwrap_or(0);
            self.active_ms += if counts { passed } else { 0 };
        }
        self.at_ms = at_ms;
    }

    fn find(&self, id: &StepId) -> Result<StepNo, String> {
        self.plan.find(id.as_str()).ok_or_else(|| format!("the plan has no step `{id}`"))
    }

    fn apply(&mut self, recorded: &Recorded) -> Result<(), String> {
        let at_ms = recorded.at_ms;
        let stored = |kept: Kept| Stored { position: recorded.position, kept };
        match &recorded.event {
            Event::PlanSaved(_)
            | Event::PlanDeleted(_)
            | Event::ToolAccepted(_)
            | Event::NoteSet(_)
            | Event::NoteDeleted(_)
            | Event::TaskSet(_) => return Err("an entry of another stream in an execution".into()),
            Event::ExecutionStarted(_) => return Err("an execution starts once".into()),
            Event::DriverChanged(event) => self.driver_changed(event),
            Event::PlaceAdopted(event) => self.place = event.place,
            Event::PinMoved(event) => self.pin_moved(event),
            Event::PlanApprovalAsked(_) => self.gate = Gate::Asked,
            Event::PlanApproved(_) => self.gate = Gate::Open,
            Event::PlanRejected(_) => self.stop_for(Stop::Cancel),
            Event::ApprovalAsked(event) => self.approval_asked(event, event.arguments.map(stored))?,
            Event::StepApproved(event) => self.approved(&event.step)?,
            Event::StepRejected(event) => self.rejected(event, at_ms)?,
            Event::AttemptStarted(event) => {
                self.attempt_started(event, event.arguments.map(stored), at_ms)?
            }
            Event::TaskAccepted(event) => self.task_accepted(event)?,
            Event::AgentStarted(event) => self.agent_started(event, at_ms)?,
            Event::AttemptEnded(event) => self.attempt_ended(event, event.result.map(stored), at_ms)?,
            Event::LateAnswer(event) => self.late_answer(event, event.result.map(stored), at_ms)?,
            Event::RetryScheduled(event) => self.retry_scheduled(event)?,
            Event::ProbeStarted(event) => self.probe_started(event, stored(event.arguments))?,
            Event::ProbeEnded(event) => self.probe_ended(event, event.result.map(stored), at_ms)?,
            Event::StepFailed(event) => self.step_failed(event, event.result.map(stored), at_ms)?,
            Event::StepUnknown(event) => self.step_unknown(event, at_ms)?,
            Event::StepSucceeded(event) => self.succeed(self.find(&event.step)?, at_ms),
            Event::StepSkipped(event) => {
                self.end_step(self.find(&event.step)?, StepStatus::Skipped, None, at_ms)
            }
            Event::CompensationGivenUp(event) => {
                self.set_status(self.find(&event.step)?, StepStatus::CompensationFailed, None);
            }
            Event::FailureHandled(event) => self.failure_handled(event, at_ms)?,
            Event::StepsCancelled(event) => {
                self.stop_steps(&event.steps, StepStatus::Cancelled, None, at_ms)?
            }
            Event::Paused(_) => self.paused = true,
            Event::Resumed(_) => self.paused = false,
            Event::CancelAsked(_) => self.stop_for(Stop::Cancel),
            Event::Decided(event) => self.decided(event, recorded)?,
            Event::UndoAsked(_) => self.undo_asked = true,
            Event::UnwindProposed(event) => self.unwind_proposed(event, recorded.position),
            Event::UnwindApproved(_) => self.unwind_approved()?,
            Event::UnwindRejected(_) => self.unwind_rejected()?,
            Event::UnwindStarted(event) => self.unwind_started(&event.calls)?,
            Event::CompensationStarted(event) => {
                self.compensation_started(event, event.arguments.map(stored), at_ms)?;
            }
            Event::CompensationEnded(event) => {
                self.compensation_ended(event, event.result.map(stored), at_ms)?
            }
            Event::LateCompensation(event) => {
                self.late_compensation(event, event.result.map(stored), at_ms)?
            }
            Event::CompensationRecorded(event) => self.compensation_recorded(event, at_ms)?,
            Event::ActionRecorded(event) => self.action_recorded(event, recorded)?,
            Event::DecisionRecorded(event) => self.decision_recorded(event, recorded)?,
            Event::ExecutionEnded(event) => self.end(event.status, at_ms),
            Event::PayloadsErased(_) => self.erased = true,
        }
        Ok(())
    }

    fn driver_changed(&mut self, event: &event::DriverChanged) {
        (self.epoch, self.seat) = (event.epoch, Some(event.seat.clone()));
    }

    fn pin_moved(&mut self, event: &event::PinMoved) {
        self.terms.entry(event.tool.clone()).or_default().pin = Some(event.digest);
    }

    fn retry_scheduled(&mut self, event: &event::RetryScheduled) -> Result<(), String> {
        let no = self.find(&event.step)?;
        self.steps[no.index()].retry_at_ms = Some(event.at_ms);
        Ok(())
    }

    fn stop_for(&mut self, stop: Stop) {
        self.stop = Some(stop);
        self.paused = false;
        (self.proposal, self.undo_asked) = (Proposal::None, false);
    }

    fn approval_asked(
        &mut self,
        event: &event::ApprovalAsked,
        arguments: Option<Stored>,
    ) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let step = &mut self.steps[no.index()];
        (step.asked, step.asked_pin) = (arguments, event.pin);
        self.set_status(no, StepStatus::AwaitingApproval, None);
        Ok(())
    }

    fn approved(&mut self, step: &StepId) -> Result<(), String> {
        let no = self.find(step)?;
        self.steps[no.index()].approved = true;
        self.past_no_return |= self.plan.policy.approval == PlanApproval::AtPointOfNoReturn;
        self.set_status(no, StepStatus::Pending, None);
        Ok(())
    }

    fn rejected(&mut self, event: &event::StepRejected, at_ms: i64) -> Result<(), String> {
        let failure = Failure { category: Category::Policy, said: None };
        let no = self.find(&event.step)?;
        self.steps[no.index()].rejected = event.reason.clone();
        self.fail(no, StepStatus::Failed, failure, at_ms);
        Ok(())
    }

    fn agent_started(&mut self, event: &event::AgentStarted, at_ms: i64) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let step = &mut self.steps[no.index()];
        step.agent_began_ms.get_or_insert(at_ms);
        if let (Some(holder), Some(until_ms)) = (event.holder.clone(), event.until_ms) {
            step.give_to(Claim { holder, until_ms });
        }
        self.set_status(no, StepStatus::Running, None);
        Ok(())
    }

    /// Where nothing was sent the entry says why itself; else the attempt has said it.
    fn step_failed(
        &mut self,
        event: &event::StepFailed,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let said = result.or(self.step(no).error.and_then(|error| error.said));
        self.fail(no, StepStatus::Failed, Failure { category: event.category, said }, at_ms);
        Ok(())
    }

    fn step_unknown(&mut self, event: &event::StepUnknown, at_ms: i64) -> Result<(), String> {
        let no = self.find(&event.step)?;
        let said = self.step(no).error.and_then(|error| error.said);
        self.fail(no, StepStatus::Unknown, Failure { category: event.category, said }, at_ms);
        Ok(())
    }

    fn failure_handled(&mut self, event: &event::FailureHandled, at_ms: i64) -> Result<(), String> {
        let no = self.find(&event.step)?;
        self.steps[no.index()].handled = true;
        self.refresh(no);
        self.stop_steps(&event.cancelled, StepStatus::Cancelled, Some(no), at_ms)?;
        self.stop_steps(&event.skipped, StepStatus::Skipped, Some(no), at_ms)
    }

    fn stop_steps(
        &mut self,
        steps: &[StepId],
        status: StepStatus,
        cause: Option<StepNo>,
        at_ms: i64,
    ) -> Result<(), String> {
        for step in steps {
            self.end_step(self.find(step)?, status, cause, at_ms);
        }
        Ok(())
    }

    fn end(&mut self, status: End, at_ms: i64) {
        (self.ended, self.ended_at_ms) = (Some(status), Some(at_ms));
    }

    fn end_step(&mut self, no: StepNo, status: StepStatus, cause: Option<StepNo>, at_ms: i64) {
        self.steps[no.index()].ended_at_ms = Some(at_ms);
        self.set_status(no, status, cause);
    }

    fn fail(&mut self, no: StepNo, status: StepStatus, failure: Failure, at_ms: i64) {
        // A no to the unwinding was about the failures that stood then.
        if self.proposal == Proposal::Rejected {
            self.proposal = Proposal::None;
        }
        let step = &mut self.steps[no.index()];
        step.handled = false;
        step.forced = false;
        step.retry_at_ms = None;
        step.error = Some(failure);
        self.end_step(no, status, None, at_ms);
    }

    fn succeed(&mut self, no: StepNo, at_ms: i64) {
        let step = &mut self.steps[no.index()];
        step.forced = false;
        step.retry_at_ms = None;
        step.error = None;
        let result =
            step.attempts.iter().rev().find(|attempt| attempt.succeeded()).and_then(|attempt| attempt.result);
        step.output = result;
        self.end_step(no, StepStatus::Succeeded, None, at_ms);
    }
}

fn is_undoing(status: StepStatus) -> bool {
    matches!(status, StepStatus::Compensating | StepStatus::Compensated | StepStatus::CompensationFailed)
}
