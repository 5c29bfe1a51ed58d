//! Actbook's server side: the rooms around the pure engine.

pub mod bell;
pub mod config;
pub mod ledger;
mod random;
pub mod runner;
pub mod store;
pub mod tools;
