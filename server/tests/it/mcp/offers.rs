//! What a client can discover: tool lists within their token budget, correct hints, prompts, resources and
//! completions; and invalid arguments, which are refused with a suggestion.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{hold, steps, write};
use crate::cli::House;

/// Limits of `tools/list` in tokens of a model.
const RUN_MAX: usize = 5_000;
const RECORD_MAX: usize = 4_000;
/// The limit of the full profile, which has the run tools, the record tools and all others.
const FULL_MAX: usize = 6_500;

fn listed(house: &House, profile: &str) -> Value {
    let mut agent = Agent::legacy(house, &["mcp", "--tools", profile], "2025-11-25", json!({}));
    agent.request("tools/list", json!({})).unwrap()
}

#[test]
fn the_lists_of_tools_keep_their_budget_of_tokens() {
    let house = House::new();
    let counter = tiktoken_rs::o200k_base().unwrap();
    let tokens = |list: &Value| counter.encode_ordinary(&list["tools"].to_string()).len();
    let (run, record) = (tokens(&listed(&house, "run")), tokens(&listed(&house, "record")));
    assert!(run <= RUN_MAX, "the default list has {run} tokens");
    assert!(record <= RECORD_MAX, "the record list has {record} tokens");
    let full = tokens(&listed(&house, "full"));
    assert!(full <= FULL_MAX, "the full list has {full} tokens");
}

#[test]
fn lists_are_the_same_every_time_and_say_how_long_they_hold() {
    let house = House::new();
    let list = listed(&house, "run");
    assert_eq!(list, listed(&house, "run"));
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
fn arguments_are_refused_with_their_path_and_what_was_meant() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let unknown = agent.refused("control", json!({ "execution_id": "x", "acton": "pause" }));
    assert_eq!(unknown.content["error"]["path"], "acton");
    assert!(unknown.text.contains("did you mean `action`?"), "{}", unknown.text);
    let word = agent.refused("control", json!({ "execution_id": "x", "action": "aprove" }));
    assert!(word.text.contains("did you mean `approve`?"), "{}", word.text);
    let missing = agent.refused("record_compensation", json!({ "execution_id": "x" }));
    assert_eq!(missing.content["error"]["code"], "missing_argument");
    let kind = agent.refused("status", json!({ "wait_s": "long" }));
    assert_eq!(kind.content["error"]["path"], "wait_s");
    let neither = agent.refused("execute_plan", json!({}));
    assert!(neither.text.contains("plan_id"), "{}", neither.text);
    let both = agent.refused("execute_plan", json!({ "plan_id": "x", "plan": {} }));
    assert_eq!(both.content["error"]["code"], "invalid_argument", "{}", both.text);
    let past = agent.refused("status", json!({ "execution_id": "x", "wait_s": -1 }));
    assert_eq!(past.content["error"]["path"], "wait_s", "{}", past.text);
    let nobody = agent.request("tools/call", json!({ "name": "nope", "arguments": {} })).unwrap_err();
    assert!(nobody["message"].as_str().unwrap().starts_with("Unknown tool: nope. There are:"), "{nobody}");
    let strange = agent.request("tools/call", json!({ "name": "statu", "arguments": {} })).unwrap_err();
    assert!(strange["message"].as_str().unwrap().contains("did you mean `status`?"), "{strange}");
    // An optional argument may be null.
    agent.good("status", json!({ "execution_id": null }));
}

/// An agent has no command line, so its refusals suggest calls.
#[test]
fn refusals_name_what_an_agent_can_do() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let journal = house.journal();
    let plan = steps(&[write("first", "a.txt"), hold("wait")]);
    let id = agent.good("execute_plan", json!({ "plan": plan })).id().to_owned();
    journal.until("attempt_started", Some("wait"));
    agent.good("control", json!({ "execution_id": id, "action": "pause" }));
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
        let refusal = agent.refused(tool, arguments);
        assert!(refusal.text.contains(cure), "{tool}: {}", refusal.text);
        assert!(refusal.content["error"]["cure"].as_str().unwrap().contains(cure), "{}", refusal.content);
        assert!(!refusal.text.contains("`actbook"), "{tool}: {}", refusal.text);
    }
    let check = agent.good("save_plan", json!({ "plan": unreached, "dry_run": true }));
    assert!(check.text.contains("list_tools shows what there is"), "{}", check.text);
    house.release();
    house.write("actbook.yaml", "{}");
    let tools = Agent::new(&house).good("list_tools", json!({}));
    assert!(tools.text.contains("names servers in actbook.yaml"), "{}", tools.text);
}

#[test]
fn everything_that_is_listed_can_be_read_and_the_examples_are_good_plans() {
    let house = House::new();
    house.write(
        "actbook.yaml",
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/actbook.yaml")).unwrap(),
    );
    let mut agent = Agent::new(&house);
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
            agent.good("save_plan", json!({ "plan": text }));
        }
    }
    let missing =
        agent.request("resources/read", json!({ "uri": "actbook://executions/nobody" })).unwrap_err();
    assert_eq!(missing["code"], -32002);
}

#[test]
fn the_plan_schema_knows_every_field_and_no_other() {
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
    let house = House::new();
    let mut agent = Agent::new(&house);
    let started = agent.good("execute_plan", json!({ "plan": steps(&[write("a", "a.txt")]), "wait_s": 60 }));
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
fn prompts_teach_with_the_live_tools_and_the_live_work() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let failing =
        json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } });
    let blocked =
        agent.good("execute_plan", json!({ "plan": steps(&[write("a", "a.txt"), failing]), "wait_s": 60 }));
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
fn a_large_execution_does_not_flood_its_reader() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let long = "x".repeat(10_000);
    let mut list: Vec<Value> = (0..300)
        .map(|n| json!({ "id": format!("s{n}"), "tool": "files/echo", "arguments": { "long": long }, "read_only": true }))
        .collect();
    list.push(json!({ "id": "bad", "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } }));
    let blocked = agent.good("execute_plan", json!({ "plan": steps(&list), "wait_s": 120 }));
    assert_eq!(blocked.content["status"], "blocked");
    let shown = blocked.content["steps"].as_array().unwrap();
    assert!(shown.iter().any(|step| step["id"] == "bad"), "the failed step is shown");
    assert_eq!(shown.len() as u64 + blocked.content["steps_left_out"].as_u64().unwrap(), 301);
    // What is cut is counted, in the text and in the content.
    assert_eq!(blocked.content["brief"]["done"].as_array().unwrap().len(), 40);
    assert_eq!(blocked.content["brief"]["left_out"]["done"], 260);
    assert!(blocked.text.contains(", s39 and 260 more;"), "{}", blocked.text);
    let bytes = blocked.whole.to_string().len();
    assert!(bytes < 200_000, "the answer has {bytes} bytes");
    assert!(blocked.text.len() < 8_000, "the text has {} bytes", blocked.text.len());
}
