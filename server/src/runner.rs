//! Drives executions: claims them, makes the calls that are due, hands the outcomes in.
//! Correctness comes from the epoch; liveness from the seat's lease. It decides no policy: whether to
//! retry is the engine's.
//!
//!   claim ─► due ─► perform (tools) ─► report ─► due ─► …        every arrow goes through the one door

mod board;
mod drive;
mod lease;
mod perform;
mod pins;
mod seat;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Command, Refusal};
use actbook_engine::id::StepNo;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::bell::{Bell, Listening};
use crate::ledger::{self, Ledger, Progress};
use crate::store::{self, Db, seats};
use crate::tools::Tools;
use board::Board;
pub use drive::Halt;
use lease::Lease;
pub use seat::is_gone;
use seat::{Proof, Seat, Sent};

/// How soon another's word is read again where it could not be.
const READ_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the seat file cannot be kept: {0}")]
    Seat(#[from] std::io::Error),
}

impl Error {
    fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) | Self::Ledger(ledger::Error::Store(error)) if error.may_pass())
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Ledger(refusal.into())
    }
}

/// One process's place at the table. Dropping the last clone frees it.
#[derive(Clone, Debug)]
pub struct Runner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    tenant: i64,
    ledger: Ledger,
    tools: Arc<Tools>,
    seat: Seat,
    actor: Arc<str>,
    proofs: Mutex<HashMap<String, Arc<Sent>>>,
    board: Board,
    lease: watch::Receiver<Lease>,
    _listening: Listening,
    renewing: Mutex<Option<JoinHandle<()>>>,
    /// Ends the background tasks with a word, or when dropped.
    alive: watch::Sender<()>,
}

impl Inner {
    /// The database is back once the lease is renewed. Where it is back and refuses, asking again after a while shows it.
    async fn answers_again(&self) {
        let mut lease = self.lease.clone();
        lease.mark_unchanged();
        let renewed = async {
            if lease.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        drop(tokio::time::timeout(lease::LEASE, renewed).await);
    }
}

impl Runner {
    pub async fn open(
        db: Db,
        tenant: i64,
        ledger: Ledger,
        bell: Bell,
        tools: Arc<Tools>,
        seats_folder: &std::path::Path,
    ) -> Result<Self, Error> {
        let seat = Seat::take(seats_folder)?;
        seats::sweep(&db, lease::LEASE_MS).await?;
        let (renewed, lease) = watch::channel(Lease::take(&db, &seat).await?);
        let listening = bell.listen()?;
        let (alive, dead) = watch::channel(());
        let renewing = tokio::spawn(lease::renew(db.clone(), lease::Names::of(&seat), renewed, dead.clone()));
        tokio::spawn(hear(ledger.clone(), bell.subscribe_outside(), dead));
        let actor = ledger::DRIVER.into();
        let proofs = Mutex::default();
        let inner = Inner {
            db,
            tenant,
            ledger,
            tools,
            seat,
            actor,
            proofs,
            board: Board::default(),
            lease,
            _listening: listening,
            renewing: Mutex::new(Some(renewing)),
            alive,
        };
        Ok(Self(Arc::new(inner)))
    }

    pub fn seat_id(&self) -> actbook_engine::id::SeatId {
        actbook_engine::id::SeatId::new(self.0.seat.id())
    }

    /// What a step's call last said of its progress, if it is out in this process.
    pub fn progress(&self, stream: u64, step: StepNo) -> Option<crate::tools::Progress> {
        self.0.board.read(stream, step)
    }

    pub fn tools(&self) -> &Arc<Tools> {
        &self.0.tools
    }

    /// Leaves the table: the next process need not wait for the lease to run out.
    pub async fn close(&self) {
        self.stop_renewing().await;
        if let Err(error) = seats::release(&self.0.db, self.0.seat.id()).await {
            tracing::warn!("the seat could not be released, its lease will run out: {error}");
        }
        self.0.tools.shutdown().await;
    }

    /// A renewal on its way would take the seat again once it is released.
    async fn stop_renewing(&self) {
        self.0.alive.send_replace(());
        let renewing = self.0.renewing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(renewing) = renewing
            && let Err(error) = renewing.await
        {
            tracing::debug!("renewing the seat's lease did not end by itself: {error}");
        }
    }

    /// Takes an execution up, unless somebody living drives it.
    pub async fn claim(&self, stream: u64, place: Digest) -> Result<Claimed, Error> {
        loop {
            match self.try_to_claim(stream, place).await {
                Err(Error::Ledger(ledger::Error::Refused(refusal)))
                    if refusal.code == "claimed_by_another" => {}
                claimed => return claimed,
            }
        }
    }

    async fn try_to_claim(&self, stream: u64, place: Digest) -> Result<Claimed, Error> {
        let (at_home, driver, after, ended) = self.0.ledger.look(stream, |execution| {
            // One that only has to come to its end calls nothing more, and may do so anywhere.
            let at_home = execution.place == place || execution.stop.is_some();
            (at_home, execution.seat.clone(), execution.epoch, execution.ended.is_some())
        })?;
        if ended {
            return Ok(Claimed::Ended);
        }
        if !at_home {
            return Err(other_place().into());
        }
        let mut unsent = BTreeSet::new();
        if let Some(seat) = driver.filter(|seat| seat.as_str() != self.0.seat.id()) {
            match self.proof(seat.as_str()) {
                Proof::Sent(sent) => {
                    unsent = self.0.ledger.look(stream, |execution| sent.unsent(stream, execution))?
                }
                Proof::Alive | Proof::None if self.lease_runs(seat.as_str()).await? => {
                    return Ok(Claimed::DrivenElsewhere);
                }
                Proof::Alive | Proof::None => {}
            }
        }
        let command = Command::Claim { seat: self.seat_id(), after, unsent };
        let progress = self.0.ledger.command(&self.0.actor, stream, command).await?;
        Ok(Claimed::Mine(Box::new(progress)))
    }

    /// What a dead process can have sent is read once, and what it left running is ended then.
    fn proof(&self, seat: &str) -> Proof {
        let mut proofs = self.0.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = proofs.get(seat) {
            return Proof::Sent(sent.clone());
        }
        let proof = self.0.seat.proof(seat);
        if let Proof::Sent(sent) = &proof {
            sent.end_children();
            proofs.insert(seat.to_owned(), sent.clone());
        }
        proof
    }

    async fn lease_runs(&self, seat: &str) -> Result<bool, Error> {
        let now = self.0.db.now_ms().await?;
        Ok(seats::by_id(seat).first(&self.0.db).await?.is_some_and(|row| row.until > now))
    }
}

/// Another project's process on the same database must not run the plan with the wrong tools.
pub fn other_place() -> Refusal {
    let message = "this execution was started with other definitions of its servers";
    let cure = "go to the folder it was started from, or name its config with --config; `--here` with `resume` or `undo` goes on with those of this place";
    Refusal::new("other_place", message, cure)
}

#[derive(Debug)]
pub enum Claimed {
    Mine(Box<Progress>),
    DrivenElsewhere,
    /// There is nothing left to drive.
    Ended,
}

/// Waits for it; for ever where nobody can make it so any more.
async fn becomes<T>(mut watched: watch::Receiver<T>, so: impl FnMut(&T) -> bool) {
    if watched.wait_for(so).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Another process's word: wakes the drivers of the executions it was about. It is said once, so what cannot be
/// read is read later.
async fn hear(ledger: Ledger, mut bell: watch::Receiver<u64>, mut dead: watch::Receiver<()>) {
    let mut unread = false;
    loop {
        tokio::select! {
            changed = bell.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(READ_AGAIN), if unread => {}
            _ = dead.changed() => return,
        }
        let position = *bell.borrow_and_update();
        let read = ledger.heard(position).await;
        unread = read.is_err();
        if let Err(error) = read {
            tracing::debug!("another process's word could not be read: {error}");
        }
    }
}
