//! Waits for an execution to change, woken by the journal, and sends progress notifications meanwhile.

use std::time::Duration;

use actbook_engine::policy::StepStatus;
use tokio::time::{Instant, sleep, sleep_until};

use super::request::{AgentRequest, ProgressUpdate};
use crate::error::{AgentError, AgentErrorCode, Error};
use crate::service::quote::quoted;
use crate::service::view::{ExecutionView, StepProgress};
use crate::service::{ExecutionWatcher, Service};

/// Longest `wait_s`, in seconds: clients and proxies give up on silent requests.
pub const WAIT_S_MAX: f64 = 300.0;
/// The `wait_s` that answers suggest, in seconds: some clients give up on a request after 60.
pub const WAIT_S_SUGGESTED: u32 = 45;

/// How often a waiting call polls the progress that running tools report, which is not journaled.
const PROGRESS_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Most characters of the message that a running tool reports.
const MESSAGE_CHARS_MAX: usize = 80;

/// What ends a wait before its time limit.
#[derive(Clone, Copy, Debug)]
pub enum WaitUntil {
    /// The execution has ended, or waits for a person or an agent.
    Settled,
    /// Its journal has an entry after this position.
    AfterPosition(u64),
}

/// The time limit of a wait; zero if none was given. Err: out of range.
pub fn parse_wait(wait_s: Option<f64>) -> Result<Duration, Error> {
    let wait_s = wait_s.unwrap_or(0.0);
    if !(0.0..=WAIT_S_MAX).contains(&wait_s) {
        let message = format!("`wait_s` is 0 to {WAIT_S_MAX} seconds, and {wait_s} was given");
        let cure = "give less, and call status with wait_s again while it runs on";
        let error = AgentError::new(AgentErrorCode::InvalidArgument, message, cure);
        return Err(error.with_path("wait_s").into());
    }
    Ok(Duration::from_secs_f64(wait_s))
}

/// Waits until `until` holds, `wait` is over or the call is cancelled, and returns the execution's view;
/// sends progress notifications meanwhile. Cancelling the call does not affect the execution.
pub async fn wait_for_view(
    service: &Service,
    request: &AgentRequest,
    id: &str,
    until: WaitUntil,
    wait: Duration,
) -> Result<ExecutionView, Error> {
    if wait.is_zero() {
        return service.executions().view(id).await;
    }
    let deadline = Instant::now() + wait;
    let mut notifier = request.progress_notifier();
    let mut watch = service.executions().watch(id).await?;
    while !has_reached(&watch, until) {
        tokio::select! {
            moved = watch.wait_for_change() => {
                moved?;
                notifier.notify(measure_progress(&watch)).await;
            }
            () = sleep_until(notifier.heartbeat_at()) => notifier.notify(measure_progress(&watch)).await,
            () = sleep(PROGRESS_POLL_INTERVAL) => {
                let update = measure_progress(&watch);
                if notifier.has_advanced(&update) {
                    notifier.notify(update).await;
                }
            }
            () = sleep_until(deadline) => break,
            () = request.context.ct.cancelled() => break,
        }
    }
    watch.view().await
}

/// Whether the condition that ends the wait holds.
fn has_reached(watch: &ExecutionWatcher, until: WaitUntil) -> bool {
    match until {
        WaitUntil::Settled => watch.is_settled(),
        WaitUntil::AfterPosition(position) => watch.position() > position,
    }
}

/// The current progress of an execution, in steps.
fn measure_progress(watch: &ExecutionWatcher) -> ProgressUpdate {
    let (mut done, mut fractions, mut total, mut running) = (0_u32, 0.0, 0_u32, None);
    for step in watch.step_snapshots() {
        total += 1;
        match step.status {
            StepStatus::Succeeded | StepStatus::Skipped => done += 1,
            StepStatus::Running | StepStatus::Compensating => {
                fractions += step.progress.as_ref().map_or(0.0, reported_fraction);
                running = running.or(Some(step));
            }
            StepStatus::Pending
            | StepStatus::AwaitingApproval
            | StepStatus::AwaitingAgent
            | StepStatus::Failed
            | StepStatus::Unknown
            | StepStatus::Cancelled
            | StepStatus::Compensated
            | StepStatus::CompensationFailed => {}
        }
    }
    let reported = running.as_ref().and_then(|step| step.progress.as_ref()?.message.as_deref());
    let reported = reported.map(|text| format!(": {}", quoted(text, MESSAGE_CHARS_MAX))).unwrap_or_default();
    let running = running.map(|step| format!(", at `{}`{reported}", step.id)).unwrap_or_default();
    let message = format!("{}: {done} of {total} steps done{running}", watch.status());
    ProgressUpdate { done: f64::from(done) + fractions, total: f64::from(total), message }
}

/// The fraction, 0 to 0.99, of its work that a tool reports as done; below 1, because only its answer ends a
/// step.
fn reported_fraction(progress: &StepProgress) -> f64 {
    let fraction = progress.total.filter(|total| *total > 0.0).map_or(0.0, |total| progress.done / total);
    fraction.clamp(0.0, 0.99)
}
