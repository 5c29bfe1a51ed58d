//! One connection with its prepared statements. Everything that can travel together does: a
//! statement's message is sent when its future is first polled, and none waits for another's answer.

use std::collections::HashMap;
use std::error::Error as _;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::{MaybeDone, join, join_all, maybe_done};
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, WrongType, accepts, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Statement as Prepared};

use crate::store::db::markers::{Place, place};
use crate::store::db::{CHUNK_ROWS, Chunks};
use crate::store::{Error, Row, Statement, Value, dialect};

/// What this house relies on, whatever the server's or the user's defaults are.
const SESSION: &str = "SET default_transaction_isolation = 'read committed'; \
     SET standard_conforming_strings = on; SET client_min_messages = warning";

/// A statement on its way, and what comes back.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

pub struct Link {
    client: Client,
    prepared: Mutex<HashMap<Place, Prepared>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Link {
    /// The connection runs as a task of the runtime that calls this.
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // What ends a connection reaches whoever waits for an answer on it.
        tokio::spawn(connection.map(drop));
        client.batch_execute(SESSION).await?;
        Ok(Self { client, prepared: Mutex::default() })
    }

    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub async fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub async fn query(&self, sql: &'static str, params: &[Value]) -> Result<Vec<Row>, Error> {
        let prepared = self.prepared(sql).await?;
        self.ask(&prepared, params).await
    }

    pub async fn query_many(&self, sql: &'static str, sets: &[Vec<Value>]) -> Result<Vec<Vec<Row>>, Error> {
        let prepared = self.prepared(sql).await?;
        join_all(sets.iter().map(|params| self.ask(&prepared, params))).await.into_iter().collect()
    }

    pub async fn transact(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
        let prepared = self.prepared_each(statements).await?;
        let mut work = vec![self.begin()];
        work.extend(self.ask_each(statements, &prepared));
        let mut answers = self.commit_after(work).await?;
        answers.remove(0);
        Ok(answers)
    }

    pub fn begin(&self) -> Answer<'_> {
        Box::pin(self.run(dialect::begin::POSTGRES).map_ok(|()| vec![]))
    }

    pub fn ask_each<'a>(
        &'a self,
        statements: &'a [Statement],
        prepared: &'a [Prepared],
    ) -> impl Iterator<Item = Answer<'a>> {
        let both = statements.iter().zip(prepared);
        both.map(|(statement, prepared)| Box::pin(self.ask(prepared, &statement.params)) as Answer<'a>)
    }

    /// Sends all of `work` and a COMMIT before it waits for any answer. A statement that the
    /// server refuses turns the COMMIT behind it into a ROLLBACK; one that could not even be sent
    /// is seen here, and then a ROLLBACK is what follows.
    pub async fn commit_after(&self, work: Vec<Answer<'_>>) -> Result<Vec<Vec<Row>>, Error> {
        let mut work: Vec<_> = work.into_iter().map(maybe_done).collect();
        poll_fn(|context| Poll::Ready(poll_all(&mut work, context).is_ready())).await;
        let unsent = work.iter().any(|one| matches!(one, MaybeDone::Done(Err(_))));
        let end = self.run(if unsent { "ROLLBACK" } else { "COMMIT" });
        let ((), ended) = join(poll_fn(|context| poll_all(&mut work, context)), end).await;
        let answers = work.into_iter().filter_map(|mut one| Pin::new(&mut one).take_output());
        let answers = answers.collect::<Result<Vec<_>, Error>>()?;
        ended.map(|()| answers)
    }

    pub async fn prepared_each(&self, statements: &[Statement]) -> Result<Vec<Prepared>, Error> {
        let mut all = Vec::with_capacity(statements.len());
        for statement in statements {
            all.push(self.prepared(statement.sql).await?);
        }
        Ok(all)
    }

    pub async fn prepared(&self, sql: &'static str) -> Result<Prepared, Error> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&place(sql)).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let fresh = self.client.prepare(sql).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(place(sql), fresh.clone());
        Ok(fresh)
    }

    pub async fn ask(&self, prepared: &Prepared, params: &[Value]) -> Result<Vec<Row>, Error> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        self.ask_raw(prepared, &params).await
    }

    pub async fn ask_raw(
        &self,
        prepared: &Prepared,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.client.query(prepared, params).await?.iter().map(read_row).collect()
    }

    /// Says whether all was read: otherwise the rest is still on its way, and the link is spent.
    pub async fn stream(&self, sql: &'static str, params: &[Value], chunks: &Chunks) -> Result<bool, Error> {
        let prepared = self.prepared(sql).await?;
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

/// In order: each sends its message when it is first polled.
fn poll_all(work: &mut [MaybeDone<Answer<'_>>], context: &mut Context<'_>) -> Poll<()> {
    let mut are_done = true;
    for one in work {
        are_done &= Pin::new(one).poll(context).is_ready();
    }
    if are_done { Poll::Ready(()) } else { Poll::Pending }
}

fn read_row(row: &tokio_postgres::Row) -> Result<Row, Error> {
    let values = (0..row.len()).map(|column| Ok(row.try_get::<_, Value>(column)?));
    values.collect::<Result<Vec<_>, Error>>().map(Row::new)
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::BOOL => Value::Int(bool::from_sql(ty, raw)?.into()),
            Type::BYTEA => Value::Bytes(raw.to_vec()),
            _ => Value::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Value::Null)
    }

    accepts!(INT8, INT4, BOOL, BYTEA, TEXT, VARCHAR, NAME, UNKNOWN);
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            Value::Text(text) if *ty == Type::TEXT => text.to_sql(ty, out),
            Value::Bytes(bytes) if *ty == Type::BYTEA => bytes.to_sql(ty, out),
            Value::Int(_) | Value::Text(_) | Value::Bytes(_) => {
                Err(WrongType::new::<Value>(ty.clone()).into())
            }
        }
    }

    accepts!(INT8, TEXT, BYTEA);
    to_sql_checked!();
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(told) = error.as_db_error() else {
            let cause = error.source();
            let sentence = cause.map_or(error.to_string(), |cause| format!("{error}: {cause}"));
            let is_ours = cause.is_some_and(|cause| cause.is::<WrongType>());
            return if is_ours { Error::Failed(sentence) } else { Error::Lost(sentence) };
        };
        let sentence = told.message().to_owned();
        match told.code().code() {
            // The server is shutting down, was killed, is not up yet, or ended an idle transaction; it has too many
            // guests, or does not write yet.
            "57P01" | "57P02" | "57P03" | "25P03" | "53300" | "25006" => Error::Lost(sentence),
            code if code.starts_with("08") => Error::Lost(sentence),
            code if code.starts_with("23") => Error::Constraint(sentence),
            code if code == dialect::append::POSTGRES_HEAD_MOVED => Error::HeadMoved,
            _ => Error::Failed(sentence),
        }
    }
}
