//! Appends are atomic, in order, and never overwrite another process's entries.

use std::ops::ControlFlow;

use actbook_engine::id::StreamId;

use actbook::store::{Appended, Appender, Entry, Error, Statement, journal, payloads};

use crate::postgres;

use super::{
    Kind, TENANT, apart, append, append_one, batch, bodies, entry, for_each_database, head, on, open,
};

#[test]
fn entries_and_payloads_come_back_as_they_were_appended() {
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
fn a_stream_is_read_from_every_page_it_is_on() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let written: Vec<Entry> = (1..=600).map(of_two_streams).collect();
        append(&mut db.appender().unwrap(), &batch(head(db), written, vec![])).unwrap();
        let positions = |entries: &[Entry]| entries.iter().map(|entry| entry.position).collect::<Vec<_>>();
        let long: Vec<u64> = (2..=600).filter(|position| !SHORT.contains(position)).collect();

        let read = journal::by_stream(db.dialect(), TENANT, StreamId(1), 0).all(db).await.unwrap();
        assert_eq!(positions(&read), SHORT);
        assert_eq!(
            journal::by_stream(db.dialect(), TENANT, StreamId(1), 256).all(db).await.unwrap(),
            read[4..]
        );
        let kept = payloads::by_stream(db.dialect(), TENANT, StreamId(1)).all(db).await.unwrap();
        assert_eq!(kept.iter().map(|payload| payload.position).collect::<Vec<_>>(), SHORT);
        let many =
            journal::by_streams_blocking(db, TENANT, &[StreamId(2), StreamId(7), StreamId(1)]).unwrap();
        assert_eq!(
            many.iter().map(|found| positions(found)).collect::<Vec<_>>(),
            [long, vec![], SHORT.into()]
        );

        db.transact(vec![payloads::erase_of_stream(db.dialect(), TENANT, StreamId(1))]).await.unwrap();
        assert_eq!(payloads::between(TENANT, 0, 600).all(db).await.unwrap().len(), 600 - SHORT.len());
    });
}

/// The positions of stream 1's entries, among those of stream 2: at page edges, with pages without any.
const SHORT: [u64; 7] = [1, 127, 128, 255, 513, 514, 600];

fn of_two_streams(position: u64) -> Entry {
    let stream = if SHORT.contains(&position) { 1 } else { 2 };
    let of_stream = |other: &u64| SHORT.contains(other) == SHORT.contains(&position);
    let before = (1..position).rev().find(of_stream);
    let version = 1 + (1..position).filter(of_stream).count() as u64;
    let turns_page = journal::page_of(before.unwrap_or(stream)) != journal::page_of(position);
    Entry { stream: StreamId(stream), version, is_first_on_page: turns_page, ..entry(position, "e") }
}

#[test]
fn a_moved_head_refuses_the_whole_batch() {
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
fn the_same_position_with_another_hash_is_a_moved_head() {
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
fn one_failing_row_takes_the_whole_batch_back() {
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
fn many_other_rows_commit_or_vanish_with_their_entries() {
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
fn who_holds_the_head_appends_before_everybody_else() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let (mut holder, mut other) = (db.appender().unwrap(), db.appender().unwrap());
        let old = head(db);
        assert_eq!(hold(&mut holder), old);
        std::thread::scope(|threads| {
            let late = batch(old, vec![entry(1, "late")], vec![]);
            let waiting = threads.spawn(move || other.append(&late).unwrap());
            let salt = payloads::insert_salt(TENANT, StreamId(1), b"salt");
            let first = batch(old, vec![entry(1, "first")], vec![salt]);
            assert_eq!(append(&mut holder, &first), Ok(Appended::Done));
            assert_eq!(waiting.join().unwrap(), Appended::HeadMoved);
        });
        assert_eq!(bodies(db).await, ["first"]);
        assert_eq!(hold(&mut holder).position, 1);
        apart(|| holder.unlock_head()).unwrap();
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "second"), Appended::Done);
        assert_eq!(append_one(db, &mut holder, "third"), Appended::Done);
    });
}

fn hold(appender: &mut Appender) -> journal::JournalHead {
    apart(|| appender.lock_head(TENANT)).unwrap()
}

#[test]
fn who_held_and_fell_silent_does_not_keep_others_out() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut holder = db.appender().unwrap();
        hold(&mut holder);
        drop(holder);
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "first"), Appended::Done);
    });
}

#[test]
fn a_lost_hold_does_not_tear_the_batch_apart() {
    on(Kind::Postgres, async |scratch| {
        let db = &scratch.db;
        let mut holder = db.appender().unwrap();
        let salts = || {
            vec![
                payloads::insert_salt(TENANT, StreamId(1), b"a"),
                payloads::insert_salt(TENANT, StreamId(1), b"b"),
            ]
        };
        let old = hold(&mut holder);
        postgres::end_connections(&scratch.url).await;
        let refused = append(&mut holder, &batch(old, vec![entry(1, "one")], salts()));
        assert!(matches!(refused, Err(Error::Constraint(_))), "{refused:?}");
        assert_eq!(bodies(db).await, [""; 0]);
        assert!(payloads::salt(TENANT, StreamId(1)).all(db).await.unwrap().is_empty());

        let old = hold(&mut holder);
        postgres::end_connections(&scratch.url).await;
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
fn the_journal_refuses_to_be_changed() {
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
fn a_batch_with_a_gap_never_reaches_the_database() {
    on(Kind::Sqlite, async |scratch| {
        let db = &scratch.db;
        let gap = batch(head(db), vec![entry(2, "two")], vec![]);
        drop(append(&mut db.appender().unwrap(), &gap));
    });
}

#[test]
fn a_long_read_visits_row_by_row_until_told_to_stop() {
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
fn a_copy_made_while_others_write_is_whole() {
    on(Kind::Sqlite, async |scratch| {
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
    on(Kind::Postgres, async |scratch| {
        let refused = scratch.db.backup(std::path::Path::new("copy.db")).await.unwrap_err();
        assert!(refused.to_string().contains("PostgreSQL"), "{refused}");
    });
}
