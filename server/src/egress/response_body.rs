//! Reads HTTP response bodies within limits.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};

use super::error_text;

/// Most bytes that are kept of the body of a non-2xx response, for people to read.
const REFUSAL_BYTES_MAX: usize = 8 * 1024;
/// A longer `Retry-After` is shortened to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Reads at most `bytes_max` of the body; the flag says whether there was more. Err: the body broke off.
pub async fn read_body(response: &mut Response, bytes_max: usize) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error_text(&error.without_url()))? {
        let room = bytes_max - body.len();
        body.extend_from_slice(&chunk[..room.min(chunk.len())]);
        if chunk.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// A non-2xx response.
#[derive(Clone, Debug)]
pub struct HttpFailure {
    pub code: u16,
    /// The redirect's target, or the beginning of the body, for people to read.
    pub text: String,
    pub retry_after: Option<Duration>,
    /// The beginning of the body as it was received.
    pub body: Vec<u8>,
}

/// Reads a non-2xx response.
pub async fn read_failure(mut response: Response) -> HttpFailure {
    let (code, retry_after) = (response.status().as_u16(), parse_retry_after(response.headers()));
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    // A body that breaks off is ignored: the status decides.
    let body = read_body(&mut response, REFUSAL_BYTES_MAX).await.map(|(body, _)| body).unwrap_or_default();
    let text = location.unwrap_or_else(|| String::from_utf8_lossy(&body).trim().to_owned());
    HttpFailure { code, text, retry_after, body }
}

/// The wait that `Retry-After` asks for, given in seconds or as a date. None: absent, malformed or past.
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse().ok().map(Duration::from_secs);
    let date = || {
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        Duration::try_from(at.duration_since(jiff::Timestamp::now())).ok()
    };
    seconds.or_else(date).map(|wait| wait.min(RETRY_AFTER_MAX))
}
