//! Pages of a long history over MCP: the last page compared with the first, with and without filters; and the
//! time of the first and the second query for rare entries and statistics.

use std::path::Path;
use std::time::Instant;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::service::{ActionFacts, ActionRecord, JournalFilter, Service, StatsFilter};
use serde_json::{Value, json};

use crate::mcp_calls::{BenchServer, record_calls, time_calls};
use crate::measurements::Measurements;

const PAGE: u64 = 20;
/// The last page may take at most this many times as long as the first.
const GROWTH_MAX: f64 = 2.0;

/// Appends a page of entries by a rare actor; returns the last position.
pub async fn write_rare_entries(url: &str) -> anyhow::Result<Value> {
    let service = Service::open(url, DatabaseOptions::default(), &Config::default()).await?;
    for _ in 0..PAGE {
        let facts = ActionFacts { entity: Some("the last page".into()), ..ActionFacts::default() };
        let act = ActionRecord { facts, ..ActionRecord::default() };
        service.executions().record_action(&Caller::new("agent:rare"), act).await?;
    }
    let (position, _) = service.journal().head().await?;
    Ok(json!({ "position": position }))
}

/// Times the first and the second query for rare entries and for statistics, in ms.
pub async fn time_first_queries(url: &str) -> anyhow::Result<Value> {
    let service = Service::open(url, DatabaseOptions::default(), &Config::default()).await?;
    let mut times_ms = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        let filter = JournalFilter { actor: Some("agent:rare".into()), ..Default::default() };
        anyhow::ensure!(
            service.journal().list(&filter, PAGE).await?.len() as u64 == PAGE,
            "the rare ones are found"
        );
        times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    for _ in 0..2 {
        let start = Instant::now();
        anyhow::ensure!(
            service.journal().stats(&StatsFilter::default()).await?.executions.total > 0,
            "there are figures"
        );
        times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(
        json!({ "rare": times_ms[0], "rare_again": times_ms[1], "stats": times_ms[2], "stats_again": times_ms[3] }),
    )
}

/// A named query, with its first and its last page.
struct PageQuery {
    name: &'static str,
    label: &'static str,
    first: Value,
    last: Value,
}

pub fn measure(
    measurements: &mut Measurements,
    name: &str,
    url: &str,
    position: u64,
    calls: usize,
    folder: &Path,
) -> anyhow::Result<()> {
    let mut server = BenchServer::start("door", "stdio", url, folder)?;
    let end = position.saturating_sub(PAGE);
    let queries = [
        PageQuery {
            name: "history",
            label: "the journal's last page over its first",
            first: json!({}),
            last: json!({ "cursor": end }),
        },
        PageQuery {
            name: "history_kind",
            label: "the last page of one kind over its first",
            first: json!({ "kind": "execution_ended" }),
            last: json!({ "kind": "execution_ended", "cursor": end - 40 * PAGE }),
        },
        PageQuery {
            name: "history_executions",
            label: "the last page of executions over the first",
            first: json!({ "status": "succeeded" }),
            last: json!({ "status": "succeeded", "cursor": 40 * PAGE }),
        },
        PageQuery {
            name: "history_rare",
            label: "20 rare entries at the journal's end over its first page",
            first: json!({}),
            last: json!({ "actor": "agent:rare" }),
        },
    ];
    for PageQuery { name: what, label, first, last } in queries {
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        // Alternating, so that a busy machine slows both.
        for _ in 0..3 {
            quick.push(time_pages(&mut server, &first, calls / 3)?);
            slow.push(time_pages(&mut server, &last, calls / 3)?);
        }
        let middle = |mut rounds: Vec<[f64; 3]>| {
            rounds.sort_by(|one, other| one[1].total_cmp(&other[1]));
            rounds[rounds.len() / 2]
        };
        let (quick, slow) = (middle(quick), middle(slow));
        record_calls(measurements, &format!("{name}.{what}_first"), quick);
        record_calls(measurements, &format!("{name}.{what}_last"), slow);
        measurements.record(&format!("{name}.{what}_ratio"), slow[1] / quick[1]);
        measurements.require_at_most(
            &format!("{name}: {label}, p50"),
            slow[1] / quick[1],
            growth_limit(what),
        );
    }
    Ok(())
}

/// The allowed ratio: a rare query also reads the index, so it gets more than pages of the same query.
fn growth_limit(what: &str) -> f64 {
    if what == "history_rare" { 10.0 } else { GROWTH_MAX }
}

fn time_pages(server: &mut BenchServer, query: &Value, calls: usize) -> anyhow::Result<[f64; 3]> {
    time_calls(calls, |_| {
        let found = server.call("query_ledger", query.clone())?;
        let list = if found.get("entries").is_some() { "entries" } else { "executions" };
        let count = found[list].as_array().map_or(0, Vec::len) as u64;
        anyhow::ensure!(count == PAGE, "a whole page is found for {query}, not {count}");
        Ok(())
    })
}
