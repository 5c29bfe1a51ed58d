//! The projections hold nothing that the journal does not say: thrown away and made again, they are
//! the same rows.

use actbook::store::{Db, executions, plans};
use actbook_engine::policy::ExecutionStatus;

use super::book::{self, Book};
use crate::store::{TENANT, for_each_database};

type Rows = (Vec<plans::PlanRow>, Vec<executions::ExecutionRow>);

async fn rows(db: &Db) -> Rows {
    (plans::all(TENANT).all(db).await.unwrap(), executions::all(TENANT).all(db).await.unwrap())
}

/// With erased executions, a deleted plan, and one of its name that came after it; and templates, of which
/// one has a plan's name.
async fn write(book: &Book) {
    book::mixed(book, "early").await;
    book.service.delete_plan(&book.caller, "auto").await.unwrap();
    book.service.cleanup(&book.caller, i64::MAX, false).await.unwrap();
    book.service.delete_plan(&book.caller, "waits").await.unwrap();
    book::mixed(book, "late").await;
    let (_, plan) = book.service.plan("auto").await.unwrap();
    book.service.save_template(&book.caller, &plan, None, false).await.unwrap();
    book.service.save_template(&book.caller, &plan, Some("gone"), false).await.unwrap();
    book.service.delete_template(&book.caller, "gone").await.unwrap();
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
        let book = Book::open(&scratch.url).await;
        write(&book).await;
        let live = rows(&scratch.db).await;
        assert!(live.0.iter().any(|plan| plan.deleted) && live.1.len() == 14);
        for damage in damages {
            scratch.execute(damage).await;
            let count = book.service.rebuild().await.unwrap();
            assert_eq!(rows(&scratch.db).await, live, "after {damage}");
            assert_eq!(count, live.0.len() + live.1.len());
        }
        book.assert_whole().await;
        book::mixed(&book, "after").await;
    });
}

#[test]
fn entries_that_their_stream_would_be_read_without_are_named_and_found_again() {
    for_each_database(async |scratch| {
        let book = Book::open(&scratch.url).await;
        let steps: Vec<_> = (0..100).map(|no| book::step(&format!("s{no}"), "t/ok", "x")).collect();
        let started = book.start(&book::plan("long", &steps), None, true).await;
        let id = started.id.to_string();
        book.drive(started).await;
        book.assert_whole().await;

        scratch.execute("DELETE FROM pages").await;
        let verified = book.service.verify().await.unwrap();
        let bad = verified.bad.expect("a page is missing");
        assert_eq!(bad.position, 128, "{}", bad.why);
        assert!(bad.why.contains("actbook rebuild"), "{}", bad.why);
        book.service.rebuild().await.unwrap();
        book.assert_whole().await;
        assert_eq!(book.service.view(&id).await.unwrap().status, ExecutionStatus::Succeeded);
    });
}

#[test]
fn projections_are_rebuilt_while_others_write() {
    for_each_database(async |scratch| {
        let (book, other) = (Book::open(&scratch.url).await, Book::open(&scratch.url).await);
        book::mixed(&book, "before").await;
        let rebuilding = async {
            for _ in 0..5 {
                other.service.rebuild().await.unwrap();
            }
        };
        tokio::join!(book::mixed(&book, "meanwhile"), rebuilding);
        let live = rows(&scratch.db).await;
        book.service.rebuild().await.unwrap();
        assert_eq!(rows(&scratch.db).await, live);
    });
}
