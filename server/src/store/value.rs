//! What goes into a statement and comes out of a row: the four kinds that both databases share.

use super::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Int(_) => "a number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<u64> for Value {
    /// Nothing counted here comes near 2^63; a cursor beyond it means "past the end" either way.
    fn from(number: u64) -> Self {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Int(i64::from(flag))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value::Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value::Bytes(bytes)
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(bytes: [u8; N]) -> Self {
        Value::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// One statement, written once for both databases with `$1` markers, and what to put in for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub sql: &'static str,
    pub params: Vec<Value>,
}

impl Statement {
    pub fn new(sql: &'static str, params: Vec<Value>) -> Self {
        Self { sql, params }
    }
}

/// A row that was read. Getters say which column surprised them; they never panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<Value>);

impl Row {
    pub fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    pub fn values(&self) -> &[Value] {
        &self.0
    }

    fn value(&self, column: usize) -> &Value {
        self.0.get(column).unwrap_or(&Value::Null)
    }

    fn wrong(&self, column: usize, wanted: &'static str) -> Error {
        let found = self.0.get(column).map_or("nothing", Value::name);
        Error::Column { column, wanted, found }
    }

    pub fn int(&self, column: usize) -> Result<i64, Error> {
        match self.value(column) {
            Value::Int(number) => Ok(*number),
            Value::Null | Value::Text(_) | Value::Bytes(_) => Err(self.wrong(column, "a number")),
        }
    }

    /// A count, position or version: a number that is never negative.
    pub fn count(&self, column: usize) -> Result<u64, Error> {
        u64::try_from(self.int(column)?).map_err(|_| self.wrong(column, "a number from 0"))
    }

    pub fn flag(&self, column: usize) -> Result<bool, Error> {
        Ok(self.int(column)? != 0)
    }

    pub fn text(&self, column: usize) -> Result<&str, Error> {
        match self.value(column) {
            Value::Text(text) => Ok(text),
            Value::Null | Value::Int(_) | Value::Bytes(_) => Err(self.wrong(column, "text")),
        }
    }

    pub fn bytes(&self, column: usize) -> Result<&[u8], Error> {
        match self.value(column) {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Null | Value::Int(_) | Value::Text(_) => Err(self.wrong(column, "bytes")),
        }
    }

    pub fn hash(&self, column: usize) -> Result<[u8; 32], Error> {
        self.bytes(column)?.try_into().map_err(|_| self.wrong(column, "32 bytes"))
    }

    pub fn is_null(&self, column: usize) -> bool {
        self.0.get(column) == Some(&Value::Null)
    }

    pub fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        if self.is_null(column) { Ok(None) } else { self.int(column).map(Some) }
    }

    pub fn maybe_text(&self, column: usize) -> Result<Option<&str>, Error> {
        if self.is_null(column) { Ok(None) } else { self.text(column).map(Some) }
    }

    /// Moves a text out of the row, so that folding a long stream does not copy every body.
    pub fn take_text(&mut self, column: usize) -> Result<String, Error> {
        self.text(column)?;
        match self.take(column) {
            Value::Text(text) => Ok(text),
            Value::Null | Value::Int(_) | Value::Bytes(_) => Err(self.wrong(column, "text")),
        }
    }

    pub fn take_bytes(&mut self, column: usize) -> Result<Vec<u8>, Error> {
        self.bytes(column)?;
        match self.take(column) {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Null | Value::Int(_) | Value::Text(_) => Err(self.wrong(column, "bytes")),
        }
    }

    fn take(&mut self, column: usize) -> Value {
        self.0.get_mut(column).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
    }
}
