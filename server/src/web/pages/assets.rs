//! The files that pages load: the style sheet, the script, htmx and the icon. They are in the binary; nothing comes
//! from elsewhere. `assets/README.md` has their sources, licences and digests.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::LazyLock;

use actbook_engine::chain::Digest;

/// A file of the binary.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: [Asset; 5] = [
    Asset {
        name: "actbook.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/actbook.css"),
    },
    Asset { name: "actbook.js", content_type: JAVASCRIPT, bytes: include_bytes!("../assets/actbook.js") },
    Asset { name: "htmx.min.js", content_type: JAVASCRIPT, bytes: include_bytes!("../assets/htmx.min.js") },
    Asset {
        name: "hx-sse.min.js",
        content_type: JAVASCRIPT,
        bytes: include_bytes!("../assets/hx-sse.min.js"),
    },
    Asset { name: "icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// The entity tag of each asset, in the order of `ASSETS`.
static TAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| ASSETS.iter().map(|asset| format!("\"{}\"", Digest::of(asset.bytes))).collect());

/// `GET /assets/{name}`. A browser asks again each time and gets 304 while the file is the same, so that a new
/// version of the binary never meets an old script.
pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let found = ASSETS.iter().zip(TAGS.iter()).find(|(asset, _)| asset.name == name);
    let Some((asset, tag)) = found else { return StatusCode::NOT_FOUND.into_response() };
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { asset.bytes.into_response() };
    let about = response.headers_mut();
    about.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    about.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        about.insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// `assets/README.md` names the digest of every vendored file.
    #[test]
    fn vendored_files_are_those_that_the_readme_names() {
        let readme = include_str!("../assets/README.md");
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".min.js")) {
            let digest = Sha256::digest(asset.bytes);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(readme.contains(&hex), "{}: {hex}", asset.name);
        }
    }
}
