//! The timeline of an execution: a lane for each step, one bar an attempt. Long stretches in which nothing ran are
//! compressed, so that a retry days later does not squeeze the rest. Behind a break of the axis stand the calls that
//! an undo would make.

mod axis;

use actbook_engine::policy::{ExecutionStatus, Outcome};
use askama::Template;
use askama::filters::HtmlSafe;

use super::execution::PageQuery;
use super::markup::{Markup, StatusMark, count};
use super::times::duration;
use crate::service::view::ExecutionView;
use crate::service::{SpanKind, StepSpan, StepTimeline, Timeline, UndoItem};
use axis::{AxisTick, TimeAxis};

/// Lanes of one page.
const LANES_PER_PAGE: usize = 100;
/// The least width of a bar, as a share of the whole.
const BAR_WIDTH_MIN: f64 = 0.004;
/// Where the time axis ends if the calls of an undo are drawn behind it.
const AXIS_END_BEFORE_UNDO: f64 = 0.85;
/// Where the calls of an undo begin.
const UNDO_START: f64 = 0.88;
/// The greatest width of the bar of a call that an undo would make.
const UNDO_WIDTH_MAX: f64 = 0.03;

/// The view of the timeline.
#[derive(Debug, Template)]
#[template(path = "execution_timeline.html")]
pub struct TimelinePart {
    lanes: Vec<Lane>,
    ticks: Vec<AxisTick>,
    /// Where stretches were compressed, in percent.
    gaps: Vec<String>,
    /// How long each of them was.
    gaps_told: String,
    whole: String,
    /// The place of the present, if the execution goes on.
    now: Option<String>,
    /// Where the axis breaks, and how many calls an undo would make.
    undo: Option<(String, String)>,
    /// The kinds of bars that occur, for the legend.
    legend: Vec<(&'static str, &'static str)>,
    total: usize,
    first: usize,
    before_path: Option<String>,
    next_path: Option<String>,
}

impl HtmlSafe for TimelinePart {}

/// The bars of one step, or of the whole execution.
#[derive(Debug)]
struct Lane {
    label: Markup,
    class: &'static str,
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
    told: String,
}

/// What is drawn for a span: the class of its bar, and what it means.
const KINDS: [(&str, &str); 9] = [
    ("b-queue", "queued"),
    ("b-run", "in flight"),
    ("b-ok", "succeeded"),
    ("b-bad", "failed"),
    ("b-unk", "unknown"),
    ("b-wait", "waits for a person or an agent"),
    ("b-retry", "retries later"),
    ("b-comp", "compensating"),
    ("b-pause", "paused"),
];
/// The bar of a call that an undo would make.
const PLANNED: (&str, &str) = ("b-plan", "undo would run");

impl TimelinePart {
    /// The view at the time `now_ms`, up to which open spans are drawn.
    pub fn of(view: &ExecutionView, timeline: &Timeline, query: &PageQuery, now_ms: i64) -> Self {
        let undo = planned_undo(view);
        let end = timeline.ended_ms.unwrap_or(now_ms).max(timeline.from_ms + 1);
        let axis = TimeAxis::of(timeline, end, if undo.is_empty() { 1.0 } else { AXIS_END_BEFORE_UNDO });
        let mut lanes: Vec<Lane> = Vec::new();
        if !timeline.whole.is_empty() && query.from == 0 {
            lanes.push(Lane::of_whole(&timeline.whole, &axis));
        }
        let paths = query.step_paths(view.id.as_str());
        let shown = timeline.steps.iter().skip(query.from).take(LANES_PER_PAGE);
        lanes.extend(shown.map(|step| Lane::of_step(step, &paths.of(step.id.as_str()), &axis, undo)));
        let kept = query.kept(&["from"]);
        let path = |from: usize| format!("/executions/{}?view=timeline{kept}&from={from}#tabs", view.id);
        let next = query.from + LANES_PER_PAGE;
        let is_drawn = |class: &str| lanes.iter().any(|lane| lane.bars.iter().any(|bar| bar.class == class));
        let legend = KINDS.into_iter().chain([PLANNED]).filter(|(class, _)| is_drawn(class)).collect();
        Self {
            legend,
            ticks: axis.ticks(),
            gaps: axis.gaps.iter().map(|gap| percent(gap.place)).collect(),
            gaps_told: axis.gaps.iter().map(|gap| duration(gap.ms)).collect::<Vec<_>>().join(", "),
            whole: duration(end - timeline.from_ms),
            now: timeline.ended_ms.is_none().then(|| percent(axis.end)),
            undo: (!undo.is_empty()).then(|| (percent(axis.end), count(undo.len(), "call"))),
            total: timeline.steps.len(),
            first: query.from + 1,
            before_path: (query.from > 0).then(|| path(query.from.saturating_sub(LANES_PER_PAGE))),
            next_path: (next < timeline.steps.len()).then(|| path(next)),
            lanes,
        }
    }
}

/// The calls that an undo would make; none unless something went wrong and no undo has begun.
fn planned_undo(view: &ExecutionView) -> &[UndoItem] {
    let may_begin = match view.status {
        ExecutionStatus::Running
        | ExecutionStatus::Paused
        | ExecutionStatus::Blocked
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled => true,
        ExecutionStatus::Compensating | ExecutionStatus::Compensated | ExecutionStatus::Succeeded => false,
    };
    view.brief.as_ref().filter(|_| may_begin).map_or(&[], |brief| &brief.undo)
}

impl Lane {
    fn of_whole(spans: &[StepSpan], axis: &TimeAxis) -> Self {
        Self {
            label: Markup::from_rendered("<span class=\"cut muted\">whole plan</span>".to_owned()),
            class: "pending",
            bars: spans.iter().filter_map(|span| Bar::of(span, 0, axis)).collect(),
            told: "The whole plan".to_owned(),
            took: String::new(),
        }
    }

    fn of_step(step: &StepTimeline, link: &str, axis: &TimeAxis, undo: &[UndoItem]) -> Self {
        let worked = || step.spans.iter().filter(|span| span.kind != SpanKind::Queued);
        let first = worked().map(|span| span.from_ms).min();
        let last = worked().map(|span| span.to_ms.unwrap_or(axis.until_ms)).max();
        let took = first.zip(last).map_or("–".to_owned(), |(first, last)| duration(last - first));
        let mark = StatusMark::of_step(step.status);
        let attempts =
            if step.attempts > 1 { format!(", {} attempts", step.attempts) } else { String::new() };
        let mut attempt = 0;
        let mut bars = Vec::new();
        for span in &step.spans {
            attempt += usize::from(matches!(span.kind, SpanKind::Attempt(_)));
            bars.extend(Bar::of(span, attempt, axis));
        }
        bars.extend(undo.iter().position(|call| call.step == step.id).map(|at| Bar::planned(at, undo.len())));
        let mut label = mark.icon_only();
        label.push(Markup::link(link, step.id.as_str(), "cut"));
        Self {
            label,
            class: mark.class,
            bars,
            told: format!("{}, {}{attempts}, {took}", step.id, mark.word.to_lowercase()),
            took,
        }
    }
}

impl Bar {
    /// The bar of a span. `None`: it waited for its turn so briefly that a bar would say too much.
    fn of(span: &StepSpan, attempt: usize, axis: &TimeAxis) -> Option<Self> {
        let until = span.to_ms.unwrap_or(axis.until_ms);
        let (from, to) = (axis.place(span.from_ms), axis.place(until));
        if span.kind == SpanKind::Queued && to - from < BAR_WIDTH_MIN {
            return None;
        }
        let width = (to - from).max(BAR_WIDTH_MIN);
        let left = from.min(axis.end - width).max(0.0);
        let (class, what) = words(span.kind, attempt);
        let goes_on = if span.to_ms.is_none() { ", goes on" } else { "" };
        Some(Self {
            class,
            left: percent(left),
            width: percent(width),
            right: percent(left + width),
            is_line: span.kind == SpanKind::RetryDelay,
            told: format!("{what}, {}{goes_on}", duration(until - span.from_ms)),
        })
    }

    /// The bar of the undo's call number `at` of `calls`.
    fn planned(at: usize, calls: usize) -> Self {
        let room = (1.0 - UNDO_START) / calls as f64;
        let (left, width) =
            (UNDO_START + room * at as f64, (room * 0.8).clamp(BAR_WIDTH_MIN, UNDO_WIDTH_MAX));
        Self {
            class: PLANNED.0,
            left: percent(left),
            width: percent(width),
            right: percent(left + width),
            is_line: false,
            told: format!("call {} of an undo", at + 1),
        }
    }
}

/// The class of a span's bar, and what it shows.
fn words(kind: SpanKind, attempt: usize) -> (&'static str, String) {
    let undo = |what: &str| format!("undo, {what}");
    match kind {
        SpanKind::Queued => ("b-queue", "queued".to_owned()),
        SpanKind::Waiting => ("b-wait", "waits for a person or an agent".to_owned()),
        SpanKind::Paused => ("b-pause", "paused".to_owned()),
        SpanKind::Attempt(outcome) => {
            let (class, word) = match outcome {
                Some(Outcome::Succeeded) => ("b-ok", "succeeded"),
                Some(Outcome::Failed) => ("b-bad", "failed"),
                Some(Outcome::Unknown) => ("b-unk", "unknown"),
                None => ("b-run", "in flight"),
            };
            (class, format!("attempt {attempt}, {word}"))
        }
        SpanKind::RetryDelay => ("b-retry", "waits to retry".to_owned()),
        SpanKind::Compensation(outcome) => match outcome {
            Some(Outcome::Succeeded) => ("b-comp", undo("succeeded")),
            Some(Outcome::Failed) => ("b-bad", undo("failed")),
            Some(Outcome::Unknown) => ("b-unk", undo("unknown")),
            None => ("b-comp", undo("in flight")),
        },
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
