//! Executions that this process keeps going without anybody looking on: driven, waited for, driven on,
//! until they end or another process takes them over. Closing a stream or dropping a request does not
//! reach in here.
//!
//!   keep ─► drive ─► blocked or paused ─► an answer, a deadline ─► drive ─► … ─► ended

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actbook_engine::execution::{Command, due};
use actbook_engine::policy::Status;
use tokio::sync::{Notify, watch};

use super::Service;
use super::executions::Found;
use super::view::ExecutionView;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, Progress};
use crate::runner::{Claimed, Halt};
use crate::store::executions;

/// How many executions one look-out takes up.
const TAKEN_UP_MAX: u64 = 10_000;
/// How often a house looks for executions whose driver is gone.
const LOOK_OUT_EVERY: Duration = Duration::from_secs(5);

/// Clones keep the same executions.
#[derive(Clone, Debug)]
pub struct Background(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    service: Service,
    /// By stream; nobody in this process claims one of these a second time.
    streams: Mutex<HashSet<u64>>,
    /// Those that belong to another place; looked at once.
    foreign: Mutex<HashSet<u64>>,
    halt: watch::Sender<bool>,
    /// How many are being driven at this moment.
    busy: watch::Sender<usize>,
}

/// Who goes on with an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    Here,
    Elsewhere,
    /// It has ended.
    Nowhere,
}

impl Background {
    pub fn new(service: Service) -> Self {
        let (halt, busy) = (watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(Kept { service, streams: Mutex::default(), foreign: Mutex::default(), halt, busy }))
    }

    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// This process has just claimed it.
    pub fn keep(&self, claimed: Progress) {
        if self.enter(claimed.stream) {
            self.spawn(claimed);
        }
    }

    /// Somebody has answered: its driver goes on, and where there is none this process becomes it.
    pub async fn go_on(&self, stream: u64) -> Result<Goes, Error> {
        if !self.enter(stream) {
            return Ok(Goes::Here);
        }
        let claimed = self.claim(stream).await;
        match claimed {
            Ok(Claimed::Mine(progress)) => {
                self.spawn(*progress);
                Ok(Goes::Here)
            }
            Ok(Claimed::DrivenElsewhere) => self.forget(stream, Ok(Goes::Elsewhere)),
            Ok(Claimed::Ended) => self.forget(stream, Ok(Goes::Nowhere)),
            Err(error) => self.forget(stream, Err(error)),
        }
    }

    /// Somebody has spoken: the execution as it is now, and why nobody here goes on where its servers are
    /// defined elsewhere. What was said is recorded all the same.
    pub async fn answered(&self, found: &Found) -> Result<(ExecutionView, Option<Error>), Error> {
        let elsewhere = match self.go_on(found.stream).await {
            Ok(_) => None,
            Err(error) if error.code == "other_place" => Some(error),
            Err(error) => return Err(error),
        };
        Ok((self.0.service.view_of(found.stream).await?, elsewhere))
    }

    /// Lifts a pause; what merely has no driver needs no word for that.
    pub async fn resume(&self, caller: &Caller, id: &str) -> Result<Found, Error> {
        let found = self.0.service.find(id).await?;
        match found.status {
            Status::Running | Status::Blocked | Status::Compensating => Ok(found),
            Status::Paused | Status::Succeeded | Status::Failed | Status::Cancelled | Status::Compensated => {
                Ok(self.0.service.resume(caller, id).await?.0)
            }
        }
    }

    /// Takes up everything of this place that nobody drives; gives how many.
    pub async fn take_up(&self) -> Result<usize, Error> {
        let left = self.left().await?;
        self.0.service.ledger.warm(&left)?;
        let mut claims = tokio::task::JoinSet::new();
        for stream in left {
            let house = self.clone();
            claims.spawn(async move { (stream, house.go_on(stream).await) });
        }
        let mut taken = 0;
        while let Some(claimed) = claims.join_next().await {
            match claimed {
                Ok((_, Ok(goes))) => taken += usize::from(goes == Goes::Here),
                Ok((stream, Err(error))) if error.code == "other_place" => {
                    self.0.foreign.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
                }
                Ok((_, Err(error))) => tracing::warn!("an execution could not be taken up: {error}"),
                Err(error) => tracing::warn!("an execution could not be taken up: {error}"),
            }
        }
        Ok(taken)
    }

    /// What has something to do and no living driver, as far as a look at the rows tells.
    async fn left(&self) -> Result<Vec<u64>, Error> {
        let service = &self.0.service;
        let own = service.runner().await?.seat_id();
        let mut living = HashMap::from([(own.as_str().to_owned(), false)]);
        let mut left = Vec::new();
        let now_ms = service.ledger.clock().now_ms();
        for row in executions::left(service.tenant, now_ms, TAKEN_UP_MAX).all(&service.db).await? {
            let driven = match row.seat {
                None => false,
                Some(seat) => match living.get(&seat) {
                    Some(lives) => *lives,
                    None => {
                        let lives = service.living(&seat).await?.is_some();
                        living.insert(seat, lives);
                        lives
                    }
                },
            };
            if !driven && !self.keeps(row.id) {
                left.push(row.id);
            }
        }
        Ok(left)
    }

    /// Takes up what other processes leave behind, from now until this one is told to leave.
    pub async fn look_out(&self) {
        let mut halt = self.0.halt.subscribe();
        loop {
            if let Err(error) = self.take_up().await {
                tracing::warn!("looking for executions to take up: {error}");
            }
            if tokio::time::timeout(LOOK_OUT_EVERY, halt.wait_for(|halted| *halted)).await.is_ok() {
                return;
            }
        }
    }

    /// Nothing further starts from here on.
    pub fn halt(&self) {
        self.0.halt.send_replace(true);
    }

    /// Nothing further starts; waits this long at most for the calls in flight.
    pub async fn leave(&self, patience: Duration) {
        self.halt();
        let mut busy = self.0.busy.subscribe();
        let idle = busy.wait_for(|busy| *busy == 0);
        if tokio::time::timeout(patience, idle).await.is_err() {
            tracing::warn!("calls are still in flight; whoever takes their executions up finds them unknown");
        }
    }

    async fn claim(&self, stream: u64) -> Result<Claimed, Error> {
        let service = &self.0.service;
        let plan = service.ledger.look(stream, |execution| execution.plan.clone())?;
        Ok(service.runner().await?.claim(stream, service.place(&plan)).await?)
    }

    fn enter(&self, stream: u64) -> bool {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(stream)
    }

    /// Kept already, or not for this place to keep.
    fn keeps(&self, stream: u64) -> bool {
        let holds =
            |set: &Mutex<HashSet<u64>>| set.lock().unwrap_or_else(PoisonError::into_inner).contains(&stream);
        holds(&self.0.streams) || holds(&self.0.foreign)
    }

    fn forget<T>(&self, stream: u64, result: T) -> T {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream);
        result
    }

    fn spawn(&self, claimed: Progress) {
        let house = self.clone();
        tokio::spawn(async move {
            let (stream, id) = (claimed.stream, claimed.id.clone());
            if let Err(error) = house.keep_going(claimed).await {
                tracing::warn!("execution {id} is no longer driven here: {error}");
            }
            house.forget(stream, ());
        });
    }

    async fn keep_going(&self, mut claimed: Progress) -> Result<(), Error> {
        let service = &self.0.service;
        let stream = claimed.stream;
        // Held from here on, so that no word is missed between driving and waiting.
        let woken = service.ledger.watch(stream);
        loop {
            let (epoch, decided) = (claimed.epoch, claimed.decided);
            let status = self.drive(claimed).await?;
            if matches!(status, Status::Blocked | Status::Paused) {
                self.can_go_on(stream, &woken).await?;
            }
            if *self.0.halt.borrow() || service.ledger.look(stream, |one| one.ended.is_some())? {
                return Ok(());
            }
            let driver = ledger::DRIVER.into();
            claimed = match service.ledger.command(&driver, stream, Command::Drive { epoch }).await {
                Ok(progress) => Progress { decided, ..progress },
                Err(ledger::Error::Refused(refusal)) if refusal.code == "not_the_driver" => {
                    match self.claim(stream).await? {
                        Claimed::Mine(progress) => *progress,
                        Claimed::DrivenElsewhere | Claimed::Ended => return Ok(()),
                    }
                }
                Err(error) => return Err(error.into()),
            };
        }
    }

    async fn drive(&self, claimed: Progress) -> Result<Status, Error> {
        self.0.busy.send_modify(|busy| *busy += 1);
        let halt: Halt = self.0.halt.subscribe();
        let driven = self.0.service.drive(claimed, halt).await;
        self.0.busy.send_modify(|busy| *busy -= 1);
        driven
    }

    /// Waits until it can go on: an answer came, its deadline has passed, or this process leaves.
    async fn can_go_on(&self, stream: u64, woken: &Notify) -> Result<(), Error> {
        let mut halt = self.0.halt.subscribe();
        loop {
            let (status, deadline) = self
                .0
                .service
                .ledger
                .look(stream, |execution| (execution.status(), due(execution).look_again_at))?;
            if !matches!(status, Status::Blocked | Status::Paused) {
                return Ok(());
            }
            let deadline = deadline.filter(|_| status == Status::Blocked);
            tokio::select! {
                () = woken.notified() => {}
                () = self.0.service.ledger.clock().wait_until(deadline) => return Ok(()),
                _ = halt.wait_for(|halted| *halted) => return Ok(()),
            }
        }
    }
}
