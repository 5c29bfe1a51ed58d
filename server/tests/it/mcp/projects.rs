//! Two projects on one database: for an agent of one project the other's items do not exist; a person acts on
//! both.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agent::{Agent, ToolAnswer};
use super::serve_process::ServeProcess;
use super::{work_plan, write_step};
use crate::cli::Sandbox;

/// Occurs in everything that the first project writes, and nowhere else.
pub const MARK: &str = "zebra";
/// A well-formed id that belongs to nothing.
pub const UNUSED_ID: &str = "00000000000000000000000000";

/// Two sandboxes; the second uses the database of the first.
pub fn two_projects() -> (Sandbox, Sandbox) {
    let first = Sandbox::new();
    let mut second = Sandbox::new();
    std::fs::create_dir_all(first.path("data/actbook")).unwrap();
    second.database = Some(first.path("data/actbook/actbook.db").to_str().unwrap().to_owned());
    (first, second)
}

fn set_config(sandbox: &Sandbox, key: &str, value: Value) {
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config[key] = value;
    sandbox.write("actbook.yaml", &config.to_string());
}

fn open_agent(sandbox: &Sandbox, tools: &str) -> Agent {
    Agent::legacy(sandbox, &["mcp", "--tools", tools], "2025-11-25", json!({}))
}

/// A plan whose second step needs an approval.
fn gated_plan() -> Value {
    let mut publish = write_step("publish", "public.txt");
    publish["approval"] = json!("required");
    work_plan(&[write_step("draft", &format!("{MARK}.txt")), publish])
}

/// The first project: a succeeded execution, one that waits for an approval, and the id of a saved plan.
pub struct ForeignProject {
    pub ended: String,
    pub blocked: String,
    pub plan: String,
}

/// A step of both executions, and the names of the first project's plan, template, note and task.
pub const STEP: &str = "draft";
pub const PLAN: &str = "rollout";
pub const TEMPLATE: &str = "handbook";
pub const NOTE: &str = "harbour";
pub const TASK: &str = "TASK-7";

/// Writes items of every kind as an agent of this project.
pub fn fill_project(sandbox: &Sandbox) -> ForeignProject {
    let mut agent = open_agent(sandbox, "full");
    let plan = work_plan(&[write_step(STEP, &format!("{MARK}.txt"))]);
    let ended = agent.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let blocked =
        agent.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 })).id().to_owned();
    let mut document = gated_plan();
    document["name"] = json!(PLAN);
    document["description"] = json!(MARK);
    let saved = agent.call_ok("save_plan", json!({ "plan": document })).content["plan_id"].clone();
    let template = json!({ "action": "save", "name": TEMPLATE, "plan_id": saved });
    agent.call_ok("template", template);
    agent.call_ok("set_context", json!({ "key": NOTE, "value": MARK, "type": "research" }));
    agent.call_ok("task", json!({ "action": "add", "id": TASK, "title": MARK }));
    agent.call_ok("record_action", json!({ "description": MARK }));
    ForeignProject { ended, blocked, plan: saved.as_str().unwrap().to_owned() }
}

/// For each tool the calls that name an item of the other project or could find one. A tool without an entry
/// fails the test: who adds a tool adds the calls that show how it is confined to its project.
fn cross_project_calls(foreign: &ForeignProject) -> Vec<(&'static str, Vec<Value>)> {
    [calls_on_executions(foreign), calls_on_stored_items(foreign)].concat()
}

fn calls_on_executions(foreign: &ForeignProject) -> Vec<(&'static str, Vec<Value>)> {
    let (id, step, plan) = (foreign.blocked.as_str(), STEP, foreign.plan.as_str());
    let beginning = &id[..id.len() - 4];
    let control = |action: &str| json!({ "execution_id": id, "action": action });
    let of_step = |action: &str| json!({ "execution_id": id, "action": action, "step_id": step });
    vec![
        ("save_plan", vec![]),
        ("execute_plan", vec![json!({ "plan_id": plan }), json!({ "plan_id": PLAN })]),
        (
            "status",
            vec![
                json!({ "execution_id": id }),
                json!({ "execution_id": beginning }),
                json!({}),
                json!({ "execution_id": foreign.ended, "wait_s": 1 }),
                json!({ "task": TASK }),
            ],
        ),
        (
            "control",
            ["pause", "resume", "cancel", "compensate", "approve", "reject"]
                .map(control)
                .into_iter()
                .chain(["retry", "skip", "happened", "did_not_happen", "abandon", "approve"].map(of_step))
                .chain([json!({ "execution_id": foreign.ended, "action": "compensate" })])
                .collect(),
        ),
        (
            "record_action",
            vec![
                json!({ "execution_id": id, "description": "x" }),
                json!({ "execution_id": id, "step_id": step, "status": "failed", "description": "x" }),
            ],
        ),
        (
            "record_decision",
            vec![
                json!({ "execution_id": id, "decision": "stop", "reason": "x" }),
                json!({ "execution_id": id, "decision": "noted", "reason": "x" }),
            ],
        ),
        ("record_compensation", vec![json!({ "execution_id": id, "step_id": step, "action_taken": "x" })]),
        (
            "query_ledger",
            vec![
                json!({ "execution_id": id }),
                json!({ "kind": "attempt_started" }),
                json!({ "kind": "execution_started" }),
                json!({ "kind": "plan_saved" }),
                json!({ "kind": "note_set" }),
                json!({ "kind": "task_set" }),
                json!({ "kind": "action_recorded" }),
                json!({ "actor": "agent:scripted" }),
                json!({ "search": MARK }),
                json!({ "status": "blocked" }),
                json!({ "status": "succeeded" }),
            ],
        ),
        ("query_history", vec![json!({}), json!({ "actor": "agent:scripted" })]),
        ("cleanup_history", vec![]),
        ("stats", vec![json!({}), json!({ "plan_id": plan })]),
        ("list_tools", vec![json!({})]),
        ("record_plan", vec![]),
        ("record_execution_start", vec![json!({ "plan_id": plan })]),
    ]
}

/// The calls on plans, templates, notes and tasks.
fn calls_on_stored_items(foreign: &ForeignProject) -> Vec<(&'static str, Vec<Value>)> {
    let (id, plan) = (foreign.blocked.as_str(), foreign.plan.as_str());
    vec![
        (
            "set_context",
            vec![
                json!({ "execution_id": id, "key": "k", "value": "v" }),
                json!({ "plan_id": plan, "key": "k", "value": "v" }),
                json!({ "key": NOTE, "delete": true }),
            ],
        ),
        (
            "query_context",
            vec![
                json!({ "execution_id": id }),
                json!({}),
                json!({ "key": NOTE, "history": true }),
                json!({ "search": MARK }),
                json!({ "type": "research" }),
            ],
        ),
        (
            "task",
            vec![
                json!({ "action": "list" }),
                json!({ "action": "show", "id": TASK }),
                json!({ "action": "set", "id": TASK, "title": "x" }),
                json!({ "action": "split", "id": TASK, "plan_id": plan }),
            ],
        ),
        (
            "plan",
            vec![
                json!({ "action": "list" }),
                json!({ "action": "show", "plan_id": plan }),
                json!({ "action": "show", "plan_id": PLAN }),
                json!({ "action": "delete", "plan_id": PLAN }),
            ],
        ),
        (
            "template",
            vec![
                json!({ "action": "save", "name": "t", "execution_id": id }),
                json!({ "action": "save", "name": "t", "plan_id": plan }),
                json!({ "action": "list" }),
                json!({ "action": "show", "name": TEMPLATE }),
                json!({ "action": "use", "name": TEMPLATE }),
                json!({ "action": "delete", "name": TEMPLATE }),
            ],
        ),
    ]
}

fn all_tool_names(sandbox: &Sandbox) -> BTreeSet<String> {
    ["full", "record"]
        .iter()
        .flat_map(|tools| open_agent(sandbox, tools).schemas.keys().cloned().collect::<Vec<_>>())
        .collect()
}

/// The answer with the foreign ids replaced, for comparison with the answer about an unused id.
fn with_ids_masked(answer: &ToolAnswer, ids: &[&str]) -> String {
    ids.iter().fold(answer.full_result.to_string(), |text, id| text.replace(id, UNUSED_ID))
}

fn journal_of(sandbox: &Sandbox, execution: &str) -> String {
    sandbox.expect(0, &["journal", "--execution", execution, "--json"])
}

#[test]
fn every_tool_treats_foreign_ids_as_nonexistent() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let table = cross_project_calls(&foreign);
    let named: BTreeSet<String> = table.iter().map(|(tool, _)| (*tool).to_owned()).collect();
    assert_eq!(named, all_tool_names(&second), "the table must list exactly the existing tools");
    let before = first.expect(0, &["journal", "--limit", "100000", "--json"]);
    let mut agents = ["full", "record"].map(|tools| open_agent(&second, tools));
    let beginning = &foreign.blocked[..foreign.blocked.len() - 4];
    let ids = [&foreign.ended, &foreign.blocked, beginning, &foreign.plan, PLAN, TEMPLATE, NOTE, TASK];
    for (tool, calls) in &table {
        let agent = agents.iter_mut().find(|agent| agent.schemas.contains_key(*tool)).unwrap();
        for call in calls {
            let answer = agent.call(tool, call.clone());
            let unasked = ids.iter().filter(|id| !call.to_string().contains(**id));
            for mark in unasked.chain([&MARK]) {
                assert!(
                    !answer.full_result.to_string().contains(mark),
                    "{tool} {call} shows:\n{}",
                    answer.text
                );
            }
            let of_nothing = ids.iter().fold(call.to_string(), |text, id| text.replace(id, UNUSED_ID));
            let of_nothing = agent.call(tool, serde_json::from_str(&of_nothing).unwrap());
            assert_eq!(with_ids_masked(&answer, &ids), of_nothing.full_result.to_string(), "{tool} {call}");
            let names_one = call.get("execution_id").is_some();
            assert!(!names_one || answer.is_error, "{tool} {call} is answered:\n{}", answer.text);
        }
    }
    let after = first.expect(0, &["journal", "--limit", "100000", "--json"]);
    assert_eq!(after, before, "nothing was written");
}

#[test]
fn foreign_resources_prompts_and_tasks_are_not_found() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let mut agent = open_agent(&second, "full");
    for id in [foreign.blocked.as_str(), foreign.ended.as_str()] {
        let uri = format!("actbook://executions/{id}");
        let requests = [
            ("resources/read", json!({ "uri": uri })),
            ("resources/read", json!({ "uri": format!("{uri}/journal") })),
            ("resources/subscribe", json!({ "uri": uri })),
            ("prompts/get", json!({ "name": "recover_execution", "arguments": { "execution_id": id } })),
            ("tasks/get", json!({ "taskId": id })),
            ("tasks/cancel", json!({ "taskId": id })),
        ];
        for (method, params) in requests {
            let error = agent.request(method, params.clone()).expect_err(&format!("{method} {params}"));
            let of_nothing = params.to_string().replace(id, UNUSED_ID);
            let of_nothing = agent.request(method, serde_json::from_str(&of_nothing).unwrap()).unwrap_err();
            assert_eq!(error.to_string().replace(id, UNUSED_ID), of_nothing.to_string(), "{method}");
        }
    }
    for name in [foreign.plan.as_str(), PLAN] {
        let review = json!({ "name": "review_plan", "arguments": { "plan_id": name } });
        agent.request("prompts/get", review).expect_err("a plan of the other project");
        agent.request("resources/read", json!({ "uri": format!("actbook://plans/{name}") })).unwrap_err();
    }
    let resumed = agent.request("prompts/get", json!({ "name": "resume_work" })).unwrap().to_string();
    assert!(resumed.contains("Nothing is under way"), "{resumed}");
    let typed = json!({
        "ref": { "type": "ref/resource", "uri": "actbook://executions/{id}" },
        "argument": { "name": "id", "value": &foreign.blocked[..2] },
    });
    let completed = agent.request("completion/complete", typed).unwrap();
    assert_eq!(completed["completion"]["values"], json!([]), "{completed}");
    let typed = json!({
        "ref": { "type": "ref/resource", "uri": "actbook://plans/{id}" },
        "argument": { "name": "id", "value": "" },
    });
    let completed = agent.request("completion/complete", typed).unwrap();
    assert_eq!(completed["completion"]["values"], json!([]), "{completed}");
}

#[test]
fn same_names_in_two_projects_are_separate_items() {
    let (first, second) = two_projects();
    let mut agents = [&first, &second].map(|sandbox| open_agent(sandbox, "full"));
    for (agent, word) in agents.iter_mut().zip(["one", "two"]) {
        let mut plan = work_plan(&[write_step(STEP, &format!("{word}.txt"))]);
        plan["name"] = json!(PLAN);
        agent.call_ok("save_plan", json!({ "plan": plan }));
        agent.call_ok("set_context", json!({ "key": NOTE, "value": word }));
        agent.call_ok("task", json!({ "action": "add", "id": TASK, "title": word }));
    }
    for (agent, word) in agents.iter_mut().zip(["one", "two"]) {
        let ended = agent.call_ok("execute_plan", json!({ "plan_id": PLAN, "wait_s": 60 }));
        assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
        let notes = agent.call_ok("query_context", json!({ "key": NOTE })).content["notes"].clone();
        assert_eq!(notes.as_array().map(Vec::len), Some(1), "{notes}");
        assert_eq!(notes[0]["value"], *word, "{notes}");
        let tasks = agent.call_ok("task", json!({ "action": "list" })).content["tasks"].clone();
        assert_eq!((tasks.as_array().map(Vec::len), &tasks[0]["title"]), (Some(1), &json!(word)), "{tasks}");
    }
    assert!(first.path("work/one.txt").exists() && second.path("work/two.txt").exists());
    agents[1].call_ok("set_context", json!({ "key": NOTE, "delete": true }));
    agents[1].call_ok("plan", json!({ "action": "delete", "plan_id": PLAN }));
    assert_eq!(
        agents[0].call_ok("query_context", json!({ "key": NOTE })).content["notes"][0]["value"],
        "one"
    );
    agents[0].call_ok("plan", json!({ "action": "show", "plan_id": PLAN }));
}

#[test]
fn sharing_everywhere_needs_a_person_unless_config_allows_agents() {
    let (first, second) = two_projects();
    let mut own = open_agent(&first, "full");
    let shared = json!({ "key": NOTE, "value": "for all", "everywhere": true });
    let refusal = own.call_refused("set_context", shared.clone());
    assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    let mut plan = work_plan(&[write_step(STEP, "draft.txt")]);
    plan["name"] = json!(PLAN);
    own.call_ok("save_plan", json!({ "plan": plan }));
    let template = json!({ "action": "save", "name": TEMPLATE, "plan_id": PLAN, "everywhere": true });
    let refusal = own.call_refused("template", template);
    assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    first.expect(0, &["context", "set", NOTE, "for all", "--everywhere"]);
    first.expect(0, &["template", "save", PLAN, TEMPLATE, "--everywhere"]);
    let mut other = open_agent(&second, "full");
    assert_eq!(
        other.call_ok("query_context", json!({ "key": NOTE })).content["notes"][0]["value"],
        "for all"
    );
    assert_eq!(other.call_ok("query_context", json!({ "search": "all" })).content["notes"][0]["key"], NOTE);
    other.call_ok("template", json!({ "action": "use", "name": TEMPLATE }));
    // A shared item can be used everywhere, but changed only in the project that wrote it.
    other.call_refused("template", json!({ "action": "delete", "name": TEMPLATE }));
    other.call_refused("set_context", json!({ "key": NOTE, "delete": true }));
    set_config(&second, "everywhere", json!("agents"));
    open_agent(&second, "full")
        .call_ok("set_context", json!({ "key": "quay", "value": "two", "everywhere": true }));
    assert_eq!(own.call_ok("query_context", json!({ "key": "quay" })).content["notes"][0]["value"], "two");
}

#[test]
fn agent_of_another_project_cannot_undo_an_execution() {
    let (first, second) = two_projects();
    let mut live = open_agent(&first, "run");
    let plan = work_plan(&[write_step("draft", "draft.txt")]);
    let ended = live.call_ok("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded");
    let mut other = open_agent(&second, "run");
    let refusal =
        other.call_refused("control", json!({ "execution_id": ended.id(), "action": "compensate" }));
    assert_eq!(refusal.content["error"]["code"], "no_such_execution");
    let still = live.call_ok("status", json!({ "execution_id": ended.id() }));
    assert_eq!(still.content["status"], "succeeded", "{}", still.text);
    assert!(first.path("work/draft.txt").exists());
}

#[test]
fn agents_over_http_are_confined_to_the_servers_project() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let server = ServeProcess::start(&second);
    for (method, params) in [
        ("tools/call", json!({ "name": "status", "arguments": { "execution_id": foreign.blocked } })),
        ("resources/read", json!({ "uri": format!("actbook://executions/{}", foreign.ended) })),
        ("tasks/get", json!({ "taskId": foreign.blocked })),
        ("tasks/cancel", json!({ "taskId": foreign.blocked })),
    ] {
        let able = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let reply =
            server.exchange(&server.request_bytes_as("scripted", able, method, params)).message().to_string();
        let (blocked, ended) = (foreign.blocked.as_str(), foreign.ended.as_str());
        let unknown = [blocked, ended].map(|id| reply.contains(&format!("there is no execution `{id}`")));
        assert!(unknown.contains(&true), "{method}: {reply}");
    }
    assert!(!journal_of(&first, &foreign.blocked).contains("cancel_asked"));
}

#[test]
fn agent_approval_needs_it_allowed_at_start() {
    let (first, second) = two_projects();
    for sandbox in [&first, &second] {
        set_config(sandbox, "project", json!("site"));
    }
    let blocked =
        open_agent(&first, "run").call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    set_config(&second, "approvals", json!("agents"));
    let mut lax = open_agent(&second, "run");
    let seen = lax.call_ok("status", json!({ "execution_id": id }));
    assert!(seen.text.contains(&format!("actbook approve {id} publish")), "{}", seen.text);
    for action in ["approve", "reject"] {
        let answer = json!({ "execution_id": id, "action": action, "step_id": "publish" });
        let refusal = lax.call_refused("control", answer);
        assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    }
    assert!(!journal_of(&first, &id).contains("step_approved"));
    // Its own execution was started under a config that lets agents approve.
    let own = lax.call_ok("execute_plan", json!({ "plan": gated_plan(), "wait_s": 60 }));
    let answer = json!({ "execution_id": own.id(), "action": "approve", "step_id": "publish" });
    lax.call_ok("control", answer);
    assert!(journal_of(&first, own.id()).contains("step_approved"));
}

#[test]
fn person_sees_and_approves_in_every_project() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let folder = std::fs::canonicalize(first.folder.path()).unwrap();
    let project = folder.to_str().unwrap();
    let listed = second.json(&["list"]);
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{listed}");
    assert!(rows.iter().all(|row| row["project"] == project), "{listed}");
    assert!(second.expect(0, &["list"]).contains(project));
    assert_eq!(second.json(&["list", "--project", project]), listed);
    assert_eq!(second.json(&["list", "--project", "elsewhere"]), json!([]));
    assert_eq!(second.json(&["show", &foreign.ended])["project"], project);
    second.expect(0, &["approve", &foreign.blocked, "publish"]);
    assert!(journal_of(&first, &foreign.blocked).contains("step_approved"));
}

#[test]
fn idempotency_keys_of_two_projects_are_separate() {
    let (first, second) = two_projects();
    let plan = work_plan(&[write_step("draft", "draft.txt")]);
    let start = json!({ "plan": plan, "wait_s": 60, "idempotency_key": "start-1" });
    let ids = [&first, &second]
        .map(|sandbox| open_agent(sandbox, "run").call_ok("execute_plan", start.clone()).id().to_owned());
    assert_ne!(ids[0], ids[1]);
    assert!(second.path("work/draft.txt").exists());
}

#[test]
fn symlinked_folder_is_the_same_project() {
    let sandbox = Sandbox::new();
    let mut agent = open_agent(&sandbox, "run");
    let ended = agent
        .call_ok("execute_plan", json!({ "plan": work_plan(&[write_step("draft", "d.txt")]), "wait_s": 60 }));
    let apart = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(sandbox.folder.path(), apart.path().join("link")).unwrap();
    let mut command = sandbox.command(&["mcp"]);
    command.current_dir(apart.path().join("link"));
    let mut linked = Agent::launch(command);
    linked.initialize("2025-11-25", json!({}));
    assert_eq!(linked.call_ok("status", json!({ "execution_id": ended.id() })).id(), ended.id());
}
