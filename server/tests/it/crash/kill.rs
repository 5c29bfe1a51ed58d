//! kill -9 of the driving process at every position of the reference plan's journal, repeatedly, until the
//! execution ends.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::direct_sql::{DirectSql, RawEntry};
use super::fixture::{CliFixture, CommandOutput};
use super::reference_plan::{UndoVariant, answer_first_question, new_fixture, plan};
use super::{checks, wait_for_exit};
use crate::counts::times;
use crate::durability::rng::SeededRng;
use crate::store::Kind;
use crate::waiting::wait_for;

/// Over both databases; `ACTBOOK_KILLS` asks for more.
const KILLS_DEFAULT: usize = 1000;
/// Of one execution; after that it may come to its end.
const KILLS_PER_EXECUTION: u64 = 16;
/// Short against the time between two entries, so that a kill can fall after each.
const HEAD_POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Questions and restarts of one execution; more means that it does not terminate.
const TURNS_MAX: u64 = 200;

#[derive(Debug, Default)]
struct Tally {
    executions: u64,
    kills: u64,
    positions: BTreeSet<i64>,
    takeovers: u64,
    unknown: u64,
    unsent: u64,
    undo_unknown: u64,
    undo_unsent: u64,
    probes: u64,
    decisions: u64,
}

#[test]
fn kill_9_at_every_position_on_sqlite_loses_and_resends_nothing() {
    kill_at_every_position(Kind::Sqlite);
}

#[test]
fn kill_9_at_every_position_on_postgres_loses_and_resends_nothing() {
    kill_at_every_position(Kind::Postgres);
}

fn kill_at_every_position(kind: Kind) {
    let wanted = times("ACTBOOK_KILLS", KILLS_DEFAULT) as u64 / 2;
    let last =
        [UndoVariant::Auto, UndoVariant::Manual].map(|variant| undisturbed_journal_length(kind, variant));
    let last = last[0].max(last[1]);
    let begun = Instant::now();
    let mut tally = Tally::default();
    let mut seed = 0;
    let positions = times("ACTBOOK_POSITIONS", usize::try_from(last).unwrap()) as u64;
    while tally.kills < wanted || seed < positions {
        // The variants alternate, and swap their order with every round.
        let variant = [UndoVariant::Auto, UndoVariant::Manual][(seed + seed / last) as usize % 2];
        let first = 1 + i64::try_from(seed % last).unwrap();
        eprintln!("{kind:?}, seed {seed}, {variant:?}, first killed at {first}");
        KillCase::new(kind, variant, seed, &mut tally).run(first);
        seed += 1;
    }
    let took = begun.elapsed();
    eprintln!("{kind:?}: {tally:?} in {took:.1?}, {:.1} kills/s", tally.kills as f64 / took.as_secs_f64());
    assert!(tally.kills >= wanted);
    // Too few to have met everything.
    if wanted < KILLS_DEFAULT as u64 / 2 {
        return;
    }
    assert!(tally.takeovers >= tally.kills / 2, "{tally:?}");
    assert!(tally.unknown >= tally.kills / 50 && tally.unsent >= tally.kills / 100, "{tally:?}");
    assert!(tally.undo_unknown > 0 && tally.undo_unsent > 0, "{tally:?}");
    assert!(tally.probes > 0 && tally.decisions >= tally.kills / 50, "{tally:?}");
}

/// The last journal position of the plan when no process is killed.
fn undisturbed_journal_length(kind: Kind, variant: UndoVariant) -> u64 {
    let fixture = new_fixture(kind, &plan(variant));
    let mut output = fixture.run(&["run", "plan.json"]);
    if variant == UndoVariant::Manual {
        assert_eq!((output.code, output.status()), (Some(3), "blocked"), "{output:?}");
        let id = output.json["id"].as_str().unwrap();
        output = fixture.run(&["undo", id]);
    }
    assert_eq!(output.status(), "compensated", "{output:?}");
    let entries = fixture.entries();
    checks::check_all(&fixture, &output.json, &entries);
    entries.len() as u64
}

struct KillCase<'a> {
    fixture: CliFixture,
    rng: SeededRng,
    tally: &'a mut Tally,
    kills: u64,
    direct_sql: Option<DirectSql>,
    /// Every entry that was read as committed so far.
    durable: BTreeMap<i64, RawEntry>,
}

enum ProcessEnd {
    Killed,
    Exited(CommandOutput),
}

impl<'a> KillCase<'a> {
    fn new(kind: Kind, variant: UndoVariant, seed: u64, tally: &'a mut Tally) -> Self {
        Self {
            fixture: new_fixture(kind, &plan(variant)),
            rng: SeededRng::new(seed),
            tally,
            kills: 0,
            direct_sql: None,
            durable: BTreeMap::new(),
        }
    }

    fn run(&mut self, first: i64) {
        let mut next = first;
        for _ in 0..TURNS_MAX {
            let id = self.execution_id();
            let args = match &id {
                None => vec!["run", "plan.json"],
                Some(id) if self.has_ended() => vec!["show", id],
                Some(id) => vec!["resume", id],
            };
            let child = self.fixture.spawn(&args);
            match self.kill_at(child, next, &args) {
                ProcessEnd::Killed => self.count_kill(),
                // The killed process committed the end of the execution.
                ProcessEnd::Exited(output) if output.json["code"] == "does_not_fit" && self.has_ended() => {}
                ProcessEnd::Exited(output) if output.status() == "blocked" => {
                    self.tally.decisions += 1;
                    answer_first_question(&self.fixture, &output.json, &mut self.rng);
                }
                ProcessEnd::Exited(output) => return self.check_at_end(&output.json),
            }
            next = self.last_position() + 1 + i64::try_from(self.rng.below(5)).unwrap();
        }
        panic!("the execution does not end: {:#?}", self.fixture.entries());
    }

    fn execution_id(&self) -> Option<String> {
        let started = self.find_entry("execution_started.3");
        started.map(|entry| entry.body["id"].as_str().unwrap().to_owned())
    }

    fn find_entry(&self, kind: &str) -> Option<&RawEntry> {
        self.durable.values().find(|entry| entry.kind == kind)
    }

    fn has_ended(&self) -> bool {
        self.find_entry("execution_ended.1").is_some()
    }

    fn last_position(&self) -> i64 {
        self.durable.last_key_value().map_or(0, |(position, _)| *position)
    }

    /// Kills the process shortly after the journal reached `position`.
    fn kill_at(&mut self, mut child: Child, position: i64, args: &[&str]) -> ProcessEnd {
        if self.kills < KILLS_PER_EXECUTION {
            let outside = self.direct_sql.get_or_insert_with(|| self.fixture.direct_sql());
            while child.try_wait().unwrap().is_none() {
                if outside.head() >= position {
                    spin_wait(self.rng.below(3) * self.rng.below(2_000));
                    child.kill().unwrap();
                    break;
                }
                std::thread::park_timeout(HEAD_POLL_INTERVAL);
            }
        }
        let output = wait_for_exit(child);
        self.assert_durable_entries_kept();
        match output.status.code() {
            None => ProcessEnd::Killed,
            Some(_) => ProcessEnd::Exited(CommandOutput::from_output(output, args)),
        }
    }

    fn count_kill(&mut self) {
        self.kills += 1;
        self.tally.kills += 1;
        let last = self.last_position();
        self.tally.positions.insert(last);
    }

    /// Asserts that every entry read before is still there, unchanged.
    fn assert_durable_entries_kept(&mut self) {
        let outside = self.direct_sql.take().unwrap_or_else(|| self.fixture.direct_sql());
        if self.execution_id().is_none() {
            wait_for("the dead process's last commit", || outside.is_only_connection().then_some(()));
        }
        let now: BTreeMap<i64, RawEntry> =
            outside.entries().into_iter().map(|entry| (entry.position, entry)).collect();
        // Close the SQLite connection, so that the next process has to recover the dead process's log.
        self.direct_sql = Some(outside).filter(|outside| matches!(outside, DirectSql::Postgres { .. }));
        for (position, entry) in &self.durable {
            assert_eq!(now.get(position), Some(entry), "a committed entry is missing or changed");
        }
        self.durable = now;
    }

    fn check_at_end(&mut self, view: &Value) {
        self.assert_durable_entries_kept();
        let entries: Vec<RawEntry> = self.durable.values().cloned().collect();
        checks::check_all(&self.fixture, view, &entries);
        self.fixture.assert_verifies();
        self.tally.add(&entries);
    }
}

impl Tally {
    fn add(&mut self, entries: &[RawEntry]) {
        let count = |kind: &str, holds: &dyn Fn(&Value) -> bool| {
            entries.iter().filter(|entry| entry.kind == kind && holds(&entry.body)).count() as u64
        };
        let lost = |body: &Value| body["takeover"] == true && body["outcome"] == "unknown";
        let unsent = |body: &Value| body["takeover"] == true && body["unsent"] == true;
        self.executions += 1;
        self.takeovers += count("driver_changed.1", &|_| true) - 1;
        self.unknown += count("attempt_ended.1", &lost);
        self.unsent += count("attempt_ended.1", &unsent);
        self.undo_unknown += count("compensation_ended.1", &lost);
        self.undo_unsent += count("compensation_ended.1", &unsent);
        self.probes += count("probe_ended.1", &|_| true);
    }
}

/// Busy-waits, so that a kill also falls between two entries: before, during and after a call.
fn spin_wait(microseconds: usize) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(microseconds as u64) {
        std::hint::spin_loop();
    }
}
