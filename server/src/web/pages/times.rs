//! Times and durations on pages. A page is rendered in UTC; the script shows times as the reader chose.

use std::fmt::{self, Display, Formatter};

use askama::filters::HtmlSafe;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A point in time: a `time` element with the time of day, and the date if it is another day.
#[derive(Clone, Debug)]
pub struct PageTime {
    /// RFC 3339 in UTC.
    at: String,
    has_millis: bool,
}

/// A point in time, from the text of a view.
pub fn page_time(at: &str) -> PageTime {
    PageTime { at: at.to_owned(), has_millis: false }
}

/// Like `page_time`, to the millisecond.
pub fn page_time_ms(at: &str) -> PageTime {
    PageTime { at: at.to_owned(), has_millis: true }
}

impl Display for PageTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Ok(at) = self.at.parse::<Timestamp>() else { return Ok(()) };
        let zoned = at.to_zoned(TimeZone::UTC);
        let is_today = Timestamp::now().to_zoned(TimeZone::UTC).date() == zoned.date();
        let style = match (is_today, self.has_millis) {
            (true, false) => "%H:%M:%S",
            (true, true) => "%H:%M:%S%.3f",
            (false, false) => "%-d %b %H:%M",
            (false, true) => "%-d %b %H:%M:%S%.3f",
        };
        let millis = if self.has_millis { " data-millis" } else { "" };
        let (whole, shown) = (zoned.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"), zoned.strftime(style));
        write!(f, "<time datetime=\"{whole}\"{millis}>{shown}</time>")
    }
}

impl HtmlSafe for PageTime {}

/// How long something took or has been going on: a `time` element that the script keeps counting while open.
#[derive(Clone, Debug)]
pub struct PageDuration {
    from: Option<Timestamp>,
    ended: bool,
    ms: i64,
}

/// The duration between two times of a view; up to now if there is no end.
pub fn elapsed(from: &str, to: Option<&str>) -> PageDuration {
    let from = from.parse::<Timestamp>().ok();
    let end = to.and_then(|to| to.parse().ok()).unwrap_or_else(Timestamp::now);
    let ms = from.map_or(0, |from| end.as_millisecond() - from.as_millisecond());
    PageDuration { from, ended: to.is_some(), ms }
}

/// The duration since a time, in milliseconds since 1970, up to now.
pub fn going_on_since(from_ms: i64) -> PageDuration {
    let ms = Timestamp::now().as_millisecond() - from_ms;
    PageDuration { from: Timestamp::from_millisecond(from_ms).ok(), ended: false, ms }
}

/// Begins the element of a duration that goes on.
pub const OPEN_DURATION: &str = "<time data-since=\"";

impl Display for PageDuration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.from, self.ended) {
            (Some(from), false) => {
                write!(f, "{OPEN_DURATION}{}\">{}</time>", from.as_millisecond(), open_duration(self.ms))
            }
            (_, _) => f.write_str(&duration(self.ms)),
        }
    }
}

impl HtmlSafe for PageDuration {}

/// A duration that goes on, in whole seconds: finer parts would differ in each rendering, and are past when read.
fn open_duration(ms: i64) -> String {
    if ms < 60_000 { format!("{}s", ms.max(0) / 1_000) } else { duration(ms) }
}

/// A duration in words: `820ms`, `52s`, `3m 32s`, `1h 12m`, `2d 4h`.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours, days) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    if ms < 1_000 {
        format!("{ms}ms")
    } else if ms < 10_000 {
        format!("{}.{}s", seconds, ms % 1_000 / 100)
    } else if minutes == 0 {
        format!("{seconds}s")
    } else if hours == 0 {
        format!("{minutes}m {:02}s", seconds % 60)
    } else if days == 0 {
        format!("{hours}h {:02}m", minutes % 60)
    } else {
        format!("{days}d {}h", hours % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_name_their_two_largest_units() {
        let texts = [-5, 820, 1_230, 52_000, 212_000, 4_320_000, 187_200_000].map(duration);
        assert_eq!(texts.join(" | "), "0ms | 820ms | 1.2s | 52s | 3m 32s | 1h 12m | 2d 4h");
        let open = [-5, 820, 1_230, 52_000, 212_000].map(open_duration);
        assert_eq!(open.join(" | "), "0s | 0s | 1s | 52s | 3m 32s");
        assert_eq!(page_time("<script>").to_string(), "");
    }
}
