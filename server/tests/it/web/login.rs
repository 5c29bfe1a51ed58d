//! Signing in by a one-time URL, and the session that it opens.

use super::server::{WebServer, path_of};
use crate::cli::Sandbox;
use crate::mcp::serve_process::ServeProcess;
use crate::waiting::TEST_TIMEOUT;

#[test]
fn login_code_opens_one_session() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let first = server.send("GET", &server.login_path(), &[], "");
    assert_eq!((first.status, first.header("location")), (303, "/"));
    let cookie = first.header("set-cookie");
    let port = server.process.address.rsplit(':').next().unwrap();
    assert!(cookie.starts_with(&format!("actbook-{port}=abs_")), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    let again = server.send("GET", &server.login_path(), &[], "");
    assert_eq!((again.status, again.header("set-cookie")), (403, ""), "{again:?}");
    let whoami = server.send("GET", "/api/v1/whoami", &[("Cookie", &first.cookie())], "");
    assert_eq!(whoami.status, 200, "{whoami:?}");
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| "someone".to_owned());
    assert_eq!(whoami.json()["actor"], format!("person:{user}"));
    assert_eq!(whoami.json()["role"], "admin");
}

#[test]
fn prefetch_and_head_redeem_nothing() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let path = server.login_path();
    let speculative = [("Sec-Purpose", "prefetch;prerender"), ("Purpose", "prefetch"), ("X-Moz", "prefetch")];
    for header in speculative {
        let reply = server.send("GET", &path, &[header], "");
        assert_eq!((reply.status, reply.header("set-cookie")), (204, ""), "{reply:?}");
    }
    assert_eq!(server.send("HEAD", &path, &[], "").header("set-cookie"), "");
    server.sign_in();
}

#[test]
fn invented_code_opens_nothing() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    for code in ["", "x", "abs_0000000000000000000000000000000000000", &server.token] {
        let reply = server.send("GET", &format!("/login?code={code}"), &[], "");
        assert_eq!((reply.status, reply.header("set-cookie")), (403, ""), "{code}: {reply:?}");
    }
}

#[test]
fn logout_ends_the_session() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let header = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let sessions = server.send("GET", "/api/v1/sessions", &header, "");
    assert_eq!(sessions.json()["items"].as_array().map(Vec::len), Some(1), "{sessions:?}");
    let out = server.send("POST", "/logout", &header, "");
    assert_eq!(out.status, 303, "{out:?}");
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(server.send("GET", "/api/v1/whoami", &header, "").status, 401);
}

#[test]
fn open_finds_the_running_server_and_gives_a_new_code() {
    let sandbox = Sandbox::new();
    let nobody = sandbox.run(&["open"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.stderr);
    let server = WebServer::start(&sandbox);
    let url = sandbox.json(&["open"])["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("http://{}/login?code=", server.process.address)), "{url}");
    assert_eq!(server.send("GET", &path_of(&url), &[], "").status, 303);
    server.sign_in();
}

#[test]
fn public_url_gives_a_cookie_for_tls_and_prints_no_code() {
    let sandbox = Sandbox::new();
    let server = WebServer::start_with(&sandbox, &["--public-url", "https://book.example"]);
    assert!(server.process.ready["login_url"].is_null(), "{}", server.process.ready);
    let url = sandbox.json(&["open"])["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix("https://book.example").unwrap();
    let reply = server.send_to_host("book.example", "GET", path, &[], "");
    let cookie = reply.header("set-cookie");
    assert!(cookie.starts_with("__Host-actbook=abs_") && cookie.contains("; Secure"), "{cookie}");
}

#[test]
fn demo_with_serve_shows_its_execution_in_the_dashboard() {
    let sandbox = Sandbox::new();
    let process = ServeProcess::start_with(&sandbox, &["demo", "--serve", "--keep", "story", "--json"]);
    let server = WebServer { process, token: String::new() };
    let cookie = server.sign_in();
    let page = server.send("GET", "/", &[("Cookie", &cookie)], "");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("publish-release") && page.body.contains("Compensated"), "{}", page.body);
}

/// Changes the server's database behind its back, as time does.
fn age(sandbox: &Sandbox, statement: &str) {
    let database = rusqlite::Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap();
    database.busy_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(database.execute(statement, []).unwrap(), 1, "{statement}");
}

#[test]
fn session_ends_when_it_was_idle_for_twelve_hours() {
    const HOURS_12_MS: u64 = 12 * 3_600_000;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    let cookie = server.sign_in();
    let status = || server.send("GET", "/api/v1/whoami", &[("Cookie", &cookie)], "").status;
    let idle = |ms: u64| age(&sandbox, &format!("UPDATE sessions SET last_used_at = last_used_at - {ms}"));
    idle(HOURS_12_MS);
    assert_eq!(status(), 401);
    age(&sandbox, &format!("UPDATE sessions SET last_used_at = last_used_at + {}", TEST_TIMEOUT.as_millis()));
    assert_eq!(status(), 200, "it was used a minute less than twelve hours ago");
}

#[test]
fn login_code_is_good_for_ten_minutes() {
    const MINUTES_10_MS: u64 = 10 * 60_000;
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox);
    age(&sandbox, &format!("UPDATE login_codes SET expires_at = expires_at - {MINUTES_10_MS}"));
    let expired = server.send("GET", &server.login_path(), &[], "");
    assert_eq!((expired.status, expired.header("set-cookie")), (403, ""), "{expired:?}");
    let code = path_of(sandbox.json(&["open"])["url"].as_str().unwrap());
    let late = MINUTES_10_MS - TEST_TIMEOUT.as_millis() as u64;
    age(&sandbox, &format!("UPDATE login_codes SET expires_at = expires_at - {late}"));
    assert_eq!(server.send("GET", &code, &[], "").status, 303);
}
