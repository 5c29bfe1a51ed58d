//! One sign and one colour per state, the same wherever it is shown.

use actbook_engine::policy::{Status, StepStatus};
use anstyle::{AnsiColor, Style};

pub use super::paint::painted;

pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const ASKS: Style = AnsiColor::Yellow.on_default().bold();
pub const BUSY: Style = AnsiColor::Cyan.on_default();
pub const UNDONE: Style = AnsiColor::Magenta.on_default();
pub const QUIET: Style = Style::new().dimmed();
pub const STRONG: Style = Style::new().bold();

pub fn step(status: StepStatus) -> (&'static str, Style) {
    match status {
        StepStatus::Pending => ("○", QUIET),
        StepStatus::Running => ("●", BUSY),
        StepStatus::AwaitingApproval => ("!", ASKS),
        StepStatus::AwaitingAgent => ("→", ASKS),
        StepStatus::Succeeded => ("✓", GOOD),
        StepStatus::Failed => ("✗", BAD),
        StepStatus::Unknown => ("?", BAD),
        StepStatus::Skipped => ("–", QUIET),
        StepStatus::Cancelled => ("⊘", QUIET),
        StepStatus::Compensating => ("↶", BUSY),
        StepStatus::Compensated => ("↺", UNDONE),
        StepStatus::CompensationFailed => ("✗", BAD),
    }
}

pub fn execution(status: Status) -> Style {
    match status {
        Status::Running | Status::Compensating => BUSY,
        Status::Paused | Status::Blocked => ASKS,
        Status::Succeeded => GOOD,
        Status::Failed => BAD,
        Status::Cancelled => QUIET,
        Status::Compensated => UNDONE,
    }
}

/// An id as people type it.
pub fn short(id: &str) -> &str {
    const SHOWN: usize = 8;
    id.get(..SHOWN).unwrap_or(id)
}
