//! Every client in its own format: the events that it sends, and the answers that it reads. Whatever goes wrong, the
//! answer is a denial that this client understands.

use super::*;

/// A client, its events about a shell command, and how it reads an answer.
struct Client {
    name: &'static str,
    /// The event before the call; the fields beside session, folder and command are the client's.
    before: fn(&Sandbox, &str, &str) -> Value,
    after: fn(&Value) -> Value,
    /// The decision and its reason in the client's document.
    read: fn(&Value) -> (String, String),
    /// What the client prints where nothing stops the call.
    silent: &'static str,
    /// The client shows an `ask` to its person.
    asks: bool,
    /// The client is told `allow` after a person's yes.
    is_told_allow: bool,
}

fn pair(answer: &Value, decision: &str, reason: &str) -> (String, String) {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    (text(decision), text(reason))
}

fn nested(answer: &Value) -> (String, String) {
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "PreToolUse", "{answer}");
    let at = |name: &str| format!("/hookSpecificOutput/{name}");
    pair(answer, &at("permissionDecision"), &at("permissionDecisionReason"))
}

fn renamed(event: &Value, field: &str, name: &str, more: Value) -> Value {
    let mut event = event.clone();
    event[field] = json!(name);
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

const CLIENTS: [Client; 6] = [
    Client {
        name: "claude-code",
        before: |sandbox, id, command| before(sandbox, id, "Bash", json!({ "command": command })),
        after: |event| {
            renamed(event, "hook_event_name", "PostToolUse", json!({ "tool_response": { "stdout": "" } }))
        },
        read: nested,
        silent: "",
        asks: true,
        is_told_allow: true,
    },
    Client {
        name: "codex",
        before: |sandbox, id, command| {
            json!({
                "session_id": "9f0c", "turn_id": "1", "transcript_path": null, "cwd": sandbox.folder.path(), "model": "m",
                "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": "Bash",
                "tool_input": { "command": command }, "tool_use_id": id,
            })
        },
        after: |event| renamed(event, "hook_event_name", "PostToolUse", json!({ "tool_response": "" })),
        read: nested,
        silent: "",
        asks: false,
        is_told_allow: false,
    },
    Client {
        name: "cursor",
        before: |sandbox, id, command| {
            json!({
                "conversation_id": "9f0c", "generation_id": "g", "model": "default", "session_id": "9f0c",
                "hook_event_name": "preToolUse", "cursor_version": "3.9.16", "workspace_roots": [sandbox.folder.path()],
                "user_email": null, "transcript_path": null, "tool_name": "Shell", "cwd": "", "tool_use_id": id,
                "tool_input": { "command": command, "cwd": "", "timeout": 30000 },
            })
        },
        after: |event| {
            let output = json!({ "output": "", "exitCode": 0 }).to_string();
            renamed(
                event,
                "hook_event_name",
                "postToolUse",
                json!({ "tool_output": output, "duration": 7.2 }),
            )
        },
        read: |answer| {
            assert_eq!(answer["user_message"], answer["agent_message"], "{answer}");
            pair(answer, "/permission", "/user_message")
        },
        silent: "{\"permission\":\"allow\"}\n",
        asks: false,
        is_told_allow: true,
    },
    Client {
        name: "gemini",
        before: |sandbox, _id, command| {
            json!({
                "session_id": "9f0c", "transcript_path": "/tmp/t.json", "cwd": sandbox.folder.path(),
                "hook_event_name": "BeforeTool", "timestamp": "2026-11-01T10:00:00Z", "tool_name": "run_shell_command",
                "tool_input": { "command": command },
            })
        },
        after: |event| {
            renamed(
                event,
                "hook_event_name",
                "AfterTool",
                json!({ "tool_response": { "llmContent": "", "returnDisplay": "" } }),
            )
        },
        read: |answer| pair(answer, "/decision", "/reason"),
        silent: "",
        asks: false,
        is_told_allow: true,
    },
    Client {
        name: "vscode",
        before: |sandbox, id, command| {
            json!({
                "timestamp": "2026-02-09T10:30:00.000Z", "cwd": sandbox.folder.path(), "sessionId": "9f0c",
                "hookEventName": "PreToolUse", "transcript_path": "/tmp/t.json", "tool_name": "run_in_terminal",
                "tool_input": { "command": command, "explanation": "x", "isBackground": false }, "tool_use_id": id,
            })
        },
        after: |event| renamed(event, "hookEventName", "PostToolUse", json!({ "tool_response": "done" })),
        read: nested,
        silent: "",
        asks: true,
        is_told_allow: true,
    },
    Client {
        name: "copilot",
        before: |sandbox, _id, command| {
            json!({
                "sessionId": "9f0c", "timestamp": 1793520000000u64, "cwd": sandbox.folder.path(), "toolName": "bash",
                "toolArgs": { "command": command },
            })
        },
        after: |event| {
            let result = json!({ "resultType": "success", "textResultForLlm": "" });
            renamed(event, "toolName", "bash", json!({ "toolResult": result }))
        },
        read: |answer| pair(answer, "/permissionDecision", "/permissionDecisionReason"),
        silent: "",
        asks: true,
        is_told_allow: true,
    },
];

fn client(name: &str) -> &'static Client {
    CLIENTS.iter().find(|client| client.name == name).unwrap()
}

impl Client {
    fn run(&self, sandbox: &Sandbox, event: &str, more: &[&str]) -> CliOutput {
        start_hook(sandbox, self.name, event, more).wait_with_output().unwrap().into()
    }

    /// The decision about the event; `None`: none, in the client's own way to say so.
    #[track_caller]
    fn decide(&self, sandbox: &Sandbox, event: &Value, more: &[&str]) -> Option<(String, String)> {
        let ran = self.run(sandbox, &event.to_string(), more);
        assert_eq!(ran.code, Some(0), "{}: {}{}", self.name, ran.stdout, ran.stderr);
        if ran.stdout == self.silent {
            return None;
        }
        Some((self.read)(&serde_json::from_str(&ran.stdout).unwrap()))
    }

    /// Asserts that the answer denies the call in the client's own form, and returns what it says.
    #[track_caller]
    fn denies(&self, ran: CliOutput) -> String {
        if self.name == "cursor" {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let (decision, said) = (self.read)(&serde_json::from_str(&ran.stdout).unwrap());
            assert_eq!(decision, "deny", "{said}");
            return said;
        }
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}: {}", self.name, ran.stderr);
        ran.stderr
    }
}

#[test]
fn every_client_is_told_nothing_where_nothing_stops_a_call() {
    for client in &CLIENTS {
        let sandbox = guarded(json!({}));
        let call = (client.before)(&sandbox, "t1", "ls");
        assert_eq!(client.decide(&sandbox, &call, &[]), None, "{}", client.name);
        let ended = client.run(&sandbox, &(client.after)(&call).to_string(), &[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}: {}", client.name, ended.stderr);
        let id = sandbox.newest();
        let view = sandbox.json(&["show", &id]);
        assert_eq!(view["plan"]["name"], format!("{} session", client.name), "{view}");
        assert_eq!(view["steps"].as_array().unwrap().len(), 1, "{}", client.name);
        let step = sandbox.json(&["show", &id, "c1"]);
        assert_eq!(step["status"], "succeeded", "{step}");
        assert_eq!(step["tool"], "client/shell", "{step}");
        assert_eq!(step["arguments"]["command"], "ls", "{step}");
    }
}

#[test]
fn every_client_is_denied_in_its_own_form() {
    let rule =
        json!({ "name": "shell", "when": "call.tool == 'client/shell'", "then": "deny", "say": "not here" });
    for client in &CLIENTS {
        let sandbox = guarded(json!({ "rules": [rule] }));
        let (decision, said) =
            client.decide(&sandbox, &(client.before)(&sandbox, "t1", "rm -r ."), &[]).unwrap();
        assert_eq!((decision.as_str(), said.as_str()), ("deny", "Actbook: not here"), "{}", client.name);
        assert_eq!(statuses(&sandbox), ["failed"]);
    }
}

#[test]
fn question_goes_to_the_client_or_waits_and_a_late_yes_is_for_the_same_call() {
    let rule =
        json!({ "name": "shell", "when": "call.tool == 'client/shell'", "then": "ask", "say": "look" });
    for client in &CLIENTS {
        let sandbox = guarded(json!({ "rules": [rule] }));
        let call = (client.before)(&sandbox, "t1", "make");
        let (decision, said) = client.decide(&sandbox, &call, &["--limit", "5s"]).unwrap();
        if client.asks {
            assert_eq!((decision.as_str(), said.as_str()), ("ask", "Actbook: look"), "{}", client.name);
            client.run(&sandbox, &(client.after)(&call).to_string(), &[]);
            assert_eq!(statuses(&sandbox), ["succeeded"], "{}", client.name);
            continue;
        }
        let id = sandbox.newest();
        let advice = format!("actbook approve {id} c1");
        assert!(decision == "deny" && said.contains(&advice), "{}: {decision} {said}", client.name);
        sandbox.expect(0, &["approve", &id, "c1"]);
        let again = client.decide(&sandbox, &(client.before)(&sandbox, "t2", "make"), &["--limit", "5s"]);
        let told = again.map(|(decision, _)| decision);
        assert_eq!(told.as_deref(), client.is_told_allow.then_some("allow"), "{}", client.name);
        assert_eq!(statuses(&sandbox), ["cancelled", "awaiting_agent"], "{}", client.name);
    }
}

#[test]
fn garbage_and_a_database_that_cannot_be_opened_deny_in_the_clients_form() {
    for client in &CLIENTS {
        let sandbox = guarded(json!({}));
        let whole = (client.before)(&sandbox, "t1", "ls");
        for text in ["", "{", "null", "[]", "{}", "\u{0}", "\"x\"", "{\"session_id\": 1}"] {
            client.denies(client.run(&sandbox, text, &[]));
        }
        for field in ["tool_name", "tool_input", "toolArgs", "session_id", "sessionId"] {
            let mut event = whole.clone();
            if event.as_object_mut().unwrap().remove(field).is_none() {
                continue;
            }
            if field == "session_id" {
                event.as_object_mut().unwrap().remove("conversation_id");
            }
            client.denies(client.run(&sandbox, &event.to_string(), &[]));
        }
        let broken =
            Sandbox { database: Some(sandbox.folder.path().to_str().unwrap().to_owned()), ..sandbox };
        client.denies(client.run(&broken, &whole.to_string(), &[]));
    }
}

#[test]
fn calls_without_an_id_are_paired_by_their_input_oldest_first() {
    for name in ["gemini", "copilot"] {
        let (client, sandbox) = (client(name), guarded(json!({})));
        for command in ["one", "two", "one"] {
            assert_eq!(client.decide(&sandbox, &(client.before)(&sandbox, "", command), &[]), None);
        }
        let ended = |command: &str| {
            let event = (client.after)(&(client.before)(&sandbox, "", command));
            client.run(&sandbox, &event.to_string(), &[]);
            statuses(&sandbox)
        };
        assert_eq!(ended("one"), ["succeeded", "awaiting_agent", "awaiting_agent"], "{name}");
        assert_eq!(ended("two"), ["succeeded", "succeeded", "awaiting_agent"], "{name}");
        assert_eq!(ended("one"), ["succeeded", "succeeded", "succeeded"], "{name}");
    }
}

#[test]
fn failures_in_a_result_and_refusals_by_others_are_recorded_as_such() {
    let sandbox = guarded(json!({}));
    let (gemini, cursor, copilot) = (client("gemini"), client("cursor"), client("copilot"));
    let call = (gemini.before)(&sandbox, "", "false");
    gemini.decide(&sandbox, &call, &[]);
    let failed = renamed(
        &call,
        "hook_event_name",
        "AfterTool",
        json!({ "tool_response": { "error": { "message": "exit 1" } } }),
    );
    gemini.run(&sandbox, &failed.to_string(), &[]);
    assert_eq!(statuses(&sandbox), ["failed"]);

    // The refusal that Cursor reports is of a call that was not made, whoever refused it.
    let call = (cursor.before)(&sandbox, "t1", "ls");
    cursor.decide(&sandbox, &call, &[]);
    let more = json!({ "failure_type": "permission_denied", "error_message": "no", "is_interrupt": false });
    let refused = renamed(&call, "hook_event_name", "postToolUseFailure", more);
    cursor.run(&sandbox, &refused.to_string(), &[]);
    cursor.run(&sandbox, &renamed(&refused, "tool_use_id", "t2", json!({})).to_string(), &[]);
    assert_eq!(statuses(&sandbox), ["failed"]);
    let ended = sandbox.expect(0, &["journal", "--kind", "attempt_ended", "--json"]);
    assert!(ended.contains("\"unsent\":true"), "{ended}");

    let call = (copilot.before)(&sandbox, "", "ls");
    copilot.decide(&sandbox, &call, &[]);
    copilot.run(&sandbox, &renamed(&call, "error", "exit 1", json!({})).to_string(), &[]);
    assert_eq!(statuses(&sandbox), ["failed"]);
}

#[test]
fn granular_event_of_cursor_is_the_call_that_its_generic_event_told() {
    let rule = json!({ "name": "push", "when": "call.arguments.command.contains('push')", "then": "deny" });
    let (cursor, sandbox) = (client("cursor"), guarded(json!({ "rules": [rule], "unknown": "allow" })));
    let granular = |name: &str, command: &str| {
        json!({
            "conversation_id": "9f0c", "hook_event_name": name, "workspace_roots": [sandbox.folder.path()],
            "command": command, "cwd": "", "sandbox": false, "output": "", "duration": 7,
        })
    };
    let call = (cursor.before)(&sandbox, "t1", "ls");
    assert_eq!(cursor.decide(&sandbox, &call, &[]), None);
    assert_eq!(cursor.decide(&sandbox, &granular("beforeShellExecution", "ls"), &[]), None);
    cursor.run(&sandbox, &granular("afterShellExecution", "ls").to_string(), &[]);
    cursor.run(&sandbox, &(cursor.after)(&call).to_string(), &[]);
    assert_eq!(statuses(&sandbox), ["succeeded"], "one call");
    let push = (cursor.before)(&sandbox, "t2", "git push");
    assert_eq!(cursor.decide(&sandbox, &push, &[]).unwrap().0, "deny");
    let denied = cursor.decide(&sandbox, &granular("beforeShellExecution", "git push"), &[]);
    assert_eq!(denied.unwrap().0, "deny");
    assert_eq!(statuses(&sandbox), ["succeeded", "failed"]);
    // Alone, it is a call of its own, and judged as such.
    let denied = cursor.decide(&sandbox, &granular("beforeShellExecution", "git push -f"), &[]);
    assert_eq!(denied.unwrap().0, "deny");
    cursor.decide(&sandbox, &granular("beforeShellExecution", "make"), &[]);
    cursor.run(&sandbox, &granular("afterShellExecution", "make").to_string(), &[]);
    assert_eq!(statuses(&sandbox), ["succeeded", "failed", "failed", "succeeded"]);
}

#[test]
fn tools_of_servers_keep_their_names_and_none_passes_for_the_clients_own() {
    let sandbox = guarded(json!({ "unknown": "allow" }));
    let tool_of = |name: &str, change: &dyn Fn(&mut Value)| {
        let client = client(name);
        let mut event = (client.before)(&sandbox, "t1", "x");
        event["session_id"] = json!(format!("{}-{change:p}", name));
        change(&mut event);
        client.run(&sandbox, &event.to_string(), &[]);
        sandbox.json(&["show", &sandbox.newest(), "c1"])["tool"].as_str().unwrap().to_owned()
    };
    let named = |event: &mut Value| event["tool_name"] = json!("mcp__mail__send_it");
    assert_eq!(tool_of("claude-code", &named), "mail/send_it");
    let built_in = |event: &mut Value| event["tool_name"] = json!("mcp__client__read");
    assert_eq!(tool_of("claude-code", &built_in), "client/mcp");
    let context = |event: &mut Value| {
        event["tool_name"] = json!("mcp_my_mail_send");
        event["mcp_context"] = json!({ "server_name": "my_mail", "tool_name": "send", "command": "x" });
    };
    assert_eq!(tool_of("gemini", &context), "my_mail/send");
    let forged = |event: &mut Value| {
        event["tool_name"] = json!("mcp_client_read");
        event["mcp_context"] = json!({ "server_name": "client", "tool_name": "read" });
    };
    assert_eq!(tool_of("gemini", &forged), "client/mcp");
    let nameless = |event: &mut Value| event["tool_name"] = json!("MCP:send");
    assert_eq!(tool_of("cursor", &nameless), "client/mcp");
    let unknown = |event: &mut Value| event["toolName"] = json!("teleport");
    assert_eq!(tool_of("copilot", &unknown), "client/other");
}
