//! What waits for a person or an agent, and which answers fit.

use super::due::CallKind;
use super::state::{Execution, Gate, Phase, ProbeState, Proposal, StepState};
use crate::id::StepNo;
use crate::policy::{Answer, FailureAction, OnFailure, StepStatus};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// None: the whole plan, or a proposed undo.
    pub step: Option<StepNo>,
    pub subject: Subject,
    pub answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The plan, before its first step.
    PlanApproval,
    /// The unwinding that was prepared.
    UndoApproval,
    StepApproval,
    AgentWork,
    AgentUndo,
    /// What the step's tool wants to know.
    Question,
    Failure,
    Unknown,
    FailedUndo,
}

pub fn questions(execution: &Execution) -> Vec<Question> {
    let whole = [
        (execution.gate == Gate::Asked && !execution.stopping(), Subject::PlanApproval),
        (execution.asks_for_undo(), Subject::UndoApproval),
    ];
    let whole = whole.into_iter().filter(|(asked, _)| *asked);
    let whole = whole.map(|(_, subject)| Question { step: None, subject, answers: Vec::new() });
    if execution.ended.is_some() {
        return whole.filter(|question| question.subject == Subject::UndoApproval).collect();
    }
    let agents = execution.index.open_agents.iter().map(|call| Question {
        step: Some(call.step),
        subject: if call.kind == CallKind::Compensation { Subject::AgentUndo } else { Subject::AgentWork },
        answers: answers(execution, call.step),
    });
    let steps = execution.numbers().filter_map(|no| step_question(execution, no));
    whole.chain(steps).chain(agents).collect()
}

fn step_question(execution: &Execution, no: StepNo) -> Option<Question> {
    let step = execution.step(no);
    let subject = match step.status() {
        StepStatus::AwaitingApproval if !execution.stopping() => Subject::StepApproval,
        StepStatus::Failed | StepStatus::Unknown if failures_ask(execution) && step.question().is_some() => {
            Subject::Question
        }
        StepStatus::Failed if failures_ask(execution) => Subject::Failure,
        StepStatus::Unknown if failures_ask(execution) => Subject::Unknown,
        StepStatus::CompensationFailed => Subject::FailedUndo,
        StepStatus::AwaitingApproval
        | StepStatus::Failed
        | StepStatus::Unknown
        | StepStatus::Pending
        | StepStatus::Running
        | StepStatus::AwaitingAgent
        | StepStatus::Succeeded
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensating
        | StepStatus::Compensated => return None,
    };
    let answers = answers(execution, no);
    let answerable = subject == Subject::StepApproval || !answers.is_empty();
    answerable.then_some(Question { step: Some(no), subject, answers })
}

/// Is a failure put as a question? (The answer itself is taken at any time.)
fn failures_ask(execution: &Execution) -> bool {
    let index = &execution.index;
    if execution.phase == Phase::Unwind {
        return false;
    }
    if index.failures(Some(FailureAction::ManualDecision)) > 0 {
        return true;
    }
    if index.failed.len() as u32 == index.failures(Some(FailureAction::ContinueOthers)) {
        return false;
    }
    match execution.plan.policy.on_failure {
        OnFailure::Manual => true,
        // Where nothing could be undone there is nothing to propose.
        OnFailure::Propose => execution.proposal == Proposal::Rejected || !execution.can_undo(),
        OnFailure::Auto => execution.proposal == Proposal::Rejected,
    }
}

/// The answers that fit a step's state.
pub fn answers(execution: &Execution, no: StepNo) -> Vec<Answer> {
    use Answer::{Abandon, Compensate, DidNotHappen, Happened, Retry, Skip};
    let step = execution.step(no);
    if execution.ended.is_some() || execution.stop.is_some() || probing(step) {
        return Vec::new();
    }
    let undoable = |answer: &Answer| *answer != Compensate || execution.can_undo();
    let fitting = |answers: &[Answer]| answers.iter().copied().filter(undoable).collect();
    match (execution.phase, step.status()) {
        (Phase::Forward, StepStatus::Failed) => fitting(&[Retry, Skip, Happened, Compensate, Abandon]),
        (Phase::Forward, StepStatus::Unknown) => {
            fitting(&[Retry, Skip, Happened, DidNotHappen, Compensate, Abandon])
        }
        (Phase::Unwind, StepStatus::CompensationFailed) if !step.left && !step.undo_retry => {
            vec![Retry, Skip, Happened, DidNotHappen, Abandon]
        }
        (Phase::Unwind, StepStatus::Compensating) if agent_undoes(step) => vec![Skip, Happened, Abandon],
        (Phase::Forward | Phase::Unwind, _) => Vec::new(),
    }
}

fn probing(step: &StepState) -> bool {
    step.last().is_some_and(|attempt| matches!(attempt.probe, ProbeState::Open { .. }))
}

fn agent_undoes(step: &StepState) -> bool {
    step.last_compensation().is_some_and(|one| one.by_agent && one.outcome.is_none())
}

impl Execution {
    /// `questions` without making them: asked after every entry.
    pub(super) fn has_questions(&self) -> bool {
        let index = &self.index;
        let plan = !self.stopping() && self.gate == Gate::Asked;
        let whole = plan || self.asks_for_undo();
        let approvals = !self.stopping() && index.count(StepStatus::AwaitingApproval) > 0;
        let failures = self.stop.is_none() && !index.failed.is_empty() && failures_ask(self);
        let undo = self.stop.is_none() && !index.undo_failed.is_empty();
        whole || approvals || failures || undo || !index.open_agents.is_empty()
    }
}
