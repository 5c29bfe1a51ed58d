//! `stats`: prints statistics, with charts on a terminal and plain columns in a pipe.

use crate::service::{DurationPercentiles, Stats, StatsFilter, WaitFigures};
use actbook_engine::policy::ExecutionStatus;
use jiff::Timestamp;

use super::args;
use super::catch_up::catch_up;
use super::output::Output;
use super::session::Session;
use super::status_style::{self, ATTENTION, BAD, BUSY, GOOD, QUIET, STRONG, painted, short_id};
use super::table::{Cell, Table, cell, styled_cell};
use super::{CommandResult, Exit, times};

const BAR_WIDTH: u64 = 30;
const RATE_WIDTH: u64 = 10;
/// At most this many periods, plans and tools are printed; `--json` has them all.
const SHOWN: usize = 15;

/// Prints the statistics of what fits the filter.
pub async fn stats(session: &Session, args: args::StatsArgs) -> CommandResult {
    let filter = StatsFilter {
        since: args.since,
        until: args.until,
        plan: args.plan,
        task: args.task,
        project: args.project,
    };
    catch_up(session).await?;
    let stats = session.service.journal().stats(&filter).await?;
    let output = &session.output;
    if output.json {
        output.document(&stats);
        return Ok(Exit::Done);
    }
    let page = StatsPage { output, charts: output.is_live() };
    page.print_executions(&stats);
    page.print_plans(&stats);
    page.print_tools(&stats);
    page.print_failures(&stats);
    page.print_waiting(&stats);
    page.print_longest(&stats);
    page.print_calibration(&stats);
    Ok(Exit::Done)
}

/// Prints the sections of the statistics.
struct StatsPage<'a> {
    output: &'a Output,
    /// Draw bars: the output is a terminal.
    charts: bool,
}

impl StatsPage<'_> {
    fn print_heading(&self, title: &str) {
        self.output.line("");
        self.output.line(painted(STRONG, title));
    }

    fn print_executions(&self, stats: &Stats) {
        let executions = &stats.executions;
        let rate = executions.success_rate.map(|rate| format!(", {} succeeded", percent(rate)));
        self.output.line(format_args!(
            "{}{}",
            painted(STRONG, count_text(executions.total, "execution")),
            rate.unwrap_or_default()
        ));
        let mut table = Table::new(2, &[]);
        for (status, count) in &executions.by_status {
            table.push_row(vec![
                styled_cell(style_of_status(status), status.as_str()),
                cell(count.to_string()),
            ]);
        }
        table.print(self.output);
        if executions.over_time.len() > 1 {
            self.print_over_time(stats);
        }
    }

    /// Prints one line per period: how many executions began, and how they ended.
    fn print_over_time(&self, stats: &Stats) {
        let executions = &stats.executions;
        let periods = &executions.over_time;
        let skipped = periods.len().saturating_sub(SHOWN);
        let total = |by: &std::collections::BTreeMap<String, u64>| by.values().sum::<u64>();
        let most = periods.iter().map(|period| total(&period.by_status)).max().unwrap_or(0);
        self.print_heading("over time");
        if self.charts {
            let counts: Vec<u64> = periods.iter().map(|period| total(&period.by_status)).collect();
            self.output.line(format_args!("  {}", sparkline(&counts)));
        }
        for period in &periods[skipped..] {
            let counts: Vec<String> =
                period.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
            let bar = if self.charts {
                format!("{}  ", stacked_bar(&period.by_status, most))
            } else {
                String::new()
            };
            let from = period_label(period.from_ms, executions.every.length_ms());
            self.output.line(format_args!("  {from}  {bar}{}", painted(QUIET, counts.join(", "))));
        }
        if skipped > 0 {
            self.output.line(format_args!("  … {skipped} earlier; `--json` has them all"));
        }
    }

    fn print_plans(&self, stats: &Stats) {
        if stats.plans.is_empty() {
            return;
        }
        self.print_heading("plans");
        let mut table = Table::new(2, &["plan", "runs", "ended", "succeeded", "p50", "p95", "p99"]);
        for plan in stats.plans.iter().take(SHOWN) {
            let mut row = vec![cell(&plan.name), cell(plan.executions.to_string())];
            row.extend([cell(plan.ended.to_string()), self.rate_cell(plan.success_rate)]);
            row.extend(percentile_cells(&plan.took));
            table.push_row(row);
        }
        table.print(self.output);
        self.print_left_out(stats.plans.len());
    }

    fn print_tools(&self, stats: &Stats) {
        if stats.tools.is_empty() {
            return;
        }
        self.print_heading("tools");
        let mut table = Table::new(2, &["tool", "calls", "succeeded", "p50", "p95", "p99", "trouble"]);
        for tool in stats.tools.iter().take(SHOWN) {
            let calls = &tool.stats;
            let trouble = calls.failed.iter().chain(&calls.unknown);
            let trouble: Vec<String> = trouble.map(|(word, count)| format!("{count} {word}")).collect();
            let mut row =
                vec![cell(&tool.tool), cell(calls.calls.to_string()), self.rate_cell(tool.success_rate)];
            row.extend(percentile_cells(&calls.took));
            row.push(styled_cell(BAD, trouble.join(", ")));
            table.push_row(row);
        }
        table.print(self.output);
        self.print_left_out(stats.tools.len());
    }

    fn print_failures(&self, stats: &Stats) {
        let retries = &stats.retries;
        if stats.failures.is_empty() && retries.steps == 0 {
            return;
        }
        self.print_heading("steps that failed or are unknown");
        let most = stats.failures.iter().map(|failure| failure.failed + failure.unknown).max().unwrap_or(0);
        let mut table = Table::new(2, &[]);
        for failure in &stats.failures {
            let count = failure.failed + failure.unknown;
            let unknown = match failure.unknown {
                0 => String::new(),
                unknown => format!("{unknown} of them unknown"),
            };
            let mut row = vec![cell(failure.category.as_str()), cell(count.to_string())];
            if self.charts {
                row.push(styled_cell(BAD, bar(count, most, BAR_WIDTH)));
            }
            row.push(styled_cell(QUIET, unknown));
            table.push_row(row);
        }
        table.print(self.output);
        if retries.steps > 0 {
            let (steps, again) = (count_text(retries.steps, "step"), count_text(retries.attempts, "time"));
            self.output.line(format_args!(
                "  {steps} tried again, {again}; {} succeeded in the end",
                retries.succeeded
            ));
        }
    }

    fn print_waiting(&self, stats: &Stats) {
        if stats.waiting.is_empty() {
            return;
        }
        self.print_heading("waiting for people");
        let mut table = Table::new(2, &["for", "answered", "waited", "p50", "p95", "p99", "open"]);
        for WaitFigures { r#for, answered, open, total_ms, took, open_since } in &stats.waiting {
            let since = open_since.as_deref().map(times::local_date_time);
            let open = match since {
                Some(since) => styled_cell(ATTENTION, format!("{open}, the first since {since}")),
                None => cell("0"),
            };
            let mut row =
                vec![cell(r#for.as_str()), cell(answered.to_string()), cell(times::elapsed_text(*total_ms))];
            row.extend(percentile_cells(took));
            row.push(open);
            table.push_row(row);
        }
        table.print(self.output);
    }

    fn print_longest(&self, stats: &Stats) {
        let Some(first) = stats.longest_steps.first() else { return };
        self.print_heading("longest steps");
        // The bar only shows what the time beside it says, and `show` finds the execution.
        let mut table = Table::new(2, &[]).dropping(if self.charts { &[2, 4] } else { &[] });
        for step in &stats.longest_steps {
            let does = step.tool.as_deref().or(step.by).unwrap_or_default();
            let mut row =
                vec![cell(format!("{} / {}", step.plan, step.step)), cell(times::elapsed_text(step.took_ms))];
            if self.charts {
                let length = |ms: i64| u64::try_from(ms).unwrap_or(0);
                row.push(styled_cell(BUSY, bar(length(step.took_ms), length(first.took_ms), BAR_WIDTH)));
            }
            row.extend([
                styled_cell(QUIET, does),
                styled_cell(QUIET, format!("in {}", short_id(&step.execution))),
            ]);
            table.push_row(row);
        }
        table.print(self.output);
    }

    fn print_calibration(&self, stats: &Stats) {
        if stats.calibration.is_empty() {
            return;
        }
        self.print_heading("confidence against outcome");
        let mut table = Table::new(2, &["said", "mean", "claims", "succeeded"]);
        for bucket in &stats.calibration {
            table.push_row(vec![
                cell(format!("{:.1} – {:.1}", bucket.from, bucket.to)),
                cell(format!("{:.2}", bucket.confidence)),
                cell(bucket.claims.to_string()),
                self.rate_cell(Some(bucket.success_rate)),
            ]);
        }
        table.print(self.output);
    }

    /// A success rate from 0 to 1 as a percentage, with a bar in chart mode; `None` as a dash.
    fn rate_cell(&self, rate: Option<f64>) -> Cell {
        let Some(rate) = rate else { return styled_cell(QUIET, "–") };
        let text = percent(rate);
        if !self.charts {
            return cell(text);
        }
        let tenths = (rate * RATE_WIDTH as f64).round() as u64;
        let style = if rate >= 0.95 {
            GOOD
        } else if rate >= 0.5 {
            ATTENTION
        } else {
            BAD
        };
        styled_cell(style, format!("{text:>7} {}", bar(tenths, RATE_WIDTH, RATE_WIDTH)))
    }

    /// Prints how many of `count` rows are not shown.
    fn print_left_out(&self, count: usize) {
        if count > SHOWN {
            self.output.line(format_args!("  … {} more; `--json` has them all", count - SHOWN));
        }
    }
}

/// The style of an execution status given as text.
fn style_of_status(status: &str) -> anstyle::Style {
    status.parse::<ExecutionStatus>().map_or(QUIET, status_style::execution_style)
}

/// `1 step`, `2 steps`
fn count_text(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn percent(rate: f64) -> String {
    format!("{:.1} %", rate * 100.0)
}

/// The cells of the 50th, 95th and 99th percentile; empty if unknown.
fn percentile_cells(took: &DurationPercentiles) -> [Cell; 3] {
    [took.p50_ms, took.p95_ms, took.p99_ms].map(|ms| cell(ms.map(times::elapsed_text).unwrap_or_default()))
}

/// A bar of `part / whole * width` columns, drawn in eighths so that small parts are visible.
fn bar(part: u64, whole: u64, width: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * width * 8).checked_div(whole).unwrap_or(0);
    let eighths = if part > 0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat((eighths / 8) as usize), EIGHTHS[(eighths % 8) as usize])
}

/// A bar of a period's executions, coloured by status and padded to `BAR_WIDTH`; `most` fills the whole
/// width.
fn stacked_bar(by_status: &std::collections::BTreeMap<String, u64>, most: u64) -> String {
    let total: u64 = by_status.values().sum();
    let width = (total * BAR_WIDTH).checked_div(most).unwrap_or(0).max(1);
    let (mut line, mut used, mut counted) = (String::new(), 0, 0);
    for (status, count) in by_status {
        counted += count;
        let end = counted * width / total.max(1);
        line.push_str(&painted(style_of_status(status), "█".repeat((end - used) as usize)));
        used = end;
    }
    line.push_str(&" ".repeat(BAR_WIDTH.saturating_sub(used) as usize));
    line
}

/// One character per count, as high as the count is relative to the greatest.
fn sparkline(counts: &[u64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = counts.iter().max().copied().unwrap_or(0).max(1);
    counts.iter().map(|count| BLOCKS[(count * 7).div_ceil(most) as usize]).collect()
}

/// The beginning of a period in UTC: a day, or day and hour if the period is shorter than a day.
fn period_label(from_ms: i64, length_ms: i64) -> String {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let format = if length_ms < DAY_MS { "%Y-%m-%d %H:00" } else { "%Y-%m-%d" };
    Timestamp::from_millisecond(from_ms)
        .map_or_else(|_| from_ms.to_string(), |at| at.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_sparklines_keep_their_proportions() {
        assert_eq!((bar(0, 8, 4).as_str(), bar(8, 8, 4).as_str()), ("", "████"));
        assert_eq!((bar(4, 8, 4).as_str(), bar(1, 1000, 4).as_str()), ("██", "▏"));
        assert_eq!(bar(3, 16, 4), "▊");
        assert_eq!(sparkline(&[0, 1, 4, 8]), "▁▂▅█");
        assert_eq!(period_label(1_700_000_000_000, 3_600_000), "2023-11-14 22:00");
    }
}
