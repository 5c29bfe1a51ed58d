//! Executions: started, found, listed, shown, watched, driven.

use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::{Command, Execution};
use actbook_engine::id::{ExecutionId, SeatId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::Status;
use serde_json::Value;
use tokio::sync::watch;

use super::Service;
use super::plans::named_tools;
use super::view::{ExecutionRow, ExecutionView};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, Asked, Progress, Reply, Request, Start};
use crate::random;
use crate::runner::{Claimed, Halt};
use crate::store::{self, executions};

/// How many executions one look-out takes up.
const TAKEN_UP_MAX: u64 = 10_000;

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
        let given = inputs.clone().unwrap_or_else(|| Value::Object(Default::default()));
        plan.check_inputs(&given).map_err(|findings| Error::findings("the inputs are refused", findings))?;
        let seat: Option<SeatId> = if drive { Some(self.runner().await?.seat_id()) } else { None };
        let start = Start {
            id: ExecutionId::new(random::id()),
            plan_ref: reference,
            inputs: inputs.map(|inputs| plan.redact_inputs(inputs)),
            place: self.place(&plan),
            plan,
            salt: random::bytes::<16>().to_vec().into(),
            seat,
        };
        let request = Request::Start(Box::new(start));
        match self.ledger.ask(Asked { actor: caller.actor.clone(), request, key: None }).await? {
            Reply::Moved(progress) => {
                Ok(Started { id: progress.id.clone(), stream: progress.stream, progress: *progress })
            }
            Reply::Saved { .. } | Reply::Deleted | Reply::Repeated(_) => {
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
        self.render(&execution).await
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
        let found = self.find(id).await?;
        let plan = self.fold(found.stream)?.plan;
        let place = self.place(&plan);
        if here {
            self.ledger.command(&caller.actor, found.stream, Command::Adopt { place }).await?;
        }
        match self.runner().await?.claim(found.stream, place).await? {
            Claimed::Mine(progress) => Ok(Some(*progress)),
            Claimed::DrivenElsewhere => Ok(None),
        }
    }

    pub async fn drive(&self, claimed: Progress, halt: Halt) -> Result<Status, Error> {
        Ok(self.runner().await?.drive(claimed, halt).await?)
    }

    /// Takes up everything of this place that nobody drives, and goes on with it in the background.
    pub async fn take_up(&self, halt: Halt) -> Result<Vec<ExecutionId>, Error> {
        let runner = self.runner().await?;
        let mut claims = tokio::task::JoinSet::new();
        for row in executions::left(self.tenant, TAKEN_UP_MAX).all(&self.db).await? {
            let (service, runner, halt) = (self.clone(), runner.clone(), halt.clone());
            claims.spawn(async move {
                let plan = service.ledger.look(row.id, |execution| execution.plan.clone())?;
                match runner.claim(row.id, service.place(&plan)).await? {
                    Claimed::Mine(progress) => {
                        let id = progress.id.clone();
                        tokio::spawn(async move { runner.drive(*progress, halt).await });
                        Ok::<_, Error>(Some(id))
                    }
                    Claimed::DrivenElsewhere => Ok(None),
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

    /// Is some living process at work on it?
    pub async fn driven(&self, found: &Found) -> Result<bool, Error> {
        let Some(seat) = &found.seat else { return Ok(false) };
        let now = self.db.now_ms().await?;
        let row = store::seats::by_id(seat).first(&self.db).await?;
        Ok(row.is_some_and(|row| row.until > now))
    }
}

fn server_of(tool: &str) -> String {
    match tool.split_once('/') {
        Some(("command", _)) | None => tool.to_owned(),
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

    pub async fn view(&self) -> Result<ExecutionView, Error> {
        self.service.render(self.execution()).await
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
