//! Two projects on one database: for an agent of one project the other's items do not exist; a person acts on
//! both.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agent::{Agent, Answer};
use super::web::Server;
use super::{steps, write};
use crate::cli::House;

/// Occurs in everything that the first project writes, and nowhere else.
const MARK: &str = "zebra";
/// A well-formed id that belongs to nothing.
const NOTHING: &str = "00000000000000000000000000";

/// Two sandboxes; the second uses the database of the first.
fn neighbours() -> (House, House) {
    let first = House::new();
    let mut second = House::new();
    std::fs::create_dir_all(first.path("data/actbook")).unwrap();
    second.database = Some(first.path("data/actbook/actbook.db").to_str().unwrap().to_owned());
    (first, second)
}

fn configure(house: &House, key: &str, value: Value) {
    let config = std::fs::read_to_string(house.path("actbook.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config[key] = value;
    house.write("actbook.yaml", &config.to_string());
}

fn agent(house: &House, tools: &str) -> Agent {
    Agent::legacy(house, &["mcp", "--tools", tools], "2025-11-25", json!({}))
}

/// A plan whose second step needs an approval.
fn gated() -> Value {
    let mut publish = write("publish", "public.txt");
    publish["approval"] = json!("required");
    steps(&[write("draft", &format!("{MARK}.txt")), publish])
}

/// The first project: a succeeded execution, one that waits for an approval, and the id of a saved plan.
struct Theirs {
    ended: String,
    blocked: String,
    plan: String,
}

/// A step of both executions, and the names of the first project's plan, template, note and task.
const STEP: &str = "draft";
const PLAN: &str = "rollout";
const TEMPLATE: &str = "handbook";
const NOTE: &str = "harbour";
const TASK: &str = "TASK-7";

/// Writes items of every kind as an agent of this project.
fn theirs(house: &House) -> Theirs {
    let mut agent = agent(house, "full");
    let plan = steps(&[write(STEP, &format!("{MARK}.txt"))]);
    let ended = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 60 })).id().to_owned();
    let blocked = agent.good("execute_plan", json!({ "plan": gated(), "wait_s": 60 })).id().to_owned();
    let mut document = gated();
    document["name"] = json!(PLAN);
    document["description"] = json!(MARK);
    let saved = agent.good("save_plan", json!({ "plan": document })).content["plan_id"].clone();
    let template = json!({ "action": "save", "name": TEMPLATE, "plan_id": saved });
    agent.good("template", template);
    agent.good("set_context", json!({ "key": NOTE, "value": MARK, "type": "research" }));
    agent.good("task", json!({ "action": "add", "id": TASK, "title": MARK }));
    agent.good("record_action", json!({ "description": MARK }));
    Theirs { ended, blocked, plan: saved.as_str().unwrap().to_owned() }
}

/// For each tool the calls that name an item of the other project or could find one. A tool without an entry
/// fails the test: who adds a tool adds the calls that show how it is confined to its project.
fn attempts(theirs: &Theirs) -> Vec<(&'static str, Vec<Value>)> {
    [on_executions(theirs), on_what_is_kept(theirs)].concat()
}

fn on_executions(theirs: &Theirs) -> Vec<(&'static str, Vec<Value>)> {
    let (id, step, plan) = (theirs.blocked.as_str(), STEP, theirs.plan.as_str());
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
                json!({ "execution_id": theirs.ended, "wait_s": 1 }),
                json!({ "task": TASK }),
            ],
        ),
        (
            "control",
            ["pause", "resume", "cancel", "compensate", "approve", "reject"]
                .map(control)
                .into_iter()
                .chain(["retry", "skip", "happened", "did_not_happen", "abandon", "approve"].map(of_step))
                .chain([json!({ "execution_id": theirs.ended, "action": "compensate" })])
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
fn on_what_is_kept(theirs: &Theirs) -> Vec<(&'static str, Vec<Value>)> {
    let (id, plan) = (theirs.blocked.as_str(), theirs.plan.as_str());
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

fn tools(house: &House) -> BTreeSet<String> {
    ["full", "record"]
        .iter()
        .flat_map(|tools| agent(house, tools).schemas.keys().cloned().collect::<Vec<_>>())
        .collect()
}

/// The answer with the foreign ids replaced, for comparison with the answer about an unused id.
fn renamed(answer: &Answer, ids: &[&str]) -> String {
    ids.iter().fold(answer.whole.to_string(), |text, id| text.replace(id, NOTHING))
}

fn entries(house: &House, execution: &str) -> String {
    house.expect(0, &["journal", "--execution", execution, "--json"])
}

#[test]
fn every_tool_answers_for_another_projects_things_as_for_nothing() {
    let (first, second) = neighbours();
    let foreign = theirs(&first);
    let table = attempts(&foreign);
    let named: BTreeSet<String> = table.iter().map(|(tool, _)| (*tool).to_owned()).collect();
    assert_eq!(named, tools(&second), "the table must list exactly the existing tools");
    let before = first.expect(0, &["journal", "--limit", "100000", "--json"]);
    let mut agents = ["full", "record"].map(|tools| agent(&second, tools));
    let beginning = &foreign.blocked[..foreign.blocked.len() - 4];
    let ids = [&foreign.ended, &foreign.blocked, beginning, &foreign.plan, PLAN, TEMPLATE, NOTE, TASK];
    for (tool, calls) in &table {
        let agent = agents.iter_mut().find(|agent| agent.schemas.contains_key(*tool)).unwrap();
        for call in calls {
            let answer = agent.call(tool, call.clone());
            let unasked = ids.iter().filter(|id| !call.to_string().contains(**id));
            for mark in unasked.chain([&MARK]) {
                assert!(!answer.whole.to_string().contains(mark), "{tool} {call} shows:\n{}", answer.text);
            }
            let of_nothing = ids.iter().fold(call.to_string(), |text, id| text.replace(id, NOTHING));
            let of_nothing = agent.call(tool, serde_json::from_str(&of_nothing).unwrap());
            assert_eq!(renamed(&answer, &ids), of_nothing.whole.to_string(), "{tool} {call}");
            let names_one = call.get("execution_id").is_some();
            assert!(!names_one || answer.is_error, "{tool} {call} is answered:\n{}", answer.text);
        }
    }
    let after = first.expect(0, &["journal", "--limit", "100000", "--json"]);
    assert_eq!(after, before, "nothing was written");
}

#[test]
fn resources_prompts_and_tasks_of_another_project_do_not_exist() {
    let (first, second) = neighbours();
    let foreign = theirs(&first);
    let mut agent = agent(&second, "full");
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
            let of_nothing = params.to_string().replace(id, NOTHING);
            let of_nothing = agent.request(method, serde_json::from_str(&of_nothing).unwrap()).unwrap_err();
            assert_eq!(error.to_string().replace(id, NOTHING), of_nothing.to_string(), "{method}");
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
fn two_projects_have_plans_notes_and_tasks_of_one_name() {
    let (first, second) = neighbours();
    let mut agents = [&first, &second].map(|house| agent(house, "full"));
    for (agent, word) in agents.iter_mut().zip(["one", "two"]) {
        let mut plan = steps(&[write(STEP, &format!("{word}.txt"))]);
        plan["name"] = json!(PLAN);
        agent.good("save_plan", json!({ "plan": plan }));
        agent.good("set_context", json!({ "key": NOTE, "value": word }));
        agent.good("task", json!({ "action": "add", "id": TASK, "title": word }));
    }
    for (agent, word) in agents.iter_mut().zip(["one", "two"]) {
        let ended = agent.good("execute_plan", json!({ "plan_id": PLAN, "wait_s": 60 }));
        assert_eq!(ended.content["status"], "succeeded", "{}", ended.text);
        let notes = agent.good("query_context", json!({ "key": NOTE })).content["notes"].clone();
        assert_eq!(notes.as_array().map(Vec::len), Some(1), "{notes}");
        assert_eq!(notes[0]["value"], *word, "{notes}");
        let tasks = agent.good("task", json!({ "action": "list" })).content["tasks"].clone();
        assert_eq!((tasks.as_array().map(Vec::len), &tasks[0]["title"]), (Some(1), &json!(word)), "{tasks}");
    }
    assert!(first.path("work/one.txt").exists() && second.path("work/two.txt").exists());
    agents[1].good("set_context", json!({ "key": NOTE, "delete": true }));
    agents[1].good("plan", json!({ "action": "delete", "plan_id": PLAN }));
    assert_eq!(agents[0].good("query_context", json!({ "key": NOTE })).content["notes"][0]["value"], "one");
    agents[0].good("plan", json!({ "action": "show", "plan_id": PLAN }));
}

#[test]
fn only_a_person_shares_with_every_project_unless_config_says_agents() {
    let (first, second) = neighbours();
    let mut own = agent(&first, "full");
    let shared = json!({ "key": NOTE, "value": "for all", "everywhere": true });
    let refusal = own.refused("set_context", shared.clone());
    assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    let mut plan = steps(&[write(STEP, "draft.txt")]);
    plan["name"] = json!(PLAN);
    own.good("save_plan", json!({ "plan": plan }));
    let template = json!({ "action": "save", "name": TEMPLATE, "plan_id": PLAN, "everywhere": true });
    let refusal = own.refused("template", template);
    assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    first.expect(0, &["context", "set", NOTE, "for all", "--everywhere"]);
    first.expect(0, &["template", "save", PLAN, TEMPLATE, "--everywhere"]);
    let mut other = agent(&second, "full");
    assert_eq!(other.good("query_context", json!({ "key": NOTE })).content["notes"][0]["value"], "for all");
    assert_eq!(other.good("query_context", json!({ "search": "all" })).content["notes"][0]["key"], NOTE);
    other.good("template", json!({ "action": "use", "name": TEMPLATE }));
    // A shared item can be used everywhere, but changed only in the project that wrote it.
    other.refused("template", json!({ "action": "delete", "name": TEMPLATE }));
    other.refused("set_context", json!({ "key": NOTE, "delete": true }));
    configure(&second, "everywhere", json!("agents"));
    agent(&second, "full").good("set_context", json!({ "key": "quay", "value": "two", "everywhere": true }));
    assert_eq!(own.good("query_context", json!({ "key": "quay" })).content["notes"][0]["value"], "two");
}

#[test]
fn agent_of_another_project_cannot_undo_what_a_live_process_would_carry_out() {
    let (first, second) = neighbours();
    let mut live = agent(&first, "run");
    let plan = steps(&[write("draft", "draft.txt")]);
    let ended = live.good("execute_plan", json!({ "plan": plan, "wait_s": 60 }));
    assert_eq!(ended.content["status"], "succeeded");
    let mut other = agent(&second, "run");
    let refusal = other.refused("control", json!({ "execution_id": ended.id(), "action": "compensate" }));
    assert_eq!(refusal.content["error"]["code"], "no_such_execution");
    let still = live.good("status", json!({ "execution_id": ended.id() }));
    assert_eq!(still.content["status"], "succeeded", "{}", still.text);
    assert!(first.path("work/draft.txt").exists());
}

#[test]
fn agents_over_http_are_confined_to_the_servers_project() {
    let (first, second) = neighbours();
    let foreign = theirs(&first);
    let server = Server::start(&second);
    for (method, params) in [
        ("tools/call", json!({ "name": "status", "arguments": { "execution_id": foreign.blocked } })),
        ("resources/read", json!({ "uri": format!("actbook://executions/{}", foreign.ended) })),
        ("tasks/get", json!({ "taskId": foreign.blocked })),
        ("tasks/cancel", json!({ "taskId": foreign.blocked })),
    ] {
        let able = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let reply = server.exchange(&server.bytes_as("scripted", able, method, params)).message().to_string();
        let (blocked, ended) = (foreign.blocked.as_str(), foreign.ended.as_str());
        let unknown = [blocked, ended].map(|id| reply.contains(&format!("there is no execution `{id}`")));
        assert!(unknown.contains(&true), "{method}: {reply}");
    }
    assert!(!entries(&first, &foreign.blocked).contains("cancel_asked"));
}

#[test]
fn agents_approve_only_what_was_started_to_let_them() {
    let (first, second) = neighbours();
    for house in [&first, &second] {
        configure(house, "project", json!("site"));
    }
    let blocked = agent(&first, "run").good("execute_plan", json!({ "plan": gated(), "wait_s": 60 }));
    let id = blocked.id().to_owned();
    configure(&second, "approvals", json!("agents"));
    let mut lax = agent(&second, "run");
    let seen = lax.good("status", json!({ "execution_id": id }));
    assert!(seen.text.contains(&format!("actbook approve {id} publish")), "{}", seen.text);
    for action in ["approve", "reject"] {
        let answer = json!({ "execution_id": id, "action": action, "step_id": "publish" });
        let refusal = lax.refused("control", answer);
        assert_eq!(refusal.content["error"]["code"], "needs_a_person", "{}", refusal.text);
    }
    assert!(!entries(&first, &id).contains("step_approved"));
    // Its own execution was started under a config that lets agents approve.
    let own = lax.good("execute_plan", json!({ "plan": gated(), "wait_s": 60 }));
    let answer = json!({ "execution_id": own.id(), "action": "approve", "step_id": "publish" });
    lax.good("control", answer);
    assert!(entries(&first, own.id()).contains("step_approved"));
}

#[test]
fn a_person_sees_and_answers_every_project() {
    let (first, second) = neighbours();
    let foreign = theirs(&first);
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
    assert!(entries(&first, &foreign.blocked).contains("step_approved"));
}

#[test]
fn request_keys_of_two_projects_are_apart() {
    let (first, second) = neighbours();
    let plan = steps(&[write("draft", "draft.txt")]);
    let start = json!({ "plan": plan, "wait_s": 60, "idempotency_key": "start-1" });
    let ids = [&first, &second]
        .map(|house| agent(house, "run").good("execute_plan", start.clone()).id().to_owned());
    assert_ne!(ids[0], ids[1]);
    assert!(second.path("work/draft.txt").exists());
}

#[test]
fn a_folder_reached_by_a_link_is_the_same_project() {
    let house = House::new();
    let mut agent = agent(&house, "run");
    let ended =
        agent.good("execute_plan", json!({ "plan": steps(&[write("draft", "d.txt")]), "wait_s": 60 }));
    let apart = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(house.folder.path(), apart.path().join("link")).unwrap();
    let mut command = house.command(&["mcp"]);
    command.current_dir(apart.path().join("link"));
    let mut linked = Agent::launch(command);
    linked.greet("2025-11-25", json!({}));
    assert_eq!(linked.good("status", json!({ "execution_id": ended.id() })).id(), ended.id());
}
