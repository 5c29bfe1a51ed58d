//! Texts that would run as a script, in every field that a plan, tool, server, note, task, reason, input or error has:
//! on every page they stay texts. Not only does nothing run; nothing is there that the policy would have to stop.

use serde_json::{Map, Value, json};

use super::book::Book;
use super::driver::Browser;
use super::pages::crawl;

/// Linked pages of each path that are read, apart from ids: enough to meet each payload on them.
const OF_A_PATH_MAX: usize = 50;
/// One text a line.
const PAYLOADS: &str = include_str!("payloads.txt");
/// A plan of more steps than this has no graph.
const STEPS_IN_A_GRAPH: usize = 25;

/// The elements and attributes of the page that no template writes, as HTML.
const PLANTED: &str = r##"
    const elements = 'iframe, frame, object, embed, base, img, video, audio, style, math, details[ontoggle], meta[http-equiv], script:not([src^="/assets/"]), link:not([href^="/assets/"]), hx-partial, x-y, mglyph, animate';
    const found = new Set(document.querySelectorAll(elements));
    const own = ['hx-sse:connect', 'hx-swap'];
    const isEditor = (element) => element.matches('textarea#document[hx-post="/plans/check"][hx-target="#check"]');
    const takesUrl = ['href', 'xlink:href', 'src', 'action', 'formaction', 'data-href'];
    for (const element of document.querySelectorAll('*')) {
      for (const { name, value } of element.attributes) {
        const isForeign = takesUrl.includes(name) && !/^(\/(?!\/)|#|\?)/.test(value);
        const acts = name.startsWith('on') || name === 'style' || name === 'srcdoc' || (name.startsWith('hx-') && !own.includes(name) && !isEditor(element));
        if (isForeign || acts) found.add(element);
      }
    }
    return [...found].map((element) => element.outerHTML.slice(0, 300));"##;

/// All payloads, without the file's last line feed.
fn payloads() -> Vec<&'static str> {
    let payloads: Vec<&str> = PAYLOADS.lines().collect();
    assert_eq!(payloads.len(), 50);
    payloads
}

/// Tools `t1` to `t50`, each with one payload wherever a definition holds a text, and the answers of each: a payload as
/// its output, or as its error if `fail` is asked for. After them, a tool with each payload as its name.
fn hostile_server() -> Value {
    let mut tools = Vec::new();
    let mut answers = Map::new();
    for (number, text) in payloads().into_iter().enumerate() {
        let schema = json!({
            "type": "object",
            "title": text,
            "properties": { "text": { "type": "string", "description": text, "default": text }, "fail": { "type": "boolean" } },
        });
        let output = json!({ "type": "object", "description": text });
        let definition = |name: &str| {
            json!({
                "name": name, "title": text, "description": text, "inputSchema": schema, "outputSchema": output,
                "annotations": { "title": text, "readOnlyHint": false },
            })
        };
        tools.push(definition(&format!("t{number}")));
        tools.push(definition(text));
        let fails = json!({ "when": { "fail": true }, "error": text });
        answers.insert(
            format!("t{number}"),
            json!([fails, { "output": { text: text, "list": [text, { "deep": text }] } }]),
        );
    }
    json!({ "tools": tools, "answers": answers })
}

/// The texts of a plan around its steps, each with this payload.
fn plan_of(text: &str, policy: Value, steps: Vec<Value>) -> Value {
    let inputs = json!({
        "type": "object",
        "title": text,
        "properties": {
            "text": { "type": "string", "description": text, "default": text },
            "choice": { "type": "string", "enum": [text] },
        },
    });
    json!({
        "name": text, "description": text, "type": text, "task": text, "reasoning": text, "inputs": inputs,
        "policy": policy, "steps": steps,
    })
}

/// A step with this payload in each of its fields.
fn step(number: usize, text: &str, more: Value) -> Value {
    let mut step = json!({
        "id": format!("s{number}"), "name": text, "tool": format!("hostile/t{number}"), "arguments": { "text": text },
        "compensation": { "tool": format!("hostile/t{number}"), "arguments": { "text": text } }, "metadata": { text: text },
    });
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

/// The executions of the hostile book, and which steps each has.
struct HostileBook {
    book: Book,
    executions: Vec<(String, Vec<usize>)>,
}

/// Runs plans of 25 steps with `more` in each step, one for each half of the payloads.
fn run_halves(book: &Book, policy: &Value, more: &Value) -> Vec<(String, Vec<usize>)> {
    let all: Vec<(usize, &str)> = payloads().into_iter().enumerate().collect();
    let halves = all.chunks(STEPS_IN_A_GRAPH);
    let run = |half: &[(usize, &str)]| {
        let steps = half.iter().map(|(number, text)| step(*number, text, more.clone())).collect();
        let plan = plan_of(half[0].1, policy.clone(), steps);
        (book.run(&plan), half.iter().map(|(number, _)| *number).collect())
    };
    halves.map(run).collect()
}

/// A plan for each payload, whose only step is done by a person, and which is given the payload as an input.
fn run_one_for_each(book: &Book) {
    for text in payloads() {
        let steps = vec![json!({ "id": "look", "name": text, "action": text, "metadata": { "why": text } })];
        let mut body =
            json!({ "plan": plan_of(text, json!({}), steps), "inputs": { "text": text, "choice": text } });
        body["wait_s"] = json!(60);
        let reply = book.server.post("/api/v1/executions", &body);
        assert_eq!(reply.status, 201, "{text}: {reply:?}");
    }
}

/// Answers every other approval with a payload as its reason, and leaves the others open.
fn answer_with_reasons(book: &Book, executions: &[(String, Vec<usize>)]) {
    let payloads = payloads();
    for (execution, steps) in executions {
        for number in steps.iter().filter(|number| *number % 4 != 0) {
            let action = if number % 4 == 1 { "approve" } else { "reject" };
            book.act(
                execution,
                action,
                &json!({ "step_id": format!("s{number}"), "reason": payloads[*number] }),
            );
        }
    }
}

fn write_notes_and_tasks(book: &Book) {
    for (number, text) in payloads().into_iter().enumerate() {
        let note = json!({ "value": { text: text }, "type": text, "task": text });
        let written = book.server.send_json_as(
            &book.server.token,
            "PUT",
            &format!("/api/v1/context/note-{number}"),
            &note,
        );
        assert!([200, 201].contains(&written.status), "{text}: {written:?}");
        let task =
            json!({ "id": text, "title": text, "type": text, "labels": [text], "fields": { text: text } });
        let added = book.server.post("/api/v1/tasks", &task);
        assert_eq!(added.status, 201, "{text}: {added:?}");
    }
}

impl HostileBook {
    fn prepare() -> Self {
        let refusal = payloads().join(" ");
        let servers = json!({ "hostile": hostile_server(), "refuses": { "tools": [], "refusal": refusal } });
        let book = Book::with_servers(&servers.to_string());
        let mut executions = run_halves(&book, &json!({}), &json!({}));
        let fails = json!({ "arguments": { "text": "x", "fail": true }, "failure_policy": { "action": "continue_others" } });
        executions.extend(run_halves(&book, &json!({}), &fails));
        let asks = json!({ "approval": "required", "failure_policy": { "action": "continue_others" } });
        let asking = run_halves(&book, &json!({ "concurrency": 64 }), &asks);
        answer_with_reasons(&book, &asking);
        // Their failures are asked about: in the inbox, behind the approvals.
        let failing = json!({ "arguments": { "text": "x", "fail": true } });
        let failed = run_halves(&book, &json!({ "concurrency": 64 }), &failing);
        executions.extend(failed.into_iter().map(|(id, _)| (id, Vec::new())));
        executions.extend(asking);
        write_notes_and_tasks(&book);
        run_one_for_each(&book);
        Self { book, executions }
    }

    /// Pages that links of others may leave out: each view of each execution, and the panel of each step.
    fn pages(&self) -> Vec<String> {
        let mut pages = vec!["/".to_owned()];
        for (execution, steps) in &self.executions {
            for view in ["graph", "timeline", "steps", "journal"] {
                pages.push(format!("/executions/{execution}?view={view}"));
            }
            pages.push(format!("/executions/{execution}/confirm?action=undo"));
            pages.extend(
                steps.iter().map(|number| format!("/executions/{execution}?view=steps&step=s{number}")),
            );
        }
        for (number, text) in payloads().into_iter().enumerate() {
            let text: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            pages.push(format!("{}{text}", ["/?search=", "/context?search=", "/journal?actor="][number % 3]));
        }
        pages
    }
}

/// What the page holds that no template wrote, and what the browser noticed.
fn harm(browser: &Browser, path: &str) -> Vec<String> {
    let planted = browser.run(PLANTED, vec![]);
    let planted = planted.as_array().unwrap().iter().map(|html| format!("{path}: {html}"));
    planted.chain(browser.problems().iter().map(|problem| format!("{path}: {problem}"))).collect()
}

/// Opens the dialog of an answer, and lets a reason arrive while a page is open.
fn harm_in_dialogs_and_live_parts(browser: &Browser, hostile: &HostileBook) -> Vec<String> {
    let (execution, steps) = hostile.executions.last().unwrap();
    let open: Vec<usize> = steps.iter().copied().filter(|number| number % 4 == 0).collect();
    browser.open("/questions");
    browser.click(".q-card button[value=approve]");
    browser.wait_for("#ask[open] input[name=reason]");
    let mut found = harm(browser, "the dialog");
    for number in open {
        browser.open(&format!("/executions/{execution}?view=steps&step=s{number}"));
        let shown = browser.run("return document.querySelector('#panel').textContent;", vec![]);
        let reason = json!({ "step_id": format!("s{number}"), "reason": payloads()[number] });
        hostile.book.act(execution, "approve", &reason);
        browser.wait_until(&format!("document.querySelector('#panel').textContent !== {shown}"));
        found.extend(harm(browser, &format!("the live panel of {number}")));
    }
    found
}

#[test]
fn payloads_in_every_field_stay_texts_on_every_page() {
    let hostile = HostileBook::prepare();
    let browser = hostile.book.browser();
    let crawl = crawl(&browser, hostile.pages(), OF_A_PATH_MAX, PLANTED);
    assert!(crawl.paths.len() > 240, "{:?}", crawl.paths);
    let mut found = crawl.findings.clone();
    for path in crawl.representative(0) {
        browser.open(path);
        found.extend(harm(&browser, path));
    }
    found.extend(harm_in_dialogs_and_live_parts(&browser, &hostile));
    assert!(found.is_empty(), "{} on {} pages: {found:#?}", found.len(), crawl.paths.len());
}
