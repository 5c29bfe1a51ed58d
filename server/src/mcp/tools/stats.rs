//! `stats`: figures of what was done, short enough for an agent.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ledger::point;
use super::{Effect, IN_FULL, Offered};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer};
use crate::service::{Stats, StatsFilter, Took};

/// Of plans, tools, periods and steps; the rest is counted.
const SHOWN_MAX: usize = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookAtStats {
    /// RFC 3339, a date, or an age such as 2h
    since: Option<String>,
    until: Option<String>,
    /// Id or name
    plan_id: Option<String>,
    task: Option<String>,
}

pub fn stats() -> Offered {
    let objects = || json!({ "type": "array", "items": { "type": "object" } });
    let properties = json!({
        "executions": { "type": "object" },
        "plans": objects(),
        "tools": objects(),
        "failures": objects(),
        "retries": { "type": "object" },
        "waiting": objects(),
        "longest_steps": objects(),
        "calibration": objects(),
        "left_out": { "type": "object" },
    });
    Offered::new::<LookAtStats>(
        "stats",
        "Figures: executions over time, success and times by plan and tool, failures, retries, waiting for people, confidence against outcome.",
        Effect::Reads,
        answer::answer(properties, &["executions"]),
        IN_FULL,
    )
}

pub async fn look(door: &Door, asked: LookAtStats) -> Result<Answer, Error> {
    let of = StatsFilter {
        since: point("since", asked.since)?,
        until: point("until", asked.until)?,
        plan: asked.plan_id,
        task: asked.task,
        ..StatsFilter::default()
    };
    let stats = door.service().stats(&of).await?;
    Ok(Answer { structured: clipped(&stats), text: told(&stats) })
}

fn clipped(stats: &Stats) -> Value {
    let mut shown = json!(stats);
    let mut left_out = json!({});
    for list in ["plans", "tools", "longest_steps"] {
        if let Some(items) = shown[list].as_array_mut().filter(|items| items.len() > SHOWN_MAX) {
            left_out[list] = json!(items.len() - SHOWN_MAX);
            items.truncate(SHOWN_MAX);
        }
    }
    if let Some(periods) = shown["executions"]["over_time"].as_array_mut() {
        let old = periods.len().saturating_sub(SHOWN_MAX);
        periods.drain(..old);
        if old > 0 {
            left_out["over_time"] = json!(old);
        }
    }
    if left_out.as_object().is_some_and(|lists| !lists.is_empty()) {
        shown["left_out"] = left_out;
    }
    shown
}

fn told(stats: &Stats) -> String {
    let by_status: Vec<String> =
        stats.executions.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let mut lines = vec![format!(
        "{} executions: {}{}",
        stats.executions.total,
        by_status.join(", "),
        percent(stats.executions.success_rate)
    )];
    lines.extend(stats.plans.iter().take(SHOWN_MAX).map(|plan| {
        let took = times(&plan.took);
        format!("plan `{}`: {} executions{}{took}", plan.name, plan.executions, percent(plan.success_rate))
    }));
    lines.extend(stats.tools.iter().take(SHOWN_MAX).map(|tool| {
        let seen = &tool.seen;
        let took = Took { p50_ms: seen.p50_ms, p95_ms: seen.p95_ms, p99_ms: seen.p99_ms };
        format!("tool {}: {} calls{}{}", tool.tool, seen.calls, percent(tool.success_rate), times(&took))
    }));
    let failures = stats.failures.iter().map(|one| format!("{} {}", one.failed + one.unknown, one.category));
    let failures: Vec<String> = failures.collect();
    if !failures.is_empty() {
        lines.push(format!("steps that failed or are unknown: {}", failures.join(", ")));
    }
    if stats.retries.steps > 0 {
        let retries = &stats.retries;
        lines.push(format!("{} steps tried again, {} came right", retries.steps, retries.succeeded));
    }
    lines.extend(stats.waiting.iter().map(|wait| {
        let took = times(&wait.took);
        format!(
            "{}: {} answered, {} open, {} ms waited{took}",
            wait.r#for, wait.answered, wait.open, wait.total_ms
        )
    }));
    lines.extend(stats.calibration.iter().map(|one| {
        let (from, to) = (one.from, one.to);
        format!("confidence {from:.1} to {to:.1}: {} of {} succeeded", one.succeeded, one.claims)
    }));
    lines.join("\n")
}

fn percent(rate: Option<f64>) -> String {
    rate.map(|rate| format!(", {:.1} % succeeded", rate * 100.0)).unwrap_or_default()
}

fn times(took: &Took) -> String {
    let named = [("p50", took.p50_ms), ("p95", took.p95_ms), ("p99", took.p99_ms)];
    named.iter().filter_map(|(name, ms)| Some(format!(", {name} {} ms", (*ms)?))).collect()
}
