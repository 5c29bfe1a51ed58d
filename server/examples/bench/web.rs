//! Pages, live streams and API reads of a serving process: `cargo xtask bench --web`, the part over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::mcp_calls::{read_response, time_calls};
use crate::measurements::{Measurements, median};
use crate::suite::{number_of, run_part};
use crate::web_server::{FEW_STEPS, PAGE};
use crate::web_streams;

/// Steps of the execution whose page is compared with that of `FEW_STEPS`.
const MANY_STEPS: usize = 10_000;
/// The views of an execution's page, and one with a step's panel open: name and end of the query.
const PAGES: [(&str, &str); 5] = [
    ("steps", "steps"),
    ("graph", "graph"),
    ("timeline", "timeline"),
    ("journal", "journal"),
    ("panel", "steps&step=s5"),
];
/// Times that a page is read after it was read once.
const PAGE_READS: usize = 21;
/// Most elements that a page may have.
const NODES_MAX: f64 = 5_000.0;
/// `/live` streams on one running execution.
const LIVE_STREAMS: usize = 200;
/// Streams of entries that are cut again and again.
const CUT_STREAMS: usize = 100;
/// Steps of the execution that the cut streams follow.
const CUT_STEPS: usize = 2_000;

/// A process that serves one database, ended on drop.
pub struct WebProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub address: String,
    pub token: String,
}

impl Drop for WebProcess {
    fn drop(&mut self) {
        // The process may have exited already, and a failure to end it cannot be handled here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl WebProcess {
    fn start(url: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--part", "web-serve", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().expect("its stdin is piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout is piped"));
        let ready = read_json(&mut stdout)?;
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        Ok(Self { address: text("listen"), token: text("token"), child, stdin, stdout })
    }

    fn command(&mut self, line: &str) -> anyhow::Result<Value> {
        writeln!(self.stdin, "{line}")?;
        read_json(&mut self.stdout)
    }

    /// Starts an execution; returns its id and the journal's head before it.
    fn start_execution(&mut self, steps: usize) -> anyhow::Result<(String, u64)> {
        let started = self.command(&format!("start {steps}"))?;
        let id = started["id"].as_str().unwrap_or_default().to_owned();
        Ok((id, started["head"].as_u64().unwrap_or(0)))
    }

    /// Drives the execution that was started to its end; in steps per second, and the head after that.
    fn drive(&mut self, steps: usize) -> anyhow::Result<(f64, u64)> {
        let driven = self.command(&format!("drive {steps}"))?;
        Ok((number_of(&driven, "steps_per_s"), driven["head"].as_u64().unwrap_or(0)))
    }

    /// The process's memory in kilobytes.
    fn resident_kb(&mut self) -> anyhow::Result<f64> {
        Ok(number_of(&self.command("memory")?, "resident_kb"))
    }

    fn connect(&self) -> anyhow::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    /// The body at a path, over a connection that stays open.
    fn get(&self, connection: &mut BufReader<TcpStream>, path: &str) -> anyhow::Result<String> {
        let (address, token) = (&self.address, &self.token);
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        read_response(connection)
    }
}

fn read_json(stdout: &mut BufReader<ChildStdout>) -> anyhow::Result<Value> {
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Measures all of it on a new database. `rounds`: of each speed; `steps`: of the execution that is watched.
pub fn measure(
    measurements: &mut Measurements,
    name: &str,
    url: &str,
    rounds: usize,
    steps: usize,
) -> anyhow::Result<()> {
    let mut server = WebProcess::start(url)?;
    measure_pages(measurements, name, &mut server)?;
    measure_reads(measurements, name, &server, url)?;
    measure_live(measurements, name, &mut server, rounds, steps)?;
    let (_, head) = server.start_execution(CUT_STEPS)?;
    let following = web_streams::follow_with_cuts(&server, CUT_STREAMS, head)?;
    server.drive(CUT_STEPS)?;
    let cuts = following.join().map_err(|_| anyhow::anyhow!("the readers panicked"))??;
    measurements.record(&format!("{name}.stream_cuts"), cuts as f64);
    measurements.require_at_least(
        &format!("{name}: cuts of {CUT_STREAMS} streams that resumed without gap or repeat"),
        cuts as f64,
        CUT_STREAMS as f64,
    );
    Ok(())
}

/// Compares the pages of an execution of many steps with those of one of few steps.
fn measure_pages(measurements: &mut Measurements, name: &str, server: &mut WebProcess) -> anyhow::Result<()> {
    let mut ids = Vec::new();
    for steps in [FEW_STEPS, MANY_STEPS] {
        ids.push(server.start_execution(steps)?.0);
        server.drive(steps)?;
    }
    let mut connection = server.connect()?;
    for (view, query) in PAGES {
        let mut cold = Vec::new();
        let mut times = [Vec::new(), Vec::new()];
        let mut nodes = 0;
        for read in 0..=PAGE_READS {
            for (id, times) in ids.iter().zip(&mut times) {
                let started = Instant::now();
                let page = server.get(&mut connection, &format!("/executions/{id}?view={query}"))?;
                let ms = started.elapsed().as_secs_f64() * 1000.0;
                if read == 0 {
                    cold.push(ms);
                } else {
                    times.push(ms);
                }
                nodes = nodes.max(count_elements(&page));
            }
        }
        let [few, many] = times.map(median);
        measurements.record(&format!("{name}.page_{view}_few_ms"), few);
        measurements.record(&format!("{name}.page_{view}_many_ms"), many);
        measurements.record(&format!("{name}.page_{view}_many_cold_ms"), cold[1]);
        measurements.record(&format!("{name}.page_{view}_nodes"), nodes as f64);
        let page = format!("{name}: page of 10,000 steps, {view}");
        measurements.require_at_most(&format!("{page}, warm, over that of 10"), many / few, 10.0);
        measurements.require_at_most(&format!("{page}, elements"), nodes as f64, NODES_MAX);
    }
    Ok(())
}

/// The number of elements of a page.
fn count_elements(html: &str) -> usize {
    html.as_bytes().windows(2).filter(|pair| pair[0] == b'<' && pair[1].is_ascii_alphabetic()).count()
}

/// Compares reads over HTTP with the same ones through `Client`.
fn measure_reads(
    measurements: &mut Measurements,
    name: &str,
    server: &WebProcess,
    url: &str,
) -> anyhow::Result<()> {
    const CALLS: usize = 500;
    let through_client = run_part("web-client", url, &[CALLS])?;
    let mut connection = server.connect()?;
    let executions = server.get(&mut connection, &format!("/api/v1/executions?limit={PAGE}"))?;
    let executions: Value = serde_json::from_str(&executions)?;
    let items = executions["items"].as_array().into_iter().flatten();
    let few = items.into_iter().find(|one| one["total"] == FEW_STEPS);
    let id = few.and_then(|one| one["id"].as_str()).unwrap_or_default();
    for (read, path) in [
        ("view", format!("/api/v1/executions/{id}")),
        ("list", format!("/api/v1/executions?limit={PAGE}")),
        ("journal", format!("/api/v1/journal?limit={PAGE}")),
    ] {
        let http = time_calls(CALLS, |_| server.get(&mut connection, &path).map(drop))?[1];
        let client = number_of(&through_client, read);
        measurements.record(&format!("{name}.read_{read}_client_ms"), client);
        measurements.record(&format!("{name}.read_{read}_http_ms"), http);
        let bar = format!("{name}: {read} over the API, p50 ms added to the client's");
        measurements.require_at_most(&bar, http - client, 0.3);
    }
    Ok(())
}

/// Measures what streams on the page of a running execution cost its steps, and their memory.
fn measure_live(
    measurements: &mut Measurements,
    name: &str,
    server: &mut WebProcess,
    rounds: usize,
    steps: usize,
) -> anyhow::Result<()> {
    let (mut alone, mut watched, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms the process up.
    for round in 0..=rounds {
        server.start_execution(steps)?;
        let (rate, _) = server.drive(steps)?;
        let (id, _) = server.start_execution(steps)?;
        let before_kb = server.resident_kb()?;
        let path = format!("/executions/{id}/live?view=steps");
        let watching = web_streams::watch_page(server, &path, LIVE_STREAMS)?;
        let (watched_rate, end) = server.drive(steps)?;
        let stream_kb = (server.resident_kb()? - before_kb) / LIVE_STREAMS as f64;
        watching.stop_when_all_have(end)?;
        if round > 0 {
            alone.push(rate);
            watched.push(watched_rate);
            memory.push(stream_kb);
        }
    }
    let ratio = median(watched) / median(alone.clone());
    let stream_kb = median(memory);
    measurements.record(&format!("{name}.unwatched_steps_per_s"), median(alone));
    measurements.record(&format!("{name}.watched_ratio"), ratio);
    measurements.record(&format!("{name}.live_stream_kb"), stream_kb);
    let streams = format!("{LIVE_STREAMS} live streams on one execution");
    measurements.require_at_least(&format!("{name}: steps/s with {streams} over without"), ratio, 0.9);
    measurements.require_at_most(&format!("{name}: {streams}, KB a stream"), stream_kb, 100.0);
    Ok(())
}
