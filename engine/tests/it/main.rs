mod chain;
mod analysis;
mod bind;
mod plan;
