//! MCP servers over stdio: started on first use, one child each, kept up, started again on the next
//! use after it ended. The only part of `tools` that names rmcp, together with `connection`.

mod connection;
mod line_limit;
mod raw;

use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actbook_engine::policy::Category;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{AbortHandle, JoinError};

use super::catalog::{CatalogError, Listing};
use super::classify::Came;
use super::process::ChildProcess;
use super::secret::{Secrets, Unresolved};
use super::{Call, stopped_unsent, without_own_variables};
use crate::config::{McpServer, Template};
use connection::Connection;

/// A server installed on first use (`npx -y …`) may take this long to come up.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(60);

type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>, String>>>;

pub struct StdioServer {
    name: String,
    definition: McpServer,
    folder: PathBuf,
    secrets: Secrets,
    permits: Semaphore,
    /// The one connection, up or coming up. A call that gives up waiting leaves it coming up.
    slot: Mutex<Option<Slot>>,
}

struct Slot {
    connecting: Connecting,
    starting: AbortHandle,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A server that is still coming up is ended with the task that starts it.
        self.starting.abort();
    }
}

/// All that a call waits for.
struct Ready<'a> {
    _permit: SemaphorePermit<'a>,
    connection: Arc<Connection>,
    listing: Arc<Listing>,
}

impl StdioServer {
    pub fn new(
        name: &str,
        definition: &McpServer,
        folder: &Path,
        secrets: &Secrets,
        permits: Semaphore,
    ) -> Self {
        Self {
            name: name.to_owned(),
            definition: definition.clone(),
            folder: folder.to_owned(),
            secrets: secrets.clone(),
            permits,
            slot: Mutex::default(),
        }
    }

    /// Also says whether the call was asked to stop.
    pub async fn call(
        &self,
        tool: &str,
        call: &Call,
        sending: impl Fn(Option<ChildProcess>) + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> (Came, bool) {
        if !matches!(call.arguments, Value::Object(_) | Value::Null) {
            let why = "the arguments of a tool are an object".to_owned();
            return (Came::NotSent { category: Category::InvalidArguments, why }, false);
        }
        let mut stop = pin!(stop);
        let ready = tokio::select! {
            biased;
            ready = self.ready(call.timeout) => ready,
            () = &mut stop => return (stopped_unsent(), true),
        };
        match ready {
            Ok(Ready { listing, .. }) if let Err(came) = listing.admit(call) => (came, false),
            Ok(Ready { connection, .. }) => {
                sending(Some(connection.process()));
                connection.call(tool, call, stop).await
            }
            Err(came) => (came, false),
        }
    }

    /// A place in the queue, then a connection that is up, and what the server offers on it.
    async fn ready(&self, patience: Duration) -> Result<Ready<'_>, Came> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        match tokio::time::timeout(patience, self.listed()).await {
            Ok(Ok((connection, listing))) => Ok(Ready { _permit: permit, connection, listing }),
            Ok(Err(why)) => Err(Came::NotSent { category: Category::Unavailable, why }),
            Err(_) => {
                let why =
                    format!("the server `{}` was not up within {patience:?}; nothing was sent", self.name);
                Err(Came::NotSent { category: Category::Timeout, why })
            }
        }
    }

    /// The server's tools, in its own order.
    pub async fn listing(&self) -> Result<Arc<Listing>, CatalogError> {
        let unreachable = |why| CatalogError::Unreachable { server: self.name.clone(), why };
        self.listed().await.map(|(_, listing)| listing).map_err(unreachable)
    }

    /// Of one and the same connection: a server that was started again may offer other tools.
    async fn listed(&self) -> Result<(Arc<Connection>, Arc<Listing>), String> {
        let connection = self.connection().await?;
        let listing = connection.listing(&self.name).await?;
        Ok((connection, listing))
    }

    pub async fn shutdown(&self) {
        let current = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(connection)) = current.as_ref().and_then(|slot| slot.connecting.peek()) {
            connection.close().await;
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, String> {
        self.connecting()?.await
    }

    fn connecting(&self) -> Result<Connecting, String> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Slot { connecting, .. }) = slot.as_ref() {
            match connecting.peek() {
                None => return Ok(connecting.clone()),
                Some(Ok(connection)) if connection.is_up() => return Ok(connecting.clone()),
                Some(Ok(_) | Err(_)) => {}
            }
        }
        let name = self.name.clone();
        let command =
            self.command().map_err(|problem| format!("the server `{name}` cannot be started: {problem}"))?;
        let task = tokio::spawn(connection::start(name.clone(), command, self.secrets.clone()));
        let starting = task.abort_handle();
        let ended = move |ended: Result<_, JoinError>| {
            ended.unwrap_or_else(|error| Err(format!("starting the server `{name}` was given up: {error}")))
        };
        let connecting: Connecting = task.map(ended).boxed().shared();
        *slot = Some(Slot { connecting: connecting.clone(), starting });
        Ok(connecting)
    }

    fn command(&self) -> Result<Command, Unresolved> {
        let McpServer::Stdio { command, args, env, cwd } = &self.definition else {
            unreachable!("a server with a url is not made into a stdio server");
        };
        let fill = |template: &Template| self.secrets.resolve(template, &Value::Null);
        let mut filled = Command::new(fill(command)?.expose());
        without_own_variables(&mut filled);
        for argument in args {
            filled.arg(fill(argument)?.expose());
        }
        for (name, value) in env {
            filled.env(name, fill(value)?.expose());
        }
        let cwd = cwd.as_ref().map(fill).transpose()?;
        filled.current_dir(cwd.map_or_else(|| self.folder.clone(), |cwd| self.folder.join(cwd.expose())));
        Ok(filled)
    }
}

/// A caller's `stop`, pinned where the call began.
type Stop<'a, F> = Pin<&'a mut F>;
