//! Node leases in database time, and the executions that are due for a driver.

use actbook::store::{executions, nodes};

use super::projections::execution_row;
use super::{TENANT, for_each_database};

const MINUTE: i64 = 60_000;

#[test]
fn lease_is_live_until_it_expires_or_is_released() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let now = db.now_ms().await.unwrap();
        let until = nodes::acquire_lease(db, "s1", "host", "boot", 42, MINUTE, None).await.unwrap();
        assert!((now + MINUTE..now + 2 * MINUTE).contains(&until), "{now} {until}");
        let node = nodes::by_id("s1").first(db).await.unwrap().unwrap();
        assert_eq!((node.host.as_str(), node.boot_id.as_str(), node.pid), ("host", "boot", 42));
        assert_eq!(nodes::list_live().all(db).await.unwrap(), std::slice::from_ref(&node));
        assert_eq!(nodes::list_expired().all(db).await.unwrap(), []);

        nodes::acquire_lease(db, "s1", "host", "boot", 42, -1, None).await.unwrap();
        assert_eq!(nodes::list_live().all(db).await.unwrap(), []);
        assert_eq!(nodes::list_expired().all(db).await.unwrap().len(), 1);
        assert!(nodes::acquire_lease(db, "s1", "host", "boot", 43, MINUTE, None).await.unwrap() >= until);
        assert_eq!(nodes::by_id("s1").first(db).await.unwrap().unwrap().pid, 43);

        nodes::release_lease(db, "s1").await.unwrap();
        assert_eq!(nodes::by_id("s1").first(db).await.unwrap(), None);
    });
}

#[test]
fn lease_from_before_a_clock_set_back_is_cut_to_one_lease() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        nodes::acquire_lease(db, "ahead", "host", "boot", 42, 24 * 60 * MINUTE, None).await.unwrap();
        nodes::acquire_lease(db, "gone", "host", "boot", 43, -MINUTE, None).await.unwrap();
        let fair = nodes::acquire_lease(db, "fair", "host", "boot", 44, MINUTE / 2, None).await.unwrap();
        nodes::sweep_leases(db, MINUTE).await.unwrap();
        let until =
            async |node: &str| nodes::by_id(node).first(db).await.unwrap().map(|row| row.lease_ends_at);
        assert!(until("ahead").await.unwrap() <= db.now_ms().await.unwrap() + MINUTE);
        assert_eq!((until("gone").await, until("fair").await), (None, Some(fair)));
    });
}

#[test]
fn due_executions_are_listed_longest_due_first() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let now = db.now_ms().await.unwrap();
        let row = |id, wake_at| executions::ExecutionRow {
            wake_at,
            ..execution_row(id, &format!("e{id}"), "running")
        };
        let rows = [row(1, Some(now)), row(2, Some(now + 60 * MINUTE)), row(3, None), row(4, Some(now - 7))];
        db.transact(rows.iter().map(|row| executions::insert(TENANT, row)).collect()).await.unwrap();
        let left = executions::due_by(TENANT, now, 10).all(db).await.unwrap();
        assert_eq!(left, [rows[3].clone(), rows[0].clone()], "longest due first");
    });
}
