//! The engine at its boundary: text in, findings, entries and states out.

mod analysis;
mod bind;
mod book;
mod chain;
mod event;
mod laws;
mod matrix;
mod plan;
mod semantics;
mod simulation;
mod template;

/// Random cases per property: few by default, more with `ACTBOOK_FUZZ_CASES`.
pub fn fuzz_cases() -> u32 {
    std::env::var("ACTBOOK_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}
