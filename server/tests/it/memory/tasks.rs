//! Tasks in the store: updates keep omitted fields, requests are atomic, and a rebuild equals the live rows.

use actbook::service::{TaskSpec, TaskStatus};
use actbook::store::tasks;
use serde_json::json;

use crate::durability::fixture::{self, ServiceFixture};
use crate::store::{TENANT, for_each_database};

fn task(id: &str) -> TaskSpec {
    TaskSpec { id: id.to_owned(), ..TaskSpec::default() }
}

#[test]
fn task_update_keeps_omitted_fields() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (service, caller) = (&fixture.service, &fixture.caller);
        let given = TaskSpec {
            title: Some("Move the database".into()),
            priority: Some(2),
            estimate_ms: Some(7_200_000),
            labels: Some(vec!["ops".into(), "risky".into()]),
            fields: Some(json!({ "version": 2 })),
            ..task("T-1")
        };
        service.tasks().add(caller, given, false).await.unwrap();
        assert_eq!(service.tasks().add(caller, task("T-1"), false).await.unwrap_err().code(), "task_exists");
        assert_eq!(service.tasks().change(caller, task("T-2")).await.unwrap_err().code(), "no_such_task");
        let own = TaskSpec { parent: Some("T-1".into()), ..task("T-1") };
        assert_eq!(service.tasks().change(caller, own).await.unwrap_err().code(), "own_parent");
        let done = TaskSpec { status: Some(TaskStatus::Done), ..task("T-1") };
        let view = service.tasks().change(caller, done).await.unwrap();
        assert_eq!(
            (view.status, view.priority, view.title.as_str()),
            (TaskStatus::Done, 2, "Move the database")
        );
        assert_eq!((view.estimate.as_deref(), view.fields), (Some("2h"), Some(json!({ "version": 2 }))));
        assert_eq!(view.labels, ["ops", "risky"]);
        fixture.assert_verifies().await;
    });
}

#[test]
fn concurrent_task_updates_lose_nothing_and_rebuild_equals_live() {
    for_each_database(async |scratch| {
        let (fixture, other) =
            (ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await);
        fixture.service.tasks().add(&fixture.caller, task("T-1"), false).await.unwrap();
        let changes = (0..20).map(|number| {
            let from = if number % 2 == 0 { &fixture } else { &other };
            let change = TaskSpec { priority: Some(number), ..task("T-1") };
            async move { from.service.tasks().change(&from.caller, change).await.unwrap() }
        });
        futures_util::future::join_all(changes).await;
        let plan =
            fixture::plan("steps", &[fixture::step("a", "t/ok", "word"), fixture::step("b", "t/no", "word")]);
        fixture.run(&plan, None).await;
        fixture.service.tasks().split(&fixture.caller, "T-1", "steps").await.unwrap();
        let live = tasks::all(TENANT).all(&scratch.db).await.unwrap();
        assert_eq!((live.len(), live[0].version), (3, 21));
        for damage in ["DELETE FROM tasks", "UPDATE tasks SET title = 'x', version = 7, priority = 5"] {
            scratch.execute(damage).await;
            fixture.service.journal().rebuild().await.unwrap();
            assert_eq!(tasks::all(TENANT).all(&scratch.db).await.unwrap(), live, "after {damage}");
        }
        let subtasks = fixture.service.tasks().subtasks("T-1").await.unwrap();
        let statuses: Vec<TaskStatus> = subtasks.iter().map(|task| task.status).collect();
        assert_eq!(statuses, [TaskStatus::Done, TaskStatus::Blocked], "subtasks follow the execution");
        fixture.assert_verifies().await;
    });
}

#[test]
fn subtasks_follow_a_new_plan_version() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (service, caller) = (&fixture.service, &fixture.caller);
        let save = async |ids: &[&str]| {
            let steps: Vec<_> = ids.iter().map(|id| fixture::step(id, "t/ok", "word")).collect();
            service.plans().save(caller, &fixture::plan("grows", &steps).to_string(), true).await.unwrap();
        };
        let statuses = async || -> Vec<(String, TaskStatus)> {
            let subtasks = service.tasks().subtasks("T-1").await.unwrap();
            subtasks.into_iter().map(|task| (task.step.unwrap(), task.status)).collect()
        };
        let is = |step: &str, status| (step.to_owned(), status);
        service.tasks().add(caller, task("T-1"), false).await.unwrap();
        service.tasks().add(caller, task("T-1/d"), false).await.unwrap();
        save(&["a", "b"]).await;
        service.tasks().split(caller, "T-1", "grows").await.unwrap();
        save(&["b", "c"]).await;
        let expected = [is("a", TaskStatus::Cancelled), is("b", TaskStatus::Open), is("c", TaskStatus::Open)];
        assert_eq!(statuses().await, expected, "a removed step's subtask is cancelled, a new one is added");
        save(&["a", "b", "c", "d"]).await;
        let expected = [is("a", TaskStatus::Open), is("b", TaskStatus::Open), is("c", TaskStatus::Open)];
        assert_eq!(
            statuses().await,
            expected,
            "an unrelated task with a subtask's id does not block saving the plan"
        );
        fixture.assert_verifies().await;
    });
}
