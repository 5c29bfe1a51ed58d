//! The binary: reads the command line, sets up the log, and leaves with the right code.

mod cli;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let asked = cli::read();
    log();
    std::panic::set_hook(Box::new(report_panic));
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(cli::run(asked));
            // A blocking read that never ends, such as of a terminal, must not hold the exit up.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            cli::log(&format!("error: the runtime does not start: {error}"));
            cli::log("  → look at this machine's limits");
            ExitCode::FAILURE
        }
    }
}

/// To stderr: stdout belongs to what was asked for.
fn log() {
    // What a connection's library says of its end, the error at the call says better.
    let level = EnvFilter::try_from_env("ACTBOOK_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=off"));
    // Colours would be escape sequences of somebody else's making; the output lets none pass.
    let log = tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).with_writer(|| LogLines);
    // By default it complains of a closed stderr on stderr, and panics where that fails.
    log.log_internal_errors(false).init();
}

/// A panic quotes values, which may come from outside: it goes the way of the log.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let backtrace = std::backtrace::Backtrace::capture();
    let traced = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
    let backtrace = if traced { format!("\n{backtrace}") } else { String::new() };
    log_redacted(&format!("{panic}{backtrace}"));
}

/// To stderr, without what this process knows to be secret: libraries log whole messages when asked to.
fn log_redacted(text: &str) {
    let mut text = text.to_owned();
    actbook::tools::redact_log(&mut text);
    cli::log(&text);
}

/// Where the log is written to.
struct LogLines;

impl std::io::Write for LogLines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        log_redacted(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
