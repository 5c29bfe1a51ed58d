//! The hooks of agents' clients as an interface of the matrix: the client makes the call, and the hook denies it.

use serde_json::{Value, json};

use super::{Demand, Role};
use crate::cli::Sandbox;
use crate::guard::{before, run_hook};

/// What a hook has of a cell of the matrix.
enum HookCell {
    /// The calls before the one that is denied, as the client reports them.
    Denied { settings: Value, guard: Value, earlier: Earlier },
    /// There is no such call, or it is tried elsewhere.
    None,
}

/// How an equal call before the denied one ended.
#[derive(Clone, Copy, PartialEq)]
enum Earlier {
    NoCall,
    Succeeded,
    Unknown,
}

/// A call of `files/write_file` in this role, with this demand on the tool.
fn hook_cell(role: Role, demand: Demand) -> HookCell {
    use {Demand as D, Role as R};
    let repeated = |settings| HookCell::Denied { settings, guard: json!({}), earlier: Earlier::Unknown };
    match (role, demand) {
        (R::Step, D::Approval) => HookCell::Denied {
            settings: json!({ "approval": "required" }),
            guard: json!({ "ask": { "via": "client" } }),
            earlier: Earlier::NoCall,
        },
        (R::Step, D::Budget) => HookCell::Denied {
            settings: json!({}),
            guard: json!({ "budget": { "calls": 1 } }),
            earlier: Earlier::Succeeded,
        },
        // Clients make a call again by themselves.
        (R::Repetition, D::NotIdempotent) => repeated(json!({ "idempotent": false })),
        (R::Repetition, D::NotReadOnly) => repeated(json!({ "read_only": false })),
        (R::Repetition, D::NotTrusted) => repeated(json!({})),
        // It is a step of its own: the cells of the step hold.
        (R::Repetition, D::Approval | D::Budget) => HookCell::None,
        // They speak of repeating a call.
        (R::Step, D::NotReadOnly | D::NotIdempotent | D::NotTrusted) => HookCell::None,
        // An answer about a session's call makes none, and a hook drives nothing that could be taken over.
        (R::AnsweredRetry | R::Reply | R::Takeover, _) => HookCell::None,
        // `actbook undo` makes it, not a hook; a plan's driver probes.
        (R::Compensation | R::Probe, _) => HookCell::None,
        // A hook sees no definitions.
        (_, D::Pin) => HookCell::None,
    }
}

fn check_hook(name: &str, (settings, guard): (&Value, &Value), earlier: Earlier) {
    let sandbox = Sandbox::new();
    let mut guard = guard.clone();
    guard["unknown"] = json!("allow");
    guard["ask"] = guard.get("ask").cloned().unwrap_or_else(|| json!({ "via": "refuse" }));
    sandbox.write_config(
        json!({ "guard": guard, "servers": { "files": { "tools": { "write_file": settings } } } }),
    );
    let call = |id: &str| before(&sandbox, id, "mcp__files__write_file", json!({ "path": "a.txt" }));
    let tell = |event: &Value| run_hook(&sandbox, event, &["--limit", "5s"]);
    if earlier != Earlier::NoCall {
        let first = tell(&call("t1"));
        assert_eq!(
            (first.code, first.stdout.as_str()),
            (Some(0), ""),
            "{name}, the first call: {}",
            first.stderr
        );
        let mut ended = call("t1");
        ended["hook_event_name"] = json!(if earlier == Earlier::Unknown { "Stop" } else { "PostToolUse" });
        tell(&ended);
    }
    let last = tell(&call("t2"));
    assert!(last.stdout.contains(r#""permissionDecision":"deny""#), "{name}: {}{}", last.stdout, last.stderr);
}

#[test]
fn no_hook_lets_a_call_pass_that_the_config_forbids() {
    let mut denied = 0;
    for (role, demand) in
        Role::ALL.iter().flat_map(|role| Demand::ALL.iter().map(move |demand| (*role, *demand)))
    {
        if let HookCell::Denied { settings, guard, earlier } = hook_cell(role, demand) {
            check_hook(&format!("{role} under {demand}"), (&settings, &guard), earlier);
            denied += 1;
        }
    }
    assert_eq!(denied, 5);
}

#[test]
fn no_hook_works_with_a_config_that_nobody_trusts() {
    let sandbox = Sandbox::new();
    std::fs::remove_dir_all(sandbox.path("data")).unwrap();
    std::fs::write(sandbox.path("actbook.yaml"), r#"{ "guard": { "unknown": "allow" } }"#).unwrap();
    let ran = run_hook(&sandbox, &before(&sandbox, "t1", "mcp__files__write_file", json!({})), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("actbook trust"), "{}", ran.stderr);
}
