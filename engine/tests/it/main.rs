mod analysis;
mod bind;
mod chain;
mod plan;
