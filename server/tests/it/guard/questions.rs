//! Calls that a person is asked about: in the client, while the call waits, and afterwards.

use super::*;

/// A config whose rules ask about every shell command.
fn asking(ask: Value) -> Sandbox {
    let rule = json!({ "name": "shell", "when": r#"call.tool == "client/shell""#, "then": "ask", "say": "look at it" });
    guarded(json!({ "rules": [rule], "ask": ask }))
}

fn shell(sandbox: &Sandbox, id: &str, command: &str) -> Value {
    before(sandbox, id, "Bash", json!({ "command": command }))
}

#[test]
fn client_that_prompts_asks_its_own_person() {
    let sandbox = asking(json!({}));
    let call = shell(&sandbox, "t1", "make");
    let asked = decide(&sandbox, &call).unwrap();
    assert!(asked.0 == "ask" && asked.1.contains("look at it"), "{asked:?}");
    assert_eq!(decide(&sandbox, &after(&call, json!({}))), None);
    // It ran, so it was allowed there; nobody here said yes.
    assert_eq!(statuses(&sandbox), ["succeeded"]);
    assert!(!kinds(&sandbox).contains(&"step_approved".to_owned()));
    let added = sandbox.expect(0, &["journal", "--kind", "step_added", "--json"]);
    assert!(added.contains("asked_in_client"), "{added}");
}

#[test]
fn question_shows_the_rule_the_labels_and_until_when_a_yes_is_possible() {
    let sandbox = guarded(json!({
        "ask": { "via": "refuse" },
        "rules": [{ "name": "pushes", "when": "call.tool == 'client/shell'", "then": "ask" }],
    }));
    let read = before(&sandbox, "t1", "WebFetch", json!({ "url": "https://x.example" }));
    assert_eq!(decide(&sandbox, &read), None);
    let mut push = before(&sandbox, "t2", "Bash", json!({ "command": "git push" }));
    push["agent_id"] = json!("agent-7");
    assert_eq!(decide(&sandbox, &push).unwrap().0, "deny");
    let id = sandbox.newest();
    let shown = sandbox.expect(0, &["show", &id]);
    for words in
        ["Asked by the rule: pushes", "adds: untrusted", "Subagent: agent-7", "A yes is possible until: 20"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("Point of no return"), "{shown}");
    let server = crate::web::server::WebServer::start(&sandbox);
    let page = server.get("/questions").body;
    for words in ["pushes", "untrusted", "agent-7"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn held_call_is_allowed_once_a_person_approves() {
    let sandbox = asking(json!({ "via": "hold" }));
    let journal = sandbox.follow_journal();
    let call = shell(&sandbox, "t1", "make").to_string();
    let hook = start_hook(&sandbox, "claude-code", &call, &[]);
    journal.wait_for("approval_asked", Some("c1"));
    sandbox.expect(0, &["approve", &sandbox.newest(), "c1"]);
    let ran = CliOutput::from(hook.wait_with_output().unwrap());
    assert_eq!(decision(&ran).unwrap().0, "allow", "{}", ran.stderr);
    assert_eq!(statuses(&sandbox), ["awaiting_agent"]);
    assert!(kinds(&sandbox).contains(&"yes_spent".to_owned()));
}

#[test]
fn held_call_is_denied_once_a_person_rejects() {
    let sandbox = asking(json!({ "via": "hold" }));
    let journal = sandbox.follow_journal();
    let hook = start_hook(&sandbox, "claude-code", &shell(&sandbox, "t1", "make").to_string(), &[]);
    journal.wait_for("approval_asked", Some("c1"));
    sandbox.expect(0, &["reject", &sandbox.newest(), "c1", "--reason", "not now"]);
    let denied = decision(&hook.wait_with_output().unwrap().into()).unwrap();
    assert!(denied.0 == "deny" && denied.1.contains("not now"), "{denied:?}");
}

#[test]
fn call_that_nobody_answers_is_denied_with_the_command_that_approves_it() {
    let sandbox = asking(json!({ "via": "hold" }));
    let ran = run_hook(&sandbox, &shell(&sandbox, "t1", "make"), &["--limit", "5s"]);
    let denied = decision(&ran).unwrap();
    let id = sandbox.newest();
    assert!(denied.0 == "deny" && denied.1.contains(&format!("actbook approve {id} c1")), "{denied:?}");
    assert_eq!(statuses(&sandbox), ["cancelled"]);
    // The question is still open: a yes now is for the same call made again, once.
    sandbox.expect(0, &["approve", &id, "c1"]);
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t2", "make")).unwrap().0, "allow");
    let other = run_hook(&sandbox, &shell(&sandbox, "t3", "make install"), &["--limit", "5s"]);
    assert_eq!(decision(&other).unwrap().0, "deny");
    let again = run_hook(&sandbox, &shell(&sandbox, "t4", "make"), &["--limit", "5s"]);
    assert_eq!(decision(&again).unwrap().0, "deny");
}

#[test]
fn yes_of_another_session_is_not_spent() {
    let sandbox = asking(json!({ "via": "refuse" }));
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t1", "make")).unwrap().0, "deny");
    sandbox.expect(0, &["approve", &sandbox.newest(), "c1"]);
    let mut other = shell(&sandbox, "t1", "make");
    other["session_id"] = json!("another");
    assert_eq!(decide(&sandbox, &other).unwrap().0, "deny");
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t2", "make")).unwrap().0, "allow");
}

#[test]
fn approval_that_config_demands_is_never_left_to_the_client() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "guard": { "ask": { "via": "client" } },
        "servers": { "client": { "tools": { "shell": { "approval": "required" } } } },
    }));
    let ran = run_hook(&sandbox, &shell(&sandbox, "t1", "make"), &["--limit", "5s"]);
    assert_eq!(decision(&ran).unwrap().0, "deny");
}

#[test]
fn mode_without_prompts_holds_instead_of_asking() {
    let sandbox = asking(json!({}));
    let mut call = shell(&sandbox, "t1", "make");
    call["permission_mode"] = json!("bypassPermissions");
    let ran = run_hook(&sandbox, &call, &["--limit", "5s"]);
    assert_eq!(decision(&ran).unwrap().0, "deny");
}

#[test]
fn codex_is_neither_asked_nor_told_allow() {
    let sandbox = asking(json!({}));
    let call = shell(&sandbox, "t1", "make").to_string();
    let denied = start_hook(&sandbox, "codex", &call, &["--limit", "5s"]).wait_with_output().unwrap();
    assert_eq!(decision(&denied.into()).unwrap().0, "deny");
    sandbox.expect(0, &["approve", &sandbox.newest(), "c1"]);
    let again = shell(&sandbox, "t2", "make").to_string();
    let allowed = CliOutput::from(start_hook(&sandbox, "codex", &again, &[]).wait_with_output().unwrap());
    assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), ""), "{}", allowed.stderr);

    let sandbox = guarded(json!({ "use": ["stay-in-folder"] }));
    let patch = "*** Begin Patch\n*** Update File: a.txt\n*** Add File: /etc/cron.d/x\n*** End Patch";
    let call = before(&sandbox, "t1", "apply_patch", json!({ "command": patch })).to_string();
    let denied = start_hook(&sandbox, "codex", &call, &[]).wait_with_output().unwrap();
    assert_eq!(decision(&denied.into()).unwrap().0, "deny");
}

#[test]
fn yes_for_the_session_covers_the_tool_until_a_label_joins() {
    let sandbox = asking(json!({ "via": "refuse" }));
    decide(&sandbox, &shell(&sandbox, "t1", "make"));
    let id = sandbox.newest();
    sandbox.expect(0, &["approve", &id, "c1", "--for", "session"]);
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t2", "make install")).unwrap().0, "allow");
    decide(&sandbox, &before(&sandbox, "t3", "mcp__web__get", json!({ "url": "https://x.example" })));
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t4", "make")).unwrap().0, "deny");
    assert!(sandbox.expect(0, &["show", &id]).contains("labels untrusted"));
    sandbox.expect(0, &["session", "clear-label", &id, "untrusted", "--reason", "read it myself"]);
    // What was void stays so.
    assert_eq!(decide(&sandbox, &shell(&sandbox, "t5", "make")).unwrap().0, "deny");
    sandbox.expect(1, &["session", "clear-label", &id, "untrusted"]);
    sandbox.expect(2, &["approve", &id, "--for", "session"]);
}
