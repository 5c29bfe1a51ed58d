//! The timeline of an execution: a lane for each step, one bar an attempt. Long stretches in which nothing ran are
//! compressed, so that a retry days later does not squeeze the rest.

use actbook_engine::policy::Outcome;
use askama::Template;
use askama::filters::HtmlSafe;

use super::markup::StatusMark;
use super::times::duration;
use crate::service::{SpanKind, StepSpan, StepTimeline, Timeline};

/// Lanes that are drawn; the table of steps shows the rest.
const LANES_MAX: usize = 150;
/// A stretch without any span is compressed if it is longer than this share of the time in which something ran.
const GAP_SHARE: f64 = 0.5;
/// The width of a compressed stretch, as a share of the whole.
const GAP_WIDTH: f64 = 0.04;
/// The least width of a bar, as a share of the whole.
const BAR_WIDTH_MIN: f64 = 0.004;

/// The view of the timeline.
#[derive(Debug, Template)]
#[template(path = "execution_timeline.html")]
pub struct TimelinePart {
    lanes: Vec<Lane>,
    /// Where stretches were compressed, in percent, and how long each was.
    gaps: Vec<(String, String)>,
    whole: String,
    left_out: usize,
}

impl HtmlSafe for TimelinePart {}

/// The bars of one step.
#[derive(Debug)]
struct Lane {
    id: String,
    mark: StatusMark,
    bars: Vec<Bar>,
    told: String,
    took: String,
}

/// One bar; positions in percent.
#[derive(Debug)]
struct Bar {
    class: &'static str,
    left: String,
    width: String,
    right: String,
    is_line: bool,
}

impl TimelinePart {
    /// The view at the time `now_ms`, up to which open spans are drawn.
    pub fn of(timeline: &Timeline, now_ms: i64) -> Self {
        let end = timeline.ended_ms.unwrap_or(now_ms).max(timeline.from_ms + 1);
        let axis = TimeAxis::of(timeline, end);
        let lanes = timeline.steps.iter().take(LANES_MAX).map(|step| lane(step, &axis, end)).collect();
        Self {
            lanes,
            gaps: axis.gaps.iter().map(|(at, ms)| (percent(*at), duration(*ms))).collect(),
            whole: duration(end - timeline.from_ms),
            left_out: timeline.steps.len().saturating_sub(LANES_MAX),
        }
    }
}

/// Where each time lies between 0 and 1.
struct TimeAxis {
    /// Times and their places, in order; in between places are interpolated.
    points: Vec<(i64, f64)>,
    /// The middle of each compressed stretch, and its length in milliseconds.
    gaps: Vec<(f64, i64)>,
}

impl TimeAxis {
    fn of(timeline: &Timeline, end: i64) -> Self {
        let busy = busy_stretches(timeline, end);
        let busy_ms: i64 = busy.iter().map(|(from, to)| to - from).sum::<i64>().max(1);
        let is_long = |ms: i64| ms as f64 > busy_ms as f64 * GAP_SHARE;
        let mut edges = vec![timeline.from_ms];
        edges.extend(busy.iter().flat_map(|(from, to)| [*from, *to]));
        edges.push(end);
        // Every second stretch is idle: before, between and after the busy ones.
        let idle = edges.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
        let long: Vec<(i64, i64)> = idle.filter(|(from, to)| is_long(to - from)).collect();
        let long_ms: i64 = long.iter().map(|(from, to)| to - from).sum();
        let whole_ms = (end - timeline.from_ms - long_ms).max(1) as f64;
        let room = (1.0 - GAP_WIDTH * long.len() as f64).max(0.2);
        let (mut points, mut gaps) = (vec![(timeline.from_ms, 0.0)], Vec::new());
        let (mut at, mut place) = (timeline.from_ms, 0.0);
        for (from, to) in long {
            place += (from - at) as f64 / whole_ms * room;
            points.push((from, place));
            gaps.push((place + GAP_WIDTH / 2.0, to - from));
            place += GAP_WIDTH;
            points.push((to, place));
            at = to;
        }
        points.push((end, 1.0));
        Self { points, gaps }
    }

    fn place(&self, at: i64) -> f64 {
        let after = self.points.iter().position(|(time, _)| *time >= at).unwrap_or(self.points.len() - 1);
        let (to_time, to) = self.points[after];
        let (from_time, from) = self.points[after.saturating_sub(1)];
        if to_time == from_time {
            return to;
        }
        from + (to - from) * (at - from_time) as f64 / (to_time - from_time) as f64
    }
}

/// The stretches in which something ran, merged and in order.
fn busy_stretches(timeline: &Timeline, end: i64) -> Vec<(i64, i64)> {
    let runs = |span: &&StepSpan| span.kind != SpanKind::RetryDelay;
    let spans = timeline.steps.iter().flat_map(|step| step.spans.iter().filter(runs));
    let mut stretches: Vec<(i64, i64)> =
        spans.map(|span| (span.from_ms, span.to_ms.unwrap_or(end).min(end))).collect();
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

fn lane(step: &StepTimeline, axis: &TimeAxis, end: i64) -> Lane {
    let first = step.spans.first().map(|span| span.from_ms);
    let last = step.spans.iter().map(|span| span.to_ms.unwrap_or(end)).max();
    let took = first.zip(last).map_or("–".to_owned(), |(first, last)| duration(last - first));
    let mark = StatusMark::of_step(step.status);
    let attempts = if step.attempts > 1 { format!(", {} attempts", step.attempts) } else { String::new() };
    Lane {
        told: format!("{}, {}{attempts}, {took}", step.id, mark.word.to_lowercase()),
        id: step.id.to_string(),
        mark,
        bars: step.spans.iter().map(|span| bar(span, axis, end)).collect(),
        took,
    }
}

fn bar(span: &StepSpan, axis: &TimeAxis, end: i64) -> Bar {
    let (from, to) = (axis.place(span.from_ms), axis.place(span.to_ms.unwrap_or(end)));
    let width = (to - from).max(BAR_WIDTH_MIN);
    let left = from.min(1.0 - width);
    let class = match span.kind {
        SpanKind::Attempt(Some(Outcome::Succeeded)) => "b-ok",
        SpanKind::Attempt(Some(Outcome::Failed)) => "b-bad",
        SpanKind::Attempt(Some(Outcome::Unknown)) => "b-unk",
        SpanKind::Attempt(None) => "b-run",
        SpanKind::RetryDelay => "b-retry",
        SpanKind::Compensation => "b-comp",
    };
    let is_line = span.kind == SpanKind::RetryDelay;
    Bar { class, left: percent(left), width: percent(width), right: percent(left + width), is_line }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use actbook_engine::id::StepId;
    use actbook_engine::policy::StepStatus;

    use super::*;

    #[test]
    fn long_idle_stretch_is_compressed() {
        let attempt = |from_ms, to_ms| StepSpan {
            kind: SpanKind::Attempt(Some(Outcome::Failed)),
            from_ms,
            to_ms: Some(to_ms),
        };
        let spans = vec![attempt(0, 1_000), attempt(90_000_000, 90_001_000)];
        let step = StepTimeline { id: StepId::new("a"), status: StepStatus::Failed, attempts: 2, spans };
        let timeline = Timeline { from_ms: 0, ended_ms: Some(90_001_000), steps: vec![step] };
        let axis = TimeAxis::of(&timeline, 90_001_000);
        assert_eq!(axis.gaps.len(), 1);
        assert!((axis.place(1_000) - 0.48).abs() < 0.01, "{}", axis.place(1_000));
        assert!((axis.place(90_000_000) - 0.52).abs() < 0.01, "{}", axis.place(90_000_000));
        assert!((axis.place(90_001_000) - 1.0).abs() < 1e-9);
    }
}
