//! Tests of what `actbook serve` answers over HTTP, through the real binary and real connections.

mod api;
mod browser;
mod bulk;
mod config;
mod contract;
mod credentials;
mod crowd;
mod events;
mod foreign_pages;
mod hostile_values;
mod live;
mod login;
mod metrics;
mod open_stream;
mod openapi;
pub mod pages;
mod projects;
mod roles;
pub mod server;
mod shown_calls;
mod surface;
mod viewer;
