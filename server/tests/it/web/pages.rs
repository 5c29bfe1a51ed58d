//! The dashboard's pages over HTTP: what they show, that they escape what they show, and that their forms work
//! without the script.

mod bulk;
mod execution;
mod executions;
mod others;
mod plans;
mod tools;

use std::io::{BufRead, BufReader, Write};

use super::server::{WebReply, WebServer, new_token};
use crate::cli::Sandbox;
use crate::waiting::TEST_TIMEOUT;

/// Texts that would run a script, or end an element or an attribute, if a page took them as HTML.
const PAYLOADS: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)>",
    "'><svg/onload=alert(3)>",
    "</textarea></title><iframe srcdoc=x>",
    "<hx-partial hx-target=\"body\">x</hx-partial>",
    "javascript:alert(4)",
    "{{ 7*7 }}${7*7}",
    "<a href=javascript:alert(5)>x</a>",
];

/// A plan whose second step waits for a yes and cannot be undone.
const PAYOUT: &str = r#"
name: payout
task: FIN-1
reasoning: one transfer at a time
steps:
  - { id: fetch, tool: files/write_file, arguments: { path: invoice.txt, content: INV-1 }, compensation: { tool: files/delete_file, arguments: { path: "${arguments.path}" } } }
  - { id: transfer, tool: files/append_file, depends_on: [fetch], arguments: { path: bank.txt, content: "4180 EUR" }, cancellable: irreversible, approval: required }
"#;

/// A sandbox with an execution of this plan that has blocked, and its id.
fn blocked(plan: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("plan.yaml", plan);
    sandbox.expect(3, &["run", "plan.yaml"]);
    let id = sandbox.newest();
    (sandbox, id)
}

/// The tags of a page, without what stands between them.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).map(|part| part.split('>').next().unwrap_or(part))
}

/// A tag without the values of its attributes, all of which are quoted.
fn without_values(tag: &str) -> String {
    let mut quote = None;
    let is_outside = |c: &char| {
        let was_inside = quote.is_some();
        match quote {
            Some(open) if open == *c => quote = None,
            None if ['"', '\''].contains(c) => quote = Some(*c),
            Some(_) | None => {}
        }
        !was_inside
    };
    tag.chars().filter(is_outside).collect()
}

/// Asserts that a page has no script or style of its own and no handler in an attribute.
#[track_caller]
fn assert_inert(path: &str, html: &str) {
    for tag in tags(html) {
        let name = tag.split([' ', '/']).next().unwrap_or(tag);
        assert!(!["iframe", "style", "object", "base", "img"].contains(&name), "{path}: <{tag}>");
        assert!(name != "script" || tag.starts_with("script src=\"/assets/"), "{path}: <{tag}>");
        assert!(!tag.to_lowercase().contains("href=\"javascript:"), "{path}: <{tag}>");
        for attribute in without_values(tag).to_lowercase().split_whitespace().skip(1) {
            assert!(!attribute.starts_with("on") && !attribute.starts_with("style"), "{path}: <{tag}>");
        }
    }
}

/// The value of the first hidden field with this name.
pub fn hidden_field<'a>(html: &'a str, name: &str) -> &'a str {
    let start = format!("name=\"{name}\" value=\"");
    html.split(&start)
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_else(|| panic!("{name}: {html}"))
}

/// A text for a URL or a form, with every byte encoded.
fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Writes a plan as JSON into the sandbox and saves it; its path below `/plans`.
fn save_plan(sandbox: &Sandbox, plan: &serde_json::Value) -> String {
    sandbox.write("saved.json", &plan.to_string());
    let saved = sandbox.json(&["plan", "save", "saved.json"]);
    format!("/plans/{}", saved["plan_id"].as_str().unwrap())
}

impl WebServer {
    /// Sends a form as a browser without a script does.
    pub fn submit(&self, cookie: &str, path: &str, fields: &[(&str, &str)]) -> WebReply {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let origin = format!("http://{}", self.process.address);
        let headers = [
            ("Cookie", cookie),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", path, &headers, &body.join("&"))
    }

    #[track_caller]
    pub fn page(&self, cookie: &str, path: &str) -> String {
        let reply = self.send("GET", path, &[("Cookie", cookie)], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert_inert(path, &reply.body);
        reply.body
    }
}

#[test]
fn hostile_texts_are_data_on_every_page() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    for payload in PAYLOADS {
        let text = serde_json::to_string(payload).unwrap();
        sandbox.write(
            "plan.yaml",
            &format!(
                "{{name: {text}, task: {text}, reasoning: {text}, description: {text}, steps: [\
                 {{id: a, name: {text}, tool: files/write_file, arguments: {{path: a.txt, content: {text}}}}}, \
                 {{id: b, name: {text}, tool: files/read_file, arguments: {{path: {text}}}, depends_on: [a]}}, \
                 {{id: c, action: {text}, depends_on: [b]}}]}}"
            ),
        );
        sandbox.expect(3, &["run", "plan.yaml"]);
        sandbox.expect(0, &["context", "set", &format!("note-{}", payload.len()), payload]);
        let id = sandbox.newest();
        let blocked = server.page(&cookie, &format!("/executions/{id}"));
        let question = hidden_field(&blocked, "question");
        let paths = [
            "/".to_owned(),
            format!("/?search={}", encode(payload)),
            "/questions".to_owned(),
            "/journal".to_owned(),
            "/plans".to_owned(),
            "/tools".to_owned(),
            "/templates".to_owned(),
            "/stats".to_owned(),
            "/context".to_owned(),
            format!("/context?search={}", encode("alert")),
            format!("/?plan={0}&plan!={0}", encode(payload)),
            format!("/bulk?action=pause&all=1&plan={}", encode(payload)),
            "/tasks".to_owned(),
            format!("/tasks/{}", encode(payload)),
            format!("/executions/{id}/rerun"),
            format!("/plans/{}", sandbox.json(&["list"])[0]["plan"]["id"].as_str().unwrap()),
            format!("/executions/{id}?view=graph&step=a"),
            format!("/executions/{id}?view=timeline"),
            format!("/executions/{id}?view=steps&step=b"),
            format!("/executions/{id}?view=journal&step=c"),
            format!("/executions/{id}/confirm?action=cancel"),
            format!("/executions/{id}/confirm?question={question}&answer=abandon"),
        ];
        for path in paths {
            server.page(&cookie, &path);
        }
    }
}

#[test]
fn form_without_the_script_approves_once() {
    let (sandbox, id) = blocked(PAYOUT);
    let journal = sandbox.follow_journal();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let inbox = server.page(&cookie, "/questions");
    assert!(inbox.contains("<title>(1) Questions · Actbook</title>"), "{inbox}");
    assert!(inbox.contains("4180 EUR") && inbox.contains("Point of no return."), "{inbox}");
    let question = hidden_field(&inbox, "question").to_owned();
    let confirm =
        server.page(&cookie, &format!("/executions/{id}/confirm?question={question}&answer=approve"));
    assert!(confirm.contains("4180 EUR"), "{confirm}");
    let fields = [("question", question.as_str()), ("answer", "approve"), ("reason", "due today")];
    let path = format!("/executions/{id}/answer");
    let first = server.submit(&cookie, &path, &fields);
    assert_eq!((first.status, first.header("location")), (303, format!("/executions/{id}").as_str()));
    let approved = journal.wait_for("step_approved", Some("transfer"));
    assert_eq!(approved["body"]["reason"], "due today");
    journal.wait_for("execution_ended", None);
    let second = server.submit(&cookie, &path, &fields);
    assert_eq!(second.status, 409, "{second:?}");
    assert!(second.body.contains("step_approved"), "{second:?}");
    let page = server.page(&cookie, &format!("/executions/{id}?step=transfer"));
    assert!(page.contains("due today") && page.contains("Succeeded"), "{page}");
}

#[test]
fn form_answers_only_the_question_that_was_shown() {
    let (sandbox, id) = blocked(PAYOUT);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, &format!("/executions/{id}"));
    let question = hidden_field(&page, "question").to_owned();
    // The step fails, is retried, and asks again: the same text, but another question.
    sandbox.expect(0, &["reject", &id, "transfer", "--reason", "wrong account"]);
    sandbox.expect(0, &["decide", &id, "transfer", "retry", "--reason", "checked"]);
    sandbox.run(&["resume", &id]);
    let now = server.page(&cookie, &format!("/executions/{id}"));
    assert!(now.contains("value=\"approve\""), "{now}");
    assert_ne!(hidden_field(&now, "question"), question);
    let late = [("question", question.as_str()), ("answer", "approve")];
    let reply = server.submit(&cookie, &format!("/executions/{id}/answer"), &late);
    assert_eq!(reply.status, 409, "{reply:?}");
    assert!(!sandbox.path("work/bank.txt").exists());
}

#[test]
fn question_is_linked_to_its_page_while_a_server_lives() {
    let (sandbox, id) = blocked(PAYOUT);
    assert!(!sandbox.expect(0, &["show", &id]).contains("/executions/"));
    let server = WebServer::start(&sandbox);
    let page = format!("http://{}/executions/{id}", server.process.address);
    assert!(sandbox.expect(0, &["show", &id]).contains(&page));
    assert!(sandbox.expect(3, &["watch", &id]).contains(&page));
    let shown = sandbox.json(&["show", &id]);
    let (link, fragment) = shown["waiting"][0]["page"].as_str().unwrap().split_once('#').unwrap();
    assert_eq!(link, page);
    assert!(
        server.page(&server.sign_in(), &format!("/executions/{id}")).contains(&format!("id=\"{fragment}\""))
    );
    let view = server.get(&format!("/api/v1/executions/{id}")).json();
    assert_eq!(view["waiting"][0]["page"], shown["waiting"][0]["page"]);
}

#[test]
fn reference_names_every_operation_with_a_line_of_curl() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let page = server.page(&server.sign_in(), "/api");
    let document = server.get("/openapi.json").json();
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            let section = page.split(&format!("id=\"{id}\"")).nth(1).unwrap_or_else(|| panic!("no {id}"));
            let curl = section.split("<pre").nth(1).unwrap().split("</pre>").next().unwrap();
            assert!(curl.contains("curl ") && curl.contains("/api/v1/"), "{id}: {curl}");
        }
    }
}

#[test]
fn plan_runs_from_its_form() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    sandbox.write(
        "plan.yaml",
        "name: greet\ninputs: { type: object, properties: { name: { type: string }, times: { type: integer, default: 2 }, loud: { type: boolean } }, required: [name] }\n\
         steps:\n  - { id: write, tool: files/write_file, arguments: { path: out.txt, content: \"${inputs.name} ${string(inputs.times)}\" } }\n",
    );
    sandbox.expect(0, &["plan", "save", "plan.yaml"]);
    let list = server.page(&cookie, "/plans");
    let path = list.split("data-href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let form = server.page(&cookie, path);
    assert!(form.contains("name=\"times\" value=\"2\""), "{form}");
    let missing = server.submit(&cookie, &format!("{path}/run"), &[("times", "3")]);
    assert_eq!(missing.status, 422, "{missing:?}");
    let journal = sandbox.follow_journal();
    let started = server.submit(&cookie, &format!("{path}/run"), &[("name", "Ada"), ("times", "3")]);
    assert_eq!(started.status, 303, "{started:?}");
    journal.wait_for("execution_ended", None);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/out.txt")).unwrap(), "Ada 3");
    assert!(server.page(&cookie, started.header("location")).contains("Succeeded"));
}

#[test]
fn empty_book_says_what_to_do_first() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let list = server.page(&cookie, "/");
    assert!(list.contains("No execution yet") && list.contains("actbook demo"), "{list}");
    assert!(server.page(&cookie, "/questions").contains("Nothing waits for a person"));
    assert!(server.page(&cookie, "/?status=failed").contains("actbook demo"));
    let unknown = server.send("GET", "/executions/nothing", &[("Cookie", &cookie)], "");
    assert_eq!(unknown.status, 404);
    assert_inert("/executions/nothing", &unknown.body);
    let signed_out = server.send("GET", "/", &[], "");
    assert_eq!(signed_out.status, 401);
    assert!(signed_out.body.contains("actbook open"), "{signed_out:?}");
}

#[test]
fn bad_filter_names_its_parameter() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    for path in ["/?status=mad", "/?since=yesterday", "/?category=none", "/?cursor=x"] {
        let reply = server.send("GET", path, &[("Cookie", &cookie)], "");
        assert_eq!(reply.status, 400, "{path}: {reply:?}");
    }
}

#[test]
fn role_without_payloads_sees_no_arguments_and_no_buttons() {
    let (sandbox, id) = blocked(PAYOUT);
    let server = WebServer::start(&sandbox);
    let viewer = new_token(&sandbox, "viewer", "guest");
    for path in ["/questions".to_owned(), format!("/executions/{id}?view=steps&step=transfer")] {
        let reply = server.get_as(&viewer, &path);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(!reply.body.contains("4180 EUR"), "{path}: {}", reply.body);
        assert!(!reply.body.contains("value=\"approve\""), "{path}: {}", reply.body);
    }
    let value = server.get_as(&viewer, &format!("/executions/{id}/steps/transfer/arguments.json"));
    assert_eq!(value.status, 403, "{value:?}");
}

#[test]
fn live_stream_sends_the_parts_that_changed() {
    let (sandbox, id) = blocked(PAYOUT);
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let page = server.page(&cookie, &format!("/executions/{id}?view=steps"));
    let path = page.split("hx-sse:connect=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let path = path.replace("&amp;", "&").replace("&#38;", "&");
    let mut stream = server.process.connect();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let host = &server.process.address;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    sandbox.expect(0, &["reject", &id, "transfer", "--reason", "not today"]);
    let data = lines.find(|line| line.contains("hx-partial")).unwrap();
    assert!(data.contains("hx-target=\"#head\"") || data.contains("hx-target=\"#brief\""), "{data}");
    lines.find(|line| line.contains("not today")).unwrap();
}

#[test]
fn display_settings_are_kept_and_lead_only_to_own_paths() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let set = server.submit(&cookie, "/settings/display", &[("theme", "dark"), ("back", "//evil.example/x")]);
    assert_eq!((set.status, set.header("location")), (303, "/settings"));
    let both = format!("{cookie}; {}", set.cookie());
    assert!(server.page(&both, "/").contains("data-theme=\"dark\""));
    let back = server.submit(&both, "/settings/display", &[("times", "utc"), ("back", "/questions")]);
    assert_eq!(back.header("location"), "/questions");
    assert_eq!(back.cookie(), "actbook-display=dark.utc.on");
}
