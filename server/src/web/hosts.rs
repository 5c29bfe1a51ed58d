//! Which host names requests may use. A page whose name resolves to this machine (DNS rebinding) has another
//! name, and a browser sends it as Host and Origin.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// All names that a Host or Origin header may have: the loopback names, the address itself, and `further`.
pub fn allowed_hosts(address: SocketAddr, further: &[String]) -> Vec<String> {
    let own = match address.ip() {
        ip if ip.is_unspecified() => None,
        IpAddr::V4(ip) => Some(ip.to_string()),
        IpAddr::V6(ip) => Some(format!("[{ip}]")),
    };
    let loopback = LOOPBACK_NAMES.iter().map(|name| (*name).to_owned());
    loopback.chain(own).chain(further.iter().cloned()).collect()
}

/// The host that a request names; None: no Host header, several, or the URI names another host.
pub fn request_host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().and_then(|host| host.to_str().ok()).map(str::to_owned);
    let single = given.next().is_none();
    let agrees = uri.authority().is_none_or(|authority| Some(authority.as_str()) == host.as_deref());
    host.filter(|_| single && agrees)
}

/// Whether every Origin header is an http(s) origin with an allowed host; true if there is none.
pub fn origins_are_allowed(headers: &HeaderMap, names: &[String]) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok();
        let host = origin
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        host.is_some_and(|host| is_allowed_host(host, names))
    })
}

/// Whether `host` is an allowed name with any port, or an allowed `name:port`.
pub fn is_allowed_host(host: &str, names: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let numeric = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    numeric && names.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(&host))
}
