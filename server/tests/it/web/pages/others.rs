//! Notes, tasks, statistics, the journal, and how much a first visit loads.

use serde_json::json;

use super::{PAYOUT, WebServer, blocked};
use crate::cli::Sandbox;

/// Most bytes that a first visit loads, compressed and without data.
const FIRST_LOAD_BYTES_MAX: usize = 60_000;

#[test]
fn notes_are_found_with_excerpt_and_source() {
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["task", "add", "T-1", "--title", "Ship it"]);
    sandbox.expect(0, &["context", "set", "--task", "T-1", "deploy", "the lock is held by the nightly job"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let found = server.page(&cookie, "/context?search=nightly");
    assert!(found.contains("<mark>nightly</mark>"), "{found}");
    assert!(found.contains("href=\"/tasks/T-1\"") && found.contains("/journal?at="), "{found}");
    assert!(server.page(&cookie, "/context?search=absent").contains("Nothing matches"));
    assert!(server.page(&cookie, "/context?task=T-2").contains("Nothing matches"));
    let task = server.page(&cookie, "/tasks/T-1");
    assert!(task.contains("Ship it") && task.contains(">deploy</a>"), "{task}");
    let open = server.page(&cookie, "/tasks?status=open");
    assert!(open.contains("Ship it"), "{open}");
    assert!(server.page(&cookie, "/tasks?status=done").contains("Nothing matches"));
    assert_eq!(server.send("GET", "/tasks?status=mad", &[("Cookie", &cookie)], "").status, 400);
}

#[test]
fn figures_lead_to_their_rows() {
    let (sandbox, id) = blocked(PAYOUT);
    sandbox.expect(0, &["reject", &id, "transfer", "--reason", "no"]);
    let read = json!({ "name": "look", "steps": [{ "id": "r", "tool": "files/read_file", "arguments": { "path": "none.txt" }, "read_only": true }] });
    sandbox.write("look.json", &read.to_string());
    sandbox.expect(3, &["run", "look.json"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, "/stats?since=24h");
    for title in ["Failures", "Plans", "Tools", "Steps that failed", "Waiting for people", "Slowest steps"] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}: {page}");
    }
    assert!(page.contains("Executions over time") && page.contains("/?since=20"), "{page}");
    let figures = page.split("<td class=\"num\"><a href=\"").skip(1);
    let paths: std::collections::BTreeSet<String> = figures
        .map(|rest| rest.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&"))
        .collect();
    assert!(paths.len() > 4, "{paths:?}");
    for path in &paths {
        server.page(&cookie, path);
    }
    let tool = paths.iter().find(|path| path.contains("tool=files%2Fread_file")).unwrap();
    assert!(server.page(&cookie, tool).contains(">look</a>"), "{tool}");
    assert!(server.page(&cookie, "/stats?plan=nothing").contains("Nothing ran in this time"));
}

#[test]
fn journal_is_verified_from_its_page() {
    let (sandbox, _) = blocked(PAYOUT);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    assert!(server.page(&cookie, "/journal").contains("Not verified since this server started"));
    let verified = server.submit(&cookie, "/journal/verify", &[]);
    assert_eq!((verified.status, verified.header("location")), (303, "/journal#verification"));
    let page = server.page(&cookie, "/journal");
    assert!(page.contains("Verified <time") && page.contains(" hold, up to position "), "{page}");
    sandbox.expect(0, &["context", "set", "k", "v"]);
    assert!(server.page(&cookie, "/journal").contains("appended since"));
    assert!(server.page(&cookie, "/journal?since=1h&search=transfer").contains("step_"));
}

#[test]
fn first_load_is_at_most_60_kilobytes_compressed() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let plain = server.page(&cookie, "/");
    let loaded = |path: &str| {
        let reply = server.send("GET", path, &[("Cookie", &cookie), ("Accept-Encoding", "gzip")], "");
        assert_eq!((reply.status, reply.header("content-encoding")), (200, "gzip"), "{path}");
        assert_eq!(reply.header("vary"), "Accept-Encoding", "{path}");
        reply.header("content-length").parse::<usize>().unwrap()
    };
    let parts =
        plain.split(['"', ' ']).filter(|part| part.starts_with("/assets/") && !part.ends_with(".svg"));
    let files: std::collections::BTreeSet<&str> = parts.collect();
    assert!(files.len() >= 4, "{files:?}");
    let total = loaded("/") + files.iter().map(|path| loaded(path)).sum::<usize>();
    assert!(total <= FIRST_LOAD_BYTES_MAX, "{total} bytes");
    let unasked = server.send("GET", "/assets/actbook.css", &[("Cookie", &cookie)], "");
    assert_eq!(unasked.header("content-encoding"), "");
}
