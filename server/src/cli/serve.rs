//! `actbook serve`: serves the dashboard, the API and MCP over HTTP until Ctrl-C or SIGTERM.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::error::{CommandLineCode, Error};
use crate::mcp::{SessionHandler, http};
use crate::web::{self, AccessConfig, Endpoints, ListenConfig, RouterState};

use super::args::ServeArgs;
use super::mcp::{endpoint, wait_for_signal};
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
        public_url: args.public_url,
        allow_plain_http: args.insecure,
        mcp_is_open: args.without_tokens,
    };
    let listener = listen.bind().await?;
    let bound = listener.local_addr().map_err(listen_error)?;
    let access = access_config(&listen, bound);
    let service = session.service.clone().with_kept_folds();
    let server = endpoint(session, &service, args.tools, args.guard).await?;
    let background = server.background().clone();
    let claiming = tokio::spawn({
        let background = background.clone();
        async move { background.run_takeover_loop().await }
    });
    let following = tokio::spawn({
        let service = service.clone();
        async move { service.follow_journal().await }
    });
    service.executions().publish_url(&access.base_url).await?;
    print_urls(session, &access, bound).await?;
    let shutdown = async {
        wait_for_shutdown().await;
        // At once, although clients may still be answered for a while: nothing further is started.
        background.halt();
    };
    let ending = CancellationToken::new();
    let endpoints = Endpoints {
        mcp: http::router(move || SessionHandler::new(server.clone()), &ending),
        web: Some(RouterState::new(service.with_whole_ids(), access, ending.clone())),
        service: Some(service),
    };
    web::serve(listener, &listen, endpoints, &ending, shutdown).await;
    background.halt_and_drain(SHUTDOWN_TIMEOUT).await;
    claiming.abort();
    following.abort();
    Ok(Exit::Done)
}

/// How requests are checked on this address.
fn access_config(listen: &ListenConfig, bound: SocketAddr) -> AccessConfig {
    let is_https = listen.public_url.as_ref().is_some_and(|url| url.is_https);
    AccessConfig {
        mcp_is_open: listen.mcp_is_open,
        is_https,
        cookie_name: if is_https { "__Host-actbook".to_owned() } else { format!("actbook-{}", bound.port()) },
        base_url: listen.public_url.as_ref().map_or_else(|| format!("http://{bound}"), ToString::to_string),
    }
}

/// Resolves at the first signal, or at once if signals cannot be received.
async fn wait_for_shutdown() {
    if let Err(error) = wait_for_signal().await {
        tracing::error!("shutting down: {error}");
    }
}

fn listen_error(error: std::io::Error) -> Error {
    Error::command_line(CommandLineCode::Listen, error.to_string(), "choose another --listen")
}

/// The command that opens the dashboard of this database; without an address that may hold a password.
fn open_command(session: &Session) -> String {
    let database = &session.database;
    if *database == crate::folders::default_database() || database.contains("://") {
        return "actbook open".to_owned();
    }
    format!("actbook --database {database} open")
}

/// Prints where clients connect, and a one-time URL that signs a person in. Behind a public URL there is none: the
/// output of a service is often kept.
async fn print_urls(session: &Session, access: &AccessConfig, bound: SocketAddr) -> Result<(), Error> {
    let output = &session.output;
    let url = format!("{}/mcp", access.base_url);
    if access.mcp_is_open {
        output.notice("/mcp answers without a token: every program on this machine can use it");
    }
    let login = if access.base_url == format!("http://{bound}") {
        let code = session.service.access().create_login_code(&session.caller).await?;
        Some(web::login_url(&access.base_url, &code))
    } else {
        None
    };
    if output.json {
        output.entry(&json!({ "url": url, "listen": bound, "login_url": login }));
        return Ok(());
    }
    output.line(format_args!("listening on {url}"));
    if let Some(login) = login {
        output.line(format_args!(
            "dashboard: {login}      once, within ten minutes; `{}` gives another",
            open_command(session)
        ));
    }
    Ok(())
}
