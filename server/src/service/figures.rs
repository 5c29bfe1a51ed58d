//! Figures of what was done: executions over time, plans, tools, failures, retries, the time that people
//! were waited for, and what agents' confidence was worth. Taken from the journal's projections up to this
//! moment; everything counts by the time at which it began.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Service;
use super::stats::Seen;
use super::view::time;
use crate::error::Error;
use crate::ledger;
pub use crate::store::figures::Of as StatsFilter;
use crate::store::figures::{self, Percentiles, Retries};

/// Of each list, beyond which more helps nobody.
const LONGEST_MAX: u64 = 10;
const HOUR_MS: i64 = 3600 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// Weeks begin on a Monday, and the first day of all was a Thursday.
const MONDAY_MS: i64 = 3 * DAY_MS;
/// A chart of more bars than this shows longer periods.
const BARS_MAX: i64 = 60;
const MILLION: f64 = 1_000_000.0;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub executions: ExecutionFigures,
    /// Those with the most executions first.
    pub plans: Vec<PlanFigures>,
    /// By name; calls that Actbook made.
    pub tools: Vec<ToolFigures>,
    /// Steps that were left failed or unknown, the most frequent category first.
    pub failures: Vec<FailureFigures>,
    pub retries: RetryFigures,
    pub waiting: Vec<WaitFigures>,
    pub longest_steps: Vec<LongStep>,
    pub calibration: Vec<Calibration>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionFigures {
    pub total: u64,
    pub by_status: BTreeMap<String, u64>,
    /// Of those that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    pub every: Every,
    /// Without the periods in which nothing began.
    pub over_time: Vec<Period>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    Hour,
    Day,
    Week,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Period {
    /// In UTC.
    pub from: String,
    #[serde(skip)]
    pub from_ms: i64,
    pub by_status: BTreeMap<String, u64>,
}

/// By nearest rank: each is a time that something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Took {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanFigures {
    pub id: String,
    pub name: String,
    pub executions: u64,
    pub ended: u64,
    pub succeeded: u64,
    /// Of those that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// From the start to the end, waiting included.
    #[serde(flatten)]
    pub took: Took,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolFigures {
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    #[serde(flatten)]
    pub seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureFigures {
    pub category: String,
    pub failed: u64,
    pub unknown: u64,
}

/// Steps that were tried more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetryFigures {
    pub steps: u64,
    /// Beyond the first of each.
    pub attempts: u64,
    pub succeeded: u64,
}

/// Questions to people: `approval` or `decision`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitFigures {
    pub r#for: String,
    pub answered: u64,
    pub open: u64,
    /// Of those that were answered.
    pub total_ms: i64,
    #[serde(flatten)]
    pub took: Took,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_since: Option<String>,
}

/// A step of a plan, by its longest attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LongStep {
    pub plan: String,
    pub step: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    pub execution: String,
    pub took_ms: i64,
    pub attempts: u64,
}

/// What agents' confidence in steps was worth, by tenths; steps whose outcome is unknown are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    pub from: f64,
    pub to: f64,
    pub claims: u64,
    pub succeeded: u64,
    /// The mean of what they said, to a millionth.
    pub confidence: f64,
    pub success_rate: f64,
}

impl Service {
    pub async fn stats(&self, of: &StatsFilter) -> Result<Stats, Error> {
        ledger::catch_up_seen(&self.db, self.tenant, &self.plans).await?;
        let of = &StatsFilter { within: self.within(), ..of.clone() };
        let (db, tenant) = (&self.db, self.tenant);
        let retries = figures::retries(tenant, of).first(db).await?.unwrap_or_default();
        let failures = figures::troubles(tenant, of).all(db).await?.into_iter();
        let longest = figures::longest(tenant, of, LONGEST_MAX).all(db).await?.into_iter();
        let claims = figures::claims(tenant, of).all(db).await?;
        Ok(Stats {
            since: of.since.map(time),
            until: of.until.map(time),
            plan: of.plan.clone(),
            task: of.task.clone(),
            executions: self.execution_figures(of).await?,
            plans: self.plan_figures(of).await?,
            tools: self.tool_figures(of).await?,
            failures: failures.map(FailureFigures::of).collect(),
            retries: RetryFigures::of(retries),
            waiting: self.wait_figures(of).await?,
            longest_steps: longest.map(LongStep::of).collect(),
            calibration: claims.iter().map(Calibration::of).collect(),
        })
    }

    async fn execution_figures(&self, of: &StatsFilter) -> Result<ExecutionFigures, Error> {
        let span = figures::span(self.tenant, of).first(&self.db).await?.flatten();
        let every = Every::fitting(span.map_or(0, |(first, last)| last - first));
        let (period_ms, shift_ms) = every.measures();
        let mut by_status = BTreeMap::new();
        let mut over_time: Vec<Period> = Vec::new();
        for began in figures::began(self.tenant, of, period_ms, shift_ms).all(&self.db).await? {
            let from_ms = began.period * period_ms - shift_ms;
            if over_time.last().is_none_or(|last| last.from_ms != from_ms) {
                over_time.push(Period { from: time(from_ms), from_ms, by_status: BTreeMap::new() });
            }
            let last = over_time.last_mut().expect("one was just put there");
            *by_status.entry(began.status.clone()).or_default() += began.executions;
            last.by_status.insert(began.status, began.executions);
        }
        let count = |status: &str| by_status.get(status).copied().unwrap_or(0);
        let ended = ["succeeded", "failed", "cancelled", "compensated"].map(count).iter().sum();
        let success_rate = rate(count("succeeded"), ended);
        Ok(ExecutionFigures { total: by_status.values().sum(), by_status, success_rate, every, over_time })
    }

    async fn plan_figures(&self, of: &StatsFilter) -> Result<Vec<PlanFigures>, Error> {
        let took = by_name(figures::percentiles_of_plans(self.tenant, of).all(&self.db).await?);
        let plans = figures::plans(self.tenant, of).all(&self.db).await?.into_iter();
        Ok(plans
            .map(|count| PlanFigures {
                took: took.get(&count.plan).copied().unwrap_or_default(),
                id: count.plan,
                name: count.name,
                executions: count.executions,
                ended: count.ended,
                succeeded: count.succeeded,
                success_rate: rate(count.succeeded, count.ended),
            })
            .collect())
    }

    async fn tool_figures(&self, of: &StatsFilter) -> Result<Vec<ToolFigures>, Error> {
        let tools = self.seen_of(of).await?.tools.into_iter();
        Ok(tools
            .map(|(tool, seen)| ToolFigures { tool, success_rate: rate(seen.succeeded, seen.calls), seen })
            .collect())
    }

    async fn wait_figures(&self, of: &StatsFilter) -> Result<Vec<WaitFigures>, Error> {
        let took = by_name(figures::percentiles_of_waits(self.tenant, of).all(&self.db).await?);
        let waits = figures::waits(self.tenant, of).all(&self.db).await?.into_iter();
        Ok(waits
            .map(|count| WaitFigures {
                took: took.get(&count.kind).copied().unwrap_or_default(),
                r#for: count.kind,
                answered: count.answered,
                open: count.open,
                total_ms: count.total_ms,
                open_since: count.open_since.map(time),
            })
            .collect())
    }
}

fn by_name(found: Vec<Percentiles>) -> BTreeMap<String, Took> {
    let took = |found: &Percentiles| Took {
        p50_ms: Some(found.p50_ms),
        p95_ms: Some(found.p95_ms),
        p99_ms: Some(found.p99_ms),
    };
    found.into_iter().map(|found| (found.named.clone(), took(&found))).collect()
}

/// None of nothing is no rate.
fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Every {
    /// The shortest periods of which there are not too many.
    fn fitting(span_ms: i64) -> Self {
        match span_ms {
            span if span / HOUR_MS < BARS_MAX => Every::Hour,
            span if span / DAY_MS < BARS_MAX => Every::Day,
            _ => Every::Week,
        }
    }

    /// How long one is, and how far its beginning is shifted.
    fn measures(self) -> (i64, i64) {
        match self {
            Every::Hour => (HOUR_MS, 0),
            Every::Day => (DAY_MS, 0),
            Every::Week => (WEEK_MS, MONDAY_MS),
        }
    }

    pub fn ms(self) -> i64 {
        self.measures().0
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

impl LongStep {
    fn of(long: figures::Longest) -> Self {
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

impl Calibration {
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
