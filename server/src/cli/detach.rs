//! `--detach`: a background process of this very binary drives the execution in a session of its own.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use actbook::error::Error;
use actbook::service::Watching;
use actbook_engine::id::Epoch;

use super::answers::process;
use super::session::Session;
use super::signals::{TakenOver, end_process};
use super::signs::short;
use super::{Ended, Exit};

/// How long the background process may take to reach the journal.
const TAKING_UP: Duration = Duration::from_secs(20);

/// Leaves a background process driving, and says who drives and how to watch.
pub async fn hand_over(session: &Session, id: &str) -> Ended {
    let child = leave_behind(session, id).await?;
    told(session, id, &child).await
}

/// A background process that has taken it up.
pub async fn leave_behind(session: &Session, id: &str) -> Result<Child, Error> {
    // This process must not be taken for the driver.
    session.service.close().await;
    let mut watching = session.service.watch(id).await?;
    let before = watching.execution().epoch;
    let mut child = spawn(session, id)?;
    let why = tokio::select! {
        taken = taken_up(&mut watching, before) => return taken.map(|()| child),
        code = ended(&mut child) => format!("the background process ended at once ({code})"),
        () = tokio::time::sleep(TAKING_UP) => "the background process does not take it up".to_owned(),
    };
    // A quick one has taken it up and ended before anybody looked.
    watching.look()?;
    if watching.execution().epoch != before {
        return Ok(child);
    }
    Err(Error::new("detach", why, format!("look into {}", log_file().display())))
}

async fn taken_up(watching: &mut Watching, before: Epoch) -> Result<(), Error> {
    while watching.execution().epoch == before {
        watching.moved().await?;
    }
    Ok(())
}

async fn told(session: &Session, id: &str, child: &Child) -> Ended {
    let output = &session.output;
    if output.json {
        output.document(&session.service.view(id).await?);
        return Ok(Exit::Done);
    }
    let found = session.service.find(id).await?;
    let who = match (session.service.driver(&found).await?, found.status) {
        (Some(driver), _) => format!("{} drives it", process(&driver)),
        // It was quick: nothing is left to drive.
        (None, status) => format!("process {} drove it, and it is {status}", child.id()),
    };
    output.line(format_args!("execution {}: {who}", short(id)));
    output.line(format_args!("  actbook watch {}   follows it", short(id)));
    output.line(format_args!("  actbook show {}    explains it", short(id)));
    Ok(Exit::Done)
}

fn log_file() -> PathBuf {
    actbook::folders::data().join("detached.log")
}

fn spawn(session: &Session, id: &str) -> Result<Child, Error> {
    let failed = |error: std::io::Error| {
        Error::new("detach", format!("no background process: {error}"), "leave --detach out")
    };
    let file = log_file();
    file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    let log = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    // Not as an argument: everybody may read those, and the address may hold a password.
    command.env("ACTBOOK_DATABASE", &session.database);
    // One that was found is found again from the same folder, and must still be trusted then.
    if let Some(config) = &session.named_config {
        command.arg("--config").arg(config);
    }
    if session.options.unsafe_durability {
        command.arg("--unsafe-durability");
    }
    command.args(["drive", id]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(failed)
}

async fn ended(child: &mut Child) -> String {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => return error.to_string(),
        }
    }
}

/// The background process itself.
pub async fn drive(session: &Session, id: &str) -> Ended {
    // Away from the terminal, whose signals are for others. It fails only where that is so already.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!("no session of its own: {error}");
    }
    let Some(claimed) = session.service.claim(&session.caller, id, false).await? else {
        return Ok(Exit::Done);
    };
    let (stop, halt) = tokio::sync::watch::channel(false);
    let driving = session.service.drive(claimed, halt);
    tokio::pin!(driving);
    let mut signals = TakenOver::take()?;
    loop {
        tokio::select! {
            status = &mut driving => return status.map(|_| Exit::Done),
            asked = signals.next() => if stop.send_replace(true) { end_process(asked) },
        }
    }
}
