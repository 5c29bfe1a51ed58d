//! Where the server listens, and which addresses it refuses to listen on.

use std::net::SocketAddr;

use axum::http::Uri;
use tokio::net::TcpListener;

use crate::error::{CommandLineCode, Error};

/// Where to listen, and by which names requests may call this server.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    pub address: SocketAddr,
    /// Allowed host names beside the loopback ones: `host` or `host:port`.
    pub host_names: Vec<String>,
    /// Where browsers and clients reach this server, if not at `address`.
    pub public_url: Option<PublicUrl>,
    /// Allows plain HTTP on an address that other machines can reach.
    pub allow_plain_http: bool,
    /// `/mcp` answers without a token, so only this machine may reach it.
    pub mcp_is_open: bool,
}

impl ListenConfig {
    /// Listens on this loopback address, by the loopback names alone.
    pub fn loopback(address: SocketAddr) -> Self {
        let (host_names, public_url) = (Vec::new(), None);
        Self { address, host_names, public_url, allow_plain_http: false, mcp_is_open: false }
    }

    /// Binds the socket. Err: other machines could reach it in an unsafe way, or it cannot be bound.
    pub async fn bind(&self) -> Result<TcpListener, Error> {
        if !self.address.ip().is_loopback() {
            self.require_safe_exposure()?;
        }
        let failed = |error: std::io::Error| {
            let message = format!("{}: {error}", self.address);
            Error::command_line(CommandLineCode::Listen, message, "choose another --listen")
        };
        TcpListener::bind(self.address).await.map_err(failed)
    }

    /// Refuses to listen beyond loopback without a token on `/mcp`, or with credentials over plain HTTP.
    fn require_safe_exposure(&self) -> Result<(), Error> {
        let refused = |why: &str, cure: &str| {
            let message = format!("{} can be reached from other machines, and {why}", self.address);
            Err(Error::command_line(CommandLineCode::NotLoopback, message, cure))
        };
        if self.mcp_is_open {
            let cure = "leave --without-tokens out and give clients a token: `actbook token create`";
            return refused("--without-tokens would let anybody in", cure);
        }
        let is_https = self.public_url.as_ref().is_some_and(|url| url.is_https);
        if is_https || self.allow_plain_http {
            return Ok(());
        }
        let cure = "listen on 127.0.0.1; or put a proxy with TLS in front and name it with --public-url \
                    https://…; or add --insecure for plain HTTP in a network that you trust";
        refused("tokens would cross the network in plain text", cure)
    }
}

/// The address by which browsers and clients reach this server: scheme and authority, no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    pub is_https: bool,
    /// `host` or `host:port`.
    pub authority: String,
}

impl std::str::FromStr for PublicUrl {
    type Err = String;

    /// Err: no `http://` or `https://` URL, or one with a path, a query or a user.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not like https://book.example");
        let url: Uri = text.parse().map_err(|_| wrong())?;
        let is_bare = ["", "/"].contains(&url.path()) && url.query().is_none();
        let authority = url.authority().map(|authority| authority.as_str().to_owned());
        let authority =
            authority.filter(|authority| is_bare && !authority.contains('@')).ok_or_else(wrong)?;
        let is_https = url.scheme_str() == Some("https");
        if is_https || url.scheme_str() == Some("http") {
            Ok(Self { is_https, authority })
        } else {
            Err(wrong())
        }
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.is_https { "https" } else { "http" }, self.authority)
    }
}
