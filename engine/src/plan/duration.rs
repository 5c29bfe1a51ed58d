//! Parses and writes durations such as `250ms`, `30s`, `5m` and `2h`.

/// Unit names with their length in milliseconds, shortest first.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Parses a duration into milliseconds; `None` where `text` is not a duration or overflows.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

/// Parses a duration that may also be in days (`90d`) into milliseconds; `None` as above.
pub fn parse_age_ms(text: &str) -> Option<i64> {
    const DAY_MS: i64 = 24 * 3_600_000;
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => i64::from(days).checked_mul(DAY_MS),
        None => i64::try_from(parse_duration_ms(text)?).ok(),
    }
}

/// Writes a duration in the largest unit that divides it evenly.
pub fn duration_text(ms: u64) -> String {
    let (unit, scale) =
        UNITS.iter().rev().find(|(_, scale)| ms >= *scale && ms.is_multiple_of(*scale)).unwrap_or(&UNITS[0]);
    format!("{}{unit}", ms / scale)
}
