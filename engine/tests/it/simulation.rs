//! Seeded simulations: random plans, outcomes, late answers, crashes and commands, with the invariants
//! checked at every entry, and every prefix of the journal resumed by another process to an end.
//!
//! `ACTBOOK_SEEDS=n` runs n simulations, from `ACTBOOK_FIRST_SEED` on; `ACTBOOK_SEED=n` runs one and prints
//! it.

mod actors;
mod coverage;
mod plans;
mod rng;
mod sessions;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::{ApprovalScope, Event};
use actbook_engine::execution::{
    ActionFacts, AgentReport, CallKind, Command, Execution, ExecutionState, Phase, Question, QuestionSubject,
    due, questions,
};
use actbook_engine::id::{Epoch, Position, StepNo};
use actbook_engine::policy::{EndStatus, ErrorCategory, ExecutionStatus, Outcome, StepAnswer};
use serde_json::{Value, json};

use crate::counts::times;
use crate::harness::{ExecutionHarness, TRACE, trace};
use crate::invariants::{open_agent_calls, open_calls};
use rng::SimRng;
use world::{CallFate, CallTruth, World};

const SEEDS: usize = 2_000;
/// Enough stories for every counter to be seen.
const SEEDS_FOR_COVERAGE: u64 = 1_000;
const COMMANDS: usize = 100;
/// Rounds within which a benign world must bring any execution to its end.
const ROUNDS: usize = 250;
/// After this many rounds the person in `settle` cancels the execution.
const ROUNDS_BEFORE_CANCEL: usize = 70;

struct Simulation {
    rng: SimRng,
    harness: ExecutionHarness,
    world: World,
    benign: bool,
    /// Percent of the commands after which prefixes are resumed.
    prefix_percent: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        let plan = Arc::new(plans::random_plan(&mut rng));
        trace(|| plan.document.clone());
        let late = seed % 4 == 3;
        let world =
            World { down: rng.percent_chance(6), inconsistent: late, late_effects: late, ..World::default() };
        let policies = plans::random_policies(&mut rng);
        Self {
            rng,
            harness: ExecutionHarness::open(plan, None, &policies),
            world,
            benign: false,
            prefix_percent: 15,
        }
    }

    fn execution(&self) -> &Execution {
        self.harness.execution()
    }

    fn id(&self, no: StepNo) -> String {
        self.execution().plan.step(no).id.to_string()
    }

    fn accepts(&self, command: &Command) -> bool {
        self.harness.decide(command).is_ok()
    }

    /// Applies the command and checks its entries; false if it was refused.
    fn apply(&mut self, command: &Command) -> bool {
        let mark = self.harness.entries.len();
        if let Err(refusal) = self.harness.apply(command) {
            coverage::count("refused", coverage::command_name(command), "");
            assert!(!refusal.to_string().is_empty(), "a refusal has a message");
            if self.rng.percent_chance(20) && self.execution().ended.is_none() {
                let alternative = self.candidates().iter().any(|other| self.accepts(other));
                assert!(alternative, "refused, and no other command is accepted: {command:?}");
            }
            return false;
        }
        coverage::count("accepted", coverage::command_name(command), "");
        coverage::count_state(self.execution());
        if command.epoch().is_some() || matches!(command, Command::Claim { .. }) {
            self.check_no_unwind_over_a_question(mark);
        }
        for at in mark..self.harness.entries.len() {
            coverage::count_event(&self.harness.entries[at].recorded.event);
            self.check_against_world(at);
        }
        if self.rng.percent_chance(self.prefix_percent) {
            self.resume_prefixes(mark);
        }
        true
    }

    /// While a tool's question is open, nothing is undone automatically.
    fn check_no_unwind_over_a_question(&self, mark: usize) {
        let unwinds = |event: &Event| matches!(event, Event::UnwindStarted(_) | Event::UnwindProposed(_));
        for at in
            (mark..self.harness.entries.len()).filter(|at| unwinds(&self.harness.entries[*at].recorded.event))
        {
            let before = self.harness.fork(at);
            let asks = before.execution().steps.iter().any(|step| step.open_question().is_some());
            let automatic = !before.execution().undo_requested;
            assert!(!(asks && automatic), "unwound automatically over a tool's question");
        }
    }

    /// A compensated execution must have no remaining effect that the journal knows of.
    fn check_against_world(&self, at: usize) {
        let Event::ExecutionEnded(event) = &self.harness.entries[at].recorded.event else { return };
        if event.status != EndStatus::Compensated {
            return;
        }
        let effects = &self.world.effects;
        assert!(
            self.world.inconsistent || effects.is_empty(),
            "compensated, and yet these effects remain: {effects:?}"
        );
        for no in self.execution().step_numbers() {
            let known = |at: &usize| {
                let attempt = &self.execution().step(no).attempts[*at];
                attempt.outcome == Some(Outcome::Succeeded)
                    || attempt.late_outcome == Some(Outcome::Succeeded)
            };
            let mut attempts = (0..self.execution().step(no).attempts.len()).filter(known);
            let remains = attempts.any(|attempt| self.world.has_effect(self.execution(), no, attempt as u32));
            assert!(!remains, "compensated, though the journal knows of an effect of `{}`", self.id(no));
        }
    }

    fn fork(&mut self, count: usize) -> Self {
        let harness = self.harness.fork(count);
        Self { rng: self.rng.fork(), harness, world: self.world.clone(), benign: true, prefix_percent: 0 }
    }

    /// Another process that finds only the first entries of a command brings the execution to an end; one
    /// that finds them all has the same state as the process that wrote them.
    fn resume_prefixes(&mut self, mark: usize) {
        let whole = self.harness.entries.len();
        assert_eq!(
            state_text(self.harness.fork(whole).execution()),
            state_text(self.execution()),
            "the folded state differs from the live state"
        );
        for count in mark..=whole {
            let lines = TRACE.with_borrow(|trace| trace.as_ref().map(Vec::len));
            trace(|| format!("-- another process finds {count} entries"));
            self.fork(count).settle();
            TRACE.with_borrow_mut(|trace| {
                if let (Some(trace), Some(lines)) = (trace.as_mut(), lines) {
                    trace.truncate(lines);
                }
            });
        }
    }

    /// The driver continues; from each prefix it would have continued in the same way.
    fn drive(&mut self) {
        let mark = self.harness.entries.len();
        let command = Command::Drive { epoch: self.harness.epoch() };
        self.apply(&command);
        if self.prefix_percent > 0 && self.rng.percent_chance(20) {
            for count in mark..self.harness.entries.len() {
                // A compensation that cannot be bound is one decision of two entries.
                if matches!(&self.harness.entries[count].recorded.event, Event::CompensationEnded(one) if one.unsent)
                {
                    continue;
                }
                let mut other = self.harness.fork(count);
                other.drive();
                let events = |harness: &ExecutionHarness| -> Vec<Event> {
                    harness.entries[count..].iter().map(|entry| entry.recorded.event.clone()).collect()
                };
                assert_eq!(events(&other), events(&self.harness), "a prefix continues differently");
            }
        }
        self.check_liveness();
    }

    /// The execution has ended, is paused, has a call in flight, has a wake-up time, or asks a question.
    fn check_liveness(&self) {
        let execution = self.execution();
        if execution.ended.is_some() || execution.paused {
            return;
        }
        let due = due(execution);
        assert!(self.harness.next_events().is_empty(), "the driver stopped though events follow");
        match due.wake_at {
            Some(at) => {
                assert!(at > self.harness.now_ms, "the wake-up time has passed");
                assert!(!self.harness.next_events_at(at).is_empty(), "nothing follows at the wake-up time");
            }
            None => {
                let later = self.harness.next_events_at(self.harness.now_ms + 1_000_000);
                assert!(later.is_empty(), "{later:?} follows later, and there is no wake-up time");
            }
        }
        let asked = questions(execution);
        self.check_answers_accepted(&asked);
        let idle = due.calls.is_empty() && due.wake_at.is_none();
        assert!(!idle || !asked.is_empty(), "idle without a question");
        assert_eq!(
            idle && !asked.is_empty(),
            idle && execution.status() == ExecutionStatus::Blocked,
            "blocked means idle with a question"
        );
        if execution.status() == ExecutionStatus::Blocked {
            assert!(due.calls.is_empty() && !asked.is_empty(), "blocked, and yet a call is in flight");
        }
        let agents = open_agent_calls(execution);
        assert!(execution.stop.is_none() || agents.is_empty(), "a stop waits for an agent");
        let unwinding = execution.phase == Phase::Unwind;
        assert!(
            !unwinding || agents.iter().all(|call| call.kind == CallKind::Compensation),
            "unwinding waits for an agent"
        );
    }

    /// Every offered answer is accepted as a reply to its question, and refused as a reply to another one.
    fn check_answers_accepted(&self, asked: &[Question]) {
        for question in asked {
            let step = question.step.map(|no| self.id(no));
            let taken = |command: Command| {
                assert!(self.accepts(&command), "offered and refused: {command:?}");
                let Some(asked_at) = question.asked_at else { return };
                let reply = as_reply(command.clone(), asked_at).expect("an answer to a question");
                assert!(self.accepts(&reply), "offered and refused: {reply:?}");
                let stale = as_reply(command, Position(asked_at.0 - 1)).expect("an answer to a question");
                assert!(!self.accepts(&stale), "stale and accepted: {stale:?}");
            };
            match question.subject {
                QuestionSubject::PlanApproval
                | QuestionSubject::UndoApproval
                | QuestionSubject::StepApproval => {
                    taken(approve(step.clone()));
                    taken(reject(step.clone()));
                }
                QuestionSubject::AgentWork => {
                    taken(record_report(&step, AgentReport::Succeeded { output: None }))
                }
                QuestionSubject::AgentUndo => {
                    taken(record_report(&step, AgentReport::Compensated { output: None }))
                }
                QuestionSubject::ToolQuestion => {
                    let step = step.clone().expect("a tool asks for a step");
                    taken(decide_with_reply(step, question.asked_at));
                }
                QuestionSubject::Failure | QuestionSubject::Unknown | QuestionSubject::FailedUndo => {
                    assert!(!question.answers.is_empty())
                }
            }
            for answer in &question.answers {
                taken(decide(step.as_deref().expect("an answer is about a step"), *answer));
            }
        }
    }

    /// The driver crashes and another takes over, sometimes with proof of which calls were never sent.
    fn crash(&mut self) {
        let proof = self.rng.percent_chance(60);
        let mut proven = BTreeSet::new();
        for call in open_calls(self.execution()) {
            if let std::collections::btree_map::Entry::Vacant(truth) = self.world.calls.entry(call) {
                truth.insert(CallTruth {
                    sent: CallFate::NotSent,
                    takes_effect: false,
                    takes_effect_late: false,
                });
                if proof {
                    proven.insert(call);
                }
            }
        }
        let node = actbook_engine::id::NodeId::new("s");
        self.apply(&Command::Claim { node, expected_epoch: self.execution().epoch, unsent: proven });
        self.check_liveness();
    }

    fn candidates(&self) -> Vec<Command> {
        let mut all = vec![
            Command::Pause { reason: None },
            Command::Resume,
            Command::Cancel { reason: None },
            Command::Undo { reason: None, steps: None, approves: true },
            approve(None),
            reject(None),
        ];
        for no in self.execution().step_numbers() {
            let step = Some(self.id(no));
            all.push(approve(step.clone()));
            all.push(reject(step.clone()));
            all.extend(StepAnswer::ALL.iter().map(|answer| decide(&self.id(no), *answer)));
            let failed = AgentReport::Failed { reason: None, category: ErrorCategory::ToolError };
            all.push(record_undo(&self.id(no), true));
            let reports = [
                AgentReport::Started,
                AgentReport::Succeeded { output: None },
                failed,
                AgentReport::Compensated { output: None },
            ];
            all.extend(reports.into_iter().map(|report| record_report(&step, report)));
        }
        all
    }

    /// A random command, mostly refused; those that would soon end the execution are rare.
    fn random_command(&mut self) {
        let candidates = self.candidates();
        let command = self.rng.pick(&candidates).clone();
        match &command {
            Command::Decide { step, answer, .. } => {
                let no = self.execution().plan.find_step(step).expect("a step of the plan");
                self.answer_question(no, *answer);
            }
            Command::RecordReport { report: AgentReport::Started, .. } => drop(self.apply(&command)),
            // An accepted report without a matching effect would be untrue; refused ones are tried.
            Command::RecordReport { .. } | Command::RecordCompensation { .. } if self.accepts(&command) => {}
            Command::Cancel { .. } | Command::Undo { .. } if !self.rng.percent_chance(10) => {}
            _ => drop(self.apply(&command)),
        }
    }

    fn advance_time(&mut self) {
        match due(self.execution()).wake_at {
            Some(at) if self.rng.percent_chance(50) => self.harness.now_ms = self.harness.now_ms.max(at),
            _ => self.harness.now_ms += self.rng.below(3_000) as i64,
        }
    }

    /// Continues in a benign world, in which the execution must end.
    fn settle(mut self) {
        self.crash();
        if self.execution().paused {
            self.apply(&Command::Resume);
        }
        for round in 0..ROUNDS {
            self.drive();
            if self.execution().ended.is_some() {
                return;
            }
            let calls = open_calls(self.execution());
            if let Some(call) = self.rng.pick_or_none(&calls) {
                self.deliver(call);
            } else if round > ROUNDS_BEFORE_CANCEL && self.accepts(&Command::Cancel { reason: None }) {
                self.apply(&Command::Cancel { reason: None });
            } else if round > ROUNDS_BEFORE_CANCEL && self.abandon() {
            } else if !open_agent_calls(self.execution()).is_empty() && self.rng.percent_chance(60) {
                self.agent_acts();
            } else if !self.person_answers() {
                self.advance_time();
            }
        }
        panic!("the execution does not end");
    }

    fn abandon(&mut self) -> bool {
        let asked = questions(self.execution());
        let gives_up = asked.iter().find(|one| one.answers.contains(&StepAnswer::Abandon));
        let Some(no) = gives_up.and_then(|one| one.step) else { return false };
        let id = self.id(no);
        self.apply(&decide(&id, StepAnswer::Abandon))
    }

    fn run(&mut self) {
        self.crash();
        for _ in 0..COMMANDS {
            if self.execution().ended.is_some() && self.rng.percent_chance(8) {
                break;
            }
            self.random_action();
            if self.world.down && self.rng.percent_chance(50) {
                for _ in 0..3 {
                    self.drive();
                    self.deliver_any();
                }
            }
        }
        let whole = self.harness.entries.len();
        self.fork(whole).settle();
        if self.rng.percent_chance(50) && self.execution().ended.is_some() {
            self.apply(&reject(None));
            self.apply(&Command::ErasePayloads);
            assert!(
                !self.accepts(&Command::Undo { reason: None, steps: None, approves: true }),
                "an undo is accepted after its payloads were erased"
            );
        }
    }

    fn deliver_any(&mut self) {
        let calls = open_calls(self.execution());
        if let Some(call) = self.rng.pick_or_none(&calls) {
            self.deliver(call);
        }
    }

    /// The driver's lease lapsed, so it reclaims the execution.
    fn reclaim(&mut self) {
        let (open, epoch) = (open_calls(self.execution()), self.harness.epoch());
        let command = self.harness.reclaim_command();
        assert!(self.apply(&command), "the driver may reclaim");
        assert_eq!(open_calls(self.execution()), open, "a reclaim changes no open call");
        assert_eq!(self.harness.epoch() != epoch, self.execution().ended.is_none());
        let entries = self.harness.entries.len();
        assert!(self.apply(&command), "a repeated reclaim is accepted");
        assert_eq!(self.harness.entries.len(), entries, "a repeated reclaim appends nothing");
    }

    fn random_action(&mut self) {
        match self.rng.below(100) {
            0..30 => self.drive(),
            30..58 => self.deliver_any(),
            58..66 => drop(self.person_answers()),
            66..71 => self.agent_acts(),
            71..77 => self.deliver_late(),
            77..79 => self.agent_reports_late(),
            79..81 => self.crash(),
            81..83 => drop(self.apply(&Command::Pause { reason: None })),
            83..87 => drop(self.apply(&Command::Resume)),
            87 => {
                let approves = self.rng.percent_chance(30);
                self.apply(&Command::Undo { reason: None, steps: None, approves });
            }
            88 => drop(
                self.rng.percent_chance(30) && self.apply(&Command::Cancel { reason: Some("enough".into()) }),
            ),
            89 if self.rng.percent_chance(50) => self.reclaim(),
            89 => {
                let stale = Command::Drive { epoch: Epoch(self.harness.epoch().0 - 1) };
                assert!(!self.apply(&stale), "a stale driver may drive");
            }
            90 if self.rng.percent_chance(50) => drop(self.apply(&move_pin())),
            90 => drop(self.apply(&Command::AdoptToolset { toolset: Digest::of(b"there") })),
            91 => drop(self.execution().ended.is_none() && self.apply(&Command::ErasePayloads)),
            92..95 => self.advance_time(),
            95 => self.record_side_action(),
            _ => self.random_command(),
        }
    }
}

fn move_pin() -> Command {
    Command::MovePin { tool: "t/run".to_owned(), digest: Digest::of(b"another") }
}

fn decide(step: &str, answer: StepAnswer) -> Command {
    Command::Decide {
        step: step.to_owned(),
        answer,
        reason: None,
        output: None,
        arguments: None,
        approves: true,
        replies_to: None,
    }
}

/// Answers the question of the step's tool.
fn decide_with_reply(step: String, replies_to: Option<Position>) -> Command {
    let (answer, output) = (StepAnswer::Retry, Some(reply()));
    let (reason, arguments) = (None, None);
    Command::Decide { step, answer, reason, output, arguments, approves: true, replies_to }
}

fn approve(step: Option<String>) -> Command {
    Command::Approve { step, reason: None, replies_to: None, scope: ApprovalScope::Once }
}

fn reject(step: Option<String>) -> Command {
    Command::Reject { step, reason: None, replies_to: None }
}

/// The command as a reply to the question that the entry at `asked_at` asked; `None` if it answers no question.
fn as_reply(mut command: Command, asked_at: Position) -> Option<Command> {
    match &mut command {
        Command::Approve { replies_to, .. }
        | Command::Reject { replies_to, .. }
        | Command::Decide { replies_to, .. } => *replies_to = Some(asked_at),
        _ => return None,
    }
    Some(command)
}

fn record_report(step: &Option<String>, report: AgentReport) -> Command {
    let step = step.clone().expect("a report is about a step");
    Command::RecordReport { step, report, facts: Box::default(), by: None, replies_to: None }
}

fn record_undo(step: &str, done: bool) -> Command {
    let facts = ActionFacts { action_taken: Some("took it back".into()), ..ActionFacts::default() };
    Command::RecordCompensation { step: step.to_owned(), done, facts: facts.into() }
}

/// The question that tools ask in these simulations.
fn question() -> Value {
    json!({ "message": "which?", "asks": "q" })
}

fn reply() -> Value {
    json!({ "n": 1 })
}

/// The whole state of an execution except its plan, as text.
fn state_text(execution: &Execution) -> String {
    let ExecutionState { steps, epoch, paused, stop, phase, ended, gate, proposal, undo_requested, .. } =
        &**execution;
    let ExecutionState {
        calls_made,
        past_point_of_no_return,
        active_ms,
        last_entry_at_ms,
        position,
        version,
        ended_at_ms,
        toolset,
        erased,
        annotations,
        ..
    } = &**execution;
    format!(
        "{steps:?} {epoch:?} {paused} {stop:?} {phase:?} {ended:?} {gate:?} {proposal:?} {undo_requested} \
         {calls_made} {past_point_of_no_return} {active_ms} {last_entry_at_ms} {position:?} {version} \
         {ended_at_ms:?} {toolset:?} {erased} {annotations:?}"
    )
}

/// Runs the simulation of a seed; returns the violated invariant, or `None`.
fn run_seed(seed: u64) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed).run()));
    run.err().map(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic".to_owned(), |text| text.to_string()),
    })
}

/// Runs the simulation of a seed with a trace, and returns result and trace as text.
fn traced_run(seed: u64) -> String {
    TRACE.set(Some(Vec::new()));
    let violation = run_seed(seed);
    let lines = TRACE.take().unwrap_or_default();
    format!("seed {seed}: {}\n{}", violation.as_deref().unwrap_or("all invariants hold"), lines.join("\n"))
}

#[test]
fn random_executions_keep_invariants_and_every_prefix_resumes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ACTBOOK_SEED") {
        eprintln!("{}", traced_run(seed));
        assert_eq!(run_seed(seed), None);
        return;
    }
    let seeds = times("ACTBOOK_SEEDS", SEEDS) as u64;
    let first = number("ACTBOOK_FIRST_SEED").unwrap_or(0);
    let broken: Vec<(u64, String)> =
        (first..first + seeds).filter_map(|seed| Some((seed, run_seed(seed)?))).collect();
    for (seed, violation) in broken.iter().take(40) {
        eprintln!("seed {seed}: {}", violation.lines().next().unwrap_or_default());
    }
    if let Some((seed, _)) = broken.first() {
        panic!(
            "{} of {seeds} simulations violate an invariant; the first:\n{}",
            broken.len(),
            traced_run(*seed)
        );
    }
    let unseen = coverage::report_unseen();
    assert!(seeds < SEEDS_FOR_COVERAGE || unseen.is_empty(), "never reached: {unseen:?}");
}
