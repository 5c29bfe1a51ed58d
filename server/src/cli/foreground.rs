//! Driving or watching an execution with somebody looking on, and saying at the end what came of it.

use std::time::Duration;

use actbook::error::Error;
use actbook::service::view::ExecutionView;
use actbook::service::{Progress, Watching};
use actbook_engine::policy::{Status, StepStatus};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::Sender;
use tokio::time::{Instant, Interval, interval, sleep_until};

use super::live::Screen;
use super::session::Session;
use super::signs::short;
use super::{Ended, Exit, brief};

/// Changes that come faster are shown together.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a terminal's clock and spinner move.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a watcher makes sure that the driver still lives.
const DRIVER_CHECK_EVERY: Duration = Duration::from_secs(1);
/// As shells report a process that a signal ended.
const INTERRUPTED: i32 = 130;

/// What the caller hoped for: the same end is a success to one and a failure to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Run,
    Undo,
    Cancel,
}

/// Why the looking on ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It has ended, or waits.
    Settled,
    /// A signal asked to leave.
    Asked,
    /// Another process took the execution over.
    TakenOver,
}

/// Drives what was claimed; without a claim another process drives, and this one looks on.
pub async fn follow(session: &Session, id: &str, eyes: Eyes, claimed: Option<Progress>, goal: Goal) -> Ended {
    let (view, left) = looked(session, id, eyes, claimed).await?;
    tell(session, &view, left);
    Ok(exit(view.status, goal))
}

async fn looked(
    session: &Session,
    id: &str,
    mut eyes: Eyes,
    claimed: Option<Progress>,
) -> Result<(ExecutionView, Left), Error> {
    let mut watching = session.service.watch(id).await?;
    let mut screen = Screen::new(session.output.clone(), &watching);
    let left = match claimed {
        Some(claimed) => drive(session, claimed, &mut eyes, &mut watching, &mut screen).await,
        None => look_on(session, id, &mut eyes, &mut watching, &mut screen).await,
    };
    screen.finish();
    let left = left?;
    Ok((watching.view().await?, left))
}

/// The same, without a word at the end.
pub async fn seen(
    session: &Session,
    id: &str,
    eyes: Eyes,
    claimed: Option<Progress>,
) -> Result<ExecutionView, Error> {
    Ok(looked(session, id, eyes, claimed).await?.0)
}

pub async fn watch(session: &Session, id: &str) -> Ended {
    follow(session, id, Eyes::open()?, None, Goal::Run).await
}

async fn drive(
    session: &Session,
    claimed: Progress,
    eyes: &mut Eyes,
    watching: &mut Watching,
    screen: &mut Screen,
) -> Result<Left, Error> {
    let (stop, halt) = tokio::sync::watch::channel(false);
    let service = session.service.clone();
    let mut driving = tokio::spawn(async move { service.drive(claimed, halt).await });
    loop {
        tokio::select! {
            status = &mut driving => {
                let status = status.map_err(|error| Error::new("internal", error.to_string(), "this is a bug in actbook"))??;
                watching.look()?;
                screen.show(watching);
                return Ok(match (waits_or_ended(status), *stop.borrow()) {
                    (true, _) => Left::Settled,
                    (false, true) => Left::Asked,
                    (false, false) => Left::TakenOver,
                });
            }
            seen = eyes.next(watching) => match seen {
                Ok(Seen::Moved) => screen.show(watching),
                Ok(Seen::Tick) => screen.tick(watching),
                Ok(Seen::Signal) => asked_to_leave(screen, &stop, watching),
                // Who drives outlasts a database that is away; what is shown can wait.
                Err(error) if error.code == "store" => tracing::debug!("not seen: {error}"),
                Err(error) => return Err(error),
            }
        }
    }
}

/// First: nothing starts, calls in flight finish. Second: out, at once.
fn asked_to_leave(screen: &mut Screen, stop: &Sender<bool>, watching: &Watching) {
    if stop.send_replace(true) {
        screen.finish();
        std::process::exit(INTERRUPTED);
    }
    let running = watching
        .glances()
        .filter(|step| matches!(step.status, StepStatus::Running | StepStatus::Compensating))
        .count();
    let calls = if running == 1 { "1 call" } else { &format!("{running} calls") };
    screen.note(&format!(
        "stopping: nothing further starts, {calls} in flight may finish (again: leave at once)"
    ));
}

async fn look_on(
    session: &Session,
    id: &str,
    eyes: &mut Eyes,
    watching: &mut Watching,
    screen: &mut Screen,
) -> Result<Left, Error> {
    let mut check_at = Instant::now();
    loop {
        if waits_or_ended(watching.status()) {
            return Ok(Left::Settled);
        }
        if Instant::now() >= check_at {
            let found = session.service.find(id).await?;
            if session.service.driver(&found).await?.is_none() {
                watching.look()?;
                if !waits_or_ended(watching.status()) {
                    return Err(nobody_drives(id));
                }
            }
            check_at = Instant::now() + DRIVER_CHECK_EVERY;
        }
        tokio::select! {
            seen = eyes.next(watching) => match seen? {
                Seen::Moved => screen.show(watching),
                Seen::Tick => screen.tick(watching),
                Seen::Signal => return Ok(Left::Asked),
            },
            () = sleep_until(check_at) => {}
        }
    }
}

fn nobody_drives(id: &str) -> Error {
    let cure = format!("`actbook resume {}` takes it up", short(id));
    Error::new("nobody_drives", "nobody drives this execution", cure)
}

fn waits_or_ended(status: Status) -> bool {
    !matches!(status, Status::Running | Status::Compensating)
}

/// What one who looks on may see.
enum Seen {
    Moved,
    Tick,
    Signal,
}

/// Opened before anything is started: from there on a signal asks, where it would have killed.
#[derive(Debug)]
pub struct Eyes {
    interrupt: Signal,
    terminate: Signal,
    tick: Interval,
    not_before: Instant,
}

impl Eyes {
    pub fn open() -> Result<Self, Error> {
        let deaf = |error: std::io::Error| {
            Error::new("io", format!("signals cannot be heard: {error}"), "try again")
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(deaf)?,
            terminate: signal(SignalKind::terminate()).map_err(deaf)?,
            tick: interval(DRAW_EVERY),
            not_before: Instant::now(),
        })
    }

    async fn next(&mut self, watching: &mut Watching) -> Result<Seen, Error> {
        let not_before = self.not_before;
        let moved = async {
            sleep_until(not_before).await;
            watching.moved().await
        };
        tokio::select! {
            moved = moved => {
                self.not_before = Instant::now() + LOOK_EVERY;
                moved.map(|()| Seen::Moved)
            }
            _ = self.tick.tick() => Ok(Seen::Tick),
            _ = self.interrupt.recv() => Ok(Seen::Signal),
            _ = self.terminate.recv() => Ok(Seen::Signal),
        }
    }
}

fn tell(session: &Session, view: &ExecutionView, left: Left) {
    let output = &session.output;
    match output.json {
        true => output.entry(view),
        false => brief::outcome(output, view),
    }
    let (id, status) = (short(view.id.as_str()), view.status);
    match left {
        Left::Settled => {}
        Left::Asked => output.aside(format_args!(
            "left it {status}: `actbook resume {id}` goes on, `actbook show {id}` tells more"
        )),
        Left::TakenOver => {
            output.aside(format_args!("another process has taken it over: `actbook watch {id}`"));
        }
    }
}

fn exit(status: Status, goal: Goal) -> Exit {
    match (status, goal) {
        (Status::Succeeded, _) | (Status::Compensated, Goal::Undo) | (Status::Cancelled, Goal::Cancel) => {
            Exit::Done
        }
        (Status::Paused | Status::Blocked, _) => Exit::Waits,
        (
            Status::Running | Status::Compensating | Status::Failed | Status::Cancelled | Status::Compensated,
            _,
        ) => Exit::Failed,
    }
}
