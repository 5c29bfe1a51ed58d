pub mod analysis;
pub mod bind;
pub mod chain;
pub mod id;
pub mod plan;
pub mod policy;
pub mod spelling;
