//! Pages of other sites cannot act or read with a person's session: forged requests, rebound names, frames.

use super::server::WebServer;
use crate::cli::Sandbox;

#[test]
fn requests_of_foreign_pages_are_refused_despite_the_cookie() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let own = format!("http://{}", server.process.address);
    let foreign: &[&[(&str, &str)]] = &[
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
            ("Origin", "http://evil.example"),
        ],
        &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")],
        &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors"), ("Origin", "http://127.0.0.1:3000")],
        &[("Origin", "http://localhost:3000")],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
    ];
    for headers in foreign {
        let headers: Vec<(&str, &str)> =
            headers.iter().copied().chain([("Cookie", cookie.as_str())]).collect();
        for path in ["/logout", "/api/v1/executions"] {
            let reply = server.send("POST", path, &headers, "{}");
            assert_eq!(reply.status, 403, "{path} {headers:?}: {reply:?}");
        }
    }
    let streams = [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors"), ("Cookie", &cookie)];
    assert_eq!(server.send("GET", "/api/v1/events", &streams, "").status, 403, "an EventSource elsewhere");
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Cookie", &cookie)];
    assert_eq!(server.send("GET", "/api/v1/whoami", &link, "").status, 200, "a link is followed");
    let own_page = [("Sec-Fetch-Site", "same-origin"), ("Origin", &own), ("Cookie", &cookie)];
    assert_eq!(server.send("POST", "/logout", &own_page, "").status, 303);
}

#[test]
fn rebound_host_name_is_refused_with_a_good_credential() {
    let sandbox = Sandbox::new();
    let server = WebServer::start_with(&sandbox, &["--public-url", "http://book.example"]);
    let token = format!("Bearer {}", server.token);
    let port = server.process.address.rsplit(':').next().unwrap();
    let status = |host: &str| {
        server.send_to_host(host, "GET", "/api/v1/whoami", &[("Authorization", &token)], "").status
    };
    for rebound in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example", "0.0.0.0"] {
        assert_eq!(status(rebound), 403, "{rebound}");
    }
    for own in [&server.process.address, &format!("localhost:{port}"), "book.example"] {
        assert_eq!(status(own), 200, "{own}");
    }
}

#[test]
fn every_response_has_the_security_headers() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                  connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    for path in ["/", "/login", "/api/v1/whoami", "/healthz", "/assets/none"] {
        for reply in [server.get(path), server.send("GET", path, &[], "")] {
            assert_eq!(reply.header("content-security-policy"), policy, "{path}");
            assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(reply.header("referrer-policy"), "same-origin", "{path}");
        }
    }
}
