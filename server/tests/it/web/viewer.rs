//! The role `viewer` over every operation of the API and every page: no argument, output, text of a tool, note, or
//! document of a plan.

use serde_json::{Value, json};

use super::open_stream::OpenStream;
use super::server::{WebServer, new_token};
use super::surface::{SurfaceRequest, all_requests};
use crate::cli::{BINARY, Sandbox};
use crate::guard;

const FORM: &str = "application/x-www-form-urlencoded";

/// Stands in every place whose values are withheld, and in no name.
const SECRETIVE: &str = "quokka";
/// Stands in the description of the plan alone.
const DESCRIBED: &str = "wombat";

/// A sandbox whose demo server also has tools that ask, and whose config demands an approval of one tool.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let args = ["demo-tools", "--folder", "work", "--long"];
    sandbox.write_config(json!({
        "mcpServers": { "files": { "command": BINARY, "args": args } },
        "servers": { "files": { "tools": { "delete_file": { "approval": "required" } } } },
        "guard": {},
    }));
    sandbox
}

fn write(id: &str) -> Value {
    json!({
        "id": id, "tool": "files/write_file", "arguments": { "path": format!("{SECRETIVE}-{id}.txt"), "content": "x" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    })
}

/// Writes `SECRETIVE` wherever a value can stand; the ids of an execution with a failed step, and of the others.
fn fill(server: &WebServer, sandbox: &Sandbox) -> Vec<String> {
    let mut ids = vec![fill_execution_with_a_failed_step(server)];
    ids.extend(fill_executions_that_ask(server));
    ids.push(fill_session(sandbox));
    let put =
        |path: &str, body| assert_eq!(server.send_json_as(&server.token, "PUT", path, &body).status, 200);
    let task = json!({ "id": "T-1", "title": "Publish", "fields": { "word": SECRETIVE } });
    assert_eq!(server.post("/api/v1/tasks", &task).status, 201);
    put("/api/v1/context/port", json!({ "value": SECRETIVE, "metadata": { "x": SECRETIVE } }));
    put("/api/v1/context/stop", json!({ "value": SECRETIVE, "type": "blockers", "execution": ids[0] }));
    put("/api/v1/context/told", json!({ "value": SECRETIVE, "task": "T-1" }));
    let act = json!({ "description": SECRETIVE, "output": SECRETIVE });
    assert_eq!(server.post("/api/v1/records", &act).status, 201);
    let mut plan = plan();
    sandbox.write("kept.json", &plan.to_string());
    sandbox.expect(0, &["template", "save", "kept.json", "kept"]);
    plan["steps"][0]["arguments"]["content"] = json!(format!("more {SECRETIVE}"));
    assert_eq!(server.post("/api/v1/plans", &json!({ "plan": plan })).status, 201);
    ids
}

fn plan() -> Value {
    json!({
        "name": "book", "task": "T-1", "description": format!("{DESCRIBED} {SECRETIVE}"), "reasoning": SECRETIVE,
        "inputs": {
            "type": "object", "properties": { "word": { "default": SECRETIVE, "description": SECRETIVE } },
        },
        "steps": [
            {
                "id": "a", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "${inputs.word}" },
                "compensation": { "action": format!("throw {SECRETIVE} away") },
            },
            { "id": "b", "tool": "files/read_file", "arguments": { "path": "a.txt" }, "depends_on": ["a"] },
            { "id": "c", "action": format!("tell {SECRETIVE}"), "depends_on": ["b"] },
            {
                "id": "d", "tool": "files/read_file", "arguments": { "path": format!("no-{SECRETIVE}.txt") },
                "depends_on": ["c"], "when": format!("steps.b.output.text != \"{SECRETIVE}x\""),
            },
        ],
    })
}

/// Starts a plan and waits for its end or its first question; the execution's id.
fn start(server: &WebServer, plan: &Value) -> String {
    let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
    started.json()["id"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned()
}

fn fill_execution_with_a_failed_step(server: &WebServer) -> String {
    let id = start(server, &plan());
    let path = format!("/api/v1/executions/{id}");
    let report = json!({
        "status": "succeeded", "description": SECRETIVE, "output": SECRETIVE, "after_state": SECRETIVE, "wait_s": 30,
    });
    let ended = server.post(&format!("{path}/steps/c/record"), &report);
    assert_eq!(ended.json()["status"], "blocked", "{ended:?}");
    let decision = json!({ "decision": "wait", "details": { "why": SECRETIVE } });
    assert_eq!(server.post(&format!("{path}/decisions"), &decision).status, 200);
    let corrected = json!({ "path": format!("neither-{SECRETIVE}.txt") });
    let retry = json!({ "step_id": "d", "answer": "retry", "arguments": corrected, "wait_s": 30 });
    let failed = server.post(&format!("{path}/decide"), &retry);
    assert_eq!(failed.json()["status"], "blocked", "{failed:?}");
    id
}

/// An approval, an unknown outcome, a tool's own question, an undo that waits after the end, and one that was made.
fn fill_executions_that_ask(server: &WebServer) -> Vec<String> {
    let mut gated = write("gated");
    gated["approval"] = json!("required");
    let crash = json!({ "id": "lost", "tool": "files/crash", "arguments": { "after_effect": format!("{SECRETIVE}.txt") } });
    let mut draft = write("draft");
    draft["arguments"]["path"] = json!(format!("{SECRETIVE}.md"));
    let sign =
        json!({ "id": "sign", "tool": "files/sign", "arguments": { "path": format!("{SECRETIVE}.md") } });
    let plans = [
        ("gated", json!([write("before"), gated])),
        ("lost", json!([crash])),
        ("asks", json!([draft, sign])),
        ("undone", json!([write("one")])),
        ("undoing", json!([write("two")])),
    ];
    let ids: Vec<String> =
        plans.iter().map(|(name, steps)| start(server, &json!({ "name": name, "steps": steps }))).collect();
    let undo = |id: &str, token: &str| {
        server.post_as(token, &format!("/api/v1/executions/{id}/undo"), &json!({ "wait_s": 30 })).json()
    };
    assert_eq!(undo(&ids[3], &server.token)["status"], "compensated");
    let operator = server.post("/api/v1/tokens", &json!({ "name": "ops", "role": "operator" })).json();
    let asked = undo(&ids[4], operator["token"].as_str().unwrap());
    assert_eq!(asked["waiting"][0]["for"], "approval", "{asked}");
    ids
}

/// A call of an agent that follows no plan.
fn fill_session(sandbox: &Sandbox) -> String {
    let call = guard::before(sandbox, "toolu_1", "Bash", json!({ "command": format!("echo {SECRETIVE}") }));
    for event in [&call, &guard::after(&call, json!({ "stdout": SECRETIVE }))] {
        assert_eq!(guard::run_hook(sandbox, event, &[]).code, Some(0));
    }
    sandbox.newest()
}

/// The steps whose panels are looked at.
const STEPS: [&str; 10] = ["a", "b", "c", "before", "gated", "lost", "sign", "one", "two", "c1"];

/// Every request, about each of these executions, and the views of their pages.
fn requests_about(server: &WebServer, ids: &[String]) -> Vec<SurfaceRequest> {
    let value = |template: &str, name: &str| {
        let area = template.trim_start_matches('/').split(['/', ':']).next().unwrap();
        let value = match (area, name) {
            ("executions", "id") => ids[0].as_str(),
            ("executions", "step") => "d",
            ("executions", "value") => "arguments.json",
            ("plans", _) => "book",
            ("tasks", _) => "T-1",
            ("templates", _) => "kept",
            ("context", _) => "port",
            ("tools", "server") => "files",
            ("tools", "tool") => "read_file",
            _ => "nothing",
        };
        value.to_owned()
    };
    let mut requests = all_requests(server, value);
    let page = requests.iter().find(|one| one.path == format!("/executions/{}", ids[0])).unwrap().clone();
    let of_step = STEPS.iter().map(|step| format!("?view=steps&step={step}"));
    let views = ["?view=graph&step=a", "?view=timeline", "?view=journal"].map(str::to_owned);
    for query in views.into_iter().chain(of_step) {
        requests.push(SurfaceRequest { path: page.path.clone() + &query, ..page.clone() });
    }
    let steps = STEPS.iter().map(|step| format!("/api/v1/executions/{}/steps/{step}", ids[0]));
    requests.extend(steps.map(|path| SurfaceRequest { path, ..page.clone() }));
    for id in &ids[1..] {
        let of_first = requests.iter().filter(|one| one.path.contains(&ids[0]) && one.method == "GET");
        let of_other: Vec<SurfaceRequest> = of_first.map(|one| one.replaced(&ids[0], id)).collect();
        requests.extend(of_other);
    }
    requests
}

#[test]
fn viewer_reads_no_value_from_any_operation_or_page() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox);
    let ids = fill(&server, &sandbox);
    let viewer = new_token(&sandbox, "viewer", "eyes");
    let (mut withheld, mut refused, mut leaks) = (0, 0, Vec::new());
    let requests = requests_about(&server, &ids);
    for request in requests.iter().filter(|request| request.method == "GET" && !request.is_stream) {
        let reply = server.send_request(&viewer, request);
        if let Some(at) = reply.body.find(SECRETIVE) {
            let around = reply.body.get(at.saturating_sub(150)..(at + 30).min(reply.body.len()));
            leaks.push(format!("GET {}: …{}…", request.path, around.unwrap_or_default()));
        }
        let seen = server.send_request(&server.token, request).body.contains(SECRETIVE);
        withheld += usize::from(seen);
        refused += usize::from(seen && reply.status == 403);
    }
    assert!(leaks.is_empty(), "a viewer reads values:\n{}", leaks.join("\n"));
    assert!(
        withheld >= 60 && refused <= 20,
        "{withheld} requests show it to an admin, {refused} refuse a viewer"
    );
    for request in requests.iter().filter(|request| request.is_stream) {
        if request.is_page() {
            let part = server.first_part(&viewer, &request.path);
            assert!(part.contains("hx-partial") && !part.contains(SECRETIVE), "{}: {part}", request.path);
        }
    }
    let mut events = OpenStream::open(&server, &viewer, "?after=0", "");
    let head = server.get("/api/v1/journal/head").json()["position"].as_u64().unwrap();
    for _ in 0..head {
        let (_, entry) = events.next_text();
        assert!(!entry.contains(SECRETIVE), "the stream of events: {entry}");
    }
    check_searches(&server, &viewer);
    for request in requests.iter().filter(|request| request.method != "GET") {
        let reply = server.send_request(&viewer, request);
        assert!(!reply.body.contains(SECRETIVE), "{} {}: {reply:?}", request.method, request.path);
    }
    // An input that no plan here takes, so that a form comes back where the right is looked at too late.
    let headers = [("Authorization", format!("Bearer {viewer}")), ("Content-Type", FORM.to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    for path in [
        format!("/executions/{}/rerun", ids[0]),
        "/plans/book/run".to_owned(),
        "/templates/kept/use".to_owned(),
    ] {
        let reply = server.send("POST", &path, &headers, "word=%7B");
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
    }
}

/// A search says whether a word occurs, which is a value too.
fn check_searches(server: &WebServer, viewer: &str) {
    for search in ["/api/v1/context?search=quokka", "/api/v1/journal?search=quokka"] {
        assert_eq!(server.get_as(viewer, search).status, 403, "{search} tells whether a value has the word");
    }
    let (api, page) = (format!("/api/v1/plans?search={DESCRIBED}"), format!("/plans?search={DESCRIBED}"));
    for (token, finds) in [(server.token.as_str(), true), (viewer, false)] {
        let found = server.get_as(token, &api).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(usize::from(finds)), "{found}");
        let shown = server.get_as(token, &page).body;
        assert_eq!(shown.contains(">book<"), finds, "{shown}");
    }
}
