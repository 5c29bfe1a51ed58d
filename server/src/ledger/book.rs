//! What the mutex guards: the states as they will be once everything queued is durable, and the batch
//! that will make it so.

mod head;
mod library;
mod memory;
mod waiting;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Weak};

use actbook_engine::act;
use actbook_engine::chain::{self, Parts};
use actbook_engine::event::Event;
use actbook_engine::execution::{
    self, Command, Execution, Fresh, Missing, No, Now, Recorded, Refusal, Values, begin, decide, evolve,
    follow,
};
use actbook_engine::id::Position;
use actbook_engine::library::Library;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use self::waiting::{Queue, Spent};
pub(super) use self::waiting::{Said, Taken, Waiter};
use super::fold::{self, Plans};
use super::{Answer, Asked, Error, Progress, Reply, Request, RequestKey, Start};
use crate::clock::Clock;
use crate::store::{Batch, Db, Entry, Head, executions, journal, payloads, project, requests};

/// Entries that follow by themselves are written as the driver's own word.
pub const DRIVER: &str = "actbook";

/// More than this from one command is a loop in the engine, and stops here.
const FOLLOW_MAX: usize = 50_000;

/// States kept in memory at most; what is not kept is folded again when asked for.
const CACHED_MAX: usize = 4_000;

/// Where a stream stands: the version and the position of its last entry.
#[derive(Clone, Copy, Debug)]
struct Stands {
    version: u64,
    position: u64,
}

impl Stands {
    /// Before its first entry, which will lie where its number says.
    fn begins(stream: u64) -> Self {
        Self { version: 0, position: stream }
    }
}

type Keys = HashMap<(String, String), requests::Request>;

#[derive(Debug)]
pub(super) struct Book {
    db: Db,
    tenant: i64,
    clock: Arc<Clock>,
    /// [`DRIVER`], for every entry to share.
    driver: Arc<str>,
    plans: Plans,
    /// After everything queued; none: to be read.
    head: Option<Head>,
    /// After everything that the writer has written or is writing.
    taken: Option<Head>,
    /// Up to here whoever waits for another's word has been woken; none: the head was never read.
    woken: Option<u64>,
    /// Up to here the journal is known to be in the database.
    durable: u64,
    executions: HashMap<u64, Execution>,
    /// Of these, the ones that have ended: to be let go of once they are durable.
    over: Vec<u64>,
    library: Option<Library>,
    memory: memory::Memory,
    /// Request keys that are queued, and those that are being written.
    keys: Keys,
    keys_writing: Keys,
    queue: Queue,
    writing: Option<Arc<Batch>>,
    spent: Vec<Spent>,
    watchers: HashMap<u64, Weak<Notify>>,
    pub closed: bool,
    /// The writer's thread waits to be told of work.
    pub writer_waits: bool,
    /// The writer's thread sees to it that other processes hear of what was written.
    pub word_is_due: bool,
}

impl Book {
    pub fn new(db: Db, tenant: i64, clock: Arc<Clock>) -> Self {
        Self {
            db,
            tenant,
            clock,
            driver: DRIVER.into(),
            plans: Plans::default(),
            head: None,
            taken: None,
            woken: None,
            durable: 0,
            executions: HashMap::new(),
            over: Vec::new(),
            library: None,
            memory: memory::Memory::default(),
            keys: Keys::new(),
            keys_writing: Keys::new(),
            queue: Queue::default(),
            writing: None,
            spent: Vec::new(),
            watchers: HashMap::new(),
            closed: false,
            writer_waits: false,
            word_is_due: false,
        }
    }

    /// Decides at once; the answer goes out when the batch is durable. Refusals wait too, for they
    /// count only if nobody else has moved the journal.
    pub fn take_in(&mut self, asked: Asked, answer: oneshot::Sender<Answer>) {
        let mark = (self.queue.entries.len(), self.queue.others.len(), self.head);
        let reply = self.decide(&asked);
        if reply.is_err() {
            self.queue.entries.truncate(mark.0);
            self.queue.others.truncate(mark.1);
            self.head = mark.2.or(self.head);
        }
        self.queue.waiters.push(Waiter { asked, said: Said { reply, to: answer } });
    }

    pub fn db(&self) -> Db {
        self.db.clone()
    }

    /// It comes from the one driver in this process, so no batch would be larger for waiting; and the
    /// caller's thread can be spared for it.
    pub fn alone(&self, asked: &Asked) -> bool {
        asked.is_progress() && self.watchers.len() <= 1 && self.db.writes_here()
    }

    pub fn idle(&self) -> bool {
        self.queue.waiters.is_empty()
    }

    /// Hands the queue to the writer.
    pub fn take_out(&mut self) -> Option<Taken> {
        let (Some(new), Some(old)) = (self.head, self.taken) else { return None };
        let Queue { entries, others, waiters } = std::mem::take(&mut self.queue);
        let urgent = waiters.iter().any(|waiter| !waiter.asked.is_progress());
        let batch = Arc::new(Batch { tenant: self.tenant, old, new, entries, others, urgent });
        self.taken = Some(new);
        if self.woken == Some(old.position) {
            self.woken = Some(new.position);
        }
        self.keys_writing = std::mem::take(&mut self.keys);
        self.writing = Some(batch.clone());
        Some(Taken { batch, waiters })
    }

    pub fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.queue.waiters)
    }

    /// The batch is durable: those who waited for it can be answered.
    pub fn written(&mut self, batch: Arc<Batch>, waiters: Vec<Waiter>) -> Vec<Said> {
        self.writing = None;
        self.keys_writing.clear();
        self.durable = batch.new.position;
        self.memory.durable(self.durable);
        let ended = self.let_go(self.durable);
        waiters.iter().filter_map(Waiter::moved_from_outside).for_each(|stream| self.wake(stream));
        let (asked, said) = waiters.into_iter().map(|waiter| (waiter.asked, waiter.said)).unzip();
        self.spent.push(Spent { batch, asked, ended });
        said
    }

    pub fn take_spent(&mut self) -> Vec<Spent> {
        std::mem::take(&mut self.spent)
    }

    /// What has ended need not be at hand any more; nor need anything, where there is too much of it.
    fn let_go(&mut self, durable: u64) -> Vec<Execution> {
        let is_ahead = |execution: &Execution| execution.position.0 > durable;
        if self.executions.len() > CACHED_MAX {
            return self.executions.extract_if(|_, kept| !is_ahead(kept)).map(|(_, kept)| kept).collect();
        }
        let over = std::mem::take(&mut self.over).into_iter();
        let (ahead, durable): (_, Vec<_>) =
            over.partition(|stream| self.executions.get(stream).is_some_and(is_ahead));
        self.over = ahead;
        durable.iter().filter_map(|stream| self.executions.remove(stream)).collect()
    }

    /// Has an execution at hand for whoever asks next.
    fn keep(&mut self, stream: u64, execution: Execution) {
        if execution.ended.is_some() {
            self.over.push(stream);
        }
        self.executions.insert(stream, execution);
    }

    /// Nothing in memory holds any more: forgets it all and decides everything pending again.
    pub fn start_over(&mut self, pending: Vec<Waiter>) {
        let queued = std::mem::take(&mut self.queue).waiters;
        self.head = None;
        self.taken = None;
        self.executions.clear();
        self.over.clear();
        self.library = None;
        self.memory.clear();
        self.keys.clear();
        self.keys_writing.clear();
        self.writing = None;
        for Waiter { asked, said } in pending.into_iter().chain(queued) {
            self.take_in(asked, said.to);
        }
    }

    pub fn watch(&mut self, stream: u64) -> Arc<Notify> {
        self.watchers.retain(|_, watcher| watcher.strong_count() > 0);
        if let Some(watcher) = self.watchers.get(&stream).and_then(Weak::upgrade) {
            return watcher;
        }
        let watcher = Arc::new(Notify::new());
        self.watchers.insert(stream, Arc::downgrade(&watcher));
        watcher
    }

    pub fn is_watched(&self, stream: u64) -> bool {
        self.watchers.get(&stream).is_some_and(|watcher| watcher.strong_count() > 0)
    }

    pub fn wake(&self, stream: u64) {
        if let Some(watcher) = self.watchers.get(&stream).and_then(Weak::upgrade) {
            watcher.notify_one();
        }
    }

    pub fn heard(&mut self, position: u64) -> Result<(), Error> {
        if self.woken.is_some_and(|woken| position <= woken) {
            return Ok(());
        }
        self.start_over(Vec::new());
        self.wake_all()
    }

    /// What was to stand after this position may be another's.
    pub fn not_written(&mut self, after: u64) {
        self.woken = self.woken.map(|woken| woken.min(after));
    }

    /// Wakes the drivers of everything that others have appended.
    pub fn wake_all(&mut self) -> Result<(), Error> {
        self.hold_head()?;
        let (Some(woken), Some(head)) = (self.woken, self.taken) else { return Ok(()) };
        if !self.watchers.is_empty() {
            for stream in
                journal::streams_between(self.tenant, woken, head.position).all_blocking(&self.db)?
            {
                self.wake(stream);
            }
        }
        self.woken = Some(head.position);
        Ok(())
    }

    fn decide(&mut self, asked: &Asked) -> Answer {
        self.hold_head()?;
        if let Some(key) = &asked.key
            && let Some(repeated) = self.repeated(key)?
        {
            return Ok(repeated);
        }
        let reply = match &asked.request {
            Request::SavePlan(plan) => self.save(plan, &asked.actor)?,
            Request::AcceptTool { digest, tool, reason } => {
                self.accept(*digest, tool, reason.as_deref(), &asked.actor)?
            }
            Request::DeletePlan { id } => self.delete(id, &asked.actor)?,
            Request::Start(start) => Reply::Moved(Box::new(self.start(start, &asked.actor)?)),
            Request::Do { stream, command } => {
                Reply::Moved(Box::new(self.command(*stream, command, &asked.actor)?))
            }
            Request::Act { facts, status, project, salt } => {
                let fresh = act::record(facts, *status, project.as_deref(), salt)?;
                let stream = self.next_position().0;
                self.queue.others.push(payloads::insert_salt(self.tenant, stream, salt));
                Reply::Recorded(self.append(stream, Stands::begins(stream), fresh, &asked.actor).position)
            }
            Request::EraseAct { stream } => self.erase_act(*stream, &asked.actor)?,
            Request::SetNote(note) => self.set_note(note, &asked.actor)?,
            Request::DeleteNote { project, scope, key } => {
                self.delete_note((project.clone(), scope.clone(), key.clone()), &asked.actor)?
            }
            Request::EraseNote { stream, version } => self.erase_note(*stream, *version, &asked.actor)?,
            Request::SetTasks { tasks, fresh } => self.set_tasks(tasks, *fresh, &asked.actor)?,
            Request::AddTask(task) => self.add_task(task, &asked.actor)?,
        };
        if let Some(key) = &asked.key {
            self.remember(key, &reply);
        }
        Ok(reply)
    }

    fn repeated(&mut self, key: &RequestKey) -> Result<Option<Reply>, Error> {
        let name = (key.caller.clone(), key.key.clone());
        let pending = self.keys.get(&name).or_else(|| self.keys_writing.get(&name)).cloned();
        let found = match pending {
            Some(found) => Some(found),
            None => requests::find(self.tenant, &key.caller, &key.key).first_blocking(&self.db)?,
        };
        match found {
            None => Ok(None),
            Some(found) if found.digest == key.digest.0 => Ok(Some(Reply::Repeated(found.result))),
            Some(_) => {
                let message = format!("the key `{}` was used for another request", key.key);
                Err(Refusal::new("key_reused", message, "use a new key for a new request").into())
            }
        }
    }

    fn remember(&mut self, key: &RequestKey, reply: &Reply) {
        let result = match reply {
            Reply::Saved { plan, .. } => format!("{}@{}", plan.id, plan.version),
            Reply::Moved(progress) => progress.id.to_string(),
            Reply::Recorded(position) => position.0.to_string(),
            Reply::Deleted | Reply::Accepted { .. } => String::new(),
            Reply::Repeated(result) => result.clone(),
        };
        let request = requests::Request { digest: key.digest.0.to_vec(), result, at: self.clock.now_ms() };
        self.queue.others.push(requests::insert(self.tenant, &key.caller, &key.key, &request));
        self.keys.insert((key.caller.clone(), key.key.clone()), request);
    }

    fn erase_act(&mut self, stream: u64, actor: &Arc<str>) -> Result<Reply, Error> {
        let act = fold::fold_act(&self.db, self.tenant, stream)?.ok_or_else(no_such_execution)?;
        let writing = self.writing.iter().flat_map(|batch| &batch.entries);
        let on_its_way = self.queue.entries.iter().chain(writing).any(|entry| entry.stream == stream);
        if let Some(erased) = act.erase().filter(|_| !on_its_way) {
            self.append(stream, Stands { version: act.version, position: stream }, erased.into(), actor);
            self.queue.others.push(payloads::erase_of_stream(self.db.dialect(), self.tenant, stream));
            self.queue.others.push(payloads::erase_salt(self.tenant, stream));
        }
        Ok(Reply::Deleted)
    }

    fn start(&mut self, start: &Start, actor: &Arc<str>) -> Result<Progress, Error> {
        let id = start.id.clone();
        let first = begin(
            id,
            start.plan_ref.clone(),
            &start.plan,
            start.inputs.as_ref(),
            &start.context,
            &start.terms,
            &start.salt,
        );
        let stream = self.next_position().0;
        let recorded = self.append(stream, Stands::begins(stream), first, actor);
        let Event::ExecutionStarted(started) = &recorded.event else {
            unreachable!("begin gives an execution's start")
        };
        self.plans.put(start.plan.clone());
        let mut execution = execution::open(
            started,
            recorded.position,
            recorded.at_ms,
            start.plan.clone(),
            start.salt.clone(),
        );
        self.queue.others.push(payloads::insert_salt(self.tenant, stream, &start.salt));
        let mark = self.queue.entries.len();
        if let Some(seat) = &start.seat {
            let claim =
                Command::Claim { seat: seat.clone(), after: execution.epoch, unsent: Default::default() };
            execution = self.advance(stream, execution, &claim, actor)?.0;
        }
        self.queue.others.push(executions::insert(self.tenant, &project::execution(stream, &execution)));
        Ok(self.moved(stream, execution, mark))
    }

    pub fn plans(&self) -> Plans {
        self.plans.clone()
    }

    pub fn look<T>(&mut self, stream: u64, look: impl FnOnce(&Execution) -> T) -> Result<T, Error> {
        self.hold_head()?;
        let execution = self.execution(stream)?;
        let seen = look(&execution);
        self.keep(stream, execution);
        Ok(seen)
    }

    pub fn at_hand(&self, stream: u64) -> Option<Execution> {
        self.executions.get(&stream).filter(|execution| execution.position.0 <= self.durable).cloned()
    }

    /// Folds many executions in one go, for a process that is about to take them up.
    pub fn warm(&mut self, streams: &[u64]) -> Result<(), Error> {
        self.hold_head()?;
        let cold: Vec<u64> =
            streams.iter().copied().filter(|stream| !self.executions.contains_key(stream)).collect();
        let folded = fold::fold_each(&self.db, self.tenant, &cold, &self.plans)?;
        for (stream, execution) in cold.into_iter().zip(folded) {
            execution.into_iter().for_each(|execution| self.keep(stream, execution));
        }
        Ok(())
    }

    /// Takes the state out of the cache, or folds it; whoever takes it puts it back.
    fn execution(&mut self, stream: u64) -> Result<Execution, Error> {
        match self.executions.remove(&stream) {
            Some(execution) => Ok(execution),
            None => fold::fold(&self.db, self.tenant, stream, &self.plans)?.ok_or_else(no_such_execution),
        }
    }

    fn command(&mut self, stream: u64, command: &Command, actor: &Arc<str>) -> Result<Progress, Error> {
        let execution = self.execution(stream)?;
        let before = project::summary(&execution);
        let mark = self.queue.entries.len();
        let (execution, refusal) = self.advance(stream, execution, command, actor)?;
        let after = project::summary(&execution);
        if before != after {
            let row = project::execution(stream, &execution);
            self.queue.others.push(executions::update(self.tenant, stream, &project::change(&row)));
        }
        if matches!(command, Command::Erase) && self.queue.entries.len() > mark {
            self.queue.others.push(payloads::erase_of_stream(self.db.dialect(), self.tenant, stream));
            self.queue.others.push(payloads::erase_salt(self.tenant, stream));
        }
        let progress = self.moved(stream, execution, mark);
        refusal.map_or(Ok(progress), |refusal| Err(refusal.into()))
    }

    /// Decides, and for the driver goes on with whatever follows. A refusal leaves the state as it was.
    fn advance(
        &mut self,
        stream: u64,
        mut execution: Execution,
        command: &Command,
        actor: &Arc<str>,
    ) -> Result<(Execution, Option<Refusal>), Error> {
        let mut values = Values::default();
        let events = loop {
            match decide(&execution, command, &values) {
                Ok(events) => break events,
                Err(No::Refused(refusal)) => return Ok((execution, Some(refusal))),
                Err(No::Missing(missing)) => self.load(missing, &mut values)?,
            }
        };
        for fresh in events {
            execution = self.record(stream, execution, fresh, actor)?;
        }
        let claims = matches!(command, Command::Claim { .. } | Command::ClaimAgain { .. });
        if !claims && command.epoch() != Some(execution.epoch) {
            return Ok((execution, None));
        }
        let driver = self.driver.clone();
        for _ in 0..FOLLOW_MAX {
            match follow(&execution, self.now(), &values) {
                Err(missing) => self.load(missing, &mut values)?,
                Ok(events) if events.is_empty() => return Ok((execution, None)),
                Ok(events) => {
                    for fresh in events {
                        execution = self.record(stream, execution, fresh, &driver)?;
                    }
                }
            }
        }
        Err(Error::Corrupt(format!("execution {} goes round in circles", execution.id)))
    }

    fn record(
        &mut self,
        stream: u64,
        execution: Execution,
        fresh: Fresh,
        actor: &Arc<str>,
    ) -> Result<Execution, Error> {
        let stands = Stands { version: execution.version, position: execution.position.0 };
        let recorded = self.append(stream, stands, fresh, actor);
        Ok(evolve(execution, &recorded)?)
    }

    fn now(&self) -> Now {
        // The hasher's keys are drawn at random; good enough to spread retries.
        let dice = std::hash::RandomState::new().build_hasher().finish();
        Now { at_ms: self.clock.now_ms(), dice }
    }

    fn next_position(&self) -> Position {
        Position(self.head.map_or(0, |head| head.position) + 1)
    }

    /// Chains one entry onto the queue.
    fn append(&mut self, stream: u64, stands: Stands, fresh: Fresh, actor: &Arc<str>) -> Recorded {
        let version = stands.version + 1;
        let head = self.head.expect("the head is read before anything is decided");
        let position = self.next_position();
        let (at, kind, body) = (self.clock.now_ms(), fresh.event.kind(), fresh.event.body());
        let parts = Parts {
            tenant: self.tenant as u64,
            position,
            stream,
            version,
            at_ms: at,
            actor,
            kind,
            body: &body,
        };
        let hash = chain::chain_hash(&head.hash, &chain::entry_hash(&parts));
        self.head = Some(Head { position: position.0, hash });
        self.queue.entries.push(Entry {
            position: position.0,
            stream,
            version,
            at,
            actor: actor.clone(),
            kind: kind.into(),
            body,
            hash,
            payload: fresh.payload,
            turns_page: journal::page_of(stands.position) != journal::page_of(position.0),
        });
        Recorded { position, at_ms: at, event: fresh.event }
    }

    /// Payloads that are still queued, being written, or in the database.
    fn load(&self, missing: Missing, values: &mut Values) -> Result<(), Error> {
        for position in missing.0 {
            let bytes = match self.queued(position) {
                Some(bytes) => bytes.to_vec(),
                None => {
                    let payload = payloads::at(self.tenant, position.0).first_blocking(&self.db)?;
                    payload
                        .ok_or_else(|| {
                            Error::Corrupt(format!("the payload of entry {} is gone", position.0))
                        })?
                        .body
                }
            };
            let value: Value = serde_json::from_slice(&bytes)
                .map_err(|error| Error::Corrupt(format!("the payload of entry {}: {error}", position.0)))?;
            values.0.insert(position, Arc::new(value));
        }
        Ok(())
    }

    fn queued(&self, position: Position) -> Option<&[u8]> {
        let writing = self.writing.as_deref().map(|batch| batch.entries.as_slice());
        let entries = [Some(self.queue.entries.as_slice()), writing];
        entries.into_iter().flatten().find_map(|entries| {
            let first = entries.first()?.position;
            let offset = position.0.checked_sub(first)?;
            entries.get(usize::try_from(offset).ok()?)?.payload.as_deref()
        })
    }

    /// The answer to a command, and the state kept for the next one.
    fn moved(&mut self, stream: u64, execution: Execution, mark: usize) -> Progress {
        let fresh = &self.queue.entries[mark.min(self.queue.entries.len())..];
        let mut progress = Progress::of(stream, &execution);
        let arguments = progress.due.calls.iter().filter_map(|call| {
            let position = call.arguments?.position;
            let entry = fresh.iter().find(|entry| entry.position == position.0)?;
            Some((position, entry.payload.clone()?))
        });
        progress.arguments = arguments.collect();
        self.keep(stream, execution);
        progress
    }
}

fn no_such_execution() -> Error {
    Refusal::new("no_such_execution", "there is no such execution", "`actbook list` shows them").into()
}
