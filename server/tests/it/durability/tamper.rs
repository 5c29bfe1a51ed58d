//! An attacker with write access to the database can drop its triggers and change anything. `verify` must
//! detect it, and name the first position that is not as written.

mod attacker;
mod edit;

use std::collections::{BTreeMap, BTreeSet};

use actbook::store::{JournalHead, journal, payloads};
use actbook_engine::chain;
use actbook_engine::id::{Position, StreamId, TenantId};

use super::fixture::{self, ServiceFixture};
use super::rng::SeededRng;
use crate::counts::times;
use crate::store::{Kind, ScratchDatabase, TENANT, head, run_on};
use attacker::Attacker;

/// The tables as the product wrote them.
pub struct WrittenTables {
    pub entries: Vec<journal::Entry>,
    pub payloads: BTreeMap<u64, Vec<u8>>,
    pub salts: BTreeMap<StreamId, Vec<u8>>,
    pub erased: BTreeSet<StreamId>,
    pub head: JournalHead,
}

impl WrittenTables {
    async fn read(scratch: &ScratchDatabase) -> Self {
        let db = &scratch.db;
        let entries = journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap();
        let bodies = payloads::between(TENANT, 0, u64::MAX).all(db).await.unwrap();
        let salts = payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap();
        let erasing = entries.iter().filter(|entry| entry.kind == "payloads_erased.1");
        Self {
            erased: erasing.map(|entry| entry.stream).collect(),
            payloads: bodies.into_iter().map(|payload| (payload.position, payload.body)).collect(),
            salts: salts.into_iter().collect(),
            head: head(db),
            entries,
        }
    }

    pub fn last_position(&self) -> i64 {
        i64::try_from(self.head.position).expect("a small journal")
    }
}

/// Writes a journal with every kind of event, some payloads erased, and a plan deleted.
async fn write_history(url: &str) {
    let fixture = ServiceFixture::open(url).await;
    fixture::write_mixed_history(&fixture, "early").await;
    fixture.service.plans().delete(&fixture.caller, "auto").await.unwrap();
    let cleaned = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
    assert_eq!(cleaned.executions, 6);
    fixture::write_mixed_history(&fixture, "late").await;
    fixture.service.close().await;
}

async fn assert_verify_detects_edits(edits: usize, scratch: ScratchDatabase) {
    write_history(&scratch.url).await;
    let written = WrittenTables::read(&scratch).await;
    assert!(!written.erased.is_empty() && written.salts.len() > written.erased.len());
    let attacker = Attacker::open(&scratch).await;
    attacker.drop_all_constraints().await;
    let fixture = ServiceFixture::open(&scratch.url).await;
    fixture.assert_verifies().await;

    let mut rng = SeededRng::from_env("tamper");
    let mut kinds = BTreeMap::<&str, usize>::new();
    for number in 0..edits {
        let edit = edit::random_edit(&mut rng, &written, &attacker);
        *kinds.entry(edit.kind).or_default() += 1;
        attacker.run(&edit.sql).await;
        let verified = fixture.service.journal().verify().await.unwrap();
        let found = verified.bad.as_ref().map(|bad| bad.position);
        let context = format!("edit {number}, {}: {}\n{verified:?}", edit.kind, edit.sql);
        assert!(!verified.ok, "not detected: {context}");
        assert_eq!(found, Some(edit.first_bad), "at the wrong position: {context}");
        attacker.restore().await;
    }
    eprintln!("{edits} edits detected: {kinds:?}");
    assert!(edits < 500 || kinds.len() == edit::KINDS.len(), "some kind was never tried");
    fixture.assert_verifies().await;
}

#[test]
fn single_journal_edit_is_detected_at_its_position() {
    run_on(Kind::Sqlite, async |scratch| {
        assert_verify_detects_edits(times("ACTBOOK_EDITS", 1_000), scratch).await
    });
    run_on(Kind::Postgres, async |scratch| {
        assert_verify_detects_edits(times("ACTBOOK_EDITS", 1_000) / 16, scratch).await
    });
}

/// Hashes prove only that nothing changed since they were computed. An attacker who recomputes them all is
/// detected by entries that contradict each other.
#[test]
fn rechained_journal_is_detected_by_inconsistent_entries() {
    run_on(Kind::Sqlite, async |scratch| {
        write_history(&scratch.url).await;
        let written = WrittenTables::read(&scratch).await;
        let attacker = Attacker::open(&scratch).await;
        attacker.drop_all_constraints().await;
        let fixture = ServiceFixture::open(&scratch.url).await;
        let mut rng = SeededRng::from_env("chained anew");
        for _ in 0..40 {
            let at = rng.below(written.entries.len());
            let field = rng.below(3);
            let mut entries = written.entries.clone();
            match field {
                0 => entries[at].version += 1,
                1 => entries[at].kind = "unheard_of.1".into(),
                _ => entries[at].body.push_str("garbage"),
            }
            attacker.run(&rechain_sql(&entries, &attacker)).await;
            let bad = fixture.service.journal().verify().await.unwrap().bad;
            let position = bad.map(|bad| bad.position);
            assert_eq!(position, Some(entries[at].position), "change {field} of entry {}", at + 1);
            attacker.restore().await;
        }
    });
}

fn rechain_sql(entries: &[journal::Entry], attacker: &Attacker) -> String {
    let mut hash = chain::GENESIS;
    let mut sql = Vec::new();
    for entry in entries {
        let journal::Entry { position, stream, version, at, actor, kind, body, .. } = entry;
        let (position, at_ms) = (Position(*position), *at);
        let (stream, version) = (*stream, *version);
        let parts =
            chain::EntryParts { tenant: TenantId(1), position, stream, version, at_ms, actor, kind, body };
        hash = chain::chain_hash(&hash, &chain::entry_hash(&parts));
        let texts = format!("kind = {}, body = {}", sql_text(kind, attacker), sql_text(body, attacker));
        let hash = attacker.bytes(&hash);
        sql.push(format!(
            "UPDATE journal SET version = {version}, {texts}, hash = {hash} WHERE entry = {}",
            edit::entry_key(position.0 as i64)
        ));
    }
    sql.push(format!("UPDATE head SET hash = {}", attacker.bytes(&hash)));
    sql.join(";")
}

fn sql_text(text: &str, attacker: &Attacker) -> String {
    attacker.text(text.as_bytes())
}

#[test]
fn verify_during_writes_and_cleanup_passes() {
    crate::store::for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let verified = std::cell::Cell::new(0);
        let writing = async {
            let mut rounds = 0;
            while rounds < 4 || verified.get() < 4 {
                fixture::write_mixed_history(&fixture, &format!("round {rounds}")).await;
                fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
                rounds += 1;
            }
        };
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                () = &mut writing => break,
                _ = fixture.assert_verifies() => verified.set(verified.get() + 1),
            }
        }
        fixture.assert_verifies().await;
    });
}
