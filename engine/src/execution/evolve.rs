//! The fold: the only code that changes an execution's state, live or after a crash. It decides nothing and
//! recomputes nothing; an entry that cannot follow from the state yields `CorruptJournal`.

mod answers;
mod attempts;
mod late;
mod records;
mod session;
mod undo;

use std::ops::Deref;
use std::sync::Arc;

use super::claim::Claim;
use super::session::SessionState;
use super::state::{
    ApprovalAnswer, ApprovalGate, ApprovalState, ExecutionState, PayloadRef, Phase, StepFailure, StepState,
    UnwindProposal,
};
use crate::event::{self, Event, ExecutionStarted, PayloadDigest};
use crate::id::{Epoch, Position, StepId, StepNo};
use crate::plan::Plan;
use crate::policy::{EndStatus, ErrorCategory, ExecutionStatus, PlanApproval, StepStatus};
use crate::tool_policy::StepRules;

/// An execution as its journal entries fold to it: readable as its state, and changed by `evolve` alone.
#[derive(Clone, Debug)]
pub struct Execution(ExecutionState);

impl Deref for Execution {
    type Target = ExecutionState;

    fn deref(&self) -> &ExecutionState {
        &self.0
    }
}

/// An event with its position and time (Unix milliseconds) in the journal.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    pub position: Position,
    pub at_ms: i64,
    pub event: Event,
}

/// An entry that contradicts the entries before it. The execution cannot be driven any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {} cannot follow from those before it: {why}", position.0)]
pub struct CorruptJournal {
    pub position: Position,
    pub why: String,
}

/// The state after an execution's first entry.
pub fn initial_state(
    started: ExecutionStarted,
    position: Position,
    at_ms: i64,
    plan: Arc<Plan>,
    salt: Arc<[u8]>,
) -> Execution {
    let gate =
        if plan.policy.approval == PlanApproval::Plan { ApprovalGate::Due } else { ApprovalGate::Open };
    let payload_ref = |digest: PayloadDigest| PayloadRef { position, digest };
    let mut state = ExecutionState {
        id: started.id,
        plan_ref: started.plan,
        inputs: started.inputs.map(payload_ref),
        toolset: started.place,
        rules: plan.steps.iter().map(|step| StepRules::resolve(step, &started.terms)).collect(),
        tool_policies: started.terms,
        task: started.task,
        project: started.project,
        agents_may_approve: started.agents_may_approve,
        steps: plan.steps.iter().map(|_| StepState::default()).collect(),
        plan,
        epoch: Epoch(0),
        node: None,
        paused: false,
        stop: None,
        phase: Phase::Forward,
        ended: None,
        gate,
        proposal: UnwindProposal::None,
        undo_rejected_at: None,
        undo_requested: false,
        calls_made: 0,
        past_point_of_no_return: false,
        erased: false,
        started_at_ms: at_ms,
        ended_at_ms: None,
        active_ms: 0,
        last_entry_at_ms: at_ms,
        position,
        version: 1,
        session: started.session.map(|session| Box::new(SessionState::new(*session))),
        annotations: Default::default(),
        salt,
        index: Default::default(),
    };
    state.build_index();
    Execution(state)
}

/// The state after one more entry.
pub fn evolve(
    Execution(mut state): Execution,
    recorded: &RecordedEvent,
) -> Result<Execution, CorruptJournal> {
    state.add_active_time(recorded.at_ms);
    state.position = recorded.position;
    state.version += 1;
    match state.apply(&recorded.event) {
        Ok(()) => Ok(Execution(state)),
        Err(why) => Err(CorruptJournal { position: recorded.position, why }),
    }
}

impl ExecutionState {
    /// Adds the time since the last entry, unless paused or blocked. Only for plans with a time limit,
    /// because deriving the status at every entry costs time.
    fn add_active_time(&mut self, at_ms: i64) {
        if self.plan.policy.timeout_ms.is_some() {
            let is_active = matches!(self.status(), ExecutionStatus::Running | ExecutionStatus::Compensating);
            let passed = u64::try_from(at_ms - self.last_entry_at_ms).unwrap_or(0);
            self.active_ms += if is_active { passed } else { 0 };
        }
        self.last_entry_at_ms = at_ms;
    }

    fn find_step(&self, id: &StepId) -> Result<StepNo, String> {
        self.plan.find_step(id.as_str()).ok_or_else(|| format!("the plan has no step `{id}`"))
    }

    /// The payload of the entry that is being folded.
    fn own_payload(&self, digest: Option<PayloadDigest>) -> Option<PayloadRef> {
        digest.map(|digest| PayloadRef { position: self.position, digest })
    }

    /// The failure that the entry being folded records; `None` where it names no category.
    fn own_failure(
        &self,
        category: Option<ErrorCategory>,
        error: Option<PayloadDigest>,
    ) -> Option<StepFailure> {
        category.map(|category| StepFailure { category, detail: self.own_payload(error) })
    }

    /// Applies one event by the handler of its name; `Err` says why the event cannot follow from the state.
    /// Position and time of the event's entry are in the state already.
    fn apply(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::PlanSaved(_)
            | Event::PlanDeleted(_)
            | Event::ToolAccepted(_)
            | Event::ServerListed(_)
            | Event::NoteSet(_)
            | Event::NoteDeleted(_)
            | Event::TaskSet(_) => return Err("an entry of another stream in an execution".into()),
            Event::ExecutionStarted(_) => return Err("an execution starts once".into()),
            Event::DriverChanged(event) => self.driver_changed(event),
            Event::PlaceAdopted(event) => self.toolset = event.place,
            Event::PinMoved(event) => self.pin_moved(event),
            Event::PlanApprovalAsked(_) => self.gate = ApprovalGate::Asked { position: self.position },
            Event::PlanApproved(_) => self.gate = ApprovalGate::Open,
            Event::PlanRejected(_) => self.set_stop(EndStatus::Cancelled),
            Event::ApprovalAsked(event) => self.approval_asked(event)?,
            Event::StepApproved(event) => self.step_approved(event)?,
            Event::StepRejected(event) => self.step_rejected(event)?,
            Event::AttemptStarted(event) => self.attempt_started(event)?,
            Event::TaskAccepted(event) => self.task_accepted(event)?,
            Event::AgentStarted(event) => self.agent_started(event)?,
            Event::AttemptEnded(event) => self.attempt_ended(event)?,
            Event::LateAnswer(event) => self.late_answer(event)?,
            Event::RetryScheduled(event) => self.retry_scheduled(event)?,
            Event::ProbeStarted(event) => self.probe_started(event)?,
            Event::ProbeEnded(event) => self.probe_ended(event)?,
            Event::StepFailed(event) => self.step_failed(event)?,
            Event::StepUnknown(event) => self.step_unknown(event)?,
            Event::StepSucceeded(event) => self.succeed_step(self.find_step(&event.step)?),
            Event::StepSkipped(event) => {
                self.end_step(self.find_step(&event.step)?, StepStatus::Skipped, None)
            }
            Event::CompensationGivenUp(event) => {
                self.set_status(self.find_step(&event.step)?, StepStatus::CompensationFailed, None);
            }
            Event::FailureHandled(event) => self.failure_handled(event)?,
            Event::StepsCancelled(event) => self.end_steps(&event.steps, StepStatus::Cancelled, None)?,
            Event::Paused(_) => self.paused = true,
            Event::Resumed(_) => self.paused = false,
            Event::CancelAsked(_) => self.set_stop(EndStatus::Cancelled),
            Event::Decided(event) => self.decided(event)?,
            Event::UndoAsked(event) => self.undo_asked(event),
            Event::UnwindProposed(event) => self.unwind_proposed(event),
            Event::UnwindApproved(_) => self.unwind_approved()?,
            Event::UnwindRejected(_) => self.unwind_rejected()?,
            Event::UnwindStarted(event) => self.unwind_started(event)?,
            Event::UnwindEnded(_) => self.finish_session_unwind(),
            Event::CompensationStarted(event) => self.compensation_started(event)?,
            Event::CompensationEnded(event) => self.compensation_ended(event)?,
            Event::LateCompensation(event) => self.late_compensation(event)?,
            Event::CompensationRecorded(event) => self.compensation_recorded(event)?,
            Event::ActionRecorded(event) => self.action_recorded(event)?,
            Event::DecisionRecorded(event) => self.decision_recorded(event)?,
            Event::StepAdded(event) => self.step_added(event)?,
            Event::YesSpent(event) => self.yes_spent(event)?,
            Event::StateKept(event) => self.state_kept(event)?,
            Event::LabelsChanged(event) => self.labels_changed(event)?,
            Event::Closed(_) => self.closed()?,
            Event::ExecutionEnded(event) => self.end_execution(event.status),
            Event::PayloadsErased(_) => self.erased = true,
        }
        Ok(())
    }

    fn driver_changed(&mut self, event: &event::DriverChanged) {
        (self.epoch, self.node) = (event.epoch, Some(event.seat.clone()));
    }

    /// Pins the tool to the definition that was accepted after the execution's start.
    fn pin_moved(&mut self, event: &event::PinMoved) {
        self.tool_policies.entry(event.tool.clone()).or_default().pin = Some(event.digest);
    }

    fn retry_scheduled(&mut self, event: &event::RetryScheduled) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        self.steps[no.index()].retry.at_ms = Some(event.at_ms);
        Ok(())
    }

    /// Stops the execution for good: nothing more starts, and a pause or a proposed undo is void.
    fn set_stop(&mut self, end: EndStatus) {
        self.stop = Some(end);
        self.paused = false;
        (self.proposal, self.undo_requested) = (UnwindProposal::None, false);
    }

    fn approval_asked(&mut self, event: &event::ApprovalAsked) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        if self.session.is_some() {
            return self.ask_about_call(no, event);
        }
        let arguments = self.own_payload(event.arguments);
        self.steps[no.index()].approval =
            ApprovalState { arguments, pin: event.pin, answer: ApprovalAnswer::None };
        self.set_status(no, StepStatus::AwaitingApproval, None);
        Ok(())
    }

    /// A step was approved; at the point of no return the approval covers all later steps too.
    fn step_approved(&mut self, event: &event::StepApproved) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        if self.session.is_some() {
            return self.approve_call(no, event);
        }
        self.steps[no.index()].approval.answer = ApprovalAnswer::Approved;
        self.past_point_of_no_return |= self.plan.policy.approval == PlanApproval::AtPointOfNoReturn;
        self.set_status(no, StepStatus::Pending, None);
        Ok(())
    }

    /// A step was rejected: it fails with category `policy`.
    fn step_rejected(&mut self, event: &event::StepRejected) -> Result<(), String> {
        let failure = StepFailure { category: ErrorCategory::Policy, detail: None };
        let no = self.find_step(&event.step)?;
        let reason = event.reason.clone();
        if self.session.is_some() {
            return self.reject_call(no, reason, failure);
        }
        self.steps[no.index()].approval.answer = ApprovalAnswer::Rejected { reason };
        self.fail_step(no, StepStatus::Failed, failure);
        Ok(())
    }

    fn agent_started(&mut self, event: &event::AgentStarted) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let step = &mut self.steps[no.index()];
        step.agent_started_at_ms.get_or_insert(self.last_entry_at_ms);
        if let (Some(holder), Some(until_ms)) = (event.holder.clone(), event.until_ms) {
            step.assign_claim(Claim { holder, until_ms, node: event.node.clone() });
        }
        self.set_status(no, StepStatus::Running, None);
        Ok(())
    }

    /// The entry carries the error where nothing was sent; otherwise the attempt recorded it.
    fn step_failed(&mut self, event: &event::StepFailed) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let detail = self.own_payload(event.result).or(self.step(no).error.and_then(|error| error.detail));
        self.fail_step(no, StepStatus::Failed, StepFailure { category: event.category, detail });
        Ok(())
    }

    fn step_unknown(&mut self, event: &event::StepUnknown) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let detail = self.step(no).error.and_then(|error| error.detail);
        self.fail_step(no, StepStatus::Unknown, StepFailure { category: event.category, detail });
        Ok(())
    }

    fn failure_handled(&mut self, event: &event::FailureHandled) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        self.steps[no.index()].failure_handled = true;
        self.refresh(no);
        self.end_steps(&event.cancelled, StepStatus::Cancelled, Some(no))?;
        self.end_steps(&event.skipped, StepStatus::Skipped, Some(no))
    }

    /// Ends unstarted steps as cancelled or skipped; `cause` is the failed step behind it, if any.
    fn end_steps(
        &mut self,
        steps: &[StepId],
        status: StepStatus,
        cause: Option<StepNo>,
    ) -> Result<(), String> {
        for step in steps {
            self.end_step(self.find_step(step)?, status, cause);
        }
        Ok(())
    }

    fn end_execution(&mut self, status: EndStatus) {
        self.finish_session_unwind();
        (self.ended, self.ended_at_ms) = (Some(status), Some(self.last_entry_at_ms));
    }

    fn end_step(&mut self, no: StepNo, status: StepStatus, cause: Option<StepNo>) {
        self.steps[no.index()].ended_at_ms = Some(self.last_entry_at_ms);
        self.set_status(no, status, cause);
    }

    /// Ends a step as failed or unknown; its failure policy is to be applied next.
    fn fail_step(&mut self, no: StepNo, status: StepStatus, failure: StepFailure) {
        // The rejection of an unwinding was about the failures known then, not about this one.
        if self.proposal == UnwindProposal::Rejected {
            self.proposal = UnwindProposal::None;
        }
        let step = &mut self.steps[no.index()];
        step.failure_handled = false;
        step.forced = false;
        step.retry.at_ms = None;
        step.error = Some(failure);
        self.end_step(no, status, None);
    }

    /// Ends a step as succeeded, with the output of its newest successful attempt.
    fn succeed_step(&mut self, no: StepNo) {
        let step = &mut self.steps[no.index()];
        step.forced = false;
        step.retry.at_ms = None;
        step.error = None;
        let result = step
            .attempts
            .iter()
            .rev()
            .find(|attempt| attempt.has_succeeded())
            .and_then(|attempt| attempt.result);
        step.output = result;
        self.end_step(no, StepStatus::Succeeded, None);
    }
}

/// Whether a step with this status is being undone, or was.
fn is_undoing(status: StepStatus) -> bool {
    matches!(status, StepStatus::Compensating | StepStatus::Compensated | StepStatus::CompensationFailed)
}
