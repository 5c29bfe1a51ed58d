//! Lists: `{items, next_cursor}`. A cursor is bound to the filters of its list, so that a page of one list cannot
//! continue another.

use actbook_engine::chain::Digest;
use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// How many entries of the journal the list lacks. None: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<u64>,
}

/// The query of a list without filters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageParams {
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    pub cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of a list that is whole in memory, in the order of a text that no two items share.
    pub fn of_all(
        mut items: Vec<T>,
        params: &PageParams,
        list: &ListName,
        key: impl Fn(&T) -> String,
    ) -> Result<Json<Self>, Problem> {
        let limit = page_limit(params.limit)?;
        let after = list.text(params.cursor.as_deref())?;
        items.retain(|item| after.as_ref().is_none_or(|after| key(item) > *after));
        items.sort_by_cached_key(&key);
        Ok(Self::cut_by_text(items, limit, list, key))
    }

    /// A page of a list whose cursors the service makes, and which may lack `behind` entries of the journal.
    pub fn continued(items: Vec<T>, next_cursor: Option<String>, behind: u64) -> Json<Self> {
        Json(Self { items, next_cursor, behind: Some(behind).filter(|behind| *behind > 0) })
    }

    /// A page of at most `limit` of the items, which were read with one more to see whether others follow.
    /// `position`: the position of an item, after which the next page begins.
    pub fn cut(mut items: Vec<T>, limit: u64, list: &ListName, position: impl Fn(&T) -> u64) -> Json<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| has_more).map(|last| list.cursor(position(last)));
        Json(Self { items, next_cursor, behind: None })
    }

    /// Like `cut`, of a list that is ordered by a text.
    pub fn cut_by_text(
        mut items: Vec<T>,
        limit: u64,
        list: &ListName,
        key: impl Fn(&T) -> String,
    ) -> Json<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| has_more).map(|last| list.text_cursor(&key(last)));
        Json(Self { items, next_cursor, behind: None })
    }

    /// A page whose next one begins at this position; None: it is the last.
    pub fn before(items: Vec<T>, next: Option<u64>, list: &ListName) -> Json<Self> {
        let next_cursor = next.map(|position| list.cursor(position));
        Json(Self { items, next_cursor, behind: None })
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

    /// A cursor after a text, which is written in hexadecimal: it can have any character.
    pub fn text_cursor(&self, text: &str) -> String {
        let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}.{}", self.0)
    }

    /// The text in a cursor of this list; None: no cursor was given. Err: it is of another list.
    pub fn text(&self, cursor: Option<&str>) -> Result<Option<String>, Problem> {
        let Some(cursor) = cursor else { return Ok(None) };
        let own = cursor.split_once('.').filter(|(_, of)| *of == self.0);
        let text = own.and_then(|(digits, _)| decode_hexadecimal(digits));
        Ok(Some(text.ok_or(Error::ForeignCursor)?))
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

/// The text that hexadecimal digits write. None: they write none.
fn decode_hexadecimal(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

/// The number of items on a page. Err: the given one is out of range.
pub fn page_limit(given: Option<u64>) -> Result<u64, Problem> {
    let limit = given.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::bad_parameter("limit", format!("`limit` is 1 to {LIMIT_MAX}, and {limit} was given")))
}
