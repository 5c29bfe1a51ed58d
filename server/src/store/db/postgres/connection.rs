//! One connection with its prepared statements. Statements are pipelined: each is sent when its future is
//! first polled, and none waits for the result of another.

use std::collections::HashMap;
use std::error::Error as _;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::future::{MaybeDone, join, join_all, maybe_done};
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use parking_lot::Mutex;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, WrongType, accepts, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Statement as Prepared};

use crate::store::db::placeholders::{SqlKey, sql_key};
use crate::store::db::{CHUNK_ROWS, ChunkSender};
use crate::store::{Error, Row, SqlValue, Statement, dialect};

/// Session settings that the statements rely on, whatever the defaults of the server or the user.
const SESSION: &str = "SET default_transaction_isolation = 'read committed'; \
     SET standard_conforming_strings = on; SET client_min_messages = warning";

/// A statement in flight: resolves to its rows.
pub type PendingRows<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// A PostgreSQL connection with a cache of prepared statements.
pub struct PgConnection {
    client: Client,
    prepared_cache: Mutex<HashMap<SqlKey, Prepared>>,
}

impl std::fmt::Debug for PgConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgConnection").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl PgConnection {
    /// Connects, and drives the connection as a task of the current Tokio runtime.
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // A connection's error also reaches every statement that waits on it, so it is dropped here.
        tokio::spawn(connection.map(drop));
        client.batch_execute(SESSION).await?;
        Ok(Self { client, prepared_cache: Mutex::default() })
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs unprepared SQL, which may be several statements; ignores the rows.
    pub async fn execute_batch(&self, sql: &str) -> Result<(), Error> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Returns the rows of one statement.
    pub async fn query(&self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, Error> {
        let prepared = self.prepare_cached(sql).await?;
        self.query_prepared(&prepared, params).await
    }

    /// Runs one statement per parameter set, pipelined; returns the rows of each.
    pub async fn query_many(
        &self,
        sql: &'static str,
        param_sets: &[Vec<SqlValue>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let prepared = self.prepare_cached(sql).await?;
        join_all(param_sets.iter().map(|params| self.query_prepared(&prepared, params)))
            .await
            .into_iter()
            .collect()
    }

    /// Runs the statements in one transaction, pipelined; returns the rows of each.
    pub async fn transact(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
        let prepared = self.prepare_all(statements).await?;
        let mut in_flight = vec![self.begin()];
        in_flight.extend(self.query_each(statements, &prepared));
        let mut results = self.run_and_commit(in_flight).await?;
        results.remove(0);
        Ok(results)
    }

    /// Begins a transaction; resolves to no rows.
    pub fn begin(&self) -> PendingRows<'_> {
        Box::pin(self.execute_batch(dialect::begin::POSTGRES).map_ok(|()| vec![]))
    }

    /// One pending query for each statement and its prepared form.
    pub fn query_each<'a>(
        &'a self,
        statements: &'a [Statement],
        prepared: &'a [Prepared],
    ) -> impl Iterator<Item = PendingRows<'a>> {
        let pairs = statements.iter().zip(prepared);
        pairs.map(|(statement, prepared)| {
            Box::pin(self.query_prepared(prepared, &statement.params)) as PendingRows<'a>
        })
    }

    /// Sends all statements and a COMMIT before waiting for any result; returns the rows of each. If the
    /// server refuses a statement, it turns the COMMIT into a ROLLBACK. If a statement could not be sent at
    /// all, its future has failed after the first poll, and ROLLBACK is sent instead.
    pub async fn run_and_commit(&self, statements: Vec<PendingRows<'_>>) -> Result<Vec<Vec<Row>>, Error> {
        let mut in_flight: Vec<_> = statements.into_iter().map(maybe_done).collect();
        poll_fn(|context| Poll::Ready(poll_all(&mut in_flight, context).is_ready())).await;
        let unsent = in_flight.iter().any(|statement| matches!(statement, MaybeDone::Done(Err(_))));
        let end = self.execute_batch(if unsent { "ROLLBACK" } else { "COMMIT" });
        let ((), ended) = join(poll_fn(|context| poll_all(&mut in_flight, context)), end).await;
        let results =
            in_flight.into_iter().filter_map(|mut statement| Pin::new(&mut statement).take_output());
        let results = results.collect::<Result<Vec<_>, Error>>()?;
        ended.map(|()| results)
    }

    /// Prepares each statement, or takes it from the cache.
    pub async fn prepare_all(&self, statements: &[Statement]) -> Result<Vec<Prepared>, Error> {
        let mut all = Vec::with_capacity(statements.len());
        for statement in statements {
            all.push(self.prepare_cached(statement.sql).await?);
        }
        Ok(all)
    }

    /// Prepares a statement, or takes it from the cache.
    pub async fn prepare_cached(&self, sql: &'static str) -> Result<Prepared, Error> {
        let cached = self.prepared_cache.lock().get(&sql_key(sql)).cloned();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let fresh = self.client.prepare(sql).await?;
        self.prepared_cache.lock().insert(sql_key(sql), fresh.clone());
        Ok(fresh)
    }

    pub async fn query_prepared(&self, prepared: &Prepared, params: &[SqlValue]) -> Result<Vec<Row>, Error> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        self.query_prepared_raw(prepared, &params).await
    }

    /// Like `query_prepared`, with parameters of driver types, such as arrays.
    pub async fn query_prepared_raw(
        &self,
        prepared: &Prepared,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.client.query(prepared, params).await?.iter().map(read_row).collect()
    }

    /// Streams the rows of a read into `chunks`. False: the receiver was dropped first, so unread rows are
    /// still arriving and the connection must not be used again.
    pub async fn stream(
        &self,
        sql: &'static str,
        params: &[SqlValue],
        chunks: &ChunkSender,
    ) -> Result<bool, Error> {
        let prepared = self.prepare_cached(sql).await?;
        let arriving = self.client.query_raw(&prepared, params).await?.ready_chunks(CHUNK_ROWS);
        let mut arriving = pin!(arriving);
        while let Some(rows) = arriving.next().await {
            let chunk = rows.into_iter().map(|row| read_row(&row?)).collect::<Result<Vec<_>, Error>>()?;
            if chunks.send(Ok(chunk)).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Polls all statements, in order, because the first poll of each sends it. Ready when all are done.
fn poll_all(in_flight: &mut [MaybeDone<PendingRows<'_>>], context: &mut Context<'_>) -> Poll<()> {
    let mut are_done = true;
    for statement in in_flight {
        are_done &= Pin::new(statement).poll(context).is_ready();
    }
    if are_done { Poll::Ready(()) } else { Poll::Pending }
}

/// Decodes a driver's row.
fn read_row(row: &tokio_postgres::Row) -> Result<Row, Error> {
    let values = (0..row.len()).map(|column| Ok(row.try_get::<_, SqlValue>(column)?));
    values.collect::<Result<Vec<_>, Error>>().map(Row::new)
}

impl<'a> FromSql<'a> for SqlValue {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => SqlValue::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => SqlValue::Int(i32::from_sql(ty, raw)?.into()),
            Type::BOOL => SqlValue::Int(bool::from_sql(ty, raw)?.into()),
            Type::BYTEA => SqlValue::Bytes(raw.to_vec()),
            _ => SqlValue::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(SqlValue::Null)
    }

    accepts!(INT8, INT4, BOOL, BYTEA, TEXT, VARCHAR, NAME, UNKNOWN);
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            SqlValue::Null => Ok(IsNull::Yes),
            SqlValue::Int(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            SqlValue::Text(text) if *ty == Type::TEXT => text.to_sql(ty, out),
            SqlValue::Bytes(bytes) if *ty == Type::BYTEA => bytes.to_sql(ty, out),
            SqlValue::Int(_) | SqlValue::Text(_) | SqlValue::Bytes(_) => {
                Err(WrongType::new::<SqlValue>(ty.clone()).into())
            }
        }
    }

    accepts!(INT8, TEXT, BYTEA);
    to_sql_checked!();
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db_error) = error.as_db_error() else {
            let cause = error.source();
            let sentence = cause.map_or(error.to_string(), |cause| format!("{error}: {cause}"));
            // A wrong parameter type is a bug of ours, found before anything was sent.
            let is_bug = cause.is_some_and(|cause| cause.is::<WrongType>());
            return if is_bug { Error::Failed(sentence) } else { Error::ConnectionLost(sentence) };
        };
        let sentence = db_error.message().to_owned();
        match db_error.code().code() {
            // The server is shutting down, crashed, is starting, ended an idle transaction, has too many
            // connections, or is still read-only.
            "57P01" | "57P02" | "57P03" | "25P03" | "53300" | "25006" => Error::ConnectionLost(sentence),
            code if code.starts_with("08") => Error::ConnectionLost(sentence),
            code if code.starts_with("23") => Error::Constraint(sentence),
            code if code == dialect::append::POSTGRES_HEAD_MOVED => Error::HeadMoved,
            _ => Error::Failed(sentence),
        }
    }
}
