//! The binary: reads the command line, sets up the log, and leaves with the right code.

mod cli;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let asked = cli::read();
    log();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(cli::run(asked));
            // A blocking read that never ends, such as of a terminal, must not hold the exit up.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            anstream::eprintln!(
                "error: the runtime does not start: {error}\n  → look at this machine's limits"
            );
            ExitCode::FAILURE
        }
    }
}

/// To stderr: stdout belongs to what was asked for.
fn log() {
    // What a connection's library says of its end, the error at the call says better.
    let level = EnvFilter::try_from_env("ACTBOOK_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=off"));
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(level).with_ansi(colour).with_writer(|| Redacted);
    // By default it complains of a closed stderr on stderr, and panics where that fails.
    log.log_internal_errors(false).init();
}

/// Stderr without what this process knows to be secret: libraries log whole messages when asked to.
struct Redacted;

impl std::io::Write for Redacted {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let mut text = String::from_utf8_lossy(line).into_owned();
        actbook::tools::redact_log(&mut text);
        std::io::stderr().write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
