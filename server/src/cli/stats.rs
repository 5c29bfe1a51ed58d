//! Figures as people read them: charts on a terminal, plain columns in a pipe.

use actbook::service::{Stats, StatsFilter, Took, WaitFigures};
use actbook_engine::policy::Status;
use jiff::Timestamp;

use super::args;
use super::output::Output;
use super::session::Session;
use super::signs::{self, ASKS, BAD, BUSY, GOOD, QUIET, STRONG, painted, short};
use super::table::{Cell, Table, cell, coloured};
use super::{Ended, Exit, times};

const BAR_WIDTH: u64 = 30;
const RATE_WIDTH: u64 = 10;
/// Periods on the chart, plans and tools in their tables; `--json` has them all.
const SHOWN: usize = 15;

pub async fn stats(session: &Session, asked: args::Stats) -> Ended {
    let of = StatsFilter {
        since: asked.since,
        until: asked.until,
        plan: asked.plan,
        task: asked.task,
        ..StatsFilter::default()
    };
    let stats = session.service.stats(&of).await?;
    let output = &session.output;
    if output.json {
        output.document(&stats);
        return Ok(Exit::Done);
    }
    let page = Page { output, charts: output.is_live() };
    page.executions(&stats);
    page.plans(&stats);
    page.tools(&stats);
    page.failures(&stats);
    page.waiting(&stats);
    page.longest(&stats);
    page.calibration(&stats);
    Ok(Exit::Done)
}

struct Page<'a> {
    output: &'a Output,
    charts: bool,
}

impl Page<'_> {
    fn head(&self, words: &str) {
        self.output.line("");
        self.output.line(painted(STRONG, words));
    }

    fn executions(&self, stats: &Stats) {
        let executions = &stats.executions;
        let rate = executions.success_rate.map(|rate| format!(", {} succeeded", percent(rate)));
        self.output.line(format_args!(
            "{}{}",
            painted(STRONG, counted(executions.total, "execution")),
            rate.unwrap_or_default()
        ));
        let mut table = Table::new(2, &[]);
        for (status, count) in &executions.by_status {
            table.row(vec![coloured(style(status), status.as_str()), cell(count.to_string())]);
        }
        table.print(self.output);
        if executions.over_time.len() > 1 {
            self.over_time(stats);
        }
    }

    /// One line per period: how many began, and how they ended.
    fn over_time(&self, stats: &Stats) {
        let executions = &stats.executions;
        let periods = &executions.over_time;
        let skipped = periods.len().saturating_sub(SHOWN);
        let total = |by: &std::collections::BTreeMap<String, u64>| by.values().sum::<u64>();
        let most = periods.iter().map(|period| total(&period.by_status)).max().unwrap_or(0);
        self.head("over time");
        if self.charts {
            let counts: Vec<u64> = periods.iter().map(|period| total(&period.by_status)).collect();
            self.output.line(format_args!("  {}", sparkline(&counts)));
        }
        for period in &periods[skipped..] {
            let told: Vec<String> =
                period.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
            let bar = match self.charts {
                true => format!("{}  ", stacked(&period.by_status, most)),
                false => String::new(),
            };
            let from = label(period.from_ms, executions.every.ms());
            self.output.line(format_args!("  {from}  {bar}{}", painted(QUIET, told.join(", "))));
        }
        if skipped > 0 {
            self.output.line(format_args!("  … {skipped} earlier; `--json` has them all"));
        }
    }

    fn plans(&self, stats: &Stats) {
        if stats.plans.is_empty() {
            return;
        }
        self.head("plans");
        let mut table = Table::new(2, &["plan", "runs", "ended", "succeeded", "p50", "p95", "p99"]);
        for plan in stats.plans.iter().take(SHOWN) {
            let mut row = vec![cell(&plan.name), cell(plan.executions.to_string())];
            row.extend([cell(plan.ended.to_string()), self.rate(plan.success_rate)]);
            row.extend(times_of(&plan.took));
            table.row(row);
        }
        table.print(self.output);
        self.left_out(stats.plans.len());
    }

    fn tools(&self, stats: &Stats) {
        if stats.tools.is_empty() {
            return;
        }
        self.head("tools");
        let mut table = Table::new(2, &["tool", "calls", "succeeded", "p50", "p95", "p99", "trouble"]);
        for tool in stats.tools.iter().take(SHOWN) {
            let seen = &tool.seen;
            let took = Took { p50_ms: seen.p50_ms, p95_ms: seen.p95_ms, p99_ms: seen.p99_ms };
            let trouble = seen.failed.iter().chain(&seen.unknown);
            let trouble: Vec<String> = trouble.map(|(word, count)| format!("{count} {word}")).collect();
            let mut row = vec![cell(&tool.tool), cell(seen.calls.to_string()), self.rate(tool.success_rate)];
            row.extend(times_of(&took));
            row.push(coloured(BAD, trouble.join(", ")));
            table.row(row);
        }
        table.print(self.output);
        self.left_out(stats.tools.len());
    }

    fn failures(&self, stats: &Stats) {
        let retries = &stats.retries;
        if stats.failures.is_empty() && retries.steps == 0 {
            return;
        }
        self.head("steps that failed or are unknown");
        let most = stats.failures.iter().map(|one| one.failed + one.unknown).max().unwrap_or(0);
        let mut table = Table::new(2, &[]);
        for one in &stats.failures {
            let count = one.failed + one.unknown;
            let unknown = match one.unknown {
                0 => String::new(),
                unknown => format!("{unknown} of them unknown"),
            };
            let mut row = vec![cell(&one.category), cell(count.to_string())];
            if self.charts {
                row.push(coloured(BAD, bar(count, most, BAR_WIDTH)));
            }
            row.push(coloured(QUIET, unknown));
            table.row(row);
        }
        table.print(self.output);
        if retries.steps > 0 {
            let (steps, again) = (counted(retries.steps, "step"), counted(retries.attempts, "time"));
            self.output
                .line(format_args!("  {steps} tried again, {again}; {} came right", retries.succeeded));
        }
    }

    fn waiting(&self, stats: &Stats) {
        if stats.waiting.is_empty() {
            return;
        }
        self.head("waiting for people");
        let mut table = Table::new(2, &["for", "answered", "waited", "p50", "p95", "p99", "open"]);
        for WaitFigures { r#for, answered, open, total_ms, took, open_since } in &stats.waiting {
            let since = open_since.as_deref().map(times::date);
            let open = match since {
                Some(since) => coloured(ASKS, format!("{open}, the first since {since}")),
                None => cell("0"),
            };
            let mut row = vec![cell(r#for), cell(answered.to_string()), cell(times::took(*total_ms))];
            row.extend(times_of(took));
            row.push(open);
            table.row(row);
        }
        table.print(self.output);
    }

    fn longest(&self, stats: &Stats) {
        let Some(first) = stats.longest_steps.first() else { return };
        self.head("longest steps");
        let mut table = Table::new(2, &[]);
        for step in &stats.longest_steps {
            let does = step.tool.as_deref().or(step.by).unwrap_or_default();
            let mut row =
                vec![cell(format!("{} / {}", step.plan, step.step)), cell(times::took(step.took_ms))];
            if self.charts {
                let length = |ms: i64| u64::try_from(ms).unwrap_or(0);
                row.push(coloured(BUSY, bar(length(step.took_ms), length(first.took_ms), BAR_WIDTH)));
            }
            row.extend([coloured(QUIET, does), coloured(QUIET, format!("in {}", short(&step.execution)))]);
            table.row(row);
        }
        table.print(self.output);
    }

    fn calibration(&self, stats: &Stats) {
        if stats.calibration.is_empty() {
            return;
        }
        self.head("confidence against outcome");
        let mut table = Table::new(2, &["said", "mean", "claims", "succeeded"]);
        for one in &stats.calibration {
            table.row(vec![
                cell(format!("{:.1} – {:.1}", one.from, one.to)),
                cell(format!("{:.2}", one.confidence)),
                cell(one.claims.to_string()),
                self.rate(Some(one.success_rate)),
            ]);
        }
        table.print(self.output);
    }

    fn rate(&self, rate: Option<f64>) -> Cell {
        let Some(rate) = rate else { return coloured(QUIET, "–") };
        let text = percent(rate);
        match self.charts {
            true => {
                let tenths = (rate * RATE_WIDTH as f64).round() as u64;
                let style = if rate >= 0.95 {
                    GOOD
                } else if rate >= 0.5 {
                    ASKS
                } else {
                    BAD
                };
                coloured(style, format!("{text:>7} {}", bar(tenths, RATE_WIDTH, RATE_WIDTH)))
            }
            false => cell(text),
        }
    }

    fn left_out(&self, count: usize) {
        if count > SHOWN {
            self.output.line(format_args!("  … {} more; `--json` has them all", count - SHOWN));
        }
    }
}

fn style(status: &str) -> anstyle::Style {
    status.parse::<Status>().map_or(QUIET, signs::execution)
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn percent(rate: f64) -> String {
    format!("{:.1} %", rate * 100.0)
}

fn times_of(took: &Took) -> [Cell; 3] {
    [took.p50_ms, took.p95_ms, took.p99_ms].map(|ms| cell(ms.map(times::took).unwrap_or_default()))
}

/// Eighths of a column, so that small numbers show.
fn bar(part: u64, whole: u64, width: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * width * 8).checked_div(whole).unwrap_or(0);
    let eighths = if part > 0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat((eighths / 8) as usize), EIGHTHS[(eighths % 8) as usize])
}

/// A period's executions, one colour after the other, padded to the chart's width.
fn stacked(by_status: &std::collections::BTreeMap<String, u64>, most: u64) -> String {
    let total: u64 = by_status.values().sum();
    let width = (total * BAR_WIDTH).checked_div(most).unwrap_or(0).max(1);
    let (mut line, mut used, mut counted) = (String::new(), 0, 0);
    for (status, count) in by_status {
        counted += count;
        let end = counted * width / total.max(1);
        line.push_str(&painted(style(status), "█".repeat((end - used) as usize)));
        used = end;
    }
    line.push_str(&" ".repeat(BAR_WIDTH.saturating_sub(used) as usize));
    line
}

fn sparkline(counts: &[u64]) -> String {
    const SIGNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = counts.iter().max().copied().unwrap_or(0).max(1);
    counts.iter().map(|count| SIGNS[(count * 7).div_ceil(most) as usize]).collect()
}

/// A period by its beginning, in UTC as it is counted.
fn label(from_ms: i64, length_ms: i64) -> String {
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
        assert_eq!(label(1_700_000_000_000, 3_600_000), "2023-11-14 22:00");
    }
}
