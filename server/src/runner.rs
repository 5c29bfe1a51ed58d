//! Drives executions: claims them, makes the calls that are due, hands the outcomes in.
//! Correctness comes from the epoch; liveness from the seat's lease. It decides no policy: whether to
//! retry is the engine's.
//!
//!   claim ─► due ─► perform (tools) ─► report ─► due ─► …        every arrow goes through the one door

mod drive;
mod perform;
mod seat;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use actbook_engine::chain::Digest;
use actbook_engine::execution::{Command, Refusal};
use tokio::sync::watch;

use crate::bell::{Bell, Listening};
use crate::ledger::{self, Ledger, Progress};
use crate::store::{self, Db, seats};
use crate::tools::Tools;
pub use drive::{Drive, Halt};
use seat::{Proof, Seat, Sent};

/// A driver that cannot reach the database for this long has lost its seat.
const LEASE_MS: i64 = 6_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the seat file cannot be kept: {0}")]
    Seat(#[from] std::io::Error),
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
    _listening: Listening,
    /// Ends the background tasks when dropped.
    _alive: watch::Sender<()>,
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
        seats::take(&db, seat.id(), seat.host(), seat.boot(), u64::from(std::process::id()), LEASE_MS)
            .await?;
        let listening = bell.listen()?;
        let (alive, dead) = watch::channel(());
        tokio::spawn(renew(db.clone(), seat.id().to_owned(), dead.clone()));
        tokio::spawn(hear(ledger.clone(), bell.subscribe(), dead));
        let actor = ledger::DRIVER.into();
        let proofs = Mutex::default();
        let inner =
            Inner { db, tenant, ledger, tools, seat, actor, proofs, _listening: listening, _alive: alive };
        Ok(Self(Arc::new(inner)))
    }

    pub fn seat_id(&self) -> actbook_engine::id::SeatId {
        actbook_engine::id::SeatId::new(self.0.seat.id())
    }

    pub fn tools(&self) -> &Arc<Tools> {
        &self.0.tools
    }

    /// Leaves the table: the next process need not wait for the lease to run out.
    pub async fn close(&self) {
        if let Err(error) = seats::release(&self.0.db, self.0.seat.id()).await {
            tracing::warn!("the seat could not be released, its lease will run out: {error}");
        }
        self.0.tools.shutdown().await;
    }

    /// Takes an execution up, unless somebody living drives it.
    pub async fn claim(&self, stream: u64, place: Digest) -> Result<Claimed, Error> {
        let (known_place, driver) =
            self.0.ledger.look(stream, |execution| (execution.place, execution.seat.clone()))?;
        if known_place != place {
            let message = "this execution was started with other definitions of its servers";
            let cure = "`actbook resume EXECUTION --here` goes on with those of this place";
            return Err(Refusal::new("other_place", message, cure).into());
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
        let command = Command::Claim { seat: self.seat_id(), unsent };
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

#[derive(Debug)]
pub enum Claimed {
    Mine(Box<Progress>),
    DrivenElsewhere,
}

async fn renew(db: Db, seat: String, mut dead: watch::Receiver<()>) {
    let every = std::time::Duration::from_millis(LEASE_MS as u64 / 3);
    while tokio::time::timeout(every, dead.changed()).await.is_err() {
        match seats::renew(&db, &seat, LEASE_MS).await {
            Ok(Some(_)) => {}
            Ok(None) => tracing::warn!("another process has taken this one's seat for dead"),
            Err(error) => tracing::warn!("the seat's lease could not be renewed: {error}"),
        }
    }
}

/// Another process's word: wakes the drivers of the executions it was about.
async fn hear(ledger: Ledger, mut bell: watch::Receiver<u64>, mut dead: watch::Receiver<()>) {
    loop {
        tokio::select! {
            changed = bell.changed() => match changed {
                Ok(()) => {
                    let position = *bell.borrow_and_update();
                    ledger.heard(position).await;
                }
                Err(_) => return,
            },
            _ = dead.changed() => return,
        }
    }
}
