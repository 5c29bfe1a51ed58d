//! The head row decides what the next entry is chained to. A head row that does not name the journal's last
//! entry is refused before anything is acknowledged or sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fixture::{self, ServiceFixture};
use crate::store::{ScratchDatabase, TENANT, for_each_database, head};

/// Ways to corrupt the head row, in SQL that both databases accept.
const HEAD_CORRUPTIONS: [(&str, &str); 5] = [
    (
        "hash of another entry",
        "UPDATE head SET hash = (SELECT hash FROM journal WHERE entry = 1099511627777)",
    ),
    ("position moved on", "UPDATE head SET position = position + 1"),
    ("position moved back", "UPDATE head SET position = position - 1"),
    (
        "an earlier head",
        "UPDATE head SET position = position - 1, \
         hash = (SELECT hash FROM journal WHERE entry = 1099511627776 + (SELECT position FROM head) - 1)",
    ),
    ("row deleted", "DELETE FROM head"),
];

async fn restore_head(scratch: &ScratchDatabase, written: actbook::store::JournalHead) {
    let hash: String = written.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = match scratch.kind {
        crate::store::Kind::Sqlite => format!("x'{hash}'"),
        crate::store::Kind::Postgres => format!("'\\x{hash}'::BYTEA"),
    };
    let position = written.position;
    let insert = format!("INSERT INTO head (tenant, position, hash) VALUES ({TENANT}, {position}, {hash})");
    scratch.execute(&format!("DELETE FROM head; {insert}")).await;
}

async fn call_counting_fixture(url: &str, sent: &Arc<AtomicUsize>) -> ServiceFixture {
    let sent = sent.clone();
    let count = move |_: &actbook::tools::Call| {
        sent.fetch_add(1, Ordering::Relaxed);
    };
    ServiceFixture::open_observed(url, count).await
}

#[test]
fn head_mismatch_with_the_last_entry_stops_every_append() {
    for_each_database(async |scratch| {
        let sent = Arc::new(AtomicUsize::new(0));
        let plan = fixture::plan("shared", &[fixture::step("only", "t/ok", "word")]);
        let earlier = call_counting_fixture(&scratch.url, &sent).await;
        let open = earlier.start(&plan, None, false).await.id.to_string();
        let written = head(&scratch.db);
        for (name, sql) in HEAD_CORRUPTIONS {
            scratch.execute(sql).await;
            // One process that cached the head before, and one that reads it for the first time.
            for fixture in [&earlier, &call_counting_fixture(&scratch.url, &sent).await] {
                let saved = fixture.service.plans().save(&fixture.caller, &plan.to_string(), true).await;
                let claimed = fixture.executions().claim(&fixture.caller, &open, false).await;
                for code in [saved.err().map(|error| error.code()), claimed.err().map(|error| error.code())] {
                    assert_eq!(code, Some("corrupt"), "{name}");
                }
                let verified = fixture.service.journal().verify().await.unwrap();
                assert!(!verified.ok, "{name}: {verified:?}");
            }
            restore_head(&scratch, written).await;
        }
        assert_eq!((sent.load(Ordering::Relaxed), head(&scratch.db)), (0, written));
        let (_, status) = earlier.run(&plan, None).await;
        assert_eq!(status, actbook_engine::policy::ExecutionStatus::Succeeded);
        earlier.assert_verifies().await;
    });
}

#[test]
fn first_entry_is_refused_after_a_head_with_a_hash() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let plan = fixture::plan("first", &[fixture::step("only", "t/ok", "word")]).to_string();
        let (corrupt, valid) = match scratch.kind {
            crate::store::Kind::Sqlite => ("hash = randomblob(32)", "hash = zeroblob(32)"),
            crate::store::Kind::Postgres => {
                ("hash = decode(repeat('ab', 32), 'hex')", "hash = decode(repeat('00', 32), 'hex')")
            }
        };
        scratch.execute(&format!("UPDATE head SET {corrupt}")).await;
        let refused = fixture.service.plans().save(&fixture.caller, &plan, true).await.err().unwrap();
        assert_eq!(refused.code(), "corrupt");
        scratch.execute(&format!("UPDATE head SET {valid}")).await;
        fixture.service.plans().save(&fixture.caller, &plan, true).await.unwrap();
    });
}
