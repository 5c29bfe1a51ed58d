//! What a client can discover: tool lists within their token budget, correct hints, prompts, resources and
//! completions; and invalid arguments, which are refused with a suggestion.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{hold_step, work_plan, write_step};
use crate::cli::Sandbox;

/// Limits of `tools/list` in tokens of a model.
const RUN_TOKENS_MAX: usize = 5_000;
const RECORD_TOKENS_MAX: usize = 4_000;
/// The limit of the full profile, which has the run tools, the record tools and all others.
const FULL_TOKENS_MAX: usize = 6_500;

fn list_tools(sandbox: &Sandbox, profile: &str) -> Value {
    let mut agent = Agent::legacy(sandbox, &["mcp", "--tools", profile], "2025-11-25", json!({}));
    agent.request("tools/list", json!({})).unwrap()
}

#[test]
fn tool_lists_stay_within_their_token_budget() {
    let sandbox = Sandbox::new();
    let counter = tiktoken_rs::o200k_base().unwrap();
    let tokens = |list: &Value| counter.encode_ordinary(&list["tools"].to_string()).len();
    let (run, record) = (tokens(&list_tools(&sandbox, "run")), tokens(&list_tools(&sandbox, "record")));
    assert!(run <= RUN_TOKENS_MAX, "the default list has {run} tokens");
    assert!(record <= RECORD_TOKENS_MAX, "the record list has {record} tokens");
    let full = tokens(&list_tools(&sandbox, "full"));
    assert!(full <= FULL_TOKENS_MAX, "the full list has {full} tokens");
}

#[test]
fn tool_list_is_deterministic_and_cacheable() {
    let sandbox = Sandbox::new();
    let list = list_tools(&sandbox, "run");
    assert_eq!(list, list_tools(&sandbox, "run"));
    assert!(list["ttlMs"].as_u64().unwrap() > 0 && list["cacheScope"] == "public");
    for tool in list["tools"].as_array().unwrap() {
        let hints = &tool["annotations"];
        let changes = tool["inputSchema"]["properties"].get("idempotency_key").is_some();
        assert_eq!(hints["readOnlyHint"], !changes, "{}", tool["name"]);
        assert!(hints["openWorldHint"].is_boolean(), "{}", tool["name"]);
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    }
}

#[test]
fn invalid_arguments_are_refused_with_path_and_suggestion() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let unknown = agent.call_refused("control", json!({ "execution_id": "x", "acton": "pause" }));
    assert_eq!(unknown.content["error"]["path"], "acton");
    assert!(unknown.text.contains("did you mean `action`?"), "{}", unknown.text);
    let word = agent.call_refused("control", json!({ "execution_id": "x", "action": "aprove" }));
    assert!(word.text.contains("did you mean `approve`?"), "{}", word.text);
    let missing = agent.call_refused("record_compensation", json!({ "execution_id": "x" }));
    assert_eq!(missing.content["error"]["code"], "missing_argument");
    let kind = agent.call_refused("status", json!({ "wait_s": "long" }));
    assert_eq!(kind.content["error"]["path"], "wait_s");
    let neither = agent.call_refused("execute_plan", json!({}));
    assert!(neither.text.contains("plan_id"), "{}", neither.text);
    let both = agent.call_refused("execute_plan", json!({ "plan_id": "x", "plan": {} }));
    assert_eq!(both.content["error"]["code"], "invalid_argument", "{}", both.text);
    let past = agent.call_refused("status", json!({ "execution_id": "x", "wait_s": -1 }));
    assert_eq!(past.content["error"]["path"], "wait_s", "{}", past.text);
    let nobody = agent.request("tools/call", json!({ "name": "nope", "arguments": {} })).unwrap_err();
    assert!(nobody["message"].as_str().unwrap().starts_with("Unknown tool: nope. There are:"), "{nobody}");
    let strange = agent.request("tools/call", json!({ "name": "statu", "arguments": {} })).unwrap_err();
    assert!(strange["message"].as_str().unwrap().contains("did you mean `status`?"), "{strange}");
    let bare = agent.call_refused("save_plan", json!({ "name": "p", "steps": [] }));
    assert!(bare.text.contains("it belongs to the plan: save_plan {\"plan\": {"), "{}", bare.text);
    let server = agent.call_refused("list_tools", json!({ "server": "file" }));
    assert!(server.text.contains("did you mean `files`? there are: "), "{}", server.text);
    // An optional argument may be null.
    agent.call_ok("status", json!({ "execution_id": null }));
}

#[test]
fn documents_are_taken_as_text_and_search_finds_what_has_most_of_the_words() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let inputs = "inputs: { type: object, properties: { path: { type: string } }, required: [path] }";
    let step = "{ id: a, tool: files/write_file, arguments: { path: \"${inputs.path}\", content: x } }";
    let fenced = format!("```yaml\nname: fenced\n{inputs}\nsteps: [{step}]\n```");
    let ran = json!({ "plan": fenced, "inputs": "{\"path\": \"a.txt\"}", "wait_s": 30 });
    assert_eq!(agent.call_ok("execute_plan", ran).content["status"], "succeeded");
    let without = agent.call_refused("execute_plan", json!({ "plan_id": "fenced" }));
    assert!(without.text.contains("give it under `inputs`"), "{}", without.text);
    let text = agent.call_refused("execute_plan", json!({ "plan_id": "fenced", "inputs": "[1" }));
    assert_eq!(text.content["error"]["path"], "inputs", "{}", text.text);
    let found = agent.call_ok("list_tools", json!({ "search": "write entities file" }));
    assert!(
        found.text.contains("these have 2 of them") && found.text.contains("files/write_file"),
        "{}",
        found.text
    );
    let near = agent.call_ok("list_tools", json!({ "search": "writefiel" }));
    assert!(near.text.contains("Did you mean"), "{}", near.text);
}

/// An agent has no command line, so its refusals suggest calls.
#[test]
fn refusals_suggest_mcp_calls_instead_of_commands() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let journal = sandbox.follow_journal();
    let plan = work_plan(&[write_step("first", "a.txt"), hold_step("wait")]);
    let id = agent.call_ok("execute_plan", json!({ "plan": plan })).id().to_owned();
    journal.wait_for("attempt_started", Some("wait"));
    agent.call_ok("control", json!({ "execution_id": id, "action": "pause" }));
    let unreached = json!({ "name": "p", "steps": [{ "id": "a", "tool": "elsewhere/thing" }] });
    let undo = json!({ "execution_id": id, "step_id": "first", "action_taken": "removed it" });
    let cases = [
        ("status", json!({ "execution_id": "nope" }), "status without arguments"),
        ("status", json!({ "task": "nope" }), "the id of a task that a plan, an execution or a note names"),
        ("execute_plan", json!({ "plan_id": "nope" }), "plan {\"action\":\"list\"} shows them"),
        ("save_plan", json!({ "plan": unreached }), "list_tools shows what there is"),
        ("control", json!({ "execution_id": id, "action": "pause" }), "status with its execution_id"),
        ("record_compensation", undo, "action \"cancel\""),
        ("set_context", json!({ "key": "nope", "delete": true }), "query_context with `search`"),
    ];
    for (tool, arguments, cure) in cases {
        let refusal = agent.call_refused(tool, arguments);
        assert!(refusal.text.contains(cure), "{tool}: {}", refusal.text);
        assert!(refusal.content["error"]["cure"].as_str().unwrap().contains(cure), "{}", refusal.content);
        assert!(!refusal.text.contains("`actbook"), "{tool}: {}", refusal.text);
    }
    let check = agent.call_ok("save_plan", json!({ "plan": unreached, "dry_run": true }));
    assert!(check.text.contains("list_tools shows what there is"), "{}", check.text);
    sandbox.release();
    sandbox.write("actbook.yaml", "{}");
    let tools = Agent::new(&sandbox).call_ok("list_tools", json!({}));
    assert!(tools.text.contains("names servers in actbook.yaml"), "{}", tools.text);
}

#[test]
fn listed_resources_are_readable_and_examples_are_valid_plans() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "actbook.yaml",
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/actbook.yaml")).unwrap(),
    );
    let mut agent = Agent::new(&sandbox);
    let listed = agent.request("resources/list", json!({})).unwrap();
    let uris: Vec<String> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["uri"].as_str().unwrap().to_owned())
        .collect();
    for name in ["travel-booking", "database-migration", "file-pipeline", "release"] {
        assert!(uris.contains(&format!("actbook://examples/{name}")), "{uris:?}");
    }
    let schema = agent.request("resources/read", json!({ "uri": "actbook://plan-format" })).unwrap();
    let schema: Value = serde_json::from_str(schema["contents"][1]["text"].as_str().unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for uri in uris {
        let read = agent.request("resources/read", json!({ "uri": uri })).unwrap();
        let text = read["contents"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.len() > 200, "{uri}");
        if uri.contains("/examples/") {
            let plan: Value = serde_saphyr::from_str(&text).unwrap();
            assert!(schema.is_valid(&plan), "{uri} does not fit the schema");
            agent.call_ok("save_plan", json!({ "plan": text }));
        }
    }
    let missing =
        agent.request("resources/read", json!({ "uri": "actbook://executions/nobody" })).unwrap_err();
    assert_eq!(missing["code"], -32002);
}

#[test]
fn plan_schema_accepts_documented_fields_and_no_others() {
    let schema = include_str!("../../../src/mcp/resources/plan.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let documented = include_str!("../../../../engine/tests/it/plan/documented.yaml");
    let mut plan: Value = serde_saphyr::from_str(documented).unwrap();
    assert!(schema.is_valid(&plan));
    plan["steps"][0]["dependson"] = json!([]);
    assert!(!schema.is_valid(&plan));
}

#[test]
fn plans_executions_and_journals_are_read_and_completed_by_their_ids() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let started = agent
        .call_ok("execute_plan", json!({ "plan": work_plan(&[write_step("a", "a.txt")]), "wait_s": 60 }));
    let id = started.id().to_owned();
    let read = |agent: &mut Agent, uri: String| -> Value {
        let read = agent.request("resources/read", json!({ "uri": uri })).unwrap();
        serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    assert_eq!(read(&mut agent, format!("actbook://executions/{id}"))["status"], "succeeded");
    let journal = read(&mut agent, format!("actbook://executions/{id}/journal"));
    assert_eq!(journal.as_array().unwrap().last().unwrap()["kind"], "execution_ended.1");
    assert!(read(&mut agent, "actbook://plans/work".to_owned())["document"].is_string());
    let complete = |agent: &mut Agent, reference: Value, name: &str, value: &str| -> Value {
        let argument = json!({ "name": name, "value": value });
        let completed =
            agent.request("completion/complete", json!({ "ref": reference, "argument": argument }));
        completed.unwrap()["completion"]["values"].clone()
    };
    let template = json!({ "type": "ref/resource", "uri": "actbook://executions/{id}" });
    assert_eq!(complete(&mut agent, template, "id", &id[..4]), json!([id]));
    let prompt = json!({ "type": "ref/prompt", "name": "review_plan" });
    assert_eq!(complete(&mut agent, prompt, "plan_id", "wo"), json!(["work"]));
}

#[test]
fn prompts_contain_current_tools_and_executions() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let failing =
        json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let blocked = agent.call_ok(
        "execute_plan",
        json!({ "plan": work_plan(&[write_step("a", "a.txt"), failing]), "wait_s": 60 }),
    );
    let id = blocked.id().to_owned();
    let get = |agent: &mut Agent, name: &str, arguments: Value| -> String {
        let got = agent.request("prompts/get", json!({ "name": name, "arguments": arguments })).unwrap();
        got["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    let listed = agent.request("prompts/list", json!({})).unwrap();
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 4);
    let plan = get(&mut agent, "plan_work", json!({ "goal": "append a line to a file" }));
    assert!(plan.contains("files/append_file") && plan.contains("append a line"), "{plan}");
    assert!(get(&mut agent, "review_plan", json!({ "plan_id": "work" })).contains("point_of_no_return"));
    let recover = get(&mut agent, "recover_execution", json!({ "execution_id": id }));
    assert!(recover.contains("Step `bad` is failed") && recover.contains("control {"), "{recover}");
    assert!(get(&mut agent, "resume_work", json!({})).contains(&id));
    let missing = agent.request("prompts/get", json!({ "name": "plan_work", "arguments": {} })).unwrap_err();
    assert!(missing["message"].as_str().unwrap().contains("goal"));
}

#[test]
fn answer_about_a_large_execution_is_cut_and_counted() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let long = "x".repeat(10_000);
    let mut list: Vec<Value> = (0..300)
        .map(|n| json!({ "id": format!("s{n}"), "tool": "files/echo", "arguments": { "long": long }, "read_only": true }))
        .collect();
    list.push(json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } }));
    let blocked = agent.call_ok("execute_plan", json!({ "plan": work_plan(&list), "wait_s": 120 }));
    assert_eq!(blocked.content["status"], "blocked");
    let shown = blocked.content["steps"].as_array().unwrap();
    assert!(shown.iter().any(|step| step["id"] == "bad"), "the failed step is shown");
    assert_eq!(shown.len() as u64 + blocked.content["steps_left_out"].as_u64().unwrap(), 301);
    // What is cut is counted, in the text and in the content.
    assert_eq!(blocked.content["brief"]["done"].as_array().unwrap().len(), 40);
    assert_eq!(blocked.content["brief"]["left_out"]["done"], 260);
    assert!(blocked.text.contains(", s39 and 260 more;"), "{}", blocked.text);
    let bytes = blocked.full_result.to_string().len();
    assert!(bytes < 200_000, "the answer has {bytes} bytes");
    assert!(blocked.text.len() < 8_000, "the text has {} bytes", blocked.text.len());
}
