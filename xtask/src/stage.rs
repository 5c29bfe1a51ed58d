//! One stage of a command: a process that runs to its end without stdin, and one line with its time.
//! A loud stage shows its output as it comes; a quiet one only when it fails.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The folder that holds the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's folder")
}

/// Cargo's target folder, for everything that may be deleted.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(args[0]);
    command.args(&args[1..]).current_dir(root()).stdin(Stdio::null());
    for name in package_variables() {
        command.env_remove(name);
    }
    command
}

/// The variables in which `cargo run` describes this package. Build scripts of dependencies look at them, so
/// with them a build would not find current what a plain `cargo build` made, and the reverse.
fn package_variables() -> impl Iterator<Item = OsString> {
    let describes_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    std::env::vars_os().map(|(name, _)| name).filter(describes_package)
}

/// Runs a stage and shows its output as it comes; fails with the hint.
pub fn run_loud(name: &str, command: &mut Command, hint: &str) -> Result<()> {
    eprintln!("── {name}: {}", command_line(command));
    let begun = Instant::now();
    let status = command.status().with_context(|| start_error(name, command))?;
    report_end(name, begun, status.success(), hint)
}

/// Runs a stage and shows its output only if it fails; fails with the hint.
pub fn run_quiet(name: &str, command: &mut Command, hint: &str) -> Result<()> {
    let begun = Instant::now();
    let output = command.output().with_context(|| start_error(name, command))?;
    if !output.status.success() {
        eprintln!("── {name}: {}\n{}", command_line(command), output_text(&output));
    }
    report_end(name, begun, output.status.success(), hint)
}

pub fn report_skipped(name: &str, why: &str) {
    eprintln!("── {name}: skipped, {why}");
}

/// Stdout and stderr of a finished process.
pub fn output_text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    streams.concat()
}

fn report_end(name: &str, begun: Instant, succeeded: bool, hint: &str) -> Result<()> {
    let seconds = begun.elapsed().as_secs_f64();
    if !succeeded {
        bail!("{name} failed after {seconds:.1} s. {hint}");
    }
    eprintln!("── {name}: ok, {seconds:.1} s");
    Ok(())
}

fn start_error(name: &str, command: &Command) -> String {
    format!("{name}: `{}` could not be started", command_line(command))
}

fn command_line(command: &Command) -> String {
    let args = std::iter::once(command.get_program()).chain(command.get_args());
    args.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
