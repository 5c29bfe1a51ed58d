//! Lists, pairs of filters and statistics over many executions, and what the projector costs appends:
//! `cargo xtask bench --web`, the part of the store. The journal is a few hundred real executions, copied with
//! other positions and times until there are enough.

use std::time::Instant;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::service::{ExecutionFilter, Service, StatsFilter, Terms};
use actbook::store::execution_list::{self, ExecutionQuery};
use actbook::store::{DEFAULT_TENANT, Db, Dialect, Statement, journal};
use actbook::tools::{CallOutcome, Tools};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::measurements::median;

/// Real executions that are copied.
const ORIGINALS: usize = 500;
const PLANS: usize = 40;
const TOOLS: usize = 30;
const SERVERS: usize = 6;
const TASKS: usize = 50;
const ACTORS: usize = 8;
/// Copies that one transaction inserts.
const COPIES_PER_TRANSACTION: usize = 20;
/// The time that the copies are spread over.
const DAYS: i64 = 30;
const DAY_MS: i64 = 24 * 3_600_000;
const PAGE: u64 = 50;
/// Calls of which the median is taken.
const CALLS: usize = 21;

/// Writes a journal with about so many executions, without projecting it.
pub async fn generate(url: &str, executions: usize) -> anyhow::Result<Value> {
    write_originals(url).await?;
    let db = Db::open(url, DatabaseOptions::default()).await?;
    let head = journal::head(DEFAULT_TENANT).first(&db).await?.map_or(0, |head| head.position);
    // Whole pages of 128 entries, so that the pages of copied streams move with them.
    let span = (head / 128 + 1) * 128;
    let copies = executions / ORIGINALS;
    let step_ms = DAYS * DAY_MS / copies.max(1) as i64;
    for first in (1..copies).step_by(COPIES_PER_TRANSACTION) {
        let last = (first + COPIES_PER_TRANSACTION - 1).min(copies - 1);
        db.transact(copy_statements(first as i64, last as i64, span as i64, step_ms)).await?;
    }
    if db.dialect() == Dialect::Postgres {
        db.transact(vec![Statement::new("ANALYZE", Vec::new())]).await?;
    }
    let head = journal::head(DEFAULT_TENANT).first(&db).await?.map_or(0, |head| head.position);
    Ok(json!({ "position": head }))
}

/// Runs executions with different plans, tools, tasks, actors and outcomes.
async fn write_originals(url: &str) -> anyhow::Result<()> {
    let mut tools = Tools::new(&Config::default());
    for server in 0..SERVERS {
        tools = tools.with_server_executor(&format!("server{server}"), |call| {
            let outcome = if call.tool.ends_with("fails") {
                CallOutcome::Failed {
                    category: ErrorCategory::ToolError,
                    message: format!("no row {}", call.arguments),
                    sent: true,
                    output: None,
                    retry_after: None,
                }
            } else {
                CallOutcome::Succeeded { output: json!({ "ok": true }) }
            };
            std::future::ready(outcome).boxed()
        });
    }
    let service = Service::open_with_tools(url, DatabaseOptions::default(), tools).await?;
    let (_keep, halt) = watch::channel(false);
    for number in 0..ORIGINALS {
        let caller = Caller::new(format!("person:actor{}", number % ACTORS));
        let saved = service.plans().save(&caller, &plan(number).to_string(), true).await?;
        let executions = service.executions();
        let started = executions.start(&caller, saved.reference, saved.plan, None, true).await?;
        let id = started.id.to_string();
        let status = executions.drive(started.progress, halt.clone()).await?;
        if status == ExecutionStatus::Blocked && !number.is_multiple_of(100) {
            executions.decide(&caller, &id, "s1".into(), StepAnswer::Abandon, None, None).await?;
            if let Some(progress) = executions.claim(&caller, &id, false).await? {
                executions.drive(progress, halt.clone()).await?;
            }
        }
    }
    service.close().await;
    Ok(())
}

/// A plan of two steps; the second one of every twentieth fails.
fn plan(number: usize) -> Value {
    let tool = |number: usize| format!("server{}/tool{}", number % SERVERS, number % TOOLS);
    let fails = number.is_multiple_of(20);
    let second = if fails { format!("server{}/fails", number % SERVERS) } else { tool(number * 7 + 1) };
    json!({
        "name": format!("plan-{}{}", number % PLANS, if fails { "-fails" } else { "" }),
        "task": format!("TASK-{}", number % TASKS),
        "steps": [
            { "id": "s0", "tool": tool(number), "arguments": { "number": number } },
            { "id": "s1", "tool": second, "arguments": { "number": number }, "depends_on": ["s0"] },
        ],
    })
}

/// Copies every ended execution for each number from `first` to `last`.
fn copy_statements(first: i64, last: i64, span: i64, step_ms: i64) -> Vec<Statement> {
    macro_rules! copy {
        ($($text:literal),+) => {
            concat!(
                "WITH RECURSIVE copies (nth) AS (SELECT CAST($1 AS BIGINT) UNION ALL \
                 SELECT nth + 1 FROM copies WHERE nth < CAST($2 AS BIGINT)) ",
                $($text),+
            )
        };
    }
    let numbers = |more: &[i64]| -> Vec<_> {
        [first, last, span].iter().chain(more).map(|number| (*number).into()).collect()
    };
    // With the tenant, every table is read by its key: without it, each copy reads all copies before it.
    let (tenant, base) = (DEFAULT_TENANT.0, DEFAULT_TENANT.0 << 40);
    vec![
        Statement::new(
            copy!(
                "INSERT INTO journal (tenant, entry, stream, version, at, actor, kind, body, hash) \
                 SELECT journal.tenant, entry + nth * CAST($3 AS BIGINT), stream + nth * CAST($3 AS BIGINT), version, \
                 at + nth * CAST($4 AS BIGINT), actor, kind, body, hash FROM copies CROSS JOIN journal \
                 JOIN executions ON executions.tenant = CAST($6 AS BIGINT) AND executions.id = journal.stream \
                 AND ended_at IS NOT NULL WHERE executions.id < CAST($3 AS BIGINT) \
                 AND entry < CAST($5 AS BIGINT) + CAST($3 AS BIGINT) ORDER BY nth, entry"
            ),
            numbers(&[step_ms, base, tenant]),
        ),
        Statement::new(
            copy!(
                "INSERT INTO payloads (entry, body) SELECT payloads.entry + nth * CAST($3 AS BIGINT), payloads.body \
                 FROM copies CROSS JOIN journal JOIN payloads ON payloads.entry = journal.entry \
                 JOIN executions ON executions.tenant = CAST($5 AS BIGINT) AND executions.id = journal.stream \
                 AND ended_at IS NOT NULL WHERE executions.id < CAST($3 AS BIGINT) \
                 AND journal.entry < CAST($4 AS BIGINT) + CAST($3 AS BIGINT) ORDER BY nth, payloads.entry"
            ),
            numbers(&[base, tenant]),
        ),
        Statement::new(
            copy!(
                "INSERT INTO pages (tenant, stream, page) SELECT pages.tenant, stream + nth * CAST($3 AS BIGINT), \
                 page + nth * CAST($3 AS BIGINT) / 128 FROM copies CROSS JOIN pages \
                 JOIN executions ON executions.tenant = pages.tenant AND executions.id = stream \
                 AND ended_at IS NOT NULL \
                 WHERE pages.tenant = CAST($4 AS BIGINT) AND stream < CAST($3 AS BIGINT)"
            ),
            numbers(&[tenant]),
        ),
        Statement::new(
            copy!(
                "INSERT INTO executions (tenant, id, public_id, plan, plan_name, plan_version, task, status, place, \
                 seat, epoch, started_at, ended_at, look_again_at, project, done, total, first_error) \
                 SELECT tenant, id + nth * CAST($3 AS BIGINT), public_id || '-' || nth, plan, plan_name, plan_version, \
                 task, status, place, seat, epoch, started_at + nth * CAST($4 AS BIGINT), \
                 ended_at + nth * CAST($4 AS BIGINT), look_again_at, project, done, total, \
                 first_error + nth * CAST($3 AS BIGINT) FROM copies CROSS JOIN executions \
                 WHERE tenant = CAST($5 AS BIGINT) AND ended_at IS NOT NULL AND id < CAST($3 AS BIGINT) \
                 ORDER BY nth, id"
            ),
            numbers(&[step_ms, tenant]),
        ),
        Statement::new(
            "UPDATE head SET position = (SELECT MAX(entry) - CAST($1 AS BIGINT) FROM journal WHERE tenant = $2), \
             hash = (SELECT hash FROM journal WHERE tenant = $2 ORDER BY entry DESC LIMIT 1) WHERE tenant = $2",
            vec![base.into(), DEFAULT_TENANT.0.into()],
        ),
    ]
}

/// Projects the journal; in microseconds for each execution.
pub async fn project(url: &str) -> anyhow::Result<Value> {
    let service = Service::open(url, DatabaseOptions::default(), &Config::default()).await?;
    let start = Instant::now();
    service.catch_up(|_| {}).await?;
    let seconds = start.elapsed().as_secs_f64();
    let executions: u64 = service.executions().count_by_status().await?.values().sum();
    service.close().await;
    Ok(json!({ "seconds": seconds, "executions": executions, "us": seconds * 1e6 / executions as f64 }))
}

/// One condition on each attribute, included or excluded.
fn conditions(started_at: i64) -> Vec<(&'static str, ExecutionFilter)> {
    let any = ExecutionFilter::default;
    let text = |text: &str| Terms::from(text.to_owned());
    let no = |text: &str| Terms { any_of: Vec::new(), none_of: vec![text.to_owned()] };
    vec![
        ("status", ExecutionFilter { status: ExecutionStatus::Failed.into(), ..any() }),
        ("plan", ExecutionFilter { plan: text("plan-7"), ..any() }),
        ("not_plan", ExecutionFilter { plan: no("plan-7"), ..any() }),
        ("task", ExecutionFilter { task: text("TASK-9"), ..any() }),
        ("tool", ExecutionFilter { tool: text("server1/tool1"), ..any() }),
        ("server", ExecutionFilter { server: text("server3"), ..any() }),
        ("not_server", ExecutionFilter { server: no("server3"), ..any() }),
        ("actor", ExecutionFilter { actor: text("person:actor5"), ..any() }),
        ("category", ExecutionFilter { category: ErrorCategory::ToolError.into(), ..any() }),
        ("search", ExecutionFilter { words: vec!["plan-3".into()], ..any() }),
        ("until", ExecutionFilter { until: Some(started_at), ..any() }),
    ]
}

/// Both conditions.
fn both(one: &ExecutionFilter, other: &ExecutionFilter) -> ExecutionFilter {
    fn joined<T: Clone>(one: &Terms<T>, other: &Terms<T>) -> Terms<T> {
        Terms {
            any_of: [&one.any_of[..], &other.any_of[..]].concat(),
            none_of: [&one.none_of[..], &other.none_of[..]].concat(),
        }
    }
    ExecutionFilter {
        status: joined(&one.status, &other.status),
        plan: joined(&one.plan, &other.plan),
        task: joined(&one.task, &other.task),
        tool: joined(&one.tool, &other.tool),
        server: joined(&one.server, &other.server),
        actor: joined(&one.actor, &other.actor),
        category: joined(&one.category, &other.category),
        words: [&one.words[..], &other.words[..]].concat(),
        until: one.until.or(other.until),
        ..ExecutionFilter::default()
    }
}

/// Times the first page of every filter and of every pair, and the statistics of all days. In milliseconds.
pub async fn time_reads(url: &str) -> anyhow::Result<Value> {
    let service = Service::open(url, DatabaseOptions::default(), &Config::default()).await?;
    let start = Instant::now();
    anyhow::ensure!(service.journal().stats(&StatsFilter::default()).await?.executions.total > 0, "counted");
    let stats_first = start.elapsed().as_secs_f64() * 1000.0;
    let newest = service.executions().list(&ExecutionFilter::default(), 1).await?;
    let newest: jiff::Timestamp = newest[0].started_at.parse()?;
    let since = Some(newest.as_millisecond() - DAYS * DAY_MS + 1_234_567);
    let month = StatsFilter { since, ..StatsFilter::default() };
    let start = Instant::now();
    service.journal().stats(&month).await?;
    let stats_month = start.elapsed().as_secs_f64() * 1000.0;
    let db = Db::open(url, DatabaseOptions::default()).await?;
    let conditions = conditions(newest.as_millisecond() - 10 * DAY_MS);
    let mut single = serde_json::Map::new();
    for (name, filter) in &conditions {
        single.insert((*name).to_owned(), json!(median_ms(&db, filter, true).await?));
    }
    let mut pairs = serde_json::Map::new();
    for (at, (one_name, one)) in conditions.iter().enumerate() {
        for (other_name, other) in &conditions[at + 1..] {
            let ms = median_ms(&db, &both(one, other), false).await?;
            pairs.insert(format!("{one_name}+{other_name}"), json!(ms));
        }
    }
    Ok(json!({ "stats_first": stats_first, "stats_month": stats_month, "single": single, "pairs": pairs }))
}

/// The median time of a filter's first page, which must be full if `full`.
async fn median_ms(db: &Db, filter: &ExecutionFilter, full: bool) -> anyhow::Result<f64> {
    let query = ExecutionQuery { filter, within: None, waiting_after_end: false };
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        let found = execution_list::list(db, DEFAULT_TENANT, &query, PAGE).await?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        anyhow::ensure!(
            !full || found.len() as u64 == PAGE,
            "a full page, not {} of {filter:?}",
            found.len()
        );
    }
    Ok(median(times))
}
