//! Executions: started, found, listed, shown, watched, driven.

use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::{Brief, Command, Execution};
use actbook_engine::id::{ExecutionId, SeatId, StepId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::{Status, StepStatus};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use super::Service;
use super::plans::named_tools;
use super::view::{ExecutionRow, ExecutionView, StepProgress};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, Asked, Progress, Reply, Request, Start};
use crate::random;
use crate::runner::{Claimed, Halt};
use crate::store::{self, executions};

/// How many executions one look-out takes up.
const TAKEN_UP_MAX: u64 = 10_000;
/// Beyond this many, more names help nobody.
const STRANDED_LISTED: u64 = 200;

/// An execution that was just started.
#[derive(Debug)]
pub struct Started {
    pub id: ExecutionId,
    pub stream: u64,
    pub progress: Progress,
}

/// An execution as its row has it.
#[derive(Clone, Debug)]
pub struct Found {
    pub id: ExecutionId,
    pub stream: u64,
    pub status: Status,
    pub seat: Option<String>,
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
        let given = plan.with_defaults(inputs.clone().unwrap_or_else(|| Value::Object(Default::default())));
        plan.check_inputs(&given).map_err(|findings| Error::findings("the inputs are refused", findings))?;
        let seat: Option<SeatId> = if drive { Some(self.runner().await?.seat_id()) } else { None };
        let terms = self.terms(&reference, &plan).await?;
        let named = inputs.is_some() || given.as_object().is_some_and(|given| !given.is_empty());
        let kept = named.then_some(given);
        let start = Start {
            id: ExecutionId::new(random::id()),
            plan_ref: reference,
            inputs: kept.map(|inputs| plan.redact_inputs(inputs)),
            place: self.place(&plan),
            terms,
            plan,
            salt: random::bytes::<16>().to_vec().into(),
            seat,
        };
        let request = Request::Start(Box::new(start));
        match self.ledger.ask(Asked { actor: caller.actor.clone(), request, key: None }).await? {
            Reply::Moved(progress) => {
                Ok(Started { id: progress.id.clone(), stream: progress.stream, progress: *progress })
            }
            Reply::Saved { .. } | Reply::Deleted | Reply::Accepted { .. } | Reply::Repeated(_) => {
                unreachable!("a start without a key gives a new execution")
            }
        }
    }

    /// The digest of how the servers that a plan names are reached from here.
    pub fn place(&self, plan: &Plan) -> Digest {
        let servers: BTreeSet<String> =
            named_tools(plan).into_iter().map(|(_, tool)| server_of(tool)).collect();
        self.tools.place(&servers)
    }

    /// By id, or its unique beginning.
    pub async fn find(&self, id: &str) -> Result<Found, Error> {
        match executions::find(&self.db, self.tenant, id).await? {
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
        let rows = executions::list(self.tenant, filter, limit).all(&self.db).await?;
        Ok(rows.iter().map(ExecutionRow::of).collect())
    }

    pub async fn view(&self, id: &str) -> Result<ExecutionView, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream)?;
        self.render_live(found.stream, &execution).await
    }

    pub(super) fn fold(&self, stream: u64) -> Result<Execution, Error> {
        let folded = ledger::fold(&self.db, self.tenant, stream, &self.plans)?;
        folded.ok_or_else(|| {
            Error::new("no_such_execution", "there is no such execution", "`actbook list` shows them")
        })
    }

    /// Follows an execution from the position it was last seen at.
    pub async fn watch(&self, id: &str) -> Result<Watching, Error> {
        let found = self.find(id).await?;
        let listening = self.bell.listen()?;
        let bell = self.bell.subscribe();
        let execution = self.fold(found.stream)?;
        Ok(Watching {
            service: self.clone(),
            stream: found.stream,
            execution: Some(execution),
            bell,
            _listening: listening,
        })
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
            for row in executions::list(self.tenant, &filter, STRANDED_LISTED).all(&self.db).await? {
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

    /// Takes up everything of this place that nobody drives, and goes on with it in the background.
    pub async fn take_up(&self, halt: Halt) -> Result<Vec<ExecutionId>, Error> {
        let runner = self.runner().await?;
        let mut claims = tokio::task::JoinSet::new();
        let left = executions::left(self.tenant, TAKEN_UP_MAX).all(&self.db).await?;
        self.ledger.warm(&left.iter().map(|row| row.id).collect::<Vec<_>>())?;
        for row in left {
            let (service, runner, halt) = (self.clone(), runner.clone(), halt.clone());
            claims.spawn(async move {
                let plan = service.ledger.look(row.id, |execution| execution.plan.clone())?;
                match runner.claim(row.id, service.place(&plan)).await? {
                    Claimed::Mine(progress) => {
                        let id = progress.id.clone();
                        tokio::spawn(async move { runner.drive(*progress, halt).await });
                        Ok::<_, Error>(Some(id))
                    }
                    Claimed::DrivenElsewhere | Claimed::Ended => Ok(None),
                }
            });
        }
        let mut taken = Vec::new();
        while let Some(claimed) = claims.join_next().await {
            match claimed {
                Ok(Ok(id)) => taken.extend(id),
                Ok(Err(error)) if error.code == "other_place" => {}
                Ok(Err(error)) => tracing::warn!("an execution could not be taken up: {error}"),
                Err(error) => tracing::warn!("an execution could not be taken up: {error}"),
            }
        }
        Ok(taken)
    }

    /// The living process that is at work on it, if there is one.
    pub async fn driver(&self, found: &Found) -> Result<Option<Driver>, Error> {
        let Some(seat) = &found.seat else { return Ok(None) };
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
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
}

fn server_of(tool: &str) -> String {
    match tool.split_once('/') {
        Some(("command" | "http", _)) | None => tool.to_owned(),
        Some((server, _)) => server.to_owned(),
    }
}

/// An execution that is being looked at.
#[derive(Debug)]
pub struct Watching {
    service: Service,
    stream: u64,
    execution: Option<Execution>,
    bell: watch::Receiver<u64>,
    _listening: crate::bell::Listening,
}

impl Watching {
    pub fn execution(&self) -> &Execution {
        self.execution.as_ref().expect("put back after every look")
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
            started_at_ms: state.started_at_ms,
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
        let execution = self.execution.take().expect("put back after every look");
        match ledger::catch_up(&self.service.db, self.service.tenant, self.stream, execution) {
            Ok(execution) => {
                self.execution = Some(execution);
                Ok(())
            }
            Err(error) => {
                self.execution = Some(self.service.fold(self.stream)?);
                Err(error.into())
            }
        }
    }
}
