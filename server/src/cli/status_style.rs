//! The symbol and the colour of each status, the same wherever a status is printed.

use actbook_engine::policy::{ExecutionStatus, StepStatus};
use anstyle::{AnsiColor, Style};

pub use super::paint::painted;

/// Succeeded.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Failed or unknown.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Waits for a person or an agent; warnings.
pub const ATTENTION: Style = AnsiColor::Yellow.on_default().bold();
/// Under way; commands to type.
pub const BUSY: Style = AnsiColor::Cyan.on_default();
/// Compensated.
pub const UNDONE: Style = AnsiColor::Magenta.on_default();
/// Secondary text.
pub const QUIET: Style = Style::new().dimmed();
/// Headings and names.
pub const STRONG: Style = Style::new().bold();

pub fn step_symbol_and_style(status: StepStatus) -> (&'static str, Style) {
    match status {
        StepStatus::Pending => ("○", QUIET),
        StepStatus::Running => ("●", BUSY),
        StepStatus::AwaitingApproval => ("!", ATTENTION),
        StepStatus::AwaitingAgent => ("→", ATTENTION),
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

pub fn execution_style(status: ExecutionStatus) -> Style {
    match status {
        ExecutionStatus::Running | ExecutionStatus::Compensating => BUSY,
        ExecutionStatus::Paused | ExecutionStatus::Blocked => ATTENTION,
        ExecutionStatus::Succeeded => GOOD,
        ExecutionStatus::Failed => BAD,
        ExecutionStatus::Cancelled => QUIET,
        ExecutionStatus::Compensated => UNDONE,
    }
}

/// The first characters of an id, as people type it; a shorter one whole.
pub fn short_id(id: &str) -> &str {
    const SHOWN: usize = 8;
    id.get(..SHOWN).unwrap_or(id)
}

/// Whether the step runs, waits for an answer, or is being undone.
pub fn is_under_way(status: StepStatus) -> bool {
    use StepStatus::{AwaitingAgent, AwaitingApproval, Compensating, Running};
    matches!(status, Running | AwaitingApproval | AwaitingAgent | Compensating)
}
