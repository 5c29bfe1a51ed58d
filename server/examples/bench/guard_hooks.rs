//! Hooks of guarded sessions, each a process of the binary beside this program, from its start to its exit: one call that
//! nothing is kept for, and a shell command in a folder of many files that have not changed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::measurements::Measurements;

/// Files of the folder that a shell command's hook looks at.
const FILES: usize = 50_000;
const FILES_PER_FOLDER: usize = 100;
/// Hooks that are measured, and those before them that are not.
const HOOKS: usize = 100;
const WARM_UP: usize = 5;
/// The bars, in milliseconds.
const HOOK_P50_MS: f64 = 15.0;
const HOOK_P99_MS: f64 = 50.0;
const SNAPSHOT_P95_MS: f64 = 200.0;

/// Measures the hooks, and records how the bars are met.
pub fn measure(measurements: &mut Measurements) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let bench = HookBench { binary: binary()?, folder: scratch.path() };
    bench.write_config(json!({ "snapshot": false }))?;
    let mut plain = bench.time_hooks("plain", "Read", json!({ "file_path": "a.txt" }))?;
    bench.make_files()?;
    bench.write_config(json!({ "snapshot": { "folder": "project", "budget": "10m" } }))?;
    let begun = Instant::now();
    bench.run_hook(&bench.event("shell", "first", "Bash", json!({ "command": "ls" })))?;
    measurements.record("first snapshot of 50,000 files, s", begun.elapsed().as_secs_f64());
    let mut snapshot = bench.time_hooks("shell", "Bash", json!({ "command": "ls" }))?;
    plain.sort_by(f64::total_cmp);
    snapshot.sort_by(f64::total_cmp);
    for part in [50, 99] {
        measurements.record(&format!("hook p{part}, ms"), percentile(&plain, part));
    }
    for part in [50, 95] {
        let name = format!("hook with a snapshot of 50,000 warm files p{part}, ms");
        measurements.record(&name, percentile(&snapshot, part));
    }
    let base = percentile(&plain, 50);
    measurements.require_at_most("hook p50, ms", base, HOOK_P50_MS);
    measurements.require_at_most("hook p99, ms", percentile(&plain, 99), HOOK_P99_MS);
    let alone = percentile(&snapshot, 95) - base;
    measurements.require_at_most("snapshot of 50,000 warm files p95, ms", alone, SNAPSHOT_P95_MS);
    Ok(())
}

struct HookBench<'a> {
    binary: PathBuf,
    folder: &'a Path,
}

impl HookBench<'_> {
    fn write_config(&self, guard: Value) -> anyhow::Result<()> {
        Ok(std::fs::write(self.folder.join("actbook.yaml"), json!({ "guard": guard }).to_string())?)
    }

    fn make_files(&self) -> anyhow::Result<()> {
        for no in 0..FILES {
            let folder = self.folder.join(format!("project/{}", no / FILES_PER_FOLDER));
            if no % FILES_PER_FOLDER == 0 {
                std::fs::create_dir_all(&folder)?;
            }
            std::fs::write(folder.join(format!("{no}.txt")), format!("file {no}\n"))?;
        }
        Ok(())
    }

    fn event(&self, session: &str, id: &str, tool: &str, input: Value) -> Value {
        json!({
            "session_id": session, "cwd": self.folder, "permission_mode": "default", "tool_use_id": id,
            "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
        })
    }

    /// The times of hooks before calls, in milliseconds.
    fn time_hooks(&self, session: &str, tool: &str, input: Value) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::with_capacity(HOOKS);
        for no in 0..WARM_UP + HOOKS {
            let event = self.event(session, &format!("{session}{no}"), tool, input.clone());
            let took = self.run_hook(&event)?;
            if no >= WARM_UP {
                times.push(took);
            }
        }
        Ok(times)
    }

    /// Runs one hook and returns how long it took, in milliseconds.
    fn run_hook(&self, event: &Value) -> anyhow::Result<f64> {
        let text = event.to_string();
        let begun = Instant::now();
        let mut hook = Command::new(&self.binary)
            .args(["hook", "claude-code", "--config"])
            .arg(self.folder.join("actbook.yaml"))
            .current_dir(self.folder)
            .env("XDG_DATA_HOME", self.folder.join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        hook.stdin.take().expect("its stdin is piped").write_all(text.as_bytes())?;
        let ended = hook.wait_with_output()?;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        anyhow::ensure!(ended.status.success() && ended.stdout.is_empty(), "the hook decided: {ended:?}");
        Ok(took)
    }
}

/// The binary beside this program's folder.
fn binary() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent);
    let binary = folder.map(|folder| folder.join("actbook")).filter(|binary| binary.is_file());
    binary.ok_or_else(|| anyhow::anyhow!("build the binary first: `cargo build --release --bin actbook`"))
}

/// A percentile of sorted times.
fn percentile(times: &[f64], part: usize) -> f64 {
    times[(times.len() * part).div_ceil(100).saturating_sub(1)]
}
