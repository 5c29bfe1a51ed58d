//! The arguments of `serve`.

use clap::Args as ClapArgs;

use super::ProfileArg;

/// The arguments of `serve`.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4700", value_parser = crate::cli::serve::address)]
    pub listen: std::net::SocketAddr,
    /// Which tools to offer
    #[arg(long, value_enum, default_value_t)]
    pub tools: ProfileArg,
    /// At /mcp, offer the tools of the config's servers too, as `server__tool`, and guard their calls
    #[arg(long)]
    pub guard: bool,
    /// Another name that clients may call this server by, as in `actbook.example:4700`
    #[arg(long = "name", value_name = "HOST[:PORT]")]
    pub names: Vec<String>,
    /// Where browsers and clients reach this server, as in `https://book.example`; needed to listen beyond this machine
    #[arg(long, value_name = "URL")]
    pub public_url: Option<crate::web::PublicUrl>,
    /// Plain HTTP beyond this machine, in a network that you trust; tokens are still needed
    #[arg(long)]
    pub insecure: bool,
    /// Answer /mcp without a token, on this machine alone, for clients that cannot send one
    #[arg(long)]
    pub without_tokens: bool,
}

impl ServeArgs {
    /// On this machine alone, at a port that is free.
    pub fn on_any_port() -> Self {
        Self {
            listen: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
            tools: ProfileArg::default(),
            guard: false,
            names: Vec::new(),
            public_url: None,
            insecure: false,
            without_tokens: false,
        }
    }
}
