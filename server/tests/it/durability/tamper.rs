//! An attacker with write access to the database can drop its triggers and change anything. `verify` must
//! detect it, and name the first position that is not as written.

mod attacker;
mod edit;

use std::collections::{BTreeMap, BTreeSet};

use actbook::store::{JournalHead, journal, payloads};
use actbook_engine::chain;
use actbook_engine::id::{Position, StreamId, TenantId};

use super::book::{self, Book};
use super::dice::Dice;
use crate::counts::times;
use crate::store::{Kind, Scratch, TENANT, head, on};
use attacker::Attacker;

/// The tables as the product wrote them.
pub struct Written {
    pub entries: Vec<journal::Entry>,
    pub payloads: BTreeMap<u64, Vec<u8>>,
    pub salts: BTreeMap<StreamId, Vec<u8>>,
    pub erased: BTreeSet<StreamId>,
    pub head: JournalHead,
}

impl Written {
    async fn read(scratch: &Scratch) -> Self {
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

    pub fn last(&self) -> i64 {
        i64::try_from(self.head.position).expect("a small journal")
    }
}

/// Writes a journal with every kind of event, some payloads erased, and a plan deleted.
async fn write(url: &str) {
    let fixture = Book::open(url).await;
    book::mixed(&fixture, "early").await;
    fixture.service.delete_plan(&fixture.caller, "auto").await.unwrap();
    let cleaned = fixture.service.cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
    assert_eq!(cleaned.executions, 6);
    book::mixed(&fixture, "late").await;
    fixture.service.close().await;
}

async fn verify_finds(edits: usize, scratch: Scratch) {
    write(&scratch.url).await;
    let written = Written::read(&scratch).await;
    assert!(!written.erased.is_empty() && written.salts.len() > written.erased.len());
    let attacker = Attacker::open(&scratch).await;
    attacker.drop_all_constraints().await;
    let fixture = Book::open(&scratch.url).await;
    fixture.assert_whole().await;

    let mut rng = Dice::seeded("tamper");
    let mut kinds = BTreeMap::<&str, usize>::new();
    for number in 0..edits {
        let edit = edit::any(&mut rng, &written, &attacker);
        *kinds.entry(edit.kind).or_default() += 1;
        attacker.run(&edit.sql).await;
        let verified = fixture.service.verify().await.unwrap();
        let found = verified.bad.as_ref().map(|bad| bad.position);
        let context = format!("edit {number}, {}: {}\n{verified:?}", edit.kind, edit.sql);
        assert!(!verified.ok, "not detected: {context}");
        assert_eq!(found, Some(edit.first_bad), "at the wrong position: {context}");
        attacker.restore().await;
    }
    eprintln!("{edits} edits detected: {kinds:?}");
    assert!(edits < 500 || kinds.len() == edit::KINDS.len(), "some kind was never tried");
    fixture.assert_whole().await;
}

#[test]
fn any_single_edit_of_the_journal_is_found_at_its_position() {
    on(Kind::Sqlite, async |scratch| verify_finds(times("ACTBOOK_EDITS", 1_000), scratch).await);
    on(Kind::Postgres, async |scratch| verify_finds(times("ACTBOOK_EDITS", 1_000) / 16, scratch).await);
}

/// Hashes prove only that nothing changed since they were computed. An attacker who recomputes them all is
/// detected by entries that contradict each other.
#[test]
fn a_journal_that_was_chained_anew_is_found_by_what_it_says() {
    on(Kind::Sqlite, async |scratch| {
        write(&scratch.url).await;
        let written = Written::read(&scratch).await;
        let attacker = Attacker::open(&scratch).await;
        attacker.drop_all_constraints().await;
        let fixture = Book::open(&scratch.url).await;
        let mut rng = Dice::seeded("chained anew");
        for _ in 0..40 {
            let at = rng.below(written.entries.len());
            let field = rng.below(3);
            let mut entries = written.entries.clone();
            match field {
                0 => entries[at].version += 1,
                1 => entries[at].kind = "unheard_of.1".into(),
                _ => entries[at].body.push_str("garbage"),
            }
            attacker.run(&chained_anew(&entries, &attacker)).await;
            let bad = fixture.service.verify().await.unwrap().bad;
            let position = bad.map(|bad| bad.position);
            assert_eq!(position, Some(entries[at].position), "change {field} of entry {}", at + 1);
            attacker.restore().await;
        }
    });
}

fn chained_anew(entries: &[journal::Entry], attacker: &Attacker) -> String {
    let mut hash = chain::GENESIS;
    let mut sql = Vec::new();
    for entry in entries {
        let journal::Entry { position, stream, version, at, actor, kind, body, .. } = entry;
        let (position, at_ms) = (Position(*position), *at);
        let (stream, version) = (*stream, *version);
        let parts =
            chain::EntryParts { tenant: TenantId(1), position, stream, version, at_ms, actor, kind, body };
        hash = chain::chain_hash(&hash, &chain::entry_hash(&parts));
        let texts = format!("kind = {}, body = {}", text(kind, attacker), text(body, attacker));
        let hash = attacker.bytes(&hash);
        sql.push(format!(
            "UPDATE journal SET version = {version}, {texts}, hash = {hash} WHERE entry = {}",
            edit::key(position.0 as i64)
        ));
    }
    sql.push(format!("UPDATE head SET hash = {}", attacker.bytes(&hash)));
    sql.join(";")
}

fn text(text: &str, attacker: &Attacker) -> String {
    attacker.text(text.as_bytes())
}

#[test]
fn a_journal_that_is_written_and_cleaned_up_meanwhile_verifies() {
    crate::store::for_each_database(async |scratch| {
        let fixture = Book::open(&scratch.url).await;
        let writing = async {
            for round in 0..4 {
                book::mixed(&fixture, &format!("round {round}")).await;
                fixture.service.cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
            }
        };
        tokio::pin!(writing);
        let mut verified = 0;
        loop {
            tokio::select! {
                biased;
                () = &mut writing => break,
                _ = fixture.assert_whole() => verified += 1,
            }
        }
        assert!(verified > 3, "verified only {verified} times during the writes");
        fixture.assert_whole().await;
    });
}
