//! Hooks through the real binary, with the events that clients send: what a call is answered, in the client's own
//! form, and what the journal says of it. Whatever goes wrong, no call passes.

mod bindings;
mod boundary;
mod clients;
mod eras;
mod failures;
mod http;
mod injections;
mod install;
mod isolation;
mod limits;
mod names;
mod own_commands;
mod plans;
mod policy;
mod process;
mod proxy;
mod questions;
mod relay;
mod relay_clients;
mod reports;
mod spellings;
mod undo;

use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::cli::{CliOutput, Sandbox};

/// A sandbox whose config has this `guard` section.
fn guarded(guard: Value) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "guard": guard,
        "servers": { "mail": { "labels": ["egress"], "adds": ["private"] }, "web": { "adds": ["untrusted"] } },
    }));
    sandbox
}

/// The event before a call, as Claude Code sends it.
pub fn before(sandbox: &Sandbox, id: &str, tool: &str, input: Value) -> Value {
    json!({
        "session_id": "9f0c", "transcript_path": "/tmp/t.jsonl", "cwd": sandbox.folder.path(),
        "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
        "tool_use_id": id,
    })
}

/// The same call's event after it.
pub fn after(before: &Value, response: Value) -> Value {
    let mut event = before.clone();
    (event["hook_event_name"], event["tool_response"]) = (json!("PostToolUse"), response);
    event
}

/// An event of the session that is about no tool.
fn session_event(sandbox: &Sandbox, name: &str, more: Value) -> Value {
    let mut event = json!({ "session_id": "9f0c", "cwd": sandbox.folder.path(), "hook_event_name": name });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

/// The hook's process, with the event on its stdin.
fn start_hook(sandbox: &Sandbox, client: &str, event: &str, more: &[&str]) -> Child {
    let words = [&["hook", client], more].concat();
    start_with_event(sandbox.command(&words), event)
}

fn start_with_event(mut command: Command, event: &str) -> Child {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that cannot start, or dies, reads nothing.
    drop(child.stdin.take().unwrap().write_all(event.as_bytes()));
    child
}

fn run_with_event(command: Command, event: &str) -> CliOutput {
    start_with_event(command, event).wait_with_output().unwrap().into()
}

pub fn run_hook(sandbox: &Sandbox, event: &Value, more: &[&str]) -> CliOutput {
    start_hook(sandbox, "claude-code", &event.to_string(), more).wait_with_output().unwrap().into()
}

/// Runs the hook, which must not block, and returns what it decides: `None` is no decision.
#[track_caller]
fn decide(sandbox: &Sandbox, event: &Value) -> Option<(String, String)> {
    let ran = run_hook(sandbox, event, &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    decision(&ran)
}

fn decision(ran: &CliOutput) -> Option<(String, String)> {
    if ran.stdout.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{answer}");
    let text = |name: &str| output[name].as_str().unwrap().to_owned();
    Some((text("permissionDecision"), text("permissionDecisionReason")))
}

/// The statuses of the newest session's steps, in order.
fn statuses(sandbox: &Sandbox) -> Vec<String> {
    let view = sandbox.json(&["show", &sandbox.newest()]);
    view["steps"].as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap().to_owned()).collect()
}

/// The kinds of the session's entries, without their versions.
fn kinds(sandbox: &Sandbox) -> Vec<String> {
    let journal = sandbox.expect(0, &["journal", "--json"]);
    let entries = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.map(|entry| entry["kind"].as_str().unwrap().split('.').next().unwrap().to_owned()).collect()
}

#[test]
fn call_that_nothing_stops_gets_no_decision_and_is_journaled() {
    let sandbox = guarded(json!({}));
    let call = before(&sandbox, "toolu_1", "Bash", json!({ "command": "ls", "description": "look" }));
    assert_eq!(decide(&sandbox, &call), None);
    assert_eq!(statuses(&sandbox), ["awaiting_agent"]);
    assert_eq!(decide(&sandbox, &after(&call, json!({ "stdout": "a.txt" }))), None);
    assert_eq!(statuses(&sandbox), ["succeeded"]);
    assert_eq!(kinds(&sandbox), ["execution_started", "step_added", "attempt_started", "attempt_ended"]);
    let view = sandbox.json(&["show", &sandbox.newest(), "c1"]);
    assert_eq!(view["tool"], "client/shell", "{view}");
    assert_eq!(view["arguments"]["command"], "ls", "{view}");
    assert_eq!(view["output"]["stdout"], "a.txt", "{view}");
    assert_eq!(sandbox.json(&["list"])[0]["status"], "running");
    sandbox.expect(0, &["verify"]);
}

#[test]
fn same_call_again_gets_the_same_answer_and_other_input_is_another_step() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    let call = before(&sandbox, "toolu_1", "Write", json!({ "file_path": "/etc/motd", "content": "x" }));
    let first = decide(&sandbox, &call).unwrap();
    assert_eq!(first.0, "deny");
    assert!(first.1.contains("outside the session's folder"), "{first:?}");
    assert_eq!(decide(&sandbox, &call).unwrap(), first);
    assert_eq!(statuses(&sandbox), ["failed"]);
    let inside = sandbox.path("a.txt");
    let rewritten = before(&sandbox, "toolu_1", "Write", json!({ "file_path": inside, "content": "x" }));
    assert_eq!(decide(&sandbox, &rewritten), None);
    assert_eq!(statuses(&sandbox), ["failed", "awaiting_agent"]);
}

#[test]
fn link_out_of_the_folder_is_outside() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    std::os::unix::fs::symlink("/etc", sandbox.path("link")).unwrap();
    for path in ["link/motd", "sub/../../x", "./link/../motd"] {
        let call = before(&sandbox, path, "Write", json!({ "file_path": path, "content": "x" }));
        assert_eq!(decide(&sandbox, &call).unwrap().0, "deny", "{path}");
    }
}

#[test]
fn link_whose_target_does_not_exist_is_followed() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    for (link, target) in
        [("absolute", "/etc/not-there"), ("relative", "../not-there"), ("first", "relative")]
    {
        std::os::unix::fs::symlink(target, sandbox.path(link)).unwrap();
        let call = before(&sandbox, link, "Write", json!({ "file_path": link, "content": "x" }));
        assert_eq!(decide(&sandbox, &call).unwrap().0, "deny", "{link}");
    }
    std::os::unix::fs::symlink("inner-not-there", sandbox.path("inner")).unwrap();
    let call = before(&sandbox, "inner", "Write", json!({ "file_path": "inner", "content": "x" }));
    assert_eq!(decide(&sandbox, &call), None);
}

#[test]
fn paths_are_found_however_they_are_written() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"], "unknown": "allow" }));
    let inputs = [
        json!({ "path": "~/../x" }),
        json!({ "path": "~root/x" }),
        json!({ "uri": "file://localhost/etc/x" }),
        json!({ "from": "a", "to": "/etc/x" }),
        json!({ "files": [["a", "/etc/x"]] }),
        json!({ "a": { "b": { "c": { "d": { "e": { "f": { "g": { "h": { "i": { "path": "/x" } } } } } } } } } }),
    ];
    for (no, input) in inputs.into_iter().enumerate() {
        let call = before(&sandbox, &no.to_string(), "mcp__notes__keep", input.clone());
        assert_eq!(decide(&sandbox, &call).unwrap().0, "deny", "{input}");
    }
    let remote = json!({ "uri": "https://x.example/a" });
    assert_eq!(decide(&sandbox, &before(&sandbox, "remote", "mcp__notes__keep", remote)), None);
}

#[test]
fn agent_that_changes_its_folder_stays_guarded() {
    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    let (below, elsewhere) = (sandbox.path("sub/deeper"), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(&below).unwrap();
    let decide_in = |folder: &std::path::Path, variables: &[(&'static str, &str)]| {
        let mut event = before(&sandbox, "t1", "Write", json!({ "file_path": "/etc/motd", "content": "x" }));
        event["cwd"] = json!(folder);
        event["tool_use_id"] = json!(folder);
        let mut command = sandbox.command(&["hook", "claude-code"]);
        command.current_dir(folder).envs(variables.iter().copied());
        decision(&run_with_event(command, &event.to_string()))
    };
    assert_eq!(decide_in(sandbox.folder.path(), &[]).unwrap().0, "deny");
    assert_eq!(decide_in(&below, &[]).unwrap().0, "deny");
    let project = [("CLAUDE_PROJECT_DIR", sandbox.folder.path().to_str().unwrap())];
    assert_eq!(decide_in(elsewhere.path(), &project).unwrap().0, "deny");
    assert_eq!(statuses(&sandbox), ["failed", "failed", "failed"], "one session, wherever the agent is");
}

#[test]
fn folder_with_another_trusted_config_is_no_way_out_of_the_users_own() {
    let sandbox = Sandbox::new();
    let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let denies = json!({ "name": "shell", "when": "call.tool == 'client/shell'", "then": "deny" });
    std::fs::create_dir_all(sandbox.path("config/actbook")).unwrap();
    sandbox.write("config/actbook/actbook.yaml", &json!({ "guard": { "rules": [denies] } }).to_string());
    let lax = elsewhere.path().join("actbook.yaml");
    std::fs::write(&lax, "mcpServers: {}").unwrap();
    sandbox.expect(0, &["trust", "--yes", lax.to_str().unwrap()]);
    let decide_in = |folder: &std::path::Path, named: Option<&std::path::Path>| {
        let mut event = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
        event["cwd"] = json!(folder);
        let mut command = sandbox.command(&["hook", "claude-code"]);
        command.current_dir(folder).envs(named.map(|folder| ("CLAUDE_PROJECT_DIR", folder)));
        decision(&run_with_event(command, &event.to_string()))
    };
    assert_eq!(decide_in(elsewhere.path(), None), None, "the config of the folder where the client works");
    assert_eq!(decide_in(project.path(), Some(project.path())).unwrap().0, "deny");
    assert_eq!(decide_in(elsewhere.path(), Some(project.path())).unwrap().0, "deny");
    let gone = project.path().join("gone");
    assert_eq!(decide_in(elsewhere.path(), Some(&gone)).unwrap().0, "deny");

    let mut cursor = before(&sandbox, "t2", "Shell", json!({ "command": "ls" }));
    (cursor["cwd"], cursor["workspace_roots"]) = (json!(elsewhere.path()), json!([project.path()]));
    let mut command = sandbox.command(&["hook", "cursor"]);
    command.current_dir(elsewhere.path());
    let ran = run_with_event(command, &cursor.to_string());
    assert!(ran.stdout.contains(r#""permission":"deny""#), "{}", ran.stdout);
}

#[test]
fn call_that_has_ended_is_judged_anew_and_so_is_another_tool() {
    let sandbox = guarded(json!({
        "rules": [{ "name": "shell", "when": "call.tool == 'client/shell'", "then": "deny" }],
    }));
    let input = json!({ "file_path": "a.txt", "command": "ls" });
    let read = before(&sandbox, "t1", "Read", input.clone());
    assert_eq!(decide(&sandbox, &read), None);
    assert_eq!(decide(&sandbox, &before(&sandbox, "t1", "Bash", input)).unwrap().0, "deny");
    let other = before(&sandbox, "t2", "Read", json!({ "file_path": "b.txt" }));
    for _ in 0..2 {
        assert_eq!(decide(&sandbox, &other), None);
        assert_eq!(decide(&sandbox, &after(&other, json!({}))), None);
    }
    assert_eq!(statuses(&sandbox), ["awaiting_agent", "failed", "succeeded", "succeeded"]);
}

#[test]
fn labels_join_with_the_calls_that_add_them_and_outlive_the_session() {
    let sandbox = guarded(json!({ "use": ["trifecta"] }));
    let send =
        |id: &str| before(&sandbox, id, "mcp__mail__send", json!({ "to": "eve@x.example", "body": "hi" }));
    assert_eq!(decide(&sandbox, &send("t1")), None);
    let read = before(&sandbox, "t2", "mcp__web__get", json!({ "url": "https://x.example" }));
    assert_eq!(decide(&sandbox, &read), None);
    let denied = decide(&sandbox, &send("t3")).unwrap();
    assert_eq!(denied.0, "deny");
    assert!(denied.1.contains("untrusted text and private data"), "{denied:?}");

    // A part that ended is followed by one with its labels; so is a session that reconnects.
    decide(&sandbox, &session_event(&sandbox, "SessionEnd", json!({ "reason": "clear" })));
    assert_eq!(decide(&sandbox, &send("t4")).unwrap().0, "deny");
    let mut other = send("t5");
    other["session_id"] = json!("another");
    assert_eq!(decide(&sandbox, &other).unwrap().0, "deny");
    // The client says that this one begins with an empty context.
    let mut fresh = session_event(&sandbox, "SessionStart", json!({ "source": "startup" }));
    fresh["session_id"] = json!("fresh");
    decide(&sandbox, &fresh);
    other["session_id"] = json!("fresh");
    assert_eq!(decide(&sandbox, &other), None);
}

#[test]
fn budget_counts_over_the_parts_of_a_session() {
    let sandbox = guarded(json!({ "budget": { "per_tool": { "client/shell": 2 } } }));
    let shell = |id: &str| before(&sandbox, id, "Bash", json!({ "command": id }));
    assert_eq!(decide(&sandbox, &shell("a")), None);
    decide(&sandbox, &session_event(&sandbox, "SessionEnd", json!({ "reason": "other" })));
    assert_eq!(decide(&sandbox, &shell("b")), None);
    let denied = decide(&sandbox, &shell("c")).unwrap();
    assert!(denied.0 == "deny" && denied.1.contains("budget of 2 calls of client/shell"), "{denied:?}");
}

#[test]
fn observing_refuses_nothing_but_what_config_demands() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "guard": { "mode": "observe", "rules": [{ "name": "no", "when": "true", "then": "deny" }], "ask": { "via": "refuse" } },
        "servers": { "client": { "tools": { "shell": { "approval": "required" } } } },
    }));
    let read = before(&sandbox, "t1", "Read", json!({ "file_path": "a.txt" }));
    assert_eq!(decide(&sandbox, &read), None);
    let shell = before(&sandbox, "t2", "Bash", json!({ "command": "ls" }));
    assert_eq!(decide(&sandbox, &shell).unwrap().0, "deny");
    assert_eq!(statuses(&sandbox), ["awaiting_agent", "cancelled"]);
}

#[test]
fn turns_and_sessions_that_end_settle_their_calls() {
    let sandbox = guarded(json!({}));
    let mut sub = before(&sandbox, "t1", "Bash", json!({ "command": "one" }));
    sub["agent_id"] = json!("agent-7");
    decide(&sandbox, &sub);
    decide(&sandbox, &before(&sandbox, "t2", "Bash", json!({ "command": "two" })));
    decide(&sandbox, &session_event(&sandbox, "SubagentStop", json!({ "agent_id": "agent-7" })));
    assert_eq!(statuses(&sandbox), ["unknown", "awaiting_agent"]);
    decide(&sandbox, &session_event(&sandbox, "SessionEnd", json!({ "reason": "logout" })));
    assert_eq!(statuses(&sandbox), ["unknown", "unknown"]);
    assert_eq!(sandbox.json(&["list"])[0]["status"], "succeeded");
    // A report that comes after all still counts.
    let failed = {
        let mut event = after(&sub, json!({}));
        event["hook_event_name"] = json!("PostToolUseFailure");
        event["error"] = json!("exit 1");
        event
    };
    decide(&sandbox, &failed);
    assert_eq!(statuses(&sandbox), ["failed", "unknown"]);
}

#[test]
fn call_of_which_only_the_end_is_seen_is_recorded_as_such() {
    let sandbox = guarded(json!({ "rules": [{ "name": "no", "when": "true", "then": "deny" }] }));
    let call = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    assert_eq!(decide(&sandbox, &after(&call, json!({ "stdout": "" }))), None);
    assert_eq!(statuses(&sandbox), ["succeeded"]);
    let added = sandbox.expect(0, &["journal", "--kind", "step_added", "--json"]);
    assert!(added.contains("not_seen"), "{added}");
}

#[test]
fn parallel_calls_of_a_new_session_are_steps_of_one_execution() {
    let sandbox = guarded(json!({}));
    let hooks: Vec<Child> = (0..6)
        .map(|no| {
            let event = before(&sandbox, &format!("t{no}"), "Bash", json!({ "command": no.to_string() }));
            start_hook(&sandbox, "claude-code", &event.to_string(), &[])
        })
        .collect();
    for hook in hooks {
        let ran = CliOutput::from(hook.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    }
    assert_eq!(sandbox.json(&["list"]).as_array().unwrap().len(), 1);
    assert_eq!(statuses(&sandbox).len(), 6);
}
