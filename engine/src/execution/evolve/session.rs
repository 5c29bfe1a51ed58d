//! Folds what happens in sessions: steps that are added, questions about calls and the yes that a call spends, labels,
//! kept states, and the beginning and end of an unwinding.

use std::sync::Arc;

use super::super::session::{CallAnswer, CallQuestion, CallRecord, SessionState};
use super::super::state::{
    ApprovalAnswer, ApprovalState, ExecutionState, PayloadRef, Phase, StepFailure, StepState,
};
use crate::event::{self, StateMoment};
use crate::id::{StepId, StepNo};
use crate::plan::{Compensation, Step};
use crate::policy::{EndStatus, StepAnswer, StepStatus};
use crate::tool_policy::StepRules;

impl ExecutionState {
    /// The session of this execution, for an entry that only a session can have.
    fn session_mut(&mut self) -> Result<&mut SessionState, String> {
        self.session.as_deref_mut().ok_or_else(|| "the execution is no session's".to_owned())
    }

    pub(super) fn step_added(&mut self, event: &event::StepAdded) -> Result<(), String> {
        let record = CallRecord {
            adds: event.adds.clone(),
            call: event.call.clone(),
            agent: event.agent.clone(),
            client_tool: event.client_tool.clone(),
            folder: event.folder.clone(),
            secrets: event.secrets,
            rule: event.rule.clone(),
            note: event.note,
            matched: event.matched.as_deref().cloned(),
            servers: event.servers.clone(),
            expires_at_ms: event.expires_at_ms,
            before: None,
            after: None,
            check: event.undo.as_ref().and_then(|undo| undo.check.clone()),
            start_rank: u32::MAX,
        };
        self.session_mut()?.calls.push(record);
        let policy = event.terms.get(&event.tool);
        let read_only = policy.and_then(|policy| policy.read_only) == Some(true);
        let terms = (read_only, policy.and_then(|policy| policy.timeout_ms));
        let undo = event.undo.as_ref().map(|undo| Compensation::of_call(&undo.tool, &undo.arguments));
        let undo = undo.transpose().map_err(|error| format!("the undo does not compile: {error}"))?;
        let step = Step::of_call(event.step.clone(), event.tool.clone(), event.by_agent, terms, undo);
        self.tool_policies.extend(event.terms.iter().map(|(tool, policy)| (tool.clone(), policy.clone())));
        self.rules.push(StepRules::resolve(&step, &event.terms));
        let no = Arc::make_mut(&mut self.plan).push_step(step)?;
        self.steps.push(StepState {
            status_set_at: self.position,
            literal_arguments: self.own_payload(Some(event.arguments)),
            ..StepState::default()
        });
        self.index.add_pending_step();
        self.refresh(no);
        Ok(())
    }

    /// The question about a call of a session: its arguments are those of the step, and a yes binds to what it shows.
    pub(super) fn ask_about_call(&mut self, no: StepNo, event: &event::ApprovalAsked) -> Result<(), String> {
        let tool = self.plan.step(no).tool().ok_or("a session's step calls a tool")?.to_owned();
        let asked_at = self.position;
        let arguments = self.step(no).literal_arguments.ok_or("a session's step has arguments")?;
        let session = self.session_mut()?;
        let record = session.call(no);
        let question = CallQuestion {
            asked_at,
            tool,
            client_tool: record.client_tool.clone(),
            folder: record.folder.clone(),
            pin: event.pin,
            arguments: arguments.digest.digest,
            secrets: record.secrets,
            labels: session.labels.union(&record.adds).cloned().collect(),
            expires_at_ms: record.expires_at_ms,
            answer: CallAnswer::Open,
        };
        session.questions.insert(no, question);
        self.steps[no.index()].approval =
            ApprovalState { arguments: Some(arguments), pin: event.pin, answer: ApprovalAnswer::None };
        self.set_status(no, StepStatus::AwaitingApproval, None);
        Ok(())
    }

    /// A person said yes to a call. It starts nothing; the call whose question it was, or an equal one, spends it.
    pub(super) fn approve_call(&mut self, no: StepNo, event: &event::StepApproved) -> Result<(), String> {
        self.answer_call_question(no, CallAnswer::Yes(event.scope))?;
        if self.step(no).status() == StepStatus::AwaitingApproval {
            self.set_status(no, StepStatus::Pending, None);
        }
        Ok(())
    }

    /// A person said no to a call; one whose caller no longer waits stays cancelled.
    pub(super) fn reject_call(
        &mut self,
        no: StepNo,
        reason: Option<String>,
        failure: StepFailure,
    ) -> Result<(), String> {
        self.answer_call_question(no, CallAnswer::No)?;
        self.steps[no.index()].approval.answer = ApprovalAnswer::Rejected { reason };
        if self.step(no).status() == StepStatus::AwaitingApproval {
            self.fail_step(no, StepStatus::Failed, failure);
        }
        Ok(())
    }

    fn answer_call_question(&mut self, no: StepNo, answer: CallAnswer) -> Result<(), String> {
        let question = self.session_mut()?.questions.get_mut(&no).ok_or("nobody asked about this call")?;
        question.answer = answer;
        Ok(())
    }

    /// The step's call may start because of the yes to the question of `asked_by`.
    pub(super) fn yes_spent(&mut self, event: &event::YesSpent) -> Result<(), String> {
        let (no, asked_by) = (self.find_step(&event.step)?, self.find_step(&event.asked_by)?);
        let session = self.session_mut()?;
        let question = session.questions.get_mut(&asked_by).ok_or("nobody asked about this call")?;
        match question.answer {
            CallAnswer::Yes(event::ApprovalScope::Once) => question.answer = CallAnswer::Spent,
            CallAnswer::Yes(event::ApprovalScope::Session) => {}
            CallAnswer::Open | CallAnswer::No | CallAnswer::Spent | CallAnswer::Void => {
                return Err("there is no yes to spend".into());
            }
        }
        let (pin, arguments) = (question.pin, self.step(no).literal_arguments);
        self.steps[no.index()].approval = ApprovalState { arguments, pin, answer: ApprovalAnswer::Approved };
        Ok(())
    }

    /// Counts a call of a session that starts, and puts it into the order of starts.
    pub(super) fn count_session_start(&mut self, no: StepNo) {
        let tool = self.plan.step(no).tool().unwrap_or_default().to_owned();
        let Some(session) = self.session.as_mut() else { return };
        *session.counts.entry(tool).or_insert(0) += 1;
        session.starts += 1;
        let starts = session.starts;
        session.calls[no.index()].start_rank = starts;
    }

    pub(super) fn state_kept(&mut self, event: &event::StateKept) -> Result<(), String> {
        let no = self.find_step(&event.step)?;
        let stored = PayloadRef { position: self.position, digest: event.state };
        let record = &mut self.session_mut()?.calls[no.index()];
        match event.moment {
            StateMoment::Before => record.before = Some(stored),
            StateMoment::After => record.after = Some(stored),
        }
        Ok(())
    }

    pub(super) fn labels_changed(&mut self, event: &event::LabelsChanged) -> Result<(), String> {
        let session = self.session_mut()?;
        session.labels.extend(event.added.iter().cloned());
        let labels = session.labels.clone();
        session.questions.values_mut().for_each(|question| question.void_if_unshown(&labels));
        session.labels.retain(|label| !event.removed.contains(label));
        Ok(())
    }

    /// The session is over: succeeded, or as it was stopped.
    pub(super) fn closed(&mut self) -> Result<(), String> {
        self.session_mut()?;
        self.paused = false;
        self.end_execution(self.stop.unwrap_or(EndStatus::Succeeded));
        Ok(())
    }

    /// A session's call ended without success: nothing retries it, and nothing follows from it.
    pub(super) fn settle_session_call(
        &mut self,
        no: StepNo,
        status: StepStatus,
        failure: Option<StepFailure>,
    ) {
        let gave_up = self.phase == Phase::Unwind && status == StepStatus::Unknown;
        if let Some(session) = self.session.as_mut().filter(|_| gave_up) {
            session.unsettled.insert(no);
        }
        let category = crate::policy::ErrorCategory::Internal;
        let failure = failure.unwrap_or(StepFailure { category, detail: None });
        self.fail_step(no, status, failure);
    }

    /// The call needs no further report of how it ended.
    pub(super) fn mark_settled(&mut self, no: StepNo) {
        if let Some(session) = &mut self.session {
            session.unsettled.remove(&no);
        }
    }

    /// Applies an answer about a session's call: it settles what happened, and starts nothing.
    pub(super) fn settle_by_answer(
        &mut self,
        no: StepNo,
        answer: StepAnswer,
        output: Option<PayloadRef>,
    ) -> Result<(), String> {
        self.mark_settled(no);
        match answer {
            StepAnswer::Skip => {
                let step = &mut self.steps[no.index()];
                (step.output, step.error) = (output, None);
                self.end_step(no, StepStatus::Skipped, None);
            }
            StepAnswer::Happened => self.settle_as_happened(no, output),
            StepAnswer::DidNotHappen => {
                for attempt in self.steps[no.index()].attempts.iter_mut().filter(|one| one.is_unknown()) {
                    attempt.settled = Some(false);
                }
                self.end_step(no, StepStatus::Failed, None);
            }
            StepAnswer::Retry | StepAnswer::Compensate | StepAnswer::Abandon => {
                return Err("an answer that no call of a session takes".into());
            }
        }
        Ok(())
    }

    /// Limits an unwinding that begins to the selected steps, and remembers how the session stood.
    pub(super) fn begin_session_unwind(&mut self, selection: Option<&[StepId]>) -> Result<(), String> {
        for step in selection.into_iter().flatten() {
            self.find_step(step)?;
        }
        let (ended, now_ms) = (self.ended, self.last_entry_at_ms);
        let outside: Vec<bool> =
            self.step_numbers().map(|no| self.is_outside_selection(no, selection)).collect();
        let Some(session) = &mut self.session else { return Ok(()) };
        session.ended_before = ended;
        session.undo_selection = None;
        session.unwinding_since_ms = Some(now_ms);
        for (step, outside) in self.steps.iter_mut().zip(outside) {
            step.undo.outside_selection = outside;
        }
        Ok(())
    }

    /// An unwinding of a session is over: every step can be undone again, and calls may start if it is open.
    pub(super) fn finish_session_unwind(&mut self) {
        let Some(session) = &mut self.session else { return };
        session.unwinding_since_ms = None;
        session.unsettled.clear();
        if self.phase == Phase::Forward {
            return;
        }
        self.phase = Phase::Forward;
        for step in &mut self.steps {
            step.undo.outside_selection = false;
        }
        self.build_undo_order();
    }
}
