//! The parts that run in their own process, so that memory and start-up are those of a fresh one. Each part
//! prints one JSON object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::service::Service;
use actbook::tools::{CallOutcome, Tools};
use actbook_engine::policy::ExecutionStatus;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

/// The number of notes that are searched.
pub const NOTES: usize = 100_000;

/// A payload of 95 bytes, as arguments and as output.
pub fn payload() -> Value {
    json!({ "text": "x".repeat(84) })
}

pub fn plan(steps: usize, extra: Value) -> String {
    let step = |no: usize| {
        let mut step = json!({
            "id": format!("s{no}"), "tool": "bench/noop", "arguments": payload(),
            "cancellable": "irreversible",
        });
        if let (Value::Object(step), Value::Object(extra)) = (&mut step, &extra) {
            step.extend(extra.clone());
        }
        step
    };
    json!({ "name": format!("noop-{steps}"), "steps": (0..steps).map(step).collect::<Vec<_>>() }).to_string()
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

async fn open_service(url: &str, calls: Arc<AtomicU64>) -> anyhow::Result<Service> {
    let output = payload();
    let tools = Tools::new(&Config::default()).with_server_executor("bench", move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        let output = output.clone();
        async move { CallOutcome::Succeeded { output } }.boxed()
    });
    Ok(Service::open_with_tools(url, DatabaseOptions::default(), tools).await?)
}

pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let number =
        |at: usize| -> anyhow::Result<usize> { Ok(arguments.get(at).map_or(Ok(0), |text| text.parse())?) };
    let [part, url, ..] = arguments else { anyhow::bail!("--part NAME URL [NUMBER…]") };
    let transport = arguments.get(2).map_or("", String::as_str);
    match part.as_str() {
        "echo" => return runtime()?.block_on(crate::mcp_servers::serve_echo(transport)),
        // With as many threads as `actbook serve` has.
        "web-serve" => return tokio::runtime::Runtime::new()?.block_on(crate::web_server::serve(url)),
        "guard" => return runtime()?.block_on(crate::mcp_servers::serve_guarded(url)),
        "door" => return runtime()?.block_on(crate::mcp_servers::serve_actbook(url, transport)),
        _ => {}
    }
    let answer = match part.as_str() {
        "executions" => {
            runtime()?.block_on(run_executions(url, number(2)?, number(3)?, number(4)?, false))?
        }
        "followed" => runtime()?.block_on(run_executions(url, number(2)?, number(3)?, number(4)?, true))?,
        "web-generate" => runtime()?.block_on(crate::web_store::generate(url, number(2)?))?,
        "web-project" => runtime()?.block_on(crate::web_store::project(url))?,
        "web-read" => runtime()?.block_on(crate::web_store::time_reads(url))?,
        "web-client" => runtime()?.block_on(crate::web_server::time_client_reads(url, number(2)?))?,
        "start" => {
            let start = Instant::now();
            runtime()?.block_on(async {
                anyhow::Ok(open_service(url, Arc::default()).await?.plans().list().await?.len())
            })?;
            json!({ "ms": start.elapsed().as_secs_f64() * 1000.0 })
        }
        "hot" => crate::engine_path::run_execution(number(2)?)?,
        "notes" => runtime()?.block_on(crate::notes::write_notes(url, NOTES))?,
        "rare" => runtime()?.block_on(crate::history::write_rare_entries(url))?,
        "first" => runtime()?.block_on(crate::history::time_first_queries(url))?,
        "hang" => runtime()?.block_on(start_hanging_calls(url, number(2)?))?,
        "recover" => runtime()?.block_on(resume_after_kill(url, number(2)?))?,
        _ => anyhow::bail!("there is no part `{part}`"),
    };
    anstream::println!("{answer}");
    Ok(())
}

/// Runs executions of no-op steps, `at_once` at a time; if `followed`, while a projector follows the journal.
async fn run_executions(
    url: &str,
    executions: usize,
    steps: usize,
    at_once: usize,
    followed: bool,
) -> anyhow::Result<Value> {
    let calls = Arc::new(AtomicU64::new(0));
    let service = open_service(url, calls.clone()).await?;
    let caller = Caller::new("bench");
    let saved = service.plans().save(&caller, &plan(steps, json!({})), true).await?;
    service.runner().await?;
    if followed {
        let service = service.clone();
        tokio::spawn(async move { service.follow_journal().await });
    }
    let (_keep, halt) = watch::channel(false);
    let slots = Arc::new(Semaphore::new(at_once.max(1)));
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..executions {
        let slot = slots.clone().acquire_owned().await?;
        let (service, caller, halt) = (service.clone(), caller.clone(), halt.clone());
        let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
        running.spawn(async move {
            let started = service.executions().start(&caller, reference, plan, None, true).await?;
            let status = service.executions().drive(started.progress, halt).await?;
            drop(slot);
            anyhow::ensure!(status.as_str() == "succeeded", "an execution ended {status}");
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let done = (executions * steps) as u64;
    anyhow::ensure!(calls.load(Ordering::Relaxed) == done, "every step calls its tool exactly once");
    service.close().await;
    Ok(json!({ "steps_per_s": done as f64 / seconds, "seconds": seconds, "rss_mb": rss_mb()? }))
}

/// Starts executions whose idempotent call never ends, prints a line, and waits to be killed.
async fn start_hanging_calls(url: &str, executions: usize) -> anyhow::Result<Value> {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let tools = Tools::new(&Config::default()).with_server_executor("bench", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending().boxed()
    });
    let service = Service::open_with_tools(url, DatabaseOptions::default(), tools).await?;
    let caller = Caller::new("bench");
    let retry = json!({ "idempotent": true, "retry": { "max_attempts": 3, "backoff": "1ms", "on": ["unavailable"] } });
    let saved = service.plans().save(&caller, &plan(3, retry), true).await?;
    let (_keep, halt) = watch::channel(false);
    for _ in 0..executions {
        let started = service
            .executions()
            .start(&caller, saved.reference.clone(), saved.plan.clone(), None, true)
            .await?;
        let (service, halt) = (service.clone(), halt.clone());
        tokio::spawn(async move { service.executions().drive(started.progress, halt).await.map(drop) });
    }
    while calls.load(Ordering::Relaxed) < executions as u64 {
        tokio::task::yield_now().await;
    }
    anstream::println!("hanging");
    std::future::pending().await
}

/// Resumes all executions of a dead process; the time counts from the start of this process.
async fn resume_after_kill(url: &str, executions: usize) -> anyhow::Result<Value> {
    let start = Instant::now();
    let calls = Arc::new(AtomicU64::new(0));
    let service = open_service(url, calls.clone()).await?;
    let taken = service.background().take_over_orphaned().await?;
    anyhow::ensure!(taken == executions, "{taken} of {executions} were taken up");
    while calls.load(Ordering::Relaxed) < executions as u64 {
        tokio::task::yield_now().await;
    }
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    // The next round counts its own executions only, so these must end first.
    let running =
        actbook::service::ExecutionFilter { status: ExecutionStatus::Running.into(), ..Default::default() };
    while !service.executions().list(&running, 1).await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(json!({ "ms": ms }))
}

fn rss_mb() -> anyhow::Result<f64> {
    Ok(memory_kb("VmHWM:")? / 1024.0)
}

/// A field of this process's status, in kilobytes: `VmRSS:` is its memory now, `VmHWM:` the most that it had.
pub fn memory_kb(field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kb.unwrap_or(f64::NAN))
}
