//! Executions: starting, finding, viewing and watching them.

use std::sync::Arc;

use actbook_engine::bind::find_redacted;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::{Brief, Execution};
use actbook_engine::id::{ExecutionId, NodeId, StepId, StreamId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::{ExecutionStatus, StepStatus};
use actbook_engine::refusal::Refusal;
use actbook_engine::tool_policy::ToolPolicies;
use serde_json::Value;
use tokio::sync::watch;

use super::Service;
use super::question_content::{CoveredCall, undo_calls};
use super::session_undo::{CallUndoView, UndoSelection, select_steps};
use super::step_values::StepValues;
use super::view::{ExecutionView, StepProgress, last_started_at_ms, parse_status};
use crate::caller::Caller;
use crate::error::{Ambiguity, ClosedPart, DocumentKind, Error, SecretProblem};
use crate::ledger::{self, DriveState, KeyedReply, StartRequest};
use crate::random;
use crate::store::{self, executions, plans};

/// A started execution: its id, stream and progress, and whether this request started it.
#[derive(Debug)]
pub struct StartedExecution {
    pub id: ExecutionId,
    pub stream: StreamId,
    pub progress: DriveState,
    /// False: the same request with the same key had started it before.
    pub fresh: bool,
}

/// An execution that was found by its id, as its projection row describes it.
#[derive(Clone, Debug)]
pub struct FoundExecution {
    pub id: ExecutionId,
    pub stream: StreamId,
    pub status: ExecutionStatus,
    /// The node that claimed the execution last, alive or not. `None`: none has.
    pub node: Option<String>,
}

impl StartedExecution {
    /// The result from the execution's progress; see `fresh`.
    fn of(progress: DriveState, fresh: bool) -> Self {
        Self { id: progress.id.clone(), stream: progress.stream, progress, fresh }
    }
}

/// Executions: starting, commanding, viewing and driving them, and recording what agents did in them. Where
/// `id` is a text, it is an execution's id or a unique prefix of it.
#[derive(Clone, Copy, Debug)]
pub struct Executions<'a>(pub(super) &'a Service);

impl Executions<'_> {
    /// Starts an execution of a saved plan. With `drive` this process becomes its driver in the same entry. A
    /// repeated request returns the execution that the first one started.
    pub async fn start(
        self,
        caller: &Caller,
        reference: PlanRef,
        plan: Arc<Plan>,
        inputs: Option<Value>,
        drive: bool,
    ) -> Result<StartedExecution, Error> {
        let inputs = complete_inputs(&plan, inputs)?;
        let terms = self.0.catalog().load_policies(&reference, &plan).await?;
        let start = self.build_start(reference, plan, inputs, terms, drive).await?;
        match self.0.submit(caller, start).await? {
            KeyedReply::First(progress) => Ok(StartedExecution::of(progress, true)),
            KeyedReply::Repeated(id) => {
                Ok(StartedExecution::of(self.current(self.find(&id).await?.stream)?, false))
            }
        }
    }

    /// The ledger's request to start an execution, from inputs that `complete_inputs` returned. Redacts
    /// secret inputs; refused if an input holds a known secret.
    pub(super) async fn build_start(
        self,
        plan_ref: PlanRef,
        plan: Arc<Plan>,
        inputs: Option<Value>,
        terms: ToolPolicies,
        drive: bool,
    ) -> Result<StartRequest, Error> {
        let node: Option<NodeId> = if drive { Some(self.0.runner().await?.node_id()) } else { None };
        let inputs = inputs.map(|inputs| plan.redact_inputs(inputs));
        self.0.refuse_secret_inputs(inputs.as_ref())?;
        Ok(StartRequest {
            id: ExecutionId::new(random::id()),
            plan_ref,
            inputs,
            context: self.start_context(&plan),
            terms,
            plan,
            salt: random::bytes::<16>().to_vec().into(),
            node,
        })
    }

    /// The execution that the same request with the same key has started before. `None`: there is none.
    pub async fn find_previous_start(self, caller: &Caller) -> Result<Option<StartedExecution>, Error> {
        match self.0.previous_result(caller).await? {
            Some(id) => Ok(Some(StartedExecution::of(self.current(self.find(&id).await?.stream)?, false))),
            None => Ok(None),
        }
    }

    /// Finds an execution by its id or a unique prefix of it. Refused if none or several match.
    pub async fn find(self, id: &str) -> Result<FoundExecution, Error> {
        match executions::find_by_prefix(&self.0.db, self.0.tenant, self.0.boundary(), id).await? {
            store::PrefixMatch::One(row) if self.0.may_name(id, &row.public_id) => Ok(FoundExecution {
                id: ExecutionId::new(row.public_id.as_str()),
                stream: row.id,
                status: parse_status(&row)?,
                node: row.node,
            }),
            store::PrefixMatch::Several if !self.0.takes_whole_ids => {
                Err(Error::Ambiguous(Ambiguity::ExecutionId { prefix: id.to_owned() }))
            }
            store::PrefixMatch::One(_) | store::PrefixMatch::Several | store::PrefixMatch::None => {
                Err(Error::NoSuchExecution { given: id.to_owned() })
            }
        }
    }

    /// The digest of the plan version that an execution runs; empty if that version has no row.
    pub(super) async fn plan_digest(self, row: &executions::ExecutionRow) -> Result<String, Error> {
        let plan = plans::by_version(self.0.tenant, &row.plan, row.plan_version).first(&self.0.db).await?;
        Ok(plan.map(|plan| plan.digest).unwrap_or_default())
    }

    /// The view of an execution, by id or a unique prefix of it.
    pub async fn view(self, id: &str) -> Result<ExecutionView, Error> {
        let stream = self.find(id).await?.stream;
        let execution = self.fold(stream).await?;
        let mut view = self.render_live(stream, &execution, StepValues::All).await?;
        view.reports = self.report_checks(&execution).await?;
        Ok(view)
    }

    /// The view of the execution of `stream`, with the live progress of calls and without the comparison of reports:
    /// for answers to each act of an agent.
    pub(super) async fn view_stream(self, stream: StreamId) -> Result<ExecutionView, Error> {
        let execution = self.fold(stream).await?;
        self.render_live(stream, &execution, StepValues::All).await
    }

    /// The state of an execution, by id or a unique prefix of it.
    pub(super) async fn load(self, id: &str) -> Result<Arc<Execution>, Error> {
        self.fold(self.find(id).await?.stream).await
    }

    /// The state of an execution, folded from the journal up to now.
    pub(super) async fn fold(self, stream: StreamId) -> Result<Arc<Execution>, Error> {
        let (db, tenant, folds) = (&self.0.db, self.0.tenant, &self.0.folds);
        let kept = folds.get(stream);
        let position = kept.as_ref().map_or(0, |kept| kept.position.0);
        let newer = self.0.ledger.cached_execution_after(stream, position).map(Arc::new);
        let execution = match newer.or(kept) {
            Some(mut execution) => {
                ledger::catch_up(db, tenant, stream, &mut execution).await?;
                execution
            }
            None => {
                let folded = ledger::load_execution(db, tenant, stream, &self.0.plan_cache).await?;
                Arc::new(folded.ok_or(Refusal::NoSuchExecution)?)
            }
        };
        folds.put(stream, &execution);
        Ok(execution)
    }

    /// Watches an execution from its current state on.
    pub async fn watch(self, id: &str) -> Result<ExecutionWatcher, Error> {
        self.watch_stream(self.find(id).await?.stream).await
    }

    /// Like `watch`, for the execution of `stream`.
    pub(super) async fn watch_stream(self, stream: StreamId) -> Result<ExecutionWatcher, Error> {
        let listening = self.0.notifier.listen_remote()?;
        let notifications = self.0.notifier.subscribe();
        let execution = self.fold(stream).await?;
        Ok(ExecutionWatcher {
            service: self.0.clone(),
            stream,
            execution,
            journal_head: notifications,
            _listening: listening,
        })
    }
}

/// The inputs with the plan's defaults filled in; `None` if there are none. Refused if they do not match the
/// plan's schema or hold a redacted secret.
pub(super) fn complete_inputs(plan: &Plan, inputs: Option<Value>) -> Result<Option<Value>, Error> {
    if let Some(input) = inputs.as_ref().and_then(find_redacted) {
        return Err(Error::Secret(SecretProblem::NotKept { input: input.to_owned() }));
    }
    let were_given = inputs.is_some();
    let completed = plan.with_defaults(inputs.unwrap_or_else(|| Value::Object(Default::default())));
    plan.check_inputs(&completed).map_err(|findings| Error::invalid(DocumentKind::Inputs, findings))?;
    let has_inputs = were_given || completed.as_object().is_some_and(|inputs| !inputs.is_empty());
    Ok(has_inputs.then_some(completed))
}

/// The state of one step at one moment, for live progress displays.
#[derive(Clone, Debug)]
pub struct StepSnapshot<'a> {
    pub id: &'a StepId,
    pub name: Option<&'a str>,
    pub status: StepStatus,
    pub attempts: usize,
    pub progress: Option<StepProgress>,
    /// Start of the last attempt, in milliseconds since 1970.
    pub started_at_ms: Option<i64>,
    /// End of the step, in milliseconds since 1970.
    pub ended_at_ms: Option<i64>,
}

/// The executions that need a person.
#[derive(Clone, Debug, Default)]
pub struct WaitingExecutions {
    /// How many wait for an answer.
    pub blocked: usize,
    /// Ids of those that are paused, newest first.
    pub paused: Vec<String>,
    /// Ids of those that are running or compensating while no live process drives them.
    pub stopped: Vec<String>,
}

/// Watches one execution: holds its state, and waits for and applies new entries.
#[derive(Debug)]
pub struct ExecutionWatcher {
    service: Service,
    stream: StreamId,
    execution: Arc<Execution>,
    /// Changes when the tenant's journal has grown.
    journal_head: watch::Receiver<u64>,
    /// Keeps notifications from other processes coming.
    _listening: crate::notify::RemoteListener,
}

impl ExecutionWatcher {
    /// The state as of the last refresh.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }

    /// The view of the state as of the last refresh, with the live progress of calls; reports are compared once the
    /// execution has ended.
    pub async fn view(&self) -> Result<ExecutionView, Error> {
        let (executions, execution) = (self.service.executions(), self.execution());
        let mut view = executions.render_live(self.stream, execution, StepValues::All).await?;
        if execution.ended.is_some() {
            view.reports = executions.report_checks(execution).await?;
        }
        Ok(view)
    }

    /// The brief: what undoing would do now, whether or not a step has failed.
    pub async fn brief(&self) -> Result<Brief, Error> {
        let mut brief = self.service.executions().brief(self.execution()).await?;
        self.service.withhold_brief(&mut brief);
        Ok(brief)
    }

    /// Like `brief`, with the undo of a part of a session.
    pub async fn brief_of(&self, selection: &UndoSelection) -> Result<Brief, Error> {
        let steps = select_steps(self.execution(), selection)?;
        let mut brief = self.service.executions().brief_of(self.execution(), steps.as_deref()).await?;
        self.service.withhold_brief(&mut brief);
        Ok(brief)
    }

    /// What an undo of a session would do, call by call. `None`: it is no session.
    pub async fn session_undo(&self, selection: &UndoSelection) -> Result<Option<Vec<CallUndoView>>, Error> {
        self.service.sessions().undo_outlook(self.execution(), selection).await
    }

    /// The calls of a brief, with the attempts that a yes to it covers.
    pub fn undo_calls(&self, brief: &Brief) -> Vec<CoveredCall> {
        undo_calls(self.execution(), brief)
    }

    pub fn status(&self) -> ExecutionStatus {
        self.execution().status()
    }

    /// Whether the execution has ended, is paused, or waits for an answer.
    pub fn is_settled(&self) -> bool {
        // A session that is open has no driver: nothing in it goes on by itself.
        let is_open_session = self.execution().session.is_some() && self.status() == ExecutionStatus::Running;
        is_open_session || !matches!(self.status(), ExecutionStatus::Running | ExecutionStatus::Compensating)
    }

    /// The position of the execution's last entry.
    pub fn position(&self) -> u64 {
        self.execution().position.0
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.execution().plan
    }

    /// A snapshot of every step, in the plan's order.
    pub fn step_snapshots(&self) -> impl Iterator<Item = StepSnapshot<'_>> {
        let execution = self.execution();
        execution.plan.numbered_steps().zip(&execution.steps).map(|((no, spec), state)| StepSnapshot {
            id: &spec.id,
            name: spec.name.as_deref(),
            status: state.status(),
            attempts: state.attempts.len(),
            progress: self.service.executions().progress(self.stream, no, state.status()),
            started_at_ms: last_started_at_ms(state),
            ended_at_ms: state.ended_at_ms,
        })
    }

    /// Waits until the execution has a new entry, and applies it. Err `Closed`: the ledger was closed
    /// meanwhile.
    pub async fn wait_for_change(&mut self) -> Result<(), Error> {
        loop {
            let before = self.execution().version;
            let mut journal_head = self.journal_head.clone();
            if journal_head.changed().await.is_err() {
                return Err(Error::Closed(ClosedPart::Journal));
            }
            let refreshed = self.refresh().await;
            // Only now: if this future is dropped while it reads, the next one must see the change again.
            self.journal_head = journal_head;
            refreshed?;
            if self.execution().version > before {
                return Ok(());
            }
        }
    }

    /// Applies the entries that were appended since the last refresh.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        let Self { service, stream, execution, .. } = self;
        Ok(ledger::catch_up(&service.db, service.tenant, *stream, execution).await?)
    }
}
