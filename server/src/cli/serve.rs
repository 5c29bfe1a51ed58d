//! `actbook serve`: serves MCP to agents over HTTP until Ctrl-C or SIGTERM.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use crate::error::{CommandLineCode, Error};
use crate::mcp::http::{self, ListenConfig};
use crate::mcp::{McpEndpoint, SessionHandler};
use serde_json::json;

use super::args::ServeArgs;
use super::mcp::{profile, wait_for_signal};
use super::output::Output;
use super::session::Session;
use super::{CommandResult, Exit};

/// Resolves `HOST:PORT`; of several addresses an IPv4 one, which every client can reach.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?.collect::<Vec<_>>();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| format!("`{text}` has no address"))
}

/// How long calls in flight may take after the shutdown was requested.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves until a signal arrives, and drives executions in the background meanwhile.
pub async fn serve(session: &Session, args: ServeArgs) -> CommandResult {
    let listen = ListenConfig {
        address: args.listen,
        host_names: args.names,
        allow_non_loopback: args.without_tokens,
    };
    let listener = listen.bind().await?;
    let server = McpEndpoint::new(&session.service, &session.config, profile(args.tools))?;
    let background = server.background().clone();
    let claiming = tokio::spawn({
        let background = background.clone();
        async move { background.run_takeover_loop().await }
    });
    print_url(&session.output, &listener)?;
    let client = move || SessionHandler::new(server.clone());
    let shutdown = async {
        wait_for_shutdown().await;
        // At once, although clients may still be answered for a while: nothing further is started.
        background.halt();
    };
    http::serve(listener, &listen, client, Some(session.service.clone()), shutdown).await;
    background.halt_and_drain(SHUTDOWN_TIMEOUT).await;
    claiming.abort();
    Ok(Exit::Done)
}

/// Resolves at the first signal, or at once if signals cannot be received.
async fn wait_for_shutdown() {
    if let Err(error) = wait_for_signal().await {
        tracing::error!("shutting down: {error}");
    }
}

/// Prints the URL that clients connect to.
fn print_url(output: &Output, listener: &tokio::net::TcpListener) -> Result<(), Error> {
    let unknown = |error: std::io::Error| {
        Error::command_line(CommandLineCode::Listen, error.to_string(), "choose another --listen")
    };
    let url = format!("http://{}/mcp", listener.local_addr().map_err(unknown)?);
    if output.json {
        output.entry(&json!({ "url": url }));
    } else {
        output.line(format_args!("listening on {url}"));
    }
    Ok(())
}
