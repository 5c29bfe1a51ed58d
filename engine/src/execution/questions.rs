//! The open questions to people and agents, and the answers that each step's state allows.

use super::attempt::Attempt;
use super::due::CallKind;
use super::session::{CallAnswer, CallQuestion, SessionState};
use super::state::{
    ApprovalAnswer, ApprovalGate, ExecutionState, PayloadRef, Phase, StepState, UnwindProposal,
};
use crate::id::{Position, StepNo};
use crate::policy::{FailureAction, OnFailure, StepAnswer, StepStatus};

/// Something that waits for a person or an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// `None`: the question is about the whole plan, or about a proposed undo.
    pub step: Option<StepNo>,
    pub subject: QuestionSubject,
    /// The allowed answers; empty where only `approve`, `reject` or a report answers the question.
    pub answers: Vec<StepAnswer>,
    /// The entry that asks: the same question asked again has another one. `None`: only a report answers it.
    pub asked_at: Option<Position>,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionSubject {
    /// Approval of the whole plan, before its first step.
    PlanApproval,
    /// Approval of a proposed unwinding.
    UndoApproval,
    StepApproval,
    /// An agent or a person is to do the step and report.
    AgentWork,
    /// An agent or a person is to undo the step and report.
    AgentUndo,
    /// The step's tool asks for input.
    ToolQuestion,
    Failure,
    Unknown,
    /// A compensation failed, or its outcome is unknown.
    FailedUndo,
}

/// All open questions; of an ended execution only the proposed undo.
pub fn questions(execution: &ExecutionState) -> Vec<Question> {
    let is_gate_asked = matches!(execution.gate, ApprovalGate::Asked { .. });
    let execution_wide = [
        (is_gate_asked && !execution.is_stopping(), QuestionSubject::PlanApproval),
        (execution.awaits_undo_approval(), QuestionSubject::UndoApproval),
    ];
    let execution_wide = execution_wide.into_iter().filter(|(is_open, _)| *is_open);
    let asked_at = execution.asked_at(None);
    let execution_wide =
        execution_wide.map(|(_, subject)| Question { step: None, subject, answers: Vec::new(), asked_at });
    if execution.ended.is_some() {
        return execution_wide.filter(|question| question.subject == QuestionSubject::UndoApproval).collect();
    }
    let agents = execution.index.open_agent_calls.iter().map(|call| Question {
        step: Some(call.step),
        subject: if call.kind == CallKind::Compensation {
            QuestionSubject::AgentUndo
        } else {
            QuestionSubject::AgentWork
        },
        answers: allowed_answers(execution, call.step),
        asked_at: None,
    });
    if let Some(session) = &execution.session {
        return execution_wide.chain(session_questions(execution, session)).collect();
    }
    let steps = execution.step_numbers().filter_map(|no| step_question(execution, no));
    execution_wide.chain(steps).chain(agents).collect()
}

/// The open questions of a session: about calls, whether or not their callers still wait, about calls whose outcome an
/// unwinding needs, and about failed compensations.
fn session_questions<'a>(
    execution: &'a ExecutionState,
    session: &'a SessionState,
) -> impl Iterator<Item = Question> + 'a {
    let asked = session.questions.iter().filter(|(no, _)| execution.asks_about_call(**no));
    let calls = asked.map(|(no, question)| Question {
        step: Some(*no),
        subject: QuestionSubject::StepApproval,
        answers: Vec::new(),
        asked_at: Some(question.asked_at),
    });
    let of_step = |no: &StepNo, subject: QuestionSubject| Question {
        step: Some(*no),
        subject,
        answers: allowed_answers(execution, *no),
        asked_at: execution.asked_at(Some(*no)),
    };
    let unsettled = session.unsettled.iter().map(move |no| of_step(no, QuestionSubject::Unknown));
    let undo = execution.index.undo_failed.iter();
    calls.chain(unsettled).chain(undo.map(move |no| of_step(no, QuestionSubject::FailedUndo)))
}

/// The question about one step; `None` if the step waits for no answer, or none is allowed.
fn step_question(execution: &ExecutionState, no: StepNo) -> Option<Question> {
    let step = execution.step(no);
    let subject = match step.status() {
        StepStatus::AwaitingApproval if !execution.is_stopping() => QuestionSubject::StepApproval,
        StepStatus::Failed | StepStatus::Unknown
            if asks_about_failures(execution) && step.open_question().is_some() =>
        {
            QuestionSubject::ToolQuestion
        }
        StepStatus::Failed if asks_about_failures(execution) => QuestionSubject::Failure,
        StepStatus::Unknown if asks_about_failures(execution) => QuestionSubject::Unknown,
        StepStatus::CompensationFailed => QuestionSubject::FailedUndo,
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
    let answers = allowed_answers(execution, no);
    let answerable = subject == QuestionSubject::StepApproval || !answers.is_empty();
    let asked_at = execution.asked_at(Some(no));
    answerable.then_some(Question { step: Some(no), subject, answers, asked_at })
}

/// Whether failed and unknown steps are presented as questions. (An answer is accepted at any time.)
fn asks_about_failures(execution: &ExecutionState) -> bool {
    let index = &execution.index;
    if execution.phase == Phase::Unwind {
        return false;
    }
    if index.failure_count(Some(FailureAction::ManualDecision)) > 0 {
        return true;
    }
    if index.failed.len() as u32 == index.failure_count(Some(FailureAction::ContinueOthers)) {
        return false;
    }
    match execution.plan.policy.on_failure {
        OnFailure::Manual => true,
        // With nothing to undo there is nothing to propose, so the failure itself is the question.
        OnFailure::Propose => execution.proposal == UnwindProposal::Rejected || !execution.can_undo(),
        OnFailure::Auto => execution.proposal == UnwindProposal::Rejected,
    }
}

/// The answers that the step's state allows; empty where none is.
pub fn allowed_answers(execution: &ExecutionState, no: StepNo) -> Vec<StepAnswer> {
    use StepAnswer::{Abandon, Compensate, DidNotHappen, Happened, Retry, Skip};
    let step = execution.step(no);
    if execution.ended.is_some()
        || execution.stop.is_some()
        || step.last_attempt().is_some_and(Attempt::is_probing)
    {
        return Vec::new();
    }
    if execution.session.is_some() {
        return session_answers(execution, no);
    }
    let is_allowed = |answer: &StepAnswer| *answer != Compensate || execution.can_undo();
    let allowed = |answers: &[StepAnswer]| answers.iter().copied().filter(is_allowed).collect();
    match (execution.phase, step.status()) {
        (Phase::Forward, StepStatus::Failed) => allowed(&[Retry, Skip, Happened, Compensate, Abandon]),
        (Phase::Forward, StepStatus::Unknown) => {
            allowed(&[Retry, Skip, Happened, DidNotHappen, Compensate, Abandon])
        }
        (Phase::Unwind, StepStatus::CompensationFailed) if !step.undo.left_in_place && !step.undo.retry => {
            vec![Retry, Skip, Happened, DidNotHappen, Abandon]
        }
        (Phase::Unwind, StepStatus::Compensating) if is_agent_undoing(step) => vec![Skip, Happened, Abandon],
        (Phase::Forward | Phase::Unwind, _) => Vec::new(),
    }
}

/// The answers about a session's step: they settle what happened to a call, or what becomes of its undo.
fn session_answers(execution: &ExecutionState, no: StepNo) -> Vec<StepAnswer> {
    use StepAnswer::{DidNotHappen, Happened, Retry, Skip};
    let step = execution.step(no);
    match step.status() {
        StepStatus::Failed if execution.phase == Phase::Forward => vec![Skip, Happened],
        StepStatus::Unknown => vec![Skip, Happened, DidNotHappen],
        StepStatus::CompensationFailed if execution.index.undo_failed.contains(&no) => {
            vec![Retry, Skip, Happened, DidNotHappen]
        }
        StepStatus::Failed
        | StepStatus::CompensationFailed
        | StepStatus::Pending
        | StepStatus::Running
        | StepStatus::AwaitingApproval
        | StepStatus::AwaitingAgent
        | StepStatus::Succeeded
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensating
        | StepStatus::Compensated => Vec::new(),
    }
}

/// Whether an agent's compensation of the step is open.
fn is_agent_undoing(step: &StepState) -> bool {
    step.last_compensation().is_some_and(|last| last.by_agent && last.is_open())
}

impl ExecutionState {
    /// The entry that asks about a step, or, without a step, about the undo or the whole plan. `None`: nothing
    /// waits for an answer there.
    pub fn asked_at(&self, step: Option<StepNo>) -> Option<Position> {
        use StepStatus::{AwaitingApproval, CompensationFailed, Failed, Unknown};
        if let Some(question) = step.and_then(|no| self.call_question(no)) {
            return Some(question.asked_at);
        }
        if let Some(step) = step.map(|no| self.step(no)) {
            let waits = matches!(step.status, AwaitingApproval | Failed | Unknown | CompensationFailed);
            return waits.then_some(step.status_set_at);
        }
        match (&self.proposal, &self.gate) {
            (UnwindProposal::Asked { position, .. }, _) | (_, ApprovalGate::Asked { position }) => {
                Some(*position)
            }
            (UnwindProposal::None | UnwindProposal::Rejected, ApprovalGate::Due | ApprovalGate::Open) => None,
        }
    }

    /// The entry since which an agent's work on a step, or its undo, is awaited. `None`: neither is.
    pub fn agent_awaited_since(&self, no: StepNo) -> Option<Position> {
        self.open_agent_call(no).map(|_| self.step(no).status_set_at)
    }

    /// The open question about a session's call.
    pub fn call_question(&self, no: StepNo) -> Option<&CallQuestion> {
        let question = self.session.as_ref()?.questions.get(&no);
        question.filter(|_| self.asks_about_call(no))
    }

    /// Whether a yes to this call is asked for: the question is open and has not expired at the last entry.
    fn asks_about_call(&self, no: StepNo) -> bool {
        let question = self.session.as_ref().and_then(|session| session.questions.get(&no));
        let is_open = |question: &CallQuestion| {
            question.answer == CallAnswer::Open && !question.has_expired(self.last_entry_at_ms)
        };
        self.ended.is_none() && self.phase == Phase::Forward && question.is_some_and(is_open)
    }

    /// Whether `questions` would return any, without building them: evaluated after every entry.
    pub(super) fn has_questions(&self) -> bool {
        let index = &self.index;
        if let Some(session) = &self.session {
            let waits = !session.unsettled.is_empty() || !index.undo_failed.is_empty();
            return waits || self.awaits_undo_approval();
        }
        let plan_approval = !self.is_stopping() && matches!(self.gate, ApprovalGate::Asked { .. });
        let execution_wide = plan_approval || self.awaits_undo_approval();
        let approvals = !self.is_stopping() && index.count(StepStatus::AwaitingApproval) > 0;
        let failures = self.stop.is_none() && !index.failed.is_empty() && asks_about_failures(self);
        let undo = self.stop.is_none() && !index.undo_failed.is_empty();
        execution_wide || approvals || failures || undo || !index.open_agent_calls.is_empty()
    }
}

impl StepState {
    /// The arguments that the next attempt sends, as far as they are known; where no attempt can follow, those
    /// that the last one sent. `None`: none were bound yet.
    pub fn current_arguments(&self) -> Option<PayloadRef> {
        use StepStatus::{AwaitingAgent, AwaitingApproval, Failed, Pending, Running, Unknown};
        let sent = self.last_attempt().and_then(|last| last.arguments);
        let may_follow =
            matches!(self.status(), Pending | Running | AwaitingApproval | AwaitingAgent | Failed | Unknown);
        // An answer may have corrected them, or an approval been asked for others, after the last attempt.
        let newer = [self.approval.arguments, self.corrected_arguments, self.literal_arguments];
        let newer = newer.into_iter().filter(|_| may_follow || sent.is_none());
        newer.chain([sent]).flatten().max_by_key(|stored| stored.position)
    }

    /// Whether the step has failed because a person rejected it.
    pub fn is_rejected(&self) -> bool {
        let rejected = matches!(self.approval.answer, ApprovalAnswer::Rejected { .. });
        rejected && self.status == StepStatus::Failed
    }
}
