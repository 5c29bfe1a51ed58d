//! Tool calls: the overhead of a durable step through a real server over a bare call to the same server by
//! rmcp's client, and whether many executions keep one server busy.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::service::Service;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::bare_database::BareCommits;
use crate::measurements::{Measurements, median};

const CALLS: usize = 500;
const ROUNDS: usize = 5;
/// How long bare commits are counted before each round: the disk's speed varies.
const BARE_TIME: Duration = Duration::from_millis(500);
/// Executions of one call each, run concurrently against one server.
const CROWD_EXECUTIONS: usize = 200;
const CROWD_CALL_TIME: Duration = Duration::from_millis(20);
const CONCURRENCY: usize = 8;

/// The echo server over HTTP, in its own process; ended on drop.
struct EchoProcess {
    child: Child,
    url: String,
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // The process may have exited already, and a failure to end it cannot be handled here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn echo_command(transport: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--part", "echo", "-", transport]);
    Ok(command)
}

fn spawn_http_echo() -> anyhow::Result<EchoProcess> {
    let mut child = echo_command("http")?.stdout(Stdio::piped()).spawn()?;
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its stdout is piped"));
    let mut at = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut at)?;
    Ok(EchoProcess { child, url: format!("http://{}/mcp", at.trim()) })
}

type BareClient = RunningService<RoleClient, ClientConfig>;

fn client_config() -> (ClientConfig, ClientLifecycleMode) {
    let config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("bare", "1"));
    (config, ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] })
}

async fn bare_call(bare: &BareClient, number: usize) -> anyhow::Result<()> {
    let arguments = json!({ "number": number }).as_object().cloned().unwrap_or_default();
    let answer =
        bare.call_tool_once(CallToolRequestParams::new("echo".to_owned()).with_arguments(arguments)).await?;
    drop(answer);
    Ok(())
}

/// Microseconds of one bare call.
async fn bare_us(bare: &BareClient) -> anyhow::Result<f64> {
    for number in 0..50 {
        bare_call(bare, number).await?;
    }
    let start = Instant::now();
    for number in 0..CALLS {
        bare_call(bare, number).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

/// Microseconds of one bare call and one bare commit in turn, in a task apart from the client's, like a step.
async fn in_turn_us(bare: Arc<BareClient>, commits: Arc<Mutex<BareCommits>>) -> anyhow::Result<f64> {
    let in_turn = async move {
        let start = Instant::now();
        for number in 0..CALLS {
            bare_call(&bare, number).await?;
            commits.lock().expect("no other task commits").commit()?;
        }
        anyhow::Ok(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
    };
    tokio::spawn(in_turn).await?
}

async fn open_service(database: &str, server: Value) -> anyhow::Result<Service> {
    let config =
        json!({ "mcpServers": { "echo": server }, "servers": { "echo": { "concurrency": CONCURRENCY } } });
    let config = Config::parse(&config.to_string(), &std::env::current_dir()?)?;
    Ok(Service::open(database, DatabaseOptions::default(), &config).await?)
}

fn plan(name: &str, steps: usize, arguments: impl Fn(usize) -> Value) -> String {
    let step = |no: usize| json!({ "id": format!("s{no}"), "tool": "echo/echo", "arguments": arguments(no) });
    json!({ "name": name, "steps": (0..steps).map(step).collect::<Vec<_>>() }).to_string()
}

async fn run_plan(service: &Service, plan: &str, at_once: usize) -> anyhow::Result<f64> {
    let caller = Caller::new("bench");
    let saved = service.plans().save(&caller, plan, false).await?;
    service.runner().await?;
    let (_keep, halt) = watch::channel(false);
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let (service, caller, halt) = (service.clone(), caller.clone(), halt.clone());
        let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
        running.spawn(async move {
            let started = service.executions().start(&caller, reference, plan, None, true).await?;
            let status = service.executions().drive(started.progress, halt).await?;
            anyhow::ensure!(status.as_str() == "succeeded", "an execution ended {status}");
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Microseconds of one Actbook step.
async fn step_us(service: &Service) -> anyhow::Result<f64> {
    let number = |no: usize| json!({ "number": no });
    run_plan(service, &plan("warm", 50, number), 1).await?;
    Ok(run_plan(service, &plan("steps", CALLS, number), 1).await? * 1e6 / CALLS as f64)
}

pub fn measure(measurements: &mut Measurements, folder: &std::path::Path) -> anyhow::Result<()> {
    // Fails only if a provider is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure_transports(measurements, folder))
}

async fn measure_transports(measurements: &mut Measurements, folder: &std::path::Path) -> anyhow::Result<()> {
    let echo_process = spawn_http_echo()?;
    let program = std::env::current_exe()?;
    for transport in ["stdio", "http"] {
        let (config, lifecycle) = client_config();
        let bare: Arc<BareClient> = Arc::new(match transport {
            "stdio" => {
                // The child ends when its stdin closes.
                let mut command = tokio::process::Command::from(echo_command("stdio")?);
                let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let read = child.stdout.take().expect("its stdout is piped");
                let write = child.stdin.take().expect("its stdin is piped");
                config.serve_with_lifecycle((read, write), lifecycle).await?
            }
            _ => {
                let http = StreamableHttpClientTransport::from_uri(echo_process.url.as_str());
                config.serve_with_lifecycle(http, lifecycle).await?
            }
        });
        let server = match transport {
            "stdio" => json!({ "command": program, "args": ["--part", "echo", "-", "stdio"] }),
            _ => json!({ "url": echo_process.url }),
        };
        let database = folder.join(format!("tools-{transport}.db"));
        let service = open_service(&database.to_string_lossy(), server).await?;
        // Actbook's database has a full-length log from the second round on; so must the one it is compared
        // with.
        let commits = Arc::new(Mutex::new(BareCommits::open_grown(folder)?));
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let commit_us = commits.lock().expect("no other task commits").us_per_commit(BARE_TIME)?;
            let in_turn_us = in_turn_us(bare.clone(), commits.clone()).await?;
            rounds.push([bare_us(&bare).await?, step_us(&service).await?, commit_us, in_turn_us]);
        }
        let middle = |pick: fn(&[f64; 4]) -> f64| median(rounds.iter().map(pick).collect());
        measurements.record(&format!("tools.{transport}.bare_us"), middle(|round| round[0]));
        measurements.record(&format!("tools.{transport}.step_us"), middle(|round| round[1]));
        measurements.record(&format!("tools.{transport}.bare_with_commit_us"), middle(|round| round[3]));
        let over = middle(|[bare, step, commit, _]| (step - bare) / commit);
        measurements.record(&format!("tools.{transport}.overhead_commits"), over);
        measurements.require_at_most(
            &format!("{transport}: a step over a bare call, in bare commits"),
            over,
            1.5,
        );
        // Recorded without a threshold: the overhead when call and commit alternate.
        let in_turn = middle(|[_, step, commit, in_turn]| 1.0 + (step - in_turn) / commit);
        measurements.record(&format!("tools.{transport}.overhead_commits_in_turn"), in_turn);
        if transport == "stdio" {
            measure_crowd(measurements, &service).await?;
        }
        service.close().await;
    }
    Ok(())
}

async fn measure_crowd(measurements: &mut Measurements, service: &Service) -> anyhow::Result<()> {
    let arguments = |_: usize| json!({ "sleep_ms": CROWD_CALL_TIME.as_millis() as u64 });
    let ideal = CROWD_EXECUTIONS as f64 * CROWD_CALL_TIME.as_secs_f64() / CONCURRENCY as f64;
    let took = run_plan(service, &plan("crowd", 1, arguments), CROWD_EXECUTIONS).await? / ideal;
    let answer = service.catalog().call("echo/echo", json!({ "peak": true }), Duration::from_secs(5)).await;
    let peak = answer.output.and_then(|output| output["peak"].as_f64()).unwrap_or(f64::NAN);
    measurements.record("tools.crowd_over_ideal", took);
    measurements.record("tools.crowd_peak", peak);
    measurements.require_at_most("200 executions over one server, against the ideal", took, 1.3);
    measurements.require_at_most("calls at once at a server that bears eight", peak, CONCURRENCY as f64);
    Ok(())
}
