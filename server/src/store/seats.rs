//! One row per living process, with a lease in database time. A lease gives liveness only: who may
//! start attempts is a fact in the journal. Seats belong to no tenant: a process serves all.

use super::{Db, Error, Row, Select, Statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub seat: String,
    pub host: String,
    pub boot: String,
    pub process: u64,
    pub until: i64,
}

fn seat(mut row: Row) -> Result<Seat, Error> {
    Ok(Seat {
        seat: row.take_text(0)?,
        host: row.take_text(1)?,
        boot: row.take_text(2)?,
        process: row.count(3)?,
        until: row.int(4)?,
    })
}

/// Takes the seat, or takes it again, for `lease_ms` from now; gives the time at which it runs out.
pub async fn take(
    db: &Db,
    seat: &str,
    host: &str,
    boot: &str,
    process: u64,
    lease_ms: i64,
) -> Result<i64, Error> {
    let statement = taken(seat, host, boot, process, lease_ms);
    until(db, statement).await?.ok_or_else(|| Error::Failed("the seat could not be taken".into()))
}

/// Rows of processes that are long gone serve nobody: their executions are found by their own rows. A lease that ends
/// later than any lease can was written before the database's clock was set back: it is cut to `lease_ms` from now,
/// within which a living process renews it.
pub async fn sweep(db: &Db, lease_ms: i64) -> Result<(), Error> {
    let gone = "DELETE FROM seats WHERE until <= (SELECT now_ms FROM clock)";
    let too_long = "UPDATE seats SET until = (SELECT now_ms FROM clock) + $1 \
         WHERE until > (SELECT now_ms FROM clock) + $1";
    let statements = vec![Statement::new(gone, vec![]), Statement::new(too_long, vec![lease_ms.into()])];
    db.transact(statements).await.map(drop)
}

fn taken(seat: &str, host: &str, boot: &str, process: u64, lease_ms: i64) -> Statement {
    Statement::new(
        "INSERT INTO seats (seat, host, boot, process, until) \
         SELECT $1, $2, $3, CAST($4 AS BIGINT), now_ms + $5 FROM clock WHERE true \
         ON CONFLICT (seat) DO UPDATE SET host = excluded.host, boot = excluded.boot, \
         process = excluded.process, until = excluded.until RETURNING until",
        vec![seat.into(), host.into(), boot.into(), process.into(), lease_ms.into()],
    )
}

async fn until(db: &Db, statement: Statement) -> Result<Option<i64>, Error> {
    let answers = db.transact(vec![statement]).await?;
    answers.iter().flatten().next().map(|row| row.int(0)).transpose()
}

/// Leaves the seat, or declares a dead one free before its lease has run out.
pub async fn release(db: &Db, seat: &str) -> Result<(), Error> {
    let statement = Statement::new("DELETE FROM seats WHERE seat = $1", vec![seat.into()]);
    db.transact(vec![statement]).await.map(drop)
}

pub fn by_id(id: &str) -> Select<Seat> {
    Select::new("SELECT seat, host, boot, process, until FROM seats WHERE seat = $1", vec![id.into()], seat)
}

pub fn alive() -> Select<Seat> {
    Select::new(
        "SELECT seat, host, boot, process, until FROM seats CROSS JOIN clock \
         WHERE until > now_ms ORDER BY seat",
        vec![],
        seat,
    )
}

/// Their leases have run out; their executions may be taken up.
pub fn expired() -> Select<Seat> {
    Select::new(
        "SELECT seat, host, boot, process, until FROM seats CROSS JOIN clock \
         WHERE until <= now_ms ORDER BY seat",
        vec![],
        seat,
    )
}
