//! `--detach`: starts this binary again as a background process, which drives the execution in a session of
//! its own.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::{CommandLineCode, Error};
use crate::service::ExecutionWatcher;
use actbook_engine::id::Epoch;

use super::control::process_label;
use super::session::Session;
use super::signals::{SignalGuard, end_process};
use super::status_style::short_id;
use super::{CommandResult, Exit};

/// How long the background process may take to claim the execution in the journal.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a background driver and prints which process drives, and how to watch it.
pub async fn hand_over_and_report(session: &Session, id: &str) -> CommandResult {
    let child = spawn_driver(session, id).await?;
    print_hand_over(session, id, &child).await
}

/// Starts a background process and waits until it has claimed the execution. `Err`: it exited first, or timed
/// out.
pub async fn spawn_driver(session: &Session, id: &str) -> Result<Child, Error> {
    // This process must not be mistaken for the driver.
    session.service.close().await;
    let mut watching = session.service.executions().watch(id).await?;
    let before = watching.execution().epoch;
    let mut child = spawn_process(session, id)?;
    let why = tokio::select! {
        claimed = wait_until_claimed(&mut watching, before) => return claimed.map(|()| child),
        code = wait_for_exit(&mut child) => format!("the background process ended at once ({code})"),
        () = tokio::time::sleep(CLAIM_TIMEOUT) => "the background process does not claim it".to_owned(),
    };
    // A short execution may have been claimed and driven to its end before this process looked.
    watching.refresh().await?;
    if watching.execution().epoch != before {
        return Ok(child);
    }
    let cure = format!("look into {}", log_file().display());
    Err(Error::command_line(CommandLineCode::Detach, why, cure))
}

/// Resolves when the execution's epoch differs from `before`: another process has claimed it.
async fn wait_until_claimed(watching: &mut ExecutionWatcher, before: Epoch) -> Result<(), Error> {
    while watching.execution().epoch == before {
        watching.wait_for_change().await?;
    }
    Ok(())
}

/// Prints which process drives the execution, and the commands to watch it; with `--json` its view.
async fn print_hand_over(session: &Session, id: &str, child: &Child) -> CommandResult {
    let output = &session.output;
    if output.json {
        output.document(&session.service.executions().view(id).await?);
        return Ok(Exit::Done);
    }
    let found = session.service.executions().find(id).await?;
    let who = match (session.service.executions().driver(&found).await?, found.status) {
        (Some(driver), _) => {
            format!("{} drives it, to its end or its first question", process_label(&driver))
        }
        // The background process has already driven the execution as far as it goes.
        (None, status) => format!("process {} drove it, and it is {status}", child.id()),
    };
    output.line(format_args!("execution {}: {who}", short_id(id)));
    output.line(format_args!("  actbook watch {}   follows it", short_id(id)));
    output.line(format_args!("  actbook show {}    explains it", short_id(id)));
    Ok(Exit::Done)
}

/// The file that takes the stderr of background processes.
fn log_file() -> PathBuf {
    crate::folders::data_folder().join("detached.log")
}

/// Starts `actbook drive ID` with this process's database, config and options.
fn spawn_process(session: &Session, id: &str) -> Result<Child, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("no background process: {error}");
        Error::command_line(CommandLineCode::Detach, message, "leave --detach out")
    };
    let file = log_file();
    file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    let log = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    // Not as an argument: every user can read those, and the address may hold a password.
    command.env("ACTBOOK_DATABASE", &session.database);
    // A config that was found is found again from the same folder, and must still be trusted then.
    if let Some(config) = &session.named_config {
        command.arg("--config").arg(config);
    }
    if session.options.unsafe_durability {
        command.arg("--unsafe-durability");
    }
    command.args(["drive", id]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(failed)
}

/// Resolves when the child has exited, with its exit status as text.
async fn wait_for_exit(child: &mut Child) -> String {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => return error.to_string(),
        }
    }
}

/// The background process itself: claims the execution and drives it until it ends, waits, or a signal
/// arrives.
pub async fn drive_in_background(session: &Session, id: &str) -> CommandResult {
    // Detach from the terminal, so that its signals do not reach this process. This fails only in a process
    // that leads a process group already.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!("setsid failed: {error}");
    }
    let Some(claimed) = session.service.executions().claim(&session.caller, id, false).await? else {
        return Ok(Exit::Done);
    };
    let mut driving = session.service.executions().drive_in_task(claimed).await?;
    let stopper = driving.stopper().clone();
    let mut signals = SignalGuard::register()?;
    loop {
        tokio::select! {
            status = driving.wait_until_ended() => return Ok(status.map(|_| Exit::Done)?),
            // The first signal stops driving; a second one ends the process at once.
            signal = signals.next() => if stopper.stop() { end_process(signal) },
        }
    }
}
