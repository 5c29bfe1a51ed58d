//! Projections are derived from the journal alone: deleted and rebuilt, they have the same rows.

use actbook::store::{Db, executions, plans};
use actbook_engine::policy::ExecutionStatus;

use super::fixture::{self, ServiceFixture};
use crate::store::{TENANT, for_each_database};

type ProjectionRows = (Vec<plans::PlanRow>, Vec<executions::ExecutionRow>);

async fn projection_rows(db: &Db) -> ProjectionRows {
    (plans::all(TENANT).all(db).await.unwrap(), executions::all(TENANT).all(db).await.unwrap())
}

/// Writes a history with erased executions, deleted plans, a later plan of the same name, and templates, one
/// of them with a plan's name.
async fn write_history(fixture: &ServiceFixture) {
    fixture::write_mixed_history(fixture, "early").await;
    fixture.service.plans().delete(&fixture.caller, "auto").await.unwrap();
    fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
    fixture.service.plans().delete(&fixture.caller, "waits").await.unwrap();
    fixture::write_mixed_history(fixture, "late").await;
    let (_, plan) = fixture.service.plans().get("auto").await.unwrap();
    fixture.service.templates().save(&fixture.caller, &plan, None, false).await.unwrap();
    fixture.service.templates().save(&fixture.caller, &plan, Some("gone"), false).await.unwrap();
    fixture.service.templates().delete(&fixture.caller, "gone").await.unwrap();
}

#[test]
fn rebuilt_projections_equal_the_live_ones() {
    let damages = [
        "SELECT 1",
        "DELETE FROM executions",
        "DELETE FROM pages",
        "DELETE FROM plans",
        "DELETE FROM plans; DELETE FROM executions",
        "UPDATE plans SET deleted = 1, digest = 'x', position = position + 1",
        "UPDATE executions SET status = 'failed', ended_at = 1, seat = NULL, plan_name = 'x', look_again_at = 7",
        "INSERT INTO plans VALUES (1, 'ghost', 'ghost', 1, 'x', 1, 1, 1, 0, 'T-0', 1, '', 0)",
    ];
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        write_history(&fixture).await;
        let live = projection_rows(&scratch.db).await;
        assert!(live.0.iter().any(|plan| plan.deleted) && live.1.len() == 14);
        for damage in damages {
            scratch.execute(damage).await;
            let count = fixture.service.journal().rebuild().await.unwrap();
            assert_eq!(projection_rows(&scratch.db).await, live, "after {damage}");
            assert_eq!(count, live.0.len() + live.1.len());
        }
        fixture.assert_verifies().await;
        fixture::write_mixed_history(&fixture, "after").await;
    });
}

#[test]
fn verify_reports_lists_that_differ_from_the_journal() {
    let forgeries = [
        ("DELETE FROM executions WHERE id = (SELECT min(id) FROM executions)", "is not listed"),
        ("DELETE FROM executions WHERE id = (SELECT max(id) FROM executions)", "is not listed"),
        (
            "UPDATE executions SET status = 'failed' WHERE status = 'succeeded'",
            "listed as failed and is succeeded",
        ),
        ("UPDATE executions SET project = 'another'", "is listed otherwise"),
        ("UPDATE executions SET plan_name = 'another'", "is listed otherwise"),
        (
            "UPDATE executions SET id = id + 100000, public_id = 'ghost' WHERE id = (SELECT max(id) FROM executions)",
            "is not listed",
        ),
        (
            "INSERT INTO executions SELECT tenant, id + 100000, 'ghost', plan, plan_name, plan_version, task, status, place, seat, \
          epoch, started_at, ended_at, look_again_at, project, done, total, first_error FROM executions WHERE id = (SELECT min(id) FROM executions)",
            "does not have",
        ),
    ];
    for_each_database(async |scratch| {
        let book = ServiceFixture::open(&scratch.url).await;
        write_history(&book).await;
        book.assert_verifies().await;
        for (forgery, words) in forgeries {
            scratch.execute(forgery).await;
            let verified = book.service.journal().verify().await.unwrap();
            let bad = verified.bad.unwrap_or_else(|| panic!("not noticed: {forgery}"));
            assert!(!verified.ok && verified.list_differs && verified.entries > 0, "{forgery}");
            assert!(
                bad.why.contains(words) && bad.why.starts_with("the journal is whole, but the list"),
                "{forgery}: {}",
                bad.why
            );
            book.service.journal().rebuild().await.unwrap();
            book.assert_verifies().await;
        }
    });
}

#[test]
fn verify_holds_while_others_write() {
    for_each_database(async |scratch| {
        let book = ServiceFixture::open(&scratch.url).await;
        let writing = async {
            for round in 0..5 {
                fixture::write_mixed_history(&book, &format!("round{round}")).await;
            }
        };
        let verifying = async {
            for _ in 0..20 {
                let verified = book.service.journal().verify().await.unwrap();
                assert!(verified.ok, "{:?}", verified.bad);
            }
        };
        tokio::join!(writing, verifying);
    });
}

#[test]
fn missing_index_pages_are_reported_and_rebuilt() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let steps: Vec<_> = (0..100).map(|no| fixture::step(&format!("s{no}"), "t/ok", "x")).collect();
        let started = fixture.start(&fixture::plan("long", &steps), None, true).await;
        let id = started.id.to_string();
        fixture.drive(started).await;
        fixture.assert_verifies().await;

        scratch.execute("DELETE FROM pages").await;
        let verified = fixture.service.journal().verify().await.unwrap();
        let bad = verified.bad.expect("a page is missing");
        assert_eq!(bad.position, 128, "{}", bad.why);
        assert!(bad.why.contains("actbook rebuild"), "{}", bad.why);
        fixture.service.journal().rebuild().await.unwrap();
        fixture.assert_verifies().await;
        assert_eq!(fixture.executions().view(&id).await.unwrap().status, ExecutionStatus::Succeeded);
    });
}

#[test]
fn rebuild_during_concurrent_writes_equals_live_projections() {
    for_each_database(async |scratch| {
        let (fixture, other) =
            (ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await);
        fixture::write_mixed_history(&fixture, "before").await;
        let rebuilding = async {
            for _ in 0..5 {
                other.service.journal().rebuild().await.unwrap();
            }
        };
        tokio::join!(fixture::write_mixed_history(&fixture, "meanwhile"), rebuilding);
        let live = projection_rows(&scratch.db).await;
        fixture.service.journal().rebuild().await.unwrap();
        assert_eq!(projection_rows(&scratch.db).await, live);
    });
}
