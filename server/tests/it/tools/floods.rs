//! Servers that send too much, through the real binary: the call fails with an error, and the memory of the
//! process stays within a bound.

use serde_json::{Value, json};

use crate::cli::Sandbox;
use crate::mcp::agent::{Agent, ToolAnswer};
use crate::mcp::serve_process::peak_mb;

/// A process without a flood uses a third of this, with debug assertions.
const PEAK_MB_MAX: u64 = 250;

fn sandbox_with_server(server: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let zoo = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tools/zoo.py");
    let server = json!({ "command": "python3", "args": ["-I", "-S", zoo, server] });
    sandbox.write("actbook.yaml", &json!({ "mcpServers": { "zoo": server } }).to_string());
    sandbox
}

fn connect_agent(sandbox: &Sandbox) -> Agent {
    Agent::legacy(sandbox, &["mcp"], "2025-11-25", json!({}))
}

#[track_caller]
fn assert_peak_memory(agent: &Agent, server: &str) {
    let peak = peak_mb(agent.child.id());
    assert!(peak < PEAK_MB_MAX, "{server}: {peak} MB");
}

fn run_plan(agent: &mut Agent) -> ToolAnswer {
    let step = json!({ "id": "ask", "tool": "zoo/any", "timeout": "15s" });
    let plan = json!({ "name": "flooded", "steps": [step] });
    agent.call("execute_plan", json!({ "plan": plan, "wait_s": 45 }))
}

#[test]
fn server_that_pings_and_does_not_read_is_given_up_within_memory_bound() {
    let sandbox = sandbox_with_server("pings_and_does_not_read");
    let mut agent = connect_agent(&sandbox);
    let ran = run_plan(&mut agent);
    let error = &ran.content["steps"][0]["error"];
    assert_eq!(error["category"], "unavailable", "{}", ran.text);
    assert!(error["message"].as_str().unwrap().contains("does not read"), "{}", ran.text);
    assert_peak_memory(&agent, "pings_and_does_not_read");
}

#[test]
fn oversized_tool_lists_are_refused_within_memory_bound() {
    let cases = [
        ("lists_too_many_tools", "more than"),
        ("lists_many_small_tools", "more than 10000 tools"),
        ("lists_long_pages", "more than 4194304 bytes"),
    ];
    for (server, words) in cases {
        let sandbox = sandbox_with_server(server);
        let mut agent = connect_agent(&sandbox);
        let listed = agent.call("list_tools", json!({}));
        assert!(listed.full_result.to_string().contains(words), "{server}: {}", listed.text);
        assert_peak_memory(&agent, server);
    }
}

/// The CPU time of a process in clock ticks, a hundredth of a second each.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn server_that_floods_before_its_handshake_is_given_up_at_low_cost() {
    let sandbox = sandbox_with_server("floods_at_start");
    let mut agent = connect_agent(&sandbox);
    let before = cpu_ticks(agent.child.id());
    let listed = agent.call("list_tools", json!({}));
    let words = "did not answer the handshake";
    assert!(listed.full_result.to_string().contains(words), "{}", listed.text);
    let spent = cpu_ticks(agent.child.id()) - before;
    assert!(spent < 300, "{spent} ticks");
    assert_peak_memory(&agent, "floods_at_start");
}

#[test]
fn silent_server_is_given_up_after_its_start_timeout() {
    let sandbox = sandbox_with_server("silent");
    let mut config: Value =
        serde_json::from_str(&std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap()).unwrap();
    config["servers"] = json!({ "zoo": { "start_timeout": "500ms" } });
    sandbox.write("actbook.yaml", &config.to_string());
    let mut agent = connect_agent(&sandbox);
    let listed = agent.call("list_tools", json!({}));
    let text = listed.full_result.to_string();
    assert!(text.contains("did not answer within 500ms") && text.contains("start_timeout"), "{text}");
}

#[test]
fn server_that_ignores_the_end_of_its_input_ends_with_a_killed_process() {
    let sandbox = sandbox_with_server("ignores_the_end_of_input");
    let mut agent = connect_agent(&sandbox);
    agent.call("list_tools", json!({}));
    let noted = std::fs::read_to_string(sandbox.path("processes")).unwrap();
    let server: u32 = noted.trim().parse().unwrap();
    assert!(!super::live_processes(server).is_empty(), "the server runs while its client does");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    crate::waiting::wait_for("the end of the server", || {
        super::live_processes(server).is_empty().then_some(())
    });
}

/// The server does not read the answers, so its connection ends only when it is stopped.
#[test]
fn server_that_asks_in_a_loop_is_warned_of_once_and_then_counted() {
    let sandbox = sandbox_with_server("asks_back_in_a_loop");
    let ran = sandbox.run(&["tools", "call", "zoo/any"]);
    assert!(ran.stdout.contains("after the flood"), "{}\n{}", ran.stdout, ran.stderr);
    let warned: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("requested user input")).collect();
    assert!(warned[0].contains("the server `zoo` requested user input during a call"), "{warned:?}");
    assert_eq!(warned.len(), 2, "{} lines", warned.len());
    assert!(warned[1].contains("2999 times more"), "{warned:?}");
}
