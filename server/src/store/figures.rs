//! The statistics that are not counts of hours and days: open questions, agents' calibration, and errors by
//! fingerprint, each computed by the database from the rows of executions.

use actbook_engine::id::TenantId;
use actbook_engine::policy::WaitKind;

use super::executions::within;
use super::stream_rows::of_executions;
use super::{Select, SqlValue};

/// What to compute statistics from: which executions, and the time range of what is counted in them. A field
/// that is None does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsFilter {
    /// The earliest time of what is counted, in milliseconds since 1970.
    pub since: Option<i64>,
    /// What is counted is from before this time, in milliseconds since 1970.
    pub until: Option<i64>,
    /// A plan's id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// Executions of this project, and those from before projects existed.
    pub project: Option<String>,
}

impl StatsFilter {
    /// The parameters `$1` to `$6` of `rows_of_executions!`.
    fn params(&self, tenant: TenantId) -> Vec<SqlValue> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let (since, until) = (self.since.unwrap_or(i64::MIN), self.until.unwrap_or(i64::MAX));
        let texts = [&self.plan, &self.task, &self.project].map(text);
        [tenant.into()].into_iter().chain(texts).chain([since.into(), until.into()]).collect()
    }
}

/// The rows of a table that belong to the executions of a `StatsFilter` and have their time in its range.
macro_rules! rows_of_executions {
    ($table:literal, $at:literal) => {
        concat!(
            " FROM ",
            $table,
            " JOIN executions ON executions.tenant = $1 AND executions.id = ",
            $table,
            ".stream WHERE ",
            $table,
            ".tenant = $1 AND ",
            of_executions!(),
            " AND ",
            $at,
            " >= $5 AND ",
            $at,
            " < $6 "
        )
    };
}

/// Open questions of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCount {
    pub kind: WaitKind,
    pub open: u64,
    /// When the oldest was asked, in epoch milliseconds.
    pub since: i64,
}

/// Counts open questions by kind.
pub fn open_counts(tenant: TenantId, filter: &StatsFilter) -> Select<OpenCount> {
    Select::new(
        concat!(
            "SELECT kind, COUNT(*), MIN(asked_at)",
            rows_of_executions!("questions", "asked_at"),
            "GROUP BY kind ORDER BY kind"
        ),
        filter.params(tenant),
        |row| Ok(OpenCount { kind: row.parsed(0)?, open: row.uint(1)?, since: row.int(2)? }),
    )
}

/// Claims in one confidence band whose step succeeded or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCount {
    /// The band: 0 is below 0.1, 9 is 0.9 and more.
    pub tenth: u64,
    pub claims: u64,
    pub succeeded: u64,
    /// Sum of the confidences, in millionths.
    pub confidence_sum: i64,
}

/// Counts agents' stated confidences by band of a tenth, of steps that succeeded or failed.
pub fn claim_counts(tenant: TenantId, filter: &StatsFilter) -> Select<ClaimCount> {
    Select::new(
        concat!(
            "SELECT CASE WHEN confidence >= 900000 THEN 9 ELSE confidence / 100000 END, COUNT(*), \
             COUNT(*) FILTER (WHERE outcome = 'succeeded'), CAST(SUM(confidence) AS BIGINT)",
            rows_of_executions!("confidences", "at"),
            "AND outcome IN ('succeeded', 'failed') GROUP BY 1 ORDER BY 1"
        ),
        filter.params(tenant),
        |row| {
            Ok(ClaimCount {
                tenth: row.uint(0)?,
                claims: row.uint(1)?,
                succeeded: row.uint(2)?,
                confidence_sum: row.int(3)?,
            })
        },
    )
}

/// Calls of one tool that failed or are unknown with similar texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorGroupRow {
    /// Empty: the calls have no text, or it was erased.
    pub fingerprint: String,
    pub tool: String,
    pub category: String,
    pub calls: u64,
    /// Start of the first and of the last one, in epoch milliseconds.
    pub first: i64,
    pub last: i64,
    /// Position of the last one's error.
    pub position: u64,
    /// Stream of the last one's execution.
    pub stream: u64,
}

/// Groups errors by fingerprint, the most frequent first.
pub fn error_groups(tenant: TenantId, filter: &StatsFilter, limit: u64) -> Select<ErrorGroupRow> {
    let mut params = filter.params(tenant);
    params.push(limit.into());
    Select::new(
        concat!(
            "SELECT fingerprint, tool, category, COUNT(*), MIN(at), MAX(at), MAX(position), MAX(stream)",
            rows_of_executions!("errors", "at"),
            "GROUP BY fingerprint, tool, category ORDER BY COUNT(*) DESC, MAX(at) DESC, fingerprint, tool LIMIT $7"
        ),
        params,
        |mut row| {
            Ok(ErrorGroupRow {
                fingerprint: row.take_text(0)?,
                tool: row.take_text(1)?,
                category: row.take_text(2)?,
                calls: row.uint(3)?,
                first: row.int(4)?,
                last: row.int(5)?,
                position: row.uint(6)?,
                stream: row.uint(7)?,
            })
        },
    )
}
