//! How often random and repeated tests repeat. Both crates' tests use this file.

/// Repetitions of a test: the number in `variable`, else `usual`, divided by `ACTBOOK_FAST`.
pub fn times(variable: &str, usual: usize) -> usize {
    number(variable).unwrap_or((usual / number("ACTBOOK_FAST").unwrap_or(1)).max(1))
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a count is a number"))
}
