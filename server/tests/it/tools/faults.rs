//! A thousand random server faults, and a witness file with each call that arrived, synced: no call that is
//! not idempotent arrives twice without a decision or a definite failure in between, whatever the server did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use actbook_engine::policy::{ExecutionStatus, StepAnswer, StepStatus};
use futures_util::future::join_all;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::counts::times;
use crate::durability::fixture::ServiceFixture;
use crate::store::{Kind, create_storage};

/// `ACTBOOK_FAULTS` overrides it.
const FAULTS_DEFAULT: usize = 1_000;
/// How many of a hundred calls meet a fault.
const FAULTY_PERCENT: u64 = 70;
const SERVERS: u64 = 10;
const EXECUTIONS_AT_ONCE_MAX: usize = 40;
/// Of the faults wanted, how many are for each of the executions that run at once.
const FAULTS_PER_EXECUTION: usize = 25;
/// Rounds of answers that one execution may need; more means that it does not terminate.
const TURNS_MAX: usize = 60;
/// A step with this many attempts is skipped instead of retried.
const RETRIED_ATTEMPTS: usize = 8;

const STEP_KINDS: [&str; 4] = ["once", "probed", "idempotent", "reads"];

/// A folder with the fault servers' files, and their random seed.
struct FaultFixture {
    folder: TempDir,
    seed: u64,
}

/// A line of the witness file: a call that arrived, and the fault it met.
#[derive(Debug)]
struct WitnessedCall {
    id: String,
    key: String,
    fault: String,
}

impl FaultFixture {
    fn new(seed: u64) -> Self {
        let folder = tempdir().unwrap();
        for name in ["effects", "seen"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("witness"), "").unwrap();
        Self { folder, seed }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tools(&self) -> Tools {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tools/faults.py");
        let args = json!(["-I", "-S", script, self.seed.to_string(), FAULTY_PERCENT.to_string()]);
        let server = json!({ "command": "python3", "args": args });
        // This test is about calls: a server that crashes all the time is restarted all the time.
        let settings = json!({ "concurrency": 4, "breaker": { "after": 1_000_000 },
                            "restart": { "backoff": "1ms", "max_backoff": "1ms" } });
        let names: Vec<String> = (0..SERVERS).map(|number| format!("s{number}")).collect();
        let servers: BTreeMap<&String, &Value> = names.iter().map(|name| (name, &server)).collect();
        let settings: BTreeMap<&String, &Value> = names.iter().map(|name| (name, &settings)).collect();
        tools(self.folder.path(), json!({ "mcpServers": servers, "servers": settings }))
    }

    fn witnessed_calls(&self) -> Vec<WitnessedCall> {
        let text = std::fs::read_to_string(self.path("witness")).unwrap();
        let arrived = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let mut next = || words.next().expect("whole lines only");
            WitnessedCall { id: next(), key: next(), fault: next() }
        };
        text.lines().map(arrived).collect()
    }

    fn effect_count(&self, id: &str) -> usize {
        let names = std::fs::read_dir(self.path("effects")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().split('.').next() == Some(id)).count()
    }
}

/// Two steps of each kind, on alternating servers.
fn plan(number: u64) -> Value {
    let step = |index: u64| {
        let kind = STEP_KINDS[(index % 4) as usize];
        let (id, server) = (format!("{kind}{index}"), format!("s{}", (number + index) % SERVERS));
        let named = json!({ "id": format!("e{number}-{id}"), "kind": kind });
        let mut step = json!({
            "id": id, "tool": format!("{server}/act"), "arguments": named, "timeout": "300ms",
            "retry": { "max_attempts": 4, "backoff": "1ms", "factor": 1.0,
                       "on": ["unavailable", "timeout", "protocol", "tool_error", "internal"] },
        });
        match kind {
            "probed" => {
                step["probe"] = json!({ "tool": format!("{server}/look"), "arguments": named,
                                        "happened": "output.exists", "timeout": "5s" });
            }
            "idempotent" => step["idempotent"] = json!(true),
            "reads" => step["read_only"] = json!(true),
            _ => {}
        }
        if kind != "reads" {
            step["compensation"] = json!({ "action": "take it back" });
        }
        step
    };
    let steps: Vec<Value> = (0..8).map(step).collect();
    json!({ "name": format!("faults-{number}"), "policy": { "concurrency": 4 }, "steps": steps })
}

/// Runs one execution to its end, answering questions by its real effects. Returns the number of decisions.
async fn run_to_end(fixture: &ServiceFixture, faults_fixture: &FaultFixture, number: u64) -> usize {
    let (id, mut status) = fixture.run(&plan(number), None).await;
    let mut decisions = 0;
    for _ in 0..TURNS_MAX {
        if status != ExecutionStatus::Blocked {
            break;
        }
        let view = fixture.executions().view(&id).await.unwrap();
        for waiting in &view.waiting {
            let step = waiting.step.clone().unwrap();
            let shown = view.steps.iter().find(|shown| shown.id == step).unwrap();
            let has_effect = faults_fixture.effect_count(&format!("e{number}-{step}")) > 0;
            let answer = match shown.status {
                StepStatus::Unknown if has_effect => StepAnswer::Happened,
                StepStatus::Unknown => StepAnswer::DidNotHappen,
                _ if shown.attempts < RETRIED_ATTEMPTS => StepAnswer::Retry,
                _ => StepAnswer::Skip,
            };
            let (reason, output) = (Some("went and looked".to_owned()), None);
            let decided = fixture
                .executions()
                .decide(&fixture.caller, &id, step.to_string(), answer, reason, output)
                .await;
            decided.unwrap_or_else(|error| panic!("{answer} to {step} of {id}: {error:?}"));
            decisions += 1;
        }
        status = fixture.claim_and_drive(&id).await;
    }
    assert_eq!(status, ExecutionStatus::Succeeded, "execution {number} came to an end");
    let view = fixture.executions().view(&id).await.unwrap();
    for step in view.steps.iter().filter(|step| !step.id.as_str().starts_with("reads")) {
        let effects = faults_fixture.effect_count(&format!("e{number}-{}", step.id));
        match (step.status, step.id.as_str().starts_with("idempotent")) {
            (StepStatus::Succeeded, _) => assert_eq!(effects, 1, "{} of execution {number}", step.id),
            // Skipped after an attempt with an unknown outcome, and another that was never sent.
            (_, true) => assert!(effects <= 1, "{} of execution {number}", step.id),
            (_, false) => assert_eq!(effects, 0, "{} of execution {number}", step.id),
        }
    }
    decisions
}

fn step_kind(id: &str) -> &str {
    id.split_once('-').unwrap().1.trim_end_matches(|sign: char| sign.is_ascii_digit())
}

/// Each key of a non-idempotent call arrives once: a new key is used only after a definite failure or a
/// decision.
fn assert_no_duplicates(arrived: &[WitnessedCall]) {
    let mut known = BTreeSet::new();
    for call in arrived.iter().filter(|call| ["once", "probed"].contains(&step_kind(&call.id))) {
        assert!(known.insert(&call.key), "{call:?} was sent twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_idempotent_calls_arrive_once_under_random_faults() {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("ACTBOOK_SEED").map_or(clock, |seed| seed.parse().unwrap());
    let wanted = times("ACTBOOK_FAULTS", FAULTS_DEFAULT);
    eprintln!("ACTBOOK_SEED={seed}");
    let faults_fixture = FaultFixture::new(seed);
    let (_storage, url) = create_storage(Kind::Sqlite).await;
    let fixture = ServiceFixture::with_tools(&url, faults_fixture.tools()).await;
    let faults = |arrived: &[WitnessedCall]| arrived.iter().filter(|call| call.fault != "none").count();
    let next = AtomicU64::new(0);
    let run_in_turn = || async {
        let mut decisions = 0;
        while faults(&faults_fixture.witnessed_calls()) < wanted {
            decisions += run_to_end(&fixture, &faults_fixture, next.fetch_add(1, Ordering::Relaxed)).await;
        }
        decisions
    };
    let working =
        (0..wanted.div_ceil(FAULTS_PER_EXECUTION).min(EXECUTIONS_AT_ONCE_MAX)).map(|_| run_in_turn());
    let decisions: usize = join_all(working).await.into_iter().sum();
    let executions = next.into_inner();
    assert_no_duplicates(&faults_fixture.witnessed_calls());
    fixture.service.close().await;
    let arrived = faults_fixture.witnessed_calls();
    let seen = fixture.service.journal().tool_call_stats(None).await.unwrap();
    let unknown: u64 = seen.servers.values().flat_map(|seen| seen.unknown.values()).sum();
    let timeouts: u64 = seen.servers.values().filter_map(|seen| seen.unknown.get("timeout")).sum();
    let probes: u64 =
        seen.tools.iter().filter(|(tool, _)| tool.ends_with("/look")).map(|(_, seen)| seen.calls).sum();
    let met: BTreeSet<&str> = arrived.iter().map(|call| call.fault.as_str()).collect();
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    for call in arrived.iter().filter(|call| ["idempotent", "reads"].contains(&step_kind(&call.id))) {
        *keys.entry(&call.key).or_default() += 1;
    }
    let again = keys.values().filter(|times| **times > 1).count();
    eprintln!(
        "{executions} executions, {} calls, {} faults of {} kinds, {unknown} unknown ({timeouts} by time), \
         {probes} probes, {decisions} decisions, {again} keys sent again",
        arrived.len(),
        faults(&arrived),
        met.len() - 1
    );
    fixture.assert_verifies().await;
    // Too few to have met everything.
    if wanted < FAULTS_DEFAULT {
        return;
    }
    assert_eq!(met.len(), 17, "every fault was met: {met:?}");
    assert!(unknown >= 300 && timeouts >= 50, "{unknown} unknown, {timeouts} by time");
    assert!(probes >= 50 && decisions >= 50 && again >= 50, "probes, decisions, keys sent again");
}
