//! Parts of long responses: `Range: bytes=…` (RFC 9110), for a value that is too long to be read at once and for a
//! download that was cut. The ETag tells whether parts belong together.

use actbook_engine::chain::Digest;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;

use crate::service::ExportReader;
use crate::web::Problem;

/// Characters of the digest in an ETag: enough to tell the states of one document apart.
const TAG_CHARS: usize = 22;

/// The bytes that the request asks for: one range of them, or all. Err 416: the range lies behind the end.
pub fn ranged(request: &HeaderMap, content_type: &'static str, body: Vec<u8>) -> Result<Response, Problem> {
    let (tag, body) = (entity_tag(&body), Bytes::from(body));
    let response = match wanted_range(request, &tag).map(|range| parse_range(range, body.len())) {
        None | Some(None) => body.into_response(),
        Some(Some(range)) => {
            let part = range.within(body.len())?;
            partial(body.slice(part.clone()).into(), &part, body.len())
        }
    };
    Ok(with_range_headers(response, content_type, &tag))
}

/// Like `ranged`, of an export, which is never in memory as a whole. For a range it is read twice: its length is not
/// known before.
pub async fn ranged_export(
    request: &HeaderMap,
    content_type: &'static str,
    export: ExportReader,
) -> Result<Response, Problem> {
    let tag = entity_tag(export.version().as_bytes());
    let response = match wanted_range(request, &tag) {
        None => Response::new(export_body(export, 0..usize::MAX)),
        Some(range) => {
            let length = length_of(export.clone()).await?;
            match parse_range(range, length) {
                None => Response::new(export_body(export, 0..usize::MAX)),
                Some(range) => {
                    let part = range.within(length)?;
                    partial(export_body(export, part.clone()), &part, length)
                }
            }
        }
    };
    Ok(with_range_headers(response, content_type, &tag))
}

async fn length_of(mut export: ExportReader) -> Result<usize, Problem> {
    let mut length = 0;
    while let Some(part) = export.next_part().await? {
        length += part.len();
    }
    Ok(length)
}

/// The bytes of an export from `wanted.start` up to `wanted.end`. An error in the middle breaks the connection off.
fn export_body(export: ExportReader, wanted: std::ops::Range<usize>) -> Body {
    let begun = (export, wanted, 0);
    Body::from_stream(unfold(begun, |(mut export, wanted, mut at)| async move {
        while at < wanted.end {
            let part = match export.next_part().await {
                Ok(part) => Bytes::from(part?),
                Err(error) => return Some((Err(error), (export, 0..0, at))),
            };
            let [from, to] = [wanted.start, wanted.end].map(|one| one.saturating_sub(at).min(part.len()));
            at += part.len();
            if from < to {
                return Some((Ok(part.slice(from..to)), (export, wanted, at)));
            }
        }
        None
    }))
}

/// The range that a request asks for. None: it asks for all, or continues another document.
fn wanted_range<'a>(request: &'a HeaderMap, tag: &str) -> Option<&'a str> {
    let range = request.get(header::RANGE).filter(|_| is_same_document(request, tag))?;
    range.to_str().ok()
}

/// A response with one part of a document of this length.
fn partial(body: Body, part: &std::ops::Range<usize>, length: usize) -> Response {
    let mut response = (StatusCode::PARTIAL_CONTENT, body).into_response();
    let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
    insert(&mut response, header::CONTENT_RANGE, &range);
    response
}

fn with_range_headers(mut response: Response, content_type: &'static str, tag: &str) -> Response {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(&mut response, header::ETAG, tag);
    response
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

impl Range {
    /// The bytes of a document with `length` bytes. Err 416: there are none.
    fn within(self, length: usize) -> Result<std::ops::Range<usize>, Problem> {
        match self {
            Self::Part { first, last } => Ok(first..last + 1),
            Self::Unsatisfiable => Err(unsatisfiable(length)),
        }
    }
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
