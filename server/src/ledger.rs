//! The one door to the journal: command → load → fold → decide → append → ring.
//!
//! The caller's thread decides, evolves, serialises and chains under the mutex and pushes rows onto the
//! batch; one writer thread takes whatever has queued up, appends it in one transaction, and only then
//! answers. Where the head moved, everything pending is decided again on a fresh fold.
//! It knows how commands become appended events, never why a command was given.

mod book;
mod fold;
mod rebuild;
mod seen;
mod writer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use actbook_engine::chain::Digest;
use actbook_engine::event::{PlanRef, Reported};
use actbook_engine::execution::{Call, Command, Corrupt, Due, Execution, Facts, Refusal, StartContext, due};
use actbook_engine::id::{Epoch, ExecutionId, PlanId, Position, SeatId};
use actbook_engine::library::{Library, Pins, Placement};
use actbook_engine::note::{Note, Scope};
use actbook_engine::plan::Plan;
use actbook_engine::policy::Status;
use actbook_engine::task::Task;
use actbook_engine::terms::Terms;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::moment::Moment;
use crate::store::tools::Tool;
use crate::store::words::Words;
use crate::store::{self, Appender, Db};
use book::Book;
pub use book::DRIVER;
pub use fold::{LIBRARY, Plans, catch_up, fold, fold_library, look_again};
pub use rebuild::rebuild;
pub use seen::{catch_up_seen, catch_up_stretches};
use writer::Until;

/// An epoch that no driver has: a report under it is a fact from which nothing follows by itself.
pub const STALE_EPOCH: Epoch = Epoch(u64::MAX);

/// Somebody asks for something; `actor` is who the journal names.
#[derive(Clone, Debug)]
pub struct Asked {
    pub actor: Arc<str>,
    pub request: Request,
    pub key: Option<RequestKey>,
}

impl Asked {
    /// A driver goes on with its own execution.
    fn is_progress(&self) -> bool {
        let of_driver = |epoch| epoch != STALE_EPOCH;
        matches!(&self.request, Request::Do { command, .. } if command.epoch().is_some_and(of_driver))
    }
}

#[derive(Clone, Debug)]
pub enum Request {
    SavePlan(Box<PlanAsked>),
    DeletePlan {
        id: PlanId,
    },
    /// From here on this definition of the tool counts for every plan.
    AcceptTool {
        digest: Digest,
        tool: Tool,
        reason: Option<String>,
    },
    /// With a seat: the caller drives it from the start.
    Start(Box<Start>),
    Do {
        stream: u64,
        command: Arc<Command>,
    },
    /// An act that belongs to no execution.
    Act {
        facts: Box<Facts>,
        status: Option<Reported>,
        project: Option<String>,
        salt: Arc<[u8]>,
    },
    /// Erases what such an act keeps.
    EraseAct {
        stream: u64,
    },
    SetNote(Box<NoteAsked>),
    DeleteNote {
        project: Option<String>,
        scope: Scope,
        key: String,
    },
    /// Erases what a note keeps that is still at this version.
    EraseNote {
        stream: u64,
        version: u64,
    },
    /// New ones, or changes of those that are there; each with the salt of a stream that begins with it.
    SetTasks {
        tasks: Vec<(Task, Arc<[u8]>)>,
        fresh: bool,
    },
    /// A new one with a plan of its own, and an execution of it: all of it, or nothing.
    AddTask(Box<TaskAsked>),
}

#[derive(Clone, Debug)]
pub struct PlanAsked {
    pub plan: Arc<Plan>,
    pub new_id: PlanId,
    pub placement: Placement,
    /// None: its tools were not asked for.
    pub pins: Option<Pins>,
    /// The tools that they name, as they were described.
    pub tools: Vec<Tool>,
}

#[derive(Clone, Debug)]
pub struct TaskAsked {
    pub task: Task,
    pub salt: Arc<[u8]>,
    pub plan: PlanAsked,
    /// Of the plan as it is saved then, whatever this names.
    pub start: Option<Start>,
}

#[derive(Clone, Debug)]
pub struct NoteAsked {
    pub note: Note,
    /// By which it is found.
    pub words: Words,
    /// Of its stream, where this is its first value.
    pub salt: Arc<[u8]>,
}

#[derive(Clone, Debug)]
pub struct Start {
    pub id: ExecutionId,
    pub plan_ref: PlanRef,
    pub plan: Arc<Plan>,
    pub inputs: Option<Value>,
    pub context: StartContext,
    pub terms: Terms,
    pub salt: Arc<[u8]>,
    pub seat: Option<SeatId>,
}

/// The same key and the same request give the same answer; with another request it is refused.
#[derive(Clone, Debug)]
pub struct RequestKey {
    pub caller: String,
    pub key: String,
    pub digest: Digest,
}

#[derive(Clone, Debug)]
pub enum Reply {
    Saved {
        plan: PlanRef,
        fresh: bool,
    },
    Deleted,
    Accepted {
        fresh: bool,
    },
    Moved(Box<Progress>),
    /// Where the act stands in the journal.
    Recorded(Position),
    /// A request key that was used before: the public id of what it gave.
    Repeated(String),
}

/// Where an execution stands after a command, and what its driver has to do.
#[derive(Clone, Debug)]
pub struct Progress {
    pub stream: u64,
    pub id: ExecutionId,
    pub position: Position,
    pub epoch: Epoch,
    pub seat: Option<SeatId>,
    pub status: Status,
    pub due: Due,
    /// When this was decided. Who goes on driving keeps the moment at which it became the driver.
    pub decided: Moment,
    /// The arguments of the calls that this command started.
    pub arguments: Vec<(Position, Vec<u8>)>,
}

impl Progress {
    /// Where it stands now; nothing new led there.
    pub fn of(stream: u64, execution: &Execution) -> Self {
        Self {
            stream,
            id: execution.id.clone(),
            position: execution.position,
            epoch: execution.epoch,
            seat: execution.seat.clone(),
            status: execution.status(),
            due: due(execution),
            decided: Moment::now(),
            arguments: Vec::new(),
        }
    }

    pub fn arguments_of(&self, call: &Call) -> Option<&[u8]> {
        let position = call.arguments?.position;
        self.arguments.iter().find(|(at, _)| *at == position).map(|(_, bytes)| bytes.as_slice())
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the journal does not add up: {0}; run `actbook verify`")]
    Corrupt(String),
    #[error("the ledger is closed")]
    Closed,
}

impl From<Corrupt> for Error {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt.to_string())
    }
}

type Answer = Result<Reply, Error>;

/// One tenant's journal in this process. Clones are the same door.
#[derive(Clone, Debug)]
pub struct Ledger {
    door: Arc<Door>,
    /// Dropped last: tells the writer to finish and leave.
    _open: Arc<Open>,
}

#[derive(Debug)]
struct Door {
    book: Mutex<Book>,
    work: Condvar,
    /// Whoever holds it writes. Taken before the book, or only tried.
    pen: Mutex<Appender>,
    bell: Bell,
    clock: Arc<Clock>,
}

#[derive(Debug)]
struct Open(Arc<Door>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

impl Door {
    /// Decides; then leaves the writing to the writer, or does it here where nobody could join in.
    fn take_in(&self, asked: Asked, answer: oneshot::Sender<Answer>) -> Result<(), Error> {
        let mut book = self.lock();
        if book.closed {
            return Err(Error::Closed);
        }
        let alone = book.alone(&asked);
        book.take_in(asked, answer);
        let mut owes_word = false;
        if alone && let Ok(pen) = self.pen.try_lock() {
            let db = book.db();
            owes_word = db.write_here(|| writer::write(self, book, pen, Until::Written)).is_some();
            book = self.lock();
        }
        // A word to somebody who does not wait costs as much as one to somebody who does.
        let to_tell = owes_word && !std::mem::replace(&mut book.word_is_due, true);
        if book.writer_waits && (!book.idle() || to_tell) {
            self.work.notify_one();
        }
        let spent = book.take_spent();
        drop(book);
        drop(spent);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    pub fn open(db: Db, tenant: i64, bell: Bell) -> Result<Self, Error> {
        let pen = Mutex::new(db.appender()?);
        let clock = Arc::new(Clock::new());
        let book = Mutex::new(Book::new(db, tenant, clock.clone()));
        let door = Arc::new(Door { book, work: Condvar::new(), pen, bell, clock });
        writer::spawn(door.clone())?;
        let open = Arc::new(Open(door.clone()));
        Ok(Self { door, _open: open })
    }

    /// The clock that entries are stamped by, and that backoffs and time limits are measured with.
    pub fn clock(&self) -> &Clock {
        &self.door.clock
    }

    /// Answers once what was decided is durable.
    pub async fn ask(&self, asked: Asked) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.door.take_in(asked, answer)?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Tells when somebody else than its driver has moved an execution.
    pub fn watch(&self, stream: u64) -> Arc<Notify> {
        self.door.lock().watch(stream)
    }

    /// A driver in this process is at work on it.
    pub fn is_watched(&self, stream: u64) -> bool {
        self.door.lock().is_watched(stream)
    }

    /// The journal was seen at this position. Where that is news, another process has been at work.
    pub async fn heard(&self, position: u64) -> Result<(), Error> {
        self.door.lock().heard(position)
    }

    /// A look at an execution as it stands here, entries on their way included. A hint, not a fact.
    pub fn look<T>(&self, stream: u64, look: impl FnOnce(&Execution) -> T) -> Result<T, Error> {
        self.door.lock().look(stream, look)
    }

    /// An execution as it stood in the database not long ago; none: it is not at hand.
    pub fn at_hand(&self, stream: u64) -> Option<Execution> {
        self.door.lock().at_hand(stream)
    }

    /// A look at the library as it stands here. A hint, like any look.
    pub fn look_at_library<T>(&self, look: impl FnOnce(&Library) -> T) -> Result<T, Error> {
        self.door.lock().look_at_library(look)
    }

    /// Has these executions at hand: many are folded faster together than one by one.
    pub fn warm(&self, streams: &[u64]) -> Result<(), Error> {
        self.door.lock().warm(streams)
    }

    /// The parsed plans, shared by everybody who folds.
    pub fn plans(&self) -> Plans {
        self.door.lock().plans()
    }

    /// A command on one execution.
    pub async fn command(
        &self,
        actor: &Arc<str>,
        stream: u64,
        command: impl Into<Arc<Command>>,
    ) -> Result<Progress, Error> {
        let request = Request::Do { stream, command: command.into() };
        match self.ask(Asked { actor: actor.clone(), request, key: None }).await? {
            Reply::Moved(progress) => Ok(*progress),
            Reply::Saved { .. }
            | Reply::Deleted
            | Reply::Accepted { .. }
            | Reply::Recorded(_)
            | Reply::Repeated(_) => {
                unreachable!("a command without a key moves its execution")
            }
        }
    }
}
