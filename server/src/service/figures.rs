//! Statistics: executions over time, plans, tools, failures, retries, the time spent waiting for people, and
//! how well agents' confidence was calibrated. Read from counts that the projector keeps up with the journal.
//! Each item counts in the period in which it began.

use std::collections::BTreeMap;

use actbook_engine::execution::SESSION_PLAN_ID;
use actbook_engine::policy::{EndStatus, ErrorCategory, Outcome, WaitKind};
use serde::Serialize;

use super::count_range::{CountRange, PeriodCount};
use super::journal::Journal;
use super::stats::ToolCallStats;
use super::view::format_time;
use crate::error::{Corruption, Error};
use crate::store::counts::{Count, CountKind, DAY_MS, HOUR_MS, Top};
use crate::store::figures::{self, StatsFilter};
use crate::store::{Histogram, executions, plans};

/// At most this many of the longest steps are listed.
const LONGEST_STEPS_MAX: usize = 10;
const WEEK_MS: i64 = 7 * DAY_MS;
/// Shifts weeks so that they begin on a Monday: 1970-01-01 was a Thursday.
const MONDAY_OFFSET_MS: i64 = 3 * DAY_MS;
/// A chart has at most about this many periods; a longer span is divided into longer periods.
const PERIODS_MAX: i64 = 60;
const MILLION: f64 = 1_000_000.0;

/// All statistics of one filter.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    pub since: Option<String>,
    pub until: Option<String>,
    pub plan: Option<String>,
    pub task: Option<String>,
    pub executions: ExecutionFigures,
    /// Plans, those with the most executions first.
    pub plans: Vec<PlanFigures>,
    /// Tools by name; only calls that Actbook made.
    pub tools: Vec<ToolFigures>,
    /// Steps that ended failed or unknown, the most frequent category first.
    pub failures: Vec<FailureFigures>,
    pub retries: RetryFigures,
    pub waiting: Vec<WaitFigures>,
    pub longest_steps: Vec<LongestStep>,
    pub calibration: Vec<CalibrationBucket>,
}

/// Counts of executions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionFigures {
    pub total: u64,
    pub by_status: BTreeMap<String, u64>,
    /// Share of ended executions that succeeded, 0 to 1. `None`: none has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// The length of the periods in `over_time`.
    pub every: PeriodLength,
    /// Periods in which an execution began, oldest first.
    pub over_time: Vec<PeriodFigures>,
}

/// The length of the periods of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeriodLength {
    Hour,
    Day,
    Week,
}

/// One period of a chart, and the executions that began in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodFigures {
    /// Its start, as RFC 3339 in UTC.
    pub from: String,
    #[serde(skip)]
    pub from_ms: i64,
    pub by_status: BTreeMap<String, u64>,
}

/// Percentiles of durations, by nearest rank: each is a duration that occurred. `None`: nothing was measured.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DurationPercentiles {
    pub p50_ms: Option<i64>,
    pub p95_ms: Option<i64>,
    pub p99_ms: Option<i64>,
}

/// Counts and durations of the executions of one plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanFigures {
    pub id: String,
    pub name: String,
    pub executions: u64,
    pub ended: u64,
    pub succeeded: u64,
    /// Share of ended executions that succeeded, 0 to 1. `None`: none has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// From start to end, waiting included.
    #[serde(flatten)]
    pub took: DurationPercentiles,
}

/// Statistics of the calls of one tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolFigures {
    pub tool: String,
    /// Share of calls that succeeded, 0 to 1. `None`: there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    #[serde(flatten)]
    pub stats: ToolCallStats,
}

/// How many steps ended failed or unknown with one category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureFigures {
    pub category: ErrorCategory,
    pub failed: u64,
    pub unknown: u64,
}

/// Counts of steps with more than one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryFigures {
    pub steps: u64,
    /// Attempts beyond the first of each step.
    pub attempts: u64,
    /// Steps that succeeded in the end.
    pub succeeded: u64,
}

/// Counts and durations of waiting for people, of one kind of question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitFigures {
    pub r#for: WaitKind,
    pub answered: u64,
    pub open: u64,
    /// Time until the answer, summed over the answered questions.
    pub total_ms: i64,
    #[serde(flatten)]
    pub took: DurationPercentiles,
    /// When the oldest open question was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_since: Option<String>,
}

/// A step of a plan, with its longest attempt.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LongestStep {
    pub plan: String,
    pub step: String,
    pub tool: Option<String>,
    /// `agent`: an agent does the step. `None`: Actbook does.
    pub by: Option<&'static str>,
    pub execution: String,
    pub took_ms: i64,
    pub attempts: u64,
}

/// How often steps succeeded that agents reported with a confidence between `from` and `to`, a tenth apart.
/// Steps with an unknown outcome are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationBucket {
    pub from: f64,
    pub to: f64,
    pub claims: u64,
    pub succeeded: u64,
    /// The mean stated confidence, rounded to a millionth.
    pub confidence: f64,
    pub success_rate: f64,
}

impl Journal<'_> {
    /// All statistics of what a filter selects, within the boundary; brings the projection up to date first.
    pub async fn stats(self, filter: &StatsFilter) -> Result<Stats, Error> {
        self.0.projector.catch_up().await?;
        let filter = &self.within_boundary(filter);
        let counts = CountRange::open(self.0, filter).await?;
        let started = counts.read(CountKind::Execution, false).await?;
        let claims = figures::claim_counts(self.0.tenant, filter).all(&self.0.db).await?;
        Ok(Stats {
            since: filter.since.map(format_time),
            until: filter.until.map(format_time),
            plan: filter.plan.clone(),
            task: filter.task.clone(),
            executions: execution_figures(&counts, &started).await?,
            plans: self.plan_figures(&started).await?,
            tools: self.tool_figures(&counts).await?,
            failures: failure_figures(&counts.read(CountKind::Trouble, false).await?)?,
            retries: RetryFigures::of(&counts.read(CountKind::Retry, false).await?),
            waiting: self.wait_figures(&counts, filter).await?,
            longest_steps: self.longest_steps(&counts).await?,
            calibration: claims.iter().map(CalibrationBucket::of).collect(),
        })
    }

    /// The filter with the service's boundary as its project, if there is one.
    pub(super) fn within_boundary(self, filter: &StatsFilter) -> StatsFilter {
        StatsFilter { project: self.0.owned_boundary().or(filter.project.clone()), ..filter.clone() }
    }

    async fn plan_figures(self, started: &[PeriodCount]) -> Result<Vec<PlanFigures>, Error> {
        let mut by_plan: BTreeMap<String, BTreeMap<String, Count>> = BTreeMap::new();
        for PeriodCount { key, count, .. } in started {
            let by_status = by_plan.entry(key.plan.clone()).or_default();
            by_status.entry(key.outcome.clone()).or_default().merge(count, 1);
        }
        let ids: Vec<&str> = by_plan.keys().map(String::as_str).collect();
        let mut names = plans::names(&self.0.db, self.0.tenant, &ids).await?;
        // Sessions follow no plan, and have one id for all.
        names.insert(SESSION_PLAN_ID.to_owned(), "guarded sessions".to_owned());
        let mut figures: Vec<PlanFigures> = by_plan
            .into_iter()
            .map(|(id, by_status)| PlanFigures::of(names.remove(&id).unwrap_or_default(), id, &by_status))
            .collect();
        figures.sort_by(|one, other| {
            (other.executions, &one.name, &one.id).cmp(&(one.executions, &other.name, &other.id))
        });
        Ok(figures)
    }

    async fn tool_figures(self, counts: &CountRange<'_>) -> Result<Vec<ToolFigures>, Error> {
        let tools = self.read_tool_call_stats(counts).await?.tools.into_iter();
        Ok(tools
            .map(|(tool, stats)| ToolFigures {
                tool,
                success_rate: ratio(stats.succeeded, stats.calls),
                stats,
            })
            .collect())
    }

    async fn wait_figures(
        self,
        counts: &CountRange<'_>,
        filter: &StatsFilter,
    ) -> Result<Vec<WaitFigures>, Error> {
        let mut answered: BTreeMap<String, Count> = BTreeMap::new();
        for PeriodCount { key, count, .. } in counts.read(CountKind::Wait, false).await? {
            answered.entry(key.name).or_default().merge(&count, 1);
        }
        let open = figures::open_counts(self.0.tenant, filter).all(&self.0.db).await?;
        let kinds = WaitKind::ALL.iter().map(|kind| {
            let open = open.iter().find(|count| count.kind == *kind);
            WaitFigures::of(*kind, &answered.remove(kind.as_str()).unwrap_or_default(), open)
        });
        Ok(kinds.filter(|figures| figures.answered + figures.open > 0).collect())
    }

    async fn longest_steps(self, counts: &CountRange<'_>) -> Result<Vec<LongestStep>, Error> {
        let mut steps: BTreeMap<(String, String), LongestAttempt> = BTreeMap::new();
        for PeriodCount { key, count, .. } in counts.read(CountKind::Attempt, false).await? {
            let step = steps.entry((key.plan, key.name)).or_default();
            step.add(&count, key.outcome, !key.category.is_empty());
        }
        let mut longest: Vec<(String, LongestAttempt)> =
            steps.into_iter().map(|((_, step), attempt)| (step, attempt)).collect();
        longest.sort_by_key(|(step, attempt)| {
            let top = attempt.count.top;
            (std::cmp::Reverse(top.map(|top| top.value)), top.and_then(|top| top.at), step.clone())
        });
        longest.truncate(LONGEST_STEPS_MAX);
        let streams: Vec<u64> =
            longest.iter().filter_map(|(_, attempt)| attempt.count.top.and_then(|top| top.at)).collect();
        let rows = executions::by_ids(&self.0.db, self.0.tenant, &streams).await?;
        Ok(longest.into_iter().filter_map(|(step, attempt)| attempt.into_step(step, &rows)).collect())
    }
}

/// The figures of executions that `started` counts by day; by hour if they began within a few days.
async fn execution_figures(
    counts: &CountRange<'_>,
    started: &[PeriodCount],
) -> Result<ExecutionFigures, Error> {
    let by_hour = if start_span_ms(started) <= PERIODS_MAX * HOUR_MS {
        Some(counts.read(CountKind::Execution, true).await?)
    } else {
        None
    };
    let started = by_hour.as_deref().unwrap_or(started);
    let every = PeriodLength::for_span(start_span_ms(started));
    let (period_ms, shift_ms) = every.length_and_offset_ms();
    let mut by_status: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_period: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
    for PeriodCount { from_ms, key, count } in started {
        let from_ms = (from_ms + shift_ms).div_euclid(period_ms) * period_ms - shift_ms;
        let executions = count.n.max(0) as u64;
        *by_status.entry(key.outcome.clone()).or_default() += executions;
        *by_period.entry(from_ms).or_default().entry(key.outcome.clone()).or_default() += executions;
    }
    let over_time = by_period.into_iter().map(|(from_ms, by_status)| PeriodFigures {
        from: format_time(from_ms),
        from_ms,
        by_status,
    });
    let over_time = over_time.collect();
    let count = |status: EndStatus| by_status.get(status.as_str()).copied().unwrap_or(0);
    let ended = EndStatus::ALL.iter().copied().map(count).sum();
    let success_rate = ratio(count(EndStatus::Succeeded), ended);
    Ok(ExecutionFigures { total: by_status.values().sum(), by_status, success_rate, every, over_time })
}

/// From the start of the first period to that of the last, in milliseconds; 0 if there is none.
fn start_span_ms(started: &[PeriodCount]) -> i64 {
    let starts = || started.iter().map(|count| count.from_ms);
    starts().max().zip(starts().min()).map_or(0, |(last, first)| last - first)
}

/// Failed and unknown steps by category, the most frequent first.
fn failure_figures(counts: &[PeriodCount]) -> Result<Vec<FailureFigures>, Error> {
    let mut by_category: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for PeriodCount { key, count, .. } in counts {
        let is_unknown = key.outcome == Outcome::Unknown.as_str();
        by_category.entry(&key.category).or_default()[usize::from(is_unknown)] += count.n.max(0) as u64;
    }
    let mut figures = by_category
        .into_iter()
        .map(|(category, [failed, unknown])| {
            let category = category.parse().map_err(|error| Error::Corrupt(Corruption::Row(error)))?;
            Ok(FailureFigures { category, failed, unknown })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    figures.sort_by_key(|figures| std::cmp::Reverse(figures.failed + figures.unknown));
    Ok(figures)
}

/// The attempts of one step of a plan.
#[derive(Debug, Default)]
struct LongestAttempt {
    count: Count,
    /// Of the longest one.
    tool: String,
    by_agent: bool,
}

impl LongestAttempt {
    /// Adds attempts with this tool.
    fn add(&mut self, count: &Count, tool: String, by_agent: bool) {
        let before = self.count.top;
        self.count.merge(count, 1);
        if self.count.top != before {
            (self.tool, self.by_agent) = (tool, by_agent);
        }
    }

    /// The view; `rows`: the executions of the longest attempts. `None`: its execution has no row.
    fn into_step(self, step: String, rows: &[executions::ExecutionRow]) -> Option<LongestStep> {
        let Top { value, at } = self.count.top?;
        let row = rows.iter().find(|row| Some(row.id.0) == at)?;
        Some(LongestStep {
            plan: row.plan_name.clone(),
            step,
            tool: Some(self.tool).filter(|tool| !tool.is_empty()),
            by: self.by_agent.then_some("agent"),
            execution: row.public_id.clone(),
            took_ms: value,
            attempts: self.count.n.max(0) as u64,
        })
    }
}

impl DurationPercentiles {
    pub(super) fn of(durations: &Histogram) -> Self {
        let [p50_ms, p95_ms, p99_ms] = [50, 95, 99].map(|percent| durations.percentile(percent));
        Self { p50_ms, p95_ms, p99_ms }
    }
}

impl PlanFigures {
    /// Whether it stands for all guarded sessions, which follow no plan.
    pub fn is_session(&self) -> bool {
        self.id == SESSION_PLAN_ID
    }

    fn of(name: String, id: String, by_status: &BTreeMap<String, Count>) -> Self {
        let mut all = Count::default();
        by_status.values().for_each(|count| all.merge(count, 1));
        let number =
            |status: EndStatus| by_status.get(status.as_str()).map_or(0, |count| count.n.max(0) as u64);
        let ended = EndStatus::ALL.iter().copied().map(number).sum();
        let succeeded = number(EndStatus::Succeeded);
        Self {
            took: DurationPercentiles::of(&all.durations),
            id,
            name,
            executions: all.n.max(0) as u64,
            ended,
            succeeded,
            success_rate: ratio(succeeded, ended),
        }
    }
}

impl WaitFigures {
    fn of(kind: WaitKind, answered: &Count, open: Option<&figures::OpenCount>) -> Self {
        Self {
            took: DurationPercentiles::of(&answered.durations),
            r#for: kind,
            answered: answered.n.max(0) as u64,
            open: open.map_or(0, |open| open.open),
            total_ms: answered.total_ms,
            open_since: open.map(|open| format_time(open.since)),
        }
    }
}

/// `part / whole`. `None`: `whole` is 0.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl PeriodLength {
    /// The shortest length that divides a span into at most `PERIODS_MAX` periods; weeks if none does.
    fn for_span(span_ms: i64) -> Self {
        match span_ms {
            span if span / HOUR_MS < PERIODS_MAX => PeriodLength::Hour,
            span if span / DAY_MS < PERIODS_MAX => PeriodLength::Day,
            _ => PeriodLength::Week,
        }
    }

    /// The length of a period, and the offset of its start from the epoch, in milliseconds.
    fn length_and_offset_ms(self) -> (i64, i64) {
        match self {
            PeriodLength::Hour => (HOUR_MS, 0),
            PeriodLength::Day => (DAY_MS, 0),
            PeriodLength::Week => (WEEK_MS, MONDAY_OFFSET_MS),
        }
    }

    /// The length of a period in milliseconds.
    pub fn length_ms(self) -> i64 {
        self.length_and_offset_ms().0
    }
}

impl RetryFigures {
    fn of(counts: &[PeriodCount]) -> Self {
        let number = |outcome: &str| {
            let counts = counts.iter().filter(|found| found.key.outcome == outcome);
            counts.map(|found| found.count.n).sum::<i64>().max(0) as u64
        };
        Self { steps: number("steps"), attempts: number("attempts"), succeeded: number("succeeded") }
    }
}

impl CalibrationBucket {
    /// The bucket of a row, which has at least one claim; the row's confidence is a sum of millionths.
    fn of(count: &figures::ClaimCount) -> Self {
        let claims = count.claims as f64;
        let mean = count.confidence_sum as f64 / claims;
        Self {
            from: count.tenth as f64 / 10.0,
            to: (count.tenth + 1) as f64 / 10.0,
            claims: count.claims,
            succeeded: count.succeeded,
            confidence: mean.round() / MILLION,
            success_rate: count.succeeded as f64 / claims,
        }
    }
}
