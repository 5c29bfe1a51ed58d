//! The engine's hot path without a database: decide, follow, evolve, serialise and chain, step after step.
//! Under callgrind it gives an instruction count that does not depend on the machine's load.

use std::process::Command;
use std::sync::Arc;

use actbook_engine::chain::{self, Digest, EntryParts, GENESIS, Hash};
use actbook_engine::event::PlanRef;
use actbook_engine::execution::{
    Command as Ask, Execution, LoadedPayloads, NewEvent, Now, RecordedEvent, ReportedOutcome, StartContext,
    build_start_event, decide, due, evolve, follow, initial_state,
};
use actbook_engine::id::{ExecutionId, NodeId, PlanId, Position, StreamId, TenantId};
use actbook_engine::plan::Plan;
use serde_json::Value;

use crate::parts;

/// The work that the ledger does under its mutex, in memory.
struct MemoryLedger {
    position: u64,
    hash: Hash,
}

impl MemoryLedger {
    fn record(&mut self, stream: StreamId, version: u64, new_event: NewEvent) -> RecordedEvent {
        self.position += 1;
        let (position, at_ms) = (Position(self.position), 1_700_000_000_000);
        let (kind, body) = (new_event.event.kind(), new_event.event.body());
        let parts = EntryParts {
            tenant: TenantId(1),
            position,
            stream,
            version,
            at_ms,
            actor: "bench",
            kind,
            body: &body,
        };
        self.hash = chain::chain_hash(&self.hash, &chain::entry_hash(&parts));
        RecordedEvent { position, at_ms, event: new_event.event }
    }

    fn apply(
        &mut self,
        mut execution: Execution,
        command: &Ask,
        values: &LoadedPayloads,
    ) -> anyhow::Result<Execution> {
        let now = Now { at_ms: 1_700_000_000_000, random: 7 };
        let mut events = decide(&execution, command, now, values).map_err(|no| anyhow::anyhow!("{no:?}"))?;
        while !events.is_empty() {
            for new_event in events {
                let recorded = self.record(StreamId(1), execution.version + 1, new_event);
                execution = evolve(execution, &recorded)?;
            }
            events = follow(&execution, now, values).map_err(|missing| anyhow::anyhow!("{missing:?}"))?;
        }
        Ok(execution)
    }
}

/// Runs one execution of `steps` no-op steps in memory.
pub fn run_execution(steps: usize) -> anyhow::Result<Value> {
    let plan =
        Plan::parse(&parts::plan(steps, Value::Null)).map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
    let plan = Arc::new(plan);
    let salt: Arc<[u8]> = Arc::from(&[7u8; 16][..]);
    let reference =
        PlanRef { id: PlanId::new("p"), name: plan.name.clone(), version: 1, digest: plan.digest };
    let mut ledger = MemoryLedger { position: 0, hash: GENESIS };
    let context = StartContext {
        toolset: Digest::of(b"here"),
        project: Some("site".into()),
        agents_may_approve: false,
    };
    let (started, payload) = build_start_event(
        ExecutionId::new("x"),
        reference,
        &plan,
        None,
        &context,
        &Default::default(),
        &salt,
    );
    let first = NewEvent { event: started.clone().into(), payload };
    let recorded = ledger.record(StreamId(1), 1, first);
    let mut execution = initial_state(started, recorded.position, recorded.at_ms, plan, salt);
    let values = LoadedPayloads::default();
    let claim =
        Ask::Claim { node: NodeId::new("seat"), expected_epoch: execution.epoch, unsent: Default::default() };
    execution = ledger.apply(execution, &claim, &values)?;
    while let Some(call) = due(&execution).calls.first() {
        let ended = ReportedOutcome::Succeeded { output: parts::payload() };
        let report = Ask::ReportOutcome { epoch: execution.epoch, call: call.id, outcome: ended };
        execution = ledger.apply(execution, &report, &values)?;
    }
    anyhow::ensure!(execution.ended.is_some(), "the execution ended");
    Ok(serde_json::json!({ "entries": ledger.position }))
}

/// Instructions per step, from two runs so that start-up and parsing cancel out; `None` without valgrind.
pub fn instructions_per_step() -> anyhow::Result<Option<f64>> {
    const FEW: usize = 500;
    const MANY: usize = 1_500;
    let (Some(few), Some(many)) = (count_instructions(FEW)?, count_instructions(MANY)?) else {
        return Ok(None);
    };
    Ok(Some((many - few) / (MANY - FEW) as f64))
}

fn count_instructions(steps: usize) -> anyhow::Result<Option<f64>> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["--part", "hot", "-", &steps.to_string()]);
    let Ok(output) = command.output() else { return Ok(None) };
    let stderr = String::from_utf8_lossy(&output.stderr);
    let count = stderr.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    Ok(count)
}
