//! Seeded simulations: random plans, outcomes, late answers, crashes and commands, with the invariants
//! checked at every entry, and every prefix of the journal resumed by another process to an end.
//!
//! `ACTBOOK_SEEDS=n` runs n simulations, from `ACTBOOK_FIRST_SEED` on; `ACTBOOK_SEED=n` runs one and prints
//! it.

mod actors;
mod coverage;
mod dice;
mod plans;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::Event;
use actbook_engine::execution::{
    ActionFacts, AgentReport, CallKind, Command, Execution, Phase, Question, QuestionSubject, due, questions,
};
use actbook_engine::id::{Epoch, StepNo};
use actbook_engine::policy::{EndStatus, ErrorCategory, ExecutionStatus, Outcome, StepAnswer};
use serde_json::{Value, json};

use crate::book::{Book, TRACE, trace};
use crate::counts::times;
use crate::laws::{open_agents, open_calls};
use dice::Dice;
use world::{Sent, Truth, World};

const SEEDS: usize = 2_000;
/// Enough stories for every counter to be seen.
const SEEDS_FOR_COVERAGE: u64 = 1_000;
const COMMANDS: usize = 100;
/// Rounds within which a benign world must bring any execution to its end.
const ROUNDS: usize = 250;
/// After this many rounds the person in `settle` cancels the execution.
const PATIENCE: usize = 70;

struct Sim {
    dice: Dice,
    book: Book,
    world: World,
    benign: bool,
    /// Percent of the commands after which prefixes are resumed.
    prefixes: usize,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut rng = Dice::new(seed);
        let plan = Arc::new(plans::plan(&mut rng));
        trace(|| plan.document.clone());
        let late = seed % 4 == 3;
        let world = World { down: rng.chance(6), wrong: late, land_late: late, ..World::default() };
        let policies = plans::terms(&mut rng);
        Self { dice: rng, book: Book::open(plan, None, &policies), world, benign: false, prefixes: 15 }
    }

    fn execution(&self) -> &Execution {
        self.book.execution()
    }

    fn id(&self, no: StepNo) -> String {
        self.execution().plan.step(no).id.to_string()
    }

    fn accepts(&self, command: &Command) -> bool {
        self.book.decide(command).is_ok()
    }

    /// Applies the command and checks its entries; false if it was refused.
    fn give(&mut self, command: &Command) -> bool {
        let mark = self.book.entries.len();
        if let Err(refusal) = self.book.ask(command) {
            coverage::see("refused", coverage::name(command), "");
            assert!(
                !refusal.cure.is_empty() && !refusal.message.is_empty(),
                "a refusal has a message and a cure"
            );
            if self.dice.chance(20) && self.execution().ended.is_none() {
                let alternative = self.candidates().iter().any(|other| self.accepts(other));
                assert!(alternative, "refused, and no other command is accepted: {command:?}");
            }
            return false;
        }
        coverage::see("accepted", coverage::name(command), "");
        coverage::state(self.execution());
        if command.epoch().is_some() || matches!(command, Command::Claim { .. }) {
            self.nothing_unwound_over_a_question(mark);
        }
        for at in mark..self.book.entries.len() {
            coverage::event(&self.book.entries[at].recorded.event);
            self.hold_against_the_world(at);
        }
        if self.dice.chance(self.prefixes) {
            self.resume_prefixes(mark);
        }
        true
    }

    /// While a tool's question is open, nothing is undone automatically.
    fn nothing_unwound_over_a_question(&self, mark: usize) {
        let unwinds = |event: &Event| matches!(event, Event::UnwindStarted(_) | Event::UnwindProposed(_));
        for at in (mark..self.book.entries.len()).filter(|at| unwinds(&self.book.entries[*at].recorded.event))
        {
            let before = self.book.fork(at);
            let asks = before.execution().steps.iter().any(|step| step.open_question().is_some());
            let automatic = !before.execution().undo_requested;
            assert!(!(asks && automatic), "unwound automatically over a tool's question");
        }
    }

    /// A compensated execution must have no remaining effect that the journal knows of.
    fn hold_against_the_world(&self, at: usize) {
        let Event::ExecutionEnded(event) = &self.book.entries[at].recorded.event else { return };
        if event.status != EndStatus::Compensated {
            return;
        }
        let effects = &self.world.effects;
        assert!(
            self.world.wrong || effects.is_empty(),
            "compensated, and yet these effects remain: {effects:?}"
        );
        for no in self.execution().step_numbers() {
            let known = |at: &usize| {
                let attempt = &self.execution().step(no).attempts[*at];
                attempt.outcome == Some(Outcome::Succeeded)
                    || attempt.late_outcome == Some(Outcome::Succeeded)
            };
            let mut attempts = (0..self.execution().step(no).attempts.len()).filter(known);
            let remains = attempts.any(|attempt| self.world.stands(self.execution(), no, attempt as u32));
            assert!(!remains, "compensated, though the journal knows of an effect of `{}`", self.id(no));
        }
    }

    fn fork(&mut self, count: usize) -> Self {
        let harness = self.book.fork(count);
        Self { dice: self.dice.fork(), book: harness, world: self.world.clone(), benign: true, prefixes: 0 }
    }

    /// Another process that finds only the first entries of a command brings the execution to an end; one
    /// that finds them all has the same state as the process that wrote them.
    fn resume_prefixes(&mut self, mark: usize) {
        let whole = self.book.entries.len();
        assert_eq!(
            story(self.book.fork(whole).execution()),
            story(self.execution()),
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
        let mark = self.book.entries.len();
        let command = Command::Drive { epoch: self.book.epoch() };
        self.give(&command);
        if self.prefixes > 0 && self.dice.chance(20) {
            for count in mark..self.book.entries.len() {
                // A compensation that cannot be bound is one decision of two entries.
                if matches!(&self.book.entries[count].recorded.event, Event::CompensationEnded(one) if one.unsent)
                {
                    continue;
                }
                let mut other = self.book.fork(count);
                other.drive();
                let events = |harness: &Book| -> Vec<Event> {
                    harness.entries[count..].iter().map(|entry| entry.recorded.event.clone()).collect()
                };
                assert_eq!(events(&other), events(&self.book), "a prefix continues differently");
            }
        }
        self.live();
    }

    /// The execution has ended, is paused, has a call in flight, has a wake-up time, or asks a question.
    fn live(&self) {
        let execution = self.execution();
        if execution.ended.is_some() || execution.paused {
            return;
        }
        let due = due(execution);
        assert!(self.book.next().is_empty(), "the driver stopped though events follow");
        match due.wake_at {
            Some(at) => {
                assert!(at > self.book.now_ms, "the wake-up time has passed");
                assert!(!self.book.next_at(at).is_empty(), "nothing follows at the wake-up time");
            }
            None => {
                let later = self.book.next_at(self.book.now_ms + 1_000_000);
                assert!(later.is_empty(), "{later:?} follows later, and there is no wake-up time");
            }
        }
        let asked = questions(execution);
        self.answerable(&asked);
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
        let agents = open_agents(execution);
        assert!(execution.stop.is_none() || agents.is_empty(), "a stop waits for an agent");
        let unwinding = execution.phase == Phase::Unwind;
        assert!(
            !unwinding || agents.iter().all(|call| call.kind == CallKind::Compensation),
            "unwinding waits for an agent"
        );
    }

    /// Every offered answer is accepted.
    fn answerable(&self, asked: &[Question]) {
        for question in asked {
            let step = question.step.map(|no| self.id(no));
            let taken =
                |command: Command| assert!(self.accepts(&command), "offered and refused: {command:?}");
            match question.subject {
                QuestionSubject::PlanApproval
                | QuestionSubject::UndoApproval
                | QuestionSubject::StepApproval => {
                    taken(Command::Approve { step: step.clone(), reason: None });
                    taken(Command::Reject { step: step.clone(), reason: None });
                }
                QuestionSubject::AgentWork => taken(record(&step, AgentReport::Succeeded { output: None })),
                QuestionSubject::AgentUndo => taken(record(&step, AgentReport::Compensated { output: None })),
                QuestionSubject::ToolQuestion => {
                    let step = step.clone().expect("a tool asks for a step");
                    taken(Command::Decide {
                        step,
                        answer: StepAnswer::Retry,
                        reason: None,
                        output: Some(reply()),
                        arguments: None,
                        approves: true,
                    });
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
        let proof = self.dice.chance(60);
        let mut proven = BTreeSet::new();
        for call in open_calls(self.execution()) {
            if let std::collections::btree_map::Entry::Vacant(truth) = self.world.calls.entry(call) {
                truth.insert(Truth { sent: Sent::Never, lands: false, later: false });
                if proof {
                    proven.insert(call);
                }
            }
        }
        let node = actbook_engine::id::NodeId::new("s");
        self.give(&Command::Claim { node, expected_epoch: self.execution().epoch, unsent: proven });
        self.live();
    }

    fn candidates(&self) -> Vec<Command> {
        let reason = || None;
        let mut all = vec![
            Command::Pause { reason: None },
            Command::Resume,
            Command::Cancel { reason: None },
            Command::Undo { reason: None, approves: true },
            Command::Approve { step: None, reason: None },
            Command::Reject { step: None, reason: None },
        ];
        for no in self.execution().step_numbers() {
            let step = Some(self.id(no));
            all.push(Command::Approve { step: step.clone(), reason: reason() });
            all.push(Command::Reject { step: step.clone(), reason: reason() });
            all.extend(StepAnswer::ALL.iter().map(|answer| decide(&self.id(no), *answer)));
            let failed = AgentReport::Failed { reason: None, category: ErrorCategory::ToolError };
            all.push(undid(&self.id(no), true));
            let reports = [
                AgentReport::Started,
                AgentReport::Succeeded { output: None },
                failed,
                AgentReport::Compensated { output: None },
            ];
            all.extend(reports.into_iter().map(|report| record(&step, report)));
        }
        all
    }

    /// A random command, mostly refused; those that would soon end the execution are rare.
    fn anything(&mut self) {
        let candidates = self.candidates();
        let command = self.dice.pick(&candidates).clone();
        match &command {
            Command::Decide { step, answer, .. } => {
                let no = self.execution().plan.find_step(step).expect("a step of the plan");
                self.answer(no, *answer);
            }
            Command::RecordReport { report: AgentReport::Started, .. } => drop(self.give(&command)),
            // An accepted report without a matching effect would be untrue; refused ones are tried.
            Command::RecordReport { .. } | Command::RecordCompensation { .. } if self.accepts(&command) => {}
            Command::Cancel { .. } | Command::Undo { .. } if !self.dice.chance(10) => {}
            _ => drop(self.give(&command)),
        }
    }

    fn time_passes(&mut self) {
        match due(self.execution()).wake_at {
            Some(at) if self.dice.chance(50) => self.book.now_ms = self.book.now_ms.max(at),
            _ => self.book.now_ms += self.dice.below(3_000) as i64,
        }
    }

    /// Continues in a benign world, in which the execution must end.
    fn settle(mut self) {
        self.crash();
        if self.execution().paused {
            self.give(&Command::Resume);
        }
        for round in 0..ROUNDS {
            self.drive();
            if self.execution().ended.is_some() {
                return;
            }
            let calls = open_calls(self.execution());
            if let Some(call) = self.dice.any(&calls) {
                self.deliver(call);
            } else if round > PATIENCE && self.accepts(&Command::Cancel { reason: None }) {
                self.give(&Command::Cancel { reason: None });
            } else if round > PATIENCE && self.give_up() {
            } else if !open_agents(self.execution()).is_empty() && self.dice.chance(60) {
                self.agent();
            } else if !self.person() {
                self.time_passes();
            }
        }
        panic!("the execution does not end");
    }

    fn give_up(&mut self) -> bool {
        let asked = questions(self.execution());
        let gives_up = asked.iter().find(|one| one.answers.contains(&StepAnswer::Abandon));
        let Some(no) = gives_up.and_then(|one| one.step) else { return false };
        let id = self.id(no);
        self.give(&decide(&id, StepAnswer::Abandon))
    }

    fn run(&mut self) {
        self.crash();
        for _ in 0..COMMANDS {
            if self.execution().ended.is_some() && self.dice.chance(8) {
                break;
            }
            self.one();
            if self.world.down && self.dice.chance(50) {
                for _ in 0..3 {
                    self.drive();
                    self.deliver_any();
                }
            }
        }
        let whole = self.book.entries.len();
        self.fork(whole).settle();
        if self.dice.chance(50) && self.execution().ended.is_some() {
            self.give(&Command::Reject { step: None, reason: None });
            self.give(&Command::ErasePayloads);
            assert!(
                !self.accepts(&Command::Undo { reason: None, approves: true }),
                "an undo is accepted after its payloads were erased"
            );
        }
    }

    fn deliver_any(&mut self) {
        let calls = open_calls(self.execution());
        if let Some(call) = self.dice.any(&calls) {
            self.deliver(call);
        }
    }

    /// The driver's lease lapsed, so it reclaims the execution.
    fn claim_again(&mut self) {
        let (open, epoch) = (open_calls(self.execution()), self.book.epoch());
        let command = self.book.claims_again();
        assert!(self.give(&command), "the driver may reclaim");
        assert_eq!(open_calls(self.execution()), open, "a reclaim changes no open call");
        assert_eq!(self.book.epoch() != epoch, self.execution().ended.is_none());
        let entries = self.book.entries.len();
        assert!(self.give(&command), "a repeated reclaim is accepted");
        assert_eq!(self.book.entries.len(), entries, "a repeated reclaim appends nothing");
    }

    fn one(&mut self) {
        match self.dice.below(100) {
            0..30 => self.drive(),
            30..58 => self.deliver_any(),
            58..66 => drop(self.person()),
            66..71 => self.agent(),
            71..77 => self.late(),
            77..79 => self.agent_late(),
            79..81 => self.crash(),
            81..83 => drop(self.give(&Command::Pause { reason: None })),
            83..87 => drop(self.give(&Command::Resume)),
            87 => {
                let approves = self.dice.chance(30);
                self.give(&Command::Undo { reason: None, approves });
            }
            88 => drop(self.dice.chance(30) && self.give(&Command::Cancel { reason: Some("enough".into()) })),
            89 if self.dice.chance(50) => self.claim_again(),
            89 => {
                let stale = Command::Drive { epoch: Epoch(self.book.epoch().0 - 1) };
                assert!(!self.give(&stale), "a stale driver may drive");
            }
            90 if self.dice.chance(50) => drop(self.give(&move_pin())),
            90 => drop(self.give(&Command::AdoptToolset { toolset: Digest::of(b"there") })),
            91 => drop(self.execution().ended.is_none() && self.give(&Command::ErasePayloads)),
            92..95 => self.time_passes(),
            95 => self.put_on_record(),
            _ => self.anything(),
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
    }
}

fn record(step: &Option<String>, report: AgentReport) -> Command {
    let step = step.clone().expect("a report is about a step");
    Command::RecordReport { step, report, facts: Box::default(), by: None }
}

fn undid(step: &str, done: bool) -> Command {
    let facts = ActionFacts { action_taken: Some("took it back".into()), ..ActionFacts::default() };
    Command::RecordCompensation { step: step.to_owned(), done, facts: facts.into() }
}

/// The question that tools ask in these simulations.
fn question() -> Value {
    json!({ "message": "which?", "inputRequests": { "q": {} }, "requestState": "s" })
}

fn reply() -> Value {
    json!({ "n": 1 })
}

/// The whole state of an execution except its plan, as text.
fn story(execution: &Execution) -> String {
    let Execution { steps, epoch, paused, stop, phase, ended, gate, proposal, undo_requested, .. } =
        execution;
    let Execution {
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
    } = execution;
    format!(
        "{steps:?} {epoch:?} {paused} {stop:?} {phase:?} {ended:?} {gate:?} {proposal:?} {undo_requested} \
         {calls_made} {past_point_of_no_return} {active_ms} {last_entry_at_ms} {position:?} {version} \
         {ended_at_ms:?} {toolset:?} {erased} {annotations:?}"
    )
}

/// Runs the simulation of a seed; returns the violated invariant, or `None`.
fn story_of(seed: u64) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| Sim::new(seed).run()));
    run.err().map(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic".to_owned(), |text| text.to_string()),
    })
}

/// Runs the simulation of a seed with a trace, and returns result and trace as text.
fn told(seed: u64) -> String {
    TRACE.set(Some(Vec::new()));
    let violation = story_of(seed);
    let lines = TRACE.take().unwrap_or_default();
    format!("seed {seed}: {}\n{}", violation.as_deref().unwrap_or("all invariants hold"), lines.join("\n"))
}

#[test]
fn every_story_keeps_the_laws_and_every_prefix_resumes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ACTBOOK_SEED") {
        eprintln!("{}", told(seed));
        assert_eq!(story_of(seed), None);
        return;
    }
    let seeds = times("ACTBOOK_SEEDS", SEEDS) as u64;
    let first = number("ACTBOOK_FIRST_SEED").unwrap_or(0);
    let broken: Vec<(u64, String)> =
        (first..first + seeds).filter_map(|seed| Some((seed, story_of(seed)?))).collect();
    for (seed, violation) in broken.iter().take(40) {
        eprintln!("seed {seed}: {}", violation.lines().next().unwrap_or_default());
    }
    if let Some((seed, _)) = broken.first() {
        panic!("{} of {seeds} simulations violate an invariant; the first:\n{}", broken.len(), told(*seed));
    }
    let unseen = coverage::report();
    assert!(seeds < SEEDS_FOR_COVERAGE || unseen.is_empty(), "never reached: {unseen:?}");
}
