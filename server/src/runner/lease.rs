//! The lease of this process's seat: for how long nobody else may take its executions over, and since when that
//! has been so without a gap.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::seat::Seat;
use crate::moment::Moment;
use crate::store::{self, Db, seats};

/// A driver that cannot reach the database for this long has lost its seat.
const LEASE_MS: i64 = 6_000;
const LEASE: Duration = Duration::from_millis(LEASE_MS as u64);
/// Nothing is sent in a lease's last moments.
const MARGIN: Duration = Duration::from_millis(500);

/// By this process's own clock.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    since: Moment,
    until: Moment,
}

impl Lease {
    /// Counted from before the question, so that ours never outlasts the database's.
    pub async fn take(db: &Db, seat: &Seat) -> Result<Self, store::Error> {
        let asked = Moment::now();
        ask(db, &Names::of(seat)).await?;
        Ok(Self { since: asked, until: asked + LEASE })
    }

    /// One that had run out before the answer came may have been of no use in between: others may have acted.
    fn renewed(self, asked: Moment) -> Self {
        let now = Moment::now();
        let since = if now + MARGIN < self.until { self.since } else { now };
        Self { since, until: asked + LEASE }
    }

    /// Who leaves sends nothing more, whatever still waits for its turn.
    fn end(&mut self) {
        self.until = self.since;
    }

    pub fn holds(&self) -> bool {
        self.until > Moment::now() + MARGIN
    }

    /// It holds, and has done so ever since then.
    pub fn has_held_since(&self, then: Moment) -> bool {
        self.holds() && self.since <= then
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
    let mut pause = LEASE / 3;
    while tokio::time::timeout(pause, dead.changed()).await.is_err() {
        let (begun, asked) = (Instant::now(), Moment::now());
        match ask(&db, &names).await {
            Ok(_) => renewed.send_modify(|lease| *lease = lease.renewed(asked)),
            Err(error) => tracing::warn!("the seat's lease could not be renewed: {error}"),
        }
        pause = (LEASE / 3).saturating_sub(begun.elapsed());
    }
    renewed.send_modify(Lease::end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ran_out_before_its_renewal_says_nothing_of_the_time_before() {
        let then = Moment::now();
        let long_ago = Lease { since: then, until: then };
        assert!(long_ago.renewed(then).holds());
        assert!(!long_ago.renewed(then).has_held_since(then));
        let in_time = Lease { since: then, until: then + LEASE };
        assert!(in_time.renewed(then).has_held_since(then));
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
