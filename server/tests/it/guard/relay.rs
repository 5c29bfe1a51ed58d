//! What else passes between a guarded agent and the servers: resources, prompts, completions, notifications and
//! questions, compared with what the reference server says directly.

use super::proxy::{GUARDED, agent, call, direct, text, with_plain_numbers};
use super::*;
use crate::mcp::agent::Agent;
use crate::reference_servers::npm_script;

/// A sandbox with the reference server as `everything`, and this `guard` section.
fn everything(guard: Value) -> Sandbox {
    let sandbox = Sandbox::new();
    let server = json!({ "command": "node", "args": [npm_script("server-everything"), "stdio"] });
    sandbox.write_config(json!({
        "mcpServers": { "everything": server }, "servers": { "everything": {} }, "guard": guard,
    }));
    sandbox
}

/// Requests whose answers do not depend on the time, as a client of the server itself sends them, and with the names
/// that the guarded agent knows.
fn requests() -> Vec<(&'static str, Value, Value)> {
    let same = |method, params: Value| (method, params.clone(), params);
    let prompt = |name: &str, arguments: Value| {
        let params = |name: &str| json!({ "name": name, "arguments": arguments });
        ("prompts/get", params(name), params(&format!("everything__{name}")))
    };
    let document = "demo://resource/static/document/features.md";
    let template = json!({ "type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}" });
    let reference = |name: &str| json!({ "type": "ref/prompt", "name": name });
    let complete =
        |reference: Value| json!({ "ref": reference, "argument": { "name": "department", "value": "E" } });
    vec![
        same("resources/read", json!({ "uri": document })),
        prompt("simple-prompt", json!({})),
        prompt("args-prompt", json!({ "city": "Oslo" })),
        prompt("args-prompt", json!({})),
        (
            "completion/complete",
            complete(reference("completable-prompt")),
            complete(reference("everything__completable-prompt")),
        ),
        same(
            "completion/complete",
            json!({ "ref": template, "argument": { "name": "resourceId", "value": "1" } }),
        ),
    ]
}

#[test]
fn resources_prompts_and_completions_equal_direct_ones_and_are_journaled() {
    let sandbox = everything(json!({}));
    let script = npm_script("server-everything").to_str().unwrap().to_owned();
    let mut direct = direct(&sandbox, "node", &[script, "stdio".to_owned()]);
    for era in ["legacy", "modern"] {
        let mut agent = agent(&sandbox, era, json!({}));
        for (method, list, key) in [
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ] {
            let listed = agent.request(method, json!({})).unwrap();
            for item in direct.request(method, json!({})).unwrap()[list].as_array().unwrap() {
                assert!(listed[list].as_array().unwrap().contains(item), "{era}: {}", item[key]);
            }
        }
        for (method, own, offered) in requests() {
            let expected = direct.request(method, own);
            let mut answer = agent.request(method, offered.clone());
            if let Ok(answer) = &mut answer {
                let fields = answer.as_object_mut().unwrap();
                fields.retain(|name, _| !["resultType", "ttlMs", "cacheScope"].contains(&name.as_str()));
            }
            let (answer, expected) = (answer.map(with_plain_numbers), expected.map(with_plain_numbers));
            assert_eq!(answer, expected, "{era}: {method} {offered}");
        }
        assert_eq!(statuses(&sandbox).len(), requests().len(), "{era}");
    }
    let tools = sandbox.json(&["show", &sandbox.newest()]);
    let tools: Vec<&str> =
        tools["steps"].as_array().unwrap().iter().map(|step| step["tool"].as_str().unwrap()).collect();
    assert!(
        tools.contains(&"everything/resources/read") && tools.contains(&"everything/prompts/get"),
        "{tools:?}"
    );
}

#[test]
fn rule_about_a_resource_holds() {
    let rule = json!({ "name": "no-docs", "when": "call.tool == 'everything/resources/read'", "then": "deny", "say": "no documents" });
    let sandbox = everything(json!({ "rules": [rule] }));
    let mut agent = agent(&sandbox, "legacy", json!({}));
    let params = json!({ "uri": "demo://resource/static/document/features.md" });
    let refused = agent.request("resources/read", params).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("no documents"), "{refused}");
    assert_eq!(statuses(&sandbox), ["failed"]);
    // Actbook's own resources are no server's.
    agent.request("resources/read", json!({ "uri": "actbook://guide" })).unwrap();
    assert_eq!(statuses(&sandbox), ["failed"]);
}

#[test]
fn change_of_a_list_is_announced() {
    let sandbox = super::proxy::shifty(json!({}));
    let mut agent = agent(&sandbox, "legacy", json!({}));
    call(&mut agent, "shifty__announce", json!({}));
    agent.wait_for_notification("notifications/tools/list_changed");
}

#[test]
fn progress_and_log_messages_are_relayed() {
    let sandbox = everything(json!({}));
    let mut agent = agent(&sandbox, "legacy", json!({}));
    agent.request("tools/list", json!({})).unwrap();
    let arguments = json!({ "duration": 1, "steps": 4 });
    let params = json!({
        "name": "everything__trigger-long-running-operation", "arguments": arguments, "_meta": { "progressToken": 7 },
    });
    let done = agent.request("tools/call", params).unwrap();
    assert_ne!(done["isError"], true, "{done}");
    let progress: Vec<&Value> =
        agent.notifications.iter().filter(|one| one["method"] == "notifications/progress").collect();
    let values = progress.iter().map(|one| one["params"]["progress"].as_f64().unwrap());
    let values: Vec<f64> = values.collect();
    // The last report is sent together with the answer, which may overtake it.
    assert!(values.starts_with(&[1.0, 2.0, 3.0]), "{values:?}");
    assert_eq!(progress[0]["params"]["progressToken"], 7);
    agent.request("logging/setLevel", json!({ "level": "debug" })).unwrap();
    call(&mut agent, "everything__toggle-simulated-logging", json!({}));
    agent.wait_for_notification("notifications/message");
}

#[test]
fn question_of_a_server_reaches_the_clients_person() {
    let sandbox =
        everything(json!({ "rules": [{ "name": "pins", "when": "tool.pin == 'new'", "then": "allow" }] }));
    let answered = |method: &str, params: &Value| {
        assert_eq!(method, "elicitation/create");
        assert!(params["requestedSchema"]["properties"].is_object(), "{params}");
        json!({ "action": "accept", "content": { "name": "Ada" } })
    };
    let capabilities = json!({ "elicitation": {} });
    let mut agent = Agent::legacy(&sandbox, &GUARDED, "2025-11-25", capabilities).with_replies(answered);
    let result = call(&mut agent, "everything__trigger-elicitation-request", json!({}));
    assert!(result["isError"] != true && result.to_string().contains("Ada"), "{}", text(&result));
}
