//! Executions: started, found, listed, shown, watched, driven.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use actbook_engine::bind::redacted_in;
use actbook_engine::chain::Digest;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::{Brief, Command, Execution};
use actbook_engine::id::{ExecutionId, SeatId, StepId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::{Status, StepStatus};
use actbook_engine::terms::Terms;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use super::Service;
use super::entries::{actor, known};
use super::plans::named_tools;
use super::view::{ExecutionRow, ExecutionView, StepProgress, last_started};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, Progress, Reply, Request, Start};
use crate::random;
use crate::runner::{Claimed, Halt};
use crate::store::{self, executions, plans};

/// Beyond this many, more names help nobody.
const STRANDED_LISTED: u64 = 200;

/// An execution that was just started.
#[derive(Debug)]
pub struct Started {
    pub id: ExecutionId,
    pub stream: u64,
    pub progress: Progress,
    /// False: an equal request with the same key had started it before.
    pub fresh: bool,
}

/// An execution as its row has it.
#[derive(Clone, Debug)]
pub struct Found {
    pub id: ExecutionId,
    pub stream: u64,
    pub status: Status,
    pub seat: Option<String>,
}

impl Started {
    fn of(progress: Progress, fresh: bool) -> Self {
        Self { id: progress.id.clone(), stream: progress.stream, progress, fresh }
    }
}

impl Service {
    /// Starts an execution. With `drive` this process becomes its driver in the same entry.
    pub async fn start(
        &self,
        caller: &Caller,
        reference: PlanRef,
        plan: Arc<Plan>,
        inputs: Option<Value>,
        drive: bool,
    ) -> Result<Started, Error> {
        let inputs = complete(&plan, inputs)?;
        let terms = self.terms(&reference, &plan).await?;
        let start = self.beginning(reference, plan, inputs, terms, drive).await?;
        let request = Request::Start(Box::new(start));
        match self.ask(caller, request).await? {
            Reply::Moved(progress) => Ok(Started::of(*progress, true)),
            Reply::Repeated(id) => Ok(Started::of(self.stands(self.find(&id).await?.stream)?, false)),
            Reply::Saved { .. } | Reply::Deleted | Reply::Accepted { .. } | Reply::Recorded(_) => {
                unreachable!("a start gives an execution")
            }
        }
    }

    /// An execution that is about to start, with inputs that were completed.
    pub(super) async fn beginning(
        &self,
        plan_ref: PlanRef,
        plan: Arc<Plan>,
        inputs: Option<Value>,
        terms: Terms,
        drive: bool,
    ) -> Result<Start, Error> {
        let seat: Option<SeatId> = if drive { Some(self.runner().await?.seat_id()) } else { None };
        let inputs = inputs.map(|inputs| plan.redact_inputs(inputs));
        self.refuse_secret_inputs(inputs.as_ref())?;
        Ok(Start {
            id: ExecutionId::new(random::id()),
            plan_ref,
            inputs,
            context: self.start_context(&plan),
            terms,
            plan,
            salt: random::bytes::<16>().to_vec().into(),
            seat,
        })
    }

    /// What an equal request with the same key has started before.
    pub async fn started_before(&self, caller: &Caller) -> Result<Option<Started>, Error> {
        match self.repeated(caller).await? {
            Some(id) => Ok(Some(Started::of(self.stands(self.find(&id).await?.stream)?, false))),
            None => Ok(None),
        }
    }

    /// The digest of how the servers that a plan names are reached from here.
    pub fn place(&self, plan: &Plan) -> Digest {
        let homes = named_tools(plan).into_iter().map(|(_, tool)| self.tools.home_of(tool).to_owned());
        self.tools.place(&homes.collect())
    }

    /// By id, or its unique beginning.
    pub async fn find(&self, id: &str) -> Result<Found, Error> {
        match executions::find(&self.db, self.tenant, self.boundary(), id).await? {
            store::Found::One(row) => Ok(Found {
                id: ExecutionId::new(row.public_id.as_str()),
                stream: row.id,
                status: row
                    .status
                    .parse()
                    .map_err(|error: String| Error::new("corrupt", error, "run `actbook rebuild`"))?,
                seat: row.seat,
            }),
            store::Found::Several => {
                let message = format!("more than one execution's id begins with `{id}`");
                Err(Error::new("ambiguous", message, "give more of the id"))
            }
            store::Found::None => {
                let message = format!("there is no execution `{id}`");
                Err(Error::new("no_such_execution", message, "`actbook list` shows them"))
            }
        }
    }

    pub async fn list(&self, filter: &executions::Filter, limit: u64) -> Result<Vec<ExecutionRow>, Error> {
        known(&filter.words, filter.status.as_deref(), filter.category.as_deref())?;
        if filter.actor.is_some() || filter.category.is_some() {
            ledger::catch_up_seen(&self.db, self.tenant, &self.plans).await?;
        }
        let actor = filter.actor.as_deref().map(actor);
        let filter = executions::Filter { actor, ..filter.clone() };
        let rows = executions::list(self.tenant, self.boundary(), &filter, limit).all(&self.db).await?;
        let mut digests = BTreeMap::new();
        for row in &rows {
            if let Entry::Vacant(vacant) = digests.entry((row.plan.as_str(), row.plan_version)) {
                vacant.insert(self.plan_digest(row).await?);
            }
        }
        let mut shown: Vec<ExecutionRow> = rows
            .iter()
            .map(|row| ExecutionRow::of(row, &digests[&(row.plan.as_str(), row.plan_version)]))
            .collect();
        self.mark_stopped(&rows, &mut shown).await?;
        Ok(shown)
    }

    /// Says of each execution that could go on whether no living process drives it. Each process is looked at once.
    async fn mark_stopped(
        &self,
        rows: &[executions::Execution],
        shown: &mut [ExecutionRow],
    ) -> Result<(), Error> {
        let mut living: BTreeMap<Option<&str>, bool> = BTreeMap::from([(None, false)]);
        let can_go_on = |row: &executions::Execution| {
            [Status::Running, Status::Compensating].iter().any(|status| row.status == status.as_str())
        };
        for (row, shown) in rows.iter().zip(shown).filter(|(row, _)| can_go_on(row)) {
            if let (Some(seat), Entry::Vacant(vacant)) = (&row.seat, living.entry(row.seat.as_deref())) {
                vacant.insert(self.living(seat).await?.is_some());
            }
            shown.stopped = !living[&row.seat.as_deref()];
        }
        Ok(())
    }

    pub(super) async fn plan_digest(&self, row: &executions::Execution) -> Result<String, Error> {
        let plan = plans::version(self.tenant, &row.plan, row.plan_version).first(&self.db).await?;
        Ok(plan.map(|plan| plan.digest).unwrap_or_default())
    }

    pub async fn view(&self, id: &str) -> Result<ExecutionView, Error> {
        let found = self.find(id).await?;
        self.view_of(found.stream).await
    }

    /// The view of an execution that was found before.
    pub(super) async fn view_of(&self, stream: u64) -> Result<ExecutionView, Error> {
        let execution = self.fold(stream)?;
        self.render_live(stream, &execution).await
    }

    pub(super) fn fold(&self, stream: u64) -> Result<Execution, Error> {
        let folded = match self.ledger.at_hand(stream) {
            Some(execution) => Some(ledger::catch_up(&self.db, self.tenant, stream, execution)?),
            None => ledger::fold(&self.db, self.tenant, stream, &self.plans)?,
        };
        folded.ok_or_else(|| {
            Error::new("no_such_execution", "there is no such execution", "`actbook list` shows them")
        })
    }

    /// Follows an execution from the position it was last seen at.
    pub async fn watch(&self, id: &str) -> Result<Watching, Error> {
        self.watch_stream(self.find(id).await?.stream)
    }

    /// The same for an execution that was found before.
    pub(super) fn watch_stream(&self, stream: u64) -> Result<Watching, Error> {
        let listening = self.bell.listen()?;
        let bell = self.bell.subscribe();
        let execution = self.fold(stream)?;
        Ok(Watching { service: self.clone(), stream, execution, bell, _listening: listening })
    }

    /// Takes up an execution, unless a living process drives it already.
    pub async fn claim(&self, caller: &Caller, id: &str, here: bool) -> Result<Option<Progress>, Error> {
        if here {
            self.adopt(caller, id).await?;
        }
        let found = self.find(id).await?;
        let place = self.place(&self.fold(found.stream)?.plan);
        match self.runner().await?.claim(found.stream, place).await? {
            Claimed::Mine(progress) => Ok(Some(*progress)),
            Claimed::DrivenElsewhere | Claimed::Ended => Ok(None),
        }
    }

    /// Executions that would go on if somebody drove them.
    pub async fn stranded(&self) -> Result<Vec<String>, Error> {
        let mut stranded = Vec::new();
        for status in [Status::Running, Status::Compensating] {
            let filter = executions::Filter { status: Some(status.to_string()), ..Default::default() };
            for row in
                executions::list(self.tenant, self.boundary(), &filter, STRANDED_LISTED).all(&self.db).await?
            {
                let found = self.find(&row.public_id).await?;
                if self.driver(&found).await?.is_none() {
                    stranded.push(row.public_id);
                }
            }
        }
        Ok(stranded)
    }

    /// The execution goes on with its servers as this place defines them.
    pub async fn adopt(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        let found = self.find(id).await?;
        let plan = self.fold(found.stream)?.plan;
        let servers = named_tools(&plan).into_iter().filter_map(|(_, tool)| tool.split_once('/'));
        if let Some((missing, _)) = servers.into_iter().find(|(server, _)| !self.tools.knows(server)) {
            let message =
                format!("its plan needs the server `{missing}`, and this place has none of that name");
            return Err(Error::new("no_such_server", message, "name its config with --config"));
        }
        let place = self.place(&plan);
        self.ledger.command(&caller.actor, found.stream, Command::Adopt { place }).await?;
        Ok(())
    }

    /// Refuses what this process could only write down and not see through: nobody drives the execution,
    /// and it was started with other servers.
    pub async fn at_home(&self, id: &str) -> Result<(), Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream)?;
        if self.driver(&found).await?.is_some() || self.place(&execution.plan) == execution.place {
            return Ok(());
        }
        Err(crate::runner::other_place().into())
    }

    pub async fn drive(&self, claimed: Progress, halt: Halt) -> Result<Status, Error> {
        Ok(self.runner().await?.drive(claimed, halt).await?)
    }

    /// The living process that is at work on it, if there is one.
    pub async fn driver(&self, found: &Found) -> Result<Option<Driver>, Error> {
        match &found.seat {
            Some(seat) => self.living(seat).await,
            None => Ok(None),
        }
    }

    /// The process on a seat, if it lives.
    pub(super) async fn living(&self, seat: &str) -> Result<Option<Driver>, Error> {
        let now = self.db.now_ms().await?;
        let row = store::seats::by_id(seat).first(&self.db).await?.filter(|row| row.until > now);
        let living = row.filter(|_| !crate::runner::is_gone(&self.seats, seat));
        Ok(living.map(|row| Driver { host: row.host, process: row.process }))
    }

    /// Every process at the table, with whether it lives.
    pub async fn seats(&self) -> Result<Vec<Seated>, Error> {
        let alive = store::seats::alive().all(&self.db).await?;
        let expired = store::seats::expired().all(&self.db).await?;
        let of = |row: store::seats::Seat, lease: bool| Seated {
            alive: lease && !crate::runner::is_gone(&self.seats, &row.seat),
            driver: Driver { host: row.host, process: row.process },
        };
        let alive = alive.into_iter().map(|row| of(row, true));
        Ok(alive.chain(expired.into_iter().map(|row| of(row, false))).collect())
    }
}

/// The inputs with their defaults, if there are any; refused where they are not what the plan asks for.
pub(super) fn complete(plan: &Plan, inputs: Option<Value>) -> Result<Option<Value>, Error> {
    if let Some(name) = inputs.as_ref().and_then(redacted_in) {
        let message = format!("{name} is secret and was not kept");
        return Err(Error::new("secret_input", message, "give it again by its name"));
    }
    let named = inputs.is_some();
    let given = plan.with_defaults(inputs.unwrap_or_else(|| Value::Object(Default::default())));
    plan.check_inputs(&given).map_err(|findings| Error::findings("the inputs are refused", findings))?;
    let some = named || given.as_object().is_some_and(|given| !given.is_empty());
    Ok(some.then_some(given))
}

/// A process that drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Driver {
    pub host: String,
    pub process: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seated {
    #[serde(flatten)]
    pub driver: Driver,
    pub alive: bool,
}

/// One step as live progress shows it.
#[derive(Clone, Debug)]
pub struct Glance<'a> {
    pub id: &'a StepId,
    pub name: Option<&'a str>,
    pub status: StepStatus,
    pub attempts: usize,
    pub progress: Option<StepProgress>,
    /// Of its last attempt.
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
}

/// An execution that is being looked at.
#[derive(Debug)]
pub struct Watching {
    service: Service,
    stream: u64,
    execution: Execution,
    bell: watch::Receiver<u64>,
    _listening: crate::bell::Listening,
}

impl Watching {
    pub fn execution(&self) -> &Execution {
        &self.execution
    }

    /// What was done is being taken back, or waits to be.
    pub fn unwinding(&self) -> bool {
        self.execution().phase == actbook_engine::execution::Phase::Unwind
    }

    pub async fn view(&self) -> Result<ExecutionView, Error> {
        self.service.render_live(self.stream, self.execution()).await
    }

    /// What undoing would do, whether or not something went wrong.
    pub async fn brief(&self) -> Result<Brief, Error> {
        self.service.brief(self.execution()).await
    }

    pub fn status(&self) -> Status {
        self.execution().status()
    }

    /// It has ended, or waits for somebody.
    pub fn is_settled(&self) -> bool {
        !matches!(self.status(), Status::Running | Status::Compensating)
    }

    pub fn position(&self) -> u64 {
        self.execution().position.0
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.execution().plan
    }

    /// Every step, in the plan's order.
    pub fn glances(&self) -> impl Iterator<Item = Glance<'_>> {
        let execution = self.execution();
        execution.plan.numbered().zip(&execution.steps).map(|((no, spec), state)| Glance {
            id: &spec.id,
            name: spec.name.as_deref(),
            status: state.status(),
            attempts: state.attempts.len(),
            progress: self.service.progress(self.stream, no, state.status()),
            started_at_ms: last_started(state),
            ended_at_ms: state.ended_at_ms,
        })
    }

    /// Waits until the execution has moved.
    pub async fn moved(&mut self) -> Result<(), Error> {
        loop {
            let before = self.execution().version;
            if self.bell.changed().await.is_err() {
                return Err(Error::new("closed", "the journal is closed", "start actbook again"));
            }
            self.look()?;
            if self.execution().version > before {
                return Ok(());
            }
        }
    }

    pub fn look(&mut self) -> Result<(), Error> {
        let Self { service, stream, execution, .. } = self;
        Ok(ledger::look_again(&service.db, service.tenant, *stream, execution)?)
    }
}
