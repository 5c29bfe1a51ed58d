//! Driving or watching an execution with somebody looking on, and saying at the end what came of it.

use std::time::Duration;

use actbook::error::Error;
use actbook::service::view::ExecutionView;
use actbook::service::{Progress, Watching};
use actbook_engine::policy::{Status, StepStatus};
use tokio::sync::watch::Sender;
use tokio::time::{Instant, Interval, interval, sleep_until};

use super::live::{Screen, StepValues};
use super::session::Session;
use super::signals::{Asked, TakenOver, end_process};
use super::signs::short;
use super::{Ended, Exit, asking, brief};

/// Changes that come faster are shown together.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a terminal's clock and spinner move.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a watcher makes sure that the driver still lives.
const DRIVER_CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a pause may take to be journaled; after that this process just starts nothing more.
const PAUSE_LIMIT: Duration = Duration::from_secs(5);
/// What the journal says of a pause that Ctrl-C asked for.
const PAUSE_REASON: &str = "Ctrl-C";

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
    /// A signal asked to leave, and nobody drives it from here any more.
    Asked,
    /// A signal asked to leave, and another process drives it.
    Unwatched,
    /// Another process took the execution over.
    TakenOver,
}

/// Drives what was claimed; without a claim another process drives, and this one looks on. Where this process drives and somebody is at the terminal, approvals are asked for in place.
pub async fn follow(
    session: &Session,
    id: &str,
    mut eyes: Eyes,
    mut claimed: Option<Progress>,
    goal: Goal,
) -> Ended {
    loop {
        let drives = claimed.is_some();
        let (view, left) = looked(session, id, &mut eyes, claimed).await?;
        let asks = view.waiting.iter().any(|one| one.kind == "approval");
        let may_ask = drives && left == Left::Settled && asks;
        if !(may_ask && asking::ask_for_approval(session, id, &mut eyes).await?) {
            tell(session, &view, left);
            return Ok(exit(view.status, goal));
        }
        claimed = session.service.claim(&session.caller, id, false).await?;
    }
}

async fn looked(
    session: &Session,
    id: &str,
    eyes: &mut Eyes,
    claimed: Option<Progress>,
) -> Result<(ExecutionView, Left), Error> {
    let mut watching = session.service.watch(id).await?;
    let mut screen = Screen::new(session.output.clone(), &watching);
    let left = match claimed {
        Some(claimed) => drive(session, claimed, eyes, &mut watching, &mut screen).await,
        None => look_on(session, id, eyes, &mut watching, &mut screen).await,
    };
    screen.finish();
    let left = left?;
    Ok((watching.view().await?, left))
}

/// The same, without a word at the end.
pub async fn seen(
    session: &Session,
    id: &str,
    mut eyes: Eyes,
    claimed: Option<Progress>,
) -> Result<ExecutionView, Error> {
    Ok(looked(session, id, &mut eyes, claimed).await?.0)
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
    let mut leaving = false;
    loop {
        tokio::select! {
            status = &mut driving => {
                let status = status.map_err(|error| Error::new("internal", error.to_string(), "this is a bug in actbook"))??;
                watching.look()?;
                eyes.show(session, watching, screen).await?;
                let settled = waits_or_ended(status) || waits_or_ended(watching.status());
                return Ok(match (settled, *stop.borrow()) {
                    (true, _) => Left::Settled,
                    (false, true) => Left::Asked,
                    (false, false) => Left::TakenOver,
                });
            }
            seen = eyes.next(watching) => match seen {
                Ok(Seen::Moved) => eyes.show(session, watching, screen).await?,
                Ok(Seen::Tick) => screen.tick(watching),
                Ok(Seen::Signal(asked)) if leaving => end_process(asked),
                Ok(Seen::Signal(asked)) => {
                    leaving = true;
                    stop_driving(session, asked, &stop, watching);
                    screen.note(&stopping_note(asked, watching));
                }
                // Who drives outlasts a database that is away; what is shown can wait.
                Err(error) if error.code == "store" => tracing::debug!("not seen: {error}"),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Ctrl-C pauses the execution, so that no other process goes on with it. SIGTERM only ends the driving here: another
/// process may take over. Calls in flight finish either way.
fn stop_driving(session: &Session, asked: Asked, stop: &Sender<bool>, watching: &Watching) {
    match asked {
        Asked::Terminate => drop(stop.send_replace(true)),
        Asked::Interrupt => {
            let (service, caller) = (session.service.clone(), session.caller.clone());
            let (id, stop) = (watching.execution().id.to_string(), stop.clone());
            tokio::spawn(async move {
                let pausing = service.pause(&caller, &id, Some(PAUSE_REASON.to_owned()));
                let paused = tokio::time::timeout(PAUSE_LIMIT, pausing).await;
                if !matches!(paused, Ok(Ok(_))) {
                    tracing::debug!("not paused: it has ended, is being stopped, or the database is away");
                }
                // A server may go on with a task for long: it is left to whoever resumes.
                stop.send_replace(true);
            });
        }
    }
}

fn stopping_note(asked: Asked, watching: &Watching) -> String {
    let running = watching
        .glances()
        .filter(|step| matches!(step.status, StepStatus::Running | StepStatus::Compensating))
        .count();
    let calls = if running == 1 { "1 call" } else { &format!("{running} calls") };
    let what = match asked {
        Asked::Interrupt => "pausing: nothing further starts",
        Asked::Terminate => "stopping: nothing further starts here",
    };
    format!("{what}, {calls} in flight may finish (again: leave at once)")
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
                Seen::Moved => eyes.show(session, watching, screen).await?,
                Seen::Tick => screen.tick(watching),
                Seen::Signal(_) => return Ok(Left::Unwatched),
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
pub enum Seen {
    Moved,
    Tick,
    Signal(Asked),
}

/// Opened before anything is started: from there on a signal asks, where it would have killed.
#[derive(Debug)]
pub struct Eyes {
    signals: TakenOver,
    tick: Interval,
    not_before: Instant,
    /// Prints each step's values as it ends; none where that is not asked for.
    values: Option<StepValues>,
}

impl Eyes {
    pub fn open() -> Result<Self, Error> {
        let (signals, tick) = (TakenOver::take()?, interval(DRAW_EVERY));
        Ok(Self { signals, tick, not_before: Instant::now(), values: None })
    }

    /// The same, with the arguments and outputs of steps.
    pub fn verbose(self, verbose: bool) -> Self {
        Self { values: verbose.then(StepValues::default), ..self }
    }

    /// Something has moved: it is shown.
    async fn show(
        &mut self,
        session: &Session,
        watching: &Watching,
        screen: &mut Screen,
    ) -> Result<(), Error> {
        screen.show(watching);
        match &mut self.values {
            Some(values) => values.print(&session.output, watching).await,
            None => Ok(()),
        }
    }

    pub async fn next(&mut self, watching: &mut Watching) -> Result<Seen, Error> {
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
            asked = self.signals.next() => Ok(Seen::Signal(asked)),
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
        Left::Unwatched => {
            output.aside(format_args!("no longer watching it: `actbook watch {id}` follows it again"));
        }
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
