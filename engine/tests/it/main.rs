mod analysis;
mod bind;
mod chain;
mod plan;

/// Random cases per property: few enough for every day, more where `ACTBOOK_FUZZ_CASES` says so.
pub fn fuzz_cases() -> u32 {
    std::env::var("ACTBOOK_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}
