//! The list of executions: filters that include and exclude, their completion, and saved views.

use serde_json::json;

use super::WebServer;
use crate::cli::Sandbox;
use crate::waiting::wait_until;

/// A sandbox with an execution of each of these plans, which wait for a person.
fn sandbox_with(plans: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for plan in plans {
        let document =
            json!({ "name": plan, "task": format!("T-{plan}"), "steps": [{ "id": "a", "action": "look" }] });
        sandbox.write("plan.json", &document.to_string());
        sandbox.expect(3, &["run", "plan.json"]);
    }
    sandbox
}

/// The plans of the rows of a list.
fn listed(html: &str) -> Vec<&str> {
    html.split("<a class=\"name\"")
        .skip(1)
        .filter_map(|row| row.split('>').nth(1)?.split('<').next())
        .collect()
}

#[test]
fn filters_include_and_exclude() {
    let sandbox = sandbox_with(&["red", "green", "blue"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let plans = |path: &str| {
        let html = server.page(&cookie, path);
        listed(&html).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plans("/"), ["blue", "green", "red"]);
    assert_eq!(plans("/?plan!=green"), ["blue", "red"]);
    assert_eq!(plans("/?plan=red&plan=green"), ["green", "red"]);
    assert_eq!(plans("/?plan=red&plan=green&task!=T-red"), ["green"]);
    let page = server.page(&cookie, "/?plan=red&plan=green&task!=T-red");
    assert!(page.contains("task is not") && page.contains("1 of 1, newest first"), "{page}");
    let added = server.send("GET", "/?plan=red&add=task&is=not&value=T-x", &[("Cookie", &cookie)], "");
    assert_eq!((added.status, added.header("location")), (303, "/?plan=red&task!=T-x"));
    let many: String = (0..30).map(|no| format!("plan=p{no}&")).collect();
    assert_eq!(server.send("GET", &format!("/?{many}"), &[("Cookie", &cookie)], "").status, 400);
}

#[test]
fn values_of_a_filter_are_completed() {
    let sandbox = sandbox_with(&["release", "report"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let values = |query: &str| server.page(&cookie, &format!("/filter-values?{query}"));
    assert_eq!(values("add=plan&value=rel"), "<option value=\"release\">");
    assert!(values("add=plan&value=").contains("report"));
    assert!(
        values("add=category&value=").contains("timeout") && values("add=status&value=").contains("blocked")
    );
    sandbox.expect(0, &["task", "add", "T-7", "--title", "Ship it"]);
    assert_eq!(values("add=task&value=t-"), "<option value=\"T-7\">");
    assert_eq!(values("add=nothing&value=x"), "");
}

#[test]
fn saved_view_is_an_address_with_a_name() {
    let sandbox = sandbox_with(&["red"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let query = "plan!=heartbeat&since=24h";
    let saved = server.submit(&cookie, "/views", &[("name", "Today, no heartbeat"), ("query", query)]);
    assert_eq!((saved.status, saved.header("location")), (303, format!("/?{query}").as_str()));
    let both = format!("{cookie}; {}", saved.cookie());
    let page = server.page(&both, "/");
    assert!(
        page.contains("Today, no heartbeat") && page.contains(&format!("/?{}", query.replace('&', "&#38;"))),
        "{page}"
    );
    let shown = server.page(&both, &format!("/?{query}"));
    assert!(shown.contains("<summary class=\"btn plain small\">Today, no heartbeat"), "{shown}");
    let forgotten = server.submit(&both, "/views", &[("name", "Today, no heartbeat"), ("remove", "1")]);
    assert_eq!(forgotten.cookie(), "actbook-views=");
    // A view leads to the list alone, whatever a form says.
    let odd = server.submit(&cookie, "/views", &[("name", "x"), ("query", "//evil.example/?plan=a")]);
    assert_eq!(odd.header("location"), "/");
    assert_eq!(server.submit(&cookie, "/views", &[("name", " "), ("query", "plan=a")]).status, 400);
}

#[test]
fn page_that_lacks_entries_says_so_until_it_has_them() {
    let sandbox = sandbox_with(&["red"]);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    assert!(!server.page(&cookie, "/?status=failed").contains("entries of the journal"));
    let database = rusqlite::Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    // The projector is stopped, and others append more than a reader catches up with by itself.
    let base = 1_u64 << 40;
    let append = format!(
        "CREATE TRIGGER stop BEFORE INSERT ON hours BEGIN SELECT RAISE(ABORT, 'stopped'); END; \
         INSERT INTO journal (tenant, entry, stream, version, at, actor, kind, body, hash) \
         SELECT head.tenant, {base} + position + 3000, position + 3000, 1, at, actor, kind, body, journal.hash \
         FROM head JOIN journal ON entry = {base} + position WHERE head.tenant = 1; \
         UPDATE head SET position = position + 3000 WHERE tenant = 1"
    );
    database.execute_batch(&append).unwrap();
    let page = |path: &str| server.send("GET", path, &[("Cookie", &cookie)], "").body;
    wait_until("a page that says what it lacks", || {
        page("/?status=failed").contains("lack the newest 3,000 entries")
    });
    assert!(page("/stats").contains("lack the newest 3,000 entries of the journal"));
    assert!(page("/?status=failed").contains("filters and counts lack the newest 3,000 entries"));
    assert_eq!(server.get("/api/v1/executions?status=failed").json()["behind"], 3_000);
    assert_eq!(server.get("/api/v1/questions").json()["behind"], 3_000);
    database.execute_batch("DROP TRIGGER stop").unwrap();
    wait_until("a page that lacks nothing", || !page("/?status=failed").contains("lack the newest"));
    assert!(server.get("/api/v1/executions?status=failed").json()["behind"].is_null());
}
