//! Leases in database time, and what they let a runner take up.

use actbook::store::{Db, executions, seats};

use super::lists::execution;
use super::{TENANT, for_each_database};

const MINUTE: i64 = 60_000;

#[test]
fn a_lease_lives_until_it_runs_out_or_is_released() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let now = db.now_ms().await.unwrap();
        let until = seats::take(db, "s1", "host", "boot", 42, MINUTE).await.unwrap();
        assert!((now + MINUTE..now + 2 * MINUTE).contains(&until), "{now} {until}");
        let seat = seats::by_id("s1").first(db).await.unwrap().unwrap();
        assert_eq!((seat.host.as_str(), seat.boot.as_str(), seat.process), ("host", "boot", 42));
        assert_eq!(seats::alive().all(db).await.unwrap(), std::slice::from_ref(&seat));
        assert_eq!(seats::expired().all(db).await.unwrap(), []);

        seats::renew(db, "s1", -1).await.unwrap().unwrap();
        assert_eq!(seats::alive().all(db).await.unwrap(), []);
        assert_eq!(seats::expired().all(db).await.unwrap().len(), 1);
        assert!(seats::renew(db, "s1", MINUTE).await.unwrap().unwrap() >= until);
        seats::take(db, "s1", "host", "boot", 43, MINUTE).await.unwrap();
        assert_eq!(seats::by_id("s1").first(db).await.unwrap().unwrap().process, 43);

        seats::release(db, "s1").await.unwrap();
        assert_eq!(seats::by_id("s1").first(db).await.unwrap(), None);
        assert_eq!(seats::renew(db, "s1", MINUTE).await.unwrap(), None);
    });
}

async fn claimable(db: &Db) -> Vec<u64> {
    let found = executions::claimable(TENANT, "here", 10).all(db).await.unwrap();
    found.into_iter().map(|execution| execution.id).collect()
}

#[test]
fn what_nobody_living_drives_can_be_claimed_here_when_its_time_has_come() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let now = db.now_ms().await.unwrap();
        let row = |id, place: &str, seat: Option<&str>, look_again_at| executions::Execution {
            place: place.into(),
            seat: seat.map(str::to_owned),
            look_again_at,
            ..execution(id, &format!("e{id}"), "running")
        };
        let rows = [
            row(1, "here", None, Some(now)),
            row(2, "elsewhere", None, Some(now)),
            row(3, "here", None, Some(now + 60 * MINUTE)),
            row(4, "here", None, None),
            row(5, "here", Some("alive"), Some(now - 5)),
            row(6, "here", Some("expired"), Some(now - 6)),
            row(7, "here", Some("gone"), Some(now - 7)),
        ];
        db.transact(rows.iter().map(|row| executions::insert(TENANT, row)).collect()).await.unwrap();
        seats::take(db, "alive", "h", "b", 1, MINUTE).await.unwrap();
        seats::take(db, "expired", "h", "b", 1, -1).await.unwrap();
        assert_eq!(claimable(db).await, [7, 6, 1], "longest due first");
        seats::release(db, "alive").await.unwrap();
        assert_eq!(claimable(db).await, [7, 6, 5, 1]);
        assert_eq!(executions::of_seat(TENANT, "gone").all(db).await.unwrap(), [rows[6].clone()]);
    });
}
