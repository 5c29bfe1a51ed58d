//! What agents put on record: reports of their steps, actions outside the plan, decisions, and compensations
//! that they performed themselves.

use std::time::Duration;

use actbook_engine::event::ReportedStatus;
use actbook_engine::execution::{ActionFacts, AgentReport, Command, Reporter};
use actbook_engine::id::{Position, StreamId};
use actbook_engine::plan::{Finding, Plan};
use actbook_engine::policy::ErrorCategory;
use actbook_engine::refusal::Refusal;
use serde_json::Value;

use super::executions::Executions;
use super::executions::FoundExecution;
use super::plans::Plans;
use crate::caller::Caller;
use crate::error::{ClosedPart, DocumentKind, Error};
use crate::ledger::{DriveState, RecordActionRequest};
use crate::random;

/// Longest wait for the driver to act on a report before the caller is answered.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// An action that an agent reports: of a step, or outside of any step, or outside of any execution.
#[derive(Clone, Debug, Default)]
pub struct ActionRecord {
    /// `None`: the action belongs to no execution.
    pub execution: Option<String>,
    /// `None`: the action is outside of the plan.
    pub step: Option<String>,
    pub status: Option<ReportedStatus>,
    pub output: Option<Value>,
    pub facts: ActionFacts,
    /// Take the step over from another agent that has started it and whose claim has lapsed.
    pub take_over: bool,
    /// The entry since which the work that the reporter was shown is awaited. `None`: whatever is awaited.
    pub replies_to: Option<Position>,
}

/// A decision that an agent puts on record.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Any text; `stop` and `continue` also take effect.
    pub decision: String,
    pub reason: Option<String>,
    pub step: Option<String>,
    pub details: Option<Value>,
}

/// Where an action was recorded.
#[derive(Debug)]
pub enum RecordResult {
    /// In an execution: as it was found before, and its progress after the record.
    InExecution(FoundExecution, Box<DriveState>),
    /// Outside of any execution: the position of the entry.
    Standalone(Position),
}

impl Executions<'_> {
    /// Records what an agent did: on a step, elsewhere in an execution, or (no execution named) standalone.
    /// In an execution, waits for the driver as `command_and_settle` does.
    pub async fn record_action(self, caller: &Caller, action: ActionRecord) -> Result<RecordResult, Error> {
        match &action.execution {
            None => self.record_standalone(caller, action).await.map(RecordResult::Standalone),
            Some(id) => {
                let (found, progress) = self.record_in_execution(caller, &id.clone(), action).await?;
                Ok(RecordResult::InExecution(found, Box::new(progress)))
            }
        }
    }

    /// Records what an agent did in the execution `id`, on a step or elsewhere; `action.execution` is
    /// ignored. A step whose holder's session has ended is taken over.
    pub async fn record_in_execution(
        self,
        caller: &Caller,
        id: &str,
        action: ActionRecord,
    ) -> Result<(FoundExecution, DriveState), Error> {
        let ActionRecord { execution: _, step, status, output, facts, take_over, replies_to } = action;
        let command = match (step, status) {
            (Some(step), Some(ReportedStatus::Compensated)) => Command::RecordCompensation {
                step,
                done: true,
                facts: Box::new(ActionFacts { output, ..facts }),
            },
            (Some(step), Some(status)) => {
                let report = build_report(status, output, &facts)?;
                let by = Some(self.reporter(caller, take_over, status).await?);
                Command::RecordReport { step, report, facts: Box::new(facts), by, replies_to }
            }
            (step, status) => {
                Command::RecordAction { step, status, facts: Box::new(ActionFacts { output, ..facts }) }
            }
        };
        match self.command_and_settle(caller, id, command.clone()).await {
            Err(error @ Error::Refused(Refusal::Claimed { .. })) => {
                self.report_after_departure(caller, id, command, error).await
            }
            result => result,
        }
    }

    /// The caller as the reporter of a step's status, for the engine's check of the step's claim. A start
    /// within a session names this process's node, so that others can tell whether that session still exists.
    /// `takes_over`: asks for a step whose claim has lapsed. Err: the process cannot register as a node.
    async fn reporter(
        self,
        caller: &Caller,
        takes_over: bool,
        status: ReportedStatus,
    ) -> Result<Reporter, Error> {
        let (holder, is_person) = (caller.step_holder(), caller.overrides_claims());
        let starts_in_session = caller.session.is_some() && status == ReportedStatus::Started;
        let node = if starts_in_session { Some(self.0.runner().await?.node_id()) } else { None };
        let at_ms = self.0.ledger.clock().now_ms();
        Ok(Reporter { holder, is_person, takes_over, node, departed_holder: None, at_ms })
    }

    /// Journals a decision on an execution; `stop` also cancels the execution, and `continue` resumes a
    /// paused one. Waits for the driver as `command_and_settle` does.
    pub async fn record_decision(
        self,
        caller: &Caller,
        id: &str,
        decision: Decision,
    ) -> Result<(FoundExecution, DriveState), Error> {
        let Decision { decision, reason, step, details } = decision;
        self.command_and_settle(caller, id, Command::RecordDecision { decision, reason, step, details }).await
    }

    /// Journals that an agent compensated a step itself; `done` is false if it tried and failed.
    pub async fn record_compensation(
        self,
        caller: &Caller,
        id: &str,
        step: String,
        done: bool,
        facts: ActionFacts,
    ) -> Result<(FoundExecution, DriveState), Error> {
        self.command_and_settle(
            caller,
            id,
            Command::RecordCompensation { step, done, facts: Box::new(facts) },
        )
        .await
    }

    /// Journals an action outside of any execution. Refused if it names a step.
    async fn record_standalone(self, caller: &Caller, action: ActionRecord) -> Result<Position, Error> {
        if action.step.is_some() {
            return Err(Error::StepWithoutExecution);
        }
        let salt = random::bytes::<16>().to_vec().into();
        let project = Some(self.0.project().to_owned());
        let facts = ActionFacts { output: action.output, ..action.facts };
        let request = RecordActionRequest { facts, status: action.status, project, salt };
        self.0.submit_recorded(caller, request).await
    }
}

impl Plans<'_> {
    /// Refuses a plan with steps that Actbook would call: in record mode the agent performs every step
    /// itself.
    pub fn check_recordable(self, plan: &Plan) -> Result<(), Error> {
        let steps = plan.steps.iter().enumerate().filter(|(_, step)| !step.is_agent_step());
        let findings: Vec<Finding> = steps
            .map(|(index, step)| {
                let message = format!("step `{}` would be called by Actbook", step.id);
                let cure = "mark it `by: agent` and call the tool yourself";
                Finding::error("not_the_agents", format!("steps[{index}].tool"), message, cure)
            })
            .collect();
        if findings.is_empty() { Ok(()) } else { Err(Error::invalid(DocumentKind::RecordedPlan, findings)) }
    }
}

impl Executions<'_> {
    /// Gives a command and waits, at most `SETTLE_TIMEOUT`, until the driver has acted on it, so that the
    /// caller sees what is due next. If the step is not due yet (`NotAwaited`), waits for the driver once and
    /// tries again: a report may arrive before the driver has made its step due. The progress is that right
    /// after the command.
    pub(super) async fn command_and_settle(
        self,
        caller: &Caller,
        id: &str,
        command: Command,
    ) -> Result<(FoundExecution, DriveState), Error> {
        let found = self.find(id).await?;
        let stream = found.stream;
        let progress = match self.command(caller, stream, command.clone()).await {
            Err(Error::Refused(Refusal::NotAwaited { .. })) => {
                self.wait_until_idle(stream, found.node.as_deref()).await?;
                self.command(caller, stream, command).await
            }
            result => result,
        }?;
        self.wait_until_idle(stream, progress.node.as_ref().map(|node| node.as_str())).await?;
        Ok((found, progress))
    }

    /// Waits until the live driver on `node` has nothing left to do by itself, at most `SETTLE_TIMEOUT`;
    /// returns at once if there is none.
    async fn wait_until_idle(self, stream: StreamId, node: Option<&str>) -> Result<(), Error> {
        let Some(node) = node else { return Ok(()) };
        let is_own = self.0.runner.get().is_some_and(|runner| runner.node_id().as_str() == node);
        let idle = async {
            if !is_own {
                self.wait_until_idle_elsewhere(stream, node).await
            } else if self.0.ledger.is_driven_here(stream) {
                self.wait_until_idle_here(stream).await
            } else {
                Ok(())
            }
        };
        tokio::time::timeout(SETTLE_TIMEOUT, idle).await.unwrap_or(Ok(()))
    }

    /// Waits for the driver of this process, by the ledger's own state, and until that state is durable.
    async fn wait_until_idle_here(self, stream: StreamId) -> Result<(), Error> {
        let (ledger, mut journal_head) = (&self.0.ledger, self.0.notifier.subscribe());
        loop {
            journal_head.mark_unchanged();
            let now_ms = ledger.clock().now_ms();
            let is_idle = ledger.with_execution(stream, |execution| !execution.has_next_action(now_ms))?;
            if is_idle && ledger.is_durable(stream) {
                return Ok(());
            }
            if journal_head.changed().await.is_err() {
                return Err(Error::Closed(ClosedPart::Journal));
            }
        }
    }

    /// Waits for the driver in another process, if it is alive, by what it appends.
    async fn wait_until_idle_elsewhere(self, stream: StreamId, node: &str) -> Result<(), Error> {
        if self.live_driver(node).await?.is_none() {
            return Ok(());
        }
        let mut watcher = self.watch_stream(stream).await?;
        while watcher.execution().has_next_action(self.0.ledger.clock().now_ms()) {
            watcher.wait_for_change().await?;
        }
        Ok(())
    }
}

/// The engine's report of a step. Refused if an output is given with a status that has none.
fn build_report(
    status: ReportedStatus,
    output: Option<Value>,
    facts: &ActionFacts,
) -> Result<AgentReport, Error> {
    match (status, output) {
        (ReportedStatus::Succeeded, output) => Ok(AgentReport::Succeeded { output }),
        (ReportedStatus::Compensated, output) => Ok(AgentReport::Compensated { output }),
        (ReportedStatus::Started, None) => Ok(AgentReport::Started),
        (ReportedStatus::Failed, None) => {
            let texts = [&facts.error, &facts.reason, &facts.description];
            let reason = texts.into_iter().find_map(Clone::clone);
            Ok(AgentReport::Failed { reason, category: ErrorCategory::ToolError })
        }
        (ReportedStatus::Started | ReportedStatus::Failed, Some(_)) => {
            Err(Error::OutputNotAllowed { status })
        }
    }
}
