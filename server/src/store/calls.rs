//! A call as the projector derives it from an execution's entries. It holds no text that a tool returned, only
//! the position of its payload.

use actbook_engine::id::StreamId;
use actbook_engine::policy::{ErrorCategory, Outcome};

/// One call: an attempt at a step, a probe, or an attempt at its compensation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    pub stream: StreamId,
    pub step: String,
    /// `run`, `probe` or `compensation`.
    pub kind: &'static str,
    pub number: u64,
    /// `server/tool`; None if a person or an agent acts without a tool.
    pub tool: Option<String>,
    /// An agent made the call, not Actbook.
    pub agent: bool,
    pub started_at: i64,
    /// None while the call runs, or if the time of its end is unknown.
    pub took_ms: Option<i64>,
    pub outcome: Option<Outcome>,
    pub category: Option<ErrorCategory>,
    /// False: the call is known not to have left this process.
    pub sent: bool,
    /// Position of the entry that ended the call. None while it runs.
    pub end_position: Option<u64>,
    /// The entry that ended the call has a payload with an error text.
    pub has_error_text: bool,
}
