//! `actbook mcp`: serves MCP to an agent over stdio. stdout carries the protocol; logs go to stderr.

use std::time::Duration;

use crate::error::Error;
use crate::mcp::{McpEndpoint, ToolProfile, serve_stdio};
use crate::service::{GUARDED_IDLE_MAX, Service};

use super::args::ProfileArg;
use super::session::Session;
use super::signals::SignalGuard;
use super::{CommandResult, Exit};

/// How long calls in flight may take at the end. Clients kill a server that does not exit soon after stdin
/// ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves until stdin ends or a signal arrives, and drives executions in the background meanwhile.
pub async fn mcp(session: &Session, tools: ProfileArg, guard: bool) -> CommandResult {
    let server = endpoint(session, &session.service, tools, guard).await?;
    let background = server.background().clone();
    let claiming = tokio::spawn({
        let background = background.clone();
        async move { background.run_takeover_loop().await }
    });
    let served = tokio::select! {
        served = serve_stdio(server) => served,
        terminated = wait_for_signal() => terminated,
    };
    background.halt_and_drain(SHUTDOWN_TIMEOUT).await;
    claiming.abort();
    served.map(|()| Exit::Done)
}

/// The MCP endpoint with these tools; with `guard`, the servers' tools too.
pub async fn endpoint(
    session: &Session,
    service: &Service,
    tools: ProfileArg,
    guard: bool,
) -> Result<McpEndpoint, Error> {
    let server = McpEndpoint::new(service, &session.config, profile(tools))?;
    if !guard {
        return Ok(server);
    }
    service.sessions().settle_lost_calls().await?;
    service.sessions().close_idle(GUARDED_IDLE_MAX).await?;
    Ok(server.guarded(&session.config))
}

/// The MCP profile that the flag names.
fn profile(tools: ProfileArg) -> ToolProfile {
    match tools {
        ProfileArg::Run => ToolProfile::Run,
        ProfileArg::Record => ToolProfile::Record,
        ProfileArg::Full => ToolProfile::Full,
    }
}

/// Resolves at the first Ctrl-C or SIGTERM; `Err` if signals cannot be received.
pub async fn wait_for_signal() -> Result<(), Error> {
    SignalGuard::register()?.next().await;
    Ok(())
}
