//! The notifier: an append by another process wakes subscribers.

use std::time::Duration;

use actbook::notify::Notifier;
use actbook::store::Appended;

use super::{TENANT, append_one, for_each_database, open};
use crate::postgres;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn remote_append_notifies_while_listening() {
    for_each_database(async |scratch| {
        let other = open(&scratch.url).await;
        let mut appender = other.appender().unwrap();
        assert_eq!(append_one(&other, &mut appender, "before"), Appended::Done);
        let notifier = Notifier::new(scratch.db.clone(), TENANT);
        let mut positions = notifier.subscribe();
        let first = notifier.listen_remote().unwrap();
        let second = notifier.clone().listen_remote().unwrap();
        let woken = tokio::time::timeout(TIMEOUT, positions.wait_for(|position| *position == 1)).await;
        assert!(woken.is_ok(), "entries from before listening are notified too");
        drop(woken);
        drop(first);
        append_one(&other, &mut appender, "while");
        let woken = tokio::time::timeout(TIMEOUT, positions.wait_for(|position| *position == 2)).await;
        assert!(woken.is_ok(), "the second guard still listens");
        drop(woken);
        drop(second);
        append_one(&other, &mut appender, "after");
        let _again = notifier.listen_remote().unwrap();
        let woken = tokio::time::timeout(TIMEOUT, positions.wait_for(|position| *position == 3)).await;
        assert!(woken.is_ok(), "missed entries are notified after listening again");
    });
}

#[test]
fn notify_wakes_once_per_new_position() {
    for_each_database(async |scratch| {
        let notifier = Notifier::new(scratch.db.clone(), TENANT);
        let mut positions = notifier.subscribe();
        notifier.notify(3);
        assert!(positions.has_changed().unwrap());
        assert_eq!(*positions.borrow_and_update(), 3);
        notifier.notify(3);
        notifier.notify(2);
        assert!(!positions.has_changed().unwrap());
        assert_eq!(*positions.borrow(), 3);
    });
}

#[test]
fn listener_reconnects_after_a_lost_connection() {
    super::run_on(super::Kind::Postgres, async |scratch| {
        let notifier = Notifier::new(scratch.db.clone(), TENANT);
        let mut positions = notifier.subscribe();
        let _listening = notifier.listen_remote().unwrap();
        let mut appender = scratch.db.appender().unwrap();
        append_one(&scratch.db, &mut appender, "one");
        tokio::time::timeout(TIMEOUT, positions.wait_for(|position| *position == 1)).await.unwrap().unwrap();
        postgres::terminate_connections(&scratch.url).await;
        assert_eq!(append_one(&scratch.db, &mut appender, "two"), Appended::Done);
        tokio::time::timeout(TIMEOUT, positions.wait_for(|position| *position == 2)).await.unwrap().unwrap();
    });
}
