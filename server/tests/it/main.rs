//! The server's integration tests, in one binary: real processes, databases and servers.
#![expect(clippy::unwrap_used, reason = "a test stops where it meets a failure")]

mod cli;
mod client;
#[path = "../../../engine/tests/it/counts.rs"]
mod counts;
mod crash;
mod durability;
mod guard;
mod mcp;
mod memory;
mod postgres;
mod projector;
mod reference_servers;
mod refusals;
mod store;
mod tidy;
mod tools;
mod waiting;
mod web;
