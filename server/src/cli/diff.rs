//! Prints what differs between two texts.

use super::status_style::{BAD, GOOD, QUIET, painted};
use crate::service::{DiffLine, diff_lines, near_changes};

/// The changed lines with some unchanged ones around them, styled; empty if the texts are equal.
pub fn painted_lines(old: &str, new: &str) -> Vec<String> {
    let paint = |line: Option<DiffLine<'_>>| match line {
        None => painted(QUIET, "  …"),
        Some(DiffLine::Same(text)) => format!("  {text}"),
        Some(DiffLine::Removed(text)) => painted(BAD, format_args!("- {text}")),
        Some(DiffLine::Added(text)) => painted(GOOD, format_args!("+ {text}")),
    };
    near_changes(&diff_lines(old, new)).into_iter().map(paint).collect()
}
