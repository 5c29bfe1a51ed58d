//! Opening a PostgreSQL database: parses the address, checks that acknowledged commits are synced to disk,
//! and migrates the schema.

use std::time::Duration;

use tokio_postgres::Config;

use super::Pool;
use super::connection::PgConnection;
use crate::config::{DatabaseOptions, DatabaseUsage};
use crate::store::{Error, Row, Statement, dialect, migrations};

/// How long connecting may take, unless the address says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection whose server has not acknowledged anything for this long counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Parses the address and adds time-outs and the application name.
pub fn parse_config(url: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| Error::from(error))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("actbook");
    }
    config.keepalives_idle(SILENCE_TIMEOUT).tcp_user_timeout(SILENCE_TIMEOUT);
    Ok(config)
}

/// Checks durability unless the options waive it, migrates, and puts the connection into the pool.
pub async fn check_and_migrate(
    connection: PgConnection,
    options: &DatabaseOptions,
    pool: &Pool,
) -> Result<(), Error> {
    if !options.unsafe_durability {
        check_durability(&connection).await?;
    }
    let applied = applied_migrations(&connection).await?;
    migrations::check_known(&applied)?;
    if options.usage == DatabaseUsage::Hook {
        migrations::check_current(&applied)?;
    }
    if migrations::missing(&applied).next().is_some() {
        migrate(&connection).await?;
    }
    pool.put_back(connection);
    Ok(())
}

/// Refuses a server that acknowledges commits before they are synced to disk.
async fn check_durability(connection: &PgConnection) -> Result<(), Error> {
    for (setting, sql) in [("fsync", "SHOW fsync"), ("synchronous_commit", "SHOW synchronous_commit")] {
        let rows = connection.query(sql, &[]).await?;
        if rows.first().map(|row| row.text(0)).transpose()? == Some("off") {
            return Err(Error::UnsafeDurability { setting });
        }
    }
    Ok(())
}

/// Names of the applied migrations; empty in a new database.
async fn applied_migrations(connection: &PgConnection) -> Result<Vec<String>, Error> {
    if connection.query(dialect::migrate::POSTGRES_HAS_TABLE, &[]).await?.is_empty() {
        Ok(Vec::new())
    } else {
        read_applied(connection).await
    }
}

/// Reads the table of applied migrations, which must exist.
async fn read_applied(connection: &PgConnection) -> Result<Vec<String>, Error> {
    let rows = connection.query(migrations::APPLIED, &[]).await?;
    rows.into_iter().map(|mut row: Row| row.take_text(0)).collect()
}

/// Applies the missing migrations in one transaction. After an error the caller drops the connection, which
/// ends the transaction.
async fn migrate(connection: &PgConnection) -> Result<(), Error> {
    connection.execute_batch(dialect::begin::POSTGRES).await?;
    connection.execute_batch(dialect::migrate::POSTGRES_LOCK).await?;
    connection.execute_batch(migrations::CREATE_TABLE).await?;
    // Another process may have migrated while this one waited for the lock.
    let applied = read_applied(connection).await?;
    migrations::check_known(&applied)?;
    for migration in migrations::missing(&applied) {
        connection.execute_batch(migration.postgres).await?;
        let record = Statement::new(migrations::RECORD, vec![migration.name.into()]);
        connection.query(record.sql, &record.params).await?;
    }
    connection.execute_batch("COMMIT").await
}
