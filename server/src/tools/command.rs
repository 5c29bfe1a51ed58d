//! `command/<name>`: a program run with an argument list, never through a shell. Knows how to start
//! it, feed it, bound it and end it; what its exit means is the table's business.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use actbook_engine::policy::Category;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

use super::classify::{Came, OUTPUT_BYTES_MAX};
use super::process::{self, ChildProcess, DRAIN_LIMIT, Group, Pipes, Tail};
use super::secret::{Secrets, Unresolved};
use super::{Call, spawn_problem, without_own_variables};
use crate::config::{CommandTool, Template};

pub const KEY_VARIABLE: &str = "ACTBOOK_IDEMPOTENCY_KEY";

/// Runs the program to its end, its timeout, or the request to stop.
pub async fn call(
    tool: &CommandTool,
    folder: &std::path::Path,
    call: Call,
    secrets: &Secrets,
    sending: impl Fn(Option<ChildProcess>) + Send,
    stop: impl Future<Output = ()> + Send,
) -> (Came, bool) {
    let command = match prepare(tool, folder, &call, secrets) {
        Ok(command) => command,
        Err(came) => return (came, false),
    };
    sending(None);
    let (group, pipes) = match process::start(command) {
        Ok(started) => started,
        Err(error) => return (spawn_problem("the command", &error), false),
    };
    sending(Some(group.process));
    let timeout = tool.timeout.map_or(call.timeout, |limit| limit.min(call.timeout));
    run(&call, group, pipes, secrets, timeout, stop).await
}

fn prepare(
    tool: &CommandTool,
    folder: &std::path::Path,
    call: &Call,
    secrets: &Secrets,
) -> Result<Command, Came> {
    let refused = |why: String| Came::NotSent { category: Category::InvalidArguments, why };
    if let Some(schema) = &tool.input_schema {
        schema.check(&call.arguments).map_err(refused)?;
    }
    let fill = |template: &Template| {
        secrets.resolve(template, &call.arguments).map_err(|unresolved| match unresolved {
            Unresolved::NoArgument(_) => refused(unresolved.to_string()),
            Unresolved::Unset(_) | Unresolved::Foreign(_) => {
                Came::NotSent { category: Category::Unavailable, why: unresolved.to_string() }
            }
        })
    };
    let (program, rest) = tool.argv.split_first().expect("a command without a program is refused when read");
    let mut command = Command::new(fill(program)?.expose());
    without_own_variables(&mut command);
    for argument in rest {
        command.arg(fill(argument)?.expose());
    }
    for (name, value) in &tool.env {
        command.env(name, fill(value)?.expose());
    }
    let cwd = tool.cwd.as_ref().map(&fill).transpose()?;
    command
        .current_dir(cwd.map_or_else(|| folder.to_owned(), |cwd| folder.join(PathBuf::from(cwd.expose()))));
    command.env(KEY_VARIABLE, &call.key);
    Ok(command)
}

async fn run(
    call: &Call,
    group: Group,
    pipes: Pipes,
    secrets: &Secrets,
    timeout: Duration,
    stop: impl Future<Output = ()> + Send,
) -> (Came, bool) {
    tokio::spawn(feed(pipes.stdin, call.arguments.clone()));
    let stdout = tokio::spawn(read_capped(pipes.stdout));
    let tail = Tail::default();
    tokio::spawn(process::drain_stderr(call.tool.clone(), pipes.stderr, tail.clone(), secrets.clone()));

    let (mut stop, mut deadline) = (pin!(stop), pin!(tokio::time::sleep(timeout)));
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

/// A program that does not read its input is no error.
async fn feed(mut stdin: ChildStdin, arguments: Value) {
    if let Err(error) = stdin.write_all(arguments.to_string().as_bytes()).await {
        tracing::debug!(%error, "the command did not read its arguments");
    }
}

/// Keeps the first bytes and reads on to the end, so that the program never blocks on its output.
async fn read_capped(mut stdout: impl AsyncRead + Unpin) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut chunk = [0; 16 * 1024];
    let mut cut = false;
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        let room = (OUTPUT_BYTES_MAX + 1).saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&chunk[..room]);
        cut |= room < count;
    }
    (kept, cut)
}
