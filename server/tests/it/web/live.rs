//! The streams that keep pages current, and the executions that the server keeps folded for its pages.

use serde_json::json;

use super::open_stream::OpenStream;
use super::server::{WebServer, new_token};
use crate::cli::Sandbox;

/// Starts an execution of agent steps, which are all open at once; returns its id.
pub fn start_agent_steps(server: &WebServer, steps: usize) -> String {
    let step = |number: usize| json!({ "id": format!("s{number}"), "action": "look" });
    let steps: Vec<_> = (0..steps).map(step).collect();
    let plan = json!({ "name": "many", "policy": { "concurrency": steps.len() }, "steps": steps });
    let view = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })).json();
    view["id"].as_str().unwrap_or_else(|| panic!("{view}")).to_owned()
}

/// Reports that an agent step succeeded, with this output.
pub fn succeed(server: &WebServer, id: &str, step: &str, output: &str) {
    let path = format!("/api/v1/executions/{id}/steps/{step}/record");
    let reply = server.post(&path, &json!({ "status": "succeeded", "output": { "said": output } }));
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[test]
fn ended_session_and_revoked_token_end_their_page_streams() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = start_agent_steps(&server, 2);
    let cookie = format!("Cookie: {}\r\n", server.sign_in());
    let token = new_token(&sandbox, "viewer", "watcher");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let paths = ["/live".to_owned(), "/questions/live".to_owned(), format!("/executions/{id}/live")];
    let open = |headers: &String| paths.clone().map(|path| OpenStream::get(&server, &path, headers));
    let (of_session, of_token) = (open(&cookie), open(&bearer));
    let session = server.get("/api/v1/sessions").json()["items"][0]["id"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {}", server.token);
    let ended =
        server.send("DELETE", &format!("/api/v1/sessions/{session}"), &[("Authorization", &bearer)], "");
    assert!([200, 204].contains(&ended.status), "{ended:?}");
    sandbox.expect(0, &["token", "revoke", "watcher"]);
    of_session.into_iter().chain(of_token).for_each(|mut stream| stream.wait_for_end());
}

#[test]
fn streams_on_one_page_send_the_same_to_readers_with_the_same_rights() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = start_agent_steps(&server, 3);
    let viewer = format!("Authorization: Bearer {}\r\n", new_token(&sandbox, "viewer", "viewer"));
    let admin = format!("Authorization: Bearer {}\r\n", server.token);
    let path = format!("/executions/{id}/live?view=steps");
    let open = |headers: &String| OpenStream::get(&server, &path, headers);
    let mut of_admin = [open(&admin), open(&admin), open(&admin)];
    let mut of_viewer = open(&viewer);
    let whole = of_admin.each_mut().map(OpenStream::next_text);
    assert!(whole.iter().all(|event| *event == whole[0]));
    assert!(whole[0].1.contains("#head") && whole[0].1.contains("#view"), "{}", whole[0].1);
    assert_ne!(of_viewer.next_text().1, whole[0].1);
    succeed(&server, &id, "s0", "secret-output");
    let changed = of_admin.each_mut().map(OpenStream::next_text);
    assert!(changed.iter().all(|event| *event == changed[0]));
    assert!(changed[0].0 > whole[0].0 && changed[0].1.contains("secret-output"), "{}", changed[0].1);
    let (_, seen) = of_viewer.next_text();
    assert!(seen.contains("#view") && !seen.contains("secret-output"), "{seen}");
}

#[test]
fn page_of_a_kept_execution_shows_what_other_processes_did() {
    let sandbox = Sandbox::new();
    // Started by another process: what the server drives itself, it would know from its ledger.
    let steps: Vec<_> = ["s0", "s1"].map(|id| json!({ "id": id, "action": "look" })).into();
    sandbox.write("plan.json", &json!({ "name": "two", "steps": steps }).to_string());
    sandbox.expect(3, &["run", "plan.json"]);
    let id = sandbox.newest();
    let server = WebServer::start(&sandbox);
    let page = || server.get(&format!("/executions/{id}?view=steps")).body;
    assert!(!page().contains("by-another-process"));
    sandbox.expect(0, &["record", &id, "s0", "succeeded", "--output", r#"{"said":"by-another-process"}"#]);
    assert!(page().contains("by-another-process"));
}
