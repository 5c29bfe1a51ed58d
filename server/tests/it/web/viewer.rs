//! The role `viewer` over every operation of the API and every page: no argument, output, text of a tool, note, or
//! document of a plan.

use serde_json::json;

use super::server::{WebServer, new_token};
use super::surface::all_requests;
use crate::cli::Sandbox;

const FORM: &str = "application/x-www-form-urlencoded";

/// Stands in every place whose values are withheld, and in no name.
const SECRETIVE: &str = "quokka";

/// Writes `SECRETIVE` wherever a value can stand; the id of an execution with a failed step.
fn fill(server: &WebServer, sandbox: &Sandbox) -> String {
    let put =
        |path: &str, body| assert_eq!(server.send_json_as(&server.token, "PUT", path, &body).status, 200);
    let plan = json!({ "name": "book", "task": "T-1", "inputs": {
        "type": "object", "properties": { "word": { "default": SECRETIVE } },
    }, "steps": [
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
    ] });
    let task = json!({ "id": "T-1", "title": "Publish", "fields": { "word": SECRETIVE } });
    assert_eq!(server.post("/api/v1/tasks", &task).status, 201);
    let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
    let id = started.json()["id"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned();
    let report = json!({
        "status": "succeeded", "description": SECRETIVE, "output": SECRETIVE, "after_state": SECRETIVE, "wait_s": 30,
    });
    let ended = server.post(&format!("/api/v1/executions/{id}/steps/c/record"), &report);
    assert_eq!(ended.json()["status"], "blocked", "{ended:?}");
    let decision = json!({ "decision": "wait", "details": { "why": SECRETIVE } });
    assert_eq!(server.post(&format!("/api/v1/executions/{id}/decisions"), &decision).status, 200);
    put("/api/v1/context/port", json!({ "value": SECRETIVE, "metadata": { "x": SECRETIVE } }));
    put("/api/v1/context/stop", json!({ "value": SECRETIVE, "type": "blockers", "execution": id }));
    put("/api/v1/context/told", json!({ "value": SECRETIVE, "task": "T-1" }));
    sandbox.write("kept.json", &plan.to_string());
    sandbox.expect(0, &["template", "save", "kept.json", "kept"]);
    id
}

#[test]
fn viewer_reads_no_value_from_any_operation_or_page() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = fill(&server, &sandbox);
    let viewer = new_token(&sandbox, "viewer", "eyes");
    let value = |template: &str, name: &str| {
        let area = template.trim_start_matches('/').split(['/', ':']).next().unwrap();
        let value = match (area, name) {
            ("executions", "id") => id.as_str(),
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
    let (mut withheld, mut refused, mut leaks) = (0, 0, Vec::new());
    let mut requests = all_requests(&server, value);
    let more =
        ["?view=graph&step=a", "?view=steps&step=b", "?view=steps&step=c", "?view=timeline", "?view=journal"];
    let page = requests.iter().find(|one| one.path == format!("/executions/{id}")).unwrap().clone();
    for query in more {
        let mut request = page.clone();
        request.path.push_str(query);
        requests.push(request);
    }
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
        withheld >= 20 && refused <= 6,
        "{withheld} requests show it to an admin, {refused} refuse a viewer"
    );
    for request in requests.iter().filter(|request| request.is_stream) {
        if request.is_page() {
            let part = server.first_part(&viewer, &request.path);
            assert!(part.contains("hx-partial") && !part.contains(SECRETIVE), "{}: {part}", request.path);
        }
    }
    for search in ["/api/v1/context?search=quokka", "/api/v1/journal?search=quokka"] {
        assert_eq!(server.get_as(&viewer, search).status, 403, "{search} tells whether a value has the word");
    }
    for request in requests.iter().filter(|request| request.method != "GET") {
        let reply = server.send_request(&viewer, request);
        assert!(!reply.body.contains(SECRETIVE), "{} {}: {reply:?}", request.method, request.path);
    }
    // An input that no plan here takes, so that a form comes back where the right is looked at too late.
    let headers = [("Authorization", format!("Bearer {viewer}")), ("Content-Type", FORM.to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    for path in
        [format!("/executions/{id}/rerun"), "/plans/book/run".to_owned(), "/templates/kept/use".to_owned()]
    {
        let reply = server.send("POST", &path, &headers, "word=%7B");
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
    }
}
