//! The lease of this process's seat: for how long nobody else may take its executions over, and since when that
//! has been so without a gap.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::seat::Seat;
use crate::moment::Moment;
use crate::store::{self, Db, seats};
use crate::tools;

/// A driver that cannot reach the database for this long has lost its seat.
pub const LEASE_MS: i64 = 6_000;
pub const LEASE: Duration = Duration::from_millis(LEASE_MS as u64);
const RENEWED_EVERY: Duration = Duration::from_millis(1_500);
/// Nothing is sent in a lease's last moments: a call may have to connect first.
const MARGIN: Duration = tools::CONNECT_LIMIT.saturating_add(Duration::from_millis(500));

#[derive(Clone, Copy, Debug)]
pub struct Lease {
    since: Moment,
    until: Moment,
    /// The same by the database's clock, which others go by.
    until_ms: i64,
}

impl Lease {
    /// Counted from before the question, so that ours never outlasts the database's.
    pub async fn take(db: &Db, seat: &Seat) -> Result<Self, store::Error> {
        let asked = Moment::now();
        let until_ms = ask(db, &Names::of(seat)).await?;
        Ok(Self { since: asked, until: asked + LEASE, until_ms })
    }

    /// One that had run out before, by either clock, may have been of no use in between: others may have acted.
    fn renewed(self, asked: Moment, until_ms: i64) -> Self {
        let in_time = !self.has_run_out() && until_ms - LEASE_MS < self.until_ms;
        let since = if in_time { self.since } else { Moment::now() };
        Self { since, until: asked + LEASE, until_ms }
    }

    /// Who leaves sends nothing more, whatever still waits for its turn.
    fn end(&mut self) {
        self.until = self.since;
    }

    fn has_run_out(&self) -> bool {
        self.until <= Moment::now()
    }

    /// There is time enough to send something.
    pub fn holds(&self) -> bool {
        self.until > Moment::now() + MARGIN
    }

    /// It holds, and has done so ever since then.
    pub fn has_held_since(&self, then: Moment) -> bool {
        self.holds() && self.since <= then
    }

    /// Somebody else may have acted since then, and nothing that comes can change that.
    pub fn has_lapsed_since(&self, then: Moment) -> bool {
        self.since > then || self.has_run_out()
    }
}

/// What the table of seats says of this one.
pub struct Names {
    seat: String,
    host: String,
    boot: String,
}

impl Names {
    pub fn of(seat: &Seat) -> Self {
        Self { seat: seat.id().to_owned(), host: seat.host().to_owned(), boot: seat.boot().to_owned() }
    }
}

async fn ask(db: &Db, Names { seat, host, boot }: &Names) -> Result<i64, store::Error> {
    seats::take(db, seat, host, boot, u64::from(std::process::id()), LEASE_MS).await
}

/// Until somebody says the word.
pub async fn renew(db: Db, names: Names, renewed: watch::Sender<Lease>, mut dead: watch::Receiver<()>) {
    let (mut pause, mut said) = (RENEWED_EVERY, String::new());
    while tokio::time::timeout(pause, dead.changed()).await.is_err() {
        let (begun, asked) = (Instant::now(), Moment::now());
        match ask(&db, &names).await {
            Ok(until_ms) => {
                said.clear();
                renewed.send_modify(|lease| *lease = lease.renewed(asked, until_ms));
            }
            Err(error) => {
                let error = error.to_string();
                // The same is said once.
                if error != said {
                    tracing::warn!("the seat's lease could not be renewed: {error}");
                }
                said = error;
            }
        }
        pause = RENEWED_EVERY.saturating_sub(begun.elapsed());
    }
    renewed.send_modify(Lease::end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ran_out_before_its_renewal_says_nothing_of_the_time_before() {
        let (then, now_ms) = (Moment::now(), LEASE_MS);
        let renewed = |lease: Lease| lease.renewed(Moment::now(), now_ms + LEASE_MS);
        let in_time = Lease { since: then, until: then + LEASE, until_ms: now_ms + 1 };
        assert!(renewed(in_time).has_held_since(then));
        let by_our_clock = Lease { until: then, ..in_time };
        let by_the_databases = Lease { until_ms: now_ms, ..in_time };
        for too_late in [by_our_clock, by_the_databases] {
            assert!(renewed(too_late).holds());
            assert!(renewed(too_late).has_lapsed_since(then));
            assert!(!renewed(too_late).has_held_since(then));
        }
    }

    #[tokio::test]
    async fn who_leaves_has_no_lease_left() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("book.db").display());
        let (db, seat) =
            (Db::open(&url, store::Options::default()).await.unwrap(), Seat::take(folder.path()).unwrap());
        let (renewed, lease) = watch::channel(Lease::take(&db, &seat).await.unwrap());
        assert!(lease.borrow().holds());
        let (alive, dead) = watch::channel(());
        let renewing = tokio::spawn(renew(db, Names::of(&seat), renewed, dead));
        alive.send_replace(());
        renewing.await.unwrap();
        assert!(!lease.borrow().holds());
    }
}
