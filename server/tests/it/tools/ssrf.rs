//! SSRF: many spellings of a private address, redirects and DNS answers that lead to one. None reaches the
//! canary, a listener on loopback that counts connections. Everything here targets loopback only.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::TcpListener;

use super::hostile_http::{HostileServer, page};
use super::*;

/// Listens on one port of every loopback address, of both families.
struct Canary {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Canary {
    async fn start() -> Self {
        let visits = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = TcpListener::bind(("::1", port)).await;
        for listener in [Ok(listener), other].into_iter().flatten() {
            let visits = visits.clone();
            tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    visits.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { port, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// 127.0.0.1 with each of its four numbers in three bases, and shortened.
fn dotted_hosts() -> Vec<String> {
    let written = |number: u32| [format!("{number}"), format!("0x{number:x}"), format!("0{number:o}")];
    let mut hosts = Vec::new();
    for a in written(127) {
        for b in written(0) {
            for c in written(0) {
                hosts.extend(written(1).map(|d| format!("{a}.{b}.{c}.{d}")));
            }
            hosts.extend(written(1).map(|d| format!("{a}.{b}.{d}")));
        }
        hosts.extend(written(1).map(|d| format!("{a}.{d}")));
    }
    hosts.extend(written(0x7f00_0001));
    hosts
}

/// Other spellings of the same digits.
fn disguised_hosts() -> Vec<String> {
    let mut hosts = vec![
        "0X7F.0X0.0X0.0X1".to_owned(),
        "0x7F000001".to_owned(),
        "00000177.1".to_owned(),
        "0x0000000000007f000001".to_owned(),
        "%31%32%37%2e%30%2e%30%2e%31".to_owned(),
        "127%2E0.0.1".to_owned(),
        "１２７.０.０.１".to_owned(),
        "127。0。0。1".to_owned(),
        "127．0．0．1".to_owned(),
        "①②⑦.⓪.⓪.①".to_owned(),
        "𝟏𝟐𝟕.𝟎.𝟎.𝟏".to_owned(),
        "127.0.0.1.".to_owned(),
        "12\u{ad}7.0.0.1".to_owned(),
        "127.0.\t0.1".to_owned(),
        "127.0.0.1\n".to_owned(),
        "0".to_owned(),
        "0.0.0.0".to_owned(),
        "0x0".to_owned(),
    ];
    hosts.extend((0..40).map(|no| format!("127.{}.{}.{}", no * 6, 255 - no, no + 1)));
    hosts
}

fn ipv6_hosts() -> Vec<String> {
    let inside = [
        "::1",
        "0:0:0:0:0:0:0:1",
        "0000:0000:0000:0000:0000:0000:0000:0001",
        "0::1",
        "::0:1",
        "::0001",
        "0:0::0:1",
        "::",
        "::ffff:127.0.0.1",
        "::FFFF:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:ffff:7f00:0001",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "::7f00:1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:ffff::127.0.0.1",
        "2002:7f00:1::",
        "2002:7f00:0001::1",
        "2001:0:7f00:1::",
        "2001::7f00:1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "::ffff:127.1.2.3",
        "::ffff:0.0.0.0",
        "::2",
        "100::1",
        "2001:db8::1",
        "3fff::1",
    ];
    inside.iter().map(|address| format!("[{address}]")).collect()
}

/// URLs with each host in several forms.
fn loopback_urls(port: u16) -> Vec<String> {
    let mut hosts = dotted_hosts();
    hosts.extend(disguised_hosts());
    hosts.extend(ipv6_hosts());
    let names = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ip6-localhost",
        "one.test",
        "127.0.0.1.test",
    ];
    hosts.extend(names.map(str::to_owned));
    let around = |host: &String| {
        [
            format!("http://{host}:{port}/"),
            format!("HTTP://{host}:{port}"),
            format!("https://{host}:{port}/a"),
            format!("http://example.com@{host}:{port}/"),
            format!("http://example.com:80@{host}:{port}/?@example.com"),
            format!("http:\\\\{host}:{port}\\a"),
            format!("http:/{host}:{port}/#@example.com"),
        ]
    };
    hosts.iter().flat_map(around).collect()
}

/// Invalid URLs, and URLs of other schemes.
const INVALID_URLS: [&str; 12] = [
    "file:///etc/hostname",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:1/_x",
    "unix:/run/x.sock",
    "data:,x",
    "javascript:0",
    "//127.0.0.1/",
    "http://",
    "http://[::1",
    "http://127.0.0.1:99999/",
    "http://1.2.3.4.5.6/",
    "dict://127.0.0.1:1/",
];

/// A resolver that maps every name to loopback, as a hostile one could.
fn resolve_to_loopback() -> actbook::tools::DnsLookup {
    Arc::new(|name: String| {
        // With an additional public address the name must still be refused.
        let second = if name.starts_with("one.") { "198.41.0.4" } else { "::1" };
        let addresses: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap(), second.parse().unwrap()];
        Box::pin(async move { Ok(addresses) })
    })
}

fn tools_with_loopback_dns(http: Value) -> Tools {
    let config = Config::parse(&json!({ "http": http }).to_string(), Path::new("/")).unwrap();
    Tools::with_environment_and_dns(&config, |_| None, resolve_to_loopback())
}

#[track_caller]
fn assert_refused(ended: CallOutcome, sent: bool, what: &str) {
    let (category, message, was_sent) = expect_failure(ended);
    assert!(
        matches!(category, ErrorCategory::Policy | ErrorCategory::InvalidArguments),
        "{what}: {category} {message}"
    );
    assert_eq!(was_sent, sent, "{what}: {message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_arguments_cannot_reach_private_addresses() {
    let canary = Canary::start().await;
    let tools = tools_with_loopback_dns(json!({
        "whole": { "method": "GET", "url": "${arguments.url}" },
        "host": { "url": format!("http://${{arguments.host}}:{}/", canary.port) },
    }));
    let addresses = loopback_urls(canary.port);
    assert!(addresses.len() >= 1_000, "{} of them", addresses.len());
    for url in addresses.iter().map(String::as_str).chain(INVALID_URLS) {
        assert_refused(call(&tools, "http/whole", json!({ "url": url })).await, false, url);
    }
    for host in dotted_hosts().into_iter().chain(disguised_hosts()).chain(ipv6_hosts()) {
        assert_refused(call(&tools, "http/host", json!({ "host": host })).await, false, &host);
    }
    assert_eq!(canary.visits(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_cannot_reach_private_addresses() {
    let canary = Canary::start().await;
    // With one slash it would be a path on the redirecting server.
    let leads_away = |url: &String| !url.starts_with("http:/") || url.starts_with("http://");
    let targets: Arc<Vec<String>> =
        Arc::new(loopback_urls(canary.port).into_iter().filter(leads_away).collect());
    assert!(targets.len() >= 1_000, "{} of them", targets.len());
    let moved = ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"];
    let server = HostileServer::start({
        let targets = targets.clone();
        move |seen| {
            let mut words =
                seen.path.trim_start_matches('/').split('-').map(|word| word.parse::<usize>().unwrap());
            let (target, hops) = (words.next().unwrap(), words.next().unwrap());
            let to = match hops {
                0 => targets[target].replace(['\n', '\t', '\r'], ""),
                hops => format!("/{target}-{}", hops - 1),
            };
            page(moved[target % moved.len()], format!("Location: {to}\r\n").leak(), "")
        }
    })
    .await;
    let tools = tools_with_loopback_dns(
        json!({ "get": { "method": "GET", "url": server.url("/${arguments.target}-${arguments.hops}") } }),
    );
    for (no, target) in targets.iter().enumerate() {
        let (category, message, _) =
            expect_failure(call(&tools, "http/get", json!({ "target": no, "hops": no % 3 })).await);
        assert!(matches!(category, ErrorCategory::Policy), "{target}: {category} {message}");
    }
    assert_eq!(canary.visits(), 0);
    assert!(server.calls().len() >= 2 * targets.len(), "the redirects were followed");
}

#[tokio::test]
async fn allowed_hosts_are_reached_and_others_are_refused() {
    let canary = Canary::start().await;
    let allow = format!("127.0.0.1:{}", canary.port);
    let named = format!("inside.test:{}", canary.port);
    let config = json!({
        "http": { "whole": { "method": "GET", "url": "${arguments.url}" } },
        "egress": { "allow": [allow, named] },
    });
    let config = Config::parse(&config.to_string(), Path::new("/")).unwrap();
    let tools = Tools::with_environment_and_dns(&config, |_| None, resolve_to_loopback());
    let reach = async |url: String| {
        // New tools each time: the canary closes connections, which would open the circuit breaker.
        let tools = Tools::with_environment_and_dns(&config, |_| None, resolve_to_loopback());
        let before = canary.visits();
        let ended = call(&tools, "http/whole", json!({ "url": url })).await;
        assert!(canary.visits() > before, "{url}: {ended:?}");
    };
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "017700000001", "127。0。0。1", "inside.test"] {
        reach(format!("http://{host}:{}/", canary.port)).await;
    }
    let visits = canary.visits();
    for host in ["127.0.0.2", "other.test", "inside.test.", "[::1]"] {
        let url = format!("http://{host}:{}/", canary.port);
        assert_refused(call(&tools, "http/whole", json!({ "url": url })).await, false, &url);
    }
    let elsewhere = Canary::start().await;
    let url = format!("http://127.0.0.1:{}/", elsewhere.port);
    assert_refused(call(&tools, "http/whole", json!({ "url": url })).await, false, "another port");
    assert_eq!((canary.visits(), elsewhere.visits()), (visits, 0));
}

#[tokio::test]
async fn name_is_resolved_once_and_that_address_is_used() {
    let server = HostileServer::with_behaviour(page("200 OK", "Connection: close\r\n", "{}")).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let lookup: actbook::tools::DnsLookup = Arc::new({
        let asked = asked.clone();
        move |_| {
            // A second lookup would get another answer.
            let answer = ["127.0.0.1", "127.0.0.2"][asked.fetch_add(1, Ordering::SeqCst).min(1)];
            Box::pin(async move { Ok(vec![answer.parse().unwrap()]) })
        }
    });
    let config = json!({ "http": { "it": { "url": format!("http://flips.test:{}/", server.port) } } });
    let config = Config::parse(&config.to_string(), Path::new("/")).unwrap();
    let tools = Tools::with_environment_and_dns(&config, |_| None, lookup);
    assert_eq!(expect_output(call(&tools, "http/it", json!({})).await), json!({}));
    assert_eq!((asked.load(Ordering::SeqCst), server.calls().len()), (1, 1));
}
