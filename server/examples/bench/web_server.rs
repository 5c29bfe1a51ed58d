//! The process that `web` measures: it serves the dashboard and the API, and runs executions of no-op steps when a
//! line on its stdin says so. Each command prints one line of JSON.

use std::io::Write;
use std::net::SocketAddr;

use actbook::caller::{Caller, Role};
use actbook::config::{Config, DatabaseOptions};
use actbook::mcp::{McpEndpoint, SessionHandler, ToolProfile, http};
use actbook::service::{Service, StartedExecution, TOKEN_LIFETIME, TokenSpec};
use actbook::tools::{CallOutcome, Tools};
use actbook::web::{self, AccessConfig, Endpoints, ListenConfig, RouterState};
use actbook::{Client, ExecutionFilter, JournalFilter};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::measurements::median;
use crate::parts;

/// Entries, or executions, of the pages that `time_client_reads` reads.
pub const PAGE: u64 = 50;
/// Steps of the execution whose view is read.
pub const FEW_STEPS: usize = 10;

/// Serves, as `actbook serve` does, until its stdin ends.
pub async fn serve(url: &str) -> anyhow::Result<()> {
    let output = parts::payload();
    let tools = Tools::new(&Config::default()).with_server_executor("bench", move |_| {
        let output = output.clone();
        async move { CallOutcome::Succeeded { output } }.boxed()
    });
    let service = Service::open_with_tools(url, DatabaseOptions::default(), tools).await?.with_kept_folds();
    let caller = Caller::new("person:bench");
    service.runner().await?;
    let following = service.clone();
    tokio::spawn(async move { following.follow_journal().await });
    let (listen, token) = start_listening(&service, &caller).await?;
    say(&json!({ "listen": listen, "token": token }))?;
    let mut started = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match line.split_once(' ') {
            Some(("start", steps)) => {
                let (head, _) = service.journal().head().await?;
                let execution = start(&service, &caller, steps.parse()?).await?;
                let answer = json!({ "id": execution.id, "head": head });
                started = Some(execution);
                answer
            }
            Some(("drive", steps)) => drive(&service, started.take(), steps.parse()?).await?,
            Some(_) | None => json!({ "resident_kb": parts::memory_kb("VmRSS:")? }),
        };
        say(&answer)?;
    }
    service.close().await;
    Ok(())
}

fn say(answer: &Value) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{answer}")?;
    Ok(stdout.flush()?)
}

/// Starts the server; returns its address and an admin's token.
async fn start_listening(service: &Service, caller: &Caller) -> anyhow::Result<(SocketAddr, String)> {
    let listen = ListenConfig::loopback(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listener = listen.bind().await?;
    let address = listener.local_addr()?;
    let spec =
        TokenSpec { name: "bench".to_owned(), role: Role::Admin, is_person: false, lifetime: TOKEN_LIFETIME };
    let created = service.access().create_token(caller, spec).await?;
    let token = created.token.ok_or_else(|| anyhow::anyhow!("no token was created"))?;
    let ending = CancellationToken::new();
    let endpoint = McpEndpoint::new(service, &Config::default(), ToolProfile::Run)?;
    let access = AccessConfig {
        mcp_is_open: false,
        is_https: false,
        cookie_name: "bench".to_owned(),
        base_url: format!("http://{address}"),
    };
    let endpoints = Endpoints {
        mcp: http::router(move || SessionHandler::new(endpoint.clone()), &ending),
        web: Some(RouterState::new(service.clone(), access, ending.clone())),
        service: Some(service.clone()),
    };
    tokio::spawn(async move {
        web::serve(listener, &listen, endpoints, &ending, std::future::pending()).await;
    });
    Ok((address, token))
}

/// Starts an execution that waits to be driven.
async fn start(service: &Service, caller: &Caller, steps: usize) -> anyhow::Result<StartedExecution> {
    let saved = service.plans().save(caller, &parts::plan(steps, json!({})), true).await?;
    Ok(service.executions().start(caller, saved.reference, saved.plan, None, true).await?)
}

/// Drives the execution that was started to its end; in steps per second.
async fn drive(service: &Service, started: Option<StartedExecution>, steps: usize) -> anyhow::Result<Value> {
    let started = started.ok_or_else(|| anyhow::anyhow!("nothing was started"))?;
    let (_keep, halt) = watch::channel(false);
    let clock = std::time::Instant::now();
    let status = service.executions().drive(started.progress, halt).await?;
    let seconds = clock.elapsed().as_secs_f64();
    anyhow::ensure!(status.as_str() == "succeeded", "an execution ended {status}");
    let (head, _) = service.journal().head().await?;
    Ok(json!({ "steps_per_s": steps as f64 / seconds, "head": head }))
}

/// The median times of reads through `Client`, in milliseconds, by name; the same as `web` makes over HTTP.
pub async fn time_client_reads(url: &str, calls: usize) -> anyhow::Result<Value> {
    let client = Client::builder().database(url).config(Config::default()).take_up(false).open().await?;
    let (filter, entries) = (ExecutionFilter::default(), JournalFilter::default());
    let all = client.executions(&filter, 500).await?;
    let few = all.iter().find(|one| one.total == Some(FEW_STEPS as u64));
    let id = few.map(|one| one.id.clone()).ok_or_else(|| anyhow::anyhow!("no execution of few steps"))?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..calls {
        let clock = std::time::Instant::now();
        client.view(&id).await?;
        times[0].push(clock.elapsed().as_secs_f64() * 1000.0);
        let clock = std::time::Instant::now();
        client.executions(&filter, PAGE).await?;
        times[1].push(clock.elapsed().as_secs_f64() * 1000.0);
        let clock = std::time::Instant::now();
        client.journal(&entries, PAGE).await?;
        times[2].push(clock.elapsed().as_secs_f64() * 1000.0);
    }
    let [view, list, journal] = times.map(median);
    Ok(json!({ "view": view, "list": list, "journal": journal }))
}
