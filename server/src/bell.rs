//! "The journal moved to position P": a wake-up, never data. Whoever is woken asks the store from
//! its own cursor; a ring that is missed or doubled changes nothing but the time of waking.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use crate::store::db::Watch;
use crate::store::{Db, Error};

/// One tenant's bell in this process. Clones are the same bell.
#[derive(Debug, Clone)]
pub struct Bell {
    db: Db,
    tenant: i64,
    position: watch::Sender<u64>,
    /// The same, but rung only by the database.
    outside: watch::Sender<u64>,
    listening: Arc<Mutex<Weak<Watch>>>,
}

/// Other processes' words are heard while one of these is held.
#[derive(Debug)]
pub struct Listening(#[expect(dead_code, reason = "held only for what its drop does")] Arc<Watch>);

impl Bell {
    pub fn new(db: Db, tenant: i64) -> Self {
        let (position, outside) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { db, tenant, position, outside, listening: Arc::default() }
    }

    /// Wakes everybody who subscribed, unless they already know of this position.
    pub fn ring(&self, position: u64) {
        ring(&self.position, position);
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.position.subscribe()
    }

    /// What the database tells while somebody listens: other processes' words, and the echo of our own.
    pub fn subscribe_outside(&self) -> watch::Receiver<u64> {
        self.outside.subscribe()
    }

    /// Hears other processes too, until the last guard is dropped.
    pub fn listen(&self) -> Result<Listening, Error> {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = listening.upgrade() {
            return Ok(Listening(shared));
        }
        let (position, outside) = (self.position.clone(), self.outside.clone());
        let moved = move |moved| {
            ring(&position, moved);
            ring(&outside, moved);
        };
        let started = Arc::new(self.db.watch(self.tenant, moved)?);
        *listening = Arc::downgrade(&started);
        Ok(Listening(started))
    }
}

fn ring(bell: &watch::Sender<u64>, position: u64) {
    bell.send_if_modified(|known| {
        let is_news = position > *known;
        *known = position.max(*known);
        is_news
    });
}
