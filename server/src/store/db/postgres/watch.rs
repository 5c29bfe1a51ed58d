//! Another process's word on PostgreSQL: NOTIFY, on a connection of its own that comes back by
//! itself. What was said while it was away is made up for by reading the head.

use std::future::poll_fn;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket, tls::NoTlsStream};

use crate::store::{Error, dialect, journal};

const AWAY_MIN: Duration = Duration::from_millis(100);
const AWAY_MAX: Duration = Duration::from_secs(5);

const NO_NEWS: &str = "cannot listen to the database for news";

#[derive(Debug)]
pub struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Watch {
    pub fn start(
        runtime: &Handle,
        config: Config,
        tenant: i64,
        moved: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let watching = runtime.spawn(async move {
            let mut away = AWAY_MIN;
            loop {
                let heard = |position| {
                    moved(position);
                };
                match listen(&config, tenant, &heard, &mut away).await {
                    Ok(()) => tracing::debug!("the database closed the listening connection"),
                    Err(error) if away == AWAY_MIN => tracing::warn!("{NO_NEWS}: {error}"),
                    Err(error) => tracing::debug!("{NO_NEWS}, still: {error}"),
                }
                tokio::time::sleep(away).await;
                away = (away * 2).min(AWAY_MAX);
            }
        });
        Self(watching.abort_handle())
    }
}

/// Ends when the connection does.
async fn listen(
    config: &Config,
    tenant: i64,
    heard: &(impl Fn(u64) + Sync),
    away: &mut Duration,
) -> Result<(), Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let news = hear(connection, tenant, heard);
    let begin = async {
        client.batch_execute(dialect::listen::POSTGRES).await?;
        *away = AWAY_MIN;
        if let Some(position) = head(&client, tenant).await? {
            heard(position);
        }
        // The client is kept for as long as the connection lasts.
        std::future::pending::<Result<(), Error>>().await
    };
    tokio::select! {
        ended = news => ended,
        failed = begin => failed,
    }
}

async fn head(client: &Client, tenant: i64) -> Result<Option<u64>, Error> {
    let row = client.query_opt(journal::HEAD, &[&tenant]).await?;
    let position = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
    Ok(position.and_then(|position| u64::try_from(position).ok()))
}

async fn hear(
    mut connection: Connection<Socket, NoTlsStream>,
    tenant: i64,
    heard: &impl Fn(u64),
) -> Result<(), Error> {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(word) = message?
            && let Some((of, position)) = word.payload().split_once(':')
            && of.parse() == Ok(tenant)
            && let Ok(position) = position.parse()
        {
            heard(position);
        }
    }
    Ok(())
}
