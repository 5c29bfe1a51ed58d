//! The servers that `mcp_calls` measures, each in its own process: Actbook, and a bare echo server.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actbook::config::{Config, DatabaseOptions};
use actbook::mcp::http;
use actbook::mcp::{McpEndpoint, SessionHandler, ToolProfile};
use actbook::service::Service;
use actbook::web::{self, Endpoints, ListenConfig};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Answers every call with its arguments, after `sleep_ms` if given, and counts concurrent calls.
#[derive(Clone, Default)]
struct EchoServer {
    in_flight: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Says it again", Arc::default())]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = Value::Object(request.arguments.unwrap_or_default());
        self.peak.fetch_max(self.in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if let Some(sleep_ms) = arguments["sleep_ms"].as_u64() {
            tokio::time::sleep(Duration::from_millis(sleep_ms)).await;
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if arguments["peak"] == true {
            arguments["peak"] = self.peak.load(Ordering::SeqCst).into();
        }
        Ok(CallToolResult::structured(arguments).into())
    }
}

pub async fn serve_echo(transport: &str) -> anyhow::Result<()> {
    match transport {
        "stdio" => {
            EchoServer::default().serve(rmcp::transport::stdio_pipes()).await?.waiting().await?;
        }
        _ => serve_http(EchoServer::default, None).await?,
    }
    Ok(())
}

pub async fn serve_actbook(database: &str, transport: &str) -> anyhow::Result<()> {
    let config = Config::default();
    let service = Service::open(database, DatabaseOptions::default(), &config).await?;
    let endpoint = McpEndpoint::new(&service, &config, ToolProfile::Run)?;
    match transport {
        "stdio" => actbook::mcp::serve_stdio(endpoint).await?,
        _ => serve_http(move || SessionHandler::new(endpoint.clone()), Some(service)).await?,
    }
    Ok(())
}

/// Serves the echo server's tool through the guard.
pub async fn serve_guarded(database: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let echo = json!({ "command": program, "args": ["--part", "echo", "-", "stdio"] });
    let document = json!({ "mcpServers": { "echo": echo }, "servers": { "echo": {} } });
    let config = Config::parse(&document.to_string(), std::path::Path::new("."))?;
    let service = Service::open(database, DatabaseOptions::default(), &config).await?;
    let endpoint = McpEndpoint::new(&service, &config, ToolProfile::Run)?.guarded(&config);
    actbook::mcp::serve_stdio(endpoint).await?;
    service.close().await;
    Ok(())
}

async fn serve_http<H: ServerHandler>(
    client: impl Fn() -> H + Send + Sync + 'static,
    service: Option<Service>,
) -> anyhow::Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = ListenConfig::loopback(address);
    let listener = listen.bind().await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    let ending = CancellationToken::new();
    let endpoints = Endpoints { mcp: http::router(client, &ending), web: None, service };
    web::serve(listener, &listen, endpoints, &ending, std::future::pending()).await;
    Ok(())
}
