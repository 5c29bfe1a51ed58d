//! `actbook serve`: the agent's door over HTTP, until Ctrl-C or SIGTERM.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use actbook::error::Error;
use actbook::mcp::conformance::Fixture;
use actbook::mcp::http::{self, Listen};
use actbook::mcp::{Client, Door};
use serde_json::json;

use super::args::Serve;
use super::mcp::{profile, terminated};
use super::output::Output;
use super::session::Session;
use super::{Ended, Exit};

/// Of a name that has several, the one that every client speaks.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?.collect::<Vec<_>>();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| format!("`{text}` has no address"))
}

/// How long the calls in flight may take once the end was asked for.
const LEAVING: Duration = Duration::from_secs(30);

pub async fn serve(session: &Session, asked: Serve) -> Ended {
    let listen = Listen { address: asked.listen, names: asked.names, anywhere: asked.without_tokens };
    let listener = listen.open().await?;
    let door = Door::new(&session.service, &session.config, profile(asked.tools))?;
    let background = door.background().clone();
    let looking = tokio::spawn({
        let background = background.clone();
        async move { background.look_out().await }
    });
    say_where(&session.output, &listener)?;
    let client = move || Client::new(door.clone());
    let leave = async {
        asked_to_leave().await;
        // At once, though clients may still be answered for a while.
        background.halt();
    };
    http::serve(listener, &listen, client, Some(session.service.clone()), leave).await;
    background.leave(LEAVING).await;
    looking.abort();
    Ok(Exit::Done)
}

/// The conformance suite's own server. It has no journal.
pub async fn conformance(output: &Output, address: SocketAddr) -> Ended {
    let listen = Listen { address, names: Vec::new(), anywhere: false };
    let listener = listen.open().await?;
    say_where(output, &listener)?;
    let fixture = Fixture::new();
    http::serve(listener, &listen, move || fixture.clone(), None, asked_to_leave()).await;
    Ok(Exit::Done)
}

async fn asked_to_leave() {
    if let Err(error) = terminated().await {
        tracing::error!("{error}");
    }
}

fn say_where(output: &Output, listener: &tokio::net::TcpListener) -> Result<(), Error> {
    let unknown = |error: std::io::Error| Error::new("listen", error.to_string(), "choose another --listen");
    let url = format!("http://{}/mcp", listener.local_addr().map_err(unknown)?);
    match output.json {
        true => output.entry(&json!({ "url": url })),
        false => output.line(format_args!("listening on {url}")),
    }
    Ok(())
}
