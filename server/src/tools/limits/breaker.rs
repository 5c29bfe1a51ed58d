//! The circuit breaker: a server that was out of reach several times in a row is left alone for a while;
//! then one call tries it, and the rest follow once that one was answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use actbook_engine::policy::Category;
use serde::Serialize;

use crate::tools::Ended;
use crate::tools::classify::Came;

/// Out of reach this often in a row opens it, where the config does not say.
pub const AFTER_DEFAULT: u32 = 5;
/// How long no call leaves, where the config does not say.
pub const COOL_DOWN_DEFAULT: Duration = Duration::from_secs(30);

const LAST_WORDS_CHARS: usize = 200;

pub struct Breaker {
    name: String,
    after: u32,
    cool_down: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In a row. Calls that went down together count once.
    failures: u32,
    failed_at: Option<Instant>,
    last_words: String,
    /// One call is out to see whether it is back.
    trying: bool,
}

/// Where it stands, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "circuit", rename_all = "snake_case")]
pub enum Circuit {
    Closed,
    /// No call leaves for so long.
    Open {
        for_ms: u64,
    },
    /// The next call, or the one that is out, tries it.
    HalfOpen,
}

impl Breaker {
    pub fn new(name: &str, after: Option<u32>, cool_down: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            after: after.unwrap_or(AFTER_DEFAULT),
            cool_down: cool_down.unwrap_or(COOL_DOWN_DEFAULT),
            state: Mutex::default(),
        }
    }

    /// A call may leave, or why none does.
    pub fn admit(&self) -> Result<Ticket<'_>, Came> {
        let mut state = self.lock();
        match self.stands(&state) {
            Circuit::Closed => {}
            Circuit::HalfOpen if !state.trying => state.trying = true,
            Circuit::HalfOpen => {
                let why = format!(
                    "{}; one call is out to see whether it is back, and none follows before it is answered",
                    self.row(&state)
                );
                return Err(Came::NotSent { category: Category::Unavailable, why });
            }
            Circuit::Open { for_ms } => {
                let wait = Duration::from_millis(for_ms);
                let why = format!("{}; no call leaves for it before {}", self.row(&state), clock_in(wait));
                return Err(Came::NotSent { category: Category::Unavailable, why });
            }
        }
        Ok(Ticket { breaker: self, begun: Instant::now(), trying: state.trying })
    }

    pub fn circuit(&self) -> Circuit {
        self.stands(&self.lock())
    }

    fn stands(&self, state: &State) -> Circuit {
        let Some(failed_at) = state.failed_at.filter(|_| state.failures >= self.after) else {
            return Circuit::Closed;
        };
        match self.cool_down.checked_sub(failed_at.elapsed()) {
            Some(left) if !left.is_zero() => {
                Circuit::Open { for_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1) }
            }
            Some(_) | None => Circuit::HalfOpen,
        }
    }

    fn row(&self, state: &State) -> String {
        format!("`{}` was out of reach {} times in a row ({})", self.name, state.failures, state.last_words)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In UTC, to the second after.
fn clock_in(wait: Duration) -> String {
    let at = SystemTime::now() + wait + Duration::from_secs(1);
    let at = jiff::Timestamp::try_from(at).map(|at| at.strftime("%H:%M:%S UTC").to_string());
    at.unwrap_or_else(|_| format!("{wait:?} have passed"))
}

/// A call that was let through. Dropped without an end, it tells nothing and lets another one try.
pub struct Ticket<'a> {
    breaker: &'a Breaker,
    begun: Instant,
    trying: bool,
}

/// What an end says of the server.
enum Says {
    Answered,
    OutOfReach,
    Nothing,
}

impl Ticket<'_> {
    pub fn over(mut self, ended: &Ended) {
        let mut state = self.breaker.lock();
        match says(ended, self.trying) {
            Says::Answered => *state = State::default(),
            // One that was out already when another went down went down with it.
            Says::OutOfReach if self.trying || state.failed_at.is_none_or(|at| at < self.begun) => {
                state.failures = state.failures.saturating_add(1);
                state.failed_at = Some(Instant::now());
                state.last_words = words(ended);
                if state.failures == self.breaker.after {
                    tracing::warn!("{}; it is left alone for a while", self.breaker.row(&state));
                }
            }
            Says::OutOfReach | Says::Nothing => {}
        }
        if self.trying {
            state.trying = false;
        }
        self.trying = false;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.trying {
            self.breaker.lock().trying = false;
        }
    }
}

/// One slow tool is not a server out of reach; but a server that does not come up in time is, and who
/// tries a server must hear from it.
fn says(ended: &Ended, trying: bool) -> Says {
    match ended {
        Ended::Succeeded { .. } | Ended::Asks { .. } => Says::Answered,
        Ended::Failed { category: Category::Unavailable, .. } => Says::OutOfReach,
        Ended::Failed { category: Category::Timeout, sent: false, .. } => Says::OutOfReach,
        Ended::Failed { sent: false, .. } => Says::Nothing,
        Ended::Failed { sent: true, .. } => Says::Answered,
        Ended::Unknown { category: Category::Unavailable, .. } => Says::OutOfReach,
        Ended::Unknown { category: Category::Timeout, .. } if trying => Says::OutOfReach,
        Ended::Unknown { category: Category::Timeout, .. } => Says::Nothing,
        Ended::Unknown { .. } => Says::Answered,
    }
}

fn words(ended: &Ended) -> String {
    match ended {
        Ended::Succeeded { .. } | Ended::Asks { .. } => String::new(),
        Ended::Failed { message, .. } | Ended::Unknown { message, .. } => {
            message.chars().take(LAST_WORDS_CHARS).collect()
        }
    }
}
