//! Seeded simulations of sessions: random calls, verdicts, answers, losses, closes and undos, with the invariants
//! checked at every entry, and every prefix of the journal folded again to the same state.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::Digest;
use actbook_engine::event::{ApprovalScope, CallBudget, SessionStart, StateMoment, UndoTemplate};
use actbook_engine::execution::{
    CallAnswer, CallKind, CallVerdict, Command, Execution, Phase, ReportedOutcome, SessionCall,
    SessionCommand, allowed_answers, questions,
};
use actbook_engine::id::NodeId;
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer, StepStatus};
use actbook_engine::tool_policy::ToolPolicy;
use serde_json::{Value, json};

use super::rng::SimRng;
use super::state_text;
use crate::counts::times;
use crate::harness::ExecutionHarness;
use crate::invariants::{open_agent_calls, open_calls};

const SEEDS: usize = 1_500;
const COMMANDS: usize = 80;
/// Rounds within which an unwinding must end in a benign world.
const ROUNDS: usize = 300;

/// What was seen over all seeds, so that a simulation that explores nothing fails.
type Coverage = BTreeMap<&'static str, usize>;

struct SessionSimulation<'a> {
    rng: SimRng,
    harness: ExecutionHarness,
    seen: &'a mut Coverage,
}

impl SessionSimulation<'_> {
    fn execution(&self) -> &Execution {
        self.harness.execution()
    }

    fn apply(&mut self, command: impl Into<Command>) -> bool {
        let command = command.into();
        let mark = self.harness.entries.len();
        let accepted = self.harness.apply(&command).is_ok();
        for entry in &self.harness.entries[mark..] {
            *self.seen.entry(entry.recorded.event.kind()).or_default() += 1;
        }
        self.check_status();
        if self.rng.percent_chance(10) {
            self.check_prefix();
        }
        accepted
    }

    /// An open session runs, whatever it asks.
    fn check_status(&self) {
        let execution = self.execution();
        let is_open = execution.ended.is_none() && !execution.paused && execution.phase == Phase::Forward;
        assert!(
            !is_open || execution.status() == ExecutionStatus::Running,
            "open, and {}",
            execution.status()
        );
    }

    /// Another process that folds the journal up to any entry has a state that it can go on from; up to the last
    /// one, the same state.
    fn check_prefix(&mut self) {
        let count = 1 + self.rng.below(self.harness.entries.len());
        self.harness.fork(count).execution().check_index();
        let whole = self.harness.fork(self.harness.entries.len());
        assert_eq!(state_text(whole.execution()), state_text(self.execution()), "folded again");
        let (again, here) = (&whole.execution().session, &self.execution().session);
        assert_eq!(format!("{again:?}"), format!("{here:?}"), "the session, folded again");
    }

    fn random_step(&mut self) -> Option<String> {
        let count = self.execution().steps.len();
        (count > 0).then(|| format!("c{}", 1 + self.rng.below(count)))
    }

    fn random_labels(&mut self) -> BTreeSet<String> {
        let percent = 8;
        ["private", "untrusted"]
            .into_iter()
            .filter(|_| self.rng.percent_chance(percent))
            .map(str::to_owned)
            .collect()
    }

    fn random_call(&mut self) -> SessionCommand {
        let by_agent = self.rng.percent_chance(40);
        let tool =
            (*self.rng.pick(if by_agent { &["client/write", "client/shell"] } else { &["t/x", "t/y"] }))
                .to_owned();
        let pin = self.rng.percent_chance(10).then(|| Digest::of(b"other"));
        let policy = ToolPolicy {
            pin: pin.or(Some(Digest::of(b"one"))),
            approval: self.rng.percent_chance(5),
            read_only: self.rng.percent_chance(20).then_some(true),
            ..ToolPolicy::default()
        };
        let undo = self.rng.percent_chance(50).then(|| UndoTemplate {
            tool: "t/undo".to_owned(),
            arguments: json!({ "path": "${arguments.path}" }),
            check: None,
        });
        let mut policies = BTreeMap::from([(tool.clone(), policy)]);
        if self.rng.percent_chance(10) {
            policies.insert("t/undo".to_owned(), ToolPolicy { approval: true, ..ToolPolicy::default() });
        }
        let labels = self.execution().session.as_ref().expect("a session").labels.clone();
        let verdict = match self.rng.below(10) {
            0 => CallVerdict::Refuse { error: json!({ "message": "no" }) },
            1..4 => CallVerdict::Ask,
            _ => CallVerdict::Allow,
        };
        SessionCommand::AddCall(Box::new(SessionCall {
            tool,
            arguments: json!({ "path": self.rng.pick(&["a", "b"]), "text": "${not.an.expression}" }),
            by_agent,
            node: (!by_agent).then(|| NodeId::new(*self.rng.pick(&["one", "two"]))),
            policies,
            servers: BTreeMap::new(),
            undo,
            adds: self.random_labels(),
            call: None,
            agent: None,
            client_tool: by_agent.then(|| (*self.rng.pick(&["Bash", "PowerShell"])).to_owned()),
            folder: by_agent.then(|| (*self.rng.pick(&["/a", "/b"])).to_owned()),
            secrets: self.rng.percent_chance(10).then(|| json!({ "text": "the environment variable X" })),
            matched: None,
            before: self.rng.percent_chance(20).then(|| json!({ "was": 1 })),
            labels: if self.rng.percent_chance(95) { labels } else { BTreeSet::from(["stale".to_owned()]) },
            verdict,
            rule: None,
            note: None,
            expires_at_ms: self.rng.percent_chance(70).then_some(self.harness.now_ms + 20_000),
            observed: self.rng.percent_chance(10),
        }))
    }

    fn random_outcome(&mut self) -> ReportedOutcome {
        let (category, error) = (ErrorCategory::ToolError, json!({ "message": "no" }));
        match self.rng.below(4) {
            0 => ReportedOutcome::Failed { category, error, unsent: false, retry_after_ms: None },
            1 => ReportedOutcome::Unknown { category, error, retry_after_ms: None },
            _ => ReportedOutcome::Succeeded { output: json!({ "ok": true }) },
        }
    }

    fn random_command(&mut self) -> Option<Command> {
        let step = self.random_step();
        Some(match self.rng.below(100) {
            0..35 => self.random_call().into(),
            35..55 => SessionCommand::EndCall {
                step: step?,
                outcome: self.random_outcome(),
                after: self.rng.percent_chance(20).then_some(Value::Null),
            }
            .into(),
            55..63 => {
                let session = self.rng.percent_chance(20);
                let scope = if session { ApprovalScope::Session } else { ApprovalScope::Once };
                Command::Approve { step: Some(step?), reason: None, replies_to: None, scope }
            }
            63..66 => Command::Reject { step: Some(step?), reason: None, replies_to: None },
            66..73 => SessionCommand::StartCall {
                step: step?,
                labels: self.execution().session.as_ref()?.labels.clone(),
                node: Some(NodeId::new("one")),
                before: None,
            }
            .into(),
            73..76 => SessionCommand::StopWaiting { step: step? }.into(),
            76..78 => {
                let unsent =
                    open_calls(self.execution()).into_iter().filter(|call| call.kind == CallKind::Run);
                SessionCommand::LoseCalls { node: NodeId::new("two"), unsent: unsent.collect() }.into()
            }
            78..80 => SessionCommand::ClearLabel { label: "private".to_owned(), reason: None }.into(),
            80..83 => {
                let answer = *self.rng.pick(StepAnswer::ALL);
                answer_command(step?, answer)
            }
            83 => Command::Pause { reason: None },
            84..87 => Command::Resume,
            87..91 => self.random_undo(),
            91 if self.rng.percent_chance(20) => {
                SessionCommand::Close { reason: None, idle_since: None }.into()
            }
            91 if self.rng.percent_chance(10) => Command::Cancel { reason: None },
            92 => {
                SessionCommand::KeepState { step: step?, moment: StateMoment::After, state: json!(1) }.into()
            }
            93 => Command::Approve { step: None, reason: None, replies_to: None, scope: ApprovalScope::Once },
            94 => Command::Reject { step: None, reason: None, replies_to: None },
            _ => {
                self.harness.now_ms += self.rng.below(15_000) as i64;
                return None;
            }
        })
    }

    fn random_undo(&mut self) -> Command {
        let some = self.rng.percent_chance(50);
        let steps = self.random_step().filter(|_| some).map(|step| vec![step]);
        Command::Undo { reason: None, steps, approves: self.rng.percent_chance(60) }
    }

    fn run(&mut self) {
        for _ in 0..COMMANDS {
            if let Some(command) = self.random_command() {
                self.apply(command);
            }
            if self.execution().phase == Phase::Unwind && self.execution().ended.is_none() {
                self.unwind();
            }
        }
        let session = self.execution().session.as_ref().expect("a session");
        let spent =
            session.questions.values().filter(|question| question.answer == CallAnswer::Spent).count();
        *self.seen.entry("spent yes").or_default() += spent;
    }

    /// Drives an unwinding, with failures, waits and answers, to its end.
    fn unwind(&mut self) {
        self.harness.claim(BTreeSet::new());
        for round in 0..ROUNDS {
            if self.execution().phase == Phase::Forward || self.execution().ended.is_some() {
                return;
            }
            if self.execution().paused {
                self.apply(Command::Resume);
            }
            self.unwind_step(round);
        }
        panic!("the unwinding does not end: {:?}", questions(self.execution()));
    }

    fn unwind_step(&mut self, round: usize) {
        let epoch = self.harness.epoch();
        if let Some(call) = self.rng.pick_or_none(&open_calls(self.execution())) {
            let benign = ReportedOutcome::Succeeded { output: json!({}) };
            let outcome = if round > 50 { benign } else { self.random_outcome() };
            self.apply(Command::ReportOutcome { epoch, call, outcome });
        } else if let Some(question) = questions(self.execution()).first().cloned() {
            self.answer(question.step.map(|no| self.execution().step_id(no).to_string()));
        } else if !self.end_forward_call() {
            self.harness.now_ms += 20_000;
            self.harness.drive();
        }
        if self.execution().phase == Phase::Unwind && self.rng.percent_chance(20) {
            let call = self.random_call();
            self.apply(call);
        }
        if self.execution().ended.is_none() {
            self.harness.drive();
        }
    }

    /// Answers the first question: a proposal, an unsettled call or a failed compensation.
    fn answer(&mut self, step: Option<String>) {
        let Some(step) = step else {
            let (reason, replies_to, scope) = (None, None, ApprovalScope::Once);
            self.apply(Command::Approve { step: None, reason, replies_to, scope });
            return;
        };
        let no = self.execution().plan.find_step(&step).expect("a step");
        let allowed = allowed_answers(self.execution(), no);
        assert!(!allowed.is_empty(), "a question without an answer about `{step}`");
        let answer = *self.rng.pick(&allowed);
        assert!(self.apply(answer_command(step, answer)), "offered, and refused");
    }

    /// A call of an agent's client or of a proxy that is still in flight ends; `false`: there is none, or it does not.
    fn end_forward_call(&mut self) -> bool {
        let agents = open_agent_calls(self.execution());
        let waits = agents.iter().any(|call| call.kind == CallKind::Run);
        if waits && self.rng.percent_chance(50) {
            return false;
        }
        let open = self.execution().step_numbers().find(|no| {
            let status = self.execution().step(*no).status();
            matches!(status, StepStatus::Running | StepStatus::AwaitingAgent)
        });
        let Some(no) = open else { return false };
        let (step, outcome) = (self.execution().step_id(no).to_string(), self.random_outcome());
        self.apply(SessionCommand::EndCall { step, outcome, after: None })
    }
}

fn answer_command(step: String, answer: StepAnswer) -> Command {
    Command::Decide {
        step,
        answer,
        reason: None,
        output: None,
        arguments: None,
        approves: true,
        replies_to: None,
    }
}

fn run_seed(seed: u64, seen: &mut Coverage) {
    let mut rng = SimRng::new(seed);
    let budget = rng.percent_chance(30).then(|| CallBudget { calls: Some(12), ..CallBudget::default() });
    let start = SessionStart { client: "tests".to_owned(), budget, ..SessionStart::default() };
    SessionSimulation { rng, harness: ExecutionHarness::open_session(start), seen }.run();
}

#[test]
fn random_sessions_keep_invariants_and_every_prefix_folds() {
    let mut seen = Coverage::new();
    for seed in 0..times("ACTBOOK_SESSION_SEEDS", SEEDS) as u64 {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_seed(seed, &mut seen)));
        assert!(run.is_ok(), "seed {seed} violates an invariant");
    }
    let expected = [
        "step_added.2",
        "attempt_started.2",
        "approval_asked.1",
        "step_failed.1",
        "step_approved.2",
        "step_rejected.1",
        "yes_spent.1",
        "labels_changed.1",
        "state_kept.1",
        "closed.1",
        "unwind_started.3",
        "unwind_ended.1",
        "compensation_started.1",
        "compensation_ended.1",
        "undo_asked.2",
        "unwind_proposed.2",
        "execution_ended.1",
        "late_answer.1",
        "decided.2",
        "spent yes",
    ];
    let unseen: Vec<_> = expected.iter().filter(|kind| !seen.contains_key(*kind)).collect();
    assert!(unseen.is_empty(), "never reached: {unseen:?} of {seen:?}");
}
