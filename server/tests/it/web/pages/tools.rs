//! Tools: servers with their state, one tool, and a changed one that is accepted.

use serde_json::{Value, json};

use super::{WebServer, blocked, hidden_field};
use crate::cli::Sandbox;
use crate::cli::changing_server::ChangingServer;
use crate::web::server::new_token;

fn tools(description: &str) -> Value {
    json!([{ "name": "act", "description": description, "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } } } }])
}

#[test]
fn servers_show_their_state_and_tools_their_figures() {
    let (sandbox, _) = blocked(super::PAYOUT);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, "/tools");
    for piece in [">up</span>", "no restart", "process ", "/tools/files/write_file", "100 %"] {
        assert!(page.contains(piece), "{piece}: {page}");
    }
    assert!(server.page(&cookie, "/tools?search=append").contains("files/append_file"));
    assert!(server.page(&cookie, "/tools?search=nothing").contains("Nothing matches"));
    let tool = server.page(&cookie, "/tools/files/write_file");
    for piece in ["Pin", "content", "100 %", "/?tool=files%2Fwrite_file"] {
        assert!(tool.contains(piece), "{piece}: {tool}");
    }
    assert_eq!(server.send("GET", "/tools/files/nothing", &[("Cookie", &cookie)], "").status, 404);
}

#[test]
fn unreachable_server_says_why() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({ "mcpServers": { "gone": { "command": "/nowhere/at-all" } } }));
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, "/tools");
    assert!(page.contains("cannot be reached") && page.contains("class=\"err\""), "{page}");
}

#[test]
fn changed_tool_is_shown_as_a_diff_and_accepted_as_shown() {
    let shifty = ChangingServer::new(&tools("Does one thing."));
    let plan = json!({ "name": "acts", "steps": [{ "id": "a", "tool": "shifty/act", "cancellable": "irreversible" }] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    shifty.sandbox.expect(0, &["plan", "save", "plan.json"]);
    let server = WebServer::start(&shifty.sandbox);
    let cookie = server.sign_in();
    assert!(!server.page(&cookie, "/tools").contains("Changed since"));
    drop(server);
    shifty.set_tools(&tools("Does another thing."));
    let server = WebServer::start(&shifty.sandbox);
    let cookie = server.sign_in();
    let list = server.page(&cookie, "/tools");
    assert!(list.contains("Changed since plans were saved") && list.contains("acts do not start"), "{list}");
    let tool = server.page(&cookie, "/tools/shifty/act");
    assert!(tool.contains("class=\"del\"") && tool.contains("Does another thing."), "{tool}");
    let digest = hidden_field(&tool, "digest").to_owned();
    let path = "/tools/shifty/act/accept";
    let stale = server.submit(&cookie, path, &[("digest", "another"), ("reason", "")]);
    assert_eq!(stale.header("location"), "/tools/shifty/act#change");
    assert!(server.page(&cookie, "/tools").contains("Changed since"), "another definition is not accepted");
    let viewer = new_token(&shifty.sandbox, "viewer", "guest");
    assert!(!server.get_as(&viewer, "/tools/shifty/act").body.contains("Accept for every plan"));
    let accepted = server.submit(&cookie, path, &[("digest", &digest), ("reason", "read it")]);
    assert_eq!((accepted.status, accepted.header("location")), (303, "/tools"));
    assert!(!server.page(&cookie, "/tools").contains("Changed since"));
    assert!(server.page(&cookie, "/journal?kind=tool_accepted").contains("reason read it"));
    shifty.sandbox.expect(0, &["run", "acts"]);
}
