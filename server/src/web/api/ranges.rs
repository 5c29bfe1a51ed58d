//! Parts of long responses: `Range: bytes=…` (RFC 9110), for a value that is too long to be read at once and for a
//! download that was cut. The ETag tells whether parts belong together.

use actbook_engine::chain::Digest;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::web::Problem;

/// Characters of the digest in an ETag: enough to tell the states of one document apart.
const TAG_CHARS: usize = 22;

/// The bytes that the request asks for: one range of them, or all. Err 416: the range lies behind the end.
pub fn ranged(request: &HeaderMap, content_type: &'static str, body: Vec<u8>) -> Result<Response, Problem> {
    let (length, tag) = (body.len(), entity_tag(&body));
    let wanted = request.get(header::RANGE).filter(|_| is_same_document(request, &tag));
    let range = wanted.and_then(|range| parse_range(range.to_str().ok()?, length));
    let mut response = match range {
        None => body.into_response(),
        Some(Range::Unsatisfiable) => return Err(unsatisfiable(length)),
        Some(Range::Part { first, last }) => {
            let part = body[first..=last].to_vec();
            let mut response = (StatusCode::PARTIAL_CONTENT, part).into_response();
            insert(&mut response, header::CONTENT_RANGE, &format!("bytes {first}-{last}/{length}"));
            response
        }
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(&mut response, header::ETAG, &tag);
    Ok(response)
}

fn insert(response: &mut Response, name: header::HeaderName, value: &str) {
    // The values are made of digits, letters and ASCII punctuation.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn entity_tag(body: &[u8]) -> String {
    let mut digest = Digest::of(body).to_string();
    digest.truncate(TAG_CHARS);
    format!("\"{digest}\"")
}

/// Whether the range continues the document that the client has begun to read; true if it does not say.
fn is_same_document(request: &HeaderMap, tag: &str) -> bool {
    request.get(header::IF_RANGE).is_none_or(|given| given.as_bytes() == tag.as_bytes())
}

/// One range of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// Both bytes are included.
    Part { first: usize, last: usize },
    /// It begins behind the end.
    Unsatisfiable,
}

/// The range that a header asks for of a document with `length` bytes. None: it is malformed, of another unit, or
/// asks for several ranges; all of the document is sent then.
fn parse_range(header: &str, length: usize) -> Option<Range> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let part = |first: usize, last: usize| {
        if first < length && first <= last {
            Range::Part { first, last: last.min(length - 1) }
        } else {
            Range::Unsatisfiable
        }
    };
    match (first.trim(), last.trim()) {
        ("", "") => None,
        ("", count) => {
            let count: usize = count.parse().ok()?;
            if count == 0 {
                Some(Range::Unsatisfiable)
            } else {
                Some(part(length.saturating_sub(count), length))
            }
        }
        (first, "") => Some(part(first.parse().ok()?, usize::MAX)),
        (first, last) => {
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then(|| part(first, last))
        }
    }
}

fn unsatisfiable(length: usize) -> Problem {
    let detail = format!("the range begins behind the end: there are {length} bytes");
    let status = StatusCode::RANGE_NOT_SATISFIABLE;
    Problem::new(status, "range_not_satisfiable", detail, "ask for bytes that are there, or leave Range out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_end_and_refused_behind_it() {
        let part = |first, last| Some(Range::Part { first, last });
        for (header, range) in [
            ("bytes=0-3", part(0, 3)),
            ("bytes=4-", part(4, 9)),
            ("bytes=8-99", part(8, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-99", part(0, 9)),
            ("bytes=10-", Some(Range::Unsatisfiable)),
            ("bytes=-0", Some(Range::Unsatisfiable)),
            ("bytes=3-2", None),
            ("bytes=a-b", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-3", None),
        ] {
            assert_eq!(parse_range(header, 10), range, "{header}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Some(Range::Unsatisfiable));
    }
}
