//! The pure heart of Actbook. Plans come in as text, commands as values; out come events, states and
//! what is due. No I/O, no clock, no randomness: time, ids and dice are arguments.

pub mod act;
pub mod analysis;
pub mod bind;
pub mod chain;
pub mod event;
pub mod execution;
pub mod id;
pub mod library;
pub mod note;
pub mod plan;
pub mod policy;
pub mod schema;
pub mod spelling;
pub mod task;
pub mod template;
pub mod terms;
