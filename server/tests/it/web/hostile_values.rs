//! Values and texts that would make a person approve something else than what is sent: the mark of a redacted secret,
//! numbers that lose digits, hidden characters, and words that read like Actbook's own.

use serde_json::{Value, json};

use super::server::{WebReply, WebServer, new_token};
use crate::cli::Sandbox;

/// The plan's only step writes a file with this content once a person has said yes.
fn guarded_plan(content: &Value) -> Value {
    let arguments = json!({ "path": "a.txt", "content": content });
    json!({ "name": "p", "steps": [
        { "id": "a", "tool": "files/write_file", "approval": "required", "arguments": arguments },
    ] })
}

#[track_caller]
fn assert_refused(reply: &WebReply, status: u16, word: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(reply.body.contains(word), "{reply:?}");
}

#[test]
fn value_that_pages_would_show_as_a_secret_is_refused() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let hiding = json!({ "actbook:redacted": "token", "to": "mallory" });
    let plan = guarded_plan(&hiding);
    assert_refused(&server.post("/api/v1/plans", &json!({ "plan": plan })), 422, "actbook:redacted");
    assert_refused(&server.post("/api/v1/executions", &json!({ "plan": plan })), 422, "actbook:redacted");
    let checked = server.post("/api/v1/plans:check", &json!({ "plan": plan }));
    assert_eq!(checked.json()["ok"], json!(false), "{checked:?}");
    assert!(checked.body.contains("steps[0].arguments.content"), "{checked:?}");
    sandbox.write("plan.json", &plan.to_string());
    assert!(sandbox.run(&["check", "plan.json", "--json"]).stdout.contains("redaction_marker"));
    assert_eq!(sandbox.json(&["list"]), json!([]), "nothing was started");

    let failing = json!({ "name": "q", "steps": [
        { "id": "a", "tool": "files/read_file", "arguments": { "path": "missing.txt" } },
    ] });
    let started = server.post("/api/v1/executions", &json!({ "plan": failing, "wait_s": 30 }));
    let path = format!("/api/v1/executions/{}", started.json()["id"].as_str().unwrap());
    let corrected = json!({ "step_id": "a", "answer": "retry", "arguments": { "path": hiding } });
    assert_refused(&server.post(&format!("{path}/decide"), &corrected), 422, "arguments");
    let entries = server.get(&format!("{path}/journal")).body;
    assert!(!entries.contains("\"decided"), "nothing was decided: {entries}");

    let asks = json!({ "name": "r", "inputs": { "type": "object", "properties": { "to": {} } }, "steps": [
        { "id": "a", "tool": "files/read_file", "arguments": { "path": "${inputs.to}" } },
    ] });
    let given = json!({ "plan": asks, "inputs": { "to": hiding } });
    assert_refused(&server.post("/api/v1/executions", &given), 422, "secret_input");
}

#[test]
fn number_that_would_lose_digits_is_refused_over_http() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let token = format!("Bearer {}", server.token);
    let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
    let large = "18446744073709551616";
    let bodies = [
        (
            "POST",
            "/api/v1/plans",
            format!("{{\"plan\":{}}}", guarded_plan(&json!("N"))).replace("\"N\"", large),
        ),
        ("POST", "/api/v1/executions", format!("{{\"plan_id\":\"p\",\"inputs\":{{\"n\":{large}}}}}")),
        ("PUT", "/api/v1/context/port", format!("{{\"value\":{large}}}")),
        ("POST", "/api/v1/records", format!("{{\"description\":\"x\",\"output\":{large}}}")),
    ];
    for (method, path, body) in bodies {
        let reply = server.send(method, path, &headers, &body);
        assert_refused(&reply, 422, "inexact_number");
        assert!(reply.body.contains(large), "{path} names the number: {reply:?}");
    }
    let plan = "{name: count, inputs: {type: object, properties: {n: {type: integer}}}, steps: [\
                {id: a, tool: files/write_file, arguments: {path: a.txt, content: \"${string(inputs.n)}\"}}]}";
    sandbox.write("plan.yaml", plan);
    sandbox.expect(0, &["plan", "save", "plan.yaml"]);
    let form = server.submit(&server.sign_in(), "/plans/count/run", &[("n", large)]);
    assert_refused(&form, 422, large);
    assert_eq!(sandbox.json(&["list"]), json!([]), "nothing was started");
}

/// Characters that hide or reorder text, and how a page shows them.
const HIDDEN: [(char, &str); 5] = [
    ('\u{202e}', "\\u{202e}"),
    ('\u{2066}', "\\u{2066}"),
    ('\u{200b}', "\\u{200b}"),
    ('\u{1b}', "\\u{1b}"),
    ('\u{9b}', "\\u{9b}"),
];

#[test]
fn hidden_characters_are_written_out_on_every_page() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for (character, _) in HIDDEN {
        let text = format!("pay{character}ee");
        let mut plan = guarded_plan(&json!(text));
        plan["description"] = json!(text);
        plan["reasoning"] = json!(text);
        plan["steps"][0]["depends_on"] = json!(["b"]);
        let agents = json!({ "id": "b", "action": text });
        plan["steps"].as_array_mut().unwrap().insert(0, agents);
        let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
        let id = started.json()["id"].as_str().unwrap().to_owned();
        let report = json!({ "status": "failed", "error": text, "reason": text });
        let reported = server.post(&format!("/api/v1/executions/{id}/steps/b/record"), &report);
        assert_eq!(reported.status, 200, "{reported:?}");
        let skip = json!({ "step_id": "b", "answer": "happened", "reason": text, "wait_s": 30 });
        assert_eq!(server.post(&format!("/api/v1/executions/{id}/decide"), &skip).status, 200);
        let note = json!({ "value": text });
        server.send_json_as(&server.token, "PUT", "/api/v1/context/note", &note);
    }
    let newest = sandbox.newest();
    let plan = sandbox.json(&["list"])[0]["plan"]["id"].as_str().unwrap().to_owned();
    let execution = format!("/executions/{newest}");
    let pages = [
        "/",
        "/questions",
        "/journal",
        "/context",
        "/stats",
        &format!("/plans/{plan}"),
        &execution,
        &format!("{execution}?view=graph&step=a"),
        &format!("{execution}?view=steps&step=b"),
        &format!("{execution}?view=journal"),
    ];
    let mut shown = String::new();
    for page in pages {
        let reply = server.get(page);
        assert_eq!(reply.status, 200, "{page}: {reply:?}");
        for (character, _) in HIDDEN {
            assert!(!reply.body.contains(character), "{page} has {character:?}");
        }
        shown.push_str(&reply.body);
    }
    let inbox = server.get("/questions").body;
    for (_, written) in HIDDEN {
        assert!(inbox.contains(&format!("pay{written}ee")), "{written} is not shown: {inbox}");
    }
    let exact = server.get(&format!("/api/v1{execution}/steps/a")).body;
    assert!(exact.contains("pay\u{9b}ee"), "the API stays exact: {exact}");
}

/// What a quotation may hold; the rest of a page is Actbook's own words.
fn without_quotations(page: &str) -> String {
    let mut rest = page.to_owned();
    for tag in ["q", "blockquote", "pre", "textarea", "code", "svg"] {
        while let Some(start) = rest
            .find(&format!("<{tag}"))
            .filter(|start| rest[start + tag.len() + 1..].starts_with(['>', ' ']))
        {
            let end = rest[start..].find(&format!("</{tag}>")).map_or(rest.len(), |end| start + end);
            rest.replace_range(start..end, "");
        }
    }
    rest
}

#[test]
fn words_from_outside_are_quoted_inside_our_sentences() {
    const FORGED: &str = "all is well. Approved by ada";
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let plan = json!({ "name": "p", "steps": [
        {
            "id": "a", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "x" },
            "compensation": { "action": FORGED },
        },
        { "id": "b", "tool": "files/read_file", "arguments": { "path": FORGED }, "depends_on": ["a"] },
    ] });
    let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert!(started.json()["steps"][1]["error"]["message"].to_string().contains(FORGED), "{started:?}");
    let asking = json!({ "name": "q", "steps": [{ "id": "c", "action": FORGED }] });
    server.post("/api/v1/executions", &json!({ "plan": asking, "wait_s": 30 }));
    let head = |page: &str| {
        let main = page.split("<main").nth(1).unwrap_or(page);
        main.split("class=\"json\"").next().unwrap_or(main).to_owned()
    };
    for path in ["/questions".to_owned(), format!("/executions/{id}/confirm?action=undo")] {
        let page = server.get(&path).body;
        assert!(page.contains(FORGED), "{path}: {page}");
        let ours = without_quotations(&head(&page));
        assert!(!ours.contains(FORGED), "{path} says it itself: {ours}");
    }
    let page = server.get(&format!("/executions/{id}")).body;
    let sentence =
        page.split("class=\"sentence\"").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap();
    assert!(sentence.contains("<q>") && sentence.contains(FORGED), "{sentence}");
    assert!(!without_quotations(sentence).contains(FORGED), "{sentence}");
}

#[test]
fn question_says_how_many_attempts_a_yes_covers() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let mut plan = guarded_plan(&json!("x"));
    plan["steps"][0]["retry"] = json!({ "max_attempts": 3 });
    plan["steps"][0]["compensation"] = json!({ "tool": "files/delete_file", "arguments": { "path": "a.txt" }, "retry": { "max_attempts": 2 } });
    let started = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 }));
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let inbox = server.get("/questions").body;
    assert!(inbox.contains("in up to 3 attempts"), "{inbox}");
    let yes = json!({ "step_id": "a", "wait_s": 30 });
    assert_eq!(server.post(&format!("/api/v1/executions/{id}/approve"), &yes).json()["status"], "succeeded");
    let confirm = server.get(&format!("/executions/{id}/confirm?action=undo")).body;
    assert!(confirm.contains("(up to 2 attempts)"), "{confirm}");
}

#[test]
fn claim_belongs_to_the_token_and_only_people_override_it() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let agent = new_token(&sandbox, "agent", "claude");
    let plan = json!({ "plan": { "name": "p", "steps": [{ "id": "tell", "action": "Tell the team" }] }, "wait_s": 30 });
    let started = server.post_as(&agent, "/api/v1/executions", &plan);
    let path = format!("/api/v1/executions/{}/steps/tell/record", started.json()["id"].as_str().unwrap());
    let claimed = server.post_as(&agent, &path, &json!({ "status": "started" }));
    assert_eq!(claimed.status, 200, "{claimed:?}");
    let other = new_token(&sandbox, "agent", "claude");
    let refused = server.post_as(&other, &path, &json!({ "status": "succeeded" }));
    assert_refused(&refused, 409, "claimed");
    let operator = new_token(&sandbox, "operator", "ops");
    let ended = server.post_as(&operator, &path, &json!({ "status": "succeeded", "wait_s": 30 }));
    assert_eq!(ended.json()["status"], "succeeded", "{ended:?}");
}
