//! A typed read: written once, and run from async code, blocking on the calling thread, or row by row.

use std::ops::ControlFlow;

use super::{Db, Error, Row, SqlValue, Statement};

/// A read that is not run yet: its text, its parameters, and how to decode a row to a `T`.
#[derive(Debug, Clone)]
pub struct Select<T> {
    statement: Statement,
    decode: fn(Row) -> Result<T, Error>,
}

impl<T> Select<T> {
    pub fn new(sql: &'static str, params: Vec<SqlValue>, decode: fn(Row) -> Result<T, Error>) -> Self {
        Self { statement: Statement::new(sql, params), decode }
    }

    pub async fn all(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.read(self.statement.sql, self.statement.params).await?;
        rows.into_iter().map(self.decode).collect()
    }

    /// Like `all`, for a few rows that are found by a key; see `Db::look_up`.
    pub async fn look_up(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.look_up(self.statement.sql, vec![self.statement.params]).await?;
        rows.into_iter().flatten().map(self.decode).collect()
    }

    /// Like `all`, but blocks the calling thread.
    pub fn all_blocking(self, db: &Db) -> Result<Vec<T>, Error> {
        let rows = db.read_blocking(self.statement.sql, self.statement.params)?;
        rows.into_iter().map(self.decode).collect()
    }

    /// Returns the first row. None: there is no row.
    pub async fn first(self, db: &Db) -> Result<Option<T>, Error> {
        Ok(self.all(db).await?.into_iter().next())
    }

    /// Like `first`, but blocks the calling thread.
    pub fn first_blocking(self, db: &Db) -> Result<Option<T>, Error> {
        Ok(self.all_blocking(db)?.into_iter().next())
    }

    /// Calls `visit` with each row until it returns `Break`, in constant memory, for reads of millions of
    /// rows.
    pub async fn for_each<B>(
        self,
        db: &Db,
        mut visit: impl FnMut(T) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let decode = self.decode;
        let flow = db
            .for_each_row(self.statement.sql, self.statement.params, |row| match decode(row) {
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

/// The result of looking an id up by a prefix of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrefixMatch<T> {
    /// The only match.
    One(T),
    /// The prefix is not unique.
    Several,
    /// No id begins with the prefix.
    None,
}

impl<T> PrefixMatch<T> {
    /// Picks the match among `candidates`, which begin with `prefix`. A full id wins over longer ids that
    /// begin with it. An empty prefix would match every id, so it matches none.
    pub(super) fn from_candidates(prefix: &str, candidates: Vec<T>, id: impl Fn(&T) -> &str) -> Self {
        if prefix.is_empty() {
            return PrefixMatch::None;
        }
        let count = candidates.len();
        let mut first = None;
        for candidate in candidates {
            if id(&candidate) == prefix {
                return PrefixMatch::One(candidate);
            }
            first.get_or_insert(candidate);
        }
        match first {
            Some(only) if count == 1 => PrefixMatch::One(only),
            Some(_) => PrefixMatch::Several,
            None => PrefixMatch::None,
        }
    }
}

/// Exclusive upper bound, in byte order, of the texts that begin with `prefix`.
pub(super) fn prefix_end(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}
