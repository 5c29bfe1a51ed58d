//! The agent's door through a real client: `actbook mcp` over stdio, spoken to by an MCP library.

mod record;
