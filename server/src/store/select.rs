//! A question to the database with the shape of its answer: written once, asked from async code,
//! on the caller's own thread, or row by row.

use std::ops::ControlFlow;

use super::{Db, Error, Row, Statement, Value};

/// A read: its text, its parameters, and how a row becomes a `T`.
#[derive(Debug, Clone)]
pub struct Select<T> {
    statement: Statement,
    decode: fn(Row) -> Result<T, Error>,
}

impl<T> Select<T> {
    pub fn new(sql: &'static str, params: Vec<Value>, decode: fn(Row) -> Result<T, Error>) -> Self {
        Self { statement: Statement::new(sql, params), decode }
    }

    pub async fn all(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.read(self.statement.sql, self.statement.params).await?;
        rows.into_iter().map(self.decode).collect()
    }

    /// The same for a few rows that are found by a key; see `Db::look_up`.
    pub async fn look_up(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.look_up(self.statement.sql, vec![self.statement.params]).await?;
        rows.into_iter().flatten().map(self.decode).collect()
    }

    pub fn all_blocking(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.read_blocking(self.statement.sql, self.statement.params)?;
        rows.into_iter().map(self.decode).collect()
    }

    pub async fn first(self, db: &Db) -> Result<Option<T>, Error> {
        Ok(self.all(db).await?.into_iter().next())
    }

    pub fn first_blocking(self, db: &Db) -> Result<Option<T>, Error> {
        Ok(self.all_blocking(db)?.into_iter().next())
    }

    /// One at a time, in constant memory, for reads over millions of rows.
    pub async fn each<B>(
        self,
        db: &Db,
        mut visit: impl FnMut(T) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let decode = self.decode;
        let flow = db
            .each(self.statement.sql, self.statement.params, |row| match decode(row) {
                Ok(item) => visit(item).map_break(Ok),
                Err(error) => ControlFlow::Break(Err(error)),
            })
            .await?;
        match flow {
            ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
            ControlFlow::Break(stopped) => stopped.map(ControlFlow::Break),
        }
    }
}

/// What an id, shortened to a prefix, stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    One(T),
    Several,
    None,
}

impl<T> Found<T> {
    /// A whole id wins over longer ones that begin with it. Every id begins with nothing, so nothing names
    /// none, not even an only one.
    pub(super) fn among(prefix: &str, candidates: Vec<T>, id: impl Fn(&T) -> &str) -> Self {
        if prefix.is_empty() {
            return Found::None;
        }
        let count = candidates.len();
        let mut first = None;
        for candidate in candidates {
            if id(&candidate) == prefix {
                return Found::One(candidate);
            }
            first.get_or_insert(candidate);
        }
        match first {
            Some(only) if count == 1 => Found::One(only),
            Some(_) => Found::Several,
            None => Found::None,
        }
    }
}

/// The end of the range of texts that begin with `prefix`, in byte order.
pub(super) fn prefix_end(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}
