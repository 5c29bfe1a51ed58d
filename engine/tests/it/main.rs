mod analysis;
mod bind;
mod plan;
