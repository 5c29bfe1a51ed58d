//! Cleanup erases payloads and keeps the hash chain: the text is gone, and the journal still verifies.

use actbook_engine::policy::{ExecutionStatus, StepAnswer};
use serde_json::{Value, json};

use super::fixture::{self, ServiceFixture};
use crate::store::{Kind, ScratchDatabase, TENANT, for_each_database, run_on};
use actbook::store::{executions, payloads};

const CANARY: &str = "a canary that nobody may find again";

/// A plan that has no secret text itself: the text comes in by an input and is passed on.
fn plan() -> Value {
    let step = |id: &str, tool: &str| {
        let undo = json!({ "tool": "t/undo", "arguments": { "back": "${arguments.word}" } });
        json!({ "id": id, "tool": tool, "arguments": { "word": "${inputs.word}" }, "compensation": undo })
    };
    let mut plan =
        fixture::plan("secretive", &[step("does", "t/ok"), step("fails", "t/no"), step("last", "t/ok")]);
    plan["inputs"] = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    plan
}

/// Runs an execution to its end, with `word` in inputs, arguments, outputs, errors and a decision.
async fn run_to_end_with_text(fixture: &ServiceFixture, word: &str) -> String {
    let (id, status) = fixture.run(&plan(), Some(json!({ "word": word }))).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    let output = Some(json!({ "found": word }));
    assert_eq!(fixture.decide(&id, "fails", StepAnswer::Happened, output).await, ExecutionStatus::Succeeded);
    id
}

/// Texts of several sizes, including some that fill database pages of their own.
fn canary_text(number: usize) -> String {
    let size = [1, 3, 40, 400][number % 4];
    vec![format!("{CANARY} {number}"); size].join(", ")
}

#[test]
fn cleanup_erases_ended_executions_and_the_chain_still_verifies() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let id = run_to_end_with_text(&fixture, CANARY).await;
        let (open, _) = fixture.run(&plan(), Some(json!({ "word": "still going" }))).await;
        let before = fixture.assert_verifies().await;

        let tried = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, true).await.unwrap();
        assert_eq!((tried.executions, tried.dry_run), (1, true));
        let same = fixture.assert_verifies().await;
        assert_eq!(
            (same.position, same.payloads),
            (before.position, before.payloads),
            "a dry run changed something"
        );
        let early = fixture.service.journal().cleanup(&fixture.caller, 1, false).await.unwrap();
        assert_eq!(early.executions, 0, "the execution ended after that time");

        let cleaned = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        assert_eq!(cleaned.executions, 1);
        let after = fixture.assert_verifies().await;
        assert_eq!((after.position, after.erased), (before.position + 1, 1));
        assert!(after.payloads < before.payloads);
        assert_payloads_and_salt_erased(&scratch, &id).await;
        assert!(
            !serde_json::to_string(&fixture.executions().view(&id).await.unwrap()).unwrap().contains(CANARY)
        );
        let refused = fixture.executions().undo(&fixture.caller, &id, None).await.unwrap_err();
        assert!(refused.to_string().contains("erased"), "{refused:?}");
        assert_eq!(
            fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap().executions,
            0
        );
        assert_eq!(
            fixture.decide(&open, "fails", StepAnswer::Compensate, None).await,
            ExecutionStatus::Compensated
        );
    });
}

async fn assert_payloads_and_salt_erased(scratch: &ScratchDatabase, id: &str) {
    let executions::ExecutionRow { id: stream, .. } =
        match executions::find_by_prefix(&scratch.db, TENANT, None, id).await.unwrap() {
            actbook::store::PrefixMatch::One(row) => row,
            other => panic!("{other:?}"),
        };
    assert_eq!(payloads::by_stream(scratch.db.dialect(), TENANT, stream).all(&scratch.db).await.unwrap(), []);
    assert_eq!(payloads::salt(TENANT, stream).first(&scratch.db).await.unwrap(), None);
}

/// How often the canary is found in the file and its write-ahead log.
fn canary_count_on_disk(scratch: &ScratchDatabase) -> usize {
    let log = format!("{}-wal", scratch.file().display());
    let files = [std::fs::read(scratch.file()).unwrap(), std::fs::read(log).unwrap_or_default()];
    let canary = CANARY.as_bytes();
    files.iter().flat_map(|file| file.windows(canary.len())).filter(|window| *window == canary).count()
}

#[test]
fn erased_text_is_absent_from_the_database_file() {
    run_on(Kind::Sqlite, async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for number in 0..40 {
            run_to_end_with_text(&fixture, &canary_text(number)).await;
            if number % 3 == 0 {
                fixture.run(&plan(), Some(json!({ "word": "harmless, and still there" }))).await;
            }
        }
        assert!(canary_count_on_disk(&scratch) > 1_000);
        assert_eq!(
            fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap().executions,
            40
        );
        assert_eq!(canary_count_on_disk(&scratch), 0);
        fixture.assert_verifies().await;
    });
}

#[test]
fn backup_during_concurrent_writes_verifies() {
    run_on(Kind::Sqlite, async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        fixture::write_mixed_history(&fixture, "before").await;
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize| folder.path().join(format!("{number}.db"));
        let copying = async {
            for number in 0..5 {
                let known = fixture.service.journal().verify().await.unwrap().position;
                fixture.service.journal().backup(&file(number)).await.unwrap();
                let copy = ServiceFixture::open(&file(number).to_string_lossy()).await;
                assert!(
                    copy.assert_verifies().await.position >= known,
                    "the copy lacks entries written before it"
                );
            }
        };
        tokio::join!(
            copying,
            fixture::write_mixed_history(&fixture, "meanwhile"),
            fixture::write_mixed_history(&fixture, "as well")
        );
        let refused = fixture.service.journal().backup(&file(0)).await.unwrap_err();
        assert!(refused.to_string().contains("exists already"), "{refused:?}");
    });
}
