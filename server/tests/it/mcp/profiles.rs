//! The texts of a tool profile name only tools of that profile, and every profile can list its plans.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agent::Agent;
use super::{work_plan, write_step};
use crate::cli::Sandbox;

const PROFILES: [&str; 3] = ["run", "record", "full"];

fn open_profile(sandbox: &Sandbox, profile: &str) -> Agent {
    Agent::legacy(sandbox, &["mcp", "--tools", profile], "2025-11-25", json!({}))
}

fn tool_names(agent: &mut Agent) -> BTreeSet<String> {
    let listed = agent.request("tools/list", json!({})).unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// All texts that an agent reads before it starts any work.
fn initial_texts(sandbox: &Sandbox, profile: &str) -> Vec<String> {
    let mut greeted = Agent::start(sandbox, &["mcp", "--tools", profile]);
    let client = json!({ "name": "scripted", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let initialized = greeted.request("initialize", hello).unwrap();
    let mut agent = open_profile(sandbox, profile);
    let mut texts = vec![initialized["instructions"].as_str().unwrap().to_owned()];
    texts.push(agent.call_ok("status", json!({})).text);
    for uri in ["actbook://guide", "actbook://plan-format"] {
        let read = agent.request("resources/read", json!({ "uri": uri })).unwrap();
        texts.push(read["contents"][0]["text"].as_str().unwrap().to_owned());
    }
    for (name, arguments) in [("plan_work", json!({ "goal": "tidy the shelf" })), ("resume_work", json!({}))]
    {
        let got = agent.request("prompts/get", json!({ "name": name, "arguments": arguments })).unwrap();
        texts.push(got["messages"][0]["content"]["text"].as_str().unwrap().to_owned());
    }
    let listed = agent.request("tools/list", json!({})).unwrap();
    texts.extend(listed["tools"].as_array().unwrap().iter().map(Value::to_string));
    texts
}

#[test]
fn texts_of_a_profile_name_only_its_tools() {
    let sandbox = Sandbox::new();
    let offered: Vec<BTreeSet<String>> =
        PROFILES.iter().map(|profile| tool_names(&mut open_profile(&sandbox, profile))).collect();
    let all: BTreeSet<&String> = offered.iter().flatten().collect();
    for (profile, own) in PROFILES.iter().zip(&offered) {
        for text in initial_texts(&sandbox, profile) {
            let words: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).collect();
            // A single word such as `plan` may also be the name of an argument.
            let foreign = all.iter().filter(|name| name.contains('_') && !own.contains(**name));
            for name in foreign {
                assert!(!words.contains(name.as_str()), "{profile} names {name}:\n{text}");
            }
            assert!(own.contains("template") || !text.contains("`template`"), "{profile}:\n{text}");
        }
    }
}

#[test]
fn every_profile_lists_plans_with_the_call_that_starts_one() {
    let sandbox = Sandbox::new();
    let plan = work_plan(&[json!({ "id": "mine", "action": "Do it" })]);
    open_profile(&sandbox, "run").call_ok("save_plan", json!({ "plan": plan }));
    for profile in PROFILES {
        let mut agent = open_profile(&sandbox, profile);
        let listed = agent.call_ok("plan", json!({ "action": "list" }));
        assert_eq!(listed.content["plans"][0]["name"], "work");
        let starts = listed.text.lines().find_map(|line| line.split_once(" with a plan_id starts one"));
        let plan_id = &listed.content["plans"][0]["id"];
        let started = agent.call_ok(starts.expect(&listed.text).0, json!({ "plan_id": plan_id }));
        assert_eq!(started.content["plan"]["name"], "work", "{profile}");
    }
}

#[test]
fn full_profile_runs_plans_and_records_work() {
    let sandbox = Sandbox::new();
    let mut agent = open_profile(&sandbox, "full");
    let (run, record) =
        (tool_names(&mut open_profile(&sandbox, "run")), tool_names(&mut open_profile(&sandbox, "record")));
    let full = tool_names(&mut agent);
    assert!(run.is_subset(&full) && record.is_subset(&full), "{full:?}");
    let ran = agent
        .call_ok("execute_plan", json!({ "plan": work_plan(&[write_step("a", "a.txt")]), "wait_s": 60 }));
    assert_eq!(ran.content["status"], "succeeded");
    let own = json!({ "name": "own", "steps": [{ "id": "mine", "action": "Do it" }] });
    let recorded = agent.call_ok("record_execution_start", json!({ "plan": own }));
    assert_eq!(recorded.content["waiting"][0]["step"], "mine");
}
