//! The builder of a client.

use std::path::PathBuf;
use std::sync::Arc;

use super::Client;
use crate::caller::Caller;
use crate::config::{Config, DatabaseOptions};
use crate::error::Error;
use crate::service::Service;
use crate::tools::Executor;

/// Everything a [`Client`] is opened with; made by [`Client::builder`].
#[derive(Debug)]
pub struct Builder {
    database: Option<String>,
    options: DatabaseOptions,
    config: ConfigSource,
    caller: Option<Caller>,
    executors: Vec<(String, Executor)>,
    takes_up: bool,
    project: Option<String>,
}

/// The source of the config.
#[derive(Debug)]
enum ConfigSource {
    None,
    File(PathBuf),
    InMemory(Box<Config>),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            database: None,
            options: DatabaseOptions::default(),
            config: ConfigSource::None,
            caller: None,
            executors: Vec::new(),
            takes_up: true,
            project: None,
        }
    }
}

impl Builder {
    /// The database: `sqlite:FILE`, a file's name, or `postgres://…`; by default the one that `actbook` uses.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Accepts a PostgreSQL server that acknowledges a commit before it is synced: commits may then be lost.
    pub fn unsafe_durability(mut self) -> Self {
        self.options.unsafe_durability = true;
        self
    }

    /// Reads servers, commands and policies from an `actbook.yaml`. By default there are none.
    pub fn config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.config = ConfigSource::File(file.into());
        self
    }

    /// Uses a config in memory instead of a file: see [`Config::parse`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = ConfigSource::InMemory(Box::new(config));
        self
    }

    /// Confines the client to a project, as agents are: it neither sees nor changes what belongs to other
    /// projects. By default it sees all projects, and what it starts belongs to the project of its config,
    /// else to that of the working folder.
    pub fn project(mut self, name: impl Into<String>) -> Self {
        self.project = Some(name.into());
        self
    }

    /// The actor that the journal names; by default `program:` and the name of the executable.
    pub fn caller(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.caller = Some(Caller::new(actor));
        self
    }

    /// Registers a tool, written `server/tool`, that runs in this process: an async function of a
    /// [`Call`](crate::Call), or an [`Executor`] that says more about the tool.
    pub fn tool(mut self, name: impl Into<String>, executor: impl Into<Executor>) -> Self {
        self.executors.push((name.into(), executor.into()));
        self
    }

    /// Whether to take over the executions of processes that have exited, now and as long as the client
    /// lives. By default it does, for plans whose tools are all defined here as they were there.
    pub fn take_up(mut self, enabled: bool) -> Self {
        self.takes_up = enabled;
        self
    }

    /// Opens the database, and migrates an older one. Needs a Tokio runtime, on which executions will run.
    pub async fn open(self) -> Result<Client, Error> {
        let mut config = match self.config {
            ConfigSource::None => Config::default(),
            ConfigSource::File(file) => Config::load(&file)?,
            ConfigSource::InMemory(config) => *config,
        };
        let database = self.database.unwrap_or_else(crate::folders::default_database);
        let is_confined = self.project.is_some();
        config.project = self.project.or(config.project);
        let service = Service::open_embedded(&database, self.options, &config, self.executors).await?;
        let service = if is_confined { service.confined() } else { service };
        Ok(Client::open(service, self.caller.unwrap_or_else(Caller::program), self.takes_up))
    }
}
