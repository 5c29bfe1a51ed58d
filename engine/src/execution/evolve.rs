//! The one fold: the only code that changes an execution's state, live or after a crash.
//! It decides nothing and recomputes nothing; an entry that cannot be is `Corrupt`.

use std::sync::Arc;

use super::due::{CallId, CallKind};
use super::state::{
    Attempt, Compensation, Execution, Failure, Gate, Phase, ProbeState, Proposal, StepState, Stop, Stored,
};
use super::unwind;
use crate::event::{self, Event, ExecutionStarted, Kept, Probed};
use crate::id::{Epoch, Position, StepNo};
use crate::plan::{Plan, Undo};
use crate::policy::{Answer, Outcome, PlanApproval, Status, StepStatus};

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
        task: started.task.clone(),
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
        calls: 0,
        past_no_return: false,
        erased: false,
        started_at_ms: at_ms,
        ended_at_ms: None,
        active_ms: 0,
        at_ms,
        position,
        version: 1,
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

    fn find(&self, id: &str) -> Result<StepNo, String> {
        self.plan.find(id).ok_or_else(|| format!("the plan has no step `{id}`"))
    }

    fn apply(&mut self, recorded: &Recorded) -> Result<(), String> {
        let at_ms = recorded.at_ms;
        let stored = |kept: Kept| Stored { position: recorded.position, kept };
        match &recorded.event {
            Event::PlanSaved(_) | Event::PlanDeleted(_) => {
                return Err("a plan's entry in an execution".into());
            }
            Event::ExecutionStarted(_) => return Err("an execution starts once".into()),
            Event::DriverChanged(event) => {
                self.epoch = event.epoch;
                self.seat = Some(event.seat.clone());
            }
            Event::PlaceAdopted(event) => self.place = event.place,
            Event::PlanApprovalAsked(_) => self.gate = Gate::Asked,
            Event::PlanApproved(_) => self.gate = Gate::Open,
            Event::PlanRejected(_) => self.stop_for(Stop::Cancel),
            Event::ApprovalAsked(event) => {
                let no = self.find(event.step.as_str())?;
                self.steps[no.index()].asked = event.arguments.map(stored);
                self.set_status(no, StepStatus::AwaitingApproval, None);
            }
            Event::StepApproved(event) => self.approved(self.find(event.step.as_str())?),
            Event::StepRejected(event) => {
                let no = self.find(event.step.as_str())?;
                self.fail(
                    no,
                    StepStatus::Failed,
                    Failure { category: crate::policy::Category::Policy, said: None },
                    at_ms,
                );
            }
            Event::AttemptStarted(event) => {
                self.attempt_started(event, event.arguments.map(stored), at_ms)?
            }
            Event::AgentStarted(event) => {
                let no = self.find(event.step.as_str())?;
                self.steps[no.index()].agent_started = true;
                self.set_status(no, StepStatus::Running, None);
            }
            Event::AttemptEnded(event) => self.attempt_ended(event, event.result.map(stored), at_ms)?,
            Event::LateAnswer(event) => self.late_answer(event, event.result.map(stored), at_ms)?,
            Event::RetryScheduled(event) => {
                let no = self.find(event.step.as_str())?;
                self.steps[no.index()].retry_at_ms = Some(event.at_ms);
            }
            Event::ProbeStarted(event) => self.probe_started(event, stored(event.arguments))?,
            Event::ProbeEnded(event) => self.probe_ended(event, event.result.map(stored), at_ms)?,
            Event::StepFailed(event) => {
                let no = self.find(event.step.as_str())?;
                let said = event.result.map(stored).or(self.step(no).error.and_then(|error| error.said));
                self.fail(no, StepStatus::Failed, Failure { category: event.category, said }, at_ms);
            }
            Event::StepUnknown(event) => {
                let no = self.find(event.step.as_str())?;
                let said = self.step(no).error.and_then(|error| error.said);
                self.fail(no, StepStatus::Unknown, Failure { category: event.category, said }, at_ms);
            }
            Event::StepSucceeded(event) => self.succeed(self.find(event.step.as_str())?, at_ms),
            Event::StepSkipped(event) => {
                self.end_step(self.find(event.step.as_str())?, StepStatus::Skipped, None, at_ms)
            }
            Event::CompensationGivenUp(event) => {
                self.set_status(self.find(event.step.as_str())?, StepStatus::CompensationFailed, None);
            }
            Event::FailureHandled(event) => self.failure_handled(event, at_ms)?,
            Event::StepsCancelled(event) => {
                for step in &event.steps {
                    self.end_step(self.find(step.as_str())?, StepStatus::Cancelled, None, at_ms);
                }
            }
            Event::Paused(_) => self.paused = true,
            Event::Resumed(_) => self.paused = false,
            Event::CancelAsked(_) => self.stop_for(Stop::Cancel),
            Event::Decided(event) => self.decided(event, event.output.map(stored), at_ms)?,
            Event::UnwindProposed(_) => self.proposal = Proposal::Asked,
            Event::UnwindRejected(_) => self.proposal = Proposal::Rejected,
            Event::UnwindStarted(_) => self.unwind_started(),
            Event::CompensationStarted(event) => {
                self.compensation_started(event, event.arguments.map(stored), at_ms)?;
            }
            Event::CompensationEnded(event) => {
                self.compensation_ended(event, event.result.map(stored), at_ms)?;
            }
            Event::LateCompensation(event) => {
                self.late_compensation(event, event.result.map(stored), at_ms)?
            }
            Event::ExecutionEnded(event) => {
                self.ended = Some(event.status);
                self.ended_at_ms = Some(at_ms);
            }
            Event::PayloadsErased(_) => self.erased = true,
        }
        Ok(())
    }

    fn stop_for(&mut self, stop: Stop) {
        self.stop = Some(stop);
        self.paused = false;
    }

    fn approved(&mut self, no: StepNo) {
        self.steps[no.index()].approved = true;
        self.past_no_return |= self.plan.policy.approval == PlanApproval::AtPointOfNoReturn;
        self.set_status(no, StepStatus::Pending, None);
    }

    fn end_step(&mut self, no: StepNo, status: StepStatus, cause: Option<StepNo>, at_ms: i64) {
        self.steps[no.index()].ended_at_ms = Some(at_ms);
        self.set_status(no, status, cause);
    }

    fn fail(&mut self, no: StepNo, status: StepStatus, failure: Failure, at_ms: i64) {
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

    fn attempt_started(
        &mut self,
        event: &event::AttemptStarted,
        arguments: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(event.step.as_str())?;
        let by_agent = self.plan.step(no).by_agent();
        let step = &mut self.steps[no.index()];
        if event.attempt as usize != step.attempts.len() + 1 {
            return Err(format!("attempt {} of `{}` is out of turn", event.attempt, event.step));
        }
        let before = if step.approved { step.asked } else { step.last().and_then(|last| last.arguments) };
        step.attempts.push(Attempt {
            key: step.key,
            by_agent,
            forced: step.forced,
            arguments: arguments.or(before),
            outcome: None,
            category: None,
            result: None,
            settled: None,
            late: None,
            probe: ProbeState::None,
            unsent: false,
            takeover: false,
            started_at_ms: at_ms,
            ended_at_ms: None,
        });
        step.forced = false;
        step.retry_at_ms = None;
        step.agent_started = false;
        step.tries += 1;
        step.started_at_ms.get_or_insert(at_ms);
        step.ended_at_ms = None;
        self.calls += u32::from(!by_agent);
        self.open_call(CallId { step: no, kind: CallKind::Run, no: event.attempt - 1 }, by_agent);
        let status = if by_agent { StepStatus::AwaitingAgent } else { StepStatus::Running };
        self.set_status(no, status, None);
        Ok(())
    }

    fn attempt(&mut self, step: &str, attempt: u32) -> Result<(StepNo, u32, &mut Attempt), String> {
        let no = self.find(step)?;
        let index = attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let found = self.steps[no.index()].attempts.get_mut(index as usize);
        Ok((no, index, found.ok_or_else(|| format!("`{step}` has no attempt {attempt}"))?))
    }

    fn attempt_ended(
        &mut self,
        event: &event::AttemptEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(event.step.as_str(), event.attempt)?;
        if !attempt.open() {
            return Err(format!("attempt {} of `{}` has ended before", event.attempt, event.step));
        }
        attempt.outcome = Some(event.outcome);
        attempt.category = event.category;
        attempt.result = result;
        attempt.unsent = event.unsent;
        attempt.takeover = event.takeover;
        attempt.ended_at_ms = Some(at_ms);
        let free = attempt.costs_nothing();
        let by_agent = attempt.by_agent;
        self.close_call(CallId { step: no, kind: CallKind::Run, no: index });
        self.calls -= u32::from(event.unsent && !by_agent);
        let step = &mut self.steps[no.index()];
        step.key += u32::from(event.outcome == Outcome::Failed && !event.takeover);
        step.tries -= u32::from(free);
        if event.outcome != Outcome::Succeeded {
            step.error = event.category.map(|category| Failure { category, said: result });
            self.set_status(no, StepStatus::Running, None);
            return Ok(());
        }
        self.succeed(no, at_ms);
        Ok(())
    }

    fn probe_started(&mut self, event: &event::ProbeStarted, arguments: Stored) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(event.step.as_str(), event.attempt)?;
        attempt.probe = ProbeState::Open { arguments };
        self.open_call(CallId { step: no, kind: CallKind::Probe, no: index }, false);
        self.refresh(no);
        Ok(())
    }

    fn probe_ended(
        &mut self,
        event: &event::ProbeEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(event.step.as_str(), event.attempt)?;
        let unknown = attempt.counts_as() == Some(Outcome::Unknown);
        attempt.probe = match event.found {
            Probed::Lost => ProbeState::None,
            Probed::Happened | Probed::DidNotHappen | Probed::Error => ProbeState::Done(event.found),
        };
        let settles = match event.found {
            Probed::Happened => Some(true),
            Probed::DidNotHappen => Some(false),
            Probed::Error | Probed::Lost => None,
        };
        if unknown && settles.is_some() {
            attempt.settled = settles;
            if settles == Some(true) {
                attempt.result = result;
            }
        }
        self.close_call(CallId { step: no, kind: CallKind::Probe, no: index });
        self.steps[no.index()].key += u32::from(unknown && settles == Some(false));
        self.refresh(no);
        let status = self.step(no).status();
        if unknown && settles.is_some() && status == StepStatus::Unknown && self.phase == Phase::Forward {
            self.resettle(no, at_ms);
        }
        Ok(())
    }

    /// An unknown step whose attempt has been settled moves with it.
    fn resettle(&mut self, no: StepNo, at_ms: i64) {
        if self.step(no).attempts.iter().any(|attempt| attempt.succeeded()) {
            self.succeed(no, at_ms);
            self.unfail(no);
        } else {
            self.set_status(no, StepStatus::Failed, None);
        }
    }

    /// The failure is settled: what it cancelled or skipped is pending again, and the failures that
    /// still stand apply anew.
    fn unfail(&mut self, no: StepNo) {
        self.proposal = Proposal::None;
        if self.ended.is_some() {
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

    fn late_answer(
        &mut self,
        event: &event::LateAnswer,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, attempt) = self.attempt(event.step.as_str(), event.attempt)?;
        let unknown = attempt.counts_as() == Some(Outcome::Unknown);
        attempt.late = Some(event.outcome);
        let succeeded = event.outcome == Outcome::Succeeded;
        if succeeded || unknown {
            attempt.result = result;
        }
        let status = self.step(no).status();
        let undoing = is_undoing(status);
        let step = &mut self.steps[no.index()];
        if succeeded && step.compensations.iter().any(|one| one.attempt == index) {
            step.undo_again.insert(index);
            step.undone.remove(&index);
            if status == StepStatus::Compensated {
                step.undo_retry = true;
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
        }
        let step = &mut self.steps[no.index()];
        if unknown && !undoing {
            let newest = index as usize + 1 == step.attempts.len();
            step.attempts[index as usize].settled = Some(succeeded);
            step.key += u32::from(newest && !succeeded);
        }
        self.refresh(no);
        if !undoing && self.phase == Phase::Forward {
            self.move_late(no, event, at_ms);
        }
        Ok(())
    }

    /// A late answer moves the step only once none of its attempts is in flight.
    fn move_late(&mut self, no: StepNo, event: &event::LateAnswer, at_ms: i64) {
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

    fn failure_handled(&mut self, event: &event::FailureHandled, at_ms: i64) -> Result<(), String> {
        let no = self.find(event.step.as_str())?;
        self.steps[no.index()].handled = true;
        self.refresh(no);
        for step in &event.cancelled {
            self.end_step(self.find(step.as_str())?, StepStatus::Cancelled, Some(no), at_ms);
        }
        for step in &event.skipped {
            self.end_step(self.find(step.as_str())?, StepStatus::Skipped, Some(no), at_ms);
        }
        Ok(())
    }

    fn decided(&mut self, event: &event::Decided, output: Option<Stored>, at_ms: i64) -> Result<(), String> {
        if event.answer == Answer::Abandon {
            self.stop_for(Stop::Abandon);
            return Ok(());
        }
        let step = event.step.as_ref().ok_or("this answer is about a step")?;
        let no = self.find(step.as_str())?;
        if is_undoing(self.step(no).status()) {
            self.decided_undo(no, event.answer, at_ms);
            return Ok(());
        }
        match event.answer {
            Answer::Retry | Answer::DidNotHappen => self.try_again(no, event.answer == Answer::DidNotHappen),
            Answer::Skip => {
                let step = &mut self.steps[no.index()];
                (step.output, step.error) = (output, None);
                self.end_step(no, StepStatus::Skipped, None, at_ms);
            }
            Answer::Happened => self.happened(no, output, at_ms),
            Answer::Compensate | Answer::Abandon => return Err("an answer that is not about one step".into()),
        }
        self.unfail(no);
        Ok(())
    }

    fn try_again(&mut self, no: StepNo, settled_as_not_run: bool) {
        let step = &mut self.steps[no.index()];
        if settled_as_not_run {
            step.key += 1;
            if let Some(attempt) =
                step.attempts.last_mut().filter(|last| last.counts_as() == Some(Outcome::Unknown))
            {
                attempt.settled = Some(false);
            }
        }
        step.forced = true;
        step.approved = false;
        step.tries = 0;
        step.retry_at_ms = None;
        step.ended_at_ms = None;
        self.set_status(no, StepStatus::Pending, None);
    }

    /// Done, by the answer's word: an unknown attempt is settled; a failed one was made good by hand.
    fn happened(&mut self, no: StepNo, output: Option<Stored>, at_ms: i64) {
        let step = &mut self.steps[no.index()];
        let key = step.key;
        match step.attempts.last_mut() {
            Some(last) if last.counts_as() == Some(Outcome::Unknown) => {
                last.settled = Some(true);
                last.result = output;
            }
            _ => step.attempts.push(Attempt {
                key,
                by_agent: true,
                forced: false,
                arguments: step.attempts.last().and_then(|last| last.arguments),
                outcome: Some(Outcome::Succeeded),
                category: None,
                result: output,
                settled: None,
                late: None,
                probe: ProbeState::None,
                unsent: false,
                takeover: false,
                started_at_ms: at_ms,
                ended_at_ms: Some(at_ms),
            }),
        }
        self.succeed(no, at_ms);
    }

    fn decided_undo(&mut self, no: StepNo, answer: Answer, at_ms: i64) {
        let step = &mut self.steps[no.index()];
        match answer {
            Answer::Skip => {
                step.left = true;
                self.set_status(no, StepStatus::CompensationFailed, None);
            }
            Answer::Happened => {
                if let Some(last) = step.compensations.last_mut() {
                    last.outcome = Some(Outcome::Succeeded);
                    step.undone.insert(last.attempt);
                }
                self.after_undo(no, at_ms);
            }
            Answer::Retry | Answer::DidNotHappen | Answer::Compensate | Answer::Abandon => {
                step.undo_retry = true;
                self.refresh(no);
            }
        }
    }

    fn unwind_started(&mut self) {
        self.phase = Phase::Unwind;
        self.ended = None;
        self.ended_at_ms = None;
        self.stop = None;
        self.paused = false;
        self.proposal = Proposal::None;
        for no in self.numbers() {
            let step = &mut self.steps[no.index()];
            step.left = false;
            step.undo_retry = step.status.0 == StepStatus::CompensationFailed;
            self.refresh(no);
        }
    }

    fn compensation_started(
        &mut self,
        event: &event::CompensationStarted,
        arguments: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let no = self.find(event.step.as_str())?;
        let spec = self.plan.step(no).compensation.as_ref().ok_or("the step has no compensation")?;
        let by_agent = matches!(spec.work, Undo::Action { .. });
        let attempt = event.attempt.checked_sub(1).ok_or("attempts count from 1")?;
        let step = &mut self.steps[no.index()];
        if event.compensation as usize != step.compensations.len() + 1 {
            return Err(format!("compensation {} of `{}` is out of turn", event.compensation, event.step));
        }
        step.compensations.push(Compensation {
            attempt,
            by_agent,
            arguments,
            outcome: None,
            category: None,
            result: None,
            late: None,
            unsent: false,
            takeover: false,
            started_at_ms: at_ms,
        });
        step.undo_retry = false;
        step.retry_at_ms = None;
        step.undo_again.remove(&attempt);
        step.undone.remove(&attempt);
        self.open_call(
            CallId { step: no, kind: CallKind::Compensation, no: event.compensation - 1 },
            by_agent,
        );
        self.set_status(no, StepStatus::Compensating, None);
        Ok(())
    }

    fn compensation(
        &mut self,
        step: &str,
        compensation: u32,
    ) -> Result<(StepNo, u32, &mut Compensation), String> {
        let no = self.find(step)?;
        let index = compensation.checked_sub(1).ok_or("compensations count from 1")?;
        let found = self.steps[no.index()].compensations.get_mut(index as usize);
        Ok((no, index, found.ok_or_else(|| format!("`{step}` has no compensation {compensation}"))?))
    }

    fn compensation_ended(
        &mut self,
        event: &event::CompensationEnded,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, one) = self.compensation(event.step.as_str(), event.compensation)?;
        if one.outcome.is_some() {
            return Err(format!("compensation {} of `{}` has ended before", event.compensation, event.step));
        }
        one.outcome = Some(event.outcome);
        one.category = event.category;
        one.result = result;
        one.unsent = event.unsent;
        one.takeover = event.takeover;
        let attempt = one.attempt;
        self.close_call(CallId { step: no, kind: CallKind::Compensation, no: index });
        if event.outcome == Outcome::Succeeded {
            self.steps[no.index()].undone.insert(attempt);
            self.after_undo(no, at_ms);
        } else if event.unsent && event.takeover {
            self.steps[no.index()].undo_retry = true;
            self.refresh(no);
        } else {
            let again = unwind::may_retry(self, no) && self.stop.is_none();
            let status = if again { StepStatus::Compensating } else { StepStatus::CompensationFailed };
            self.steps[no.index()].error = event.category.map(|category| Failure { category, said: result });
            self.set_status(no, status, None);
        }
        Ok(())
    }

    /// The step is compensated once none of its attempts is left to undo.
    fn after_undo(&mut self, no: StepNo, at_ms: i64) {
        let done = self.step(no).to_undo(self.plan.step(no)).is_empty();
        let status = if done { StepStatus::Compensated } else { StepStatus::Compensating };
        self.end_step(no, status, None, at_ms);
    }

    fn late_compensation(
        &mut self,
        event: &event::LateCompensation,
        result: Option<Stored>,
        at_ms: i64,
    ) -> Result<(), String> {
        let (no, index, one) = self.compensation(event.step.as_str(), event.compensation)?;
        let unknown = one.outcome == Some(Outcome::Unknown);
        one.late = Some(event.outcome);
        one.result = result.or(one.result);
        let attempt = one.attempt;
        let step = &mut self.steps[no.index()];
        let newest = index as usize + 1 == step.compensations.len();
        if unknown && newest && step.status.0 == StepStatus::CompensationFailed {
            step.compensations[index as usize].outcome = Some(event.outcome);
            if event.outcome == Outcome::Succeeded {
                step.left = false;
                step.undone.insert(attempt);
                self.after_undo(no, at_ms);
            }
        }
        self.refresh(no);
        Ok(())
    }
}

fn is_undoing(status: StepStatus) -> bool {
    matches!(status, StepStatus::Compensating | StepStatus::Compensated | StepStatus::CompensationFailed)
}
