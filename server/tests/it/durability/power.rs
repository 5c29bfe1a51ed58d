//! The power goes. A real process writes, and what it asks of its disk is recorded; then, for many
//! moments, the disk is made as a power cut could have left it: everything that was synced, and of the
//! rest any part. Whatever had been acknowledged by then must be there.

mod disk;
mod trace;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use actbook::store::{DatabaseOptions, Db, journal, payloads};

use super::book::{self, Book};
use super::dice::{Dice, times};
use super::process;
use crate::store::TENANT;
use disk::{Disk, Fate, Loss};
use trace::Event;

const LANES: usize = 3;
const EXECUTIONS: usize = 40;
const STEPS: usize = 3;

/// The writer: says what was acknowledged and what was sent, each right when it knows.
pub async fn play(url: &str) {
    let heard = |call: &actbook::tools::Call| process::say(&format!("sent {}", call.arguments));
    let book = Book::listening(url, heard).await;
    let padding = "x".repeat(1_000);
    let drive = async |lane: usize| {
        let steps: Vec<_> = (0..STEPS).map(|no| book::step(&format!("s{no}"), "t/ok", &padding)).collect();
        for _ in 0..EXECUTIONS {
            let mut steps = steps.clone();
            for step in &mut steps {
                step["arguments"]["execution"] = "${execution.id}".into();
            }
            let started = book.start(&book::plan(&format!("p{lane}"), &steps), None, true).await;
            process::say(&format!("acknowledged {}", started.progress.position.0));
            let id = started.id.to_string();
            book.drive(started).await;
            process::say(&format!("acknowledged {}", book.service.view(&id).await.unwrap().position));
        }
    };
    futures_util::future::join_all((0..LANES).map(drive)).await;
    book.service.close().await;
}

/// A writer whose disk fails now and then: it says what was acknowledged and what was not, and goes on.
pub async fn play_on_a_failing_disk(url: &str) {
    let book = Book::open(url).await;
    let plan = book::plan("tough", &[book::step("only", "t/ok", &"x".repeat(1_000))]).to_string();
    let saved = book.service.save_plan(&book.caller, &plan, true).await.unwrap();
    for _ in 0..200 {
        let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
        match book.service.start(&book.caller, reference, plan, None, false).await {
            Ok(started) => process::say(&format!("acknowledged {}", started.progress.position.0)),
            Err(error) => process::say(&format!("failed {}", error.message)),
        }
    }
}

/// A writer under strace, its database two new folders below `root`, and what it wrote in the end.
struct Recording {
    events: Vec<Event>,
    written: Vec<journal::Entry>,
}

fn record(root: &Path, part: &str, faults: &[&str]) -> Recording {
    let (home, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let mut strace = Command::new("strace");
    strace.args(trace::OPTIONS).args(faults).arg("-o").arg(log.path());
    strace.arg(std::env::current_exe().unwrap()).args(process::ARGUMENTS);
    let output = process::equip(&mut strace, part, &url(root), home.path()).output();
    process::said(&output.expect("strace is missing: `cargo xtask test` installs it"));
    let written = runtime().block_on(async {
        let db = Db::open(&url(root), DatabaseOptions::default()).await.unwrap();
        journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap()
    });
    Recording { events: trace::read(log.path(), root), written }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

fn url(root: &Path) -> String {
    format!("sqlite:{}", root.join("a/b/book.db").display())
}

/// What the world outside knows of.
#[derive(Default)]
struct Known<'a> {
    position: u64,
    sent: Vec<&'a str>,
    failures: usize,
}

impl<'a> Known<'a> {
    fn hear(&mut self, said: &'a str) {
        if let Some(position) = said.strip_prefix("acknowledged ") {
            self.position = self.position.max(position.parse().unwrap());
        }
        self.sent.extend(said.strip_prefix("sent "));
        self.failures += usize::from(said.starts_with("failed "));
    }
}

/// The moments of the cuts: at any event, right after something was said, while the file is made, and
/// right after anything got its name.
fn moments(dice: &mut Dice, events: &[Event], cuts: usize) -> Vec<usize> {
    let (mut said, mut named, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (event, after) in events.iter().zip(1..) {
        match event {
            Event::Said(_) => said.push(after),
            Event::Folder(path) | Event::File(path) if names.insert(path) => named.push(after),
            _ => {}
        }
    }
    let moment = |number: usize| match number % 8 {
        0 => *dice.pick(&named),
        4 => dice.below(said[0] + 1),
        1 | 5 => dice.below(events.len()),
        _ => *dice.pick(&said),
    };
    let mut moments: Vec<usize> = (0..cuts).map(moment).collect();
    moments.sort_unstable();
    moments
}

/// What is on the disk after the cut: whole, and with everything that was known outside. What had not
/// been acknowledged may be there, though an error said that it could not be written.
async fn check(root: &Path, known: &Known<'_>, written: &[journal::Entry]) {
    let book = Book::open(&url(root)).await;
    let verified = book.assert_whole().await;
    assert!(verified.position >= known.position, "{} acknowledged, {verified:?}", known.position);
    let db = Db::open(&url(root), DatabaseOptions::default()).await.unwrap();
    let kept = journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    let sure = if known.failures == 0 { kept.len() } else { usize::try_from(known.position).unwrap() };
    assert_eq!(kept[..sure], written[..sure], "the journal is not the beginning of what was written");
    let bodies = payloads::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    let bodies: BTreeSet<&[u8]> = bodies.iter().map(|payload| payload.body.as_slice()).collect();
    for sent in &known.sent {
        assert!(bodies.contains(sent.as_bytes()), "the intent of a call that was sent is lost: {sent}");
    }
    let connection = rusqlite::Connection::open(root.join("a/b/book.db")).unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// What the cuts of one recording had at stake, so that no test passes for want of danger.
struct Stakes<'a> {
    cuts: usize,
    /// Cuts before which something had been acknowledged.
    serious: usize,
    loss: Loss,
    known: Known<'a>,
    checkpoints: usize,
}

fn cut_everywhere<'a>(recording: &'a Recording, cuts: usize, dice: &mut Dice) -> Stakes<'a> {
    let Recording { events, written } = recording;
    let (runtime, mut disk) = (runtime(), Disk::default());
    let (mut known, mut loss) = (Known::default(), Loss::default());
    let (mut done, mut serious) = (0, 0);
    for (number, moment) in moments(dice, events, cuts).into_iter().enumerate() {
        for event in &events[done..moment] {
            disk.take_in(event);
            if let Event::Said(said) = event {
                known.hear(said);
            }
        }
        done = moment;
        let fates = [Fate::OnlySynced, Fate::OnlySynced, Fate::AnyPart, Fate::AnyPart, Fate::Everything];
        let (fate, after) = (*dice.pick(&fates), tempfile::tempdir().unwrap());
        eprintln!("cut {number} after event {moment}, {fate:?}: {} acknowledged", known.position);
        loss += disk.cut(fate, dice, after.path());
        runtime.block_on(check(after.path(), &known, written));
        serious += usize::from(known.position > 0);
    }
    eprintln!("{cuts} cuts, {serious} of them serious, {loss:?}, {} checkpoints", disk.checkpoints);
    Stakes { cuts, serious, loss, known, checkpoints: disk.checkpoints }
}

impl Stakes<'_> {
    fn assert_high(&self) {
        let Self { cuts, serious, loss, .. } = self;
        assert!(loss.writes > *cuts && loss.torn > cuts / 20, "too little was lost: {loss:?}");
        assert!(*serious > cuts / 3 && self.checkpoints > 1, "too little was at stake");
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording = record(root.path(), "power", &[]);
    let stakes = cut_everywhere(&recording, times("ACTBOOK_CUTS", 300), &mut Dice::seeded("power"));
    stakes.assert_high();
    assert!(stakes.known.sent.len() > 100 && stakes.loss.names > 0);
}

#[test]
fn a_disk_that_fails_to_sync_makes_an_error_and_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording =
        record(root.path(), "failing disk", &["-e", "inject=fsync,fdatasync:error=EIO:when=40+15"]);
    let stakes =
        cut_everywhere(&recording, times("ACTBOOK_CUTS", 300) / 3, &mut Dice::seeded("failing disk"));
    stakes.assert_high();
    assert!(stakes.known.failures > 5, "the disk failed only {} times", stakes.known.failures);
    let acknowledged = stakes.known.position as usize;
    assert!(acknowledged > 150, "after a failure it goes on: {acknowledged} acknowledged");
}
