//! Parses points in time as people and agents write them: RFC 3339, a date, a date and a time of day, or an
//! age.

use actbook_engine::plan::parse_age_ms;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// Which end of a day a bare date means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayEdge {
    /// Midnight at its start: for `since`.
    Start,
    /// Midnight at its end: for `until`, so that the day itself is included.
    End,
}

/// Parses a point in time into milliseconds since 1970. A text without an offset is a time in `zone`; an age
/// (`2h`, `3d`) counts back from now; `edge` is for a date without a time of day. `None`: the text has none
/// of these forms.
pub fn parse_time(text: &str, edge: DayEdge, zone: &TimeZone) -> Option<i64> {
    let text = text.trim();
    if let Some(age_ms) = parse_age_ms(text) {
        return Some(Timestamp::now().as_millisecond().saturating_sub(age_ms));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    let local = if is_bare_date(text) { day_edge(text.parse().ok()?, edge)? } else { text.parse().ok()? };
    local.to_zoned(zone.clone()).ok().map(|at| at.timestamp().as_millisecond())
}

/// Whether a text has the length of a date without a time of day.
fn is_bare_date(text: &str) -> bool {
    text.len() == "2030-01-31".len()
}

/// Midnight at the start or the end of a day. `None`: beyond the last representable date.
fn day_edge(date: Date, edge: DayEdge) -> Option<DateTime> {
    let day = match edge {
        DayEdge::Start => date,
        DayEdge::End => date.tomorrow().ok()?,
    };
    Some(day.at(0, 0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_time_reads_bare_times_in_the_given_zone() {
        let utc = |text: &str, edge| parse_time(text, edge, &TimeZone::UTC);
        let noon = utc("2026-11-16T12:00:00Z", DayEdge::Start).unwrap();
        let hour = 3_600_000;
        assert_eq!(utc("2026-11-16", DayEdge::Start), Some(noon - 12 * hour));
        assert_eq!(utc("2026-11-16", DayEdge::End), Some(noon + 12 * hour));
        assert_eq!(utc("2026-11-16 12:00", DayEdge::End), Some(noon));
        assert_eq!(utc("2026-11-16T12:00:00", DayEdge::End), Some(noon));
        assert_eq!(utc("2026-11-16T13:00:00+01:00", DayEdge::End), Some(noon));
        let east = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(parse_time("2026-11-16", DayEdge::Start, &east), Some(noon - 13 * hour));
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-16T25:00", "16.11.2026"] {
            assert_eq!(utc(wrong, DayEdge::Start), None, "{wrong}");
        }
    }
}
