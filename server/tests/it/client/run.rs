//! Plans run through the program's executors: arguments, outputs, retries and undo.

use actbook::{ErrorCategory, ExecutionStatus, Executor, Fault, Purpose, StepAnswer, StepStatus};
use serde_json::json;

use super::{RecordedCalls, builder, plan, run, step, step_error, step_view, undoable};
use crate::store::{Kind, ScratchDatabase, for_each_database};

#[test]
fn step_output_is_passed_to_the_next_executor() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let client = builder(&scratch.url)
            .tool("t/one", recorded.echo())
            .tool("t/two", recorded.echo())
            .open()
            .await
            .unwrap();
        let mut second = step("second", "t/two");
        second["arguments"] = json!({ "sum": "${steps.first.output.got.number + inputs.add}" });
        let mut first = step("first", "t/one");
        first["arguments"] = json!({ "number": "${inputs.number}" });
        let document = json!({
            "name": "flow", "steps": [first, second],
            "inputs": { "type": "object", "properties": { "number": { "type": "integer" }, "add": { "type": "integer" } } },
        });
        client.save_plan(&document.to_string()).await.unwrap();
        let view = client.run("flow", Some(json!({ "number": 40, "add": 2 }))).await.unwrap();
        assert_eq!(view.status, ExecutionStatus::Succeeded);
        assert_eq!(step_view(&view, "second").output, Some(json!({ "got": { "sum": 42 } })));

        let calls = recorded.calls();
        assert_eq!(calls[0].arguments, json!({ "number": 40 }));
        let origin = calls[1].origin.clone().expect("an execution made the call");
        assert_eq!((origin.execution, origin.step.as_str()), (view.id.clone(), "second"));
        assert_eq!((origin.purpose, origin.attempt), (Purpose::Run, 1));
        assert_ne!(calls[0].key, calls[1].key);
        assert!(client.verify().await.unwrap().ok);
    });
}

#[test]
fn failed_step_is_briefed_and_undone_through_executors() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let no = recorded.executor(async |_| Err(Fault::failed(ErrorCategory::Permission, "declined")));
        let client = builder(&scratch.url)
            .tool("t/do", recorded.echo())
            .tool("t/no", no)
            .tool("t/undo", recorded.echo())
            .open()
            .await
            .unwrap();
        let steps = json!([undoable("a", "t/do"), undoable("b", "t/do"), undoable("c", "t/no")]);
        let view = run(&client, "fails", steps).await;
        assert_eq!(
            (view.status, step_view(&view, "c").status),
            (ExecutionStatus::Blocked, StepStatus::Failed)
        );
        assert_eq!(step_error(&view, "c"), ("permission".into(), "declined".into()));
        let brief = view.brief.clone().expect("something went wrong");
        let undo: Vec<_> = brief.undo.iter().map(|one| one.step.as_str()).collect();
        assert_eq!(undo, ["b", "a"]);
        assert_eq!(client.brief(view.id.as_str()).await.unwrap(), brief);

        client.undo(view.id.as_str(), Some("no card")).await.unwrap();
        assert_eq!(client.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Compensated);
        let undone: Vec<_> = recorded
            .calls()
            .into_iter()
            .filter(|call| call.tool == "t/undo")
            .map(|call| call.arguments)
            .collect();
        assert_eq!(undone, [json!({ "undone": "b" }), json!({ "undone": "a" })]);
        let last = recorded.calls().pop().unwrap().origin.unwrap();
        assert_eq!((last.step.as_str(), last.purpose), ("a", Purpose::Undo));
        assert!(client.verify().await.unwrap().ok);
    });
}

#[test]
fn idempotent_executor_is_retried_with_the_same_key() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let lost_once = |recorded: &RecordedCalls| {
            recorded.executor(async |call| match call.origin.unwrap().attempt {
                1 => Err(Fault::unknown(ErrorCategory::Unavailable, "the line went dead")),
                _ => Ok(json!({})),
            })
        };
        let client = builder(&scratch.url)
            .tool("t/put", lost_once(&recorded).idempotent())
            .tool("t/post", lost_once(&recorded))
            .open()
            .await
            .unwrap();
        let again = |tool: &str| {
            let mut step = step("again", tool);
            step["retry"] = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["unavailable"] });
            json!([step])
        };
        let view = run(&client, "put", again("t/put")).await;
        assert_eq!((view.status, step_view(&view, "again").attempts), (ExecutionStatus::Succeeded, 2));
        let calls = recorded.calls();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].key, calls[1].key, "the second attempt must not take effect twice");

        let view = run(&client, "post", again("t/post")).await;
        assert_eq!(
            (view.status, step_view(&view, "again").status),
            (ExecutionStatus::Blocked, StepStatus::Unknown)
        );
        assert_eq!(recorded.calls().len(), 3, "a call that is not declared idempotent is sent once");
        client
            .decide(view.id.as_str(), "again", StepAnswer::DidNotHappen, Some("looked"), None)
            .await
            .unwrap();
        assert_eq!(client.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Succeeded);
        let calls = recorded.calls();
        assert_ne!(calls[2].key, calls[3].key, "a retry after did_not_happen has a new key");
    });
}

#[test]
fn plan_arguments_are_validated_against_executor_schemas() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let schema = json!({
            "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"],
            "additionalProperties": false,
        });
        let client = builder(&scratch.url)
            .tool("t/pay", recorded.echo().input_schema(schema.clone()).description("Pays an amount"))
            .tool("t/look", recorded.echo().read_only())
            .open()
            .await
            .unwrap();
        let tools = client.tools().await.remove(0);
        let names: Vec<_> = tools.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((tools.server.as_str(), names), ("t", vec!["t/look", "t/pay"]));
        assert_eq!(tools.tools[1].input_schema, schema);

        let refused = client.save_plan(&plan("wrong", json!([step("pay", "t/pay")]))).await.unwrap_err();
        assert_eq!(refused.code(), "invalid");
        let slip = client.check_plan(&plan("slip", json!([step("pay", "t/pya")]))).await;
        assert!(slip.findings.iter().any(|finding| finding.cure.contains("t/pay")), "{slip:?}");
        let mut late = step("pay", "t/pay");
        late["arguments"] = json!({ "amount": "${steps.look.output.got.of}" });
        let view = run(&client, "late", json!([step("look", "t/look"), late])).await;
        assert_eq!(step_error(&view, "pay").0, "invalid_arguments");
        assert_eq!(recorded.tool_names(), ["t/look"], "an executor is not called with invalid arguments");
    });
}

#[tokio::test]
async fn invalid_executor_registration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("book.db").to_string_lossy().into_owned();
    let quiet = || Executor::new(async |_| Ok(json!({})));
    let twice = builder(&url).tool("t/a", quiet()).tool("t/a", quiet());
    let broken = builder(&url).tool("t/a", quiet().input_schema(json!({ "type": 7 })));
    let config = r#"{ "mcpServers": { "t": { "command": "true" } } }"#;
    let config = actbook::Config::parse(config, folder.path()).unwrap();
    let taken = builder(&url).config(config).tool("t/a", quiet());
    let named = |name: &str| builder(&url).tool(name, quiet());
    for refused in [named("alone"), named("/a"), named("t/"), named("command/a"), twice, broken, taken] {
        let what = format!("{refused:?}");
        assert_eq!(refused.open().await.map(drop).expect_err(&what).code(), "invalid_executor", "{what}");
    }
}

/// Many programs have only a current-thread runtime.
#[test]
fn client_runs_on_a_current_thread_runtime() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scratch = ScratchDatabase::new(kind).await;
            let client =
                builder(&scratch.url).tool("t/do", RecordedCalls::default().echo()).open().await.unwrap();
            let view = run(&client, "one", json!([step("a", "t/do"), step("b", "t/do")])).await;
            assert_eq!(view.status, ExecutionStatus::Succeeded);
        });
    }
}
