//! The actors of a simulation: tools that answer, agents and people.

use actbook_engine::execution::{
    ActionFacts, AgentReport, CallId, CallKind, Command, Execution, Question, QuestionSubject,
    ReportedOutcome, allowed_answers, questions,
};
use actbook_engine::id::{Epoch, StepNo};
use actbook_engine::policy::{ErrorCategory, Outcome, StepAnswer, StepStatus};
use serde_json::{Value, json};

use super::world::{Sent, Truth};
use super::{Sim, coverage, decide, question, record, reply, undid};
use crate::laws::{open_agents, open_calls};

impl Sim {
    fn report(&mut self, call: CallId, ended: ReportedOutcome) {
        let stale = !self.benign && self.dice.chance(10);
        let epoch = if stale { Epoch(0) } else { self.book.epoch() };
        self.give(&Command::ReportOutcome { epoch, call, outcome: ended });
    }

    /// Sends a call in flight if it is not sent yet, and mostly reports an outcome.
    pub(super) fn deliver(&mut self, call: CallId) {
        let run = call.kind == CallKind::Run;
        if !self.world.calls.contains_key(&call) {
            if call.kind != CallKind::Probe && (self.world.down && run || self.dice.chance(8)) {
                self.world.calls.insert(call, Truth { sent: Sent::Never, lands: false, later: false });
                let ended = ReportedOutcome::Failed {
                    category: ErrorCategory::Unavailable,
                    error: Value::Null,
                    unsent: true,
                    retry_after_ms: None,
                };
                return self.report(call, ended);
            }
            self.world.send(self.book.execution(), call, &mut self.dice);
            if self.dice.chance(15) {
                self.give(&Command::AcceptTask { call, task: format!("task {}", call.index) });
            }
            if !self.benign && self.dice.chance(40) {
                return;
            }
        }
        if call.kind == CallKind::Probe {
            return self.deliver_probe(call);
        }
        // The worst time for a late success: while the step is being undone.
        if call.kind == CallKind::Compensation && self.world.land_late && self.dice.chance(30) {
            self.late();
        }
        if !open_calls(self.execution()).contains(&call) {
            return;
        }
        let lands = self.world.calls[&call].lands;
        let draw = self.dice.below(100);
        if draw < if self.benign { 10 } else { 25 } {
            let later = self.world.land_late && !lands && self.dice.chance(50);
            self.world.calls.insert(call, Truth { sent: Sent::TimedOut, lands, later });
            let category = *self.dice.pick(&[
                ErrorCategory::Timeout,
                ErrorCategory::Timeout,
                ErrorCategory::Unavailable,
                ErrorCategory::Protocol,
            ]);
            return self.report(
                call,
                ReportedOutcome::Unknown {
                    category,
                    error: json!({"message": "no answer"}),
                    retry_after_ms: None,
                },
            );
        }
        if run && self.dice.chance(8) {
            return self.ask(call, lands);
        }
        self.world.calls.insert(call, Truth { sent: Sent::Answered, lands, later: false });
        let read_only = run && self.execution().rules(call.step).read_only && draw < 60;
        let ended = if lands || read_only { self.success() } else { self.failure() };
        self.report(call, ended);
    }

    /// The tool asks a question: before it has an effect, or in the middle of a task.
    fn ask(&mut self, call: CallId, lands: bool) {
        let sent = if lands { Sent::TimedOut } else { Sent::Answered };
        self.world.calls.insert(call, Truth { sent, lands, later: false });
        self.report(call, ReportedOutcome::InputRequired { question: question(), may_have_run: lands });
    }

    /// An agent records an action, a decision or a manual undo.
    pub(super) fn put_on_record(&mut self) {
        let steps: Vec<StepNo> = self.execution().step_numbers().collect();
        let no = *self.dice.pick(&steps);
        let (id, about) = (self.id(no), self.dice.chance(50));
        let facts =
            ActionFacts { entity: Some("file".into()), confidence: Some(0.5), ..ActionFacts::default() };
        match self.dice.below(6) {
            0 => drop(self.give(&Command::RecordAction {
                step: about.then_some(id),
                status: None,
                facts: facts.into(),
            })),
            1 => drop(self.decision("use the second draft")),
            2 => drop(self.decision("continue")),
            3 => drop(self.dice.chance(20) && self.decision("stop")),
            4 => drop(self.give(&undid(&id, false))),
            _ => self.undo_by_hand(no),
        }
    }

    fn decision(&mut self, words: &str) -> bool {
        let (decision, reason) = (words.to_owned(), Some("it is late".to_owned()));
        self.give(&Command::RecordDecision { decision, reason, step: None, details: Some(json!([1])) })
    }

    /// A person really undoes what may have run, and records it; this settles an agent's pending
    /// compensation.
    fn undo_by_hand(&mut self, no: StepNo) {
        let command = undid(&self.id(no), true);
        if !self.accepts(&command) {
            self.give(&command);
            return;
        }
        let (rules, step) = (self.execution().rules(no), self.execution().step(no));
        let targets = match step
            .last_compensation()
            .filter(|last| last.by_agent && last.outcome != Some(Outcome::Succeeded))
        {
            Some(last) => vec![last.attempt],
            None => step.attempts_to_undo(rules),
        };
        for attempt in targets {
            self.world.undo(self.book.execution(), no, attempt);
        }
        let last = step_calls(self.execution(), no);
        if let Some(truth) = last.and_then(|call| self.world.calls.get_mut(&call)) {
            truth.sent = Sent::Answered;
        }
        self.give(&command);
    }

    fn deliver_probe(&mut self, call: CallId) {
        let exists = self.world.stands(self.execution(), call.step, call.index);
        let ended = match self.dice.below(10) {
            0 => ReportedOutcome::Unknown {
                category: ErrorCategory::Timeout,
                error: Value::Null,
                retry_after_ms: None,
            },
            1 => ReportedOutcome::Succeeded { output: json!({ "unheard": "of" }) },
            _ => ReportedOutcome::Succeeded { output: json!({ "exists": exists }) },
        };
        self.report(call, ended);
    }

    fn success(&mut self) -> ReportedOutcome {
        ReportedOutcome::Succeeded {
            output: if self.dice.chance(15) { Value::Null } else { json!({ "x": 1 }) },
        }
    }

    fn failure(&mut self) -> ReportedOutcome {
        let usual = [ErrorCategory::ToolError, ErrorCategory::Unavailable];
        let common = self.dice.chance(70);
        let category = *self.dice.pick(if common { &usual } else { ErrorCategory::ALL });
        // Sometimes a server asks for a longer wait than the plan allows.
        let retry_after_ms = (category == ErrorCategory::RateLimited).then_some(20_000);
        ReportedOutcome::Failed { category, error: json!({"message": "no"}), unsent: false, retry_after_ms }
    }

    /// A late answer to an abandoned call; sometimes a repeated one.
    pub(super) fn late(&mut self) {
        let open = open_calls(self.execution());
        let repeat = self.dice.chance(20);
        let given_up = |(call, truth): (&CallId, &Truth)| {
            let fits = match truth.sent {
                Sent::Never => false,
                Sent::Answered => repeat,
                Sent::Out | Sent::TimedOut => !open.contains(call),
            };
            (fits && call.kind != CallKind::Probe && self.known(*call)).then_some(*call)
        };
        let calls: Vec<CallId> = self.world.calls.iter().filter_map(given_up).collect();
        let Some(call) = self.dice.any(&calls) else { return };
        let Truth { sent, mut lands, later } = self.world.calls[&call];
        if later {
            self.world.land(self.book.execution(), call);
            lands = true;
        }
        self.world.calls.insert(call, Truth { sent: Sent::Answered, lands, later: false });
        let ended =
            if lands { ReportedOutcome::Succeeded { output: json!({"x": 2}) } } else { self.failure() };
        let mark = self.book.entries.len();
        self.give(&Command::ReportOutcome { epoch: Epoch(0), call, outcome: ended });
        // A process that has only a prefix of the journal may not have the earlier answer.
        let repeated = sent == Sent::Answered && !self.benign;
        let read_only = self.execution().rules(call.step).read_only;
        assert!(
            !repeated || read_only || self.book.entries.len() == mark,
            "a repeated answer appends nothing"
        );
    }

    /// True if the journal has the call: in a fork it may be shorter than what the world has seen.
    fn known(&self, call: CallId) -> bool {
        let step = self.execution().step(call.step);
        match call.kind {
            CallKind::Run | CallKind::Probe => (call.index as usize) < step.attempts.len(),
            CallKind::Compensation => (call.index as usize) < step.compensations.len(),
        }
    }

    pub(super) fn agent(&mut self) {
        let Some(call) = self.dice.any(&open_agents(self.execution())) else { return };
        let step = Some(self.id(call.step));
        if call.kind == CallKind::Run && self.dice.chance(30) {
            self.give(&record(&step, AgentReport::Started));
            return;
        }
        if !self.world.calls.contains_key(&call) {
            let lands = self.dice.chance(75);
            if lands {
                self.world.land(self.book.execution(), call);
            }
            self.world.calls.insert(call, Truth { sent: Sent::Out, lands, later: false });
            if !self.benign && self.dice.chance(30) {
                return;
            }
        }
        self.tell(call);
    }

    fn tell(&mut self, call: CallId) {
        let lands = self.world.calls[&call].lands;
        self.world.calls.insert(call, Truth { sent: Sent::Answered, lands, later: false });
        let report = match (lands, call.kind) {
            (true, CallKind::Compensation) => AgentReport::Compensated { output: None },
            (true, CallKind::Run | CallKind::Probe) => {
                AgentReport::Succeeded { output: Some(json!({"x": 3})) }
            }
            (false, _) => AgentReport::Failed { reason: None, category: ErrorCategory::ToolError },
        };
        self.give(&record(&Some(self.id(call.step)), report));
    }

    /// An agent reports on a call that was recorded as unknown.
    pub(super) fn agent_late(&mut self) {
        let lost = |(call, truth): (&CallId, &Truth)| {
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
            (newest && truth.sent == Sent::Out).then_some(*call)
        };
        let calls: Vec<CallId> = self.world.calls.iter().filter_map(lost).collect();
        if let Some(call) = self.dice.any(&calls) {
            self.tell(call);
        }
    }

    pub(super) fn person(&mut self) -> bool {
        let asked = questions(self.execution());
        let for_agents = self.dice.chance(15);
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
        let question = *self.dice.pick(&asked);
        let step = question.step.map(|no| self.id(no));
        match question.subject {
            QuestionSubject::PlanApproval | QuestionSubject::UndoApproval | QuestionSubject::StepApproval => {
                let reason = None;
                let yes = self.dice.chance(70);
                self.give(&if yes {
                    Command::Approve { step, reason }
                } else {
                    Command::Reject { step, reason }
                })
            }
            QuestionSubject::ToolQuestion if self.dice.chance(60) => {
                let step = step.expect("a tool asks for a step");
                let (answer, output) = (StepAnswer::Retry, Some(reply()));
                self.give(&Command::Decide {
                    step,
                    answer,
                    reason: None,
                    output,
                    arguments: None,
                    approves: true,
                })
            }
            QuestionSubject::ToolQuestion
            | QuestionSubject::Failure
            | QuestionSubject::Unknown
            | QuestionSubject::FailedUndo
            | QuestionSubject::AgentWork
            | QuestionSubject::AgentUndo => {
                let answer = *self.dice.pick(&question.answers);
                self.answer(question.step.expect("an answer is about a step"), answer)
            }
        }
    }

    /// The answer as a command: sometimes with corrected arguments, or by a caller who may not approve.
    fn answered(&mut self, no: StepNo, answer: StepAnswer) -> Command {
        let (step, approves) = (self.id(no), self.dice.chance(80));
        let plain = Command::Decide { step, answer, reason: None, output: None, arguments: None, approves };
        let mut corrected = plain.clone();
        if let Command::Decide { arguments, .. } = &mut corrected {
            *arguments = Some(json!({ "path": "corrected" }));
        }
        if self.dice.chance(20) && self.accepts(&corrected) { corrected } else { plain }
    }

    /// Answers a question, mostly truthfully.
    pub(super) fn answer(&mut self, no: StepNo, mut answer: StepAnswer) -> bool {
        let id = self.id(no);
        if !allowed_answers(self.execution(), no).contains(&answer) {
            return self.give(&decide(&id, answer));
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
        let undone = tried.map(|one| one.attempt).or(next);
        let is_statement = matches!(answer, StepAnswer::Happened | StepAnswer::DidNotHappen);
        let mut by_hand = false;
        match status {
            StepStatus::Failed | StepStatus::Unknown if is_statement && unknown => {
                let read_only = self.execution().rules(no).read_only;
                let truth = if read_only {
                    answer == StepAnswer::Happened
                } else {
                    self.world.stands(self.execution(), no, newest)
                };
                if truth != (answer == StepAnswer::Happened) {
                    if self.dice.chance(80) {
                        answer = if truth { StepAnswer::Happened } else { StepAnswer::DidNotHappen };
                    } else {
                        self.world.wrong = true;
                    }
                }
            }
            StepStatus::Failed | StepStatus::Unknown => by_hand = answer == StepAnswer::Happened,
            _ if answer == StepAnswer::Happened => {
                self.world.undo(self.book.execution(), no, undone.expect("there is an attempt to undo"));
            }
            _ => {}
        }
        let command = self.answered(no, answer);
        let accepted = self.give(&command);
        if accepted {
            coverage::see("answer", answer.as_str(), status.as_str());
        }
        if accepted && by_hand {
            self.world.by_hand(self.book.execution(), no);
        }
        accepted
    }
}

/// The step's newest compensation, if an agent has it open or its outcome is unknown.
fn step_calls(execution: &Execution, no: StepNo) -> Option<CallId> {
    let count = execution.step(no).compensations.len() as u32;
    let last = execution.step(no).last_compensation().filter(|last| last.by_agent)?;
    let waits = !matches!(last.outcome, Some(Outcome::Succeeded | Outcome::Failed));
    waits.then_some(CallId { step: no, kind: CallKind::Compensation, index: count - 1 })
}
