//! The time axis of a timeline: where each time lies, which stretches are compressed, and the ticks.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::percent;
use crate::service::{SpanKind, StepSpan, Timeline};

/// A stretch in which nothing ran is compressed if it is longer than this share of the time in which something ran.
const GAP_SHARE: f64 = 0.5;
/// The width of a compressed stretch, as a share of the whole.
const GAP_WIDTH: f64 = 0.04;
/// What remains for the rest, however many stretches are compressed.
const ROOM_MIN: f64 = 0.4;
/// Most regular ticks.
const TICKS_MAX: i64 = 5;
/// The least distance between two ticks, as a share of the whole.
const TICK_DISTANCE: f64 = 0.14;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Distances between ticks that read well.
const TICK_STEPS: [i64; 24] = [
    100,
    250,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    30 * DAY,
];

/// Where each time lies between 0 and `end`.
#[derive(Debug)]
pub struct TimeAxis {
    /// Times and their places, in order; in between places are interpolated.
    points: Vec<(i64, f64)>,
    pub gaps: Vec<CompressedGap>,
    /// The place of the last time.
    pub end: f64,
    /// The last time, up to which open spans go.
    pub until_ms: i64,
}

/// A compressed stretch.
#[derive(Debug)]
pub struct CompressedGap {
    /// Its middle.
    pub place: f64,
    pub ms: i64,
    to_ms: i64,
}

/// A tick of the axis.
#[derive(Debug)]
pub struct AxisTick {
    pub left: String,
    /// RFC 3339 in UTC, for the script.
    pub at: String,
    /// `day`, `minute`, `second` or `milli`: what is shown of the time.
    pub precision: &'static str,
    pub shown: String,
}

impl TimeAxis {
    /// The axis of a timeline up to `until_ms`, whose last place is `end`.
    pub fn of(timeline: &Timeline, until_ms: i64, end: f64) -> Self {
        let busy = busy_stretches(timeline, until_ms);
        let busy_ms: i64 = busy.iter().map(|(from, to)| to - from).sum();
        let is_long = |ms: i64| busy_ms > 0 && ms as f64 > busy_ms as f64 * GAP_SHARE;
        let mut edges = vec![timeline.from_ms];
        edges.extend(busy.iter().flat_map(|(from, to)| [*from, *to]));
        edges.push(until_ms);
        // Every second stretch is idle: before, between and after the busy ones.
        let idle = edges.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
        let long: Vec<(i64, i64)> = idle.filter(|(from, to)| is_long(to - from)).collect();
        let long_ms: i64 = long.iter().map(|(from, to)| to - from).sum();
        let whole_ms = (until_ms - timeline.from_ms - long_ms).max(1) as f64;
        let room = (1.0 - GAP_WIDTH * long.len() as f64).max(ROOM_MIN);
        let gap_width = if long.is_empty() { 0.0 } else { (1.0 - room) / long.len() as f64 };
        let (mut points, mut gaps) = (vec![(timeline.from_ms, 0.0)], Vec::new());
        let (mut at, mut place) = (timeline.from_ms, 0.0);
        for (from, to) in long {
            place += (from - at) as f64 / whole_ms * room * end;
            points.push((from, place));
            gaps.push(CompressedGap { place: place + gap_width * end / 2.0, ms: to - from, to_ms: to });
            place += gap_width * end;
            points.push((to, place));
            at = to;
        }
        points.push((until_ms, end));
        Self { points, gaps, end, until_ms }
    }

    pub fn place(&self, at: i64) -> f64 {
        let after = self.points.iter().position(|(time, _)| *time >= at).unwrap_or(self.points.len() - 1);
        let (to_time, to) = self.points[after];
        let (from_time, from) = self.points[after.saturating_sub(1)];
        if to_time == from_time {
            return to;
        }
        from + (to - from) * (at.min(to_time) - from_time) as f64 / (to_time - from_time) as f64
    }

    /// Regular ticks outside of compressed stretches, and one behind each of these; if there is none, one at the start.
    pub fn ticks(&self) -> Vec<AxisTick> {
        let segments: Vec<(i64, i64)> = self.shown_segments().collect();
        let shown_ms: i64 = segments.iter().map(|(from, to)| to - from).sum();
        let step =
            TICK_STEPS.into_iter().find(|step| shown_ms / step <= TICKS_MAX).unwrap_or(shown_ms.max(1));
        let mut times: Vec<i64> = self.gaps.iter().map(|gap| gap.to_ms).collect();
        for (from, to) in segments {
            let first = from.div_euclid(step) + i64::from(from.rem_euclid(step) > 0);
            times.extend((first..=to.div_euclid(step)).map(|number| number * step));
        }
        times.sort_unstable();
        let mut ticks = Vec::new();
        let (mut last, mut last_day) = (-TICK_DISTANCE, None);
        for at in times {
            let place = self.place(at);
            let Ok(time) = Timestamp::from_millisecond(at) else { continue };
            if place - last < TICK_DISTANCE || place > self.end - TICK_DISTANCE / 2.0 {
                continue;
            }
            let date = time.to_zoned(TimeZone::UTC).date();
            let is_other_day = last_day.is_some_and(|day| day != date);
            ticks.push(tick(time, place, if is_other_day { DAY } else { step }));
            (last, last_day) = (place, Some(date));
        }
        if ticks.is_empty() {
            let start = self.points.first().and_then(|(at, _)| Timestamp::from_millisecond(*at).ok());
            ticks.extend(start.map(|start| tick(start, 0.0, step)));
        }
        ticks
    }

    /// The stretches that are not compressed.
    fn shown_segments(&self) -> impl Iterator<Item = (i64, i64)> {
        let pairs = self.points.chunks(2);
        pairs.filter_map(|pair| Some((pair.first()?.0, pair.get(1)?.0))).filter(|(from, to)| from < to)
    }
}

fn tick(time: Timestamp, place: f64, step: i64) -> AxisTick {
    let (precision, style) = match step {
        ..SECOND => ("milli", "%H:%M:%S%.1f"),
        SECOND..MINUTE => ("second", "%H:%M:%S"),
        MINUTE..DAY => ("minute", "%H:%M"),
        _ => ("day", "%-d %b %H:%M"),
    };
    let zoned = time.to_zoned(TimeZone::UTC);
    let at = zoned.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    AxisTick { left: percent(place), at, precision, shown: zoned.strftime(style).to_string() }
}

/// The stretches in which something ran, merged and in order. What only waits does not count.
fn busy_stretches(timeline: &Timeline, until_ms: i64) -> Vec<(i64, i64)> {
    let runs = |span: &&StepSpan| match span.kind {
        SpanKind::Attempt(_) | SpanKind::Compensation(_) => true,
        SpanKind::Queued | SpanKind::Waiting | SpanKind::Paused | SpanKind::RetryDelay => false,
    };
    let spans = timeline.steps.iter().flat_map(|step| step.spans.iter().filter(runs));
    let mut stretches: Vec<(i64, i64)> =
        spans.map(|span| (span.from_ms, span.to_ms.unwrap_or(until_ms).min(until_ms))).collect();
    stretches.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in stretches {
        match merged.last_mut() {
            Some((_, last)) if from <= *last => *last = (*last).max(to),
            Some(_) | None => merged.push((from, to.max(from))),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use actbook_engine::id::StepId;
    use actbook_engine::policy::{Outcome, StepStatus};

    use super::*;
    use crate::service::StepTimeline;

    fn timeline(spans: &[(SpanKind, i64, i64)], ended_ms: i64) -> Timeline {
        let span = |(kind, from_ms, to_ms): &(SpanKind, i64, i64)| StepSpan {
            kind: *kind,
            from_ms: *from_ms,
            to_ms: Some(*to_ms),
        };
        let spans = spans.iter().map(span).collect();
        let step = StepTimeline { id: StepId::new("a"), status: StepStatus::Failed, attempts: 2, spans };
        Timeline { from_ms: 0, ended_ms: Some(ended_ms), whole: Vec::new(), steps: vec![step] }
    }

    const FAILED: SpanKind = SpanKind::Attempt(Some(Outcome::Failed));

    #[test]
    fn long_idle_stretch_is_compressed() {
        let spans =
            [(FAILED, 0, 1_000), (SpanKind::Waiting, 1_000, 90_000_000), (FAILED, 90_000_000, 90_001_000)];
        let axis = TimeAxis::of(&timeline(&spans, 90_001_000), 90_001_000, 1.0);
        assert_eq!(axis.gaps.len(), 1);
        assert!((axis.place(1_000) - 0.48).abs() < 0.01, "{}", axis.place(1_000));
        assert!((axis.place(90_000_000) - 0.52).abs() < 0.01, "{}", axis.place(90_000_000));
        assert!((axis.place(90_001_000) - 1.0).abs() < 1e-9);
        let shown: Vec<String> = axis.ticks().into_iter().map(|tick| tick.shown).collect();
        assert_eq!(shown, ["00:00:00.0", "00:00:00.5", "00:00:01.0", "2 Jan 01:00"]);
    }

    #[test]
    fn axis_of_many_gaps_ends_at_its_end() {
        let spans: Vec<_> = (0..40).map(|n| (FAILED, n * 1_000_000, n * 1_000_000 + 10)).collect();
        let end = 39 * 1_000_000 + 10;
        let axis = TimeAxis::of(&timeline(&spans, end), end, 0.85);
        assert_eq!(axis.gaps.len(), 39);
        assert!((axis.place(end) - 0.85).abs() < 1e-9);
        let places: Vec<f64> = spans.iter().map(|(_, from, _)| axis.place(*from)).collect();
        assert!(places.is_sorted() && places.iter().all(|place| *place <= 0.85), "{places:?}");
        let waits = [(SpanKind::Waiting, 0, 5_000)];
        assert!(TimeAxis::of(&timeline(&waits, 5_000), 5_000, 1.0).gaps.is_empty(), "nothing ran at all");
        let mut short = timeline(&[(FAILED, 10, 20)], 90);
        short.from_ms = 10;
        assert_eq!(TimeAxis::of(&short, 90, 1.0).ticks().len(), 1, "no regular tick lies in it");
    }
}
