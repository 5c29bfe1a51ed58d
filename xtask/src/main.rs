//! The project's own commands. `cargo xtask test` is exactly what CI runs; the others take longer or
//! measure. Progress goes to stderr; only results (a table, a bench's JSON) go to stdout.
#![expect(clippy::print_stdout, reason = "the planted bugs' table is a result, and results go to stdout")]

mod clients;
mod commands;
mod dist;
mod machine;
mod memory;
mod package;
mod planted;
mod postgres;
mod screenshots;
mod stage;

use std::process::ExitCode;

use screenshots::Pictures;

const USAGE: &str = "\
cargo xtask test                    what CI runs: installs what is missing, lints, builds, tests
cargo xtask test --fast             the tests alone, with a tenth of the counts
cargo xtask test --only NAME…       the tests whose names contain one of these
cargo xtask ci                      the same as test
cargo xtask planted [--only NAME]   plants each known bug in a scratch copy; its test must catch it
cargo xtask planted --check         looks only whether each known bug still finds its lines
cargo xtask soak                    kills, simulated journals and crowds of clients, long, in release
cargo xtask fuzz [--cases N]        random plans, documents and requests, in release
cargo xtask package                 the release binary as an MCP bundle (--binary FILE: that one)
cargo xtask screenshots             the pictures of README and docs, taken in Chromium
cargo xtask screenshots --every-page   each page in light and dark, wide and narrow, under target/
cargo xtask bench [--json] …        speed; the arguments go to the bench itself";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test" | "ci"] => commands::test(),
        ["test", "--fast"] => commands::test_fast(),
        ["test", "--only", filters @ ..] if !filters.is_empty() => commands::test_only(filters),
        ["planted"] => planted::run(None),
        ["planted", "--check"] => planted::check(),
        ["planted", "--only", name] => planted::run(Some(name)),
        ["soak"] => commands::soak(),
        ["fuzz"] => commands::fuzz(commands::FUZZ_CASES),
        ["fuzz", "--cases", cases] => commands::fuzz(cases),
        ["package"] => package::run(None),
        ["package", "--binary", binary] => package::run(Some(binary)),
        ["screenshots"] => screenshots::run(Pictures::Documentation),
        ["screenshots", "--every-page"] => screenshots::run(Pictures::EveryPage),
        ["bench", rest @ ..] => commands::bench(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
