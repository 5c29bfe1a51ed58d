//! Actbook's engine, a pure library: it parses plans, turns commands into events, folds events into state and
//! lists the calls that are due. It does no I/O and reads neither clock nor randomness: the caller passes in
//! the time, ids and random bits.

pub mod analysis;
pub mod bind;
pub mod chain;
pub mod event;
pub mod execution;
pub mod id;
pub mod library;
pub mod long_number;
pub mod note;
pub mod plan;
pub mod policy;
pub mod refusal;
pub mod report_check;
pub mod rules;
pub mod schema;
pub mod spelling;
pub mod standalone_action;
pub mod task;
pub mod template;
pub mod tool_policy;
