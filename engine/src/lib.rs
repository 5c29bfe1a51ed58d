pub mod chain;
pub mod id;
