//! Appending on PostgreSQL: one statement per batch, on a connection whose Tokio runtime runs on the writer's
//! own thread, so that no result has to cross threads.

use std::time::{Duration, Instant};

use actbook_engine::id::TenantId;

use tokio::runtime::Runtime;
use tokio_postgres::Config;
use tokio_postgres::types::ToSql;

use super::connection::{PendingRows, PgConnection};
use crate::store::dialect::{append as text, begin, lock_head};
use crate::store::{Appended, Batch, EntryKey, Error, Row, journal};

/// Delay before each retry of a batch whose commit result was lost. Together they cover a server restart.
const RETRY_DELAYS_MS: [u64; 6] = [0, 50, 200, 800, 2_000, 4_000];

/// Session settings. A generic plan, because planning an append's few fixed statements each time costs more
/// than running them. The idle timeout ends a hung process's lock on the head.
const SESSION: &str = "SET plan_cache_mode = force_generic_plan; \
     SET idle_in_transaction_session_timeout = '10s'";

/// Minimum time between notifications of non-urgent batches: a commit with NOTIFY takes a lock that all
/// databases of the server share.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(20);

/// Appends batches to a PostgreSQL journal; blocks the calling thread.
#[derive(Debug)]
pub struct PostgresAppender {
    config: Config,
    connection: Option<PgConnection>,
    /// A transaction is open on the connection and has locked the head.
    head_locked: bool,
    /// When other processes were last notified.
    last_notified: Instant,
    /// Tenant and head position of the last batch that other processes were not notified of.
    pending_notify: Option<(TenantId, u64)>,
    /// Always `Some`; only `drop` takes it.
    runtime: Option<Runtime>,
}

impl Drop for PostgresAppender {
    /// Dropping a runtime inside another runtime panics, so this one is shut down in the background.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl PostgresAppender {
    /// Creates an appender, which connects on its first use.
    pub fn new(config: Config) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Failed(format!("cannot start the writer's runtime: {error}")))?;
        let last_notified = Instant::now();
        Ok(Self {
            config,
            connection: None,
            head_locked: false,
            last_notified,
            pending_notify: None,
            runtime: Some(runtime),
        })
    }

    /// Begins a transaction and locks the head row, until `append` or `unlock_head`. Empty: no such tenant.
    pub fn lock_head(&mut self, tenant: TenantId) -> Result<Vec<Row>, Error> {
        self.unlock_head()?;
        let Self { config, connection, head_locked, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        let locked = runtime.block_on(async {
            let open = ensure_connected(config, connection).await?;
            open.execute_batch(begin::POSTGRES).await?;
            open.query(lock_head::POSTGRES, &[tenant.into()]).await
        });
        if locked.is_err() {
            *connection = None;
        }
        *head_locked = locked.is_ok();
        locked
    }

    /// Unlocks the head. If ROLLBACK fails, the connection is dropped, which ends its transaction too.
    pub fn unlock_head(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.head_locked) {
            return Ok(());
        }
        let Some(open) = self.connection.take() else { return Ok(()) };
        let runtime = self.runtime.as_ref().expect("only the drop takes it");
        if runtime.block_on(open.execute_batch("ROLLBACK")).is_ok() {
            self.connection = Some(open);
        }
        Ok(())
    }

    /// Appends the batch; after a lost connection, finds out whether it was committed.
    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        let head_locked = std::mem::take(&mut self.head_locked);
        let notify = batch.urgent || self.last_notified.elapsed() >= NOTIFY_INTERVAL;
        let Self { config, connection, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        let appended = runtime.block_on(async {
            match append_once(config, connection, batch, AppendMode { head_locked, notify }).await {
                // Only a batch with entries can be recognised in the journal afterwards.
                Err(Error::ConnectionLost(_)) if !batch.entries.is_empty() => {
                    resolve_lost_append(config, connection, batch).await
                }
                result => result,
            }
        });
        if matches!(appended, Ok(Appended::Done)) {
            self.record_notify(batch, notify);
        }
        appended
    }

    /// Records whether a committed batch was notified. Call it only for committed batches: listeners ignore
    /// positions they have seen, so notifying a position that was not written would hide the real one.
    fn record_notify(&mut self, batch: &Batch, notified: bool) {
        if notified {
            (self.last_notified, self.pending_notify) = (Instant::now(), None);
        } else {
            self.pending_notify = Some((batch.tenant, batch.new.position));
        }
    }

    /// How long until `send_notify` is due. None: no notification is pending.
    pub fn notify_due_in(&self) -> Option<Duration> {
        self.pending_notify.map(|_| NOTIFY_INTERVAL.saturating_sub(self.last_notified.elapsed()))
    }

    /// Sends the pending notification, if any.
    pub fn send_notify(&mut self) -> Result<(), Error> {
        let Some((tenant, position)) = self.pending_notify.take() else { return Ok(()) };
        self.last_notified = Instant::now();
        let Self { config, connection, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        runtime.block_on(async {
            let open = ensure_connected(config, connection).await?;
            open.query(text::POSTGRES_NOTIFY, &[tenant.into(), position.into()]).await.map(drop)
        })
    }
}

/// How a batch is appended.
#[derive(Clone, Copy)]
struct AppendMode {
    /// The connection is inside a transaction that has locked the head.
    head_locked: bool,
    /// Notify other processes with the commit.
    notify: bool,
}

/// Retries a batch whose commit result was lost. The first transaction may still be about to commit: the
/// retry waits for its lock on the head, and then the entry at the new position shows which batch won.
async fn resolve_lost_append(
    config: &Config,
    connection: &mut Option<PgConnection>,
    batch: &Batch,
) -> Result<Appended, Error> {
    let mut lost = Error::ConnectionLost("no answer".into());
    for delay_ms in RETRY_DELAYS_MS {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        match append_or_find_written(config, connection, batch).await {
            Err(error @ Error::ConnectionLost(_)) => lost = error,
            result => return result,
        }
    }
    Err(lost)
}

/// Appends the batch; `Done` also if the journal already holds it.
async fn append_or_find_written(
    config: &Config,
    connection: &mut Option<PgConnection>,
    batch: &Batch,
) -> Result<Appended, Error> {
    match append_once(config, connection, batch, AppendMode { head_locked: false, notify: true }).await? {
        Appended::Done => Ok(Appended::Done),
        Appended::HeadMoved if is_written(config, connection, batch).await? => Ok(Appended::Done),
        Appended::HeadMoved => Ok(Appended::HeadMoved),
    }
}

/// Whether the journal holds this batch: an equal hash at its last position proves it, because the hash chain
/// covers everything before.
async fn is_written(
    config: &Config,
    connection: &mut Option<PgConnection>,
    batch: &Batch,
) -> Result<bool, Error> {
    let open = ensure_connected(config, connection).await?;
    let rows =
        open.query(journal::HASH_AT, &[EntryKey::new(batch.tenant, batch.new.position).into()]).await?;
    match rows.first() {
        Some(row) => Ok(row.hash(0)? == batch.new.hash),
        None => Ok(false),
    }
}

/// Returns the open connection, after connecting if there is none or it is closed.
async fn ensure_connected<'a>(
    config: &Config,
    connection: &'a mut Option<PgConnection>,
) -> Result<&'a PgConnection, Error> {
    let open = match connection.take() {
        Some(open) if !open.is_closed() => open,
        Some(_) | None => {
            let fresh = PgConnection::connect(config).await?;
            fresh.execute_batch(SESSION).await?;
            fresh
        }
    };
    Ok(connection.insert(open))
}

/// Sends the batch once; drops the connection if it may be left inside a transaction.
async fn append_once(
    config: &Config,
    connection: &mut Option<PgConnection>,
    batch: &Batch,
    mode: AppendMode,
) -> Result<Appended, Error> {
    let open = match connection {
        // A new connection would not be inside the transaction that has locked the head.
        Some(open) if mode.head_locked => open,
        Some(_) | None => ensure_connected(config, connection).await?,
    };
    let result = if batch.other_statements.is_empty() && !mode.head_locked {
        insert_batch(open, batch, false, mode.notify).await.and_then(|rows| decode_appended(&rows))
    } else {
        append_in_transaction(open, batch, mode).await
    };
    // After a failure with the head locked, the connection may still be inside its transaction.
    if matches!(result, Err(Error::ConnectionLost(_))) || (mode.head_locked && result.is_err()) {
        *connection = None;
    }
    match result {
        Err(Error::HeadMoved) => Ok(Appended::HeadMoved),
        result => result,
    }
}

/// Sends the batch and its other statements in one round trip, up to and including COMMIT. BEGIN is sent too,
/// unless the head is locked: then the transaction is already open.
async fn append_in_transaction(
    connection: &PgConnection,
    batch: &Batch,
    mode: AppendMode,
) -> Result<Appended, Error> {
    let prepared = connection.prepare_all(&batch.other_statements).await?;
    // All statements must be prepared before any is sent, because preparing waits for the server.
    connection.prepare_cached(text::POSTGRES).await?;
    let mut statements: Vec<PendingRows<'_>> = Vec::with_capacity(batch.other_statements.len() + 2);
    if !mode.head_locked {
        statements.push(connection.begin());
    }
    statements.push(Box::pin(insert_batch(connection, batch, true, mode.notify)));
    statements.extend(connection.query_each(&batch.other_statements, &prepared));
    connection.run_and_commit(statements).await.map(|_| Appended::Done)
}

/// Moves the head and inserts the batch's rows. With `strict`, a moved head is an error, which aborts the
/// surrounding transaction; without, it is a row with 0.
async fn insert_batch(
    connection: &PgConnection,
    batch: &Batch,
    strict: bool,
    notify: bool,
) -> Result<Vec<Row>, Error> {
    let columns = BatchColumns::from_batch(batch);
    let prepared = connection.prepare_cached(text::POSTGRES).await?;
    connection.query_prepared_raw(&prepared, &columns.params(batch, &strict, &notify)).await
}

/// Decodes the row that `insert_batch` returns.
fn decode_appended(rows: &[Row]) -> Result<Appended, Error> {
    match rows.first().map(|row| row.int(0)).transpose()? {
        Some(1) => Ok(Appended::Done),
        Some(_) | None => Ok(Appended::HeadMoved),
    }
}

/// A batch in column form: one array per column, as the append statement takes them.
#[derive(Default)]
struct BatchColumns<'a> {
    /// Position and hash of the old and the new head.
    heads: [(i64, &'a [u8]); 2],
    /// Each entry's key, stream, version and time.
    numbers: [Vec<i64>; 4],
    /// Each entry's actor, kind and body.
    texts: [Vec<&'a str>; 3],
    hashes: Vec<&'a [u8]>,
    /// The key of the entry that owns each payload.
    payload_keys: Vec<i64>,
    payloads: Vec<&'a [u8]>,
    /// Stream and page of each entry that is its stream's first on a page.
    page_starts: [Vec<i64>; 2],
}

impl<'a> BatchColumns<'a> {
    /// Transposes the batch.
    fn from_batch(batch: &'a Batch) -> Self {
        let heads = [&batch.old, &batch.new].map(|head| (head.position as i64, head.hash.as_slice()));
        let mut columns = Self { heads, ..Self::default() };
        for entry in &batch.entries {
            let key = EntryKey::new(batch.tenant, entry.position);
            let numbers = [key.0, entry.stream.0 as i64, entry.version as i64, entry.at];
            for (column, number) in columns.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
            for (column, text) in columns.texts.iter_mut().zip([&*entry.actor, &*entry.kind, &*entry.body]) {
                column.push(text);
            }
            columns.hashes.push(&entry.hash);
            if let Some(payload) = &entry.payload {
                columns.payload_keys.push(key.0);
                columns.payloads.push(payload);
            }
            if entry.is_first_on_page {
                columns.page_starts[0].push(entry.stream.0 as i64);
                columns.page_starts[1].push(key.page());
            }
        }
        columns
    }

    /// The parameters `$1` to `$19` of the append statement.
    fn params<'b>(
        &'b self,
        batch: &'b Batch,
        strict: &'b bool,
        notify: &'b bool,
    ) -> [&'b (dyn ToSql + Sync); 19] {
        let [keys, streams, versions, ats] = &self.numbers;
        let [actors, kinds, bodies] = &self.texts;
        let [(old, old_hash), (new, new_hash)] = &self.heads;
        [
            &batch.tenant.0,
            old,
            old_hash,
            new,
            new_hash,
            keys,
            streams,
            versions,
            ats,
            actors,
            kinds,
            bodies,
            &self.hashes,
            &self.payload_keys,
            &self.payloads,
            strict,
            notify,
            &self.page_starts[0],
            &self.page_starts[1],
        ]
    }
}
