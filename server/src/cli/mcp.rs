//! `actbook mcp`: the agent's door over stdio. stdout belongs to the protocol; logs go to stderr.

use std::time::Duration;

use actbook::error::Error;
use actbook::mcp::{Door, Profile, stdio};

use super::args::ToolSet;
use super::session::Session;
use super::signals::TakenOver;
use super::{Ended, Exit};

/// Clients kill a server that does not leave soon after its input has ended.
const LEAVING: Duration = Duration::from_secs(3);

pub async fn mcp(session: &Session, tools: ToolSet) -> Ended {
    let door = Door::new(&session.service, &session.config, profile(tools))?;
    let background = door.background().clone();
    let looking = tokio::spawn({
        let background = background.clone();
        async move { background.look_out().await }
    });
    let served = tokio::select! {
        served = stdio(door) => served,
        asked = terminated() => asked,
    };
    background.leave(LEAVING).await;
    looking.abort();
    served.map(|()| Exit::Done)
}

pub fn profile(tools: ToolSet) -> Profile {
    match tools {
        ToolSet::Run => Profile::Run,
        ToolSet::Record => Profile::Record,
        ToolSet::Full => Profile::Full,
    }
}

/// Resolves at the first Ctrl-C or SIGTERM.
pub async fn terminated() -> Result<(), Error> {
    TakenOver::take()?.next().await;
    Ok(())
}
