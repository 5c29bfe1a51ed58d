//! The engine at its boundary: text in, findings, entries and states out.

mod analysis;
mod bind;
mod call_roles;
mod chain;
mod counts;
mod event;
mod harness;
mod invariants;
mod plan;
mod report_check;
mod rules;
mod semantics;
mod simulation;
mod template;

/// Random cases per property: few by default, more with `ACTBOOK_FUZZ_CASES`.
pub fn fuzz_cases() -> u32 {
    u32::try_from(counts::times("ACTBOOK_FUZZ_CASES", 2_000)).expect("a small number")
}
