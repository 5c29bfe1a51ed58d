//! The API: a story from a plan to its undo, lists, problems and idempotency keys.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::server::{WebServer, expect};
use crate::cli::Sandbox;

/// A plan that writes a file, asks before the second one, and can be undone.
fn careful_plan() -> Value {
    let write = |id: &str| {
        json!({
            "id": id, "tool": "files/write_file", "arguments": { "path": format!("{id}.txt"), "content": "x" },
            "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
        })
    };
    let mut second = write("second");
    second["approval"] = json!("required");
    json!({ "name": "careful", "steps": [write("first"), second] })
}

/// Starts the plan and waits for its question; its view.
fn start(server: &WebServer) -> Value {
    let body = json!({ "plan": careful_plan(), "wait_s": 30 });
    expect(201, &server.post("/api/v1/executions", &body))
}

#[test]
fn plan_runs_asks_and_is_undone_over_the_api() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let view = start(&server);
    assert_eq!(view["status"], "blocked", "{view}");
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    let inbox = expect(200, &server.get("/api/v1/questions"));
    let question = &inbox["items"][0];
    assert_eq!((&question["step"], &question["for"]), (&json!("second"), &json!("approval")), "{inbox}");
    assert_eq!(question["execution"]["id"], view["id"]);
    assert!(question["text"].as_str().unwrap().contains("second.txt"), "{question}");
    let step = expect(200, &server.get(&format!("{path}/steps/first")));
    assert_eq!(step["arguments"]["path"], "first.txt", "{step}");
    let yes = json!({ "step_id": "second", "question": question["id"], "reason": "fine", "wait_s": 30 });
    let ended = expect(200, &server.post(&format!("{path}/approve"), &yes));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert!(sandbox.path("work/second.txt").exists());
    let brief = expect(200, &server.post(&format!("{path}/undo"), &json!({ "dry_run": true })));
    assert_eq!(brief["undo"].as_array().map(Vec::len), Some(2), "{brief}");
    let undone = expect(200, &server.post(&format!("{path}/undo"), &json!({ "wait_s": 30 })));
    assert_eq!(undone["status"], "compensated", "{undone}");
    assert!(!sandbox.path("work/second.txt").exists());
    let approved = expect(200, &server.get(&format!("{path}/journal?kind=step_approved")));
    assert_eq!(approved["items"][0]["actor"], "program:tester", "{approved}");
    let verified = expect(200, &server.post("/api/v1/journal:verify", &json!({})));
    assert_eq!(verified["ok"], true, "{verified}");
    assert_eq!(server.get(&format!("{path}/export")).status, 200);
}

#[test]
fn answered_question_names_who_answered() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let view = start(&server);
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    let question = view["waiting"][0]["id"].clone();
    assert!(question.is_string(), "{view}");
    let no = json!({ "step_id": "second", "question": question, "reason": "not today" });
    expect(200, &server.post(&format!("{path}/reject"), &no));
    let late = expect(409, &server.post(&format!("{path}/approve"), &no));
    assert_eq!((&late["code"], &late["answer"]["by"]), (&json!("stale_question"), &json!("program:tester")));
    assert_eq!(late["answer"]["kind"], "step_rejected", "{late}");
}

#[test]
fn repeated_key_gives_the_same_answer_and_another_body_is_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let token = format!("Bearer {}", server.token);
    let post = |key: &str, body: &Value| {
        let headers = [
            ("Authorization", token.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        server.send("POST", "/api/v1/executions", &headers, &body.to_string())
    };
    let body = json!({ "plan": careful_plan(), "wait_s": 30 });
    let first = post("\"k-1\"", &body);
    let id = expect(201, &first)["id"].clone();
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = post("k-1", &json!({ "plan": careful_plan() }));
    assert_eq!(expect(201, &again)["id"], id, "`wait_s` is no part of the request");
    assert_eq!(again.header("idempotency-replayed"), "true");
    let other = post("k-1", &json!({ "plan_id": "careful" }));
    assert_eq!(expect(422, &other)["code"], "key_reused");
    let second = WebServer { token: super::server::new_token(&sandbox, "admin", "tester"), ..server };
    let fresh = second.send(
        "POST",
        "/api/v1/executions",
        &[
            ("Authorization", &format!("Bearer {}", second.token)),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "k-1"),
        ],
        &body.to_string(),
    );
    assert_ne!(expect(201, &fresh)["id"], id, "keys are separate per credential, even under one name");
}

#[test]
fn lists_are_paged_by_cursors_that_fit_their_filters_alone() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let plan = json!({ "name": "quick", "steps": [{ "id": "a", "action": "look" }] });
    let started: Vec<Value> = (0..5)
        .map(|_| expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan })))["id"].clone())
        .collect();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(200, &server.get(&format!("/api/v1/executions?plan=quick&limit=2{cursor}")));
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let newest_first: Vec<Value> = started.into_iter().rev().collect();
    assert_eq!(seen, newest_first);
    let other = expect(400, &server.get(&format!("/api/v1/executions?plan=other{cursor}")));
    assert_eq!(
        (&other["code"], &other["errors"][0]["pointer"]),
        (&json!("foreign_cursor"), &json!("cursor"))
    );
    for wrong in ["limit=0", "limit=501", "status=happy", "since=tomorrowish", "unknown=1", "cursor=x"] {
        let refused = server.get(&format!("/api/v1/executions?{wrong}"));
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (400, "application/problem+json"),
            "{wrong}"
        );
    }
}

#[test]
fn problems_name_the_code_the_cure_and_the_place() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let missing = expect(404, &server.get("/api/v1/executions/zzzz"));
    assert_eq!(missing["code"], "no_such_execution");
    assert_eq!(missing["cure"], "GET /api/v1/executions lists them");
    assert_eq!(missing["instance"], "/api/v1/executions/zzzz");
    assert_eq!(missing["type"], "urn:actbook:problem:no_such_execution");
    let broken =
        json!({ "plan": { "name": "p", "steps": [{ "id": "a", "tool": "files/none" }, { "id": "a" }] } });
    let invalid = expect(422, &server.post("/api/v1/plans", &broken));
    assert_eq!(invalid["code"], "invalid", "{invalid}");
    assert!(invalid["errors"].as_array().unwrap().len() > 1, "{invalid}");
    let unknown = expect(422, &server.post("/api/v1/executions", &json!({ "plan_ids": "p" })));
    assert!(unknown["detail"].as_str().unwrap().contains("plan_ids"), "{unknown}");
    let misplaced =
        expect(422, &server.post("/api/v1/plans", &json!({ "plan": { "name": "p" }, "offline": 3 })));
    assert_eq!(misplaced["errors"][0]["pointer"], "/offline", "{misplaced}");
    let token = format!("Bearer {}", server.token);
    let text = [("Authorization", token.as_str()), ("Content-Type", "text/plain")];
    assert_eq!(
        expect(415, &server.send("POST", "/api/v1/plans", &text, "{}"))["code"],
        "unsupported_media_type"
    );
    let json_type = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
    assert_eq!(expect(400, &server.send("POST", "/api/v1/plans", &json_type, "{"))["code"], "malformed_json");
    assert_eq!(expect(404, &server.get("/api/v1/nowhere"))["code"], "not_found");
    let method = server.send("PUT", "/api/v1/plans", &json_type, "{}");
    assert_eq!(expect(405, &method)["code"], "method_not_allowed");
    assert!(method.header("allow").contains("POST"), "{method:?}");
    let mut long = server.process.connect();
    let host = &server.process.address;
    let head = format!(
        "POST /api/v1/plans HTTP/1.1\r\nHost: {host}\r\nAuthorization: {token}\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n"
    );
    long.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    long.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("\"code\":\"too_large\""), "{reply}");
    assert!(reply.contains("content-type: application/problem+json"), "{reply}");
}

#[test]
fn beginning_of_an_id_names_nothing_over_the_api() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let id = start(&server)["id"].as_str().unwrap().to_owned();
    let short = &id[..8];
    assert_eq!(sandbox.json(&["show", short])["id"], id.as_str(), "the command line takes it");
    assert_eq!(expect(404, &server.get(&format!("/api/v1/executions/{short}")))["code"], "no_such_execution");
    let cancel = server.post(&format!("/api/v1/executions/{short}/cancel"), &json!({}));
    assert_eq!(expect(404, &cancel)["code"], "no_such_execution");
    let plan = expect(200, &server.get("/api/v1/plans/careful"))["id"].as_str().unwrap().to_owned();
    expect(200, &server.get(&format!("/api/v1/plans/{plan}")));
    expect(404, &server.get(&format!("/api/v1/plans/{}", &plan[..8])));
    let token =
        expect(201, &server.post("/api/v1/tokens", &json!({ "name": "x", "role": "viewer" })))["id"].clone();
    let revoke =
        |id: &str| server.send_json_as(&server.token, "DELETE", &format!("/api/v1/tokens/{id}"), &json!({}));
    let token = token.as_str().unwrap();
    assert_eq!(expect(404, &revoke(&token[..8]))["code"], "no_such_token");
    expect(200, &revoke(token));
}

#[test]
fn key_that_is_empty_or_too_long_is_refused_by_every_change() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let bearer = format!("Bearer {}", server.token);
    let long = "k".repeat(201);
    for key in ["", "\"\"", long.as_str()] {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        for (method, path) in
            [("POST", "/journal:verify"), ("DELETE", "/tokens/none"), ("POST", "/executions")]
        {
            let refused = server.send(method, &format!("/api/v1{path}"), &headers, "{}");
            assert_eq!(expect(400, &refused)["errors"][0]["pointer"], "Idempotency-Key", "{method} {path}");
        }
    }
}

#[test]
fn every_list_comes_in_pages_that_its_cursors_continue() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for name in ["a", "b", "c"] {
        expect(201, &server.post("/api/v1/tokens", &json!({ "name": name, "role": "viewer" })));
    }
    for (list, key) in [("tokens", "id"), ("templates", "name"), ("tools", "name")] {
        let whole = expect(200, &server.get(&format!("/api/v1/{list}?limit=500")))["items"].clone();
        let whole: Vec<&Value> = whole.as_array().unwrap().iter().map(|item| &item[key]).collect();
        assert!(whole.len() > 2, "{list}: {whole:?}");
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = expect(200, &server.get(&format!("/api/v1/{list}?limit=2{cursor}")));
            paged.extend(page["items"].as_array().unwrap().iter().map(|item| item[key].clone()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(paged.iter().collect::<Vec<_>>(), whole, "{list}");
        let foreign = server.get(&format!("/api/v1/servers?limit=2{cursor}"));
        assert_eq!(expect(400, &foreign)["code"], "foreign_cursor");
    }
}

#[test]
fn what_was_created_is_read_at_its_location() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let execution = server.post("/api/v1/executions", &json!({ "plan": careful_plan(), "wait_s": 30 }));
    let id = expect(201, &execution)["id"].as_str().unwrap().to_owned();
    let rerun = server.post(&format!("/api/v1/executions/{id}/rerun"), &json!({}));
    let plan = server.post("/api/v1/plans", &json!({ "plan": careful_plan() }));
    let task = server.post("/api/v1/tasks", &json!({ "id": "A/B c", "title": "Ship" }));
    for created in [execution, rerun, plan, task] {
        expect(201, &created);
        let found = expect(200, &server.get(created.header("location")));
        let id =
            |view: &Value| ["id", "plan_id"].iter().find_map(|name| view[name].as_str().map(str::to_owned));
        assert_eq!(id(&found).or(id(&found["task"])), id(&created.json()), "{found}");
    }
}

#[test]
fn search_of_too_many_words_says_so() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let refused = server.get("/api/v1/executions?search=a+b+c+d+e");
    assert_eq!(expect(400, &refused)["code"], "too_many_words");
    let page = server.send("GET", "/?search=a+b+c+d+e", &[("Cookie", &server.sign_in())], "");
    assert!(page.status == 400 && page.body.contains("Too many words"), "{page:?}");
}

#[test]
fn notes_tasks_plans_and_tools_are_kept_over_the_api() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let put = |path: &str, body: Value| server.send_json_as(&server.token, "PUT", path, &body);
    expect(200, &put("/api/v1/context/port", json!({ "value": "4700 is ours", "type": "fact" })));
    let found = expect(200, &server.get("/api/v1/context?search=ours"));
    assert_eq!(found["items"][0]["key"], "port", "{found}");
    assert_eq!(expect(200, &server.get("/api/v1/context/port"))["value"], "4700 is ours");
    let task = json!({ "id": "T-1", "title": "Ship", "estimate": "4h", "priority": 2.0 });
    assert_eq!(expect(201, &server.post("/api/v1/tasks", &task))["priority"], 2, "2.0 is an integer");
    let done = server.send_json_as(&server.token, "PATCH", "/api/v1/tasks/T-1", &json!({ "status": "done" }));
    assert_eq!(expect(200, &done)["status"], "done");
    assert_eq!(expect(200, &server.get("/api/v1/tasks/T-1"))["task"]["title"], "Ship");
    let saved = expect(201, &server.post("/api/v1/plans", &json!({ "plan": careful_plan() })));
    assert_eq!((&saved["version"], &saved["check"]["ok"]), (&json!(1), &json!(true)));
    let shown = expect(200, &server.get("/api/v1/plans/careful"));
    assert_eq!(shown["document"]["steps"][0]["id"], "first", "{shown}");
    let drawn = server.get("/api/v1/plans/careful/graph.svg");
    assert_eq!((drawn.status, drawn.header("content-type")), (200, "image/svg+xml"));
    assert!(drawn.body.starts_with("<svg") && drawn.body.contains("second"), "{drawn:?}");
    let deleted = server.send_json_as(&server.token, "DELETE", "/api/v1/plans/careful", &json!({}));
    assert_eq!(expect(200, &deleted)["name"], "careful");
    expect(404, &server.get("/api/v1/plans/careful"));
    let tools = expect(200, &server.get("/api/v1/tools?server=files&search=write_file"));
    assert_eq!(tools["items"][0]["name"], "files/write_file", "{tools}");
    assert_eq!(expect(200, &server.get("/api/v1/servers"))["items"][0]["error"], Value::Null);
    assert!(expect(200, &server.get("/api/v1/stats?since=30d"))["executions"]["total"].is_u64());
    assert!(!expect(200, &server.get("/api/v1/templates"))["items"].as_array().unwrap().is_empty());
    let position =
        expect(201, &server.post("/api/v1/records", &json!({ "description": "renamed it" })))["position"]
            .clone();
    assert_eq!(expect(200, &server.get("/api/v1/journal/head"))["position"], position);
}

#[test]
fn agent_step_is_reported_and_rerun_over_the_api() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let plan = json!({ "name": "hand", "steps": [{ "id": "a", "action": "look" }] });
    let view = expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })));
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    let report = json!({ "status": "succeeded", "description": "looked", "wait_s": 30 });
    let ended = expect(200, &server.post(&format!("{path}/steps/a/record"), &report));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let again = expect(201, &server.post(&format!("{path}/rerun"), &json!({})));
    assert_ne!(again["id"], view["id"]);
    assert_eq!(again["plan"], view["plan"]);
    let steps = expect(200, &server.get(&format!("{path}/steps?status=succeeded&limit=1")));
    assert_eq!((&steps["items"][0]["id"], &steps["next_cursor"]), (&json!("a"), &Value::Null));
}

#[test]
fn versions_of_a_plan_are_compared_with_what_the_newer_one_lacks() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let mut plan = careful_plan();
    expect(201, &server.post("/api/v1/plans", &json!({ "plan": plan })));
    let alone = expect(404, &server.get("/api/v1/plans/careful/diff"));
    assert_eq!(alone["code"], "no_such_version", "{alone}");
    plan["steps"][1]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| !["approval", "compensation"].contains(&field.as_str()));
    expect(201, &server.post("/api/v1/plans", &json!({ "plan": plan })));
    let compared = expect(200, &server.get("/api/v1/plans/careful/diff"));
    assert_eq!((&compared["from"]["version"], &compared["to"]["version"]), (&json!(1), &json!(2)));
    assert_eq!(
        (&compared["steps"][0]["step"], &compared["steps"][0]["change"]),
        (&json!("second"), &json!("changed"))
    );
    let codes: Vec<&str> =
        compared["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    let expected =
        ["point_of_no_return_moved", "compensation_lost", "reversibility_weakened", "approval_weakened"];
    assert_eq!(codes, expected, "{compared}");
    let printed = sandbox.json(&["plan", "diff", "careful"]);
    assert_eq!(printed["findings"], compared["findings"], "the command line shows the same");
    let same = expect(200, &server.get("/api/v1/plans/careful/diff?from=2&to=2"));
    assert_eq!((&same["steps"], &same["findings"]), (&json!([]), &json!([])));
}

#[test]
fn execution_is_drawn_with_its_states_and_its_times() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let view = start(&server);
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    let drawn = server.get(&format!("{path}/graph.svg"));
    assert_eq!((drawn.status, drawn.header("content-type")), (200, "image/svg+xml"));
    for state in ["succeeded", "awaiting approval"] {
        assert!(drawn.body.contains(&format!(">{state}<")), "{state}: {drawn:?}");
    }
    let timeline = expect(200, &server.get(&format!("{path}/timeline")));
    let first = &timeline["steps"][0];
    let attempt = first["spans"].as_array().unwrap().iter().find(|span| span["kind"] == "attempt").unwrap();
    assert_eq!((&first["step"], &attempt["outcome"]), (&json!("first"), &json!("succeeded")));
    let last = timeline["steps"][1]["spans"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["to"]), (&json!("waiting"), &Value::Null), "it waits for a yes");
    assert_eq!((&timeline["ended_at"], &timeline["whole"]), (&Value::Null, &json!([])));
}

#[test]
fn long_step_is_read_in_ranges() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let write = json!({ "path": "long.txt", "content": "x".repeat(5_000) });
    let plan = json!({ "name": "long", "steps": [{ "id": "first", "tool": "files/write_file", "arguments": write }] });
    let view = expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })));
    let path = format!("/api/v1/executions/{}/steps/first", view["id"].as_str().unwrap());
    let whole = server.get(&path);
    let token = format!("Bearer {}", server.token);
    let read = |range: &str, tag: &str| {
        let headers = [
            ("Authorization", token.as_str()),
            ("Range", range),
            ("If-Range", tag),
            ("Accept-Encoding", "gzip"),
        ];
        server.send("GET", &path, &headers, "")
    };
    let (length, tag) = (whole.body.len(), whole.header("etag"));
    let (first, rest) = (read("bytes=0-1999", tag), read("bytes=2000-", tag));
    assert_eq!((first.status, rest.status), (206, 206), "{first:?}");
    assert_eq!(first.header("content-range"), format!("bytes 0-1999/{length}"));
    assert_eq!(format!("{}{}", first.body, rest.body), whole.body);
    assert_eq!(read("bytes=0-99", "\"another\"").status, 200, "the document has changed: it is sent whole");
    let behind = read("bytes=9999999-", tag);
    assert_eq!(expect(416, &behind)["code"], "range_not_satisfiable");
}

#[test]
fn saved_plans_are_listed_in_pages() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for name in ["e", "b", "d", "a", "c"] {
        let plan = json!({ "name": name, "type": "odd", "steps": [{ "id": "x", "action": "look" }] });
        expect(201, &server.post("/api/v1/plans", &json!({ "plan": plan })));
    }
    let (mut seen, mut cursor) = (String::new(), String::new());
    loop {
        let page = expect(200, &server.get(&format!("/api/v1/plans?type=odd&limit=2{cursor}")));
        seen.extend(page["items"].as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, "abcde");
    assert_eq!(
        expect(400, &server.get(&format!("/api/v1/plans?{}", &cursor[1..])))["code"],
        "foreign_cursor"
    );
}

#[test]
fn tasks_are_listed_in_pages() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for (id, priority, status) in
        [("a", 1, "open"), ("b", 3, "open"), ("c", 9, "done"), ("d", 3, "blocked"), ("e", 0, "done")]
    {
        let task = json!({ "id": id, "priority": priority, "status": status });
        expect(201, &server.post("/api/v1/tasks", &task));
    }
    let (mut seen, mut cursor) = (String::new(), String::new());
    loop {
        let page = expect(200, &server.get(&format!("/api/v1/tasks?limit=2{cursor}")));
        seen.extend(page["items"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, "dbace", "open ones first, then by priority, then the newest");
    let done = expect(200, &server.get("/api/v1/tasks?status=done&limit=1"));
    assert_eq!(done["items"][0]["id"], "c", "{done}");
    let rest = done["next_cursor"].as_str().unwrap();
    let last = expect(200, &server.get(&format!("/api/v1/tasks?status=done&limit=1&cursor={rest}")));
    assert_eq!((&last["items"][0]["id"], &last["next_cursor"]), (&json!("e"), &Value::Null));
    assert_eq!(expect(400, &server.get(&format!("/api/v1/tasks?cursor={rest}")))["code"], "foreign_cursor");
}

#[test]
fn long_poll_answers_at_the_next_entry() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let plan = json!({ "name": "held", "steps": [{ "id": "a", "tool": "command/hold" }] });
    let view = expect(201, &server.post("/api/v1/executions", &json!({ "plan": plan })));
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    let follower = sandbox.follow_journal();
    follower.wait_for("attempt_started", Some("a"));
    let running = expect(200, &server.get(&format!("{path}?wait_s=0.1")));
    assert_eq!(running["status"], "running", "the time is up: it is shown as it is");
    let since = running["position"].as_u64().unwrap();
    let polled = std::thread::scope(|scope| {
        let poll = scope.spawn(|| expect(200, &server.get(&format!("{path}?since={since}&wait_s=60"))));
        sandbox.release();
        poll.join().unwrap()
    });
    assert!(polled["position"].as_u64().unwrap() > since, "{polled}");
    let ended = expect(200, &server.get(&format!("{path}?wait_s=60")));
    assert_eq!(ended["status"], "succeeded", "{ended}");
}

#[test]
fn what_would_be_dropped_is_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for field in [json!({ "status": "succeeded" }), json!({ "take_over": true })] {
        let mut body = field;
        body["description"] = json!("renamed the branch");
        let refused = server.post("/api/v1/records", &body);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.body.contains("/steps/{step}/record"), "{refused:?}");
    }
    assert_eq!(server.get("/api/v1/journal/head").json()["position"], json!(0), "nothing was recorded");
    let token = format!("Bearer {}", server.token);
    let key = [("Authorization", token.as_str()), ("Idempotency-Key", "k1")];
    for task in ["A", "B"] {
        let note = json!({ "value": task, "task": task });
        assert_eq!(server.send_json_as(&server.token, "PUT", "/api/v1/context/port", &note).status, 200);
    }
    assert_eq!(server.send("DELETE", "/api/v1/context/port?task=A", &key, "").status, 200);
    let other = server.send("DELETE", "/api/v1/context/port?task=B", &key, "");
    assert_eq!(other.status, 422, "the key was used for another request: {other:?}");
    let kept = server.get("/api/v1/context/port?task=B");
    assert_eq!(kept.json()["value"], "B", "{kept:?}");
}

#[test]
fn reason_of_any_length_does_not_become_an_entry() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let step =
        json!({ "id": "a", "tool": "files/read_file", "arguments": { "path": "x" }, "approval": "required" });
    let plan = json!({ "plan": { "name": "p", "steps": [step] }, "wait_s": 30 });
    let id = server.post("/api/v1/executions", &plan).json()["id"].as_str().unwrap().to_owned();
    let before = server.get("/api/v1/journal/head").json();
    let long = "x".repeat(8 * 1024 + 1);
    for (command, body) in [
        ("pause", json!({ "reason": long })),
        ("cancel", json!({ "reason": long })),
        ("undo", json!({ "reason": long })),
        ("approve", json!({ "step_id": "a", "reason": long })),
        ("reject", json!({ "step_id": "a", "reason": long })),
        ("decide", json!({ "step_id": "a", "answer": "skip", "reason": long })),
    ] {
        let refused = server.post(&format!("/api/v1/executions/{id}/{command}"), &body);
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (422, &json!("too_large")),
            "{command}: {refused:?}"
        );
    }
    assert_eq!(server.get("/api/v1/journal/head").json(), before, "nothing was appended");
}

#[test]
fn values_of_a_response_have_a_limit_and_are_read_in_parts_beyond_it() {
    const MIB: usize = 1024 * 1024;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    std::fs::create_dir_all(sandbox.path("work")).unwrap();
    sandbox.write("work/long.txt", &"x".repeat(MIB));
    let step = |no: usize| json!({ "id": format!("s{no}"), "tool": "files/read_file", "arguments": { "path": "long.txt" } });
    let steps: Vec<Value> = (0..6).map(step).collect();
    let plan = json!({ "plan": { "name": "long", "steps": steps }, "wait_s": 60 });
    let started = server.post("/api/v1/executions", &plan);
    assert_eq!(started.json()["status"], "succeeded", "{:.500}", started.body);
    let path = format!("/api/v1/executions/{}", started.json()["id"].as_str().unwrap());
    for path in [path.clone(), format!("{path}/steps?limit=500")] {
        let reply = server.get(&path);
        assert!(reply.body.len() < 5 * MIB, "{path} has {} bytes", reply.body.len());
        let view = reply.json();
        let steps = view["steps"].as_array().or(view["items"].as_array()).unwrap();
        let cut: Vec<&Value> =
            steps.iter().map(|step| &step["output"]).filter(|one| one["cut"] == json!(true)).collect();
        assert!((2..6).contains(&cut.len()), "{} outputs are cut", cut.len());
        let at = cut[0]["at"].as_str().unwrap();
        assert!(server.get(at).body.len() > MIB, "{at} has it whole");
    }
}
