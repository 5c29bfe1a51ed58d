//! The query of a request: parsed into a type, with a problem that names what is wrong.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use jiff::tz::TimeZone;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value, json};

use crate::error::Error;
use crate::service::{DayEdge, parse_time};
use crate::web::Problem;

/// Longest `wait_s`, in seconds: clients and proxies give up on silent requests.
const WAIT_S_MAX: f64 = 300.0;
/// Up to this number a JSON number with a fraction of zero is exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// The query of a request.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(Problem::bad_parameter("query", error.body_text())),
        }
    }
}

/// Reads an integer of a body: `1.0` is one too, as JSON Schema has it.
pub fn integer<'de, D: Deserializer<'de>, T: TryFrom<i64>>(given: D) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(given)? else { return Ok(None) };
    let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() <= WHOLE_MAX;
    let whole = number.as_i64().or_else(|| number.as_f64().filter(is_whole).map(|number| number as i64));
    let integer = whole.and_then(|whole| T::try_from(whole).ok());
    integer.map(Some).ok_or_else(|| D::Error::custom(format!("`{number}` is no integer that fits here")))
}

/// The words that a parameter can be, for its schema. Null stands for a field that is not given.
pub fn choices<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Vec<Option<&'static str>> {
    all.iter().map(|one| Some(word(*one))).chain([None]).collect()
}

/// The forms of a point in time, for a schema.
pub fn time_forms() -> Value {
    json!([{ "format": "date-time" }, { "format": "date" }, { "pattern": "^[0-9]{1,4}(ms|s|m|h|d)$" }])
}

/// The form of a duration, for a schema.
pub const DURATION_PATTERN: &str = "^[0-9]{1,4}(ms|s|m|h)$";

/// A parameter that is one of a closed set of words: an unknown word would silently match nothing.
pub fn word<T: FromStr<Err = String>>(
    unknown: fn(String) -> Error,
    given: Option<String>,
) -> Result<Option<T>, Problem> {
    Ok(given.map(|word| word.parse()).transpose().map_err(unknown)?)
}

/// The words of a search; empty if there is none.
pub fn words(search: Option<String>) -> Vec<String> {
    search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect()
}

/// A parameter that is a point in time, in milliseconds since 1970: RFC 3339, a date, or an age such as `2h`.
pub fn time(name: &str, given: Option<String>) -> Result<Option<i64>, Problem> {
    let edge = if name == "until" { DayEdge::End } else { DayEdge::Start };
    let parse = |text: String| {
        let wrong = || {
            let detail = format!("`{text}` is no time; write 2030-01-31T12:00:00Z, 2030-01-31 or 2h");
            Problem::bad_parameter(name, detail)
        };
        parse_time(&text, edge, &TimeZone::UTC).ok_or_else(wrong)
    };
    given.map(parse).transpose()
}

/// The time limit of a wait; zero if none was given. Err: out of range.
pub fn wait(wait_s: Option<f64>) -> Result<Duration, Problem> {
    let wait_s = wait_s.unwrap_or(0.0);
    if (0.0..=WAIT_S_MAX).contains(&wait_s) {
        return Ok(Duration::from_secs_f64(wait_s));
    }
    Err(Problem::bad_parameter("wait_s", format!("`wait_s` is 0 to {WAIT_S_MAX} seconds")))
}
