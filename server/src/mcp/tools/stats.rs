//! The tool `stats`: statistics of executions, shortened for an agent.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ledger::parse_time_argument;
use super::{AgentTool, FULL_ONLY, ToolEffect, ToolProfile};
use crate::error::Error;
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer};
use crate::mcp::request::AgentRequest;
use crate::service::{DurationPercentiles, Stats, StatsFilter};

/// Items of each list (plans, tools, periods, steps); the rest is only counted.
const SHOWN_MAX: usize = 10;

// Arguments of `stats`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatsInput {
    /// RFC 3339, a date, or an age such as 2h
    since: Option<String>,
    until: Option<String>,
    /// Id or name
    plan_id: Option<String>,
    task: Option<String>,
}

impl AgentTool for StatsInput {
    const NAME: &str = "stats";
    const DESCRIPTION: &str = "Figures: executions over time, success and times by plan and tool, failures, retries, waiting for people, confidence against outcome.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = FULL_ONLY;
    type Answer = AgentAnswer;

    fn output_schema() -> Arc<JsonObject> {
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
        answer::answer_schema(properties, &["executions"])
    }

    async fn handle(self, endpoint: &McpEndpoint, _request: &AgentRequest) -> Result<AgentAnswer, Error> {
        let filter = StatsFilter {
            since: parse_time_argument("since", self.since)?,
            until: parse_time_argument("until", self.until)?,
            plan: self.plan_id,
            task: self.task,
            ..StatsFilter::default()
        };
        let stats = endpoint.service().journal().stats(&filter).await?;
        Ok(AgentAnswer { structured: clip_stats(&stats), text: stats_text(&stats) })
    }
}

/// The statistics as JSON with their lists truncated, and how much of each was left out.
fn clip_stats(stats: &Stats) -> Value {
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

/// The statistics as text, a line each; lists are truncated.
fn stats_text(stats: &Stats) -> String {
    let by_status: Vec<String> =
        stats.executions.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let mut lines = vec![format!(
        "{} executions: {}{}",
        stats.executions.total,
        by_status.join(", "),
        percent_text(stats.executions.success_rate)
    )];
    lines.extend(stats.plans.iter().take(SHOWN_MAX).map(|plan| {
        let took = percentiles_text(&plan.took);
        format!(
            "plan `{}`: {} executions{}{took}",
            plan.name,
            plan.executions,
            percent_text(plan.success_rate)
        )
    }));
    lines.extend(left_out_line(stats.plans.len(), "plans"));
    lines.extend(stats.tools.iter().take(SHOWN_MAX).map(|tool| {
        let seen = &tool.stats;
        format!(
            "tool {}: {} calls{}{}",
            tool.tool,
            seen.calls,
            percent_text(tool.success_rate),
            percentiles_text(&seen.took)
        )
    }));
    lines.extend(left_out_line(stats.tools.len(), "tools"));
    let failures = stats.failures.iter().map(|one| format!("{} {}", one.failed + one.unknown, one.category));
    let failures: Vec<String> = failures.collect();
    if !failures.is_empty() {
        lines.push(format!("steps that failed or are unknown: {}", failures.join(", ")));
    }
    if stats.retries.steps > 0 {
        let retries = &stats.retries;
        lines
            .push(format!("{} steps tried again, {} succeeded in the end", retries.steps, retries.succeeded));
    }
    lines.extend(stats.waiting.iter().map(|wait| {
        let took = percentiles_text(&wait.took);
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

/// Says how many of `count` items of a list were left out; None: all are shown.
fn left_out_line(count: usize, what: &str) -> Option<String> {
    let more = count.checked_sub(SHOWN_MAX).filter(|more| *more > 0)?;
    Some(format!("and {more} more {what} are left out; plan_id, task, since and until narrow it down"))
}

/// A success rate as the end of a line; empty if there is none.
fn percent_text(rate: Option<f64>) -> String {
    rate.map(|rate| format!(", {:.1} % succeeded", rate * 100.0)).unwrap_or_default()
}

/// The percentiles of a duration as the end of a line; empty if there are none.
fn percentiles_text(took: &DurationPercentiles) -> String {
    let named = [("p50", took.p50_ms), ("p95", took.p95_ms), ("p99", took.p99_ms)];
    named.iter().filter_map(|(name, ms)| Some(format!(", {name} {} ms", (*ms)?))).collect()
}
