//! The benchmark suite: the measurements, round by round, and their thresholds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bare;
use crate::figures::{Figures, median};

#[derive(Debug)]
pub struct Scale {
    rounds: usize,
    sequential: usize,
    executions: usize,
    journal_entries: usize,
    in_flight: usize,
    door_calls: usize,
}

impl Scale {
    pub const FULL: Self = Self {
        rounds: 5,
        sequential: 1_000,
        executions: 1_000,
        journal_entries: 1_000_000,
        in_flight: 1_000,
        door_calls: 1_000,
    };
    pub const QUICK: Self = Self {
        rounds: 1,
        sequential: 500,
        executions: 200,
        journal_entries: 20_000,
        in_flight: 100,
        door_calls: 300,
    };
}

const AT_ONCE: usize = 32;
const STEPS_EACH: usize = 10;
const BARE_TIME: Duration = Duration::from_millis(1500);

/// Runs one part in its own process and parses the JSON that it prints.
fn part(name: &str, url: &str, numbers: &[usize]) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--part").arg(name).arg(url).args(numbers.iter().map(ToString::to_string));
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "the part `{name}` failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn figure(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or(f64::NAN)
}

/// Only steps per second.
pub fn rates(measurements: &mut Figures, scale: &Scale) -> anyhow::Result<()> {
    sqlite_rates(measurements, scale, scratch()?.path())?;
    match std::env::var("ACTBOOK_TEST_POSTGRES") {
        Ok(url) => postgres_rates(measurements, scale, &url),
        Err(_) => Ok(()),
    }
}

/// Only MCP calls.
pub fn door(measurements: &mut Figures, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch()?;
    let full = scratch.path().join("journal.db").to_string_lossy().into_owned();
    part("executions", &full, &[scale.journal_entries / 2 / STEPS_EACH, STEPS_EACH, 256])?;
    crate::door::rows(measurements, scale.door_calls, scratch.path(), &full)
}

/// Only tool calls.
pub fn tools(measurements: &mut Figures) -> anyhow::Result<()> {
    crate::tools::rows(measurements, scratch()?.path())
}

/// Only note searches.
pub fn notes(measurements: &mut Figures, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch()?;
    let mut databases = vec![("sqlite", scratch.path().join("notes.db").to_string_lossy().into_owned())];
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        databases.push(("postgres", fresh_database(&url)?));
    }
    for (name, url) in databases {
        part("notes", &url, &[])?;
        crate::notes::rows(measurements, name, &url, scale.door_calls, scratch.path())?;
    }
    Ok(())
}

/// Only pages of a long journal.
pub fn history(measurements: &mut Figures, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch()?;
    let mut databases = vec![("sqlite", scratch.path().join("history.db").to_string_lossy().into_owned())];
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        databases.push(("postgres", fresh_database(&url)?));
    }
    for (name, url) in databases {
        part("executions", &url, &[scale.journal_entries / 2 / STEPS_EACH, STEPS_EACH, 256])?;
        let position = part("rare", &url, &[])?["position"].as_u64().unwrap_or(0);
        measurements.put(&format!("{name}.history_entries"), position as f64);
        let first = part("first", &url, &[])?;
        for query in ["rare", "rare_again", "stats", "stats_again"] {
            measurements.put(&format!("{name}.first_{query}_ms"), figure(&first, query));
        }
        crate::history::rows(measurements, name, &url, position, scale.door_calls, scratch.path())?;
    }
    Ok(())
}

pub fn sqlite(measurements: &mut Figures, scale: &Scale) -> anyhow::Result<()> {
    let scratch = scratch()?;
    sqlite_rates(measurements, scale, scratch.path())?;
    let file = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    growth(measurements, scale, "sqlite", [&file("plan.db"), &file("empty.db"), &file("journal.db")])?;
    size(measurements, scale, &scratch.path().join("size.db"))?;
    let start = median(
        (0..5)
            .map(|_| Ok(figure(&part("start", &file("journal.db"), &[])?, "ms")))
            .collect::<anyhow::Result<_>>()?,
    );
    measurements.put("start_ms", start);
    measurements.at_most("start-up in a journal of a million entries, ms", start, 50.0);
    crate::door::rows(measurements, scale.door_calls, scratch.path(), &file("journal.db"))?;
    recovery(measurements, scale, "sqlite", &file("journal.db"))
}

pub fn postgres(measurements: &mut Figures, scale: &Scale, url: &str) -> anyhow::Result<()> {
    postgres_rates(measurements, scale, url)?;
    let [plan, empty, journal] = [fresh_database(url)?, fresh_database(url)?, fresh_database(url)?];
    growth(measurements, scale, "postgres", [&plan, &empty, &journal])?;
    recovery(measurements, scale, "postgres", &fresh_database(url)?)
}

fn sqlite_rates(measurements: &mut Figures, scale: &Scale, folder: &Path) -> anyhow::Result<()> {
    let rates = rounds(scale, "sqlite", measurements, |round| {
        let folder = folder.join(round.to_string());
        std::fs::create_dir_all(&folder)?;
        let commits = bare::commits_per_s(&folder, BARE_TIME)?;
        let grouped = bare::rows_per_s_grouped(&folder, AT_ONCE, BARE_TIME)?;
        let url = |name: &str| folder.join(name).to_string_lossy().into_owned();
        Ok(Round {
            commits,
            grouped: Some(grouped),
            sequential: url("sequential.db"),
            concurrent: url("concurrent.db"),
        })
    })?;
    measurements.at_least("SQLite: one execution, steps/s over bare commits/s", rates.sequential, 0.6);
    measurements.at_least("SQLite: 1,000 executions, 32 at once, over bare commits/s", rates.concurrent, 5.0);
    Ok(())
}

fn postgres_rates(measurements: &mut Figures, scale: &Scale, url: &str) -> anyhow::Result<()> {
    let rates = rounds(scale, "postgres", measurements, |_| {
        let database = || fresh_database(url);
        Ok(Round { commits: pgbench(url)?, grouped: None, sequential: database()?, concurrent: database()? })
    })?;
    measurements.at_least(
        "PostgreSQL: one execution, steps/s over one pgbench client",
        rates.sequential,
        0.5,
    );
    measurements.at_least(
        "PostgreSQL: 1,000 executions, 32 at once, over one pgbench client",
        rates.concurrent,
        3.0,
    );
    Ok(())
}

struct Round {
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
fn rounds(
    scale: &Scale,
    name: &str,
    measurements: &mut Figures,
    mut prepare: impl FnMut(usize) -> anyhow::Result<Round>,
) -> anyhow::Result<Ratios> {
    let mut measured: Vec<[f64; 7]> = Vec::new();
    for round in 0..scale.rounds {
        let Round { commits, grouped, sequential, concurrent } = prepare(round)?;
        let one = part("executions", &sequential, &[1, scale.sequential, 1])?;
        let many = part("executions", &concurrent, &[scale.executions, STEPS_EACH, AT_ONCE])?;
        let (one_rate, many_rate) = (figure(&one, "steps_per_s"), figure(&many, "steps_per_s"));
        let rss = figure(&many, "rss_mb");
        let grouped = grouped.unwrap_or(f64::NAN);
        measured.push([commits, grouped, one_rate, many_rate, one_rate / commits, many_rate / commits, rss]);
    }
    let middle = |column: usize| median(measured.iter().map(|row| row[column]).collect());
    measurements.put(&format!("{name}.commits_per_s"), middle(0));
    if !middle(1).is_nan() {
        measurements.put(&format!("{name}.rows_per_s_grouped"), middle(1));
    }
    measurements.put(&format!("{name}.sequential_steps_per_s"), middle(2));
    measurements.put(&format!("{name}.concurrent_steps_per_s"), middle(3));
    measurements.put(&format!("{name}.sequential_ratio"), middle(4));
    measurements.put(&format!("{name}.concurrent_ratio"), middle(5));
    measurements.put(&format!("{name}.rss_mb"), middle(6));
    measurements.at_most(&format!("{name}: resident memory at its highest, MB"), middle(6), 40.0);
    Ok(Ratios { sequential: middle(4), concurrent: middle(5) })
}

/// Measures whether a step costs the same late in a long plan and late in a long journal. Both sides
/// alternate, so that a busy machine slows both.
fn growth(
    measurements: &mut Figures,
    scale: &Scale,
    name: &str,
    [plan, empty, journal]: [&str; 3],
) -> anyhow::Result<()> {
    let rate = |url: &str, executions: usize, steps: usize| -> anyhow::Result<f64> {
        Ok(figure(&part("executions", url, &[executions, steps, 1])?, "steps_per_s"))
    };
    let mut by_plan = Vec::new();
    for _ in 0..scale.rounds {
        by_plan.push(rate(plan, 10, 100)? / rate(plan, 1, 10_000)?);
    }
    measurements.put(&format!("{name}.growth_plan"), median(by_plan));
    let filling = scale.journal_entries / 2 / STEPS_EACH;
    part("executions", journal, &[filling, STEPS_EACH, 256])?;
    let mut by_journal = Vec::new();
    for _ in 0..scale.rounds {
        by_journal.push(rate(empty, 10, 100)? / rate(journal, 10, 100)?);
    }
    measurements.put(&format!("{name}.growth_journal"), median(by_journal));
    for (what, figure) in
        [("10,000 steps against 100", "growth_plan"), ("a journal of a million entries", "growth_journal")]
    {
        let value = measurements.get(&format!("{name}.{figure}"));
        measurements.at_most(&format!("{name}: cost per step, {what}"), value, 1.25);
    }
    Ok(())
}

fn size(measurements: &mut Figures, scale: &Scale, file: &Path) -> anyhow::Result<()> {
    let url = file.to_string_lossy().into_owned();
    let used = || -> anyhow::Result<u64> {
        let connection = rusqlite::Connection::open(file)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(std::fs::metadata(file)?.len())
    };
    part("executions", &url, &[10, STEPS_EACH, AT_ONCE])?;
    let before = used()?;
    let steps = scale.sequential * 10;
    part("executions", &url, &[10, scale.sequential, AT_ONCE])?;
    let per_step = (used()? - before) as f64 / steps as f64;
    measurements.put("sqlite.bytes_per_step", per_step);
    measurements.at_most("SQLite: bytes of disk per no-op step", per_step, 900.0);
    Ok(())
}

/// Measures the time until a fresh process has resumed everything after kill -9 with all calls in flight.
fn recovery(measurements: &mut Figures, scale: &Scale, name: &str, url: &str) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..scale.rounds {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--part", "hang", url, &scale.in_flight.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its stdout is piped"));
        std::io::BufRead::read_line(&mut stdout, &mut String::new())?;
        child.kill()?;
        child.wait()?;
        times.push(figure(&part("recover", url, &[scale.in_flight])?, "ms"));
    }
    let time = median(times);
    measurements.put(&format!("{name}.recovery_1000_ms"), time);
    measurements.at_most(&format!("{name}: 1,000 executions going again after kill -9, ms"), time, 300.0);
    Ok(())
}

fn scratch() -> anyhow::Result<tempfile::TempDir> {
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
