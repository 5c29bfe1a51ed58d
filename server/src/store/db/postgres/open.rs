//! Opening a PostgreSQL database: the address, the promise that what it acknowledges is synced,
//! and the schema.

use std::time::Duration;

use tokio_postgres::Config;

use super::Pool;
use super::link::Link;
use crate::store::{Error, Row, Statement, dialect, migrations};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// After this long without an answer from the other machine, a connection counts as lost.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

pub fn config(url: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| Error::from(error))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_LIMIT);
    }
    if config.get_application_name().is_none() {
        config.application_name("actbook");
    }
    config.keepalives_idle(SILENCE_LIMIT).tcp_user_timeout(SILENCE_LIMIT);
    Ok(config)
}

pub async fn prepare(link: Link, allow_unsafe: bool, pool: &Pool) -> Result<(), Error> {
    if !allow_unsafe {
        check_durability(&link).await?;
    }
    let found = found(&link).await?;
    migrations::check_known(&found)?;
    if migrations::missing(&found).next().is_some() {
        migrate(&link).await?;
    }
    pool.keep(link);
    Ok(())
}

async fn check_durability(link: &Link) -> Result<(), Error> {
    for (setting, sql) in [("fsync", "SHOW fsync"), ("synchronous_commit", "SHOW synchronous_commit")] {
        let rows = link.query(sql, &[]).await?;
        if rows.first().map(|row| row.text(0)).transpose()? == Some("off") {
            return Err(Error::UnsafeDurability { setting });
        }
    }
    Ok(())
}

/// Those applied; none in a new database.
async fn found(link: &Link) -> Result<Vec<String>, Error> {
    match link.query(dialect::migrate::POSTGRES_HAS_TABLE, &[]).await?.is_empty() {
        false => applied(link).await,
        true => Ok(Vec::new()),
    }
}

async fn applied(link: &Link) -> Result<Vec<String>, Error> {
    let rows = link.query(migrations::APPLIED, &[]).await?;
    rows.into_iter().map(|mut row: Row| row.take_text(0)).collect()
}

/// A failure drops the link, and with it the open transaction.
async fn migrate(link: &Link) -> Result<(), Error> {
    link.run(dialect::begin::POSTGRES).await?;
    link.run(dialect::migrate::POSTGRES_LOCK).await?;
    link.run(migrations::CREATE_TABLE).await?;
    // Somebody may have been here while this one waited for the lock.
    let applied = applied(link).await?;
    migrations::check_known(&applied)?;
    for migration in migrations::missing(&applied) {
        link.run(migration.postgres).await?;
        let record = Statement::new(migrations::RECORD, vec![migration.name.into()]);
        link.query(record.sql, &record.params).await?;
    }
    link.run("COMMIT").await
}
