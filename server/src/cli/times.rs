//! Times as people write and read them: `2h` ago, a clock in the local zone, how long something took.

use actbook_engine::plan::{parse_age_ms, parse_duration_ms};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use actbook::service::{DayEdge, parse_time};

pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// `90d`, `2h`, `30m`: milliseconds.
pub fn age(text: &str) -> Result<i64, String> {
    parse_age_ms(text).ok_or_else(|| "write it as in 30m, 2h or 90d".to_owned())
}

/// `30s`, `5m`: milliseconds.
pub fn span(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).ok_or_else(|| "write it as in 500ms, 30s or 5m".to_owned())
}

/// For `--since`: an age, a date (its beginning, here), or RFC 3339.
pub fn since(text: &str) -> Result<i64, String> {
    point(text, DayEdge::Start)
}

/// For `--until`: the same, and a date includes its whole day.
pub fn until(text: &str) -> Result<i64, String> {
    point(text, DayEdge::End)
}

fn point(text: &str, edge: DayEdge) -> Result<i64, String> {
    let wrong = || "write it as in 30m, 2h, 3d (ago), 2030-01-31, or 2030-01-31T12:00:00Z".to_owned();
    parse_time(text, edge, &TimeZone::system()).ok_or_else(wrong)
}

fn local(at: Timestamp) -> jiff::Zoned {
    at.to_zoned(TimeZone::system())
}

/// The time of day here.
pub fn clock(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| local(at).strftime("%H:%M:%S").to_string())
}

/// A view's RFC 3339 time as date and time of day here.
pub fn date(text: &str) -> String {
    let at = text.parse::<Timestamp>();
    at.map_or_else(|_| text.to_owned(), |at| local(at).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// How long something took.
pub fn took(ms: i64) -> String {
    let seconds = ms as f64 / 1000.0;
    match ms {
        ..0 => "0 s".to_owned(),
        0..100 => format!("{ms} ms"),
        100..60_000 => format!("{seconds:.1} s"),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms / 1000 % 60),
        3_600_000.. => format!("{} h {:02} m", ms / 3_600_000, ms / 60_000 % 60),
    }
}
