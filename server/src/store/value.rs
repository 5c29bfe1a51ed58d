//! Parameters of statements and columns of rows: the four value types that both databases share.

use std::str::FromStr;

use actbook_engine::id::{StreamId, TenantId};

use super::Error;

/// An SQL value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl SqlValue {
    /// The value's type, for error messages.
    fn type_name(&self) -> &'static str {
        match self {
            SqlValue::Null => "null",
            SqlValue::Int(_) => "a number",
            SqlValue::Text(_) => "text",
            SqlValue::Bytes(_) => "bytes",
        }
    }
}

macro_rules! sql_value_from {
    ($($value:ident: $type:ty => $sql:expr;)+) => {
        $(impl From<$type> for SqlValue {
            fn from($value: $type) -> Self {
                $sql
            }
        })+
    };
}

sql_value_from! {
    number: i64 => Self::Int(number);
    // Numbers above `i64::MAX` are capped: no real count comes near, and a cursor that large means "past the
    // end".
    number: u64 => Self::Int(i64::try_from(number).unwrap_or(i64::MAX));
    flag: bool => Self::Int(i64::from(flag));
    tenant: TenantId => tenant.0.into();
    stream: StreamId => stream.0.into();
    key: EntryKey => key.0.into();
    text: &str => Self::Text(text.to_owned());
    text: String => Self::Text(text);
    bytes: &[u8] => Self::Bytes(bytes.to_vec());
    bytes: Vec<u8> => Self::Bytes(bytes);
}

impl<const N: usize> From<[u8; N]> for SqlValue {
    fn from(bytes: [u8; N]) -> Self {
        SqlValue::Bytes(bytes.to_vec())
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// The key of an entry's rows in `journal`, `payloads` and `note_words`, over all tenants: the tenant times
/// 2^40, plus the entry's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryKey(pub i64);

impl EntryKey {
    /// Positions and keys per tenant.
    const PER_TENANT: i64 = 1 << 40;

    /// The key of a tenant's position. A larger position is capped at 2^40 - 1, so that as the bound of a
    /// range it does not reach into the next tenant.
    pub fn new(tenant: TenantId, position: u64) -> Self {
        Self(tenant.0 * Self::PER_TENANT + position.min(Self::PER_TENANT as u64 - 1) as i64)
    }

    /// The key below all entries of the tenant. A key less this one is a position.
    pub fn base(tenant: TenantId) -> Self {
        Self::new(tenant, 0)
    }

    /// The page that holds the entry. A page is 128 consecutive keys.
    pub fn page(self) -> i64 {
        self.0 / 128
    }
}

/// One SQL statement, the same for both databases, with its parameters for `$1`, `$2` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub sql: &'static str,
    pub params: Vec<SqlValue>,
}

impl Statement {
    pub fn new(sql: &'static str, params: Vec<SqlValue>) -> Self {
        Self { sql, params }
    }
}

/// A row that was read. Its getters never panic: a column of the wrong type is `Error::WrongColumn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<SqlValue>);

impl Row {
    pub fn new(values: Vec<SqlValue>) -> Self {
        Self(values)
    }

    pub fn values(&self) -> &[SqlValue] {
        &self.0
    }

    /// The column's value; a missing column is null.
    fn value(&self, column: usize) -> &SqlValue {
        self.0.get(column).unwrap_or(&SqlValue::Null)
    }

    /// The error for a column that does not hold `wanted`.
    fn wrong_column(&self, column: usize, wanted: &'static str) -> Error {
        let found = self.0.get(column).map_or("nothing", SqlValue::type_name);
        Error::WrongColumn { column, wanted, found }
    }

    /// A column with a number.
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        match self.value(column) {
            SqlValue::Int(number) => Ok(*number),
            SqlValue::Null | SqlValue::Text(_) | SqlValue::Bytes(_) => {
                Err(self.wrong_column(column, "a number"))
            }
        }
    }

    /// A column that names a stream.
    pub fn stream(&self, column: usize) -> Result<StreamId, Error> {
        Ok(StreamId(self.uint(column)?))
    }

    /// The position in a column with an entry's key.
    pub fn position(&self, column: usize) -> Result<u64, Error> {
        Ok(self.int(column)?.rem_euclid(EntryKey::PER_TENANT) as u64)
    }

    /// A column with a number that is never negative, such as a count, position or version.
    pub fn uint(&self, column: usize) -> Result<u64, Error> {
        u64::try_from(self.int(column)?).map_err(|_| self.wrong_column(column, "a number from 0"))
    }

    /// A column with a boolean, stored as 0 or 1.
    pub fn flag(&self, column: usize) -> Result<bool, Error> {
        Ok(self.int(column)? != 0)
    }

    /// A column with a text.
    pub fn text(&self, column: usize) -> Result<&str, Error> {
        match self.value(column) {
            SqlValue::Text(text) => Ok(text),
            SqlValue::Null | SqlValue::Int(_) | SqlValue::Bytes(_) => Err(self.wrong_column(column, "text")),
        }
    }

    /// A column with one of the texts of an enum.
    pub fn parsed<T: FromStr>(&self, column: usize) -> Result<T, Error> {
        self.text(column)?.parse().map_err(|_| self.wrong_column(column, "a known word"))
    }

    /// A column with bytes.
    pub fn bytes(&self, column: usize) -> Result<&[u8], Error> {
        match self.value(column) {
            SqlValue::Bytes(bytes) => Ok(bytes),
            SqlValue::Null | SqlValue::Int(_) | SqlValue::Text(_) => Err(self.wrong_column(column, "bytes")),
        }
    }

    /// A column with exactly 32 bytes.
    pub fn hash(&self, column: usize) -> Result<[u8; 32], Error> {
        self.bytes(column)?.try_into().map_err(|_| self.wrong_column(column, "32 bytes"))
    }

    /// Whether the column is null. False for a missing column.
    pub fn is_null(&self, column: usize) -> bool {
        self.0.get(column) == Some(&SqlValue::Null)
    }

    /// A column with a number or null.
    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, Error> {
        if self.is_null(column) { Ok(None) } else { self.int(column).map(Some) }
    }

    /// A column with a text or null.
    pub fn optional_text(&self, column: usize) -> Result<Option<&str>, Error> {
        if self.is_null(column) { Ok(None) } else { self.text(column).map(Some) }
    }

    /// Moves a text out of the row and leaves null, so that folding a long stream copies no bodies.
    pub fn take_text(&mut self, column: usize) -> Result<String, Error> {
        self.text(column)?;
        match self.take(column) {
            SqlValue::Text(text) => Ok(text),
            SqlValue::Null | SqlValue::Int(_) | SqlValue::Bytes(_) => Err(self.wrong_column(column, "text")),
        }
    }

    /// Moves bytes out of the row and leaves null.
    pub fn take_bytes(&mut self, column: usize) -> Result<Vec<u8>, Error> {
        self.bytes(column)?;
        match self.take(column) {
            SqlValue::Bytes(bytes) => Ok(bytes),
            SqlValue::Null | SqlValue::Int(_) | SqlValue::Text(_) => Err(self.wrong_column(column, "bytes")),
        }
    }

    /// Moves a value out of the row and leaves null.
    fn take(&mut self, column: usize) -> SqlValue {
        self.0.get_mut(column).map_or(SqlValue::Null, |value| std::mem::replace(value, SqlValue::Null))
    }
}
