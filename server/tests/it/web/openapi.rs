//! The OpenAPI document: complete, and true of what the server answers.

use serde_json::{Value, json};

use super::server::WebServer;
use crate::cli::Sandbox;

/// The schema with this name, with everything that it refers to.
fn validator(document: &Value, name: &str) -> jsonschema::Validator {
    let schema = json!({
        "$ref": format!("#/components/schemas/{name}"),
        "components": document["components"],
    });
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn check(document: &Value, name: &str, answer: &Value) {
    let errors: Vec<String> = validator(document, name)
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}\n{answer}");
}

#[test]
fn every_operation_is_described_with_its_responses() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let document = server.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"][0]["url"], format!("http://{}/api/v1", server.process.address));
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            count += 1;
            let name = format!("{method} {path}");
            for field in ["operationId", "summary", "description"] {
                assert!(operation[field].as_str().is_some_and(|text| !text.is_empty()), "{name}: {field}");
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{name}");
            assert_eq!(responses["4XX"]["$ref"], "#/components/responses/Problem", "{name}");
            if let Some(body) = operation["requestBody"].get("content") {
                let content = &body["application/json"];
                let schema = jsonschema::validator_for(&content["schema"]).unwrap();
                assert!(schema.is_valid(&content["example"]), "{name}: its example does not fit its schema");
            }
        }
    }
    assert!(count > 40, "{count} operations");
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap())
    {
        assert!(document["components"]["schemas"][reference].is_object(), "no schema {reference}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if let Some(example) = schema.get("example") {
            check(&document, name, example);
        }
    }
}

/// Reads about an execution and everything else, each with the schema that its answer has.
fn reads(path: &str) -> Vec<(&'static str, String)> {
    vec![
        ("ExecutionPage", "/api/v1/executions".to_owned()),
        ("Execution", path.to_owned()),
        ("StepPage", format!("{path}/steps")),
        ("StepDetail", format!("{path}/steps/a")),
        ("EntryPage", format!("{path}/journal")),
        ("Timeline", format!("{path}/timeline")),
        ("PlanDiff", "/api/v1/plans/p/diff?from=1".to_owned()),
        ("QuestionPage", "/api/v1/questions".to_owned()),
        ("PlanPage", "/api/v1/plans".to_owned()),
        ("PlanDetail", "/api/v1/plans/p".to_owned()),
        ("EntryPage", "/api/v1/journal?newest=true".to_owned()),
        ("JournalHead", "/api/v1/journal/head".to_owned()),
        ("TaskPage", "/api/v1/tasks".to_owned()),
        ("TaskHistory", "/api/v1/tasks/T-1".to_owned()),
        ("NotePage", "/api/v1/context".to_owned()),
        ("Note", "/api/v1/context/k?history=true".to_owned()),
        ("TemplatePage", "/api/v1/templates".to_owned()),
        ("ToolPage", "/api/v1/tools".to_owned()),
        ("ToolDetail", "/api/v1/tools/files/write_file".to_owned()),
        ("ServerPage", "/api/v1/servers".to_owned()),
        ("Stats", "/api/v1/stats".to_owned()),
        ("Whoami", "/api/v1/whoami".to_owned()),
        ("TokenPage", "/api/v1/tokens".to_owned()),
        ("SessionPage", "/api/v1/sessions".to_owned()),
    ]
}

#[test]
fn answers_fit_their_schemas() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let document = server.get("/openapi.json").json();
    let write = json!({
        "id": "a", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "x" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } },
    });
    let fail =
        json!({ "id": "b", "tool": "files/read_file", "arguments": { "path": "none" }, "depends_on": ["a"] });
    let plan = json!({ "name": "p", "task": "T-1", "steps": [write, fail] });
    let view = server.post("/api/v1/executions", &json!({ "plan": plan, "wait_s": 30 })).json();
    assert_eq!(view["status"], "blocked", "{view}");
    check(&document, "Execution", &view);
    let path = format!("/api/v1/executions/{}", view["id"].as_str().unwrap());
    server.send_json_as(&server.token, "PUT", "/api/v1/context/k", &json!({ "value": 1 }));
    server.post("/api/v1/tasks", &json!({ "id": "T-1", "title": "One" }));
    for (schema, path) in reads(&path) {
        let reply = server.get(&path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        check(&document, schema, &reply.json());
    }
    let changes = [
        (
            "DecidedExecution",
            format!("{path}/decide"),
            json!({ "step_id": "b", "answer": "skip", "wait_s": 30 }),
        ),
        ("Brief", format!("{path}/undo"), json!({ "dry_run": true })),
        ("BulkResult", "/api/v1/executions:bulk".to_owned(), json!({ "action": "pause", "filter": {} })),
        (
            "BulkResult",
            "/api/v1/executions:bulk".to_owned(),
            json!({ "action": "resume", "filter": {}, "dry_run": true }),
        ),
        ("Execution", format!("{path}/undo"), json!({ "wait_s": 30 })),
        ("SavedPlan", "/api/v1/plans".to_owned(), json!({ "plan": plan })),
        ("PlanCheck", "/api/v1/plans:check".to_owned(), json!({ "plan": "name: p" })),
        ("VerifyReport", "/api/v1/journal:verify".to_owned(), json!({})),
        ("NewToken", "/api/v1/tokens".to_owned(), json!({ "name": "t", "role": "viewer" })),
        ("Problem", "/api/v1/plans".to_owned(), json!({ "plan": {} })),
        ("Problem", "/api/v1/plans".to_owned(), json!({ "plans": 1 })),
    ];
    for (schema, path, body) in changes {
        check(&document, schema, &server.post(&path, &body).json());
    }
}
