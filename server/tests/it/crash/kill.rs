//! kill -9 of the driving process at every position of the reference plan's journal, repeatedly, until the
//! execution ends.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::book::{Book, Said};
use super::outside::{Entry, Outside};
use super::reference::{Variant, answer, new_book, plan};
use super::{Dice, checks, finish, wait_for};
use crate::counts::times;
use crate::store::Kind;

/// Over both databases; `ACTBOOK_KILLS` asks for more.
const KILLS_DEFAULT: usize = 1000;
/// Of one execution; after that it may come to its end.
const KILLS_PER_EXECUTION: u64 = 16;
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
fn nothing_is_lost_or_sent_twice_by_kill_9_at_every_position_on_sqlite() {
    kill_at_every_position(Kind::Sqlite);
}

#[test]
fn nothing_is_lost_or_sent_twice_by_kill_9_at_every_position_on_postgres() {
    kill_at_every_position(Kind::Postgres);
}

fn kill_at_every_position(kind: Kind) {
    let wanted = times("ACTBOOK_KILLS", KILLS_DEFAULT) as u64 / 2;
    let last = [Variant::Auto, Variant::Manual].map(|variant| undisturbed(kind, variant));
    let last = last[0].max(last[1]);
    let begun = Instant::now();
    let mut tally = Tally::default();
    let mut seed = 0;
    let positions = times("ACTBOOK_POSITIONS", usize::try_from(last).unwrap()) as u64;
    while tally.kills < wanted || seed < positions {
        // The variants alternate, and swap their order with every round.
        let variant = [Variant::Auto, Variant::Manual][(seed + seed / last) as usize % 2];
        let first = 1 + i64::try_from(seed % last).unwrap();
        eprintln!("{kind:?}, seed {seed}, {variant:?}, first killed at {first}");
        Case::new(kind, variant, seed, &mut tally).run(first);
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
fn undisturbed(kind: Kind, variant: Variant) -> u64 {
    let fixture = new_book(kind, &plan(variant));
    let mut output = fixture.say(&["run", "plan.json"]);
    if variant == Variant::Manual {
        assert_eq!((output.code, output.status()), (Some(3), "blocked"), "{output:?}");
        let id = output.json["id"].as_str().unwrap();
        output = fixture.say(&["undo", id]);
    }
    assert_eq!(output.status(), "compensated", "{output:?}");
    let entries = fixture.entries();
    checks::all(&fixture, &output.json, &entries);
    entries.len() as u64
}

struct Case<'a> {
    book: Book,
    dice: Dice,
    tally: &'a mut Tally,
    kills: u64,
    outside: Option<Outside>,
    /// Every entry that was read as committed so far.
    durable: BTreeMap<i64, Entry>,
}

enum Ended {
    Killed,
    ByItself(Said),
}

impl<'a> Case<'a> {
    fn new(kind: Kind, variant: Variant, seed: u64, tally: &'a mut Tally) -> Self {
        Self {
            book: new_book(kind, &plan(variant)),
            dice: Dice(seed),
            tally,
            kills: 0,
            outside: None,
            durable: BTreeMap::new(),
        }
    }

    fn run(&mut self, first: i64) {
        let mut next = first;
        for _ in 0..TURNS_MAX {
            let id = self.execution();
            let args = match &id {
                None => vec!["run", "plan.json"],
                Some(id) if self.has_ended() => vec!["show", id],
                Some(id) => vec!["resume", id],
            };
            let child = self.book.spawn(&args);
            match self.disturb(child, next, &args) {
                Ended::Killed => self.killed(),
                // The killed process committed the end of the execution.
                Ended::ByItself(output) if output.json["code"] == "does_not_fit" && self.has_ended() => {}
                Ended::ByItself(output) if output.status() == "blocked" => {
                    self.tally.decisions += 1;
                    answer(&self.book, &output.json, &mut self.dice);
                }
                Ended::ByItself(output) => return self.at_the_end(&output.json),
            }
            next = self.last_seen() + 1 + i64::try_from(self.dice.roll(5)).unwrap();
        }
        panic!("the execution does not end: {:#?}", self.book.entries());
    }

    fn execution(&self) -> Option<String> {
        let started = self.seen("execution_started.2");
        started.map(|entry| entry.body["id"].as_str().unwrap().to_owned())
    }

    fn seen(&self, kind: &str) -> Option<&Entry> {
        self.durable.values().find(|entry| entry.kind == kind)
    }

    fn has_ended(&self) -> bool {
        self.seen("execution_ended.1").is_some()
    }

    fn last_seen(&self) -> i64 {
        self.durable.last_key_value().map_or(0, |(position, _)| *position)
    }

    /// Kills the process shortly after the journal reached `position`.
    fn disturb(&mut self, mut child: Child, position: i64, args: &[&str]) -> Ended {
        if self.kills < KILLS_PER_EXECUTION {
            let outside = self.outside.get_or_insert_with(|| self.book.outside());
            while child.try_wait().unwrap().is_none() {
                if outside.head() >= position {
                    spin(self.dice.roll(3) * self.dice.roll(2_000));
                    child.kill().unwrap();
                    break;
                }
                std::thread::yield_now();
            }
        }
        let output = finish(child);
        self.remember();
        match output.status.code() {
            None => Ended::Killed,
            Some(_) => Ended::ByItself(Said::of(output, args)),
        }
    }

    fn killed(&mut self) {
        self.kills += 1;
        self.tally.kills += 1;
        let last = self.last_seen();
        self.tally.positions.insert(last);
    }

    /// Asserts that every entry read before is still there, unchanged.
    fn remember(&mut self) {
        let outside = self.outside.take().unwrap_or_else(|| self.book.outside());
        if self.execution().is_none() {
            wait_for("the dead process's last commit", || outside.is_quiet().then_some(()));
        }
        let now: BTreeMap<i64, Entry> =
            outside.entries().into_iter().map(|entry| (entry.position, entry)).collect();
        // Close the SQLite connection, so that the next process has to recover the dead process's log.
        self.outside = Some(outside).filter(|outside| matches!(outside, Outside::Postgres { .. }));
        for (position, entry) in &self.durable {
            assert_eq!(now.get(position), Some(entry), "a committed entry is missing or changed");
        }
        self.durable = now;
    }

    fn at_the_end(&mut self, view: &Value) {
        self.remember();
        let entries: Vec<Entry> = self.durable.values().cloned().collect();
        checks::all(&self.book, view, &entries);
        self.book.verify();
        self.tally.add(&entries);
    }
}

impl Tally {
    fn add(&mut self, entries: &[Entry]) {
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
fn spin(microseconds: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}
