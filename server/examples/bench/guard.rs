//! Guarded calls: what a relayed call takes over a direct one, in commits of the bare database measured between them; and
//! what a hundred rules take.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use actbook_engine::rules::{
    CallFacts, GuardMode, JudgementTerms, Rule, RuleEffect, RuleFacts, SessionFacts, judge,
};
use serde_json::json;

use crate::bare_database::BareCommits;
use crate::mcp_calls::{BenchServer, record_calls, time_calls};
use crate::measurements::{Measurements, median};

/// How often direct calls, relayed calls and bare commits are measured, one after the other.
const ROUNDS: usize = 5;
/// How long bare commits are measured in a round.
const BARE_TIME: Duration = Duration::from_millis(400);
const RULES: usize = 100;
const JUDGEMENTS: usize = 2_000;
/// The folder of Python clients that `cargo xtask test` installs; fastmcp is among them.
const CLIENTS_VARIABLE: &str = "ACTBOOK_TEST_CLIENTS";
/// A proxy of fastmcp for the program and the arguments that follow, over stdio.
const FASTMCP_PROXY: &str = "import sys; from fastmcp.server import create_proxy; \
     config = {'mcpServers': {'echo': {'command': sys.argv[1], 'args': sys.argv[2:]}}}; \
     create_proxy(config).run(show_banner=False)";

/// Measures relayed calls against direct ones, and the rules.
pub fn measure(measurements: &mut Measurements, calls: usize, folder: &Path) -> anyhow::Result<()> {
    let database = folder.join("guard.db").to_string_lossy().into_owned();
    let mut direct = BenchServer::start("echo", "stdio", "-", folder)?;
    let mut guarded = BenchServer::start("guard", "stdio", &database, folder)?;
    let bare = BareCommits::open_grown(folder)?;
    let (mut middles, mut slows) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let direct = time_calls(calls, |number| direct.call("echo", json!({ "number": number })).map(drop))?;
        let relayed =
            time_calls(calls, |number| guarded.call("echo__echo", json!({ "number": number })).map(drop))?;
        let commit_ms = bare.us_per_commit(BARE_TIME)? / 1000.0;
        middles.push((relayed[1] - direct[1]) / commit_ms);
        slows.push((relayed[2] - direct[2]) / commit_ms);
        record_calls(measurements, "guard.direct", direct);
        record_calls(measurements, "guard.relayed", relayed);
        measurements.record("guard.bare_commit_ms", commit_ms);
    }
    let (middle, slow) = (median(middles), median(slows));
    measurements.require_at_most(
        "guard: a relayed call over a direct one, p50, in bare commits",
        middle,
        4.0,
    );
    measurements.require_at_most("guard: a relayed call over a direct one, p99, in bare commits", slow, 12.0);
    measure_rules(measurements)?;
    measure_fastmcp(measurements, calls)
}

/// Measures one judgement by a hundred rules that read the call and the session, of which none fits.
fn measure_rules(measurements: &mut Measurements) -> anyhow::Result<()> {
    let rule = |number: usize| {
        let when = format!(
            "call.tool == 'server{number}/tool' && 'untrusted' in session.labels || \
             call.arguments.command.contains('secret-{number}')"
        );
        Rule::parse(&format!("rule-{number}"), &when, RuleEffect::Deny, None)
    };
    let rules: Vec<Rule> = (0..RULES).map(rule).collect::<Result<_, _>>()?;
    let call = CallFacts {
        tool: "files/read".to_owned(),
        arguments: json!({ "command": "ls -la", "path": "a/b/c.txt" }),
        ..CallFacts::default()
    };
    let facts = RuleFacts { call, session: SessionFacts::default(), ..RuleFacts::default() };
    let terms = JudgementTerms {
        mode: GuardMode::Enforce,
        unknown: RuleEffect::Ask,
        is_known: true,
        demands_approval: false,
        spent_budget: None,
        repeats_unknown: false,
        refused_pin: None,
    };
    let started = Instant::now();
    for _ in 0..JUDGEMENTS {
        anyhow::ensure!(judge(&rules, &facts, &terms).verdict == RuleEffect::Allow, "a rule fits");
    }
    let each_ms = started.elapsed().as_secs_f64() * 1000.0 / JUDGEMENTS as f64;
    measurements.record("guard.hundred_rules_ms", each_ms);
    measurements.require_at_most("guard: a judgement by 100 rules, in ms", each_ms, 0.1);
    Ok(())
}

/// Measures the same calls through fastmcp's proxy, where it is installed; it journals nothing.
fn measure_fastmcp(measurements: &mut Measurements, calls: usize) -> anyhow::Result<()> {
    let Some(clients) = std::env::var_os(CLIENTS_VARIABLE) else {
        eprintln!("  {CLIENTS_VARIABLE} is not set: fastmcp's proxy is not measured");
        return Ok(());
    };
    let mut command = Command::new(Path::new(&clients).join("python/bin/python"));
    command.args(["-c", FASTMCP_PROXY]).arg(std::env::current_exe()?).args(["--part", "echo", "-", "stdio"]);
    let mut proxy = BenchServer::from_command(command, "stdio")?;
    let relayed = time_calls(calls, |number| proxy.call("echo", json!({ "number": number })).map(drop))?;
    record_calls(measurements, "guard.fastmcp", relayed);
    Ok(())
}
