//! Appends are atomic, in order, and never overwrite another process's entries.

use std::ops::ControlFlow;

use actbook_engine::id::StreamId;

use actbook::store::{Appended, Appender, Entry, Error, Statement, journal, payloads};

use crate::postgres;

use super::{
    Kind, TENANT, append, append_one, batch, bodies, entry, for_each_database, head, off_runtime, open,
    run_on,
};

#[test]
fn appended_entries_and_payloads_read_back_equal() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut written = vec![entry(1, "ünë\n\"{}"), entry(2, "two"), entry(3, "three")];
        written[1].payload = None;
        written[2].payload = Some(vec![]);
        let salt = payloads::insert_salt(TENANT, StreamId(1), b"salt");
        let appended =
            append(&mut db.appender().unwrap(), &batch(head(db), written.clone(), vec![salt])).unwrap();
        assert_eq!(appended, Appended::Done);

        let read = journal::by_stream(db.dialect(), TENANT, StreamId(1), 0).all_blocking(db).unwrap();
        for (read, written) in read.iter().zip(&written) {
            let payload = payloads::by_position(TENANT, read.position).first(db).await.unwrap();
            let whole = journal::Entry { payload: payload.map(|payload| payload.body), ..read.clone() };
            assert_eq!(&whole, written);
        }
        assert_eq!(read.len(), 3);
        assert_eq!(
            journal::by_stream(db.dialect(), TENANT, StreamId(1), 2).all(db).await.unwrap(),
            read[2..]
        );
        assert_eq!(journal::between(TENANT, 1, 2).all(db).await.unwrap(), read[1..2]);
        assert_eq!(journal::by_position(TENANT, 3).first(db).await.unwrap().as_ref(), read.last());
        assert_eq!(payloads::salt(TENANT, StreamId(1)).first(db).await.unwrap(), Some(b"salt".to_vec()));
        let found = payloads::by_positions(db, TENANT, &[3, 2, 1]).await.unwrap();
        assert_eq!(found.iter().map(|payload| payload.position).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(head(db), journal::JournalHead { position: 3, hash: written[2].hash });
    });
}

#[test]
fn stream_read_covers_all_its_pages() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let written: Vec<Entry> = (1..=600).map(two_stream_entry).collect();
        append(&mut db.appender().unwrap(), &batch(head(db), written, vec![])).unwrap();
        let positions = |entries: &[Entry]| entries.iter().map(|entry| entry.position).collect::<Vec<_>>();
        let long: Vec<u64> = (2..=600).filter(|position| !SPARSE_POSITIONS.contains(position)).collect();

        let read = journal::by_stream(db.dialect(), TENANT, StreamId(1), 0).all(db).await.unwrap();
        assert_eq!(positions(&read), SPARSE_POSITIONS);
        assert_eq!(
            journal::by_stream(db.dialect(), TENANT, StreamId(1), 256).all(db).await.unwrap(),
            read[4..]
        );
        let kept = payloads::by_stream(db.dialect(), TENANT, StreamId(1)).all(db).await.unwrap();
        assert_eq!(kept.iter().map(|payload| payload.position).collect::<Vec<_>>(), SPARSE_POSITIONS);
        let many =
            journal::by_streams_blocking(db, TENANT, &[StreamId(2), StreamId(7), StreamId(1)]).unwrap();
        assert_eq!(
            many.iter().map(|found| positions(found)).collect::<Vec<_>>(),
            [long, vec![], SPARSE_POSITIONS.into()]
        );

        db.transact(vec![payloads::erase_of_stream(db.dialect(), TENANT, StreamId(1))]).await.unwrap();
        assert_eq!(
            payloads::between(TENANT, 0, 600).all(db).await.unwrap().len(),
            600 - SPARSE_POSITIONS.len()
        );
    });
}

/// The positions of stream 1's entries, among those of stream 2: at page edges, with pages without any.
const SPARSE_POSITIONS: [u64; 7] = [1, 127, 128, 255, 513, 514, 600];

fn two_stream_entry(position: u64) -> Entry {
    let stream = if SPARSE_POSITIONS.contains(&position) { 1 } else { 2 };
    let of_stream = |other: &u64| SPARSE_POSITIONS.contains(other) == SPARSE_POSITIONS.contains(&position);
    let before = (1..position).rev().find(of_stream);
    let version = 1 + (1..position).filter(of_stream).count() as u64;
    let turns_page = journal::page_of(before.unwrap_or(stream)) != journal::page_of(position);
    Entry { stream: StreamId(stream), version, is_first_on_page: turns_page, ..entry(position, "e") }
}

#[test]
fn moved_head_rejects_the_whole_batch() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut appender = db.appender().unwrap();
        let stale = head(db);
        assert_eq!(append_one(db, &mut appender, "first"), Appended::Done);
        let salt = payloads::insert_salt(TENANT, StreamId(1), b"salt");
        for others in [vec![], vec![salt]] {
            let late = batch(stale, vec![entry(1, "late"), entry(2, "later")], others);
            assert_eq!(append(&mut appender, &late).unwrap(), Appended::HeadMoved);
        }
        assert_eq!(bodies(db).await, ["first"]);
        assert_eq!(payloads::salt(TENANT, StreamId(1)).first(db).await.unwrap(), None);
        assert_eq!(append_one(db, &mut appender, "second"), Appended::Done, "the appender goes on");
    });
}

#[test]
fn head_with_another_hash_counts_as_moved() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut appender = db.appender().unwrap();
        assert_eq!(append_one(db, &mut appender, "first"), Appended::Done);
        let other = journal::JournalHead { position: 1, hash: entry(1, "other").hash };
        let forked = batch(other, vec![entry(2, "fork")], vec![]);
        assert_eq!(append(&mut appender, &forked).unwrap(), Appended::HeadMoved);
        assert_eq!(bodies(db).await, ["first"]);
    });
}

#[test]
fn failing_row_rolls_the_whole_batch_back() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut appender = db.appender().unwrap();
        let salt = || payloads::insert_salt(TENANT, StreamId(1), b"salt");
        let twice = batch(head(db), vec![entry(1, "one")], vec![salt(), salt()]);
        assert!(matches!(append(&mut appender, &twice), Err(Error::Constraint(_))));
        // An orphaned payload row conflicts with the second entry's payload.
        let stray = "INSERT INTO payloads (entry, body) VALUES ($1 * 1099511627776 + 2, $2)";
        db.transact(vec![Statement::new(stray, vec![TENANT.into(), b"stray".as_slice().into()])])
            .await
            .unwrap();
        let owner = Entry { payload: Some(b"two".to_vec()), ..entry(2, "two") };
        let refused = batch(head(db), vec![entry(1, "one"), owner], vec![]);
        assert!(matches!(append(&mut appender, &refused), Err(Error::Constraint(_))));
        db.transact(vec![Statement::new("DELETE FROM payloads", vec![])]).await.unwrap();

        assert_eq!(head(db).position, 0);
        assert_eq!(bodies(db).await, [""; 0]);
        assert_eq!(payloads::between(TENANT, 0, u64::MAX).all(db).await.unwrap(), []);
        assert_eq!(payloads::salt(TENANT, StreamId(1)).first(db).await.unwrap(), None);
        assert_eq!(append_one(db, &mut appender, "one"), Appended::Done, "the appender goes on");
    });
}

#[test]
fn other_statements_commit_or_roll_back_with_their_entries() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut appender = db.appender().unwrap();
        let salts = |streams: std::ops::Range<u64>| {
            streams.map(|stream| payloads::insert_salt(TENANT, StreamId(stream), b"salt")).collect::<Vec<_>>()
        };
        let mut twice = salts(1..201);
        twice.push(payloads::insert_salt(TENANT, StreamId(7), b"salt"));
        let refused = append(&mut appender, &batch(head(db), vec![entry(1, "one")], twice));
        assert!(matches!(refused, Err(Error::Constraint(_))), "{refused:?}");
        // PostgreSQL's driver refuses this one before it is sent; SQLite's columns refuse it.
        let mut misfit = salts(1..201);
        misfit[100].params[2] = "text".into();
        append(&mut appender, &batch(head(db), vec![entry(1, "one")], misfit)).unwrap_err();
        assert_eq!(payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap(), []);
        assert_eq!(bodies(db).await, [""; 0]);
        let whole = batch(head(db), vec![entry(1, "one")], salts(1..201));
        assert_eq!(append(&mut appender, &whole), Ok(Appended::Done));
        assert_eq!(payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap().len(), 200);
    });
}

#[test]
fn head_lock_holder_appends_before_others() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let (mut holder, mut other) = (db.appender().unwrap(), db.appender().unwrap());
        let old = head(db);
        assert_eq!(lock_head(&mut holder), old);
        std::thread::scope(|threads| {
            let late = batch(old, vec![entry(1, "late")], vec![]);
            let waiting = threads.spawn(move || other.append(&late).unwrap());
            let salt = payloads::insert_salt(TENANT, StreamId(1), b"salt");
            let first = batch(old, vec![entry(1, "first")], vec![salt]);
            assert_eq!(append(&mut holder, &first), Ok(Appended::Done));
            assert_eq!(waiting.join().unwrap(), Appended::HeadMoved);
        });
        assert_eq!(bodies(db).await, ["first"]);
        assert_eq!(lock_head(&mut holder).position, 1);
        off_runtime(|| holder.unlock_head()).unwrap();
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "second"), Appended::Done);
        assert_eq!(append_one(db, &mut holder, "third"), Appended::Done);
    });
}

fn lock_head(appender: &mut Appender) -> journal::JournalHead {
    off_runtime(|| appender.lock_head(TENANT)).unwrap()
}

#[test]
fn dropped_head_lock_does_not_block_others() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut holder = db.appender().unwrap();
        lock_head(&mut holder);
        drop(holder);
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "first"), Appended::Done);
    });
}

#[test]
fn batch_stays_atomic_when_the_head_lock_is_lost() {
    run_on(Kind::Postgres, async |scratch| {
        let db = &scratch.db;
        let mut holder = db.appender().unwrap();
        let salts = || {
            vec![
                payloads::insert_salt(TENANT, StreamId(1), b"a"),
                payloads::insert_salt(TENANT, StreamId(1), b"b"),
            ]
        };
        let old = lock_head(&mut holder);
        postgres::terminate_connections(&scratch.url).await;
        let refused = append(&mut holder, &batch(old, vec![entry(1, "one")], salts()));
        assert!(matches!(refused, Err(Error::Constraint(_))), "{refused:?}");
        assert_eq!(bodies(db).await, [""; 0]);
        assert!(payloads::salt(TENANT, StreamId(1)).all(db).await.unwrap().is_empty());

        let old = lock_head(&mut holder);
        postgres::terminate_connections(&scratch.url).await;
        assert_eq!(append(&mut holder, &batch(old, vec![entry(1, "one")], vec![])), Ok(Appended::Done));
        assert_eq!(bodies(db).await, ["one"]);
    });
}

#[test]
fn positions_are_gapless_under_eight_writers() {
    const EACH: usize = 25;
    for_each_database(async |scratch| {
        let db = &scratch.db;
        std::thread::scope(|threads| {
            for writer in 0..8 {
                threads.spawn(move || {
                    let mut appender = db.appender().unwrap();
                    for number in 0..EACH {
                        let body = format!("{writer}/{number}");
                        while append_one(db, &mut appender, &body) == Appended::HeadMoved {}
                    }
                });
            }
        });
        let entries = journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap();
        let positions: Vec<u64> = entries.iter().map(|entry| entry.position).collect();
        assert_eq!(positions, (1..=8 * EACH as u64).collect::<Vec<_>>());
        let mut bodies: Vec<_> = entries.into_iter().map(|entry| entry.body).collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 8 * EACH, "every acknowledged entry is there once");
    });
}

#[test]
fn journal_rejects_changes_to_entries() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        append_one(db, &mut db.appender().unwrap(), "first");
        let mut changes = vec!["UPDATE journal SET body = 'other'", "DELETE FROM journal"];
        match scratch.kind {
            Kind::Sqlite => changes.push(
                "INSERT OR REPLACE INTO journal SELECT entry, tenant, stream, version, at, actor, kind, \
                 'other', hash FROM journal",
            ),
            Kind::Postgres => changes.push("TRUNCATE journal"),
        }
        for change in changes {
            let refused = db.transact(vec![Statement::new(change, vec![])]).await.unwrap_err();
            assert!(refused.to_string().contains("append-only"), "{change}: {refused}");
        }
        assert_eq!(bodies(db).await, ["first"]);
    });
}

#[test]
#[should_panic(expected = "without a gap")]
fn batch_with_a_position_gap_panics() {
    run_on(Kind::Sqlite, async |scratch| {
        let db = &scratch.db;
        let gap = batch(head(db), vec![entry(2, "two")], vec![]);
        drop(append(&mut db.appender().unwrap(), &gap));
    });
}

#[test]
fn for_each_visits_rows_until_break() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let entries = (1..=1_000).map(|position| entry(position, "x")).collect();
        append(&mut db.appender().unwrap(), &batch(head(db), entries, vec![])).unwrap();
        let mut visited = 0;
        let all = |_| {
            visited += 1;
            ControlFlow::<()>::Continue(())
        };
        assert_eq!(
            journal::between(TENANT, 0, u64::MAX).for_each(db, all).await.unwrap(),
            ControlFlow::Continue(())
        );
        assert_eq!(visited, 1_000);
        let until = |entry: journal::Entry| {
            if entry.position == 300 { ControlFlow::Break(entry.position) } else { ControlFlow::Continue(()) }
        };
        let stopped = journal::between(TENANT, 0, u64::MAX).for_each(db, until).await.unwrap();
        assert_eq!(stopped, ControlFlow::Break(300));
        let wrong =
            db.for_each_row("SELECT nothing FROM journal", vec![], |_| ControlFlow::<()>::Continue(())).await;
        assert!(matches!(wrong, Err(Error::Failed(_))), "{wrong:?}");
    });
}

#[test]
fn backup_during_writes_is_consistent() {
    run_on(Kind::Sqlite, async |scratch| {
        let db = &scratch.db;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("copy.db");
        let mut appender = db.appender().unwrap();
        for number in 0..200 {
            append_one(db, &mut appender, &number.to_string());
        }
        let writing = db.clone();
        let writer = std::thread::spawn(move || {
            for _ in 0..200 {
                append_one(&writing, &mut appender, "while");
            }
        });
        db.backup(&file).await.unwrap();
        writer.join().unwrap();
        let copy = open(file.to_str().unwrap()).await;
        let count = bodies(&copy).await.len() as u64;
        assert_eq!(head(&copy).position, count, "the copy's head is its last entry");
        assert!(count >= 200);
        let again = db.backup(&file).await.unwrap_err();
        assert!(again.to_string().contains("exists already"), "{again}");
    });
    run_on(Kind::Postgres, async |scratch| {
        let refused = scratch.db.backup(std::path::Path::new("copy.db")).await.unwrap_err();
        assert!(refused.to_string().contains("PostgreSQL"), "{refused}");
    });
}
