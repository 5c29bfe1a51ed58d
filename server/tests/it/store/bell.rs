//! The bell: another process's append wakes whoever listens.

use std::time::Duration;

use actbook::notify::Notifier;
use actbook::store::Appended;

use super::{TENANT, append_one, for_each_database, open};
use crate::postgres;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn another_ones_append_is_heard_while_listening() {
    for_each_database(async |scratch| {
        let other = open(&scratch.url).await;
        let mut appender = other.appender().unwrap();
        assert_eq!(append_one(&other, &mut appender, "before"), Appended::Done);
        let bell = Notifier::new(scratch.db.clone(), TENANT);
        let mut heard = bell.subscribe();
        let first = bell.listen_remote().unwrap();
        let second = bell.clone().listen_remote().unwrap();
        let woken = tokio::time::timeout(PATIENCE, heard.wait_for(|position| *position == 1)).await;
        assert!(woken.is_ok(), "what was there before is heard of too");
        drop(woken);
        drop(first);
        append_one(&other, &mut appender, "while");
        let woken = tokio::time::timeout(PATIENCE, heard.wait_for(|position| *position == 2)).await;
        assert!(woken.is_ok(), "the second guard still listens");
        drop(woken);
        drop(second);
        append_one(&other, &mut appender, "after");
        let _again = bell.listen_remote().unwrap();
        let woken = tokio::time::timeout(PATIENCE, heard.wait_for(|position| *position == 3)).await;
        assert!(woken.is_ok(), "what was missed is made up for");
    });
}

#[test]
fn a_ring_wakes_once_for_each_new_position() {
    for_each_database(async |scratch| {
        let bell = Notifier::new(scratch.db.clone(), TENANT);
        let mut heard = bell.subscribe();
        bell.notify(3);
        assert!(heard.has_changed().unwrap());
        assert_eq!(*heard.borrow_and_update(), 3);
        bell.notify(3);
        bell.notify(2);
        assert!(!heard.has_changed().unwrap());
        assert_eq!(*heard.borrow(), 3);
    });
}

#[test]
fn the_listener_comes_back_after_a_lost_connection() {
    super::on(super::Kind::Postgres, async |scratch| {
        let bell = Notifier::new(scratch.db.clone(), TENANT);
        let mut heard = bell.subscribe();
        let _listening = bell.listen_remote().unwrap();
        let mut appender = scratch.db.appender().unwrap();
        append_one(&scratch.db, &mut appender, "one");
        tokio::time::timeout(PATIENCE, heard.wait_for(|position| *position == 1)).await.unwrap().unwrap();
        postgres::end_connections(&scratch.url).await;
        assert_eq!(append_one(&scratch.db, &mut appender, "two"), Appended::Done);
        tokio::time::timeout(PATIENCE, heard.wait_for(|position| *position == 2)).await.unwrap().unwrap();
    });
}
