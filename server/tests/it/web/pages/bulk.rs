//! One command to several executions, from the list: first a page with their number.

use serde_json::json;

use super::{WebServer, hidden_field};
use crate::cli::Sandbox;
use crate::web::server::new_token;

/// A sandbox with this many executions of `hand`, which wait for a person, and their ids.
fn waiting(count: usize) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    sandbox.write(
        "plan.json",
        &json!({ "name": "hand", "steps": [{ "id": "a", "action": "look" }] }).to_string(),
    );
    let mut ids = Vec::new();
    for _ in 0..count {
        sandbox.expect(3, &["run", "plan.json"]);
        ids.push(sandbox.newest());
    }
    (sandbox, ids)
}

fn status(sandbox: &Sandbox, id: &str) -> String {
    sandbox.json(&["show", id])["status"].as_str().unwrap().to_owned()
}

#[test]
fn all_that_match_are_counted_first_and_later_ones_left_alone() {
    let (sandbox, ids) = waiting(3);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let asked = server.page(&cookie, "/bulk?action=pause&all=1&plan=hand");
    assert!(asked.contains("Pause 3 executions?") && asked.contains("plan: hand"), "{asked}");
    assert!(ids.iter().all(|id| status(&sandbox, id) == "blocked"), "asking does nothing");
    let cursor = hidden_field(&asked, "go_on").to_owned();
    sandbox.expect(3, &["run", "plan.json"]);
    let later = sandbox.newest();
    let fields =
        [("action", "pause"), ("all", "1"), ("plan", "hand"), ("go_on", &cursor), ("reason", "freeze")];
    let done = server.submit(&cookie, "/bulk", &fields);
    assert!(done.status == 200 && done.body.contains("Pause: 3 done, 0 refused"), "{done:?}");
    assert!(ids.iter().all(|id| status(&sandbox, id) == "paused"));
    assert_eq!(status(&sandbox, &later), "blocked");
    assert!(server.page(&cookie, "/journal?kind=paused").contains("reason freeze"));
    let none = server.page(&cookie, "/bulk?action=retry&all=1&plan=hand");
    assert!(none.contains("Nothing to do"), "{none}");
}

#[test]
fn picked_executions_get_the_command_and_no_others() {
    let (sandbox, ids) = waiting(3);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let list = server.page(&cookie, "/?plan=hand");
    assert!(list.contains(&format!("form=\"bulk\" name=\"id\" value=\"{}\"", ids[0])), "{list}");
    assert!(list.contains("all 3 matching"), "{list}");
    let asked = server.page(&cookie, &format!("/bulk?plan=hand&id={}&id={}&action=cancel", ids[0], ids[2]));
    assert!(asked.contains("Cancel 2 executions?"), "{asked}");
    let done = server.submit(&cookie, "/bulk", &[("action", "cancel"), ("id", &ids[0]), ("id", &ids[2])]);
    assert!(done.body.contains("Cancel: 2 done, 0 refused"), "{done:?}");
    let statuses: Vec<String> = ids.iter().map(|id| status(&sandbox, id)).collect();
    assert_eq!(statuses, ["cancelled", "blocked", "cancelled"]);
    let bad = ["/bulk?action=pause", "/bulk?action=approve&all=1", "/bulk?all=1"];
    assert!(bad.iter().all(|path| server.send("GET", path, &[("Cookie", &cookie)], "").status == 400));
    let viewer = new_token(&sandbox, "viewer", "guest");
    assert_eq!(server.get_as(&viewer, "/bulk?action=pause&all=1").status, 403);
    assert!(!server.get_as(&viewer, "/").body.contains("name=\"all\""));
}
