//! The state behind the ledger's mutex: cached states as they will be once everything queued is durable,
//! and the queue that the writer takes its batches from.

mod drivers;
mod head;
mod keys;
mod library;
mod notes_and_tasks;
mod queue;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Weak};

use actbook_engine::chain::{self, EntryParts};
use actbook_engine::event::ExecutionStarted;
use actbook_engine::execution::{
    self, Command, Execution, LoadedPayloads, MissingPayloads, NewEvent, Now, RecordedEvent, Rejection,
    build_session_start_event, build_start_event, decide, evolve, follow,
};
use actbook_engine::id::{ExecutionId, Position, StreamId, TenantId};
use actbook_engine::library::PlanLibrary;
use actbook_engine::plan::Plan;
use actbook_engine::refusal::Refusal;
use serde_json::Value;

pub use self::drivers::{FollowPermit, LocalDriver};
pub(super) use self::queue::{BatchInFlight, PendingRequest, TypedRequest};
use self::queue::{Queue, RetiredBatch};
use super::fold::{self, PlanCache};
use super::{CommandRequest, DriveState, Error, LedgerRequest, StartRequest, StartSessionRequest};
use crate::clock::Clock;
use crate::store::{Batch, Db, Entry, JournalHead, executions, journal, payloads, projection, requests};

/// The actor of entries that follow from the state without a caller's command.
pub const DRIVER_ACTOR: &str = "actbook";

/// Rounds of `follow` after one command; more means an endless loop in the engine, and is an error.
const FOLLOW_ROUNDS_MAX: usize = 50_000;

/// Cached executions above which every durable one is evicted; an evicted one is folded again when needed.
const CACHED_EXECUTIONS_MAX: usize = 4_000;

/// The version and the position of a stream's last entry.
#[derive(Clone, Copy, Debug)]
struct StreamHead {
    version: u64,
    position: u64,
}

impl StreamHead {
    /// The head of a stream that has no entries yet; a stream's number is the position of its first entry.
    fn before_first(stream: StreamId) -> Self {
        Self { version: 0, position: stream.0 }
    }
}

/// Request keys that are not durable yet, by caller and key.
type PendingKeys = HashMap<(String, String), requests::RequestRow>;

/// The caches, the queue and the batch in flight of one ledger.
#[derive(Debug)]
pub struct PendingState {
    db: Db,
    tenant: TenantId,
    clock: Arc<Clock>,
    /// [`DRIVER_ACTOR`], shared by all entries.
    driver_actor: Arc<str>,
    plans: PlanCache,
    /// The head after everything queued; None: it must be read from the database.
    head: Option<JournalHead>,
    /// The head after the last batch that was handed to the writer.
    batch_head: Option<JournalHead>,
    /// Drivers have been woken for all appends by others up to here; None: the head was never read.
    woken_up_to: Option<u64>,
    /// The journal is known to be in the database up to this position.
    durable_up_to: u64,
    executions: HashMap<StreamId, Execution>,
    /// The streams of cached executions that have ended, to be evicted once they are durable.
    ended_streams: Vec<StreamId>,
    library: Option<PlanLibrary>,
    unwritten_rows: notes_and_tasks::UnwrittenRows,
    /// Request keys of the queue, and those of the batch in flight.
    queued_keys: PendingKeys,
    in_flight_keys: PendingKeys,
    queue: Queue,
    in_flight: Option<Arc<Batch>>,
    retired: Vec<RetiredBatch>,
    /// The drivers in this process, by stream; each is alive while the driver holds its `Arc`.
    drivers: HashMap<StreamId, Weak<LocalDriver>>,
    pub(crate) closed: bool,
    /// The writer thread waits on `work_available`.
    pub(crate) writer_is_waiting: bool,
    /// The writer thread knows that it has to notify other processes of what was written.
    pub(crate) notify_pending: bool,
}

impl PendingState {
    pub(crate) fn new(db: Db, tenant: TenantId, clock: Arc<Clock>) -> Self {
        Self {
            db,
            tenant,
            clock,
            driver_actor: DRIVER_ACTOR.into(),
            plans: PlanCache::default(),
            head: None,
            batch_head: None,
            woken_up_to: None,
            durable_up_to: 0,
            executions: HashMap::new(),
            ended_streams: Vec::new(),
            library: None,
            unwritten_rows: notes_and_tasks::UnwrittenRows::default(),
            queued_keys: PendingKeys::new(),
            in_flight_keys: PendingKeys::new(),
            queue: Queue::default(),
            in_flight: None,
            retired: Vec::new(),
            drivers: HashMap::new(),
            closed: false,
            writer_is_waiting: false,
            notify_pending: false,
        }
    }

    /// Decides at once; the reply is sent when the batch is durable. A refusal waits too: it is valid only
    /// if no other process has moved the head.
    pub(crate) fn enqueue(&mut self, mut request: Box<dyn PendingRequest>) {
        request.decide(self);
        self.queue.requests.push(request);
    }

    /// Decides the request on the current head. On `Err` the queue and the head are as before, but caches are
    /// not restored: a request must fail before it changes them.
    fn decide<R: LedgerRequest>(&mut self, request: &R, actor: &Arc<str>) -> Result<R::Reply, Error> {
        self.ensure_head()?;
        let (entries, statements, head) = (self.queue.entries.len(), self.queue.statements.len(), self.head);
        let result = request.decide(self, actor);
        if result.is_err() {
            self.queue.entries.truncate(entries);
            self.queue.statements.truncate(statements);
            self.head = head;
        }
        result
    }

    pub(crate) fn db(&self) -> Db {
        self.db.clone()
    }

    /// Whether the caller's thread may write the request itself: no other driver could join its batch, and
    /// the database allows it (SQLite always, PostgreSQL on a multi-threaded runtime).
    pub(crate) fn can_write_inline(&self, request: &dyn PendingRequest) -> bool {
        request.command().is_some_and(CommandRequest::is_from_driver)
            && self.drivers.len() <= 1
            && self.db.can_write_inline()
    }

    /// Whether no request is queued.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.requests.is_empty()
    }

    /// Takes the whole queue as a batch. None: the head could not be read, so nothing was decided.
    pub(crate) fn take_batch(&mut self) -> Option<BatchInFlight> {
        let (Some(new), Some(old)) = (self.head, self.batch_head) else { return None };
        let Queue { entries, statements, requests } = std::mem::take(&mut self.queue);
        let urgent =
            !requests.iter().all(|request| request.command().is_some_and(CommandRequest::is_from_driver));
        let batch =
            Arc::new(Batch { tenant: self.tenant, old, new, entries, other_statements: statements, urgent });
        self.batch_head = Some(new);
        if self.woken_up_to == Some(old.position) {
            self.woken_up_to = Some(new.position);
        }
        self.in_flight_keys = std::mem::take(&mut self.queued_keys);
        self.in_flight = Some(batch.clone());
        Some(BatchInFlight { batch, requests })
    }

    /// Takes the queued requests out unwritten, to fail or drop them; `take_batch` takes them to be written.
    pub(crate) fn take_requests(&mut self) -> Vec<Box<dyn PendingRequest>> {
        std::mem::take(&mut self.queue.requests)
    }

    /// Records that the batch is durable, and wakes the drivers whose execution others' requests changed.
    pub(crate) fn finish_batch(&mut self, batch: Arc<Batch>, requests: &[Box<dyn PendingRequest>]) {
        self.in_flight = None;
        self.in_flight_keys.clear();
        self.durable_up_to = batch.new.position;
        self.unwritten_rows.drop_durable(self.durable_up_to);
        let evicted = self.evict(self.durable_up_to);
        let commands = requests.iter().filter_map(|request| request.command());
        commands
            .filter(|command| !command.is_from_driver())
            .for_each(|command| self.wake_driver(command.stream));
        self.retired.push(RetiredBatch { batch, evicted });
    }

    /// Takes the durable batches that are only kept to be freed; the caller drops them outside the lock.
    pub(crate) fn take_retired(&mut self) -> Vec<RetiredBatch> {
        std::mem::take(&mut self.retired)
    }

    /// Takes the durable executions that have ended out of the cache; if it is too large, all durable ones.
    fn evict(&mut self, durable: u64) -> Vec<Execution> {
        let is_ahead = |execution: &Execution| execution.position.0 > durable;
        if self.executions.len() > CACHED_EXECUTIONS_MAX {
            return self.executions.extract_if(|_, cached| !is_ahead(cached)).map(|(_, gone)| gone).collect();
        }
        let ended = std::mem::take(&mut self.ended_streams).into_iter();
        let (ahead, durable): (_, Vec<_>) =
            ended.partition(|stream| self.executions.get(stream).is_some_and(is_ahead));
        self.ended_streams = ahead;
        durable.iter().filter_map(|stream| self.executions.remove(stream)).collect()
    }

    /// Puts the state into the cache; an ended execution is evicted once it is durable.
    fn cache_execution(&mut self, stream: StreamId, execution: Execution) {
        if execution.ended.is_some() {
            self.ended_streams.push(stream);
        }
        self.executions.insert(stream, execution);
    }

    /// Drops all cached state and decides `requests`, then the queued ones, again on new folds.
    pub(crate) fn invalidate_and_replay(&mut self, requests: Vec<Box<dyn PendingRequest>>) {
        let queued = std::mem::take(&mut self.queue).requests;
        self.head = None;
        self.batch_head = None;
        self.executions.clear();
        self.ended_streams.clear();
        self.library = None;
        self.unwritten_rows.clear();
        self.queued_keys.clear();
        self.in_flight_keys.clear();
        self.in_flight = None;
        requests.into_iter().chain(queued).for_each(|request| self.enqueue(request));
    }

    pub(crate) fn plans(&self) -> PlanCache {
        self.plans.clone()
    }

    /// Calls `read` with the state, which may be ahead of the database. Err: no such execution.
    pub(crate) fn with_execution<T>(
        &mut self,
        stream: StreamId,
        read: impl FnOnce(&Execution) -> T,
    ) -> Result<T, Error> {
        self.ensure_head()?;
        let execution = self.take_execution(stream)?;
        let result = read(&execution);
        self.cache_execution(stream, execution);
        Ok(result)
    }

    /// The cached state. None: it is not cached, not all of it is durable, or it is not after this position.
    pub(crate) fn cached_execution_after(&self, stream: StreamId, position: u64) -> Option<Execution> {
        self.durable_execution(stream).filter(|execution| execution.position.0 > position).cloned()
    }

    /// Whether the state is cached and all of it is durable.
    pub(crate) fn is_durable(&self, stream: StreamId) -> bool {
        self.durable_execution(stream).is_some()
    }

    fn durable_execution(&self, stream: StreamId) -> Option<&Execution> {
        self.executions.get(&stream).filter(|execution| execution.position.0 <= self.durable_up_to)
    }

    pub(crate) fn prefetch(&mut self, streams: &[StreamId]) -> Result<(), Error> {
        self.ensure_head()?;
        let missing: Vec<StreamId> =
            streams.iter().copied().filter(|stream| !self.executions.contains_key(stream)).collect();
        let folded = fold::fold_executions(&self.db, self.tenant, &missing, &self.plans)?;
        for (stream, execution) in missing.into_iter().zip(folded) {
            execution.into_iter().for_each(|execution| self.cache_execution(stream, execution));
        }
        Ok(())
    }

    /// Takes the state out of the cache, or replays it from the journal; the caller puts it back with
    /// `cache_execution`. Err: no such execution.
    fn take_execution(&mut self, stream: StreamId) -> Result<Execution, Error> {
        match self.executions.remove(&stream) {
            Some(execution) => Ok(execution),
            None => fold::fold_execution(&self.db, self.tenant, stream, &self.plans)?
                .ok_or_else(no_such_execution),
        }
    }

    /// Queues the erasure of a stream's payloads and salt.
    fn queue_erasure(&mut self, stream: StreamId) {
        self.queue.statements.push(payloads::erase_of_stream(self.db.dialect(), self.tenant, stream));
        self.queue.statements.push(payloads::erase_salt(self.tenant, stream));
    }

    /// Decides the command and, if the command comes from the driver or the driver is in this process, all events
    /// that follow. A refusal leaves the state unchanged.
    fn advance(
        &mut self,
        stream: StreamId,
        mut execution: Execution,
        command: &Command,
        actor: &Arc<str>,
    ) -> Result<(Execution, Option<Refusal>), Error> {
        let mut values = LoadedPayloads::default();
        let events = loop {
            match decide(&execution, command, self.now(), &values) {
                Ok(events) => break events,
                Err(Rejection::Refused(refusal)) => return Ok((execution, Some(refusal))),
                Err(Rejection::MissingPayloads(missing)) => self.load_payloads(missing, &mut values)?,
            }
        };
        for new_event in events {
            execution = self.append_and_evolve(stream, execution, new_event, actor)?;
        }
        if !self.may_follow(stream, &execution, command) {
            return Ok((execution, None));
        }
        let driver = self.driver_actor.clone();
        for _ in 0..FOLLOW_ROUNDS_MAX {
            match follow(&execution, self.now(), &values) {
                Err(missing) => self.load_payloads(missing, &mut values)?,
                Ok(events) if events.is_empty() => return Ok((execution, None)),
                Ok(events) => {
                    for new_event in events {
                        execution = self.append_and_evolve(stream, execution, new_event, &driver)?;
                    }
                }
            }
        }
        Err(Error::Corrupt(format!("execution {} produces events without end", execution.id)))
    }

    /// Whether the events that follow from the state after `command` may be queued with the command's own:
    /// for a claim; for a driver's command under the execution's epoch; for any other command, if the
    /// execution's driver is in this process and may decide now.
    fn may_follow(&self, stream: StreamId, execution: &Execution, command: &Command) -> bool {
        if matches!(command, Command::Claim { .. } | Command::Reclaim { .. }) {
            return true;
        }
        match command.epoch() {
            Some(epoch) => epoch == execution.epoch,
            None => self.may_follow_for_driver(stream, execution),
        }
    }

    /// Queues one event of an execution for the next batch and returns the state after it.
    fn append_and_evolve(
        &mut self,
        stream: StreamId,
        execution: Execution,
        new_event: NewEvent,
        actor: &Arc<str>,
    ) -> Result<Execution, Error> {
        let last = StreamHead { version: execution.version, position: execution.position.0 };
        let recorded = self.append(stream, last, new_event, actor);
        Ok(evolve(execution, &recorded)?)
    }

    /// The time and a random number, which the engine does not read itself.
    fn now(&self) -> Now {
        // The hasher's keys are random, which is good enough to spread retries.
        let dice = std::hash::RandomState::new().build_hasher().finish();
        Now { at_ms: self.clock.now_ms(), random: dice }
    }

    fn next_position(&self) -> Position {
        Position(self.head.map_or(0, |head| head.position) + 1)
    }

    /// Chains one entry to the head and queues it; `last` is the stream's last entry so far.
    fn append(
        &mut self,
        stream: StreamId,
        last: StreamHead,
        new_event: NewEvent,
        actor: &Arc<str>,
    ) -> RecordedEvent {
        let version = last.version + 1;
        let head = self.head.expect("the head is read before anything is decided");
        let position = self.next_position();
        let (at, kind, body) = (self.clock.now_ms(), new_event.event.kind(), new_event.event.body());
        let tenant = self.tenant;
        let parts = EntryParts { tenant, position, stream, version, at_ms: at, actor, kind, body: &body };
        let hash = chain::chain_hash(&head.hash, &chain::entry_hash(&parts));
        self.head = Some(JournalHead { position: position.0, hash });
        self.queue.entries.push(Entry {
            position: position.0,
            stream,
            version,
            at,
            actor: actor.clone(),
            kind: kind.into(),
            body,
            hash,
            payload: new_event.payload,
            is_first_on_page: journal::page_of(last.position) != journal::page_of(position.0),
        });
        RecordedEvent { position, at_ms: at, event: new_event.event }
    }

    /// Queues the first entry of an execution and its salt; returns its stream and its state.
    fn start_stream(
        &mut self,
        started: ExecutionStarted,
        payload: Option<Vec<u8>>,
        plan: &Arc<Plan>,
        salt: &Arc<[u8]>,
        actor: &Arc<str>,
    ) -> (StreamId, Execution) {
        let stream = StreamId::starting_at(self.next_position());
        let first = NewEvent { event: started.clone().into(), payload };
        let recorded = self.append(stream, StreamHead::before_first(stream), first, actor);
        self.queue.statements.push(payloads::insert_salt(self.tenant, stream, salt));
        let (position, at_ms) = (recorded.position, recorded.at_ms);
        (stream, execution::initial_state(started, position, at_ms, plan.clone(), salt.clone()))
    }

    /// The stream of the execution with this public id, durable or not. None: there is none.
    fn find_started(&self, id: &ExecutionId) -> Result<Option<StreamId>, Error> {
        let cached = self.executions.iter().find(|(_, execution)| execution.id == *id);
        if let Some((stream, _)) = cached {
            return Ok(Some(*stream));
        }
        let row = executions::by_public_id(self.tenant, id.as_str()).first_blocking(&self.db)?;
        Ok(row.map(|row| row.id))
    }

    /// Adds the missing payloads to `values`, from the queue, the batch in flight or the database.
    fn load_payloads(&self, missing: MissingPayloads, values: &mut LoadedPayloads) -> Result<(), Error> {
        for position in missing.0 {
            let gone = || Error::Corrupt(format!("the payload of entry {} is gone", position.0));
            let bytes = match self.pending_payload(position) {
                Some(bytes) => bytes.to_vec(),
                None => {
                    let payload = payloads::by_position(self.tenant, position.0).first_blocking(&self.db)?;
                    payload.ok_or_else(gone)?.body
                }
            };
            let value: Value = serde_json::from_slice(&bytes)
                .map_err(|error| Error::Corrupt(format!("the payload of entry {}: {error}", position.0)))?;
            values.0.insert(position, Arc::new(value));
        }
        Ok(())
    }

    /// The payload of an entry in the queue or the batch in flight.
    fn pending_payload(&self, position: Position) -> Option<&[u8]> {
        let writing = self.in_flight.as_deref().map(|batch| batch.entries.as_slice());
        let entries = [Some(self.queue.entries.as_slice()), writing];
        entries.into_iter().flatten().find_map(|entries| {
            let first = entries.first()?.position;
            let offset = position.0.checked_sub(first)?;
            entries.get(usize::try_from(offset).ok()?)?.payload.as_deref()
        })
    }

    /// Caches the state and returns its progress; the command's entries begin at `first_entry` in the queue.
    fn cache_and_report(&mut self, stream: StreamId, execution: Execution, first_entry: usize) -> DriveState {
        let new_entries = &self.queue.entries[first_entry.min(self.queue.entries.len())..];
        let mut progress = DriveState::from_execution(stream, &execution);
        let arguments = progress.due.calls.iter().filter_map(|call| {
            let position = call.arguments?.position;
            let entry = new_entries.iter().find(|entry| entry.position == position.0)?;
            Some((position, entry.payload.clone()?))
        });
        progress.arguments = arguments.collect();
        self.cache_execution(stream, execution);
        progress
    }
}

fn no_such_execution() -> Error {
    Refusal::NoSuchExecution.into()
}

impl LedgerRequest for StartSessionRequest {
    type Reply = DriveState;

    /// Queues the first entry of a session's part, unless the part exists.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<DriveState, Error> {
        if let Some(stream) = pending.find_started(&self.id)? {
            return pending.with_execution(stream, |execution| DriveState::from_execution(stream, execution));
        }
        let started =
            build_session_start_event(self.id.clone(), &self.plan, &self.context, self.session.clone());
        let (stream, execution) = pending.start_stream(started, None, &self.plan, &self.salt, actor);
        let first_entry = pending.queue.entries.len();
        let row = projection::execution_row(stream, &execution);
        pending.queue.statements.push(executions::insert(pending.tenant, &row));
        Ok(pending.cache_and_report(stream, execution, first_entry))
    }
}

impl LedgerRequest for StartRequest {
    type Reply = DriveState;

    /// Queues an execution's first entry and its row. If the request names a node, also that node's claim and
    /// the events that follow from it; otherwise any node claims the execution later.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<DriveState, Error> {
        let (started, payload) = build_start_event(
            self.id.clone(),
            self.plan_ref.clone(),
            &self.plan,
            self.inputs.as_ref(),
            &self.context,
            &self.terms,
            &self.salt,
        );
        pending.plans.insert(self.plan.clone());
        let (stream, mut execution) = pending.start_stream(started, payload, &self.plan, &self.salt, actor);
        let first_entry = pending.queue.entries.len();
        if let Some(node) = &self.node {
            let (node, expected_epoch) = (node.clone(), execution.epoch);
            let claim = Command::Claim { node, expected_epoch, unsent: Default::default() };
            execution = pending.advance(stream, execution, &claim, actor)?.0;
        }
        let row = projection::execution_row(stream, &execution);
        pending.queue.statements.push(executions::insert(pending.tenant, &row));
        Ok(pending.cache_and_report(stream, execution, first_entry))
    }
}

impl LedgerRequest for CommandRequest {
    type Reply = DriveState;

    /// Decides a command on an execution and queues its events and row changes. Err also for a refusal.
    fn decide(&self, pending: &mut PendingState, actor: &Arc<str>) -> Result<DriveState, Error> {
        let (stream, command) = (self.stream, &*self.command);
        let execution = pending.take_execution(stream)?;
        if self.as_of.is_some_and(|seen| seen != execution.position) {
            pending.cache_execution(stream, execution);
            return Err(Refusal::StaleQuestion.into());
        }
        let before = projection::summarize(&execution);
        let first_entry = pending.queue.entries.len();
        let (execution, refusal) = pending.advance(stream, execution, command, actor)?;
        let after = projection::summarize(&execution);
        if before != after {
            let row = projection::execution_row(stream, &execution);
            let change = projection::execution_change(&row);
            pending.queue.statements.push(executions::update(pending.tenant, stream, &change));
        }
        if matches!(command, Command::ErasePayloads) && pending.queue.entries.len() > first_entry {
            pending.queue_erasure(stream);
        }
        let progress = pending.cache_and_report(stream, execution, first_entry);
        refusal.map_or(Ok(progress), |refusal| Err(refusal.into()))
    }

    fn command(&self) -> Option<&CommandRequest> {
        Some(self)
    }
}
