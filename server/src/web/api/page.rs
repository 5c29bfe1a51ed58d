//! Lists: `{items, next_cursor}`. A cursor is bound to the filters of its list, so that a page of one list cannot
//! continue another.

use actbook_engine::chain::Digest;
use axum::Json;
use serde::Serialize;

use crate::error::Error;
use crate::web::Problem;

/// Items on a page if the caller gives no `limit`.
const LIMIT_DEFAULT: u64 = 50;
pub const LIMIT_MAX: u64 = 500;
/// Characters of the digest of the filters in a cursor: enough to tell lists apart.
const FILTERS_CHARS: usize = 11;

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    items: Vec<T>,
    /// The `cursor` of the next page; null: this is the last one.
    next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A list that is never cut.
    pub fn whole(items: Vec<T>) -> Json<Self> {
        Json(Self { items, next_cursor: None })
    }

    /// A page of a list whose cursors the service makes.
    pub fn continued(items: Vec<T>, next_cursor: Option<String>) -> Json<Self> {
        Json(Self { items, next_cursor })
    }

    /// A page of at most `limit` of the items, which were read with one more to see whether others follow.
    /// `position`: the position of an item, after which the next page begins.
    pub fn cut(mut items: Vec<T>, limit: u64, list: &ListName, position: impl Fn(&T) -> u64) -> Json<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| has_more).map(|last| list.cursor(position(last)));
        Json(Self { items, next_cursor })
    }

    /// A page whose next one begins at this position; None: it is the last.
    pub fn before(items: Vec<T>, next: Option<u64>, list: &ListName) -> Json<Self> {
        Json(Self { items, next_cursor: next.map(|position| list.cursor(position)) })
    }
}

/// A list and its filters, by digest.
#[derive(Debug)]
pub struct ListName(String);

impl ListName {
    /// The list at `path` with these filters, without its cursor and its limit.
    pub fn new(path: &str, filters: &impl std::fmt::Debug) -> Self {
        let mut digest = Digest::of(format!("{path}\n{filters:?}").as_bytes()).to_string();
        digest.truncate(FILTERS_CHARS);
        Self(digest)
    }

    fn cursor(&self, position: u64) -> String {
        format!("{position}.{}", self.0)
    }

    /// The position in a cursor of this list; None: no cursor was given. Err: it is of another list.
    pub fn position(&self, cursor: Option<&str>) -> Result<Option<u64>, Problem> {
        let Some(cursor) = cursor else { return Ok(None) };
        let parsed = cursor.split_once('.').and_then(|(position, of)| Some((position.parse().ok()?, of)));
        match parsed {
            Some((position, of)) if of == self.0 => Ok(Some(position)),
            Some(_) | None => Err(Error::ForeignCursor.into()),
        }
    }
}

/// The number of items on a page. Err: the given one is out of range.
pub fn page_limit(given: Option<u64>) -> Result<u64, Problem> {
    let limit = given.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::bad_parameter("limit", format!("`limit` is 1 to {LIMIT_MAX}, and {limit} was given")))
}
