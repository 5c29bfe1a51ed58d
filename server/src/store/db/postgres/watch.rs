//! Notification of appends on PostgreSQL: LISTEN on a dedicated connection that reconnects by itself. After
//! each connect the head is read, which makes up for notifications that were missed.

use std::future::poll_fn;
use std::time::Duration;

use actbook_engine::id::TenantId;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket, tls::NoTlsStream};

use crate::store::{Error, dialect, journal};

/// First delay before the listening connection is opened again; it doubles with each failure.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay before the listening connection is opened again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(5);

/// Log message for a failed listening connection.
const NO_NEWS: &str = "cannot listen for notifications from the database";

/// Guard of a listening task, which ends when this is dropped.
#[derive(Debug)]
pub struct PostgresWatch(AbortHandle);

impl Drop for PostgresWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PostgresWatch {
    /// Calls `on_append` with the head position after each notification and each reconnect.
    pub fn start(
        runtime: &Handle,
        config: Config,
        tenant: TenantId,
        on_append: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let task = runtime.spawn(async move {
            let mut delay = RECONNECT_DELAY_MIN;
            loop {
                let on_append = |position| {
                    on_append(position);
                };
                match listen_until_closed(&config, tenant, &on_append, &mut delay).await {
                    Ok(()) => tracing::debug!("the database closed the listening connection"),
                    Err(error) if delay == RECONNECT_DELAY_MIN => tracing::warn!("{NO_NEWS}: {error}"),
                    Err(error) => tracing::debug!("{NO_NEWS}, still: {error}"),
                }
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(RECONNECT_DELAY_MAX);
            }
        });
        Self(task.abort_handle())
    }
}

/// Connects and reports positions until the connection ends. Resets `delay` once it listens.
async fn listen_until_closed(
    config: &Config,
    tenant: TenantId,
    on_append: &(impl Fn(u64) + Sync),
    delay: &mut Duration,
) -> Result<(), Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let notifications = dispatch_notifications(connection, tenant, on_append);
    let subscription = async {
        client.batch_execute(dialect::listen::POSTGRES).await?;
        *delay = RECONNECT_DELAY_MIN;
        if let Some(position) = read_head_position(&client, tenant).await? {
            on_append(position);
        }
        // Dropping the client would close the connection.
        std::future::pending::<Result<(), Error>>().await
    };
    tokio::select! {
        ended = notifications => ended,
        failed = subscription => failed,
    }
}

/// Reads the head position. None: the tenant does not exist.
async fn read_head_position(client: &Client, tenant: TenantId) -> Result<Option<u64>, Error> {
    let row = client.query_opt(journal::HEAD, &[&tenant.0]).await?;
    let position = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
    Ok(position.and_then(|position| u64::try_from(position).ok()))
}

/// Drives the connection and reports the tenant's notifications until the connection ends.
async fn dispatch_notifications(
    mut connection: Connection<Socket, NoTlsStream>,
    tenant: TenantId,
    on_append: &impl Fn(u64),
) -> Result<(), Error> {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message?
            && let Some((notified_tenant, position)) = notification.payload().split_once(':')
            && notified_tenant.parse() == Ok(tenant.0)
            && let Ok(position) = position.parse()
        {
            on_append(position);
        }
    }
    Ok(())
}
