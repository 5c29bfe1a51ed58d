//! Refuses values with the key of the object that stands for a redacted secret: pages would show them as a secret,
//! and what a person approves must be shown.

use serde_json::Value;

use crate::bind::{REDACTED_KEY, redaction_marker_path};
use crate::plan::{Finding, Plan};

/// The error for the first such value in the plan's document. Apart from parsing, because a stored plan may be older
/// than this rule.
pub fn check_markers(plan: &Plan) -> Option<Finding> {
    if !plan.document.contains(REDACTED_KEY) {
        return None;
    }
    let document: Value = serde_json::from_str(&plan.document).ok()?;
    let path = redaction_marker_path(&document)?.trim_start_matches('.').to_owned();
    let message = format!("the key `{REDACTED_KEY}` stands for a redacted secret");
    Some(Finding::error("redaction_marker", path, message, "give the value itself, or another key"))
}
