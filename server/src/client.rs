//! The library's interface: what the other interfaces offer, for a program that embeds this crate. It only
//! translates and holds no rules; every request goes through `service`, under the program's name.
#![warn(missing_docs)]

mod builder;
mod executions;
mod notes_and_tasks;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;

use crate::caller::{Caller, IdempotencyKey};
use crate::error::{ClosedPart, Error};
use crate::service::Service;

pub use builder::Builder;
pub use watch::Watch;

/// How long calls in flight are waited for if the last client is dropped without a shutdown.
const DROP_PATIENCE: Duration = Duration::from_secs(30);

/// Actbook inside a program.
///
/// [`Client::builder`] opens one on a database, with the program's own executors. Clones are the same client;
/// several clients, processes and `actbook` itself may work on one database at once.
///
/// Executions run in the background, on the runtime on which the client was opened: dropping the future of a
/// method, or a [`Watch`], stops no execution. Every change that a method has returned for is durable. When
/// the last clone is dropped, no further call starts, and the outcomes of calls in flight are recorded while
/// the runtime lives; [`Client::shutdown`] waits for that. If the process dies instead, the next process that
/// opens the database with executors of the same names takes its executions over: an attempt that may have
/// begun and has no outcome is unknown, and is repeated only if its plan or tool allows that.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
    caller: Caller,
    key: Option<Arc<str>>,
}

/// What all clones of a client share.
#[derive(Debug)]
struct ClientShared {
    service: Service,
    runtime: Handle,
    closed: AtomicBool,
}

impl Client {
    /// A builder for a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same client under another actor's name, as the journal writes it: `person:mia`, `agent:planner`.
    /// Actbook trusts the name, so the program must have checked who gives an approval.
    #[must_use]
    pub fn acting_as(&self, actor: impl Into<Arc<str>>) -> Self {
        Self { caller: Caller::new(actor), ..self.clone() }
    }

    /// The same client under an idempotency key: a request that is repeated with the same key takes effect
    /// once and gets the same result, also after a crash. A different request under the key is refused.
    #[must_use]
    pub fn with_key(&self, key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// Shuts down: no further call starts, calls in flight are waited for at most this long, MCP servers are
    /// stopped. A call that did not finish in time is unknown to the process that takes its execution over.
    pub async fn shutdown(&self, patience: Duration) {
        if self.shared.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        shut_down(self.shared.service.clone(), patience).await;
    }

    /// With `takes_up`, starts a task that takes over the executions of exited processes.
    fn open(service: Service, caller: Caller, takes_up: bool) -> Self {
        if takes_up {
            let background = service.background().clone();
            tokio::spawn(async move { background.run_takeover_loop().await });
        }
        let (runtime, closed) = (Handle::current(), AtomicBool::new(false));
        Self { shared: Arc::new(ClientShared { service, runtime, closed }), caller, key: None }
    }

    fn service(&self) -> &Service {
        &self.shared.service
    }

    /// The caller, with the client's idempotency key bound to this request.
    fn caller_for(&self, request: &Value) -> Caller {
        let key = self.key.as_deref().map(|name| IdempotencyKey::new(name, request));
        self.caller.clone().with_key(key)
    }

    /// Refuses after a shutdown, for methods that start something.
    fn check_open(&self) -> Result<(), Error> {
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed(ClosedPart::Client));
        }
        Ok(())
    }
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            self.service.background().halt();
            self.runtime.spawn(shut_down(self.service.clone(), DROP_PATIENCE));
        }
    }
}

/// Stops the background, waiting at most `patience` for calls in flight, and closes the service.
async fn shut_down(service: Service, patience: Duration) {
    service.background().halt_and_drain(patience).await;
    service.close().await;
}
