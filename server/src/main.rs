//! The binary: parses the command line, sets up logging, runs the command, and returns its exit code.

use std::process::ExitCode;

use actbook::cli;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let command = cli::parse_args();
    init_logging();
    std::panic::set_hook(Box::new(report_panic));
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = cli::run(&runtime, command);
            // A blocking read that never ends, such as of a terminal, must not delay the exit.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            cli::write_log(&format!("error: the runtime does not start: {error}"));
            cli::write_log("  → look at this machine's limits");
            ExitCode::FAILURE
        }
    }
}

/// Sends log lines to stderr; stdout is for the command's output.
fn init_logging() {
    // rmcp is off: when a connection ends, the error of the call says more than rmcp's log line.
    let level = EnvFilter::try_from_env("ACTBOOK_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=off"));
    // No colours: the output removes escape sequences that it did not write itself.
    let log = tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).with_writer(|| LogWriter);
    // By default the subscriber reports a closed stderr on stderr, and panics if that fails.
    log.log_internal_errors(false).init();
}

/// Writes a panic like a log line: its message may quote untrusted values.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let backtrace = std::backtrace::Backtrace::capture();
    let traced = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
    let backtrace = if traced { format!("\n{backtrace}") } else { String::new() };
    log_redacted(&format!("{panic}{backtrace}"));
}

/// Writes to stderr with known secrets redacted: at a verbose level, libraries log whole messages.
fn log_redacted(text: &str) {
    let mut text = text.to_owned();
    actbook::tools::redact_log_line(&mut text);
    cli::write_log(&text);
}

/// A writer that redacts each log line and writes it to stderr.
struct LogWriter;

impl std::io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        log_redacted(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
