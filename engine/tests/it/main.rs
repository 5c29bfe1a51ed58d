mod analysis;
mod bind;
mod book;
mod chain;
mod laws;
mod plan;
mod semantics;
mod simulation;
