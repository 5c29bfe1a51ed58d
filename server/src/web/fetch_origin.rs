//! Recognises requests that a page of another site makes (cross-site request forgery). Browsers say where a request
//! comes from in Sec-Fetch-Site, older ones in Origin alone; programs send neither.

use axum::http::{HeaderMap, Method, header};

/// Whether a browser sends the request for a page that is not of this server. Another port of this machine is
/// foreign too: `same-site` is not enough. Following a link is allowed.
pub fn is_foreign_fetch(method: &Method, headers: &HeaderMap, host: &str) -> bool {
    let is_safe = [Method::GET, Method::HEAD].contains(method);
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match header("sec-fetch-site") {
        Some("same-origin" | "none") => false,
        Some(_) => !(is_safe && header("sec-fetch-mode") == Some("navigate")),
        None => !is_safe && headers.get_all(header::ORIGIN).iter().any(|origin| !is_own(origin, host)),
    }
}

/// Whether an Origin header names the server that the Host header names.
fn is_own(origin: &axum::http::HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_foreign(method: Method, headers: &[(&'static str, &str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        is_foreign_fetch(&method, &headers.collect(), "127.0.0.1:4700")
    }

    #[test]
    fn only_own_pages_programs_and_links_pass() {
        let site = "sec-fetch-site";
        assert!(!is_foreign(Method::POST, &[]));
        assert!(!is_foreign(Method::POST, &[(site, "same-origin")]));
        assert!(!is_foreign(Method::POST, &[("origin", "http://127.0.0.1:4700")]));
        assert!(!is_foreign(Method::GET, &[(site, "cross-site"), ("sec-fetch-mode", "navigate")]));
        assert!(is_foreign(Method::POST, &[(site, "cross-site"), ("sec-fetch-mode", "navigate")]));
        assert!(is_foreign(Method::POST, &[(site, "same-site")]));
        assert!(is_foreign(Method::POST, &[("origin", "http://127.0.0.1:3000")]));
        assert!(is_foreign(Method::POST, &[("origin", "null")]));
        assert!(is_foreign(Method::GET, &[(site, "cross-site"), ("sec-fetch-mode", "no-cors")]));
        assert!(is_foreign(Method::GET, &[(site, "same-site"), ("sec-fetch-mode", "cors")]));
        assert!(is_foreign(Method::POST, &[(site, "unheard-of")]));
    }
}
