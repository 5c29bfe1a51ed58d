//! The loop that drives one execution: starts the calls that are due, waits for the next event, reports it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use actbook_engine::execution::{CallId, CallKind, Command, DueCall, DueWork, PayloadRef, QuestionReply};
use actbook_engine::id::{Epoch, NodeId, StreamId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::ReusableBoxFuture;

use super::node::NodeLock;
use super::perform::{CallHandle, CallInput, CallRelay, FinishedCall, perform_call, unreadable_input};
use super::{Error, Lease, Runner, RunnerInner, wait_until_true};
use crate::boot_instant::BootInstant;
use crate::ledger::{self, DriveState, FollowPermit, LocalDriver};
use crate::store::payloads;
use crate::tools;

/// Asks a driver to stop when it turns true: no call starts, calls in flight finish.
pub type HaltSignal = watch::Receiver<bool>;

/// A call being performed.
type CallFuture = ReusableBoxFuture<'static, FinishedCall>;

/// The state of the loop in `Runner::drive`, which sends the due calls of one execution and reports outcomes.
#[derive(Debug)]
pub struct ExecutionDriver {
    inner: Arc<RunnerInner>,
    stream: StreamId,
    epoch: Epoch,
    /// A time not later than when this process became the driver.
    driver_since: BootInstant,
    plan: Arc<Plan>,
    in_flight: BTreeMap<CallId, CallHandle>,
    running_calls: JoinSet<FinishedCall>,
    /// Calls that finished on their first poll.
    finished: VecDeque<FinishedCall>,
    /// The box of such a call, reused for the next one because it is large.
    spare_box: Option<CallFuture>,
    /// This driver as the ledger knows it.
    registration: Arc<LocalDriver>,
    halt: HaltSignal,
}

impl Runner {
    /// Drives until the execution ends, waits for an answer, is paused or is taken over; after `halt`, until
    /// the calls in flight have ended or can go on without this process. Returns the status then.
    pub async fn drive(&self, claimed: DriveState, halt: HaltSignal) -> Result<ExecutionStatus, Error> {
        let mut driver = ExecutionDriver {
            inner: self.0.clone(),
            stream: claimed.stream,
            epoch: claimed.epoch,
            driver_since: claimed.decided_at,
            plan: self.0.ledger.with_execution(claimed.stream, |execution| execution.plan.clone())?,
            in_flight: BTreeMap::new(),
            running_calls: JoinSet::new(),
            finished: VecDeque::new(),
            spare_box: None,
            registration: self.0.ledger.register_driver(claimed.stream),
            halt,
        };
        driver.permit_follow();
        let mut guard = NodeFileGuard(Some(&self.0.node));
        let last = driver.run(claimed).await;
        guard.0.take_if(|_| matches!(&last, Ok(progress) if progress.due.calls.is_empty()));
        last.map(|progress| progress.status)
    }
}

/// Keeps the node file when dropped, unless disarmed: the driver may leave open attempts that were never
/// sent. The file lists the calls that were sent, so the node that takes over can tell the others. A drop
/// also covers the end of the runtime.
pub(super) struct NodeFileGuard<'a>(pub Option<&'a NodeLock>);

impl Drop for NodeFileGuard<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.0 {
            node.keep_file_on_drop();
        }
    }
}

impl ExecutionDriver {
    /// Drives until there is nothing left for this process to do; returns the last progress.
    async fn run(&mut self, mut progress: DriveState) -> Result<DriveState, Error> {
        loop {
            let (halted, lease) = (*self.halt.borrow(), *self.inner.lease.borrow());
            let drives = !halted && progress.epoch == self.epoch;
            if drives {
                self.stop_cancelled(&progress);
            }
            if drives && lease.allows_sending() {
                if lease.has_lapsed_since(self.driver_since) {
                    progress = self.reclaim(&progress).await?;
                    continue;
                }
                self.start_due_calls(&progress).await?;
            }
            // In a session that is open nothing goes on by itself, once its undo is over.
            let is_idle = progress.is_open_session
                || !matches!(progress.status, ExecutionStatus::Running | ExecutionStatus::Compensating);
            let no_longer_drives = halted || progress.epoch != self.epoch;
            if self.in_flight.is_empty() && (is_idle || no_longer_drives) {
                return Ok(progress);
            }
            if halted && self.in_flight.values().all(CallHandle::survives_this_process) {
                return Ok(progress);
            }
            let awaits_lease = drives && !lease.allows_sending();
            progress = self.next_progress(&progress, awaits_lease).await?;
        }
    }

    /// Waits for the first of: the end of a call, an outside change, a deadline, a renewed lease, a halt.
    /// Submits the command that follows from it, and returns the new progress.
    async fn next_progress(
        &mut self,
        progress: &DriveState,
        awaits_lease: bool,
    ) -> Result<DriveState, Error> {
        let halted = *self.halt.borrow();
        let wake_at = progress.due.wake_at.filter(|_| !halted && !self.may_have_lost_execution());
        let ledger = self.inner.ledger.clone();
        let timer = ledger.clock().wait_until(wake_at);
        let command = tokio::select! {
            Some(ended) = next_finished(&mut self.finished, &mut self.running_calls) => {
                let (call, ended) = ended.map_err(|error| ledger::Error::Corrupt(error.to_string()))?;
                self.in_flight.remove(&call);
                // A driver that is halted or may have been taken over records the outcome and starts nothing.
                let stale = *self.halt.borrow() || self.may_have_lost_execution();
                let epoch = if stale { ledger::STALE_EPOCH } else { self.epoch };
                match ended {
                    Some(ended) => Command::ReportOutcome { epoch, call, outcome: ended },
                    // The call was not sent and is still due.
                    None => return Ok(progress.clone()),
                }
            }
            () = self.registration.outside_change.notified() => {
                // `Drive` would start calls, which a halted driver must not do.
                if halted {
                    return Ok(progress.clone());
                }
                Command::Drive { epoch: self.epoch }
            }
            () = timer => Command::Drive { epoch: self.epoch },
            () = wait_until_true(self.inner.lease.clone(), Lease::allows_sending), if awaits_lease => {
                return Ok(progress.clone());
            }
            changed = self.halt.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
                return Ok(progress.clone());
            }
        };
        match command {
            Command::Drive { .. } if self.may_have_lost_execution() => Ok(progress.clone()),
            command => self.submit(command, progress).await,
        }
    }

    /// Whether another node may drive by now, because the lease has lapsed: this process was frozen or cut
    /// off from its database. It must neither send nor decide what to send until it has re-claimed the
    /// execution.
    fn may_have_lost_execution(&self) -> bool {
        self.inner.lease.borrow().has_lapsed_since(self.driver_since)
    }

    /// Lets the ledger decide in this driver's name when a caller's command arrives, under the conditions under
    /// which the driver itself would decide.
    fn permit_follow(&self) {
        let (halt, lease, since) = (self.halt.clone(), self.inner.lease.clone(), self.driver_since);
        let may_decide = move || !*halt.borrow() && !lease.borrow().has_lapsed_since(since);
        self.registration.permit_follow(FollowPermit { epoch: self.epoch, may_decide: Box::new(may_decide) });
    }

    /// Claims the execution again, under a new epoch, after this process's lease has lapsed; the stale epoch if
    /// another node drives by now. Of two racing claims the head check lets one through.
    async fn reclaim(&mut self, progress: &DriveState) -> Result<DriveState, Error> {
        tracing::warn!("the lease of this process has lapsed; it claims {} again", progress.id);
        let node = NodeId::new(self.inner.node.id());
        let claimed = self.submit(Command::Reclaim { node, epoch: self.epoch }, progress).await?;
        if claimed.epoch != ledger::STALE_EPOCH {
            (self.epoch, self.driver_since) = (claimed.epoch, claimed.decided_at);
            self.permit_follow();
        }
        Ok(claimed)
    }

    /// Submits a command, again after each database outage: a command whose reply was lost changes nothing
    /// when it is repeated. If the lease lapsed meanwhile, drops `Drive`, and reports outcomes as stale.
    /// If another node drives by now, returns `progress` with the stale epoch and no due calls.
    async fn submit(&self, command: Command, progress: &DriveState) -> Result<DriveState, Error> {
        let mut command = Arc::new(command);
        loop {
            match self.inner.ledger.command(&self.inner.actor, self.stream, command.clone()).await {
                Ok(progress) => return Ok(progress),
                Err(ledger::Error::Refused(Refusal::NotTheDriver)) => {
                    // The deadlines are the new driver's task.
                    let epoch = ledger::STALE_EPOCH;
                    return Ok(DriveState { epoch, due: DueWork::default(), ..progress.clone() });
                }
                Err(error) => self.retry_after_outage(error.into()).await?,
            }
            if !self.may_have_lost_execution() {
                continue;
            }
            if let Command::Drive { .. } = &*command {
                return Ok(progress.clone());
            }
            if let Command::ReportOutcome { call, outcome, .. } = &*command {
                let (epoch, call, outcome) = (ledger::STALE_EPOCH, *call, outcome.clone());
                command = Arc::new(Command::ReportOutcome { epoch, call, outcome });
            }
        }
    }

    /// Returns `Ok` when the database may be back and the caller should try again, so that no outcome is lost
    /// in an outage. `Err`: the error is not transient, or the driver is halted.
    async fn retry_after_outage(&self, error: Error) -> Result<(), Error> {
        if !error.is_transient() || *self.halt.borrow() {
            return Err(error);
        }
        tracing::warn!("{error}; it continues once the database answers");
        tokio::select! {
            () = self.inner.wait_for_database() => Ok(()),
            () = wait_until_true(self.halt.clone(), |halted| *halted) => Err(error),
        }
    }

    /// Asks the calls in flight to stop whose step was cancelled.
    fn stop_cancelled(&self, progress: &DriveState) {
        for call in progress.due.calls.iter().filter(|call| call.cancel_requested) {
            if let Some(in_flight) = self.in_flight.get(&call.id) {
                in_flight.stop.send_replace(true);
            }
        }
    }

    /// Starts the due calls that are not in flight.
    async fn start_due_calls(&mut self, progress: &DriveState) -> Result<(), Error> {
        for call in &progress.due.calls {
            if self.in_flight.contains_key(&call.id) {
                continue;
            }
            let input = self.load_input(progress, call).await?;
            self.start_call(call.clone(), input).await;
        }
        Ok(())
    }

    /// Starts a call. Its first poll happens here: the request leaves at once, and a call that finishes
    /// without waiting needs no task. `input` is `Err` if the arguments could not be read back.
    async fn start_call(&mut self, call: DueCall, input: Result<CallInput, String>) {
        let (stop, stopped) = watch::channel(call.cancel_requested);
        let handle_recorded = Arc::new(AtomicBool::new(call.task_handle.is_some()));
        self.in_flight.insert(call.id, CallHandle { stop, handle_recorded: handle_recorded.clone() });
        let mut call = match input {
            Ok(input) => {
                let (inner, since) = (self.inner.clone(), self.driver_since);
                self.box_call(perform_call(inner, self.stream, call, input, stopped, handle_recorded, since))
            }
            Err(why) => self.box_call(std::future::ready(unreadable_input(call.id, &why))),
        };
        match std::future::poll_fn(|context| Poll::Ready(call.poll(context))).await {
            Poll::Ready(ended) => {
                self.finished.push_back(ended);
                self.spare_box = Some(call);
            }
            Poll::Pending => {
                // Yields first, so that the task that carries the request out runs before the spawned one.
                tokio::task::yield_now().await;
                self.running_calls.spawn(call);
            }
        }
    }

    /// Boxes the call, in the box of a finished one if there is one.
    fn box_call(&mut self, call: impl Future<Output = FinishedCall> + Send + 'static) -> CallFuture {
        match self.spare_box.take() {
            Some(mut spare) => {
                spare.set(call);
                spare
            }
            None => ReusableBoxFuture::new(call),
        }
    }

    /// Loads what the call sends. The inner `Err`: a payload is gone or cannot be decoded.
    async fn load_input(
        &self,
        progress: &DriveState,
        call: &DueCall,
    ) -> Result<Result<CallInput, String>, Error> {
        let arguments = match (progress.arguments_of(call), call.arguments) {
            (Some(bytes), _) => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            (None, Some(stored)) => self.load_payload(stored).await?,
            (None, None) => Ok(Value::Object(Default::default())),
        };
        let reply = match call.reply {
            None => Ok(None),
            Some(QuestionReply { question, answer }) => {
                let (question, answer) =
                    (self.load_payload(question).await?, self.load_payload(answer).await?);
                question.and_then(|question| Ok(Some(tools::ToolQuestionReply { question, answer: answer? })))
            }
        };
        let origin = self.call_origin(progress, call.id);
        Ok(arguments.and_then(|arguments| {
            Ok(CallInput { origin, arguments, reply: reply?, relay: CallRelay::default() })
        }))
    }

    /// What the tool is told about where the call comes from.
    fn call_origin(&self, progress: &DriveState, call: CallId) -> tools::Origin {
        tools::Origin {
            execution: progress.id.clone(),
            step: self.plan.step(call.step).id.clone(),
            purpose: match call.kind {
                CallKind::Run => tools::Purpose::Run,
                CallKind::Probe => tools::Purpose::Probe,
                CallKind::Compensation => tools::Purpose::Undo,
            },
            attempt: call.index + 1,
        }
    }

    /// Loads a payload as JSON. The inner `Err`: it is gone or cannot be decoded.
    async fn load_payload(&self, stored: PayloadRef) -> Result<Result<Value, String>, Error> {
        let position = stored.position.0;
        let found = loop {
            match payloads::by_position(self.inner.tenant, position).first(&self.inner.db).await {
                Ok(found) => break found,
                Err(error) => self.retry_after_outage(error.into()).await?,
            }
        };
        Ok(match found {
            Some(payload) => serde_json::from_slice(&payload.body).map_err(|error| error.to_string()),
            None => Err("a payload of the call is gone".to_owned()),
        })
    }
}

/// The next finished call; None: none is left.
async fn next_finished(
    ended: &mut VecDeque<FinishedCall>,
    calls: &mut JoinSet<FinishedCall>,
) -> Option<Result<FinishedCall, JoinError>> {
    match ended.pop_front() {
        Some(ended) => Some(Ok(ended)),
        None => calls.join_next().await,
    }
}
