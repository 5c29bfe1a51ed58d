//! The power goes. A real process writes, and what it asks of its disk is recorded; then, for many
//! moments, the disk is made as a power cut could have left it: everything that was synced, and of the
//! rest any part. Whatever had been acknowledged by then must be there.

mod disk;
mod trace;

use std::path::Path;
use std::process::Command;

use actbook::store::{Db, Options, journal, payloads};

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

/// Runs the writer under strace, its database two new folders below `root`.
fn record(root: &Path) -> Vec<Event> {
    let (home, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let mut strace = Command::new("strace");
    strace.args(trace::OPTIONS).arg("-o").arg(log.path());
    strace.arg(std::env::current_exe().unwrap()).args(process::ARGUMENTS);
    let output = process::equip(&mut strace, "power", &url(root), home.path()).output();
    process::said(&output.expect("strace is missing: `cargo xtask test` installs it"));
    trace::read(log.path(), root)
}

fn url(root: &Path) -> String {
    format!("sqlite:{}", root.join("a/b/book.db").display())
}

/// What the world outside knows of.
#[derive(Default)]
struct Known<'a> {
    position: u64,
    sent: Vec<&'a str>,
}

impl<'a> Known<'a> {
    fn hear(&mut self, said: &'a str) {
        if let Some(position) = said.strip_prefix("acknowledged ") {
            self.position = self.position.max(position.parse().unwrap());
        }
        self.sent.extend(said.strip_prefix("sent "));
    }
}

/// The moments of the cuts: at any event, right after something was said, and while the file is made.
fn moments(dice: &mut Dice, events: &[Event], cuts: usize) -> Vec<usize> {
    let said = |at: &usize| matches!(events[*at], Event::Said(_));
    let said: Vec<usize> = (0..events.len()).filter(said).map(|at| at + 1).collect();
    let moment = |number: usize| match number % 4 {
        0 => dice.below(said[0] + 1),
        1 => dice.below(events.len()),
        _ => *dice.pick(&said),
    };
    let mut moments: Vec<usize> = (0..cuts).map(moment).collect();
    moments.sort_unstable();
    moments
}

/// What is on the disk after the cut: whole, and with everything that was known outside.
async fn check(root: &Path, known: &Known<'_>, written: &[journal::Entry]) {
    let book = Book::open(&url(root)).await;
    let verified = book.assert_whole().await;
    assert!(verified.position >= known.position, "{} acknowledged, {verified:?}", known.position);
    let db = Db::open(&url(root), Options::default()).await.unwrap();
    let kept = journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    assert_eq!(kept, written[..kept.len()], "the journal is not the beginning of what was written");
    let bodies = payloads::between(TENANT, 0, u64::MAX).all(&db).await.unwrap();
    let bodies: std::collections::BTreeSet<&[u8]> =
        bodies.iter().map(|payload| payload.body.as_slice()).collect();
    for sent in &known.sent {
        assert!(bodies.contains(sent.as_bytes()), "the intent of a call that was sent is lost: {sent}");
    }
    let connection = rusqlite::Connection::open(root.join("a/b/book.db")).unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let root = tempfile::tempdir().unwrap();
    let events = record(root.path());
    let written = runtime.block_on(async {
        let db = Db::open(&url(root.path()), Options::default()).await.unwrap();
        journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap()
    });

    let mut dice = Dice::seeded("power");
    let mut disk = Disk::default();
    let mut known = Known::default();
    let mut loss = Loss::default();
    let (mut done, mut at_stake) = (0, 0);
    let cuts = times("ACTBOOK_CUTS", 300);
    for (number, moment) in moments(&mut dice, &events, cuts).into_iter().enumerate() {
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
        loss += disk.cut(fate, &mut dice, after.path());
        runtime.block_on(check(after.path(), &known, &written));
        at_stake += usize::from(known.position > 0);
    }
    let (sent, checkpoints) = (known.sent.len(), disk.checkpoints);
    eprintln!(
        "{loss:?}, {at_stake} cuts with something at stake, {sent} calls sent, {checkpoints} checkpoints"
    );
    assert!(loss.writes > cuts && loss.torn > cuts / 20 && loss.names > 0, "too little was lost: {loss:?}");
    assert!(at_stake > cuts / 3 && sent > 100 && checkpoints > 1, "too little was at stake");
}
