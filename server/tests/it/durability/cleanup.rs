//! Cleaning up erases what was said and keeps the proof that it was: the text is gone, the chain holds.

use actbook_engine::policy::{ExecutionStatus, StepAnswer};
use serde_json::{Value, json};

use super::book::{self, Book};
use crate::store::{Kind, Scratch, TENANT, for_each_database, on};
use actbook::store::{executions, payloads};

const CANARY: &str = "a canary that nobody may find again";

/// A plan that holds nothing secret itself: what is secret comes in and goes round.
fn plan() -> Value {
    let step = |id: &str, tool: &str| {
        let undo = json!({ "tool": "t/undo", "arguments": { "back": "${arguments.word}" } });
        json!({ "id": id, "tool": tool, "arguments": { "word": "${inputs.word}" }, "compensation": undo })
    };
    let mut plan =
        book::plan("secretive", &[step("does", "t/ok"), step("fails", "t/no"), step("last", "t/ok")]);
    plan["inputs"] = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    plan
}

/// An ended execution that has said `word` in inputs, arguments, outputs, errors, a decision and an undo.
async fn ended(book: &Book, word: &str) -> String {
    let (id, status) = book.run(&plan(), Some(json!({ "word": word }))).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    let output = Some(json!({ "found": word }));
    assert_eq!(book.decide(&id, "fails", StepAnswer::Happened, output).await, ExecutionStatus::Succeeded);
    id
}

/// Words of every size, those that fill pages of their own included.
fn word(number: usize) -> String {
    let size = [1, 3, 40, 400][number % 4];
    vec![format!("{CANARY} {number}"); size].join(", ")
}

#[test]
fn cleanup_erases_ended_executions_and_the_chain_still_verifies() {
    for_each_database(async |scratch| {
        let book = Book::open(&scratch.url).await;
        let id = ended(&book, CANARY).await;
        let (open, _) = book.run(&plan(), Some(json!({ "word": "still going" }))).await;
        let before = book.assert_whole().await;

        let tried = book.service.cleanup(&book.caller, i64::MAX, true).await.unwrap();
        assert_eq!((tried.executions, tried.dry_run), (1, true));
        let same = book.assert_whole().await;
        assert_eq!(
            (same.position, same.payloads),
            (before.position, before.payloads),
            "a dry run changed something"
        );
        let early = book.service.cleanup(&book.caller, 1, false).await.unwrap();
        assert_eq!(early.executions, 0, "it ended after that time");

        let cleaned = book.service.cleanup(&book.caller, i64::MAX, false).await.unwrap();
        assert_eq!(cleaned.executions, 1);
        let after = book.assert_whole().await;
        assert_eq!((after.position, after.erased), (before.position + 1, 1));
        assert!(after.payloads < before.payloads);
        assert_nothing_left(&scratch, &id).await;
        assert!(!serde_json::to_string(&book.service.view(&id).await.unwrap()).unwrap().contains(CANARY));
        let refused = book.service.undo(&book.caller, &id, None).await.unwrap_err();
        assert!(refused.message.contains("erased"), "{refused:?}");
        assert_eq!(book.service.cleanup(&book.caller, i64::MAX, false).await.unwrap().executions, 0);
        assert_eq!(
            book.decide(&open, "fails", StepAnswer::Compensate, None).await,
            ExecutionStatus::Compensated
        );
    });
}

async fn assert_nothing_left(scratch: &Scratch, id: &str) {
    let executions::ExecutionRow { id: stream, .. } =
        match executions::find_by_prefix(&scratch.db, TENANT, None, id).await.unwrap() {
            actbook::store::PrefixMatch::One(row) => row,
            other => panic!("{other:?}"),
        };
    assert_eq!(payloads::by_stream(scratch.db.dialect(), TENANT, stream).all(&scratch.db).await.unwrap(), []);
    assert_eq!(payloads::salt(TENANT, stream).first(&scratch.db).await.unwrap(), None);
}

/// How often the canary is found in the file and its write-ahead log.
fn found_on_disk(scratch: &Scratch) -> usize {
    let log = format!("{}-wal", scratch.file().display());
    let files = [std::fs::read(scratch.file()).unwrap(), std::fs::read(log).unwrap_or_default()];
    let canary = CANARY.as_bytes();
    files.iter().flat_map(|file| file.windows(canary.len())).filter(|window| *window == canary).count()
}

#[test]
fn what_was_erased_is_nowhere_in_the_file() {
    on(Kind::Sqlite, async |scratch| {
        let book = Book::open(&scratch.url).await;
        for number in 0..40 {
            ended(&book, &word(number)).await;
            if number % 3 == 0 {
                book.run(&plan(), Some(json!({ "word": "harmless, and still there" }))).await;
            }
        }
        assert!(found_on_disk(&scratch) > 1_000);
        assert_eq!(book.service.cleanup(&book.caller, i64::MAX, false).await.unwrap().executions, 40);
        assert_eq!(found_on_disk(&scratch), 0);
        book.assert_whole().await;
    });
}

#[test]
fn a_backup_made_while_others_write_verifies() {
    on(Kind::Sqlite, async |scratch| {
        let book = Book::open(&scratch.url).await;
        book::mixed(&book, "before").await;
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize| folder.path().join(format!("{number}.db"));
        let copying = async {
            for number in 0..5 {
                let known = book.service.verify().await.unwrap().position;
                book.service.backup(&file(number)).await.unwrap();
                let copy = Book::open(&file(number).to_string_lossy()).await;
                assert!(
                    copy.assert_whole().await.position >= known,
                    "the copy lacks what was there before it"
                );
            }
        };
        tokio::join!(copying, book::mixed(&book, "meanwhile"), book::mixed(&book, "as well"));
        let refused = book.service.backup(&file(0)).await.unwrap_err();
        assert!(refused.message.contains("exists already"), "{refused:?}");
    });
}
