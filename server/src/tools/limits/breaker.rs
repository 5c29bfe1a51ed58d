//! The circuit breaker: after several consecutive calls found a server unreachable, calls are rejected for a
//! while; then one trial call is let through, and the circuit closes once that one is answered.

use std::time::{Duration, Instant, SystemTime};

use actbook_engine::policy::ErrorCategory;
use parking_lot::Mutex;
use serde::Serialize;

use crate::tools::CallOutcome;
use crate::tools::classify::RawOutcome;

/// Consecutive failures that open the circuit, unless the config says otherwise.
pub const FAILURE_THRESHOLD_DEFAULT: u32 = 5;
/// How long the circuit stays open, unless the config says otherwise.
pub const COOL_DOWN_DEFAULT: Duration = Duration::from_secs(30);

/// A longer failure message is truncated.
const LAST_MESSAGE_CHARS_MAX: usize = 200;

/// Rejects calls to a server or tool that is unreachable.
pub struct CircuitBreaker {
    name: String,
    failure_threshold: u32,
    cool_down: Duration,
    state: Mutex<BreakerState>,
}

/// The consecutive failures so far, the last one's time and text, and whether a trial call is in flight.
#[derive(Default)]
struct BreakerState {
    /// Consecutive failures. Calls that were in flight together count once.
    failures: u32,
    /// When the last failure was counted.
    failed_at: Option<Instant>,
    last_message: String,
    /// A trial call is in flight.
    trial_running: bool,
}

/// The state of a circuit, as shown to users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "circuit", rename_all = "snake_case")]
pub enum CircuitState {
    /// Calls are sent.
    Closed,
    /// Calls are rejected for so many milliseconds.
    Open { for_ms: u64 },
    /// One trial call is let through, or is in flight.
    HalfOpen,
}

impl CircuitBreaker {
    /// A closed circuit. `name` is for messages; `after` is the number of failures that opens it. None: the
    /// default.
    pub fn new(name: &str, after: Option<u32>, cool_down: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            failure_threshold: after.unwrap_or(FAILURE_THRESHOLD_DEFAULT),
            cool_down: cool_down.unwrap_or(COOL_DOWN_DEFAULT),
            state: Mutex::default(),
        }
    }

    /// Lets a call through. Err, not sent: the circuit is open, or a trial call is in flight.
    pub fn admit(&self) -> Result<AdmittedCall<'_>, RawOutcome> {
        let mut state = self.state.lock();
        match self.circuit_state_of(&state) {
            CircuitState::Closed => {}
            CircuitState::HalfOpen if !state.trial_running => state.trial_running = true,
            CircuitState::HalfOpen => {
                let why = format!(
                    "{}; one call is in flight as a test, and no other is sent before it is answered",
                    self.failure_summary(&state)
                );
                return Err(RawOutcome::NotSent { category: ErrorCategory::Unavailable, why });
            }
            CircuitState::Open { for_ms } => {
                let wait = Duration::from_millis(for_ms);
                let why = format!(
                    "{}; no call is sent to it before {}",
                    self.failure_summary(&state),
                    utc_time_after(wait)
                );
                return Err(RawOutcome::NotSent { category: ErrorCategory::Unavailable, why });
            }
        }
        Ok(AdmittedCall { breaker: self, admitted_at: Instant::now(), is_trial: state.trial_running })
    }

    pub fn circuit_state(&self) -> CircuitState {
        self.circuit_state_of(&self.state.lock())
    }

    /// The circuit's state, computed from the failures and the time since the last one.
    fn circuit_state_of(&self, state: &BreakerState) -> CircuitState {
        let Some(failed_at) = state.failed_at.filter(|_| state.failures >= self.failure_threshold) else {
            return CircuitState::Closed;
        };
        match self.cool_down.checked_sub(failed_at.elapsed()) {
            Some(left) if !left.is_zero() => {
                CircuitState::Open { for_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1) }
            }
            Some(_) | None => CircuitState::HalfOpen,
        }
    }

    /// The failures so far, as the beginning of a sentence.
    fn failure_summary(&self, state: &BreakerState) -> String {
        format!("`{}` was unreachable {} times in a row ({})", self.name, state.failures, state.last_message)
    }
}

/// The time of day when `wait` is over, rounded up to a second: `14:05:09 UTC`.
fn utc_time_after(wait: Duration) -> String {
    let at = SystemTime::now() + wait + Duration::from_secs(1);
    let at = jiff::Timestamp::try_from(at).map(|at| at.strftime("%H:%M:%S UTC").to_string());
    at.unwrap_or_else(|_| format!("{wait:?} have passed"))
}

/// A call that the breaker let through. Dropped without an outcome, it counts neither as a failure nor as an
/// answer; a trial may then be repeated.
pub struct AdmittedCall<'a> {
    breaker: &'a CircuitBreaker,
    admitted_at: Instant,
    is_trial: bool,
}

/// What a call's outcome says about its server.
enum Reachability {
    Reachable,
    Unreachable,
    Inconclusive,
}

impl AdmittedCall<'_> {
    /// Counts the outcome: an answer closes the circuit, a failure to reach the server may open it.
    pub fn record_outcome(mut self, outcome: &CallOutcome) {
        let mut state = self.breaker.state.lock();
        match reachability(outcome, self.is_trial) {
            Reachability::Reachable => *state = BreakerState::default(),
            // A call that was already in flight at the last failure belongs to that failure.
            Reachability::Unreachable
                if self.is_trial || state.failed_at.is_none_or(|at| at < self.admitted_at) =>
            {
                state.failures = state.failures.saturating_add(1);
                state.failed_at = Some(Instant::now());
                state.last_message = message_excerpt(outcome);
                if state.failures == self.breaker.failure_threshold {
                    tracing::warn!(
                        "{}; calls to it are rejected for a while",
                        self.breaker.failure_summary(&state)
                    );
                }
            }
            Reachability::Unreachable | Reachability::Inconclusive => {}
        }
        if self.is_trial {
            state.trial_running = false;
        }
        self.is_trial = false;
    }
}

impl Drop for AdmittedCall<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.state.lock().trial_running = false;
        }
    }
}

/// What the outcome says about the server. A timeout of a sent call says nothing: one tool may be slow. But a
/// server that does not start in time is unreachable, and so is one that does not answer a trial call.
fn reachability(outcome: &CallOutcome, is_trial: bool) -> Reachability {
    match outcome {
        CallOutcome::Succeeded { .. } | CallOutcome::InputRequired { .. } => Reachability::Reachable,
        CallOutcome::Failed { category: ErrorCategory::Unavailable, .. } => Reachability::Unreachable,
        CallOutcome::Failed { category: ErrorCategory::Timeout, sent: false, .. } => {
            Reachability::Unreachable
        }
        CallOutcome::Failed { sent: false, .. } => Reachability::Inconclusive,
        CallOutcome::Failed { sent: true, .. } => Reachability::Reachable,
        CallOutcome::Unknown { category: ErrorCategory::Unavailable, .. } => Reachability::Unreachable,
        CallOutcome::Unknown { category: ErrorCategory::Timeout, .. } if is_trial => {
            Reachability::Unreachable
        }
        CallOutcome::Unknown { category: ErrorCategory::Timeout, .. } => Reachability::Inconclusive,
        CallOutcome::Unknown { .. } => Reachability::Reachable,
    }
}

/// The beginning of a failure's message; empty for any other outcome.
fn message_excerpt(outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Succeeded { .. } | CallOutcome::InputRequired { .. } => String::new(),
        CallOutcome::Failed { message, .. } | CallOutcome::Unknown { message, .. } => {
            message.chars().take(LAST_MESSAGE_CHARS_MAX).collect()
        }
    }
}
