//! `guard.snapshot`: what is kept of the files of guarded sessions, so that an undo can restore them.

use std::path::PathBuf;
use std::time::Duration;

use actbook_engine::plan::parse_age_ms;
use actbook_engine::rules::RuleEffect;

use super::ConfigProblem;
use super::section::Section;

const MEGABYTE: u64 = 1024 * 1024;
const FILE_BYTES_MAX: u64 = 50 * MEGABYTE;
const TOTAL_BYTES_MAX: u64 = 2048 * MEGABYTE;
const BUDGET: Duration = Duration::from_secs(2);
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const IGNORED: [&str; 2] = ["target/", "node_modules/"];
/// The units of sizes, the largest first: `B` is the end of the others.
const UNITS: [(&str, u64); 4] = [("GB", 1024 * MEGABYTE), ("MB", MEGABYTE), ("KB", 1024), ("B", 1)];

/// What is kept of the files around an agent's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// As written: relative to the config's folder. `None`: that folder itself.
    pub folder: Option<PathBuf>,
    /// A larger file is not kept.
    pub file_bytes_max: u64,
    /// Most bytes that are kept for one session.
    pub total_bytes_max: u64,
    /// How long one call waits for the first snapshot.
    pub budget: Duration,
    pub ignore: Vec<String>,
    /// How long kept files stay after a session's last call.
    pub keep: Duration,
    /// What holds for a shell command while the first snapshot is not complete.
    pub over: RuleEffect,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self {
            folder: None,
            file_bytes_max: FILE_BYTES_MAX,
            total_bytes_max: TOTAL_BYTES_MAX,
            budget: BUDGET,
            ignore: IGNORED.map(str::to_owned).into(),
            keep: KEEP,
            over: RuleEffect::Ask,
        }
    }
}

/// Reads `snapshot`, which is on unless it is `false`.
pub(super) fn read_snapshot(guard: &mut Section) -> Result<Option<SnapshotConfig>, ConfigProblem> {
    let Some(value) = guard.take_value("snapshot") else { return Ok(Some(SnapshotConfig::default())) };
    if let Some(is_on) = value.as_bool() {
        return Ok(is_on.then(SnapshotConfig::default));
    }
    let mut entry = Section::open("guard.snapshot", value)?;
    let default = SnapshotConfig::default();
    let ignore = entry.texts("ignore")?;
    let config = SnapshotConfig {
        folder: entry.text("folder")?.map(PathBuf::from),
        file_bytes_max: size(&mut entry, "file_max")?.unwrap_or(FILE_BYTES_MAX),
        total_bytes_max: size(&mut entry, "total_max")?.unwrap_or(TOTAL_BYTES_MAX),
        budget: entry.duration("budget")?.unwrap_or(BUDGET),
        ignore: if ignore.is_empty() { default.ignore } else { ignore },
        keep: age(&mut entry, "keep")?.unwrap_or(KEEP),
        over: entry.keyword("over", RuleEffect::ALL, RuleEffect::as_str)?.unwrap_or(default.over),
    };
    entry.finish()?;
    Ok(Some(config))
}

/// Takes a size such as `50MB`.
fn size(entry: &mut Section, key: &'static str) -> Result<Option<u64>, ConfigProblem> {
    let Some(text) = entry.text(key)? else { return Ok(None) };
    let parsed = UNITS
        .iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*scale));
    let wrong = || entry.problem_at(key, format!("`{text}` is not a size; write 500KB, 50MB or 2GB"));
    parsed.map(Some).ok_or_else(wrong)
}

/// Takes a duration that may be in days.
fn age(entry: &mut Section, key: &'static str) -> Result<Option<Duration>, ConfigProblem> {
    let Some(text) = entry.text(key)? else { return Ok(None) };
    let parsed = parse_age_ms(&text).and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
    let wrong = || entry.problem_at(key, format!("`{text}` is not a duration; write 12h or 30d"));
    parsed.map(|ms| Some(Duration::from_millis(ms))).ok_or_else(wrong)
}
