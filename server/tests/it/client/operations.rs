//! Further operations of the client: agent steps, pause and cancel, request keys, notes, tasks, history.

use actbook::{
    ActionFacts, ActionRecord, Decision, ErrorCategory, ExecutionFilter, ExecutionStatus, Executor, Fault,
    JournalFilter, NoteSpec, QuestionKind, ReportedStatus, StepStatus, TaskSpec, TaskStatus,
};
use serde_json::json;

use super::{Gate, RecordedCalls, builder, plan, run, step, step_view};
use crate::store::for_each_database;

#[test]
fn reported_agent_step_passes_its_output_on() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let client = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        let agent = json!({ "id": "tells", "action": "Tell the team" });
        let mut after = step("after", "t/do");
        after["arguments"] = json!({ "told": "${steps.tells.output.told}" });
        let view = run(&client, "by hand", json!([agent, after])).await;
        assert_eq!((view.status, view.waiting[0].kind), (ExecutionStatus::Blocked, QuestionKind::Agent));
        let report = |status, output| ActionRecord {
            execution: Some(view.id.to_string()),
            step: Some("tells".into()),
            status: Some(status),
            output,
            facts: ActionFacts { confidence: Some(0.8), ..ActionFacts::default() },
            ..ActionRecord::default()
        };
        let bot = client.acting_as("agent:bot");
        let began = bot.record_action(report(ReportedStatus::Started, None)).await.unwrap();
        let ended =
            bot.record_action(report(ReportedStatus::Succeeded, Some(json!({ "told": 3 })))).await.unwrap();
        assert!(ended > began);
        assert_eq!(client.wait(view.id.as_str()).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!(recorded.calls()[0].arguments, json!({ "told": 3 }));

        let decision = Decision {
            decision: "leave it so".into(),
            reason: Some("nobody reads it".into()),
            step: None,
            details: None,
        };
        let view = bot.record_decision(view.id.as_str(), decision).await.unwrap();
        assert_eq!(view.records.last().unwrap().decision.as_deref(), Some("leave it so"));
        let alone = ActionRecord {
            facts: ActionFacts { entity: Some("the door".into()), ..ActionFacts::default() },
            ..ActionRecord::default()
        };
        let position = bot.record_action(alone).await.unwrap();
        let entry = client
            .journal(&JournalFilter { after: position - 1, ..Default::default() }, 1)
            .await
            .unwrap()
            .remove(0);
        assert_eq!((entry.position, entry.actor.as_str()), (position, "agent:bot"));
    });
}

#[test]
fn pause_resume_cancel_and_reject_change_the_status() {
    for_each_database(async |scratch| {
        let gate = Gate::new();
        let client = builder(&scratch.url).tool("t/gate", gate.tool()).open().await.unwrap();
        client.save_plan(&plan("steered", json!([step("a", "t/gate"), step("b", "t/gate")]))).await.unwrap();
        let id = client.start("steered", None).await.unwrap().id.to_string();
        gate.wait_for_call().await;
        assert_eq!(client.pause(&id, Some("lunch")).await.unwrap().status, ExecutionStatus::Paused);
        gate.release_one();
        let mut watch = client.watch(&id).await.unwrap();
        while watch.next().await.unwrap().unwrap().progress.done == 0 {}
        assert_eq!(client.wait(&id).await.unwrap().status, ExecutionStatus::Paused);
        client.resume(&id).await.unwrap();
        gate.wait_for_call().await;
        client.cancel(&id, Some("enough")).await.unwrap();
        gate.release_one();
        let view = client.wait(&id).await.unwrap();
        assert_eq!((view.status, view.progress.done), (ExecutionStatus::Cancelled, 2));

        let mut asks = step("asks", "t/gate");
        asks["approval"] = json!("required");
        let view = run(&client, "asked", json!([asks])).await;
        let view = client.reject(view.id.as_str(), Some("asks"), Some("not today")).await.unwrap();
        let view = client.wait(view.id.as_str()).await.unwrap();
        assert_eq!(
            (view.status, step_view(&view, "asks").status.as_str()),
            (ExecutionStatus::Blocked, "failed")
        );
        let blocked = ExecutionFilter { status: ExecutionStatus::Blocked.into(), ..Default::default() };
        assert_eq!(client.executions(&blocked, 10).await.unwrap().len(), 1);
        let refused = client.view("nobody").await.unwrap_err();
        assert!(refused.code() == "no_such_execution" && !refused.cure().is_empty());
    });
}

#[test]
fn executor_reports_progress_and_receives_cancellation() {
    for_each_database(async |scratch| {
        let (began, begun) = tokio::sync::watch::channel(false);
        let long = Executor::new(move |call| {
            let began = began.clone();
            async move {
                call.progress(3.0, Some(8.0), Some("planing"));
                began.send_replace(true);
                call.asked_to_stop().await;
                Err(Fault::failed(ErrorCategory::Policy, "put down in time"))
            }
        });
        let client = builder(&scratch.url).tool("t/long", long).open().await.unwrap();
        client.save_plan(&plan("long", json!([step("a", "t/long")]))).await.unwrap();
        let id = client.start("long", None).await.unwrap().id.to_string();
        begun.clone().wait_for(|begun| *begun).await.unwrap();
        let view = client.view(&id).await.unwrap();
        let progress = step_view(&view, "a").progress.clone().expect("progress was reported");
        assert_eq!((progress.done, progress.message.as_deref()), (3.0, Some("planing")));
        client.cancel(&id, None).await.unwrap();
        let view = client.wait(&id).await.unwrap();
        assert_eq!(
            (view.status, step_view(&view, "a").status),
            (ExecutionStatus::Cancelled, StepStatus::Failed)
        );
    });
}

#[test]
fn repeated_request_key_starts_one_execution() {
    for_each_database(async |scratch| {
        let recorded = RecordedCalls::default();
        let client = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        client.save_plan(&plan("once", json!([step("a", "t/do")]))).await.unwrap();
        let keyed = client.with_key("order-17");
        let first = keyed.run("once", None).await.unwrap();
        let other = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        let second = other.with_key("order-17").run("once", None).await.unwrap();
        assert_eq!((first.id, recorded.calls().len()), (second.id, 1));
        assert_eq!(keyed.run("once", Some(json!({}))).await.unwrap_err().code(), "key_reused");
        assert_eq!(client.run("once", None).await.unwrap().status, ExecutionStatus::Succeeded);
        assert_eq!(recorded.calls().len(), 2);
    });
}

#[test]
fn notes_and_tasks_persist_after_client_shutdown() {
    for_each_database(async |scratch| {
        let one = builder(&scratch.url).open().await.unwrap();
        one.set_note(NoteSpec::new("db-port", "the database listens on 5433")).await.unwrap();
        one.set_note(NoteSpec::new("gone", "soon")).await.unwrap();
        one.delete_note("gone", &Default::default()).await.unwrap();
        let task =
            TaskSpec { id: "T-1".into(), title: Some("Move the database".into()), ..TaskSpec::default() };
        one.add_task(task).await.unwrap();
        one.shutdown(std::time::Duration::ZERO).await;

        let recorded = RecordedCalls::default();
        let two = builder(&scratch.url).tool("t/do", recorded.echo()).open().await.unwrap();
        let note = two.note("db-port").await.unwrap().expect("the note exists");
        assert_eq!((note.author.as_str(), note.version), ("program:test", 1));
        assert!(two.note("gone").await.unwrap().is_none());
        let found = two.search_notes("listens", 10).await.unwrap().notes;
        assert!(found.len() == 1 && found[0].excerpt.as_deref().unwrap().contains("**listens**"));

        two.save_plan(&plan("move", json!([step("a", "t/do"), step("b", "t/do")]))).await.unwrap();
        assert_eq!(two.split_task("T-1", "move").await.unwrap().len(), 2);
        two.run("move", None).await.unwrap();
        assert_eq!(two.task("T-1/a").await.unwrap().status, TaskStatus::Done);
        let done = TaskSpec { id: "T-1".into(), status: Some(TaskStatus::Done), ..TaskSpec::default() };
        assert_eq!(two.change_task(done).await.unwrap().status, TaskStatus::Done);
        assert_eq!(two.tasks(Some(TaskStatus::Done)).await.unwrap().len(), 1);
        assert!(two.task_story("T-1").await.unwrap().subtasks.len() == 2);
        assert!(two.verify().await.unwrap().ok);
    });
}

#[test]
fn exported_execution_verifies_without_the_database() {
    for_each_database(async |scratch| {
        let client =
            builder(&scratch.url).tool("t/do", RecordedCalls::default().echo()).open().await.unwrap();
        let view = run(&client, "exported", json!([step("a", "t/do")])).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        let exported = client.export(view.id.as_str(), &mut file.as_file()).await.unwrap();
        let verified = actbook::service::verify_file(&mut std::io::BufReader::new(file.reopen().unwrap()));
        assert_eq!(verified.unwrap().position, exported.position);
        assert_eq!(client.plans().await.unwrap().len(), 1);
        client.delete_plan("exported").await.unwrap();
        assert!(client.plans().await.unwrap().is_empty());
    });
}
