//! Reading what came back over HTTP, never more of it than there is room for.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};

use super::told;
use crate::tools::classify::Came;

/// Of an answer that says no only the head is kept, for people to read.
const REFUSAL_BYTES_MAX: usize = 8 * 1024;
/// A server may ask for patience, but not for more than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Reads at most `bytes_max`; says whether there was more.
pub async fn read(response: &mut Response, bytes_max: usize) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error.without_url()))? {
        let room = bytes_max - body.len();
        body.extend_from_slice(&chunk[..room.min(chunk.len())]);
        if chunk.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// A status that is no success: what is to be judged, and the head of its body.
pub async fn refusal(mut response: Response) -> (Came, Vec<u8>) {
    let (code, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    // The status has said enough where its body breaks off.
    let body = read(&mut response, REFUSAL_BYTES_MAX).await.map(|(body, _)| body).unwrap_or_default();
    let text = location.unwrap_or_else(|| String::from_utf8_lossy(&body).trim().to_owned());
    (Came::Status { code, text, retry_after }, body)
}

/// `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = said.parse().ok().map(Duration::from_secs);
    let date = || {
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(said).ok()?;
        Duration::try_from(at.duration_since(jiff::Timestamp::now())).ok()
    };
    seconds.or_else(date).map(|wait| wait.min(RETRY_AFTER_MAX))
}
