//! `command/<name>`: a program run with an argument list, never through a shell. Starts it, writes its input,
//! limits its output and time, and stops it. What its exit status means is decided in `classify`.

use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;

use actbook_engine::policy::ErrorCategory;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

use super::classify::RawOutcome;
use super::process::{self, ChildPipes, DRAIN_TIMEOUT, ProcessGroup, ProcessIdentity, StderrTail};
use super::secret::Secrets;
use super::{Call, environment, template_not_filled, withheld_before_send};
use crate::config::{CommandTool, ConfigTemplate};

/// The environment variable that gives a command its idempotency key.
pub const IDEMPOTENCY_KEY_VARIABLE: &str = "ACTBOOK_IDEMPOTENCY_KEY";

/// A longer line is not passed on as it comes.
const LIVE_LINE_BYTES_MAX: usize = 64 * 1024;

/// Receives the tool's name, `server/tool`, and a line that the command wrote to its stdout, redacted.
pub type OnCommandOutput = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// The means to call one command tool. `folder`: the config's, in which the program runs unless `cwd` says
/// otherwise.
pub struct CommandCall<'a> {
    pub tool: &'a CommandTool,
    pub on_output: Option<&'a OnCommandOutput>,
    pub folder: &'a Path,
    pub secrets: &'a Secrets,
    pub output_bytes_max: usize,
}

impl CommandCall<'_> {
    /// Runs the program until it exits or times out. Also returns whether it was asked to stop.
    pub async fn call(
        &self,
        call: &Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> (RawOutcome, bool) {
        let mut command = match self.build_command(call) {
            Ok(command) => command,
            Err(raw) => return (raw, false),
        };
        if !sending(None) {
            return (withheld_before_send(), false);
        }
        let (group, pipes) = match process::spawn_command(&mut command) {
            Ok(started) => started,
            Err(error) => return (spawn_error(&error), false),
        };
        sending(Some(group.process));
        self.wait_for_end(call, group, pipes, pin!(stop)).await
    }

    /// Checks the arguments and fills in the command line and environment; the error means: not sent.
    fn build_command(&self, call: &Call) -> Result<Command, RawOutcome> {
        if let Some(schema) = &self.tool.input_schema {
            let refused = |why| RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why };
            schema.check(&call.arguments).map_err(refused)?;
        }
        let fill = |template: &ConfigTemplate| {
            self.secrets
                .resolve(template, &call.arguments)
                .map_err(|unresolved| template_not_filled(&unresolved))
        };
        let (program, rest) =
            self.tool.argv.split_first().expect("a command without a program is refused when read");
        let mut command = Command::new(fill(program)?.expose());
        environment::restrict(&mut command, &self.tool.inherit_env);
        for argument in rest {
            command.arg(fill(argument)?.expose());
        }
        for (name, value) in &self.tool.env {
            command.env(name, fill(value)?.expose());
        }
        let cwd = self.tool.cwd.as_ref().map(&fill).transpose()?;
        command.current_dir(cwd.map_or_else(|| self.folder.to_owned(), |cwd| self.folder.join(cwd.expose())));
        command.env(IDEMPOTENCY_KEY_VARIABLE, &call.key);
        command.env(process::PARENT_VARIABLE, ProcessIdentity::current().to_string());
        Ok(command)
    }

    /// Waits for a started program to exit; sends SIGTERM when `stop` resolves, ends the process group on
    /// timeout.
    async fn wait_for_end<F>(
        &self,
        call: &Call,
        group: ProcessGroup,
        pipes: ChildPipes,
        mut stop: Pin<&mut F>,
    ) -> (RawOutcome, bool)
    where
        F: Future<Output = ()> + Send,
    {
        tokio::spawn(write_arguments(pipes.stdin, call.arguments.clone()));
        let live = self.on_output.map(|receiver| LiveOutput {
            tool: call.tool.clone(),
            secrets: self.secrets.clone(),
            receiver: receiver.clone(),
            line: Vec::new(),
        });
        let stdout = tokio::spawn(read_capped(pipes.stdout, self.output_bytes_max, live));
        let (tail, secrets) = (StderrTail::default(), self.secrets.clone());
        tokio::spawn(process::drain_stderr(call.tool.clone(), pipes.stderr, tail.clone(), secrets));
        let timeout = self.tool.timeout.map_or(call.timeout, |limit| limit.min(call.timeout));
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut stopped = false;
        let status = loop {
            tokio::select! {
                biased;
                status = group.wait_for_exit() => break status,
                () = &mut deadline => {
                    group.terminate_then_kill().await;
                    return (RawOutcome::TimedOut { after: timeout }, stopped);
                }
                () = &mut stop, if !stopped => {
                    stopped = true;
                    group.terminate();
                }
            }
        };
        let (stdout, stdout_cut) = match tokio::time::timeout(DRAIN_TIMEOUT, stdout).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) | Err(_) => (Vec::new(), true),
        };
        (
            RawOutcome::CommandExited { status, stdout, stdout_cut, stderr: tail.wait_for_text().await },
            stopped,
        )
    }
}

/// The outcome of a command that could not be started: not sent.
fn spawn_error(error: &std::io::Error) -> RawOutcome {
    let category = match error.kind() {
        std::io::ErrorKind::InvalidInput => ErrorCategory::InvalidArguments,
        _ => ErrorCategory::Unavailable,
    };
    RawOutcome::NotSent { category, why: format!("the command could not be started: {error}") }
}

/// Writes the arguments to the program's stdin as JSON. A program that does not read them is no error.
async fn write_arguments(mut stdin: ChildStdin, arguments: Value) {
    if let Err(error) = stdin.write_all(arguments.to_string().as_bytes()).await {
        tracing::debug!(%error, "the command did not read its arguments");
    }
}

/// Reads to the end, so that the program never blocks on its output, but keeps at most `bytes_max + 1` bytes.
/// The flag says whether bytes were discarded. `live` gets all of it.
async fn read_capped(
    mut stdout: impl AsyncRead + Unpin,
    bytes_max: usize,
    mut live: Option<LiveOutput>,
) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut chunk = [0; 16 * 1024];
    let mut cut = false;
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        let room = (bytes_max + 1).saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&chunk[..room]);
        cut |= room < count;
        if let Some(live) = &mut live {
            live.push(&chunk[..count]);
        }
    }
    if let Some(mut live) = live.filter(|live| !live.line.is_empty()) {
        live.pass_on();
    }
    (kept, cut)
}

/// Passes a command's output on, line by line, while it runs.
struct LiveOutput {
    tool: String,
    secrets: Secrets,
    receiver: OnCommandOutput,
    /// The line that is not complete yet.
    line: Vec<u8>,
}

impl LiveOutput {
    /// Passes each completed line on, and keeps the beginning of the next.
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.pass_on();
            } else if self.line.len() <= LIVE_LINE_BYTES_MAX {
                self.line.push(*byte);
            }
        }
    }

    /// Passes the line on, redacted, and begins the next one. A line that was too long to be kept whole is
    /// dropped: a part of it could hold a part of a secret.
    fn pass_on(&mut self) {
        if self.line.len() <= LIVE_LINE_BYTES_MAX {
            let mut line = String::from_utf8_lossy(&self.line).into_owned();
            self.secrets.redact_text(&mut line);
            (self.receiver)(&self.tool, &line);
        }
        self.line.clear();
    }
}
