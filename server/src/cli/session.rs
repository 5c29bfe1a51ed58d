//! What every command that needs the database has at hand.

use std::path::PathBuf;

use actbook::caller::Caller;
use actbook::config::Config;
use actbook::error::Error;
use actbook::service::{Options, Service, without_password};

use super::args::Common;
use super::output::Output;

#[derive(Debug)]
pub struct Session {
    pub service: Service,
    pub caller: Caller,
    pub config: Config,
    /// The config that the command line names. None: it was found.
    pub named_config: Option<PathBuf>,
    pub output: Output,
    /// As the service was opened: what a background process is given.
    pub database: String,
    pub options: Options,
}

impl Session {
    pub async fn open(common: &Common, config: Config, output: Output) -> Result<Self, Error> {
        let database = common.database.clone().unwrap_or_else(actbook::folders::database);
        let options = Options { unsafe_durability: common.unsafe_durability };
        let session = Self::with(config, database, options, output).await?;
        Ok(Self { named_config: common.config.clone(), ..session })
    }

    /// For commands that only read: a name with a slip in it must not pass for an empty book.
    pub async fn open_existing(common: &Common, config: Config, output: Output) -> Result<Self, Error> {
        if let Some(named) = common.database.as_deref().filter(|named| !named.contains("://")) {
            let file = named.strip_prefix("sqlite:").unwrap_or(named);
            if !std::path::Path::new(file).exists() {
                let message = format!("there is no database {}", without_password(file));
                return Err(Error::new(
                    "no_such_database",
                    message,
                    "check --database (or ACTBOOK_DATABASE)",
                ));
            }
        }
        Self::open(common, config, output).await
    }

    pub async fn with(
        config: Config,
        database: String,
        options: Options,
        output: Output,
    ) -> Result<Self, Error> {
        let service = Service::open(&database, options.clone(), &config).await?;
        Ok(Self { service, caller: Caller::person(), config, named_config: None, output, database, options })
    }
}
