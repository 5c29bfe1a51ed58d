//! Seeded stories: random plans, outcomes, late answers, crashes and commands, with the laws checked at
//! every entry, and every prefix resumed by another process to an end.
//!
//! `ACTBOOK_SEEDS=n` runs n stories, from `ACTBOOK_FIRST_SEED` on; `ACTBOOK_SEED=n` runs one and prints it.

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
use crate::laws::{open_agents, open_calls};
use dice::Dice;
use world::{Sent, Truth, World};

const SEEDS: u64 = 2_000;
/// Enough stories for every counter to be seen.
const SEEDS_FOR_COVERAGE: u64 = 1_000;
const COMMANDS: usize = 100;
/// Rounds in which a benign world must bring any execution to its end.
const ROUNDS: usize = 250;
/// After this many the person in `settle` stops trying and cancels.
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
        let mut dice = Dice::new(seed);
        let plan = Arc::new(plans::plan(&mut dice));
        trace(|| plan.document.clone());
        let late = seed % 4 == 3;
        let world = World { down: dice.chance(6), wrong: late, land_late: late, ..World::default() };
        let terms = plans::terms(&mut dice);
        Self { dice, book: Book::open(plan, None, &terms), world, benign: false, prefixes: 15 }
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

    /// Gives the command; false where it was refused.
    fn give(&mut self, command: &Command) -> bool {
        let mark = self.book.entries.len();
        if let Err(refusal) = self.book.ask(command) {
            coverage::see("refused", coverage::name(command), "");
            assert!(!refusal.cure.is_empty() && !refusal.message.is_empty(), "a refusal says what to do");
            if self.dice.chance(20) && self.execution().ended.is_none() {
                let alternative = self.candidates().iter().any(|other| self.accepts(other));
                assert!(alternative, "refused with nothing else to do: {command:?}");
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

    /// What a tool asks is for people and agents to answer: nothing is undone unasked meanwhile.
    fn nothing_unwound_over_a_question(&self, mark: usize) {
        let unwinds = |event: &Event| matches!(event, Event::UnwindStarted(_) | Event::UnwindProposed(_));
        for at in (mark..self.book.entries.len()).filter(|at| unwinds(&self.book.entries[*at].recorded.event))
        {
            let before = self.book.fork(at);
            let asks = before.execution().steps.iter().any(|step| step.open_question().is_some());
            let by_itself = !before.execution().undo_requested;
            assert!(!(asks && by_itself), "unwound by itself over a tool's question");
        }
    }

    /// `compensated` is a promise: no effect that the journal can know of stands.
    fn hold_against_the_world(&self, at: usize) {
        let Event::ExecutionEnded(event) = &self.book.entries[at].recorded.event else { return };
        if event.status != EndStatus::Compensated {
            return;
        }
        let effects = &self.world.effects;
        assert!(self.world.wrong || effects.is_empty(), "compensated, and yet there stand {effects:?}");
        for no in self.execution().step_numbers() {
            let known = |at: &usize| {
                let attempt = &self.execution().step(no).attempts[*at];
                attempt.outcome == Some(Outcome::Succeeded)
                    || attempt.late_outcome == Some(Outcome::Succeeded)
            };
            let mut attempts = (0..self.execution().step(no).attempts.len()).filter(known);
            let stands = attempts.any(|attempt| self.world.stands(self.execution(), no, attempt as u32));
            assert!(!stands, "compensated, though the journal knows of an effect of `{}`", self.id(no));
        }
    }

    fn fork(&mut self, count: usize) -> Self {
        let book = self.book.fork(count);
        Self { dice: self.dice.fork(), book, world: self.world.clone(), benign: true, prefixes: 0 }
    }

    /// Another process that finds only the first entries of a command goes on to an end; one that
    /// finds them all has the same state as the one that wrote them.
    fn resume_prefixes(&mut self, mark: usize) {
        let whole = self.book.entries.len();
        assert_eq!(
            story(self.book.fork(whole).execution()),
            story(self.execution()),
            "the fold differs from live"
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

    /// The driver goes on; from each prefix it would have gone on in the same way.
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
                let kinds = |book: &Book| -> Vec<Event> {
                    book.entries[count..].iter().map(|entry| entry.recorded.event.clone()).collect()
                };
                assert_eq!(kinds(&other), kinds(&self.book), "a prefix goes on in another way");
            }
        }
        self.live();
    }

    /// No silent standstill: it has ended, is paused, has a call out, will look again, or asks.
    fn live(&self) {
        let execution = self.execution();
        if execution.ended.is_some() || execution.paused {
            return;
        }
        let due = due(execution);
        assert!(self.book.next().is_empty(), "the driver stopped before it was done");
        match due.wake_at {
            Some(at) => {
                assert!(at > self.book.now_ms, "looks again at once");
                assert!(!self.book.next_at(at).is_empty(), "looks again for nothing");
            }
            None => {
                let later = self.book.next_at(self.book.now_ms + 1_000_000);
                assert!(later.is_empty(), "{later:?} comes with time, and nobody looks");
            }
        }
        let asked = questions(execution);
        self.answerable(&asked);
        let idle = due.calls.is_empty() && due.wake_at.is_none();
        assert!(!idle || !asked.is_empty(), "stands still in silence");
        assert_eq!(
            idle && !asked.is_empty(),
            idle && execution.status() == ExecutionStatus::Blocked,
            "blocked?"
        );
        if execution.status() == ExecutionStatus::Blocked {
            assert!(due.calls.is_empty() && !asked.is_empty(), "blocked, and yet it goes on");
        }
        let agents = open_agents(execution);
        assert!(execution.stop.is_none() || agents.is_empty(), "a stop waits for an agent");
        let unwinding = execution.phase == Phase::Unwind;
        assert!(
            !unwinding || agents.iter().all(|call| call.kind == CallKind::Compensation),
            "unwinding waits for an agent"
        );
    }

    /// What is offered is taken.
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

    /// The driver dies and another takes over, sometimes able to prove what was never sent.
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
        let seat = actbook_engine::id::NodeId::new("s");
        self.give(&Command::Claim { node: seat, expected_epoch: self.execution().epoch, unsent: proven });
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

    /// Anything at all, mostly refused; what would end the story soon is rare.
    fn anything(&mut self) {
        let candidates = self.candidates();
        let command = self.dice.pick(&candidates).clone();
        match &command {
            Command::Decide { step, answer, .. } => {
                let no = self.execution().plan.find_step(step).expect("a step of the plan");
                self.answer(no, *answer);
            }
            Command::RecordReport { report: AgentReport::Started, .. } => drop(self.give(&command)),
            // Reports without a world behind them would be lies; those that are refused may come.
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

    /// A fair and benign world, from here on: it must come to an end.
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
        panic!("does not come to an end");
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
                "undoes with what was erased"
            );
        }
    }

    fn deliver_any(&mut self) {
        let calls = open_calls(self.execution());
        if let Some(call) = self.dice.any(&calls) {
            self.deliver(call);
        }
    }

    /// The driver was away for so long that others may have taken it for gone.
    fn claim_again(&mut self) {
        let (open, epoch) = (open_calls(self.execution()), self.book.epoch());
        let command = self.book.claims_again();
        assert!(self.give(&command), "the driver may go on");
        assert_eq!(open_calls(self.execution()), open, "nobody has answered for them");
        assert_eq!(self.book.epoch() != epoch, self.execution().ended.is_none());
        let entries = self.book.entries.len();
        assert!(self.give(&command), "its answer may have been lost");
        assert_eq!(self.book.entries.len(), entries, "said twice, it is done once");
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
                let stranger = Command::Drive { epoch: Epoch(self.book.epoch().0 - 1) };
                assert!(!self.give(&stranger), "one who does not drive drives");
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

/// What a tool asks in these stories, and what is answered.
fn question() -> Value {
    json!({ "message": "which?", "inputRequests": { "q": {} }, "requestState": "s" })
}

fn reply() -> Value {
    json!({ "n": 1 })
}

/// Everything that is known of an execution but its plan.
fn story(execution: &Execution) -> String {
    let Execution {
        steps,
        epoch,
        paused,
        stop,
        phase,
        ended,
        gate,
        proposal,
        undo_requested: undo_asked,
        ..
    } = execution;
    let Execution {
        calls_made: calls,
        past_point_of_no_return: past_no_return,
        active_ms,
        last_entry_at_ms: at_ms,
        position,
        version,
        ended_at_ms,
        toolset: place,
        erased,
        annotations: notes,
        ..
    } = execution;
    format!(
        "{steps:?} {epoch:?} {paused} {stop:?} {phase:?} {ended:?} {gate:?} {proposal:?} {undo_asked} {calls} {past_no_return} \
         {active_ms} {at_ms} {position:?} {version} {ended_at_ms:?} {place:?} {erased} {notes:?}"
    )
}

/// The violated law, or nothing.
fn story_of(seed: u64) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| Sim::new(seed).run()));
    run.err().map(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic".to_owned(), |text| text.to_string()),
    })
}

fn told(seed: u64) -> String {
    TRACE.set(Some(Vec::new()));
    let law = story_of(seed);
    let lines = TRACE.take().unwrap_or_default();
    format!("seed {seed}: {}\n{}", law.as_deref().unwrap_or("all laws held"), lines.join("\n"))
}

#[test]
fn every_story_keeps_the_laws_and_every_prefix_resumes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ACTBOOK_SEED") {
        eprintln!("{}", told(seed));
        assert_eq!(story_of(seed), None);
        return;
    }
    let seeds = number("ACTBOOK_SEEDS").unwrap_or(SEEDS);
    let first = number("ACTBOOK_FIRST_SEED").unwrap_or(0);
    let broken: Vec<(u64, String)> =
        (first..first + seeds).filter_map(|seed| Some((seed, story_of(seed)?))).collect();
    for (seed, law) in broken.iter().take(40) {
        eprintln!("seed {seed}: {}", law.lines().next().unwrap_or_default());
    }
    if let Some((seed, _)) = broken.first() {
        panic!("{} of {seeds} stories break a law; the first:\n{}", broken.len(), told(*seed));
    }
    let unseen = coverage::report();
    assert!(seeds < SEEDS_FOR_COVERAGE || unseen.is_empty(), "never reached: {unseen:?}");
}
