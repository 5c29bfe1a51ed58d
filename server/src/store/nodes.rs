//! The table of nodes (`seats`): one row per running process, with a lease in database time. Leases only
//! detect dead processes: which node may start attempts is decided by the epoch in the journal. Nodes belong
//! to no tenant, because a process serves all.

use super::{Db, Error, Row, Select, Statement};

/// One row of the table `seats`: a process and its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub id: String,
    pub host: String,
    /// The host's boot id.
    pub boot_id: String,
    pub pid: u64,
    /// When the lease ends, in epoch milliseconds of the database's clock.
    pub lease_ends_at: i64,
    /// Where the process serves HTTP; None: it does not.
    pub url: Option<String>,
}

/// Decodes a row.
fn decode_node(mut row: Row) -> Result<NodeRow, Error> {
    Ok(NodeRow {
        id: row.take_text(0)?,
        host: row.take_text(1)?,
        boot_id: row.take_text(2)?,
        pid: row.uint(3)?,
        lease_ends_at: row.int(4)?,
        url: row.optional_text(5)?.map(str::to_owned),
    })
}

/// Acquires or renews the node's lease for `lease_ms` from now; returns when it ends, in epoch milliseconds
/// of the database's clock. `url`: where the process serves HTTP.
pub async fn acquire_lease(
    db: &Db,
    node: &str,
    host: &str,
    boot_id: &str,
    pid: u64,
    lease_ms: i64,
    url: Option<&str>,
) -> Result<i64, Error> {
    let statement = lease_statement(node, host, boot_id, pid, lease_ms, url);
    run_lease_statement(db, statement)
        .await?
        .ok_or_else(|| Error::Failed("the lease could not be acquired".into()))
}

/// Deletes rows with a lapsed lease, which nothing needs: executions of a dead node are found by their own
/// rows. Cuts leases that end later than `lease_ms` from now, which were written before the database's clock
/// was set back, to that time; a live process renews its lease before.
pub async fn sweep_leases(db: &Db, lease_ms: i64) -> Result<(), Error> {
    let delete_lapsed = "DELETE FROM seats WHERE until <= (SELECT now_ms FROM clock)";
    let cut_too_long = "UPDATE seats SET until = (SELECT now_ms FROM clock) + $1 \
         WHERE until > (SELECT now_ms FROM clock) + $1";
    let statements =
        vec![Statement::new(delete_lapsed, vec![]), Statement::new(cut_too_long, vec![lease_ms.into()])];
    db.transact(statements).await.map(drop)
}

/// Upserts a node's row with a new lease and returns the end of the lease.
fn lease_statement(
    node: &str,
    host: &str,
    boot_id: &str,
    pid: u64,
    lease_ms: i64,
    url: Option<&str>,
) -> Statement {
    Statement::new(
        "INSERT INTO seats (seat, host, boot, process, until, url) \
         SELECT $1, $2, $3, CAST($4 AS BIGINT), now_ms + $5, $6 FROM clock WHERE true \
         ON CONFLICT (seat) DO UPDATE SET host = excluded.host, boot = excluded.boot, \
         process = excluded.process, until = excluded.until, url = excluded.url RETURNING until",
        vec![node.into(), host.into(), boot_id.into(), pid.into(), lease_ms.into(), url.into()],
    )
}

/// Runs a statement that returns the end of a lease. None: it returned no row.
async fn run_lease_statement(db: &Db, statement: Statement) -> Result<Option<i64>, Error> {
    let results = db.transact(vec![statement]).await?;
    results.iter().flatten().next().map(|row| row.int(0)).transpose()
}

/// Deletes a node's row: at the end of its process, or for a dead process before its lease lapses.
pub async fn release_lease(db: &Db, node: &str) -> Result<(), Error> {
    let statement = Statement::new("DELETE FROM seats WHERE seat = $1", vec![node.into()]);
    db.transact(vec![statement]).await.map(drop)
}

pub fn by_id(id: &str) -> Select<NodeRow> {
    Select::new(
        "SELECT seat, host, boot, process, until, url FROM seats WHERE seat = $1",
        vec![id.into()],
        decode_node,
    )
}

/// The nodes whose lease has not lapsed.
pub fn list_live() -> Select<NodeRow> {
    Select::new(
        "SELECT seat, host, boot, process, until, url FROM seats CROSS JOIN clock \
         WHERE until > now_ms ORDER BY seat",
        vec![],
        decode_node,
    )
}

/// The nodes whose lease has lapsed: other nodes may take their executions over.
pub fn list_expired() -> Select<NodeRow> {
    Select::new(
        "SELECT seat, host, boot, process, until, url FROM seats CROSS JOIN clock \
         WHERE until <= now_ms ORDER BY seat",
        vec![],
        decode_node,
    )
}
