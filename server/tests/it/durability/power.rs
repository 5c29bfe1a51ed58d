//! Power cuts. A real process writes, and its disk system calls are recorded; then, for many points of the
//! recording, the disk is rebuilt as a power cut could have left it: everything synced, and any part of the
//! rest. Everything acknowledged by that point must be there.

mod disk;
mod trace;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use actbook::store::{DatabaseOptions, Db, journal, payloads};

use super::book::{self, Book};
use super::dice::Dice;
use super::process;
use crate::counts::times;
use crate::store::TENANT;
use disk::{Disk, Fate, Loss};
use trace::Event;

const LANES: usize = 3;
const EXECUTIONS: usize = 40;
/// With fewer cuts than these it is chance whether enough was at stake.
const CUTS_FOR_STAKES: usize = 100;
const STEPS: usize = 3;

/// The writer: prints what was acknowledged and what was sent, immediately.
pub async fn play(url: &str) {
    let on_call = |call: &actbook::tools::Call| process::say(&format!("sent {}", call.arguments));
    let fixture = Book::listening(url, on_call).await;
    let padding = "x".repeat(1_000);
    let drive = async |worker: usize| {
        let steps: Vec<_> = (0..STEPS).map(|no| book::step(&format!("s{no}"), "t/ok", &padding)).collect();
        for _ in 0..EXECUTIONS {
            let mut steps = steps.clone();
            for step in &mut steps {
                step["arguments"]["execution"] = "${execution.id}".into();
            }
            let started = fixture.start(&book::plan(&format!("p{worker}"), &steps), None, true).await;
            process::say(&format!("acknowledged {}", started.progress.position.0));
            let id = started.id.to_string();
            fixture.drive(started).await;
            process::say(&format!("acknowledged {}", fixture.service.view(&id).await.unwrap().position));
        }
    };
    futures_util::future::join_all((0..LANES).map(drive)).await;
    fixture.service.close().await;
}

/// A writer whose syncs fail now and then: it prints which starts were acknowledged, and continues after
/// errors.
pub async fn play_on_a_failing_disk(url: &str) {
    let fixture = Book::open(url).await;
    let plan = book::plan("tough", &[book::step("only", "t/ok", &"x".repeat(1_000))]).to_string();
    let saved = fixture.service.save_plan(&fixture.caller, &plan, true).await.unwrap();
    for _ in 0..200 {
        let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
        match fixture.service.start(&fixture.caller, reference, plan, None, false).await {
            Ok(started) => process::say(&format!("acknowledged {}", started.progress.position.0)),
            Err(error) => process::say(&format!("failed {}", error.message)),
        }
    }
}

/// A writer's disk events, with its database two new folders below `root`, and the entries it wrote.
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

/// What the writer has acknowledged or sent so far.
#[derive(Default)]
struct Known<'a> {
    position: u64,
    sent: Vec<&'a str>,
    failures: usize,
}

impl<'a> Known<'a> {
    fn hear(&mut self, line: &'a str) {
        if let Some(position) = line.strip_prefix("acknowledged ") {
            self.position = self.position.max(position.parse().unwrap());
        }
        self.sent.extend(line.strip_prefix("sent "));
        self.failures += usize::from(line.starts_with("failed "));
    }
}

/// The event indexes of the cuts, sorted: at any event, right after a printed line, while the database is
/// created, and right after a file or folder was created.
fn moments(rng: &mut Dice, events: &[Event], cuts: usize) -> Vec<usize> {
    let (mut printed, mut created, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (event, after) in events.iter().zip(1..) {
        match event {
            Event::Said(_) => printed.push(after),
            Event::Folder(path) | Event::File(path) if names.insert(path) => created.push(after),
            _ => {}
        }
    }
    let moment = |number: usize| match number % 8 {
        0 => *rng.pick(&created),
        4 => rng.below(printed[0] + 1),
        1 | 5 => rng.below(events.len()),
        _ => *rng.pick(&printed),
    };
    let mut moments: Vec<usize> = (0..cuts).map(moment).collect();
    moments.sort_unstable();
    moments
}

/// Asserts that the disk after the cut verifies and has everything acknowledged or sent. An entry that was
/// not acknowledged may be there too, even if its write was reported as failed.
async fn check(root: &Path, known: &Known<'_>, written: &[journal::Entry]) {
    let fixture = Book::open(&url(root)).await;
    let verified = fixture.assert_whole().await;
    assert!(verified.position >= known.position, "{} acknowledged, {verified:?}", known.position);
    let db = Db::open(&url(root), DatabaseOptions::default()).await.unwrap();
    let kept = journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    let sure = if known.failures == 0 { kept.len() } else { usize::try_from(known.position).unwrap() };
    assert_eq!(kept[..sure], written[..sure], "the journal is not a prefix of what was written");
    let bodies = payloads::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    let bodies: BTreeSet<&[u8]> = bodies.iter().map(|payload| payload.body.as_slice()).collect();
    for sent in &known.sent {
        assert!(bodies.contains(sent.as_bytes()), "the intent of a call that was sent is lost: {sent}");
    }
    let connection = rusqlite::Connection::open(root.join("a/b/book.db")).unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// What the cuts of one recording put at risk, so that a test cannot pass without any loss.
struct Stakes<'a> {
    cuts: usize,
    /// Cuts before which something had been acknowledged.
    serious: usize,
    loss: Loss,
    known: Known<'a>,
    checkpoints: usize,
}

fn cut_everywhere<'a>(recording: &'a Recording, cuts: usize, rng: &mut Dice) -> Stakes<'a> {
    let Recording { events, written } = recording;
    let (runtime, mut disk) = (runtime(), Disk::default());
    let (mut known, mut loss) = (Known::default(), Loss::default());
    let (mut done, mut serious) = (0, 0);
    for (number, moment) in moments(rng, events, cuts).into_iter().enumerate() {
        for event in &events[done..moment] {
            disk.take_in(event);
            if let Event::Said(line) = event {
                known.hear(line);
            }
        }
        done = moment;
        let retentions = [Fate::OnlySynced, Fate::OnlySynced, Fate::AnyPart, Fate::AnyPart, Fate::Everything];
        let (retention, after) = (*rng.pick(&retentions), tempfile::tempdir().unwrap());
        eprintln!("cut {number} after event {moment}, {retention:?}: {} acknowledged", known.position);
        loss += disk.cut(retention, rng, after.path());
        runtime.block_on(check(after.path(), &known, written));
        serious += usize::from(known.position > 0);
    }
    eprintln!(
        "{cuts} cuts, {serious} of them after an acknowledgement, {loss:?}, {} checkpoints",
        disk.checkpoints
    );
    Stakes { cuts, serious, loss, known, checkpoints: disk.checkpoints }
}

impl Stakes<'_> {
    fn assert_high(&self) {
        let Self { cuts, serious, loss, .. } = self;
        if *cuts < CUTS_FOR_STAKES {
            return;
        }
        assert!(loss.writes > *cuts && loss.torn > cuts / 20, "too little was lost: {loss:?}");
        assert!(*serious > cuts / 3 && self.checkpoints > 1, "too little was at stake");
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording = record(root.path(), "power", &[]);
    let stats = cut_everywhere(&recording, times("ACTBOOK_CUTS", 300), &mut Dice::seeded("power"));
    stats.assert_high();
    assert!(stats.known.sent.len() > 100 && stats.loss.names > 0);
}

#[test]
fn a_disk_that_fails_to_sync_makes_an_error_and_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording =
        record(root.path(), "failing disk", &["-e", "inject=fsync,fdatasync:error=EIO:when=40+15"]);
    let stats = cut_everywhere(&recording, times("ACTBOOK_CUTS", 300) / 3, &mut Dice::seeded("failing disk"));
    stats.assert_high();
    assert!(stats.known.failures > 5, "the disk failed only {} times", stats.known.failures);
    let acknowledged = stats.known.position as usize;
    assert!(acknowledged > 150, "the writer stopped after a failure: {acknowledged} acknowledged");
}
