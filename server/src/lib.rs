//! Actbook's server side: the rooms around the pure engine.

pub mod bell;
pub mod store;
