//! The loop of one driven execution: start what is due, wait for whatever comes first, hand it in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use actbook_engine::execution::{Answered, Call, CallId, CallKind, Command, Due, Stored};
use actbook_engine::id::{Epoch, SeatId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::Status;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::ReusableBoxFuture;

use super::perform::{InFlight, Performed, Words, perform, unreadable};
use super::seat::Seat;
use super::{Error, Inner, Lease, Runner, becomes};
use crate::ledger::{self, Progress};
use crate::moment::Moment;
use crate::store::payloads;
use crate::tools;

/// Asks a driver to stop: nothing starts, calls in flight finish.
pub type Halt = watch::Receiver<bool>;

/// An epoch that nobody has: a report under it is a fact from which nothing follows.
const NOBODY: Epoch = ledger::STALE_EPOCH;

type Performing = ReusableBoxFuture<'static, Performed>;

/// One execution, driven by this process.
#[derive(Debug)]
pub struct Drive {
    inner: Arc<Inner>,
    stream: u64,
    epoch: Epoch,
    /// When this process became its driver; or before that.
    since: Moment,
    plan: Arc<Plan>,
    in_flight: BTreeMap<CallId, InFlight>,
    calls: JoinSet<Performed>,
    /// Calls that ended without having to wait for anything.
    ended: VecDeque<Performed>,
    /// The box of such a call, for the next one: it is large.
    spare: Option<Performing>,
    woken: Arc<Notify>,
    halt: Halt,
}

impl Runner {
    /// Drives until the execution ends, waits for an answer, is paused, or is taken over.
    pub async fn drive(&self, claimed: Progress, halt: Halt) -> Result<Status, Error> {
        let mut drive = Drive {
            inner: self.0.clone(),
            stream: claimed.stream,
            epoch: claimed.epoch,
            since: claimed.decided,
            plan: self.0.ledger.look(claimed.stream, |execution| execution.plan.clone())?,
            in_flight: BTreeMap::new(),
            calls: JoinSet::new(),
            ended: VecDeque::new(),
            spare: None,
            woken: self.0.ledger.watch(claimed.stream),
            halt,
        };
        let mut open = LeftOpen(Some(&self.0.seat));
        let left = drive.run(claimed).await;
        open.0.take_if(|_| matches!(&left, Ok(progress) if progress.due.calls.is_empty()));
        left.map(|progress| progress.status)
    }
}

/// Intents that were never sent may stay behind: the seat's file proves it to whoever comes next. Also where
/// the driving itself is dropped, with the runtime that it ran on.
struct LeftOpen<'a>(Option<&'a Seat>);

impl Drop for LeftOpen<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.0 {
            seat.keep_as_proof();
        }
    }
}

impl Drive {
    async fn run(&mut self, mut progress: Progress) -> Result<Progress, Error> {
        loop {
            let (halted, lease) = (*self.halt.borrow(), *self.inner.lease.borrow());
            let drives = !halted && progress.epoch == self.epoch;
            if drives {
                self.stop_cancelled(&progress);
            }
            if drives && lease.holds() {
                if lease.has_lapsed_since(self.since) {
                    progress = self.claim_again(&progress).await?;
                    continue;
                }
                self.start(&progress).await?;
            }
            let waits = !matches!(progress.status, Status::Running | Status::Compensating);
            let gone = halted || progress.epoch != self.epoch;
            if self.in_flight.is_empty() && (waits || gone) {
                return Ok(progress);
            }
            if halted && self.in_flight.values().all(InFlight::goes_on_without_us) {
                return Ok(progress);
            }
            let parked = drives && !lease.holds();
            progress = self.next(&progress, parked).await?;
        }
    }

    /// Whatever comes first: a call's end, another's word, a deadline, the lease that it is parked for, or the wish
    /// to leave.
    async fn next(&mut self, progress: &Progress, parked: bool) -> Result<Progress, Error> {
        let halted = *self.halt.borrow();
        let look_again_at = progress.due.look_again_at.filter(|_| !halted && !self.may_be_taken());
        let ledger = self.inner.ledger.clone();
        let timer = ledger.clock().wait_until(look_again_at);
        let command = tokio::select! {
            Some(ended) = next_ended(&mut self.ended, &mut self.calls) => {
                let (call, ended) = ended.map_err(|error| ledger::Error::Corrupt(error.to_string()))?;
                self.in_flight.remove(&call);
                // Asked to stop while it waited, perhaps: then nothing follows from the outcome.
                let epoch = if *self.halt.borrow() || self.may_be_taken() { NOBODY } else { self.epoch };
                match ended {
                    Some(ended) => Command::Report { epoch, call, ended },
                    // It is still due.
                    None => return Ok(progress.clone()),
                }
            }
            () = self.woken.notified() => match halted {
                // Going on would start something, and who was asked to stop starts nothing.
                true => return Ok(progress.clone()),
                false => Command::Drive { epoch: self.epoch },
            },
            () = timer => Command::Drive { epoch: self.epoch },
            () = becomes(self.inner.lease.clone(), Lease::holds), if parked => return Ok(progress.clone()),
            changed = self.halt.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
                return Ok(progress.clone());
            }
        };
        match command {
            Command::Drive { .. } if self.may_be_taken() => Ok(progress.clone()),
            command => self.ask(command, progress).await,
        }
    }

    /// A process that was frozen, or cut off from its database, must neither send nor decide what to send: another may
    /// drive by now. It waits for its seat, and claims again.
    fn may_be_taken(&self) -> bool {
        self.inner.lease.borrow().has_lapsed_since(self.since)
    }

    /// Whoever found it gone, and has not said so yet, comes too late; or this process does.
    async fn claim_again(&mut self, progress: &Progress) -> Result<Progress, Error> {
        tracing::warn!("this process was away for longer than its lease; it claims {} again", progress.id);
        let seat = SeatId::new(self.inner.seat.id());
        let again = self.ask(Command::ClaimAgain { seat, epoch: self.epoch }, progress).await?;
        if again.epoch != NOBODY {
            (self.epoch, self.since) = (again.epoch, again.decided);
        }
        Ok(again)
    }

    /// A command that was written, and its answer lost, changes nothing when it is given again.
    async fn ask(&self, command: Command, progress: &Progress) -> Result<Progress, Error> {
        let mut command = Arc::new(command);
        loop {
            match self.inner.ledger.command(&self.inner.actor, self.stream, command.clone()).await {
                Ok(progress) => return Ok(progress),
                Err(ledger::Error::Refused(refusal)) if refusal.code == "not_the_driver" => {
                    // Its deadlines are the new driver's business.
                    return Ok(Progress { epoch: NOBODY, due: Due::default(), ..progress.clone() });
                }
                Err(error) => self.outlast(error.into()).await?,
            }
            match &*command {
                Command::Drive { .. } if self.may_be_taken() => return Ok(progress.clone()),
                Command::Report { call, ended, .. } if self.may_be_taken() => {
                    command = Arc::new(Command::Report { epoch: NOBODY, call: *call, ended: ended.clone() });
                }
                _ => {}
            }
        }
    }

    /// What came of a call is not given up because the database is away.
    async fn outlast(&self, error: Error) -> Result<(), Error> {
        if !error.may_pass() || *self.halt.borrow() {
            return Err(error);
        }
        tracing::warn!("{error}; it goes on once the database answers");
        tokio::select! {
            () = self.inner.answers_again() => Ok(()),
            () = becomes(self.halt.clone(), |halted| *halted) => Err(error),
        }
    }

    fn stop_cancelled(&self, progress: &Progress) {
        for call in progress.due.calls.iter().filter(|call| call.cancel) {
            if let Some(in_flight) = self.in_flight.get(&call.id) {
                in_flight.stop.send_replace(true);
            }
        }
    }

    async fn start(&mut self, progress: &Progress) -> Result<(), Error> {
        for call in &progress.due.calls {
            if self.in_flight.contains_key(&call.id) {
                continue;
            }
            let words = self.words(progress, call).await?;
            self.send(call.clone(), words).await;
        }
        Ok(())
    }

    /// The call's first part runs here: what it sends leaves at once, and one that never waits needs no task.
    async fn send(&mut self, call: Call, words: Result<Words, String>) {
        let (stop, stopped) = watch::channel(call.cancel);
        let kept = Arc::new(AtomicBool::new(call.task.is_some()));
        self.in_flight.insert(call.id, InFlight { stop, kept: kept.clone() });
        let mut call = match words {
            Ok(words) => {
                let (inner, since) = (self.inner.clone(), self.since);
                self.boxed(perform(inner, self.stream, call, words, stopped, kept, since))
            }
            Err(why) => self.boxed(std::future::ready(unreadable(call.id, &why))),
        };
        match std::future::poll_fn(|context| Poll::Ready(call.poll(context))).await {
            Poll::Ready(ended) => {
                self.ended.push_back(ended);
                self.spare = Some(call);
            }
            Poll::Pending => {
                // Whoever carries it out goes first: a task that is spawned would be run before.
                tokio::task::yield_now().await;
                self.calls.spawn(call);
            }
        }
    }

    fn boxed(&mut self, call: impl Future<Output = Performed> + Send + 'static) -> Performing {
        match self.spare.take() {
            Some(mut spare) => {
                spare.set(call);
                spare
            }
            None => ReusableBoxFuture::new(call),
        }
    }

    async fn words(&self, progress: &Progress, call: &Call) -> Result<Result<Words, String>, Error> {
        let arguments = match (progress.arguments_of(call), call.arguments) {
            (Some(bytes), _) => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            (None, Some(stored)) => self.payload(stored).await?,
            (None, None) => Ok(Value::Object(Default::default())),
        };
        let reply = match call.answered {
            None => Ok(None),
            Some(Answered { question, answer }) => {
                let (question, answer) = (self.payload(question).await?, self.payload(answer).await?);
                question.and_then(|question| Ok(Some(tools::Reply { question, answer: answer? })))
            }
        };
        let origin = self.origin(progress, call.id);
        Ok(arguments.and_then(|arguments| Ok(Words { origin, arguments, reply: reply? })))
    }

    fn origin(&self, progress: &Progress, call: CallId) -> tools::Origin {
        tools::Origin {
            execution: progress.id.clone(),
            step: self.plan.step(call.step).id.clone(),
            purpose: match call.kind {
                CallKind::Run => tools::Purpose::Run,
                CallKind::Probe => tools::Purpose::Probe,
                CallKind::Compensation => tools::Purpose::Undo,
            },
            attempt: call.no + 1,
        }
    }

    async fn payload(&self, stored: Stored) -> Result<Result<Value, String>, Error> {
        let position = stored.position.0;
        let found = loop {
            match payloads::at(self.inner.tenant, position).first(&self.inner.db).await {
                Ok(found) => break found,
                Err(error) => self.outlast(error.into()).await?,
            }
        };
        Ok(match found {
            Some(payload) => serde_json::from_slice(&payload.body).map_err(|error| error.to_string()),
            None => Err("what it sends is gone".to_owned()),
        })
    }
}

async fn next_ended(
    ended: &mut VecDeque<Performed>,
    calls: &mut JoinSet<Performed>,
) -> Option<Result<Performed, JoinError>> {
    match ended.pop_front() {
        Some(ended) => Some(Ok(ended)),
        None => calls.join_next().await,
    }
}
