//! Brings lists and statistics up to date before a command reads them, and says so when it takes long: after an
//! upgrade, or if no `serve` runs, much of the journal may have to be read.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::session::Session;
use super::status_style::{QUIET, painted};
use crate::error::Error;

/// How often a line says how much remains.
const NOTICE_EVERY: Duration = Duration::from_secs(2);

/// Catches up with the journal; prints a notice every two seconds.
pub async fn catch_up(session: &Session) -> Result<(), Error> {
    let said_at = Cell::new(Instant::now());
    let on_progress = |remaining: u64| {
        if remaining > 0 && said_at.get().elapsed() >= NOTICE_EVERY {
            said_at.set(Instant::now());
            let text =
                format_args!("reading the journal for lists and statistics: {remaining} entries remain");
            session.output.notice(painted(QUIET, text));
        }
    };
    session.service.catch_up(on_progress).await
}
