//! Waiting for an execution to change, without polling and with progress told on the way.

use std::time::Duration;

use actbook_engine::policy::StepStatus;
use tokio::time::{Instant, sleep_until};

use super::ask::Ask;
use crate::error::Error;
use crate::service::view::ExecutionView;
use crate::service::{Service, Watching};

/// A longer wait is cut to this: clients and proxies give up on silent requests.
pub const WAIT_S_MAX: f64 = 300.0;

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
    if wait_s < 0.0 {
        let message = format!("`wait_s`: {wait_s} is no length of time");
        let error = Error::new("invalid_argument", message, "give 0 or more seconds, or leave it out");
        return Err(Error { path: Some("wait_s".to_owned()), ..error });
    }
    Ok(Duration::from_secs_f64(wait_s.min(WAIT_S_MAX)))
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

fn stand(watching: &Watching) -> String {
    let of = |wanted: &[StepStatus]| {
        watching.glances().filter(|step| wanted.contains(&step.status)).collect::<Vec<_>>()
    };
    let done = of(&[StepStatus::Succeeded, StepStatus::Skipped]).len();
    let total = watching.glances().count();
    let at_work = of(&[StepStatus::Running, StepStatus::Compensating]);
    let at_work = at_work.first().map(|step| format!(", at `{}`", step.id)).unwrap_or_default();
    format!("{}: {done} of {total} steps done{at_work}", watching.status())
}
