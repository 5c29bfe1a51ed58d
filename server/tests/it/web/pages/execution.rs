//! The page of one execution: its timeline, its steps, its journal, the panel of a step, and running it again.

use serde_json::json;

use super::{PAYOUT, WebServer, blocked, save_plan};
use crate::cli::Sandbox;

/// A plan whose second step fails twice and is then left to a person.
const FLAKY: &str = r#"
name: flaky
steps:
  - { id: write, tool: files/write_file, arguments: { path: a.txt, content: a }, compensation: { tool: files/delete_file, arguments: { path: "${arguments.path}" } } }
  - { id: read, tool: files/read_file, depends_on: [write], arguments: { path: nowhere.txt }, read_only: true, retry: { max_attempts: 2, backoff: 10ms, on: [tool_error, not_found] } }
  - { id: last, action: Say so, depends_on: [read] }
"#;

/// How often a piece of HTML occurs.
fn occurs(html: &str, piece: &str) -> usize {
    html.matches(piece).count()
}

#[test]
fn timeline_tells_attempts_waits_retries_and_the_undo_apart() {
    let (sandbox, id) = blocked(FLAKY);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, &format!("/executions/{id}?view=timeline"));
    assert_eq!(occurs(&page, "<rect class=\"b-bad\" x=\""), 3, "one bar an attempt, and the legend: {page}");
    for piece in
        ["b-ok", "b-wait", "b-plan", "attempt 2, failed", ", goes on", "class=\"now\"", "undo, 1 call"]
    {
        assert!(page.contains(piece), "{piece}: {page}");
    }
    assert!(page.contains("data-precision="), "the axis has ticks: {page}");
    let (sandbox, id) = blocked(PAYOUT);
    sandbox.expect(0, &["approve", &id, "transfer"]);
    sandbox.expect(0, &["resume", &id]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let ended = server.page(&cookie, &format!("/executions/{id}?view=timeline"));
    assert!(
        ended.contains("waits for a person or an agent, ") && !ended.contains("class=\"now\""),
        "{ended}"
    );
    assert_eq!(sandbox.run(&["undo", &id]).code, Some(1), "the transfer stays");
    let undone = server.page(&cookie, &format!("/executions/{id}?view=timeline"));
    assert!(undone.contains("b-comp") && undone.contains("undo, succeeded"), "{undone}");
}

#[test]
fn undo_is_offered_only_where_something_can_be_undone() {
    let (sandbox, id) = blocked(FLAKY);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let head = || server.page(&cookie, &format!("/executions/{id}")).contains("Undo…");
    assert!(head(), "the file can be deleted");
    sandbox.expect(0, &["undo", &id]);
    assert!(!head(), "what remains done was only read");
}

#[test]
fn steps_are_windowed_and_found_on_the_server() {
    let sandbox = Sandbox::new();
    let steps: Vec<_> = (0..450).map(|no| json!({ "id": format!("s{no}"), "action": "look" })).collect();
    sandbox.write("long.json", &json!({ "name": "long", "steps": steps }).to_string());
    sandbox.expect(3, &["run", "long.json"]);
    let id = sandbox.newest();
    sandbox.expect(0, &["record", &id, "s0", "succeeded"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let rows = |html: &str| occurs(html, "<tr id=\"s-");
    let first = server.page(&cookie, &format!("/executions/{id}?view=steps"));
    assert_eq!(rows(&first), 200);
    assert!(
        first.contains("view=steps&#38;from=200#tabs") || first.contains("view=steps&from=200#tabs"),
        "{first}"
    );
    let last = server.page(&cookie, &format!("/executions/{id}?view=steps&from=400"));
    assert_eq!(rows(&last), 50);
    assert!(last.contains("/live?view=steps") && last.contains("from=400"), "live rows stay on this page");
    let hidden = server.page(&cookie, &format!("/executions/{id}?view=steps&finished=hide&from=400"));
    assert_eq!(rows(&hidden), 49, "the finished one is left out");
    let found = server.page(&cookie, &format!("/executions/{id}?view=steps&find=S44"));
    assert_eq!(rows(&found), 11, "s44 and s440 to s449");
    let timeline = server.page(&cookie, &format!("/executions/{id}?view=timeline&from=400"));
    assert_eq!(occurs(&timeline, "<div class=\"lab awaiting"), 0);
    assert_eq!(occurs(&timeline, "class=\"cut\" href=\"/executions/"), 50, "{timeline}");
    let graph = server.page(&cookie, &format!("/executions/{id}"));
    assert!(graph.contains("450 steps") || graph.contains("449 steps"), "equal steps are one box");
}

#[test]
fn journal_view_filters_and_leads_to_a_position() {
    let (sandbox, id) = blocked(FLAKY);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let journal = server.page(&cookie, &format!("/executions/{id}?view=journal"));
    let all = occurs(&journal, "<tr id=\"p-");
    let only_failures = server.page(&cookie, &format!("/executions/{id}?view=journal&failures=only"));
    let failures = occurs(&only_failures, "<tr id=\"p-");
    assert_eq!(failures, 3, "two attempts and the step: {only_failures}");
    assert!(all > failures);
    let of_kind = server.page(&cookie, &format!("/executions/{id}?view=journal&kind=attempt_started.2"));
    assert_eq!(occurs(&of_kind, "<td class=\"kind\">attempt_started.2"), 3, "{of_kind}");
    let position = only_failures.rsplit("<tr id=\"p-").next().unwrap().split('"').next().unwrap();
    let at = server.page(&cookie, &format!("/executions/{id}?view=journal&at={position}"));
    let first = at.split("<tr id=\"p-").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(first, position, "the page begins with the entry");
    let whole = server.page(&cookie, &format!("/journal?at={position}"));
    assert_eq!(whole.split("<tr id=\"p-").nth(1).unwrap().split('"').next().unwrap(), position);
    assert!(
        whole.contains(&format!("/executions/{id}?view=journal&amp;at={position}#p-{position}")),
        "{whole}"
    );
}

#[test]
fn panel_shows_a_long_value_whole_when_asked() {
    let sandbox = Sandbox::new();
    let text = format!("{}THE-END", "long ".repeat(1_000));
    let step = json!({ "id": "w", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": text }, "compensation": { "tool": "files/delete_file", "arguments": { "path": "a.txt" } } });
    sandbox.write("plan.json", &json!({ "name": "long", "steps": [step] }).to_string());
    sandbox.expect(0, &["run", "plan.json"]);
    let id = sandbox.newest();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let shown = |html: &str| {
        html.split("id=\"arguments\"").nth(1).unwrap().split("class=\"json\"").nth(1).unwrap().to_owned()
    };
    let cut = server.page(&cookie, &format!("/executions/{id}?step=w"));
    assert!(!shown(&cut).contains("THE-END") && cut.contains("Show all"), "{cut}");
    let whole = server.page(&cookie, &format!("/executions/{id}?step=w&all=arguments"));
    assert!(shown(&whole).contains("THE-END") && !whole.contains("Show all"));
    let saved =
        server.send("GET", &format!("/executions/{id}/steps/w/arguments.json"), &[("Cookie", &cookie)], "");
    assert_eq!((saved.status, saved.header("content-disposition")), (200, "attachment"));
    for copy in ["actbook show", "actbook watch", "curl -H", "/api/v1/executions/", "/export\""] {
        assert!(whole.contains(copy), "{copy}");
    }
}

#[test]
fn rerun_fills_in_the_inputs_and_takes_changed_ones() {
    let sandbox = Sandbox::new();
    let plan = json!({
        "name": "greet",
        "inputs": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string", "minLength": 2 }, "times": { "type": "integer", "default": 2 } } },
        "steps": [{ "id": "w", "tool": "files/write_file", "arguments": { "path": "out.txt", "content": "${inputs.name} ${string(inputs.times)}" }, "compensation": { "tool": "files/delete_file", "arguments": { "path": "out.txt" } } }]
    });
    save_plan(&sandbox, &plan);
    sandbox.expect(0, &["run", "greet", "--input", "name=Ada"]);
    let id = sandbox.newest();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let path = format!("/executions/{id}/rerun");
    let form = server.page(&cookie, &path);
    assert!(
        form.contains("name=\"name\" value=\"Ada\"") && form.contains("name=\"times\" value=\"2\""),
        "{form}"
    );
    let refused = server.submit(&cookie, &path, &[("name", "x"), ("times", "2.5")]);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        refused.body.contains("this is no whole number") && refused.body.contains("value=\"2.5\""),
        "{refused:?}"
    );
    let short = server.submit(&cookie, &path, &[("name", "x"), ("times", "2")]);
    assert_eq!(short.status, 422, "{short:?}");
    assert!(short.body.contains("class=\"fault\"") && short.body.contains("value=\"x\""), "{short:?}");
    let journal = sandbox.follow_journal();
    journal.wait_for("execution_ended", None);
    let started = server.submit(&cookie, &path, &[("name", "Grace"), ("times", "7")]);
    assert_eq!(started.status, 303, "{started:?}");
    assert_ne!(started.header("location"), format!("/executions/{id}"));
    journal.wait_for("execution_ended", None);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/out.txt")).unwrap(), "Grace 7");
}
