//! Executions over time as stacked bars, one for each period; each leads to its executions.

use actbook_engine::policy::ExecutionStatus;
use askama::Template;
use askama::filters::HtmlSafe;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::RowLinks;
use crate::service::{ExecutionFigures, PeriodFigures, PeriodLength};

/// Height of the tallest bar, in SVG units.
const HEIGHT: f64 = 120.0;
/// The least height of a part that counts something.
const PART_HEIGHT_MIN: f64 = 1.5;

/// The room for at least this many periods, so that a single one is no wall.
const PERIODS_MIN: i64 = 16;

/// The order of the parts of a bar, from the bottom.
const STATUSES: [ExecutionStatus; 8] = [
    ExecutionStatus::Succeeded,
    ExecutionStatus::Compensated,
    ExecutionStatus::Cancelled,
    ExecutionStatus::Paused,
    ExecutionStatus::Running,
    ExecutionStatus::Compensating,
    ExecutionStatus::Blocked,
    ExecutionStatus::Failed,
];

/// The chart.
#[derive(Debug, Template)]
#[template(path = "statistics_chart.html")]
pub struct StatusChart {
    bars: Vec<PeriodBar>,
    /// `an hour`, `a day` or `a week`.
    every: &'static str,
    most: u64,
    first: String,
    last: String,
}

impl HtmlSafe for StatusChart {}

/// One period. Positions across are in percent.
#[derive(Debug)]
struct PeriodBar {
    path: String,
    told: String,
    left: String,
    width: String,
    parts: Vec<BarPart>,
}

/// The executions of one status.
#[derive(Debug)]
struct BarPart {
    class: &'static str,
    top: String,
    height: String,
}

impl StatusChart {
    /// The chart of these figures. `None`: nothing began.
    pub fn of(figures: &ExecutionFigures, links: &RowLinks<'_>) -> Option<Self> {
        let (first, last) = (figures.over_time.first()?, figures.over_time.last()?);
        let length_ms = figures.every.length_ms();
        let periods = ((last.from_ms - first.from_ms) / length_ms + 1).max(PERIODS_MIN) as f64;
        let total = |period: &PeriodFigures| period.by_status.values().sum::<u64>();
        let most = figures.over_time.iter().map(total).max().unwrap_or(1).max(1);
        let bar = |period: &PeriodFigures| {
            let number = ((period.from_ms - first.from_ms) / length_ms) as f64;
            let until = time_text(period.from_ms + length_ms);
            PeriodBar {
                path: links.executions(&[("since", &time_text(period.from_ms)), ("until", &until)]),
                told: told(period, figures.every),
                left: format!("{:.2}%", (number + 0.1) / periods * 100.0),
                width: format!("{:.2}%", 0.8 / periods * 100.0),
                parts: parts(period, most),
            }
        };
        Some(Self {
            bars: figures.over_time.iter().map(bar).collect(),
            every: match figures.every {
                PeriodLength::Hour => "an hour",
                PeriodLength::Day => "a day",
                PeriodLength::Week => "a week",
            },
            most,
            first: label(first.from_ms, figures.every),
            last: label(last.from_ms, figures.every),
        })
    }
}

fn parts(period: &PeriodFigures, most: u64) -> Vec<BarPart> {
    let mut bottom = HEIGHT;
    let mut parts = Vec::new();
    for status in STATUSES {
        let count = period.by_status.get(status.as_str()).copied().unwrap_or(0);
        if count > 0 {
            let height = (count as f64 / most as f64 * HEIGHT).max(PART_HEIGHT_MIN);
            bottom = (bottom - height).max(0.0);
            parts.push(BarPart {
                class: status.as_str(),
                top: format!("{bottom:.1}"),
                height: format!("{height:.1}"),
            });
        }
    }
    parts
}

/// `16 Nov: 12 succeeded, 1 failed`
fn told(period: &PeriodFigures, every: PeriodLength) -> String {
    let counts = STATUSES.iter().rev().filter_map(|status| {
        let count = period.by_status.get(status.as_str()).filter(|count| **count > 0)?;
        Some(format!("{count} {}", status.as_str()))
    });
    format!("{}: {}", label(period.from_ms, every), counts.collect::<Vec<_>>().join(", "))
}

fn time_text(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map(|at| at.to_string()).unwrap_or_default()
}

fn label(at_ms: i64, every: PeriodLength) -> String {
    let style = match every {
        PeriodLength::Hour => "%-d %b %H:%M",
        PeriodLength::Day | PeriodLength::Week => "%-d %b",
    };
    let at = Timestamp::from_millisecond(at_ms).map(|at| at.to_zoned(TimeZone::UTC));
    at.map(|at| at.strftime(style).to_string()).unwrap_or_default()
}
