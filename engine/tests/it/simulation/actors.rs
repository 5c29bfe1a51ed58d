//! The actors of a simulation: tools that answer, agents and people.

use actbook_engine::execution::{
    ActionFacts, AgentReport, CallId, CallKind, Command, Execution, Question, QuestionSubject,
    ReportedOutcome, allowed_answers, questions,
};
use actbook_engine::id::{Epoch, StepNo};
use actbook_engine::policy::{ErrorCategory, Outcome, StepAnswer, StepStatus};
use serde_json::{Value, json};

use super::world::{CallFate, CallTruth};
use super::{
    Simulation, approve, coverage, decide, decide_with_reply, question, record_report, record_undo, reject,
};
use crate::invariants::{open_agent_calls, open_calls};

impl Simulation {
    fn report_outcome(&mut self, call: CallId, ended: ReportedOutcome) {
        let stale = !self.benign && self.rng.percent_chance(10);
        let epoch = if stale { Epoch(0) } else { self.harness.epoch() };
        self.apply(&Command::ReportOutcome { epoch, call, outcome: ended });
    }

    /// Sends a call in flight if it is not sent yet, and mostly reports an outcome.
    pub(super) fn deliver(&mut self, call: CallId) {
        let run = call.kind == CallKind::Run;
        if !self.world.calls.contains_key(&call) {
            if call.kind != CallKind::Probe && (self.world.down && run || self.rng.percent_chance(8)) {
                self.world.calls.insert(
                    call,
                    CallTruth { sent: CallFate::NotSent, takes_effect: false, takes_effect_late: false },
                );
                let ended = ReportedOutcome::Failed {
                    category: ErrorCategory::Unavailable,
                    error: Value::Null,
                    unsent: true,
                    retry_after_ms: None,
                };
                return self.report_outcome(call, ended);
            }
            self.world.send(self.harness.execution(), call, &mut self.rng);
            if self.rng.percent_chance(15) {
                self.apply(&Command::AcceptTask { call, task: format!("task {}", call.index) });
            }
            if !self.benign && self.rng.percent_chance(40) {
                return;
            }
        }
        if call.kind == CallKind::Probe {
            return self.deliver_probe(call);
        }
        // The worst time for a late success: while the step is being undone.
        if call.kind == CallKind::Compensation && self.world.late_effects && self.rng.percent_chance(30) {
            self.deliver_late();
        }
        if !open_calls(self.execution()).contains(&call) {
            return;
        }
        let lands = self.world.calls[&call].takes_effect;
        let draw = self.rng.below(100);
        if draw < if self.benign { 10 } else { 25 } {
            let later = self.world.late_effects && !lands && self.rng.percent_chance(50);
            self.world.calls.insert(
                call,
                CallTruth { sent: CallFate::TimedOut, takes_effect: lands, takes_effect_late: later },
            );
            let category = *self.rng.pick(&[
                ErrorCategory::Timeout,
                ErrorCategory::Timeout,
                ErrorCategory::Unavailable,
                ErrorCategory::Protocol,
            ]);
            return self.report_outcome(
                call,
                ReportedOutcome::Unknown {
                    category,
                    error: json!({"message": "no answer"}),
                    retry_after_ms: None,
                },
            );
        }
        if run && self.rng.percent_chance(8) {
            return self.ask_question(call, lands);
        }
        self.world.calls.insert(
            call,
            CallTruth { sent: CallFate::Answered, takes_effect: lands, takes_effect_late: false },
        );
        let read_only = run && self.execution().rules(call.step).read_only && draw < 60;
        let ended = if lands || read_only { self.success_outcome() } else { self.failure_outcome() };
        self.report_outcome(call, ended);
    }

    /// The tool asks a question: before it has an effect, or in the middle of a task.
    fn ask_question(&mut self, call: CallId, lands: bool) {
        let sent = if lands { CallFate::TimedOut } else { CallFate::Answered };
        self.world.calls.insert(call, CallTruth { sent, takes_effect: lands, takes_effect_late: false });
        self.report_outcome(
            call,
            ReportedOutcome::InputRequired { question: question(), may_have_run: lands },
        );
    }

    /// An agent records an action, a decision or a manual undo.
    pub(super) fn record_side_action(&mut self) {
        let steps: Vec<StepNo> = self.execution().step_numbers().collect();
        let no = *self.rng.pick(&steps);
        let (id, about) = (self.id(no), self.rng.percent_chance(50));
        let facts =
            ActionFacts { entity: Some("file".into()), confidence: Some(0.5), ..ActionFacts::default() };
        match self.rng.below(6) {
            0 => drop(self.apply(&Command::RecordAction {
                step: about.then_some(id),
                status: None,
                facts: facts.into(),
            })),
            1 => drop(self.record_decision("use the second draft")),
            2 => drop(self.record_decision("continue")),
            3 => drop(self.rng.percent_chance(20) && self.record_decision("stop")),
            4 => drop(self.apply(&record_undo(&id, false))),
            _ => self.undo_by_hand(no),
        }
    }

    fn record_decision(&mut self, words: &str) -> bool {
        let (decision, reason) = (words.to_owned(), Some("it is late".to_owned()));
        self.apply(&Command::RecordDecision { decision, reason, step: None, details: Some(json!([1])) })
    }

    /// A person really undoes what may have run, and records it; this settles an agent's pending
    /// compensation.
    fn undo_by_hand(&mut self, no: StepNo) {
        let command = record_undo(&self.id(no), true);
        if !self.accepts(&command) {
            self.apply(&command);
            return;
        }
        let (rules, step) = (self.execution().rules(no), self.execution().step(no));
        let targets = match step
            .last_compensation()
            .filter(|last| last.by_agent && last.outcome != Some(Outcome::Succeeded))
        {
            Some(last) => last.undoes.into_iter().collect(),
            None => step.attempts_to_undo(rules),
        };
        for attempt in targets {
            self.world.remove_effect(self.harness.execution(), no, attempt);
        }
        let last = pending_agent_compensation(self.execution(), no);
        if let Some(truth) = last.and_then(|call| self.world.calls.get_mut(&call)) {
            truth.sent = CallFate::Answered;
        }
        self.apply(&command);
    }

    fn deliver_probe(&mut self, call: CallId) {
        let exists = self.world.has_effect(self.execution(), call.step, call.index);
        let ended = match self.rng.below(10) {
            0 => ReportedOutcome::Unknown {
                category: ErrorCategory::Timeout,
                error: Value::Null,
                retry_after_ms: None,
            },
            1 => ReportedOutcome::Succeeded { output: json!({ "unheard": "of" }) },
            _ => ReportedOutcome::Succeeded { output: json!({ "exists": exists }) },
        };
        self.report_outcome(call, ended);
    }

    fn success_outcome(&mut self) -> ReportedOutcome {
        ReportedOutcome::Succeeded {
            output: if self.rng.percent_chance(15) { Value::Null } else { json!({ "x": 1 }) },
        }
    }

    fn failure_outcome(&mut self) -> ReportedOutcome {
        let usual = [ErrorCategory::ToolError, ErrorCategory::Unavailable];
        let common = self.rng.percent_chance(70);
        let category = *self.rng.pick(if common { &usual } else { ErrorCategory::ALL });
        // Sometimes a server asks for a longer wait than the plan allows.
        let retry_after_ms = (category == ErrorCategory::RateLimited).then_some(20_000);
        ReportedOutcome::Failed { category, error: json!({"message": "no"}), unsent: false, retry_after_ms }
    }

    /// A late answer to an abandoned call; sometimes a repeated one.
    pub(super) fn deliver_late(&mut self) {
        let open = open_calls(self.execution());
        let repeat = self.rng.percent_chance(20);
        let given_up = |(call, truth): (&CallId, &CallTruth)| {
            let fits = match truth.sent {
                CallFate::NotSent => false,
                CallFate::Answered => repeat,
                CallFate::Out | CallFate::TimedOut => !open.contains(call),
            };
            (fits && call.kind != CallKind::Probe && self.is_in_journal(*call)).then_some(*call)
        };
        let calls: Vec<CallId> = self.world.calls.iter().filter_map(given_up).collect();
        let Some(call) = self.rng.pick_or_none(&calls) else { return };
        let CallTruth { sent, takes_effect: mut lands, takes_effect_late: later } = self.world.calls[&call];
        if later {
            self.world.apply_effect(self.harness.execution(), call);
            lands = true;
        }
        self.world.calls.insert(
            call,
            CallTruth { sent: CallFate::Answered, takes_effect: lands, takes_effect_late: false },
        );
        let ended = if lands {
            ReportedOutcome::Succeeded { output: json!({"x": 2}) }
        } else {
            self.failure_outcome()
        };
        let mark = self.harness.entries.len();
        self.apply(&Command::ReportOutcome { epoch: Epoch(0), call, outcome: ended });
        // A process that has only a prefix of the journal may not have the earlier answer.
        let repeated = sent == CallFate::Answered && !self.benign;
        let read_only = self.execution().rules(call.step).read_only;
        assert!(
            !repeated || read_only || self.harness.entries.len() == mark,
            "a repeated answer appends nothing"
        );
    }

    /// True if the journal has the call: in a fork it may be shorter than what the world has seen.
    fn is_in_journal(&self, call: CallId) -> bool {
        let step = self.execution().step(call.step);
        match call.kind {
            CallKind::Run | CallKind::Probe => (call.index as usize) < step.attempts.len(),
            CallKind::Compensation => (call.index as usize) < step.compensations.len(),
        }
    }

    pub(super) fn agent_acts(&mut self) {
        let Some(call) = self.rng.pick_or_none(&open_agent_calls(self.execution())) else { return };
        let step = Some(self.id(call.step));
        if call.kind == CallKind::Run && self.rng.percent_chance(30) {
            self.apply(&record_report(&step, AgentReport::Started));
            return;
        }
        if !self.world.calls.contains_key(&call) {
            let lands = self.rng.percent_chance(75);
            if lands {
                self.world.apply_effect(self.harness.execution(), call);
            }
            self.world.calls.insert(
                call,
                CallTruth { sent: CallFate::Out, takes_effect: lands, takes_effect_late: false },
            );
            if !self.benign && self.rng.percent_chance(30) {
                return;
            }
        }
        self.agent_reports(call);
    }

    fn agent_reports(&mut self, call: CallId) {
        let lands = self.world.calls[&call].takes_effect;
        self.world.calls.insert(
            call,
            CallTruth { sent: CallFate::Answered, takes_effect: lands, takes_effect_late: false },
        );
        let report = match (lands, call.kind) {
            (true, CallKind::Compensation) => AgentReport::Compensated { output: None },
            (true, CallKind::Run | CallKind::Probe) => {
                AgentReport::Succeeded { output: Some(json!({"x": 3})) }
            }
            (false, _) => AgentReport::Failed { reason: None, category: ErrorCategory::ToolError },
        };
        self.apply(&record_report(&Some(self.id(call.step)), report));
    }

    /// An agent reports on a call that was recorded as unknown.
    pub(super) fn agent_reports_late(&mut self) {
        let lost = |(call, truth): (&CallId, &CallTruth)| {
            let step = self.execution().step(call.step);
            let newest = match call.kind {
                CallKind::Run => {
                    let last = step
                        .last_attempt()
                        .filter(|last| last.by_agent && last.outcome == Some(Outcome::Unknown));
                    last.is_some()
                        && step.attempts.len() as u32 == call.index + 1
                        && step.compensations.is_empty()
                }
                CallKind::Compensation => {
                    let last = step.last_compensation();
                    let last = last.filter(|last| last.by_agent && last.outcome == Some(Outcome::Unknown));
                    last.is_some() && step.compensations.len() as u32 == call.index + 1
                }
                CallKind::Probe => false,
            };
            (newest && truth.sent == CallFate::Out).then_some(*call)
        };
        let calls: Vec<CallId> = self.world.calls.iter().filter_map(lost).collect();
        if let Some(call) = self.rng.pick_or_none(&calls) {
            self.agent_reports(call);
        }
    }

    pub(super) fn person_answers(&mut self) -> bool {
        let asked = questions(self.execution());
        let for_agents = self.rng.percent_chance(15);
        let asked: Vec<&Question> = asked
            .iter()
            .filter(|one| match one.subject {
                QuestionSubject::AgentWork => false,
                QuestionSubject::AgentUndo => for_agents && !one.answers.is_empty(),
                _ => true,
            })
            .collect();
        if asked.is_empty() {
            return false;
        }
        let question = *self.rng.pick(&asked);
        let step = question.step.map(|no| self.id(no));
        match question.subject {
            QuestionSubject::PlanApproval | QuestionSubject::UndoApproval | QuestionSubject::StepApproval => {
                let yes = self.rng.percent_chance(70);
                self.apply(&if yes { approve(step) } else { reject(step) })
            }
            QuestionSubject::ToolQuestion if self.rng.percent_chance(60) => {
                let step = step.expect("a tool asks for a step");
                self.apply(&decide_with_reply(step, question.asked_at))
            }
            QuestionSubject::ToolQuestion
            | QuestionSubject::Failure
            | QuestionSubject::Unknown
            | QuestionSubject::FailedUndo
            | QuestionSubject::AgentWork
            | QuestionSubject::AgentUndo => {
                let answer = *self.rng.pick(&question.answers);
                self.answer_question(question.step.expect("an answer is about a step"), answer)
            }
        }
    }

    /// The answer as a command: sometimes with corrected arguments, or by a caller who may not approve.
    fn answer_command(&mut self, no: StepNo, answer: StepAnswer) -> Command {
        let mut plain = decide(&self.id(no), answer);
        if let Command::Decide { approves, .. } = &mut plain {
            *approves = self.rng.percent_chance(80);
        }
        let mut corrected = plain.clone();
        if let Command::Decide { arguments, .. } = &mut corrected {
            *arguments = Some(json!({ "path": "corrected" }));
        }
        if self.rng.percent_chance(20) && self.accepts(&corrected) { corrected } else { plain }
    }

    /// Answers a question, mostly truthfully.
    pub(super) fn answer_question(&mut self, no: StepNo, mut answer: StepAnswer) -> bool {
        let id = self.id(no);
        if !allowed_answers(self.execution(), no).contains(&answer) {
            return self.apply(&decide(&id, answer));
        }
        let step = self.execution().step(no);
        let status = step.status();
        let newest = step.last_counted_index().unwrap_or(0);
        let unknown = step
            .last_counted_attempt()
            .is_some_and(|last| last.effective_outcome() == Some(Outcome::Unknown));
        let tried =
            step.last_compensation().filter(|one| one.effective_outcome() != Some(Outcome::Succeeded));
        let next = step.attempts_to_undo(self.execution().rules(no)).last().copied();
        let undone = tried.and_then(|one| one.undoes).or(next);
        let is_statement = matches!(answer, StepAnswer::Happened | StepAnswer::DidNotHappen);
        let mut by_hand = false;
        match status {
            StepStatus::Failed | StepStatus::Unknown if is_statement && unknown => {
                let read_only = self.execution().rules(no).read_only;
                let truth = if read_only {
                    answer == StepAnswer::Happened
                } else {
                    self.world.has_effect(self.execution(), no, newest)
                };
                if truth != (answer == StepAnswer::Happened) {
                    if self.rng.percent_chance(80) {
                        answer = if truth { StepAnswer::Happened } else { StepAnswer::DidNotHappen };
                    } else {
                        self.world.inconsistent = true;
                    }
                }
            }
            StepStatus::Failed | StepStatus::Unknown => by_hand = answer == StepAnswer::Happened,
            _ if answer == StepAnswer::Happened => {
                self.world.remove_effect(
                    self.harness.execution(),
                    no,
                    undone.expect("there is an attempt to undo"),
                );
            }
            _ => {}
        }
        let command = self.answer_command(no, answer);
        let accepted = self.apply(&command);
        if accepted {
            coverage::count("answer", answer.as_str(), status.as_str());
        }
        if accepted && by_hand {
            self.world.apply_manual_effect(self.harness.execution(), no);
        }
        accepted
    }
}

/// The step's newest compensation, if an agent has it open or its outcome is unknown.
fn pending_agent_compensation(execution: &Execution, no: StepNo) -> Option<CallId> {
    let count = execution.step(no).compensations.len() as u32;
    let last = execution.step(no).last_compensation().filter(|last| last.by_agent)?;
    let waits = !matches!(last.outcome, Some(Outcome::Succeeded | Outcome::Failed));
    waits.then_some(CallId { step: no, kind: CallKind::Compensation, index: count - 1 })
}
