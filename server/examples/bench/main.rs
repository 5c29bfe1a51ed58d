//! Speed and memory, measured against the bare database in the same run: `cargo xtask bench`.
//! Every rate is a median of rounds, and each threshold is a ratio to the bare rate measured just before.

mod bare;
mod door;
mod doors;
mod figures;
mod history;
mod hot;
mod load;
mod notes;
mod parts;
mod tools;

use figures::Figures;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some(at) = arguments.iter().position(|argument| argument == "--part") {
        return parts::run(&arguments[at + 1..]);
    }
    let train = flag("--train");
    let scale = if train || flag("--quick") { load::Scale::QUICK } else { load::Scale::FULL };
    let mut measurements = Figures::default();
    if flag("--door") {
        load::door(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--tools") {
        load::tools(&mut measurements)?;
        return measurements.print(flag("--json"));
    }
    if flag("--notes") {
        load::notes(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--history") {
        load::history(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if flag("--rates") {
        load::rates(&mut measurements, &scale)?;
        return measurements.print(flag("--json"));
    }
    if !train {
        match hot::instructions_per_step()? {
            Some(count) => measurements.put("engine.instructions_per_step", count),
            None => eprintln!("  valgrind is not installed: no instruction counts"),
        }
    }
    load::sqlite(&mut measurements, &scale)?;
    if let Ok(url) = std::env::var("ACTBOOK_TEST_POSTGRES") {
        load::postgres(&mut measurements, &scale, &url)?;
    }
    load::tools(&mut measurements)?;
    load::notes(&mut measurements, &scale)?;
    load::history(&mut measurements, &scale)?;
    // A training run is instrumented and slow, so its thresholds are not checked.
    if train { Ok(()) } else { measurements.print(flag("--json")) }
}
