//! Compresses what pages load, for browsers that take gzip. Bodies whose length is not known, such as streams and
//! exports, pass as they are.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A shorter body would hardly become smaller.
const BYTES_MIN: u64 = 1_024;
/// A longer body is sent as it is, so that compressing it does not hold up others.
const BYTES_MAX: u64 = 4 * 1_024 * 1_024;
const LEVEL: u32 = 6;
const COMPRESSED_TYPES: [&str; 5] =
    ["text/html", "text/css", "text/javascript", "image/svg+xml", "application/json"];

/// Compresses the response if the request takes that and it is worth it.
pub async fn compress(request: Request, next: Next) -> Response {
    let takes_gzip = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    let size = response.body().size_hint().exact();
    let is_worth_it = size.is_some_and(|size| (BYTES_MIN..=BYTES_MAX).contains(&size));
    if !is_worth_it || !is_compressible(response.headers()) {
        return response;
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !takes_gzip {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BYTES_MAX as usize).await else {
        // A body of known length is in memory and cannot fail to be read.
        return Response::from_parts(head, Body::empty());
    };
    let body = match gzip(&bytes) {
        Ok(smaller) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            Body::from(smaller)
        }
        Err(error) => {
            tracing::warn!("a response was not compressed: {error}");
            Body::from(bytes)
        }
    };
    Response::from_parts(head, body)
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(LEVEL));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Whether a request names gzip among the encodings that it takes, and does not refuse it.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        parts.next() == Some("gzip") && !parts.any(is_refused)
    })
}

/// Whether a response has a type that becomes smaller. One that can be read in ranges is left as it is: the ranges and
/// the ETag are those of its own bytes.
fn is_compressible(headers: &HeaderMap) -> bool {
    if headers.contains_key(header::ACCEPT_RANGES) {
        return false;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or(kind).trim();
    COMPRESSED_TYPES.contains(&kind) && !headers.contains_key(header::CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_encoding_is_not_taken() {
        let takes = |value: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        assert!(takes("gzip") && takes("br, gzip;q=0.5") && takes("deflate , gzip"));
        assert!(!takes("") && !takes("gzip;q=0") && !takes("br, x-gzip") && !takes("gzip; q=0.0"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
