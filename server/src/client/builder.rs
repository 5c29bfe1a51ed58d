//! What a client is opened with.

use std::path::PathBuf;
use std::sync::Arc;

use super::Client;
use crate::caller::Caller;
use crate::config::Config;
use crate::error::Error;
use crate::service::{Executor, Options, Service};

/// Everything a [`Client`] is opened with; made by [`Client::builder`].
#[derive(Debug)]
pub struct Builder {
    database: Option<String>,
    options: Options,
    settings: Settings,
    caller: Option<Caller>,
    executors: Vec<(String, Executor)>,
    takes_up: bool,
    project: Option<String>,
}

/// Where the config comes from.
#[derive(Debug)]
enum Settings {
    None,
    File(PathBuf),
    Given(Box<Config>),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            database: None,
            options: Options::default(),
            settings: Settings::None,
            caller: None,
            executors: Vec::new(),
            takes_up: true,
            project: None,
        }
    }
}

impl Builder {
    /// `sqlite:FILE`, a file's name, or `postgres://…`; by default the database that `actbook` itself uses.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Accepts a PostgreSQL server that answers before it has synced: what was answered may then be lost.
    pub fn unsafe_durability(mut self) -> Self {
        self.options.unsafe_durability = true;
        self
    }

    /// Servers, commands and policies from an `actbook.yaml`. By default there are none.
    pub fn config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.settings = Settings::File(file.into());
        self
    }

    /// The same, from a config in memory: see [`Config::parse`].
    pub fn config(mut self, config: Config) -> Self {
        self.settings = Settings::Given(Box::new(config));
        self
    }

    /// Confines the client to a project, as agents are: it neither sees nor acts on what other projects wrote. By
    /// default it sees all projects, and what it starts belongs to the project of its config, else to that of the
    /// working folder.
    pub fn project(mut self, name: impl Into<String>) -> Self {
        self.project = Some(name.into());
        self
    }

    /// Who the journal says it was; by default `program:` and the name of the program's file.
    pub fn caller(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.caller = Some(Caller::new(actor));
        self
    }

    /// Performs a tool, written `server/tool`, in this process: an async function of a
    /// [`Call`](crate::Call), or an [`Executor`] that says more of it.
    pub fn tool(mut self, name: impl Into<String>, executor: impl Into<Executor>) -> Self {
        self.executors.push((name.into(), executor.into()));
        self
    }

    /// Whether to take up what processes that are gone have left, now and as long as the client lives. By
    /// default it does, where all tools of a plan are defined here as they were there.
    pub fn take_up(mut self, yes: bool) -> Self {
        self.takes_up = yes;
        self
    }

    /// Opens the database, and migrates it where it is older. Needs a tokio runtime, on which executions will
    /// run.
    pub async fn open(self) -> Result<Client, Error> {
        let mut config = match self.settings {
            Settings::None => Config::default(),
            Settings::File(file) => Config::load(&file)?,
            Settings::Given(config) => *config,
        };
        let database = self.database.unwrap_or_else(crate::folders::database);
        let is_confined = self.project.is_some();
        config.project = self.project.or(config.project);
        let service = Service::embedded(&database, self.options, &config, self.executors).await?;
        let service = if is_confined { service.confined() } else { service };
        Ok(Client::open(service, self.caller.unwrap_or_else(Caller::program), self.takes_up))
    }
}
