//! The library's door: what the other doors offer, for the program that this crate is a part of. It
//! translates and holds no rules; everything it asks goes through `service`, under the program's name.
#![warn(missing_docs)]

mod builder;
mod executions;
mod memory;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;

use crate::caller::{Caller, Key};
use crate::error::Error;
use crate::service::{Background, Service};

pub use builder::Builder;
pub use watch::Watch;

/// How long calls in flight are waited for where the last client is dropped without a word.
const LEAVING: Duration = Duration::from_secs(30);

/// Actbook inside a program.
///
/// [`Client::builder`] opens one on a database, with the program's own executors. Clones are the same client;
/// several clients, processes and `actbook` itself may work on one database at once.
///
/// Executions run in the background of the runtime on which the client was opened: to drop the future of a
/// call, or a [`Watch`], stops nothing. Nothing that was answered is lost with the client. When the last
/// clone is dropped nothing further starts, and what is in flight is recorded while the runtime lives;
/// [`Client::shutdown`] waits for that. Where the process dies instead, whoever opens the database next with
/// executors of the same names takes its executions up: an attempt that may have begun and has no outcome is
/// unknown, and is not made again unless it may be.
#[derive(Clone, Debug)]
pub struct Client {
    house: Arc<House>,
    caller: Caller,
    key: Option<Arc<str>>,
}

/// What all clones share.
#[derive(Debug)]
struct House {
    background: Background,
    runtime: Handle,
    closed: AtomicBool,
}

impl Client {
    /// Opens one with all that it needs.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same client in another's name, as the journal writes it: `person:mia`, `agent:planner`. An approval
    /// is worth as much as the name under which it was given.
    #[must_use]
    pub fn acting_as(&self, actor: impl Into<Arc<str>>) -> Self {
        Self { caller: Caller::new(actor), ..self.clone() }
    }

    /// The same client under a request key: a change that is asked for twice with one key is made once, and
    /// both are answered alike, also after a crash. Another request under the key is refused.
    #[must_use]
    pub fn with_key(&self, key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// Leaves: nothing further starts, calls in flight are waited for this long at most, servers are ended.
    /// What was not waited for is unknown to whoever takes it up.
    pub async fn shutdown(&self, patience: Duration) {
        if self.house.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        leave(self.house.background.clone(), patience).await;
    }

    fn open(service: Service, caller: Caller, takes_up: bool) -> Self {
        let background = Background::new(service);
        if takes_up {
            let background = background.clone();
            tokio::spawn(async move { background.look_out().await });
        }
        let (runtime, closed) = (Handle::current(), AtomicBool::new(false));
        Self { house: Arc::new(House { background, runtime, closed }), caller, key: None }
    }

    fn service(&self) -> &Service {
        self.house.background.service()
    }

    /// Who asks, and for what: the key stands for this request and no other.
    fn asking(&self, request: &Value) -> Caller {
        let key = self.key.as_deref().map(|name| Key::new(name, request));
        self.caller.clone().with_key(key)
    }

    /// Whoever has left starts nothing.
    fn still_open(&self) -> Result<(), Error> {
        match self.house.closed.load(Ordering::Relaxed) {
            true => Err(Error::new("closed", "this client was shut down", "open another one")),
            false => Ok(()),
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            self.background.halt();
            self.runtime.spawn(leave(self.background.clone(), LEAVING));
        }
    }
}

async fn leave(background: Background, patience: Duration) {
    background.leave(patience).await;
    background.service().close().await;
}
