//! What every command that needs the database works with: the service, the caller, the config and the output.

use std::path::PathBuf;

use crate::caller::Caller;
use crate::config::{Config, DatabaseOptions, DatabaseUsage, without_password};
use crate::error::{CommandLineCode, Error};
use crate::service::Service;

use super::args::CommonArgs;
use super::output::Output;

/// An open service and what belongs to it, for one command.
#[derive(Debug)]
pub struct Session {
    pub service: Service,
    pub caller: Caller,
    pub config: Config,
    /// The config file named by `--config` or its variable; `None` if the config was found.
    pub named_config: Option<PathBuf>,
    pub output: Output,
    /// The database address that the service was opened with; a background process gets the same.
    pub database: String,
    /// The options that the service was opened with.
    pub options: DatabaseOptions,
}

impl Session {
    /// Opens the database, creating a missing file, with the current user as the caller.
    pub async fn open(common: &CommonArgs, config: Config, output: Output) -> Result<Self, Error> {
        Self::open_for(common, config, output, DatabaseUsage::Command).await
    }

    /// Opens the database, creating a missing file, for a process of this kind.
    pub async fn open_for(
        common: &CommonArgs,
        config: Config,
        output: Output,
        usage: DatabaseUsage,
    ) -> Result<Self, Error> {
        let database = common.database.clone().unwrap_or_else(crate::folders::default_database);
        let options = DatabaseOptions { unsafe_durability: common.unsafe_durability, usage };
        let session = Self::open_with(config, database, options, output).await?;
        Ok(Self { named_config: common.config.clone(), ..session })
    }

    /// Opens the database for a command that only reads. `Err` if a named file is missing: a mistyped name
    /// must not look like an empty database.
    pub async fn open_existing(common: &CommonArgs, config: Config, output: Output) -> Result<Self, Error> {
        if let Some(named) = common.database.as_deref().filter(|named| !named.contains("://")) {
            let file = named.strip_prefix("sqlite:").unwrap_or(named);
            if !std::path::Path::new(file).exists() {
                let message = format!("there is no database {}", without_password(file));
                let cure = "check --database (or ACTBOOK_DATABASE)";
                return Err(Error::command_line(CommandLineCode::NoSuchDatabase, message, cure));
            }
        }
        Self::open(common, config, output).await
    }

    /// Opens a database by its address, with a config that no command line names.
    pub async fn open_with(
        config: Config,
        database: String,
        options: DatabaseOptions,
        output: Output,
    ) -> Result<Self, Error> {
        let service = Service::open(&database, options.clone(), &config).await?;
        Ok(Self { service, caller: Caller::person(), config, named_config: None, output, database, options })
    }
}
