//! MCP calls: rate and latency over stdio and HTTP, compared with a bare server of the same library that
//! answers every call with its arguments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bare_database::BareCommits;
use crate::measurements::Measurements;

/// Calls that are not counted, at the start.
const WARM_UP: usize = 50;
/// Steps of the execution whose status is read.
const STEPS_SHOWN: usize = 10;
/// Steps of each execution that is reported on, all open at once.
const OPEN_STEPS: usize = 20;
/// How long bare commits are measured beside the calls of one transport.
const BARE_TIME: Duration = Duration::from_millis(400);
/// `status` may take this many bare calls, and `record_action` a bare call and this many bare commits.
const STATUS_CALLS_MAX: f64 = 5.0;
const RECORD_COMMITS_MAX: f64 = 2.0;
const PROTOCOL: &str = "2026-07-28";

/// The connection to a server process.
enum BenchTransport {
    Stdio { stdin: ChildStdin, stdout: BufReader<ChildStdout> },
    Http { stream: BufReader<TcpStream>, at: String },
}

/// A server process of this program, ended on drop.
pub struct BenchServer {
    child: Child,
    transport: BenchTransport,
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // The process may have exited already, and a failure to end it cannot be handled here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl BenchServer {
    /// Starts this program as `--part`; over HTTP its first line is its address.
    pub fn start(part: &str, transport: &str, database: &str, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--part", part, database, transport]).env("XDG_DATA_HOME", folder);
        Self::from_command(command, transport)
    }

    /// Starts a server; over HTTP its first line is its address.
    pub fn from_command(mut command: Command, transport: &str) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().expect("its stdin is piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout is piped"));
        if transport == "stdio" {
            return Ok(Self { child, transport: BenchTransport::Stdio { stdin, stdout } });
        }
        let mut at = String::new();
        stdout.read_line(&mut at)?;
        let at = at.trim().to_owned();
        let stream = TcpStream::connect(&at)?;
        stream.set_nodelay(true)?;
        Ok(Self { child, transport: BenchTransport::Http { stream: BufReader::new(stream), at } })
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> anyhow::Result<Value> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let response = match &mut self.transport {
            BenchTransport::Stdio { stdin, stdout } => {
                stdin.write_all(format!("{body}\n").as_bytes())?;
                let mut line = String::new();
                stdout.read_line(&mut line)?;
                line
            }
            BenchTransport::Http { stream, at } => {
                let head = format!(
                    "POST /mcp HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n\
                     Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n\
                     Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
                read_response(stream)?
            }
        };
        let last = response.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let message: Value = serde_json::from_str(last.unwrap_or(&response))?;
        anyhow::ensure!(message["result"]["isError"] != true, "{tool} was refused: {message}");
        Ok(message["result"]["structuredContent"].clone())
    }
}

/// Reads the body of one response from a keep-alive connection.
pub fn read_response(stream: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let status = read_line(stream)?;
    anyhow::ensure!(status.contains(" 200 "), "the server says {status}");
    let (mut length, mut chunked) = (0, false);
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse()?,
            "transfer-encoding" => chunked = true,
            _ => {}
        }
    }
    let mut whole = Vec::new();
    loop {
        let size = if chunked { usize::from_str_radix(&read_line(stream)?, 16)? } else { length };
        let mut part = vec![0; size];
        stream.read_exact(&mut part)?;
        whole.extend(part);
        if chunked {
            read_line(stream)?;
        }
        if !chunked || size == 0 {
            return Ok(String::from_utf8(whole)?);
        }
    }
}

fn read_line(stream: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Makes sequential calls; returns calls per second, and the median and the 99th percentile in milliseconds.
pub fn time_calls(
    calls: usize,
    mut call: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<[f64; 3]> {
    let warm = WARM_UP.min(calls / 2);
    let mut times = Vec::with_capacity(calls - warm);
    for number in 0..calls {
        let started = Instant::now();
        call(number)?;
        if number >= warm {
            times.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let rate = times.len() as f64 * 1000.0 / times.iter().sum::<f64>();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Ok([rate, at(0.5), at(0.99)])
}

pub fn record_calls(measurements: &mut Measurements, name: &str, [rate, middle, slow]: [f64; 3]) {
    measurements.record(&format!("{name}.calls_per_s"), rate);
    measurements.record(&format!("{name}.p50_ms"), middle);
    measurements.record(&format!("{name}.p99_ms"), slow);
}

/// Measures all calls; `full` is the database with a journal of a million entries.
pub fn measure(
    measurements: &mut Measurements,
    calls: usize,
    folder: &Path,
    full: &str,
) -> anyhow::Result<()> {
    let empty = folder.join("door.db").to_string_lossy().into_owned();
    let bare_commits = BareCommits::open_grown(folder)?;
    for transport in ["stdio", "http"] {
        let mut bare = BenchServer::start("echo", transport, "-", folder)?;
        let echo = time_calls(calls, |number| bare.call("echo", json!({ "number": number })).map(drop))?;
        record_calls(measurements, &format!("door.{transport}.bare"), echo);
        let mut server = BenchServer::start("door", transport, &empty, folder)?;
        let id = start_agent_execution(&mut server, STEPS_SHOWN)?;
        let status = time_calls(calls, |_| server.call("status", json!({ "execution_id": id })).map(drop))?;
        record_calls(measurements, &format!("door.{transport}.status"), status);
        let ids: Vec<String> = (0..calls.div_ceil(OPEN_STEPS))
            .map(|_| start_agent_execution(&mut server, OPEN_STEPS))
            .collect::<anyhow::Result<_>>()?;
        let record = time_calls(calls, |number| {
            let (id, step) = (&ids[number / OPEN_STEPS], format!("s{}", number % OPEN_STEPS));
            let report =
                json!({ "execution_id": id, "step_id": step, "status": "succeeded", "description": "done" });
            server.call("record_action", report).map(drop)
        })?;
        record_calls(measurements, &format!("door.{transport}.record_action"), record);
        let commit_ms = bare_commits.us_per_commit(BARE_TIME)? / 1000.0;
        measurements.require_at_most(
            &format!("door: status over {transport}, p50, in bare calls"),
            status[1] / echo[1],
            STATUS_CALLS_MAX,
        );
        measurements.require_at_most(
            &format!("door: record_action over {transport} beyond a bare call, p50, in bare commits"),
            (record[1] - echo[1]) / commit_ms,
            RECORD_COMMITS_MAX,
        );
    }
    let status = |database: &str| -> anyhow::Result<f64> {
        let mut server = BenchServer::start("door", "stdio", database, folder)?;
        let id = start_agent_execution(&mut server, STEPS_SHOWN)?;
        Ok(time_calls(calls, |_| server.call("status", json!({ "execution_id": id })).map(drop))?[1])
    };
    let fresh = folder.join("door-fresh.db").to_string_lossy().into_owned();
    let growth = status(full)? / status(&fresh)?;
    measurements.record("door.status_growth_journal", growth);
    measurements.require_at_most(
        "door: status, a journal of a million entries against an empty one",
        growth,
        1.5,
    );
    Ok(())
}

/// Starts an execution of agent steps, all open at once; returns its id.
fn start_agent_execution(server: &mut BenchServer, steps: usize) -> anyhow::Result<String> {
    let step = |number: usize| json!({ "id": format!("s{number}"), "action": "Something" });
    let steps: Vec<Value> = (0..steps).map(step).collect();
    let plan = json!({ "name": format!("own-{}", steps.len()), "policy": { "concurrency": OPEN_STEPS }, "steps": steps });
    let started = server.call("execute_plan", json!({ "plan": plan, "wait_s": 60 }))?;
    let id = started["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| anyhow::anyhow!("no execution was started: {started}"))
}
