//! Waiting for an execution to change, without polling and with progress told on the way.

use std::time::Duration;

use actbook_engine::policy::StepStatus;
use tokio::time::{Instant, sleep, sleep_until};

use super::ask::{Ask, Stand};
use crate::error::Error;
use crate::service::quote::quoted;
use crate::service::view::{ExecutionView, StepProgress};
use crate::service::{Service, Watching};

/// A longer wait is refused: clients and proxies give up on silent requests.
pub const WAIT_S_MAX: f64 = 300.0;
/// What answers suggest: some clients give up on a request after 60 seconds.
pub const WAIT_S_SUGGESTED: u32 = 45;

/// How often a waiting call looks at what running tools say of their progress, which no entry tells.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SAID_CHARS_MAX: usize = 80;

/// What ends the waiting before its time.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// It has ended, or waits for somebody.
    Settled,
    /// Anything after this position.
    After(u64),
}

pub fn span(wait_s: Option<f64>) -> Result<Duration, Error> {
    let wait_s = wait_s.unwrap_or(0.0);
    if !(0.0..=WAIT_S_MAX).contains(&wait_s) {
        let message = format!("`wait_s` is 0 to {WAIT_S_MAX} seconds, and {wait_s} was given");
        let cure = "give less, and call status with wait_s again while it runs on";
        return Err(Error {
            path: Some("wait_s".to_owned()),
            ..Error::new("invalid_argument", message, cure)
        });
    }
    Ok(Duration::from_secs_f64(wait_s))
}

/// The execution as it is once it has changed, or when the time is over. Who cancels the call ends the
/// waiting and nothing else.
pub async fn view(
    service: &Service,
    ask: &Ask,
    id: &str,
    until: Until,
    wait: Duration,
) -> Result<ExecutionView, Error> {
    if wait.is_zero() {
        return service.view(id).await;
    }
    let deadline = Instant::now() + wait;
    let mut telling = ask.telling();
    let mut watching = service.watch(id).await?;
    while !reached(&watching, until) {
        tokio::select! {
            moved = watching.moved() => {
                moved?;
                telling.tell(stand(&watching)).await;
            }
            () = sleep_until(telling.heartbeat()) => telling.tell(stand(&watching)).await,
            () = sleep(LOOK_EVERY) => {
                let stand = stand(&watching);
                if telling.is_news(&stand) {
                    telling.tell(stand).await;
                }
            }
            () = sleep_until(deadline) => break,
            () = ask.context.ct.cancelled() => break,
        }
    }
    watching.view().await
}

fn reached(watching: &Watching, until: Until) -> bool {
    match until {
        Until::Settled => watching.is_settled(),
        Until::After(position) => watching.position() > position,
    }
}

fn stand(watching: &Watching) -> Stand {
    let (mut done, mut part, mut total, mut at_work) = (0_u32, 0.0, 0_u32, None);
    for step in watching.glances() {
        total += 1;
        match step.status {
            StepStatus::Succeeded | StepStatus::Skipped => done += 1,
            StepStatus::Running | StepStatus::Compensating => {
                part += step.progress.as_ref().map_or(0.0, part_done);
                at_work = at_work.or(Some(step));
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
    let said = at_work.as_ref().and_then(|step| step.progress.as_ref()?.message.as_deref());
    let said = said.map(|said| format!(": {}", quoted(said, SAID_CHARS_MAX))).unwrap_or_default();
    let at_work = at_work.map(|step| format!(", at `{}`{said}", step.id)).unwrap_or_default();
    let message = format!("{}: {done} of {total} steps done{at_work}", watching.status());
    Stand { done: f64::from(done) + part, total: f64::from(total), message }
}

/// The part of its work that a tool says to have done; below 1, for only its answer ends a step.
fn part_done(progress: &StepProgress) -> f64 {
    let part = progress.total.filter(|total| *total > 0.0).map_or(0.0, |total| progress.done / total);
    part.clamp(0.0, 0.99)
}
