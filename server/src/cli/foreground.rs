//! Shows an execution in the foreground while the service drives it here, or another process does: its progress,
//! what a signal does, and the result.

use std::time::Duration;

use crate::error::{CommandLineCode, Error};
use crate::service::view::{ExecutionView, QuestionKind};
use crate::service::{DriveState, DriveStopper, ExecutionWatcher};
use actbook_engine::policy::{ExecutionStatus, StepStatus};
use tokio::time::{Instant, Interval, interval, sleep_until};

use super::live_progress::{ProgressScreen, StepValuePrinter};
use super::output::Output;
use super::session::Session;
use super::signals::{SignalGuard, StopSignal, end_process};
use super::status_style::short_id;
use super::{CommandResult, Exit, approval_prompt, brief};

/// The least time between two redraws; changes that come faster are shown together.
const SHOW_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// How often the clock and the spinner on a terminal advance.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// The journaled reason of a pause by Ctrl-C.
const PAUSE_REASON: &str = "Ctrl-C";

/// What the command wanted. It decides the exit code: `cancelled` is a success of `cancel`, `compensated` of
/// `undo`; both are failures of `run`, `resume` and `watch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Run,
    Undo,
    Cancel,
}

/// Why driving or watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    /// The execution has ended, or waits for an answer.
    Settled,
    /// A signal arrived, and this process has stopped driving.
    Signalled,
    /// A signal arrived, and another process keeps driving.
    StoppedWatching,
    /// Another process has claimed the execution.
    TakenOver,
    /// The process that was watched drives it no longer, and it is still running.
    DriverExited,
}

/// Drives a claimed execution, or without a claim watches the process that drives it and continues it here if
/// that process exits, and prints the result. If this process drives and has a terminal, it asks for approvals in
/// place and continues.
pub async fn follow(
    session: &Session,
    id: &str,
    mut events: Events,
    mut claimed: Option<DriveState>,
    goal: Goal,
) -> CommandResult {
    loop {
        let drives = claimed.is_some();
        let (view, end) = drive_or_watch(session, id, &mut events, claimed).await?;
        let waits_for_approval = view.waiting.iter().any(|waiting| waiting.kind == QuestionKind::Approval);
        let may_ask = drives && end == WatchEnd::Settled && waits_for_approval;
        let goes_on = end == WatchEnd::DriverExited
            || may_ask && approval_prompt::ask_for_approval(session, id, &mut events).await?;
        if !goes_on {
            print_end(session, &view, end);
            // A session that is open has nothing that goes on by itself: its undo is over.
            let is_open_session = view.session.is_some() && view.status == ExecutionStatus::Running;
            return Ok(if is_open_session { Exit::Done } else { exit_for(view.status, goal) });
        }
        claimed = session.service.executions().claim(&session.caller, id, false).await?;
    }
}

/// Drives a claimed execution, or watches one without a claim, on a screen. Returns the view at the end, and
/// why it ended.
async fn drive_or_watch(
    session: &Session,
    id: &str,
    events: &mut Events,
    claimed: Option<DriveState>,
) -> Result<(ExecutionView, WatchEnd), Error> {
    let mut watching = session.service.executions().watch(id).await?;
    let mut screen = ProgressScreen::new(session.output.clone(), &watching);
    let end = match claimed {
        Some(claimed) => drive(session, claimed, events, &mut watching, &mut screen).await,
        None => watch_other_driver(session, id, events, &mut watching, &mut screen).await,
    };
    screen.finish();
    let end = end?;
    Ok((watching.view().await?, end))
}

/// Drives or watches with live progress, but prints no result and asks nothing.
pub async fn watch_quietly(
    session: &Session,
    id: &str,
    mut events: Events,
    claimed: Option<DriveState>,
) -> Result<ExecutionView, Error> {
    Ok(drive_or_watch(session, id, &mut events, claimed).await?.0)
}

/// `actbook watch`: follows an execution that another process drives. `Err` if no living process drives it.
pub async fn watch(session: &Session, id: &str) -> CommandResult {
    let (view, end) = drive_or_watch(session, id, &mut Events::open()?, None).await?;
    if end == WatchEnd::DriverExited {
        return Err(nobody_drives_error(id));
    }
    print_end(session, &view, end);
    Ok(exit_for(view.status, Goal::Run))
}

/// Drives in a spawned task and shows progress meanwhile. The first signal stops driving; a second one ends
/// the process.
async fn drive(
    session: &Session,
    claimed: DriveState,
    events: &mut Events,
    watching: &mut ExecutionWatcher,
    screen: &mut ProgressScreen,
) -> Result<WatchEnd, Error> {
    let mut driving = session.service.executions().drive_in_task(claimed).await?;
    let stopper = driving.stopper().clone();
    let mut stopping = false;
    loop {
        tokio::select! {
            status = driving.wait_until_ended() => {
                let status = status?;
                watching.refresh().await?;
                events.show(session, watching, screen).await?;
                let settled = is_waiting_or_ended(status) || watching.is_settled();
                return Ok(match (settled, stopper.is_stopped()) {
                    (true, _) => WatchEnd::Settled,
                    (false, true) => WatchEnd::Signalled,
                    (false, false) => WatchEnd::TakenOver,
                });
            }
            event = events.next(watching) => match event {
                Ok(WatchEvent::Changed) => events.show(session, watching, screen).await?,
                Ok(WatchEvent::Tick) => screen.tick(watching),
                Ok(WatchEvent::Signal(signal)) if stopping => leave_at_once(session, watching, signal),
                Ok(WatchEvent::Signal(signal)) => {
                    stopping = true;
                    stop_driving(session, signal, &stopper, watching);
                    screen.note(&stopping_note(signal, watching));
                }
                // The driver retries through a database outage; the display can lag behind.
                Err(Error::Store(error)) => {
                    tracing::debug!("progress could not be read: {error}");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Ctrl-C pauses the execution, so that no other process continues it. SIGTERM only stops driving here:
/// another process may take over. Calls in flight finish either way.
fn stop_driving(session: &Session, signal: StopSignal, stopper: &DriveStopper, watching: &ExecutionWatcher) {
    match signal {
        StopSignal::Terminate => drop(stopper.stop()),
        StopSignal::Interrupt => {
            let (service, caller) = (session.service.clone(), session.caller.clone());
            let (id, stopper) = (watching.execution().id.to_string(), stopper.clone());
            tokio::spawn(async move {
                service.executions().pause_and_stop(&caller, &id, PAUSE_REASON, &stopper).await;
            });
        }
    }
}

/// Ends the process, and says how the execution goes on.
fn leave_at_once(session: &Session, watching: &ExecutionWatcher, signal: StopSignal) -> ! {
    let id = short_id(watching.execution().id.as_str());
    Output::finish_drawing();
    session.output.notice(format_args!("ended at once: `actbook resume {id}` continues it"));
    end_process(signal)
}

/// What the screen shows after the first signal: how many calls are in flight, and that a second signal
/// leaves.
fn stopping_note(signal: StopSignal, watching: &ExecutionWatcher) -> String {
    let running = watching
        .step_snapshots()
        .filter(|step| matches!(step.status, StepStatus::Running | StepStatus::Compensating))
        .count();
    let calls = if running == 1 { "1 call" } else { &format!("{running} calls") };
    let what = match signal {
        StopSignal::Interrupt => "pausing: nothing further starts",
        StopSignal::Terminate => "stopping: nothing more starts here",
    };
    format!("{what}, {calls} in flight may finish (again: end at once)")
}

/// Watches an execution that another process drives.
async fn watch_other_driver(
    session: &Session,
    id: &str,
    events: &mut Events,
    watching: &mut ExecutionWatcher,
    screen: &mut ProgressScreen,
) -> Result<WatchEnd, Error> {
    let executions = session.service.executions();
    let found = executions.find(id).await?;
    let undriven = executions.wait_until_undriven(&found);
    tokio::pin!(undriven);
    loop {
        if watching.is_settled() {
            return Ok(WatchEnd::Settled);
        }
        tokio::select! {
            event = events.next(watching) => match event? {
                WatchEvent::Changed => events.show(session, watching, screen).await?,
                WatchEvent::Tick => screen.tick(watching),
                WatchEvent::Signal(_) => return Ok(WatchEnd::StoppedWatching),
            },
            undriven = &mut undriven => {
                undriven?;
                watching.refresh().await?;
                return Ok(if watching.is_settled() { WatchEnd::Settled } else { WatchEnd::DriverExited });
            }
        }
    }
}

/// The error that ends watching a running execution which no live process drives.
fn nobody_drives_error(id: &str) -> Error {
    let cure = format!("`actbook resume {}` continues it", short_id(id));
    Error::command_line(CommandLineCode::NobodyDrives, "no process drives this execution", cure)
}

/// Whether no driver is needed now: the execution has ended, is paused, or waits for an answer.
fn is_waiting_or_ended(status: ExecutionStatus) -> bool {
    !matches!(status, ExecutionStatus::Running | ExecutionStatus::Compensating)
}

/// What `Events::next` returns.
pub enum WatchEvent {
    /// The execution has new journal entries, which `watching` has read.
    Changed,
    /// Only time has passed: a terminal's clock and spinner advance.
    Tick,
    Signal(StopSignal),
}

/// The source of what a foreground command reacts to: changes of the execution, ticks and signals. Opened
/// before anything is started: from then on a signal is an event and does not end the process.
#[derive(Debug)]
pub struct Events {
    signals: SignalGuard,
    tick: Interval,
    /// The next change is reported no earlier than this.
    next_change_at: Instant,
    /// Prints each step's arguments and output as it ends; `None` without `--verbose`.
    values: Option<StepValuePrinter>,
}

impl Events {
    pub fn open() -> Result<Self, Error> {
        let (signals, tick) = (SignalGuard::register()?, interval(DRAW_INTERVAL));
        Ok(Self { signals, tick, next_change_at: Instant::now(), values: None })
    }

    /// Whether to print the arguments and the output of each step as it ends.
    pub fn with_values(self, verbose: bool) -> Self {
        Self { values: verbose.then(StepValuePrinter::default), ..self }
    }

    /// Shows a change on the screen, and prints the values of ended steps if asked to.
    async fn show(
        &mut self,
        session: &Session,
        watching: &ExecutionWatcher,
        screen: &mut ProgressScreen,
    ) -> Result<(), Error> {
        screen.show(watching);
        match &mut self.values {
            Some(values) => values.print(&session.output, watching).await,
            None => Ok(()),
        }
    }

    /// Waits for the next event. `Err` if the journal cannot be read.
    pub async fn next(&mut self, watching: &mut ExecutionWatcher) -> Result<WatchEvent, Error> {
        let not_before = self.next_change_at;
        let moved = async {
            sleep_until(not_before).await;
            watching.wait_for_change().await
        };
        tokio::select! {
            moved = moved => {
                self.next_change_at = Instant::now() + SHOW_INTERVAL_MIN;
                moved.map(|()| WatchEvent::Changed)
            }
            _ = self.tick.tick() => Ok(WatchEvent::Tick),
            signal = self.signals.next() => Ok(WatchEvent::Signal(signal)),
        }
    }
}

/// Prints the result, and after a signal or a takeover how to go on.
fn print_end(session: &Session, view: &ExecutionView, end: WatchEnd) {
    let output = &session.output;
    if output.json {
        output.entry(view);
    } else {
        brief::print_outcome(output, view);
    }
    let (id, status) = (short_id(view.id.as_str()), view.status);
    match end {
        WatchEnd::Settled | WatchEnd::DriverExited => {}
        WatchEnd::Signalled => output.notice(format_args!(
            "left it {status}: `actbook resume {id}` continues it, `actbook show {id}` explains it"
        )),
        WatchEnd::StoppedWatching => {
            output.notice(format_args!("no longer watching it: `actbook watch {id}` follows it again"));
        }
        WatchEnd::TakenOver => {
            output.notice(format_args!("another process has taken it over: `actbook watch {id}`"));
        }
    }
}

/// The exit code of an execution with this status, for a command that wanted `goal`.
fn exit_for(status: ExecutionStatus, goal: Goal) -> Exit {
    match (status, goal) {
        (ExecutionStatus::Succeeded, _)
        | (ExecutionStatus::Compensated, Goal::Undo)
        | (ExecutionStatus::Cancelled, Goal::Cancel) => Exit::Done,
        (ExecutionStatus::Paused | ExecutionStatus::Blocked, _) => Exit::Waits,
        (
            ExecutionStatus::Running
            | ExecutionStatus::Compensating
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Compensated,
            _,
        ) => Exit::Failed,
    }
}
