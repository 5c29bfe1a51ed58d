//! Two projects on one database, over HTTP: for a token with the role `agent` the other project's items do not exist;
//! people see both.

use serde_json::{Value, json};

use super::open_stream::OpenStream;
use super::server::{WebServer, new_token};
use super::surface::{SurfaceRequest, all_requests};
use crate::cli::Sandbox;
use crate::mcp::projects::{
    ForeignProject, MARK, NOTE, PLAN, STEP, TASK, TEMPLATE, UNUSED_ID, fill_project, two_projects,
};

/// The value of a path's parameter that names an item of the other project.
fn foreign_value(foreign: &ForeignProject, template: &str, name: &str) -> String {
    let area = template.trim_start_matches('/').split(['/', ':']).next().unwrap();
    let value = match (area, name) {
        ("executions", "id") => &foreign.blocked,
        ("executions", "step") => STEP,
        ("executions", "value") => "arguments.json",
        ("plans", "id") => &foreign.plan,
        ("plans", "name") => PLAN,
        ("tasks", "id") => TASK,
        ("templates", "name") => TEMPLATE,
        ("context", "key") => NOTE,
        ("tools", "server") => "files",
        ("tools", "tool") => "write_file",
        ("tokens" | "sessions", "id") => "nothing",
        _ => panic!("{template}: say which item of the other project {{{name}}} is"),
    };
    value.to_owned()
}

/// The last position of the journal, and the kind and the execution of each entry after a position.
fn entries_after(sandbox: &Sandbox, after: u64) -> Vec<(u64, String, Value)> {
    let lines = sandbox.expect(0, &["journal", "--limit", "100000", "--json"]);
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed = entries.map(|entry| {
        let kind = entry["kind"].as_str().unwrap().to_owned();
        (entry["position"].as_u64().unwrap(), kind, entry["execution"].clone())
    });
    listed.filter(|(position, ..)| *position > after).collect()
}

#[test]
fn agent_token_sees_and_changes_nothing_of_another_project() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let server = WebServer::start(&second);
    let agent = new_token(&second, "agent", "claude");
    let ids = [&foreign.ended, &foreign.blocked, &foreign.plan, PLAN, TEMPLATE, NOTE, TASK];
    let before = entries_after(&first, 0).last().unwrap().0;
    let (mut api_shown, mut pages_shown) = (0, 0);
    for request in all_requests(&server, |path, name| foreign_value(&foreign, path, name)) {
        if request.is_stream {
            continue;
        }
        let shown = format!("{} {}", request.method, request.path);
        let reply = server.send_request(&agent, &request);
        let unasked = ids.iter().filter(|id| !request.path.contains(**id));
        for mark in unasked.chain([&MARK]) {
            assert!(!reply.body.contains(mark), "{shown} shows {mark}: {reply:?}");
        }
        let masked = |text: &str| ids.iter().fold(text.to_owned(), |text, id| text.replace(id, UNUSED_ID));
        let of_nothing = ids.iter().fold(request.clone(), |request, id| request.replaced(id, UNUSED_ID));
        if of_nothing.path != request.path && request.method != "PUT" {
            let of_nothing = server.send_request(&agent, &of_nothing);
            assert_eq!((reply.status, masked(&reply.body)), (of_nothing.status, of_nothing.body), "{shown}");
        }
        let sees_it =
            |request: &SurfaceRequest| server.send_request(&server.token, request).body.contains(MARK);
        if request.method == "GET" && sees_it(&request) {
            *(if request.is_page() { &mut pages_shown } else { &mut api_shown }) += 1;
        }
    }
    assert!(api_shown >= 12 && pages_shown >= 5, "a person sees both projects: {api_shown}, {pages_shown}");
    for (position, kind, execution) in entries_after(&first, before) {
        let is_foreign = execution == *foreign.ended || execution == *foreign.blocked;
        assert!(!is_foreign && !kind.contains("deleted"), "{position} {kind} {execution}");
    }
}

#[test]
fn agent_tokens_streams_leave_out_another_project() {
    let (first, second) = two_projects();
    let foreign = fill_project(&first);
    let server = WebServer::start(&second);
    let agent = new_token(&second, "agent", "claude");
    let own = json!({ "value": "port 4700" });
    let set = server.send_json_as(&agent, "PUT", "/api/v1/context/own", &own);
    let last = set.json()["position"].as_u64().unwrap();
    // The second stream reads what the first one left in the memory of the process.
    for _ in 0..2 {
        let mut stream = OpenStream::open(&server, &agent, "?after=0", "");
        let (position, entry) = stream.next();
        assert_eq!((position, &entry["kind"]), (last, &json!("note_set.2")), "{entry}");
    }
    let mut all = OpenStream::open(&server, &server.token, "?after=0", "");
    assert_eq!(all.next().0, 1, "a person reads every project's");
    for id in [&foreign.blocked, &foreign.ended] {
        assert_eq!(server.get_as(&agent, &format!("/executions/{id}/live")).status, 404);
    }
    let list = server.first_part(&agent, "/live");
    assert!(list.contains("hx-partial") && !list.contains(&foreign.blocked), "{list}");
    assert!(server.first_part(&server.token, "/live").contains(&foreign.blocked));
}

#[test]
fn agent_token_shares_with_other_projects_only_if_config_allows_it() {
    let (_first, second) = two_projects();
    let server = WebServer::start(&second);
    let agent = new_token(&second, "agent", "claude");
    let shared = json!({ "value": "port 4700", "everywhere": true });
    let refused = server.send_json_as(&agent, "PUT", "/api/v1/context/own", &shared);
    assert_eq!(refused.status, 403, "{refused:?}");
    let operator = new_token(&second, "operator", "ops");
    let set = server.send_json_as(&operator, "PUT", "/api/v1/context/own", &shared);
    assert_eq!(set.status, 200, "{set:?}");
}
