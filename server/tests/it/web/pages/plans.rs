//! Plans: the list, versions, what changed between two of them, the editor, and templates.

use serde_json::{Value, json};

use super::{WebServer, save_plan};
use crate::cli::Sandbox;

/// A plan of one write, with or without what undoes it.
fn write_plan(with_undo: bool) -> Value {
    let mut step =
        json!({ "id": "w", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "a" } });
    if with_undo {
        step["compensation"] = json!({ "tool": "files/delete_file", "arguments": { "path": "a.txt" } });
    }
    json!({ "name": "notes", "type": "writing", "task": "T-1", "description": "Keeps notes", "steps": [step] })
}

#[test]
fn versions_are_listed_and_compared_with_verdicts() {
    let sandbox = Sandbox::new();
    save_plan(&sandbox, &write_plan(true));
    let path = save_plan(&sandbox, &write_plan(false));
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, &path);
    assert!(page.contains("v2") && page.contains(&format!("{path}?version=1")), "{page}");
    let old = server.page(&cookie, &format!("{path}?version=1"));
    assert!(old.contains("not the newest version") && !old.contains("Run the plan"), "{old}");
    let diff = server.page(&cookie, &format!("{path}/diff?from=1&to=2"));
    assert!(diff.contains("nothing undoes step <code>w</code> any more"), "{diff}");
    assert!(diff.contains("<code>compensation</code>") && diff.contains("class=\"del\""), "{diff}");
    assert!(server.page(&cookie, &format!("{path}/diff?from=2&to=2")).contains("Nothing differs"));
    assert_eq!(server.send("GET", &format!("{path}/diff?from=7"), &[("Cookie", &cookie)], "").status, 404);
}

#[test]
fn list_is_filtered_by_words_type_and_task() {
    let sandbox = Sandbox::new();
    save_plan(&sandbox, &write_plan(true));
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    for query in ["search=keeps", "type=writing", "task=T-1", ""] {
        assert!(server.page(&cookie, &format!("/plans?{query}")).contains(">notes</a>"), "{query}");
    }
    for query in ["search=other", "type=reading", "task=T-2"] {
        assert!(server.page(&cookie, &format!("/plans?{query}")).contains("Nothing matches"), "{query}");
    }
}

#[test]
fn editor_checks_beside_the_text_and_saves_a_version() {
    let sandbox = Sandbox::new();
    let path = save_plan(&sandbox, &write_plan(true));
    let id = path.strip_prefix("/plans/").unwrap();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let editor = server.page(&cookie, &format!("{path}/edit"));
    assert!(editor.contains("name: notes") && editor.contains("can run"), "{editor}");
    let bad = "name: notes\nsteps:\n  - { id: w, tool: files/wrote_file }\n";
    let origin = format!("http://{}", server.process.address);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Origin", &origin),
        ("HX-Request", "true"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let body = format!("text={}", super::encode(bad));
    let part = server.send("POST", "/plans/check", &headers, &body);
    assert!(part.status == 200 && part.body.starts_with("<section class=\"card\" id=\"check\">"), "{part:?}");
    assert!(part.body.contains("files/write_file"), "the nearest name: {part:?}");
    let refused = server.submit(&cookie, "/plans/save", &[("text", bad), ("plan", id)]);
    assert!(refused.status == 422 && refused.body.contains("files/wrote_file"), "{refused:?}");
    assert!(refused.body.contains("Change notes"), "{refused:?}");
    let good = "name: notes\nsteps:\n  - { id: w, action: Write it down }\n";
    let saved = server.submit(&cookie, "/plans/save", &[("text", good), ("plan", id)]);
    assert_eq!((saved.status, saved.header("location")), (303, path.as_str()));
    assert!(server.page(&cookie, &path).contains("v2"));
    assert!(server.page(&cookie, "/plans/new").contains("name: my-plan"));
}

#[test]
fn template_becomes_a_plan() {
    let sandbox = Sandbox::new();
    let mut plan = write_plan(true);
    plan["inputs"] = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    plan["steps"][0]["arguments"]["content"] = json!("${inputs.text}");
    save_plan(&sandbox, &plan);
    sandbox.expect(0, &["template", "save", "notes"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let list = server.page(&cookie, "/templates");
    assert!(list.contains("/templates/notes") && list.contains(">Actbook</span>"), "{list}");
    assert!(server.page(&cookie, "/templates/notes").contains("name=\"text\""));
    let fields = [("//name", "my-notes"), ("//task", "T-9"), ("text", "hello")];
    let made = server.submit(&cookie, "/templates/notes/use", &fields);
    assert_eq!(made.status, 303, "{made:?}");
    let page = server.page(&cookie, made.header("location"));
    assert!(page.contains("my-notes") && page.contains("T-9") && page.contains("value=\"hello\""), "{page}");
    let unknown = server.send("GET", "/templates/nothing", &[("Cookie", &cookie)], "");
    assert_eq!(unknown.status, 404);
}
