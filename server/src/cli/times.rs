//! Times as people write and read them: ages such as `2h`, times in the local zone, durations.

use actbook_engine::plan::{parse_age_ms, parse_duration_ms};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::service::{DayEdge, parse_time};

/// Unix time in milliseconds.
pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Parses an age such as `90d`, `2h` or `30m` into milliseconds; `Err` is the usage text.
pub fn age(text: &str) -> Result<i64, String> {
    parse_age_ms(text).ok_or_else(|| "write it as in 30m, 2h or 90d".to_owned())
}

/// Parses a duration such as `500ms`, `30s` or `5m` into milliseconds; `Err` is the usage text.
pub fn span(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).ok_or_else(|| "write it as in 500ms, 30s or 5m".to_owned())
}

/// Parses `--since` into Unix milliseconds: an age, a date (its beginning in the local zone), or an RFC 3339
/// time.
pub fn since(text: &str) -> Result<i64, String> {
    parse_time_argument(text, DayEdge::Start)
}

/// Parses `--until` like `since`, but a date includes its whole day.
pub fn until(text: &str) -> Result<i64, String> {
    parse_time_argument(text, DayEdge::End)
}

/// Parses an age, a date or a time into Unix milliseconds; a date means the given edge of its day.
fn parse_time_argument(text: &str, edge: DayEdge) -> Result<i64, String> {
    let usage = || "write it as in 30m, 2h, 3d (ago), 2030-01-31, or 2030-01-31T12:00:00Z".to_owned();
    parse_time(text, edge, &TimeZone::system()).ok_or_else(usage)
}

fn to_local(at: Timestamp) -> jiff::Zoned {
    at.to_zoned(TimeZone::system())
}

/// A Unix time in milliseconds as the local time of day, `12:00:01`.
pub fn local_time(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| to_local(at).strftime("%H:%M:%S").to_string())
}

/// An RFC 3339 time as local date and time, `2030-01-31 12:00:01`; unchanged if it cannot be parsed.
pub fn local_date_time(text: &str) -> String {
    let at = text.parse::<Timestamp>();
    at.map_or_else(|_| text.to_owned(), |at| to_local(at).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A duration in milliseconds for people: `42 ms`, `2.1 s`, `3 m 07 s`, `1 h 05 m`.
pub fn elapsed_text(ms: i64) -> String {
    let seconds = ms as f64 / 1000.0;
    match ms {
        ..0 => "0 s".to_owned(),
        0..100 => format!("{ms} ms"),
        100..60_000 => format!("{seconds:.1} s"),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms / 1000 % 60),
        3_600_000.. => format!("{} h {:02} m", ms / 3_600_000, ms / 60_000 % 60),
    }
}
