//! Actbook's server side: the rooms around the pure engine.

pub mod bell;
pub mod caller;
pub mod config;
pub mod error;
pub mod folders;
pub mod ledger;
pub mod mcp;
mod random;
pub mod runner;
pub mod service;
pub mod store;
pub mod tools;
