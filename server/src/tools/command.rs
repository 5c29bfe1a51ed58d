//! `command/<name>`: a program run with an argument list, never through a shell. Knows how to start
//! it, feed it, bound it and end it; what its exit means is the table's business.

use std::path::Path;
use std::pin::{Pin, pin};

use actbook_engine::policy::Category;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

use super::classify::Came;
use super::process::{self, ChildProcess, DRAIN_LIMIT, Group, Pipes, Tail};
use super::secret::Secrets;
use super::{Call, environment, unfilled, withheld};
use crate::config::{CommandTool, Template};

pub const KEY_VARIABLE: &str = "ACTBOOK_IDEMPOTENCY_KEY";

/// One command, with what it takes to run it.
pub struct Run<'a> {
    pub tool: &'a CommandTool,
    pub folder: &'a Path,
    pub secrets: &'a Secrets,
    pub output_bytes_max: usize,
}

impl Run<'_> {
    /// Runs the program to its end, its timeout, or the request to stop. Also says whether it was asked.
    pub async fn call(
        &self,
        call: &Call,
        sending: impl Fn(Option<ChildProcess>) -> bool + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> (Came, bool) {
        let mut command = match self.prepare(call) {
            Ok(command) => command,
            Err(came) => return (came, false),
        };
        if !sending(None) {
            return (withheld(), false);
        }
        let (group, pipes) = match process::start(&mut command) {
            Ok(started) => started,
            Err(error) => return (spawn_problem(&error), false),
        };
        sending(Some(group.process));
        self.run(call, group, pipes, pin!(stop)).await
    }

    fn prepare(&self, call: &Call) -> Result<Command, Came> {
        if let Some(schema) = &self.tool.input_schema {
            let refused = |why| Came::NotSent { category: Category::InvalidArguments, why };
            schema.check(&call.arguments).map_err(refused)?;
        }
        let fill = |template: &Template| {
            self.secrets.resolve(template, &call.arguments).map_err(|unresolved| unfilled(&unresolved))
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
        command.env(KEY_VARIABLE, &call.key);
        command.env(process::PARENT_VARIABLE, ChildProcess::this().to_string());
        Ok(command)
    }

    async fn run<F>(&self, call: &Call, group: Group, pipes: Pipes, mut stop: Pin<&mut F>) -> (Came, bool)
    where
        F: Future<Output = ()> + Send,
    {
        tokio::spawn(feed(pipes.stdin, call.arguments.clone()));
        let stdout = tokio::spawn(read_capped(pipes.stdout, self.output_bytes_max));
        let (tail, secrets) = (Tail::default(), self.secrets.clone());
        tokio::spawn(process::drain_stderr(call.tool.clone(), pipes.stderr, tail.clone(), secrets));
        let timeout = self.tool.timeout.map_or(call.timeout, |limit| limit.min(call.timeout));
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut stopped = false;
        let status = loop {
            tokio::select! {
                biased;
                status = group.ended() => break status,
                () = &mut deadline => {
                    group.end().await;
                    return (Came::TimedOut { after: timeout }, stopped);
                }
                () = &mut stop, if !stopped => {
                    stopped = true;
                    group.ask_to_end();
                }
            }
        };
        let (stdout, stdout_cut) = match tokio::time::timeout(DRAIN_LIMIT, stdout).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) | Err(_) => (Vec::new(), true),
        };
        (Came::Exited { status, stdout, stdout_cut, stderr: tail.whole().await }, stopped)
    }
}

fn spawn_problem(error: &std::io::Error) -> Came {
    let category = match error.kind() {
        std::io::ErrorKind::InvalidInput => Category::InvalidArguments,
        _ => Category::Unavailable,
    };
    Came::NotSent { category, why: format!("the command could not be started: {error}") }
}

/// A program that does not read its input is no error.
async fn feed(mut stdin: ChildStdin, arguments: Value) {
    if let Err(error) = stdin.write_all(arguments.to_string().as_bytes()).await {
        tracing::debug!(%error, "the command did not read its arguments");
    }
}

/// Keeps the first bytes and reads on to the end, so that the program never blocks on its output.
async fn read_capped(mut stdout: impl AsyncRead + Unpin, bytes_max: usize) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut chunk = [0; 16 * 1024];
    let mut cut = false;
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        let room = (bytes_max + 1).saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&chunk[..room]);
        cut |= room < count;
    }
    (kept, cut)
}
