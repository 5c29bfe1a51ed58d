//! MCP servers, over stdio or HTTP: connected on first use, one connection each, kept up, connected again on
//! the next use after it ended. The only part of `tools` that names rmcp, together with what is below it.

mod answer;
mod calls;
mod connection;
mod ears;
mod fault;
mod http;
mod life;
mod lines;
mod raw;
mod requests;
mod signs;
mod tasks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actbook_engine::policy::Category;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde_json::Value;
use tokio::process::Command;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

use super::catalog::{CatalogError, Listing};
use super::classify::Came;
use super::egress::Egress;
use super::process::ChildProcess;
use super::secret::{Secrets, Unresolved};
use super::{Call, Circuit, OnLateCame, OnProgress, environment, stopped_unsent, withheld};
use crate::config::{InheritEnv, McpServer, ServerWords, Template};
use connection::Connection;
use http::HttpClient;
use life::Life;
pub use life::ServerState;

type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>, NotUp>>>;

/// Why there is no connection; the sentence names the server.
#[derive(Clone, Debug)]
pub struct NotUp {
    pub category: Category,
    pub why: String,
}

pub struct Server {
    name: String,
    definition: McpServer,
    folder: PathBuf,
    secrets: Secrets,
    egress: Egress,
    life: Life,
    /// The one connection, up or coming up. A call that gives up waiting leaves it coming up.
    slot: Mutex<Option<Slot>>,
}

struct Slot {
    connecting: Connecting,
    starting: AbortHandle,
    /// When it was last begun, and how often in a row before that in vain.
    begun: Instant,
    falls: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A server that is still coming up is ended with the task that starts it.
        self.starting.abort();
    }
}

/// All that a call waits for.
struct Ready {
    connection: Arc<Connection>,
    /// What the server offers on it, or why that is not known.
    listing: Result<Arc<Listing>, String>,
}

impl Ready {
    /// A call that is not pinned goes its way though nobody knows what the server offers: it will say.
    fn admit(&self, call: &Call) -> Result<(), Came> {
        match &self.listing {
            Ok(listing) => listing.admit(call),
            Err(_) if call.pin.is_none() => Ok(()),
            Err(why) => Err(Came::NotSent { category: Category::Unavailable, why: why.clone() }),
        }
    }
}

impl Server {
    pub fn new(
        name: &str,
        definition: &McpServer,
        folder: &Path,
        secrets: &Secrets,
        egress: &Egress,
        words: &ServerWords,
    ) -> Self {
        Self {
            name: name.to_owned(),
            definition: definition.clone(),
            folder: folder.to_owned(),
            secrets: secrets.clone(),
            egress: egress.clone(),
            life: Life::of(words),
            slot: Mutex::default(),
        }
    }

    /// Also says whether the call was asked to stop.
    pub async fn call(
        &self,
        tool: &str,
        call: &Call,
        sending: impl Fn(Option<ChildProcess>) -> bool + Send,
        (progress, late): (OnProgress, OnLateCame),
        stop: impl Future<Output = ()> + Send,
    ) -> (Came, bool) {
        if !matches!(call.arguments, Value::Object(_) | Value::Null) {
            let why = "the arguments of a tool are an object".to_owned();
            return (Came::NotSent { category: Category::InvalidArguments, why }, false);
        }
        let mut stop = pin!(stop);
        let ready = match self.at_hand() {
            Some(ready) => Ok(ready),
            None => tokio::select! {
                biased;
                () = &mut stop => return (stopped_unsent(), true),
                ready = Box::pin(self.ready(call.timeout)) => ready,
            },
        };
        match ready {
            Ok(ready) if let Err(came) = ready.admit(call) => (came, false),
            Ok(Ready { connection, .. }) if !sending(connection.process()) => (withheld(), false),
            Ok(Ready { connection, .. }) => {
                let deadline = Instant::now() + call.timeout;
                let (came, stopped) = match tasks::replied_to(call) {
                    Some(task) => (tasks::update(&connection, task, call).await, false),
                    None => connection.call(tool, call, (progress, late), stop.as_mut()).await,
                };
                if matches!(came, Came::TimedOut { .. }) {
                    // Apart from the call, whose outcome is known to be unknown already.
                    let check_after = self.life.check_after;
                    tokio::spawn(async move { connection.is_well(check_after).await });
                }
                let Came::Background { task, poll } = came else { return (came, stopped) };
                self.keep(call, &task).await;
                let wait = tasks::Wait { deadline, timeout: call.timeout, poll };
                // Boxed, like all that few calls come to: each would carry its size about.
                Box::pin(tasks::follow(self, &task, wait, stop, stopped)).await
            }
            Err(came) => (came, false),
        }
    }

    /// Asks after a task that was accepted before.
    pub async fn follow(
        &self,
        call: &Call,
        task: &str,
        stop: impl Future<Output = ()> + Send,
    ) -> (Came, bool) {
        let deadline = Instant::now() + call.timeout;
        let wait = tasks::Wait { deadline, timeout: call.timeout, poll: None };
        tasks::follow(self, task, wait, pin!(stop), false).await
    }

    /// A handle that a secret would have to be struck out of is of no use to the next process.
    async fn keep(&self, call: &Call, task: &str) {
        let mut shown = task.to_owned();
        self.secrets.redact_text(&mut shown);
        if let Some(keep) =
            call.carry.keep.as_ref().filter(|_| shown == task && task.len() <= tasks::BYTES_MAX)
        {
            keep(shown).await;
        }
    }

    /// Where nothing has to be waited for.
    fn at_hand(&self) -> Option<Ready> {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = slot.as_ref()?.connecting.peek()?.as_ref().ok()?;
        if !connection.is_up() || connection.is_doubtful(self.life.check_after) {
            return None;
        }
        Some(Ready { connection: connection.clone(), listing: Ok(connection.listing_at_hand()?) })
    }

    /// A connection that is up, and what the server offers on it. One that keeps falling is waited for like
    /// one that starts slowly.
    async fn ready(&self, patience: Duration) -> Result<Ready, Came> {
        match tokio::time::timeout(patience, self.listed()).await {
            Ok(Ok((connection, listing))) => Ok(Ready { connection, listing }),
            Ok(Err(NotUp { category, why })) => Err(Came::NotSent { category, why }),
            Err(_) => {
                let falls = match self.state(Circuit::Closed).falls {
                    0 => String::new(),
                    falls => format!(" (it has fallen {falls} times in a row)"),
                };
                let why = format!(
                    "the server `{}` was not up within {patience:?}{falls}; nothing was sent",
                    self.name
                );
                Err(Came::NotSent { category: Category::Timeout, why })
            }
        }
    }

    pub fn state(&self, circuit: Circuit) -> ServerState {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = slot.as_ref().map(|slot| slot.connecting.peek().cloned());
        let falls = slot.as_ref().map_or(0, |slot| slot.falls);
        match connection {
            None => ServerState::new("not started", None, falls, circuit),
            Some(None) => ServerState::new("coming up", None, falls, circuit),
            Some(Some(Ok(up))) if up.is_up() => ServerState::new("up", Some(&up), falls, circuit),
            Some(Some(_)) => ServerState::new("down", None, falls, circuit),
        }
    }

    /// The server's tools, in its own order.
    pub async fn listing(&self) -> Result<Arc<Listing>, CatalogError> {
        let unreachable = |why| CatalogError::Unreachable { server: self.name.clone(), why };
        let (_, listing) = self.listed().await.map_err(|not_up| unreachable(not_up.why))?;
        listing.map_err(unreachable)
    }

    /// Of one and the same connection: a server that was started again may offer other tools.
    async fn listed(&self) -> Result<(Arc<Connection>, Result<Arc<Listing>, String>), NotUp> {
        let connection = self.connection().await?;
        let listing = connection.listing(&self.name).await;
        Ok((connection, listing))
    }

    pub async fn shutdown(&self) {
        let current = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(connection)) = current.as_ref().and_then(|slot| slot.connecting.peek()) {
            connection.close().await;
        }
    }

    /// One that was silent for a while is asked whether it is well first.
    async fn connection(&self) -> Result<Arc<Connection>, NotUp> {
        let connection = self.connecting()?.await?;
        let check_after = self.life.check_after;
        if !connection.is_doubtful(check_after) || connection.is_well(check_after).await {
            return Ok(connection);
        }
        self.connecting()?.await
    }

    fn connecting(&self) -> Result<Connecting, NotUp> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut falls, mut since) = (0, Duration::MAX);
        if let Some(current) = slot.as_ref() {
            falls = match current.connecting.peek() {
                None => return Ok(current.connecting.clone()),
                Some(Ok(connection)) if connection.is_up() => return Ok(current.connecting.clone()),
                Some(Ok(connection)) if self.life.was_healthy(connection) => 1,
                Some(Ok(_) | Err(_)) => current.falls + 1,
            };
            since = current.begun.elapsed();
        }
        let wait = self.life.apart(falls).saturating_sub(since);
        let name = self.name.clone();
        let task = self.connect(wait)?;
        let starting = task.abort_handle();
        let ended = move |ended: Result<_, JoinError>| {
            ended.unwrap_or_else(|error| {
                Err(unavailable(format!("starting the server `{name}` was given up: {error}")))
            })
        };
        let connecting: Connecting = task.map(ended).boxed().shared();
        let begun = Instant::now() + wait;
        *slot = Some(Slot { connecting: connecting.clone(), starting, begun, falls });
        Ok(connecting)
    }

    fn connect(&self, wait: Duration) -> Result<JoinHandle<Result<Arc<Connection>, NotUp>>, NotUp> {
        let name = self.name.clone();
        match &self.definition {
            McpServer::Stdio { command, args, env, inherit_env, cwd } => {
                let command = self.command(command, args, env, inherit_env, cwd.as_ref());
                let command = command.map_err(|problem| {
                    unavailable(format!("the server `{name}` cannot be started: {problem}"))
                })?;
                let limit = self.life.start_timeout;
                let starting = connection::start(name, command, self.secrets.clone(), limit);
                Ok(tokio::spawn(life::after(wait, starting)))
            }
            McpServer::Http { url, headers } => {
                let client = HttpClient::new(&self.egress, url, headers, &self.secrets);
                let reaching = connection::reach(name, client, self.life.start_timeout);
                Ok(tokio::spawn(life::after(wait, reaching)))
            }
        }
    }

    fn command(
        &self,
        command: &Template,
        args: &[Template],
        env: &BTreeMap<String, Template>,
        inherit_env: &InheritEnv,
        cwd: Option<&Template>,
    ) -> Result<Command, Unresolved> {
        let fill = |template: &Template| self.secrets.resolve(template, &Value::Null);
        let mut filled = Command::new(fill(command)?.expose());
        environment::restrict(&mut filled, inherit_env);
        for argument in args {
            filled.arg(fill(argument)?.expose());
        }
        for (name, value) in env {
            filled.env(name, fill(value)?.expose());
        }
        let cwd = cwd.map(fill).transpose()?;
        filled.current_dir(cwd.map_or_else(|| self.folder.clone(), |cwd| self.folder.join(cwd.expose())));
        Ok(filled)
    }
}

fn unavailable(why: String) -> NotUp {
    NotUp { category: Category::Unavailable, why }
}

/// A caller's `stop`, pinned where the call began.
type Stop<'a, F> = Pin<&'a mut F>;
