//! Speed and memory, measured against the bare database in the same run: `cargo xtask bench`.
//! Every rate is a median of rounds, and each threshold is a ratio to the bare rate measured just before.

mod bare_database;
mod engine_path;
mod guard;
mod guard_hooks;
mod history;
mod mcp_calls;
mod mcp_servers;
mod measurements;
mod notes;
mod parts;
mod suite;
mod tools;
mod web;
mod web_server;
mod web_store;
mod web_streams;

use measurements::Measurements;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some(at) = arguments.iter().position(|argument| argument == "--part") {
        return parts::run(&arguments[at + 1..]);
    }
    let train = flag("--train");
    let scale = if train || flag("--quick") { suite::Scale::QUICK } else { suite::Scale::FULL };
    let mut measurements = Measurements::default();
    if flag("--door") {
        suite::mcp(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--tools") {
        suite::tools(&mut measurements)?;
        return measurements.print(flag("--json"));
    }
    if flag("--guard") {
        suite::guard(&mut measurements, &scale)?;
        guard_hooks::measure(&mut measurements)?;
        return measurements.print(flag("--json"));
    }
    if flag("--notes") {
        suite::notes(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--history") {
        suite::history(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--web") || flag("--web-store") || flag("--web-http") {
        if !flag("--web-store") {
            suite::web_http(&mut measurements, &scale)?;
        }
        if !flag("--web-http") {
            suite::web_store(&mut measurements, &scale)?;
        }
        return measurements.print(flag("--json"));
    }
    if flag("--rates") {
        suite::rates(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if !train {
        match engine_path::instructions_per_step()? {
            Some(count) => measurements.record("engine.instructions_per_step", count),
            None => eprintln!("  valgrind is not installed: no instruction counts"),
        }
    }
    suite::sqlite(&mut measurements, &scale)?;
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        suite::postgres(&mut measurements, &scale, &url)?;
    }
    suite::tools(&mut measurements)?;
    suite::guard(&mut measurements, &scale)?;
    suite::notes(&mut measurements, &scale)?;
    suite::history(&mut measurements, &scale)?;
    // A training run is instrumented and slow, so its thresholds are not checked.
    if train { Ok(()) } else { measurements.print(flag("--json")) }
}
