//! The commands of `cargo xtask` other than `planted`: lists of stages. Every build here uses the whole
//! workspace and one profile, so that nothing is compiled twice with different flags.

use std::process::Command;

use anyhow::{Result, bail};

use crate::dist;
use crate::machine::{Machine, runs_successfully};
use crate::planted;
use crate::postgres::Postgres;
use crate::stage::{self, command, report_skipped, run_loud, run_quiet};

pub const FUZZ_CASES: &str = "1000000";
/// The filter that matches all tests: the random tests are not in a module of their own.
const EVERY_TEST: &str = "";
const TEST_HINT: &str =
    "The failing tests are named above; one alone: `cargo test -p actbook --test it NAME`.";

/// A test to run for hours: its label, package, filter, and the environment variable with its size.
struct Soak {
    name: &'static str,
    package: &'static str,
    filter: &'static str,
    env: (&'static str, &'static str),
}

const SOAKS: [Soak; 3] = [
    Soak { name: "kill -9", package: "actbook", filter: "kill", env: ("ACTBOOK_KILLS", "10000") },
    Soak {
        name: "simulated journals",
        package: "actbook-engine",
        filter: "simulat",
        env: ("ACTBOOK_SEEDS", "200000"),
    },
    Soak { name: "echoes", package: "actbook", filter: "crowd", env: ("ACTBOOK_ECHOES", "1000000") },
];

/// What `test --fast` divides the counts of random and repeated tests by.
const FAST_DIVISOR: &str = "10";

/// The same tests with a tenth of the counts, and nothing else: for the minutes between two edits.
pub fn test_fast() -> Result<()> {
    let machine = Machine::prepare()?;
    let mut run = all_tests();
    run_loud("test --fast", machine.set_environment(run.env("ACTBOOK_FAST", FAST_DIVISOR)), TEST_HINT)
}

/// The tests whose names contain one of the filters, with what they need from the machine.
pub fn test_only(filters: &[&str]) -> Result<()> {
    let machine = Machine::prepare()?;
    let mut run = all_tests();
    // `cargo test` takes several filters behind `--` alone, and nextest takes them there too.
    run_loud("test --only", machine.set_environment(run.args(["--tests", "--"]).args(filters)), TEST_HINT)
}

/// Every test of the workspace, by nextest if it is installed.
fn all_tests() -> Command {
    if runs_successfully(&["cargo", "nextest", "--version"]) {
        return command(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]);
    }
    command(&["cargo", "test", "--workspace", "--no-fail-fast"])
}

/// Tests come last: they take longest, and their summary is what a reader looks for.
pub fn test() -> Result<()> {
    let machine = Machine::prepare()?;
    run_quiet("fmt", &mut command(&["cargo", "fmt", "--all", "--check"]), "Run `cargo fmt --all`.")?;
    planted::check()?;
    let clippy = ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run_loud("clippy", &mut command(&clippy), "STYLE.md says what a lint exception looks like.")?;
    let mut doc = command(&["cargo", "doc", "--workspace", "--no-deps"]);
    run_loud(
        "doc",
        doc.env("RUSTDOCFLAGS", "-D warnings"),
        "A link or a code block in a comment is broken.",
    )?;
    dependencies()?;
    run_loud("build", &mut command(&["cargo", "build", "--workspace"]), "The compiler says why, above.")?;
    tests(&machine)
}

fn tests(machine: &Machine) -> Result<()> {
    if !runs_successfully(&["cargo", "nextest", "--version"]) {
        let mut all = command(&["cargo", "test", "--workspace", "--no-fail-fast"]);
        return run_loud("test", machine.set_environment(&mut all), TEST_HINT);
    }
    let mut doc = command(&["cargo", "test", "--workspace", "--doc"]);
    run_loud("examples in comments", machine.set_environment(&mut doc), TEST_HINT)?;
    let mut all = command(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]);
    run_loud("test", machine.set_environment(&mut all), TEST_HINT)
}

fn dependencies() -> Result<()> {
    if runs_successfully(&["cargo", "deny", "--version"]) {
        let deny = ["cargo", "deny", "check", "bans", "licenses", "sources"];
        run_loud(
            "deny",
            &mut command(&deny),
            "deny.toml says what may come in; a new licence is a decision.",
        )?;
    } else {
        report_skipped("deny", "cargo-deny is not installed");
    }
    if runs_successfully(&["cargo", "machete", "--version"]) {
        run_loud("machete", &mut command(&["cargo", "machete"]), "Remove the dependency that nothing uses.")
    } else {
        report_skipped("machete", "cargo-machete is not installed");
        Ok(())
    }
}

pub fn soak() -> Result<()> {
    let machine = Machine::prepare()?;
    for Soak { name, package, filter, env: (variable, value) } in SOAKS {
        let mut run = release_test(package, filter)?;
        let hint = format!("{variable}={value} was set; the output names the seed or the position.");
        run_loud(name, machine.set_environment(run.env(variable, value)), &hint)?;
    }
    Ok(())
}

pub fn fuzz(cases: &str) -> Result<()> {
    let hint = "The smallest failing input is printed above: make it a case of its own.";
    for (name, package, filter) in
        [("plans", "actbook-engine", EVERY_TEST), ("requests", "actbook", "boundary")]
    {
        run_loud(name, release_test(package, filter)?.env("ACTBOOK_FUZZ_CASES", cases), hint)?;
    }
    Ok(())
}

pub fn bench(arguments: &[&str]) -> Result<()> {
    let postgres = Postgres::start(None)?;
    let args = ["run", "--package", "actbook", "--example", "bench", "--"];
    let mut run = dist::cargo(&[&args, arguments].concat())?;
    run_loud("bench", postgres.set_environment(&mut run), "The bench says what it missed, above.")
}

/// A release-mode test command. Fails if the filter matches no test: a test that does not run cannot fail.
fn release_test(package: &str, filter: &str) -> Result<Command> {
    let args = ["cargo", "test", "--release", "--package", package, "--test", "it", filter, "--"];
    let listed = stage::output_text(&command(&[&args[..], &["--list"]].concat()).output()?);
    if !listed.lines().any(|line| line.ends_with(": test")) {
        bail!("no test of {package} matches `{filter}`:\n{listed}");
    }
    Ok(command(&[&args[..], &["--nocapture"]].concat()))
}
