//! The benchmark suite: the measurements, round by round, and their thresholds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bare_database;
use crate::measurements::{Measurements, median};

#[derive(Debug)]
pub struct Scale {
    rounds: usize,
    sequential: usize,
    executions: usize,
    journal_entries: usize,
    in_flight: usize,
    door_calls: usize,
    web_executions: usize,
    watched_steps: usize,
}

impl Scale {
    pub const FULL: Self = Self {
        rounds: 5,
        sequential: 1_000,
        executions: 1_000,
        journal_entries: 1_000_000,
        in_flight: 1_000,
        door_calls: 1_000,
        web_executions: 1_000_000,
        watched_steps: 10_000,
    };
    pub const QUICK: Self = Self {
        rounds: 1,
        sequential: 500,
        executions: 200,
        journal_entries: 20_000,
        in_flight: 100,
        door_calls: 300,
        web_executions: 50_000,
        watched_steps: 2_000,
    };
}

const CONCURRENCY: usize = 32;
const STEPS_EACH: usize = 10;
const BARE_TIME: Duration = Duration::from_millis(1500);

/// Runs one part in its own process and parses the JSON that it prints.
pub fn run_part(name: &str, url: &str, numbers: &[usize]) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--part").arg(name).arg(url).args(numbers.iter().map(ToString::to_string));
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "the part `{name}` failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub fn number_of(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or(f64::NAN)
}

/// Only steps per second.
pub fn rates(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    sqlite_rates(measurements, scale, scratch_folder()?.path())?;
    match std::env::var("ACTBOOK_TEST_POSTGRES") {
        Ok(url) => postgres_rates(measurements, scale, &url),
        Err(_) => Ok(()),
    }
}

/// Only MCP calls.
pub fn mcp(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    let full = scratch.path().join("journal.db").to_string_lossy().into_owned();
    run_part("executions", &full, &[scale.journal_entries / 2 / STEPS_EACH, STEPS_EACH, 256])?;
    crate::mcp_calls::measure(measurements, scale.door_calls, scratch.path(), &full)
}

/// Only tool calls.
pub fn tools(measurements: &mut Measurements) -> anyhow::Result<()> {
    crate::tools::measure(measurements, scratch_folder()?.path())
}

/// Only guarded calls.
pub fn guard(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    crate::guard::measure(measurements, scale.door_calls, scratch_folder()?.path())
}

/// Only note searches.
pub fn notes(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    let mut databases = vec![("sqlite", scratch.path().join("notes.db").to_string_lossy().into_owned())];
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        databases.push(("postgres", fresh_database(&url)?));
    }
    for (name, url) in databases {
        run_part("notes", &url, &[])?;
        crate::notes::measure(measurements, name, &url, scale.door_calls, scratch.path())?;
    }
    Ok(())
}

/// Only pages of a long journal.
pub fn history(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    let mut databases = vec![("sqlite", scratch.path().join("history.db").to_string_lossy().into_owned())];
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        databases.push(("postgres", fresh_database(&url)?));
    }
    for (name, url) in databases {
        run_part("executions", &url, &[scale.journal_entries / 2 / STEPS_EACH, STEPS_EACH, 256])?;
        let position = run_part("rare", &url, &[])?["position"].as_u64().unwrap_or(0);
        measurements.record(&format!("{name}.history_entries"), position as f64);
        let first = run_part("first", &url, &[])?;
        for query in ["rare", "rare_again", "stats", "stats_again"] {
            measurements.record(&format!("{name}.first_{query}_ms"), number_of(&first, query));
        }
        crate::history::measure(measurements, name, &url, position, scale.door_calls, scratch.path())?;
    }
    Ok(())
}

/// Executions in the small journal of `web_store`.
const WEB_EXECUTIONS_FEW: usize = 10_000;

/// Only pages, live streams and API reads of a serving process.
pub fn web_http(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    let file = scratch.path().join("web.db").to_string_lossy().into_owned();
    crate::web::measure(measurements, "sqlite", &file, scale.rounds, scale.watched_steps)?;
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        let url = fresh_database(&url)?;
        crate::web::measure(measurements, "postgres", &url, scale.rounds, scale.watched_steps)?;
    }
    Ok(())
}

/// Only the reads of the dashboard, in the store, and what the projector costs appends.
pub fn web_store(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    let file = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    measure_web_reads(measurements, scale, "sqlite", [&file("few.db"), &file("many.db")])?;
    measure_followed(measurements, scale, "sqlite", |round| Ok(file(&format!("followed{round}.db"))))?;
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        let [few, many] = [fresh_database(&url)?, fresh_database(&url)?];
        measure_web_reads(measurements, scale, "postgres", [&few, &many])?;
        measure_followed(measurements, scale, "postgres", |_| fresh_database(&url))?;
    }
    Ok(())
}

/// Measures lists, pairs of filters and statistics over many executions, against few for each single filter.
fn measure_web_reads(
    measurements: &mut Measurements,
    scale: &Scale,
    name: &str,
    [few, many]: [&str; 2],
) -> anyhow::Result<()> {
    let mut reads = Vec::new();
    for (url, executions) in [(few, WEB_EXECUTIONS_FEW), (many, scale.web_executions)] {
        run_part("web-generate", url, &[executions])?;
        let projected = run_part("web-project", url, &[])?;
        measurements.record(&format!("{name}.project_{executions}_us"), number_of(&projected, "us"));
        reads.push(run_part("web-read", url, &[])?);
    }
    let stats = number_of(&reads[1], "stats_first").max(number_of(&reads[1], "stats_month"));
    measurements.record(&format!("{name}.stats_ms"), stats);
    measurements.require_at_most(&format!("{name}: statistics of 30 days, first question, ms"), stats, 500.0);
    let numbers = |value: &Value| -> Vec<(String, f64)> {
        let object = value.as_object().into_iter().flatten();
        object.map(|(key, ms)| (key.clone(), ms.as_f64().unwrap_or(f64::NAN))).collect()
    };
    for (filter, ms) in numbers(&reads[1]["single"]) {
        let few_ms = number_of(&reads[0]["single"], &filter);
        measurements.record(&format!("{name}.list_{filter}_ms"), ms);
        measurements.require_at_most(
            &format!("{name}: list by {filter}, p50 over that of 10,000"),
            ms / few_ms,
            2.0,
        );
    }
    let slowest = numbers(&reads[1]["pairs"]).into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let (pair, ms) = slowest.unwrap_or_default();
    measurements.record(&format!("{name}.slowest_pair_ms"), ms);
    measurements.require_at_most(&format!("{name}: the slowest pair of filters, {pair}, p50 ms"), ms, 10.0);
    Ok(())
}

/// Measures steps per second while a projector follows, over those without, in alternation.
fn measure_followed(
    measurements: &mut Measurements,
    scale: &Scale,
    name: &str,
    mut fresh: impl FnMut(String) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    for (what, numbers) in [
        // Long enough for several rounds of the projector and the rests between them.
        ("sequential", [scale.sequential / 50, scale.sequential * 4, 1]),
        ("concurrent", [scale.executions * 20, STEPS_EACH, CONCURRENCY]),
    ] {
        let (mut alone, mut followed) = (Vec::new(), Vec::new());
        for round in 0..scale.rounds.max(3) {
            for (part, rates) in [("executions", &mut alone), ("followed", &mut followed)] {
                let url = fresh(format!("-{what}-{part}-{round}"))?;
                rates.push(number_of(&run_part(part, &url, &numbers)?, "steps_per_s"));
            }
        }
        let ratio = median(followed) / median(alone);
        measurements.record(&format!("{name}.followed_{what}_ratio"), ratio);
        measurements.require_at_least(
            &format!("{name}: {what} steps/s with a projector over without"),
            ratio,
            0.97,
        );
    }
    Ok(())
}

pub fn sqlite(measurements: &mut Measurements, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch_folder()?;
    sqlite_rates(measurements, scale, scratch.path())?;
    let file = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    measure_growth(
        measurements,
        scale,
        "sqlite",
        [&file("plan.db"), &file("empty.db"), &file("journal.db")],
    )?;
    measure_size(measurements, scale, &scratch.path().join("size.db"))?;
    let start = median(
        (0..5)
            .map(|_| Ok(number_of(&run_part("start", &file("journal.db"), &[])?, "ms")))
            .collect::<anyhow::Result<_>>()?,
    );
    measurements.record("start_ms", start);
    measurements.require_at_most("start-up in a journal of a million entries, ms", start, 50.0);
    crate::mcp_calls::measure(measurements, scale.door_calls, scratch.path(), &file("journal.db"))?;
    measure_recovery(measurements, scale, "sqlite", &file("journal.db"))
}

pub fn postgres(measurements: &mut Measurements, scale: &Scale, url: &str) -> anyhow::Result<()> {
    postgres_rates(measurements, scale, url)?;
    let [plan, empty, journal] = [fresh_database(url)?, fresh_database(url)?, fresh_database(url)?];
    measure_growth(measurements, scale, "postgres", [&plan, &empty, &journal])?;
    measure_recovery(measurements, scale, "postgres", &fresh_database(url)?)
}

fn sqlite_rates(measurements: &mut Measurements, scale: &Scale, folder: &Path) -> anyhow::Result<()> {
    let rates = measure_rates(scale, "sqlite", measurements, |round| {
        let folder = folder.join(round.to_string());
        std::fs::create_dir_all(&folder)?;
        let commits = bare_database::commits_per_s(&folder, BARE_TIME)?;
        let grouped = bare_database::rows_per_s_grouped(&folder, CONCURRENCY, BARE_TIME)?;
        let url = |name: &str| folder.join(name).to_string_lossy().into_owned();
        Ok(RoundSetup {
            commits,
            grouped: Some(grouped),
            sequential: url("sequential.db"),
            concurrent: url("concurrent.db"),
        })
    })?;
    measurements.require_at_least(
        "SQLite: one execution, steps/s over bare commits/s",
        rates.sequential,
        0.6,
    );
    measurements.require_at_least(
        "SQLite: 1,000 executions, 32 at once, over bare commits/s",
        rates.concurrent,
        5.0,
    );
    Ok(())
}

fn postgres_rates(measurements: &mut Measurements, scale: &Scale, url: &str) -> anyhow::Result<()> {
    let rates = measure_rates(scale, "postgres", measurements, |_| {
        let database = || fresh_database(url);
        Ok(RoundSetup {
            commits: pgbench(url)?,
            grouped: None,
            sequential: database()?,
            concurrent: database()?,
        })
    })?;
    measurements.require_at_least(
        "PostgreSQL: one execution, steps/s over one pgbench client",
        rates.sequential,
        0.5,
    );
    measurements.require_at_least(
        "PostgreSQL: 1,000 executions, 32 at once, over one pgbench client",
        rates.concurrent,
        3.0,
    );
    Ok(())
}

struct RoundSetup {
    commits: f64,
    grouped: Option<f64>,
    sequential: String,
    concurrent: String,
}

struct Ratios {
    sequential: f64,
    concurrent: f64,
}

/// Measures steps per second, each round right after the bare rate, so that a busy machine slows both.
fn measure_rates(
    scale: &Scale,
    name: &str,
    measurements: &mut Measurements,
    mut prepare: impl FnMut(usize) -> anyhow::Result<RoundSetup>,
) -> anyhow::Result<Ratios> {
    let mut measured: Vec<[f64; 7]> = Vec::new();
    for round in 0..scale.rounds {
        let RoundSetup { commits, grouped, sequential, concurrent } = prepare(round)?;
        let one = run_part("executions", &sequential, &[1, scale.sequential, 1])?;
        let many = run_part("executions", &concurrent, &[scale.executions, STEPS_EACH, CONCURRENCY])?;
        let (one_rate, many_rate) = (number_of(&one, "steps_per_s"), number_of(&many, "steps_per_s"));
        let rss = number_of(&many, "rss_mb");
        let grouped = grouped.unwrap_or(f64::NAN);
        measured.push([commits, grouped, one_rate, many_rate, one_rate / commits, many_rate / commits, rss]);
    }
    let middle = |column: usize| median(measured.iter().map(|row| row[column]).collect());
    measurements.record(&format!("{name}.commits_per_s"), middle(0));
    if !middle(1).is_nan() {
        measurements.record(&format!("{name}.rows_per_s_grouped"), middle(1));
    }
    measurements.record(&format!("{name}.sequential_steps_per_s"), middle(2));
    measurements.record(&format!("{name}.concurrent_steps_per_s"), middle(3));
    measurements.record(&format!("{name}.sequential_ratio"), middle(4));
    measurements.record(&format!("{name}.concurrent_ratio"), middle(5));
    measurements.record(&format!("{name}.rss_mb"), middle(6));
    measurements.require_at_most(&format!("{name}: resident memory at its highest, MB"), middle(6), 40.0);
    Ok(Ratios { sequential: middle(4), concurrent: middle(5) })
}

/// Measures whether a step costs the same late in a long plan and late in a long journal. Both sides
/// alternate, so that a busy machine slows both.
fn measure_growth(
    measurements: &mut Measurements,
    scale: &Scale,
    name: &str,
    [plan, empty, journal]: [&str; 3],
) -> anyhow::Result<()> {
    let rate = |url: &str, executions: usize, steps: usize| -> anyhow::Result<f64> {
        Ok(number_of(&run_part("executions", url, &[executions, steps, 1])?, "steps_per_s"))
    };
    let mut by_plan = Vec::new();
    for _ in 0..scale.rounds {
        by_plan.push(rate(plan, 10, 100)? / rate(plan, 1, 10_000)?);
    }
    measurements.record(&format!("{name}.growth_plan"), median(by_plan));
    let filling = scale.journal_entries / 2 / STEPS_EACH;
    run_part("executions", journal, &[filling, STEPS_EACH, 256])?;
    let mut by_journal = Vec::new();
    for _ in 0..scale.rounds {
        by_journal.push(rate(empty, 10, 100)? / rate(journal, 10, 100)?);
    }
    measurements.record(&format!("{name}.growth_journal"), median(by_journal));
    for (what, figure) in
        [("10,000 steps against 100", "growth_plan"), ("a journal of a million entries", "growth_journal")]
    {
        let value = measurements.get(&format!("{name}.{figure}"));
        measurements.require_at_most(&format!("{name}: cost per step, {what}"), value, 1.25);
    }
    Ok(())
}

fn measure_size(measurements: &mut Measurements, scale: &Scale, file: &Path) -> anyhow::Result<()> {
    let url = file.to_string_lossy().into_owned();
    let used = || -> anyhow::Result<u64> {
        let connection = rusqlite::Connection::open(file)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(std::fs::metadata(file)?.len())
    };
    run_part("executions", &url, &[10, STEPS_EACH, CONCURRENCY])?;
    let before = used()?;
    let steps = scale.sequential * 10;
    run_part("executions", &url, &[10, scale.sequential, CONCURRENCY])?;
    let per_step = (used()? - before) as f64 / steps as f64;
    measurements.record("sqlite.bytes_per_step", per_step);
    measurements.require_at_most("SQLite: bytes of disk per no-op step", per_step, 900.0);
    Ok(())
}

/// Measures the time until a fresh process has resumed everything after kill -9 with all calls in flight.
fn measure_recovery(
    measurements: &mut Measurements,
    scale: &Scale,
    name: &str,
    url: &str,
) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..scale.rounds {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--part", "hang", url, &scale.in_flight.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its stdout is piped"));
        std::io::BufRead::read_line(&mut stdout, &mut String::new())?;
        child.kill()?;
        child.wait()?;
        times.push(number_of(&run_part("recover", url, &[scale.in_flight])?, "ms"));
    }
    let time = median(times);
    measurements.record(&format!("{name}.recovery_1000_ms"), time);
    measurements.require_at_most(
        &format!("{name}: 1,000 executions going again after kill -9, ms"),
        time,
        300.0,
    );
    Ok(())
}

fn scratch_folder() -> anyhow::Result<tempfile::TempDir> {
    Ok(tempfile::TempDir::new_in(std::env::var_os("ACTBOOK_BENCH_FOLDER").unwrap_or_else(|| ".".into()))?)
}

fn psql(url: &str, sql: &str) -> anyhow::Result<()> {
    let status = Command::new("psql")
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .stdout(Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "psql failed: {sql}");
    Ok(())
}

fn fresh_database(url: &str) -> anyhow::Result<String> {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    let name = format!("bench_{stamp}");
    psql(url, &format!("CREATE DATABASE {name}"))?;
    let (head, query) =
        url.split_once('?').map_or((url, String::new()), |(head, query)| (head, format!("?{query}")));
    let base = head.rsplit_once('/').map_or(head, |(base, _)| base);
    Ok(format!("{base}/{name}{query}"))
}

/// One client, prepared one-row inserts of 200 bytes.
fn pgbench(url: &str) -> anyhow::Result<f64> {
    psql(url, "CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, body BYTEA NOT NULL)")?;
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), "INSERT INTO bare (body) VALUES (decode(repeat('07', 200), 'hex'));\n")?;
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-c", "1", "-T", "3", "-f"])
        .arg(script.path())
        .arg(url)
        .output()?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    let rate =
        output_text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.ok_or_else(|| {
        anyhow::anyhow!("pgbench printed: {output_text}{}", String::from_utf8_lossy(&output.stderr))
    })
}
