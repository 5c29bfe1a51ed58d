//! Claims of agent steps: the sessions that hold them, whether a holder's session has ended, and how a claim
//! reads to one caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::execution::{CLAIM_DURATION_MS, Claim, Command};
use parking_lot::Mutex;

use super::executions::Executions;
use super::executions::FoundExecution;
use super::quote;
use super::view::{ExecutionView, WaitingView};
use super::{SESSION_CHARS, Service};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::DriveState;
use crate::random;

/// How long an agent holds a step after its last report.
pub const CLAIM_DURATION: Duration = Duration::from_millis(CLAIM_DURATION_MS as u64);

/// Longest shown name of a holder.
const HOLDER_CHARS_MAX: usize = 100;

/// The names of the sessions that are open in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenSessions(Arc<Mutex<BTreeSet<Arc<str>>>>);

/// One client's connection, which tells agents of the same name apart. Dropping the session ends it, and with
/// it the claims that it holds.
#[derive(Debug)]
pub struct AgentSession {
    id: Arc<str>,
    open: OpenSessions,
}

impl AgentSession {
    /// The session's random name.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }
}

impl Drop for AgentSession {
    fn drop(&mut self) {
        self.open.0.lock().remove(&self.id);
    }
}

impl Service {
    /// Opens a session with a random name for one client's connection.
    pub fn open_session(&self) -> AgentSession {
        let id: Arc<str> = random::id()[..SESSION_CHARS].into();
        let open = self.sessions.clone();
        open.0.lock().insert(id.clone());
        AgentSession { id, open }
    }
}

impl Executions<'_> {
    /// Whether the session of a claim's holder has certainly ended: it is not open in this process, or the
    /// process that served it is gone. False if the claim names no process.
    async fn has_departed(self, claim: &Claim) -> Result<bool, Error> {
        let Some(node) = &claim.node else { return Ok(false) };
        if self.0.runner.get().is_some_and(|runner| runner.node_id() == *node) {
            let session = claim.holder.rsplit_once('#').map_or("", |(_, session)| session);
            return Ok(!self.0.sessions.0.lock().contains(session));
        }
        Ok(self.live_driver(node.as_str()).await?.is_none())
    }

    /// Repeats a report that was refused as `claimed`, if the agent session that holds the step has ended:
    /// the report then takes the step over. `Err(refusal)` if it has not ended, or for any other command.
    pub(super) async fn report_after_departure(
        self,
        caller: &Caller,
        id: &str,
        command: Command,
        refusal: Error,
    ) -> Result<(FoundExecution, DriveState), Error> {
        let Command::RecordReport { step, report, facts, by: Some(mut by), replies_to } = command else {
            return Err(refusal);
        };
        let execution = self.load(id).await?;
        let claim = execution.plan.find_step(&step).and_then(|no| execution.step(no).claim.clone());
        by.departed_holder = match claim {
            Some(claim) if self.has_departed(&claim).await? => Some(claim.holder),
            Some(_) | None => return Err(refusal),
        };
        let command = Command::RecordReport { step, report, facts, by: Some(by), replies_to };
        self.command_and_settle(caller, id, command).await
    }

    /// Words the questions about claimed agent steps for `caller`: only the holder reads that the step is its
    /// own; others read who holds the step, and until when.
    pub async fn address_claims(self, caller: &Caller, view: &mut ExecutionView) -> Result<(), Error> {
        if view.waiting.iter().all(|waiting| waiting.claim.is_none()) {
            return Ok(());
        }
        let execution = self.load(view.id.as_str()).await?;
        for waiting in &mut view.waiting {
            let no = waiting.step.as_ref().and_then(|step| execution.plan.find_step(step.as_str()));
            let Some(claim) = no.and_then(|no| execution.step(no).claim.as_ref()) else { continue };
            let lapsed = claim.until_ms <= self.0.ledger.clock().now_ms() || self.has_departed(claim).await?;
            address_claim(waiting, &caller.step_holder(), lapsed);
        }
        Ok(())
    }
}

/// Words the question of a claimed step for the reader `me`, and marks a lapsed claim. Does nothing if the
/// question is about no claimed step.
fn address_claim(waiting: &mut WaitingView, me: &str, lapsed: bool) {
    let Some(claim) = &mut waiting.claim else { return };
    let (me, holder) = (quote::line(me, HOLDER_CHARS_MAX), quote::line(&claim.holder, HOLDER_CHARS_MAX));
    let Some((step, work)) = waiting.question.split_once(" is yours: ") else { return };
    let question = if holder == me {
        format!("{step} is yours ({me}): {work}")
    } else if lapsed {
        format!("{step} was started by {holder}, whose claim has lapsed; you ({me}) may take it over: {work}")
    } else {
        format!("{step} is held by {holder} until {}, not by you ({me}): {work}", claim.until)
    };
    claim.lapsed = lapsed && holder != me;
    claim.is_anothers = !lapsed && holder != me;
    waiting.question = question;
}
