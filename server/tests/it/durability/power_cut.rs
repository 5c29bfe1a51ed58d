//! Power cuts. A real process writes, and its disk system calls are recorded; then, for many points of the
//! recording, the disk is rebuilt as a power cut could have left it: everything synced, and any part of the
//! rest. Everything acknowledged by that point must be there.

mod disk;
mod trace;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use actbook::config::DatabaseOptions;
use actbook::store::{Db, journal, payloads};

use super::fixture::{self, ServiceFixture};
use super::helper_process;
use super::rng::SeededRng;
use crate::counts::times;
use crate::store::TENANT;
use disk::{CachedDisk, Loss, Retention};
use trace::TraceEvent;

const WORKERS: usize = 3;
/// With fewer cuts than these it is chance whether enough was at stake.
const CUTS_FOR_STAKES: usize = 100;
const STEPS: usize = 3;

/// How many executions each worker runs.
fn executions() -> usize {
    times("ACTBOOK_EXECUTIONS", 40)
}

/// The writer: prints what was acknowledged and what was sent, immediately.
pub async fn run_in_helper(url: &str) {
    let on_call = |call: &actbook::tools::Call| helper_process::emit(&format!("sent {}", call.arguments));
    let fixture = ServiceFixture::open_observed(url, on_call).await;
    let padding = "x".repeat(1_000);
    let drive = async |worker: usize| {
        let steps: Vec<_> = (0..STEPS).map(|no| fixture::step(&format!("s{no}"), "t/ok", &padding)).collect();
        for _ in 0..executions() {
            let mut steps = steps.clone();
            for step in &mut steps {
                step["arguments"]["execution"] = "${execution.id}".into();
            }
            let started = fixture.start(&fixture::plan(&format!("p{worker}"), &steps), None, true).await;
            helper_process::emit(&format!("acknowledged {}", started.progress.position.0));
            let id = started.id.to_string();
            fixture.drive(started).await;
            helper_process::emit(&format!(
                "acknowledged {}",
                fixture.executions().view(&id).await.unwrap().position
            ));
        }
    };
    futures_util::future::join_all((0..WORKERS).map(drive)).await;
    fixture.service.close().await;
}

/// A writer whose syncs fail now and then: it prints which starts were acknowledged, and continues after
/// errors.
pub async fn run_with_failing_disk(url: &str) {
    let fixture = ServiceFixture::open(url).await;
    let plan = fixture::plan("tough", &[fixture::step("only", "t/ok", &"x".repeat(1_000))]).to_string();
    let saved = fixture.service.plans().save(&fixture.caller, &plan, true).await.unwrap();
    for _ in 0..200 {
        let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
        match fixture.executions().start(&fixture.caller, reference, plan, None, false).await {
            Ok(started) => helper_process::emit(&format!("acknowledged {}", started.progress.position.0)),
            Err(error) => helper_process::emit(&format!("failed {error}")),
        }
    }
}

/// A writer's disk events, with its database two new folders below `root`, and the entries it wrote.
struct Recording {
    events: Vec<TraceEvent>,
    written: Vec<journal::Entry>,
}

impl Recording {
    /// What the writer has acknowledged and sent at its end.
    fn final_state(&self) -> AcknowledgedState<'_> {
        let mut known = AcknowledgedState::default();
        for event in &self.events {
            if let TraceEvent::Emitted(line) = event {
                known.observe(line);
            }
        }
        known
    }
}

fn record_writer(root: &Path, part: &str, faults: &[&str]) -> Recording {
    let (home, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let mut strace = Command::new("strace");
    strace.args(trace::OPTIONS).args(faults).arg("-o").arg(log.path());
    strace.arg(std::env::current_exe().unwrap()).args(helper_process::ARGUMENTS);
    let output = helper_process::equip(&mut strace, part, &url(root), home.path()).output();
    helper_process::emitted_lines(&output.expect("strace is missing: `cargo xtask test` installs it"));
    let written = runtime().block_on(async {
        let db = Db::open(&url(root), DatabaseOptions::default()).await.unwrap();
        journal::between(TENANT, 0, u64::MAX).all(&db).await.unwrap()
    });
    Recording { events: trace::read_trace(log.path(), root), written }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

fn url(root: &Path) -> String {
    format!("sqlite:{}", root.join("a/b/book.db").display())
}

/// What the writer has acknowledged or sent so far.
#[derive(Default)]
struct AcknowledgedState<'a> {
    position: u64,
    sent: Vec<&'a str>,
    failures: usize,
}

impl<'a> AcknowledgedState<'a> {
    fn observe(&mut self, line: &'a str) {
        if let Some(position) = line.strip_prefix("acknowledged ") {
            self.position = self.position.max(position.parse().unwrap());
        }
        self.sent.extend(line.strip_prefix("sent "));
        self.failures += usize::from(line.starts_with("failed "));
    }
}

/// The event indexes of the cuts, sorted: at any event, right after a printed line, while the database is
/// created, and right after a file or folder was created.
fn cut_points(rng: &mut SeededRng, events: &[TraceEvent], cuts: usize) -> Vec<usize> {
    let (mut printed, mut created, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (event, after) in events.iter().zip(1..) {
        match event {
            TraceEvent::Emitted(_) => printed.push(after),
            TraceEvent::CreateFolder(path) | TraceEvent::CreateFile(path) if names.insert(path) => {
                created.push(after)
            }
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
async fn assert_durable(root: &Path, known: &AcknowledgedState<'_>, written: &[journal::Entry]) {
    let fixture = ServiceFixture::open(&url(root)).await;
    let verified = fixture.assert_verifies().await;
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
struct CutStats {
    cuts: usize,
    /// Cuts before which something had been acknowledged.
    after_acknowledgement: usize,
    loss: Loss,
    checkpoints: usize,
}

fn cut_at_points(recording: &Recording, cuts: usize, rng: &mut SeededRng) -> CutStats {
    let Recording { events, written } = recording;
    let (runtime, mut disk) = (runtime(), CachedDisk::default());
    let (mut known, mut loss) = (AcknowledgedState::default(), Loss::default());
    let (mut done, mut serious) = (0, 0);
    for (number, moment) in cut_points(rng, events, cuts).into_iter().enumerate() {
        for event in &events[done..moment] {
            disk.apply_event(event);
            if let TraceEvent::Emitted(line) = event {
                known.observe(line);
            }
        }
        done = moment;
        let retentions = [
            Retention::OnlySynced,
            Retention::OnlySynced,
            Retention::AnyPart,
            Retention::AnyPart,
            Retention::Everything,
        ];
        let (retention, after) = (*rng.pick(&retentions), tempfile::tempdir().unwrap());
        eprintln!("cut {number} after event {moment}, {retention:?}: {} acknowledged", known.position);
        loss += disk.write_after_cut(retention, rng, after.path());
        runtime.block_on(assert_durable(after.path(), &known, written));
        serious += usize::from(known.position > 0);
    }
    eprintln!(
        "{cuts} cuts, {serious} of them after an acknowledgement, {loss:?}, {} checkpoints",
        disk.checkpoints
    );
    CutStats { cuts, after_acknowledgement: serious, loss, checkpoints: disk.checkpoints }
}

impl CutStats {
    fn assert_enough_at_stake(&self) {
        let Self { cuts, after_acknowledgement: serious, loss, .. } = self;
        if *cuts < CUTS_FOR_STAKES {
            return;
        }
        let is_enough = loss.writes > *cuts && loss.torn > cuts / 20 && loss.names > 0;
        assert!(is_enough, "too little was lost: {loss:?}");
        assert!(*serious > cuts / 3 && self.checkpoints > 1, "too little was at stake");
    }
}

#[test]
fn power_cut_loses_nothing_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording = record_writer(root.path(), "power", &[]);
    let stats = cut_at_points(&recording, times("ACTBOOK_CUTS", 300), &mut SeededRng::from_env("power"));
    stats.assert_enough_at_stake();
    assert_eq!(recording.final_state().sent.len(), WORKERS * executions() * STEPS);
}

#[test]
fn failed_fsync_is_an_error_and_loses_nothing_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let recording =
        record_writer(root.path(), "failing disk", &["-e", "inject=fsync,fdatasync:error=EIO:when=40+15"]);
    let stats =
        cut_at_points(&recording, times("ACTBOOK_CUTS", 300) / 3, &mut SeededRng::from_env("failing disk"));
    stats.assert_enough_at_stake();
    let AcknowledgedState { failures, position: acknowledged, .. } = recording.final_state();
    assert!(failures > 5, "the disk failed only {failures} times");
    assert!(acknowledged > 150, "the writer stopped after a failure: {acknowledged} acknowledged");
}
