//! Tests of what `actbook serve` answers over HTTP, through the real binary and real connections.

mod api;
mod bulk;
mod contract;
mod credentials;
mod crowd;
mod events;
mod foreign_pages;
mod live;
mod login;
mod metrics;
mod open_stream;
mod openapi;
mod pages;
mod roles;
mod server;
