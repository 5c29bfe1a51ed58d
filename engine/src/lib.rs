//! The pure heart of Actbook: plans, events, states, and what follows from them. It reads its
//! arguments and nothing else: no clock, no randomness, no input or output.

pub mod analysis;
pub mod bind;
pub mod chain;
pub mod id;
pub mod plan;
pub mod policy;
pub mod spelling;
