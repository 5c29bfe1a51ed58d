//! Statistics: executions over time, plans, tools, failures, retries, the time spent waiting for people, and
//! how well agents' confidence was calibrated. Computed from projections that are first brought up to the
//! journal's head. Each item counts in the period in which it began.

use std::collections::BTreeMap;

use actbook_engine::policy::{EndStatus, ErrorCategory, WaitKind};
use serde::Serialize;

use super::journal::Journal;
use super::stats::ToolCallStats;
use super::view::format_time;
use crate::error::Error;
use crate::ledger;
use crate::store::figures::{self, Percentiles, Retries, StatsRowFilter};

/// At most this many of the longest steps are listed.
const LONGEST_STEPS_MAX: u64 = 10;
const HOUR_MS: i64 = 3600 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// Shifts weeks so that they begin on a Monday: 1970-01-01 was a Thursday.
const MONDAY_OFFSET_MS: i64 = 3 * DAY_MS;
/// A chart has at most about this many periods; a longer span is divided into longer periods.
const PERIODS_MAX: i64 = 60;
const MILLION: f64 = 1_000_000.0;

/// Which executions to compute statistics from. A field that is not set does not filter.
#[derive(Clone, Debug, Default)]
pub struct StatsFilter {
    /// Earliest start, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Starts before this, in milliseconds since 1970.
    pub until: Option<i64>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    pub project: Option<String>,
}

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
        ledger::catch_up_call_stats(&self.0.db, self.0.tenant, &self.0.plan_cache).await?;
        let StatsFilter { since, until, plan, task, project } = filter.clone();
        let within = self.0.owned_boundary().or(project);
        let filter = &StatsRowFilter { since, until, plan, task, within };
        let (db, tenant) = (&self.0.db, self.0.tenant);
        let retries = figures::retries(tenant, filter).first(db).await?.unwrap_or_default();
        let failures = figures::trouble_counts(tenant, filter).all(db).await?.into_iter();
        let longest = figures::slowest_steps(tenant, filter, LONGEST_STEPS_MAX).all(db).await?.into_iter();
        let claims = figures::claim_counts(tenant, filter).all(db).await?;
        Ok(Stats {
            since: filter.since.map(format_time),
            until: filter.until.map(format_time),
            plan: filter.plan.clone(),
            task: filter.task.clone(),
            executions: self.execution_figures(filter).await?,
            plans: self.plan_figures(filter).await?,
            tools: self.tool_figures(filter).await?,
            failures: failures.map(FailureFigures::of).collect(),
            retries: RetryFigures::of(retries),
            waiting: self.wait_figures(filter).await?,
            longest_steps: longest.map(LongestStep::of).collect(),
            calibration: claims.iter().map(CalibrationBucket::of).collect(),
        })
    }

    /// Counts of the executions that pass the filter, in all and by the period in which they began.
    async fn execution_figures(self, filter: &StatsRowFilter) -> Result<ExecutionFigures, Error> {
        let span = figures::start_range(self.0.tenant, filter).first(&self.0.db).await?.flatten();
        let every = PeriodLength::for_span(span.map_or(0, |(first, last)| last - first));
        let (period_ms, shift_ms) = every.length_and_offset_ms();
        let mut by_status = BTreeMap::new();
        let mut over_time: Vec<PeriodFigures> = Vec::new();
        for began in
            figures::started_per_period(self.0.tenant, filter, period_ms, shift_ms).all(&self.0.db).await?
        {
            let from_ms = began.period * period_ms - shift_ms;
            if over_time.last().is_none_or(|last| last.from_ms != from_ms) {
                over_time.push(PeriodFigures {
                    from: format_time(from_ms),
                    from_ms,
                    by_status: BTreeMap::new(),
                });
            }
            let last = over_time.last_mut().expect("the period was just pushed");
            *by_status.entry(began.status.clone()).or_default() += began.executions;
            last.by_status.insert(began.status, began.executions);
        }
        let count = |status: EndStatus| by_status.get(status.as_str()).copied().unwrap_or(0);
        let ended = EndStatus::ALL.iter().copied().map(count).sum();
        let success_rate = ratio(count(EndStatus::Succeeded), ended);
        Ok(ExecutionFigures { total: by_status.values().sum(), by_status, success_rate, every, over_time })
    }

    /// Counts and durations of each plan's executions that pass the filter.
    async fn plan_figures(self, filter: &StatsRowFilter) -> Result<Vec<PlanFigures>, Error> {
        let took =
            percentiles_by_name(figures::percentiles_of_plans(self.0.tenant, filter).all(&self.0.db).await?);
        let plans = figures::plan_counts(self.0.tenant, filter).all(&self.0.db).await?.into_iter();
        Ok(plans
            .map(|count| PlanFigures {
                took: took.get(&count.plan).copied().unwrap_or_default(),
                id: count.plan,
                name: count.name,
                executions: count.executions,
                ended: count.ended,
                succeeded: count.succeeded,
                success_rate: ratio(count.succeeded, count.ended),
            })
            .collect())
    }

    /// Statistics of each tool's calls in the executions that pass the filter.
    async fn tool_figures(self, filter: &StatsRowFilter) -> Result<Vec<ToolFigures>, Error> {
        let tools = self.read_tool_call_stats(filter).await?.tools.into_iter();
        Ok(tools
            .map(|(tool, stats)| ToolFigures {
                tool,
                success_rate: ratio(stats.succeeded, stats.calls),
                stats,
            })
            .collect())
    }

    /// Counts and durations of waiting for people, by kind of question, in the executions that pass the
    /// filter.
    async fn wait_figures(self, filter: &StatsRowFilter) -> Result<Vec<WaitFigures>, Error> {
        let took =
            percentiles_by_name(figures::percentiles_of_waits(self.0.tenant, filter).all(&self.0.db).await?);
        let waits = figures::wait_counts(self.0.tenant, filter).all(&self.0.db).await?.into_iter();
        Ok(waits
            .map(|count| WaitFigures {
                took: took.get(count.kind.as_str()).copied().unwrap_or_default(),
                r#for: count.kind,
                answered: count.answered,
                open: count.open,
                total_ms: count.total_ms,
                open_since: count.open_since.map(format_time),
            })
            .collect())
    }
}

impl DurationPercentiles {
    /// The percentiles of a row, which exists only if something was measured.
    pub(super) fn of(row: &Percentiles) -> Self {
        Self { p50_ms: Some(row.p50_ms), p95_ms: Some(row.p95_ms), p99_ms: Some(row.p99_ms) }
    }
}

/// The store's percentiles by the plan or kind of question that each belongs to.
fn percentiles_by_name(rows: Vec<Percentiles>) -> BTreeMap<String, DurationPercentiles> {
    rows.into_iter().map(|row| (row.group.clone(), DurationPercentiles::of(&row))).collect()
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

impl FailureFigures {
    fn of(count: figures::TroubleCount) -> Self {
        Self { category: count.category, failed: count.failed, unknown: count.unknown }
    }
}

impl RetryFigures {
    fn of(Retries { steps, attempts, succeeded }: Retries) -> Self {
        Self { steps, attempts, succeeded }
    }
}

impl LongestStep {
    fn of(long: figures::SlowestStep) -> Self {
        Self {
            plan: long.plan_name,
            step: long.step,
            tool: long.tool,
            by: long.agent.then_some("agent"),
            execution: long.execution,
            took_ms: long.took_ms,
            attempts: long.attempts,
        }
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
