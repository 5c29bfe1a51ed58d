//! Reads of what the projector writes: questions, failures, numbers by status, values of filters; and a
//! database that a former version wrote.

use actbook::service::{ExecutionFilter, FilterAttribute, StatsFilter};
use actbook_engine::policy::{ExecutionStatus, StepAnswer};

use super::plan;
use crate::durability::fixture::{self, ServiceFixture};
use crate::store::for_each_database;

#[test]
fn questions_are_listed_oldest_first_until_answered() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let mut ids = Vec::new();
        for number in [1, 2, 0, 4, 2] {
            ids.push(fixture.run(&plan(number, None), None).await.0);
        }
        let asked = async || {
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = fixture.executions().questions(cursor.as_deref(), 2).await.unwrap();
                found.extend(page.items.into_iter().map(|item| item.execution.id));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return found;
                }
            }
        };
        assert_eq!(asked().await, [&ids[0], &ids[1], &ids[3], &ids[4]].map(String::as_str));
        assert_eq!(fixture.executions().count_questions(10).await.unwrap(), 4);
        fixture.decide(&ids[1], "s0", StepAnswer::Abandon, None).await;
        assert_eq!(asked().await, [&ids[0], &ids[3], &ids[4]].map(String::as_str));
        let first = fixture.executions().inbox(None, 2).await.unwrap();
        let second = fixture.executions().inbox(first.next_cursor.as_deref(), 2).await.unwrap();
        assert!(first.next_cursor.is_some() && second.next_cursor.is_none());
        let shown: Vec<_> = first.questions.iter().chain(&second.questions).collect();
        let shown: Vec<&str> = shown.iter().map(|one| one.execution.view.id.as_str()).collect();
        assert_eq!(shown, [&ids[0], &ids[3], &ids[4]].map(String::as_str));
        assert_eq!(first.questions.len(), 2, "a page has its limit");
        let first = fixture.executions().questions(None, 1).await.unwrap().items.remove(0);
        assert!(first.question.text.contains("no to"), "{}", first.question.text);
        assert_eq!((first.execution.done, first.execution.total), (Some(1), Some(2)));
    });
}

#[test]
fn failures_are_grouped_and_their_texts_erased() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for word in ["order 1", "order 22", "order 333"] {
            let failing = fixture::plan("fails", &[fixture::step("s", "t/no", word)]);
            let (id, _) = fixture.run(&failing, None).await;
            fixture.decide(&id, "s", StepAnswer::Abandon, None).await;
        }
        fixture.run(&plan(2, None), None).await;
        let read = async || fixture.service.journal().failures(&StatsFilter::default(), 10).await.unwrap();
        let groups = read().await;
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!((groups[0].tool.as_str(), groups[0].calls), ("t/no", 3));
        assert!(groups[0].message.as_ref().unwrap().contains("order 333"));
        assert_eq!(groups[1].category.as_deref(), Some("timeout"));
        let of = StatsFilter { plan: Some("gamma".into()), ..StatsFilter::default() };
        assert_eq!(fixture.service.journal().failures(&of, 10).await.unwrap().len(), 1);

        let listed = fixture.executions().list(&ExecutionFilter::default(), 10).await.unwrap();
        assert_eq!(listed[0].first_error.as_deref(), Some("no answer"));
        assert!(listed[1].first_error.as_ref().unwrap().contains("order 333"), "{listed:?}");
        // The projector keeps an open execution with its facts; this one ends and is erased before the next round.
        let (kept, _) =
            fixture.run(&fixture::plan("fails", &[fixture::step("s", "t/no", "order 4444")]), None).await;
        assert_eq!(read().await[0].calls, 4);
        fixture.decide(&kept, "s", StepAnswer::Abandon, None).await;
        fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        let erased = read().await;
        assert_eq!((erased[0].calls, &erased[0].message, erased[0].fingerprint.as_str()), (4, &None, ""));
        let listed = fixture.executions().list(&ExecutionFilter::default(), 10).await.unwrap();
        assert_eq!(listed[2].first_error, None);
    });
}

#[test]
fn statuses_are_counted_and_values_completed() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for number in [0, 0, 2, 3] {
            fixture.run(&plan(number, None), None).await;
        }
        let counts = fixture.executions().count_by_status().await.unwrap();
        let counted = |status| counts.get(&status).copied();
        assert_eq!(counts.len(), 2);
        for (status, count) in [(ExecutionStatus::Blocked, 1), (ExecutionStatus::Succeeded, 3)] {
            assert_eq!(counted(status), Some(count), "{status}");
        }
        let values = async |attribute, prefix| {
            let found = fixture.executions().filter_values(attribute, prefix, 10).await.unwrap();
            found.into_iter().map(|found| (found.value, found.executions)).collect::<Vec<_>>()
        };
        let tools = values(FilterAttribute::Tool, "t/o").await;
        assert_eq!(tools, [("t/ok".into(), 3), ("t/other".into(), 1)]);
        assert_eq!(values(FilterAttribute::Plan, "al").await, [("alpha".into(), 2)]);
        assert_eq!(values(FilterAttribute::Server, "x").await, []);
        let succeeded = ExecutionFilter { status: ExecutionStatus::Succeeded.into(), ..Default::default() };
        assert_eq!(fixture.executions().count(&succeeded, 10).await.unwrap(), 3);
        assert_eq!(fixture.executions().count(&succeeded, 2).await.unwrap(), 2);
    });
}

#[test]
fn database_of_the_former_version_opens_verifies_and_continues() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (blocked, _) = fixture.run(&plan(1, Some("T-1")), None).await;
        fixture.run(&plan(0, None), None).await;
        fixture.service.close().await;
        drop(fixture);
        let mut former = String::from("DROP INDEX plans_by_any_name;");
        for table in ["facets", "marks", "totals", "counts", "hours", "errors", "questions", "confidences"] {
            former += &format!("DROP TABLE {table};");
        }
        for column in ["done", "total", "first_error"] {
            former += &format!("ALTER TABLE executions DROP COLUMN {column};");
        }
        former += "DELETE FROM caught_up; DELETE FROM migrations WHERE name = '0018_facets';";
        scratch.execute(&former).await;

        let fixture = ServiceFixture::open(&scratch.url).await;
        fixture.assert_verifies().await;
        let all = fixture.executions().list_page(&ExecutionFilter::default(), None, 10).await.unwrap();
        assert_eq!(all.items.len(), 2);
        assert_eq!(
            (all.items[1].done, all.items[1].total),
            (Some(1), Some(2)),
            "folded where the row has none"
        );
        let by_tool = ExecutionFilter { tool: "t/no".to_owned().into(), ..Default::default() };
        let found = fixture.executions().list(&by_tool, 10).await.unwrap();
        assert_eq!(found.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [blocked.as_str()]);
        assert_eq!(fixture.decide(&blocked, "s1", StepAnswer::Skip, None).await, ExecutionStatus::Succeeded);
        assert_eq!(
            fixture.service.journal().stats(&StatsFilter::default()).await.unwrap().executions.total,
            2
        );
        fixture.assert_verifies().await;
    });
}
