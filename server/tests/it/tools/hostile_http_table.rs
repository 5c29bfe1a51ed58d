//! HTTP servers that misbehave, each in its own way, called by a plain HTTP tool and by MCP of both protocol
//! versions. Each outcome is as docs/classification.md has it, the call is sent once, and no connection is
//! left.

use serde_json::json;

use super::hostile_http::{HostileServer, NEWER_PATH, ServerBehaviour, page};
use super::*;

/// One behaviour, and the expected outcomes of an HTTP tool and an MCP call: `succeeded`, `failed CATEGORY`,
/// `unsent CATEGORY`, `unknown CATEGORY`; several where the kernel's timing decides.
struct HttpCase {
    name: &'static str,
    behaviour: ServerBehaviour,
    http: &'static str,
    mcp: &'static str,
}

const fn case(name: &'static str, does: ServerBehaviour, http: &'static str, mcp: &'static str) -> HttpCase {
    HttpCase { name, behaviour: does, http, mcp }
}

const JSON: &str = "Content-Type: application/json\r\n";
const EVENTS: &str = "Content-Type: text/event-stream\r\n";

fn status(status: &'static str) -> ServerBehaviour {
    page(status, "", "{\"why\":\"because\"}")
}

fn json_page(body: &'static str) -> ServerBehaviour {
    page("200 OK", JSON, body)
}

fn events(body: &'static str) -> ServerBehaviour {
    page("200 OK", EVENTS, body)
}

/// An answer that no parser with a limit on depth reads; the stream goes on after it.
fn deep_event() -> &'static str {
    let (head, deep) = ("HTTP/1.1 200 OK\r\n", ["[".repeat(10_000), "]".repeat(10_000)].concat());
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{deep}}}"#);
    format!("{head}{EVENTS}\r\ndata: {answer}\n\n").leak()
}

fn successful_answers() -> Vec<HttpCase> {
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let too_much = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[],"action":"accept","tools":[]}}"#;
    vec![
        case("an answer with fields of others", json_page(too_much), "succeeded", "succeeded"),
        case(
            "an event with fields of others",
            events(format!("data: {too_much}\n\n").leak()),
            "succeeded",
            "succeeded",
        ),
        case("a right answer", json_page("{result}"), "succeeded", "succeeded"),
        case("a right answer in an event", events("data: {result}\n\n"), "succeeded", "succeeded"),
        case(
            "to be continued, then a right answer",
            ServerBehaviour::Raw(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{result}",
            ),
            "succeeded",
            "succeeded",
        ),
        case(
            "an answer without a length, ended by closing",
            ServerBehaviour::Raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{result}"),
            "succeeded",
            "succeeded",
        ),
        case(
            "the same event twice",
            events("data: {result}\n\ndata: {result}\n\n"),
            "succeeded",
            "succeeded",
        ),
        case(
            "the same answer twice",
            ServerBehaviour::Raw(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            ),
            "succeeded",
            "unknown protocol",
        ),
        case(
            "noise before the event",
            events(": hm\n\nevent: x\n\ndata: {result}\n\n"),
            "succeeded",
            "succeeded",
        ),
        case("accepted", status("202 Accepted"), "succeeded", "unknown protocol"),
        case("no content", page("204 No Content", "", ""), "succeeded", "unknown protocol"),
        case("an empty page", json_page(""), "succeeded", "unknown protocol"),
        case("an object in chunks", ServerBehaviour::Raw(chunked), "succeeded", "unknown protocol"),
        case(
            "a page for people",
            page("200 OK", "Content-Type: text/html\r\n", "<p>"),
            "succeeded",
            "unknown protocol",
        ),
        case("no kind at all", page("200 OK", "", "{result}"), "succeeded", "unknown protocol"),
    ]
}

fn redirects() -> Vec<HttpCase> {
    let to = "Location: /elsewhere\r\n";
    vec![
        case("300", page("300 Multiple Choices", to, ""), "failed protocol", "failed protocol"),
        case("301", page("301 Moved Permanently", to, ""), "failed protocol", "failed protocol"),
        case("302", page("302 Found", to, ""), "failed protocol", "failed protocol"),
        case("303", page("303 See Other", to, ""), "failed protocol", "failed protocol"),
        case("304", page("304 Not Modified", "", ""), "failed protocol", "failed protocol"),
        case("307", page("307 Temporary Redirect", to, ""), "failed protocol", "failed protocol"),
        case("308", page("308 Permanent Redirect", to, ""), "failed protocol", "failed protocol"),
    ]
}

fn refusals() -> Vec<HttpCase> {
    vec![
        case("400", status("400 Bad Request"), "failed invalid_arguments", "failed invalid_arguments"),
        case("401", status("401 Unauthorized"), "failed permission", "failed permission"),
        case("403", status("403 Forbidden"), "failed permission", "failed permission"),
        case("404, which ends a session", status("404 Not Found"), "failed not_found", "failed unavailable"),
        case("405", status("405 Method Not Allowed"), "failed tool_error", "failed tool_error"),
        case("407", status("407 Proxy Authentication Required"), "failed permission", "failed permission"),
        case("408", status("408 Request Timeout"), "unknown timeout", "unknown timeout"),
        case("409", status("409 Conflict"), "failed tool_error", "failed tool_error"),
        case("410", status("410 Gone"), "failed not_found", "failed not_found"),
        case("413", status("413 Content Too Large"), "failed tool_error", "failed tool_error"),
        case("422", status("422 Unprocessable"), "failed invalid_arguments", "failed invalid_arguments"),
        case("429", status("429 Too Many Requests"), "failed rate_limited", "failed rate_limited"),
        case("451", status("451 Unavailable"), "failed tool_error", "failed tool_error"),
    ]
}

fn server_errors() -> Vec<HttpCase> {
    let patience = page("503 Service Unavailable", "Retry-After: 1\r\n", "");
    let own_word = page(
        "500 Internal Server Error",
        JSON,
        r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"no"}}"#,
    );
    vec![
        case(
            "101",
            ServerBehaviour::Raw("HTTP/1.1 101 Switching\r\n\r\n"),
            "unknown unavailable",
            "unknown unavailable",
        ),
        case("500", status("500 Internal Server Error"), "unknown unavailable", "unknown unavailable"),
        case("500 with an error of its own", own_word, "unknown unavailable", "unknown unavailable"),
        case("501", status("501 Not Implemented"), "unknown unavailable", "unknown unavailable"),
        case("502", status("502 Bad Gateway"), "unknown unavailable", "unknown unavailable"),
        case("503 that asks for patience", patience, "unknown unavailable", "unknown unavailable"),
        case("504", status("504 Gateway Timeout"), "unknown unavailable", "unknown unavailable"),
        case("599", status("599 Whatever"), "unknown unavailable", "unknown unavailable"),
        case("999", status("999 No Such Status"), "unknown unavailable", "unknown unavailable"),
    ]
}

fn broken_answers() -> Vec<HttpCase> {
    const LOST: &str = "unknown unavailable";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let with = |rest: &str| ServerBehaviour::Raw(format!("{head}{rest}").leak());
    vec![
        case("garbage", ServerBehaviour::Raw("\u{1}\u{2}\u{3} what\r\n\r\n"), LOST, LOST),
        case("a page without a head", ServerBehaviour::Raw("<html>hello</html>"), LOST, LOST),
        case("a version that does not exist", ServerBehaviour::Raw("HTTP/9.9 200 OK\r\n\r\n"), LOST, LOST),
        case("a status that is no number", ServerBehaviour::Raw("HTTP/1.1 two OK\r\n\r\n"), LOST, LOST),
        case("a header without a colon", with("nonsense\r\n\r\n"), LOST, LOST),
        case(
            "headers without end",
            ServerBehaviour::Endless("HTTP/1.1 200 OK\r\n", "X-More: and more\r\n"),
            LOST,
            LOST,
        ),
        case("half a head", ServerBehaviour::Raw("HTTP/1.1 200 OK\r\nContent-Ty"), LOST, LOST),
        case("less than it promised", with("Content-Length: 99\r\n\r\n{\"a\":1"), LOST, LOST),
        case("a length that is none", with("Content-Length: -1\r\n\r\n{}"), LOST, LOST),
        case("two lengths", with("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), LOST, LOST),
        case("a chunk that breaks off", with("Transfer-Encoding: chunked\r\n\r\nff\r\n{\"a\""), LOST, LOST),
        case("a chunk of no size", with("Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"), LOST, LOST),
        case("closed without a word", ServerBehaviour::Raw(""), LOST, LOST),
        case("reset without a word", ServerBehaviour::RawThenReset(""), LOST, LOST),
        case("reset within the head", ServerBehaviour::RawThenReset("HTTP/1.1 200"), LOST, LOST),
        case("reset at the first byte of the call", ServerBehaviour::ResetAfter(1), LOST, LOST),
        case("reset within the call", ServerBehaviour::ResetAfter(40), LOST, LOST),
        case(
            "reset at once",
            ServerBehaviour::ResetAfter(0),
            "unsent unavailable, unknown unavailable",
            "unsent unavailable, unknown unavailable",
        ),
    ]
}

fn slow_answers() -> Vec<HttpCase> {
    const LATE: &str = "unknown timeout";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let length = format!("{head}Content-Length: 9999\r\n\r\n{{").leak();
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    vec![
        case("never a word", ServerBehaviour::RawThenHang(""), LATE, LATE),
        case("never the rest of the head", ServerBehaviour::RawThenHang(head), LATE, LATE),
        case("never the rest of the page", ServerBehaviour::RawThenHang(length), LATE, LATE),
        case(
            "a head by drops",
            ServerBehaviour::Drip("HTTP/1.1 200 OK\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n{}"),
            LATE,
            LATE,
        ),
        case("never the event", ServerBehaviour::RawThenHang(stream), LATE, LATE),
        case("half an event", ServerBehaviour::RawThenHang(format!("{stream}data: {{").leak()), LATE, LATE),
    ]
}

fn endless_answers() -> Vec<HttpCase> {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    vec![
        case(
            "a page without end",
            ServerBehaviour::Endless(page, "0123456789abcdef"),
            "succeeded",
            "unknown unavailable",
        ),
        case(
            "an event that does not end",
            ServerBehaviour::Endless(stream, "data: 0123456789\n"),
            "succeeded",
            "unknown unavailable",
        ),
        case(
            "a line without end",
            ServerBehaviour::Endless(stream, "0123456789abcdef"),
            "succeeded",
            "unknown unavailable",
        ),
        case(
            "comments without end",
            ServerBehaviour::Endless(stream, ": still here\n\n"),
            "succeeded",
            "unknown timeout",
        ),
        case(
            "other answers without end",
            ServerBehaviour::Endless(
                stream,
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n",
            ),
            "succeeded",
            "unknown timeout",
        ),
    ]
}

fn wrong_messages() -> Vec<HttpCase> {
    const ODD: &str = "unknown protocol";
    const LOST: &str = "unknown unavailable";
    let error = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"bad"}}"#;
    let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad"}}"#;
    let wrong_id = r#"{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#;
    let wrong_event = r#"data: {"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#;
    let said_no =
        r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"no"}],"isError":true}}"#;
    let deep: &'static str = "[".repeat(100_000).leak();
    vec![
        case("an answer under another id", json_page(wrong_id), "succeeded", ODD),
        case("an event under another id", events(format!("{wrong_event}\n\n").leak()), "succeeded", LOST),
        case(
            "events that end too early",
            events("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"),
            "succeeded",
            LOST,
        ),
        case(
            "an event with a number, which is asked after for as long as there is time",
            events("id: 7\ndata: \n\n"),
            "succeeded",
            "unknown timeout",
        ),
        case("an event nested too deep", ServerBehaviour::RawThenHang(deep_event()), "unknown timeout", ODD),
        case("no event at all", events(""), "succeeded", LOST),
        case("an event that is no JSON", events("data: {{{\n\n"), "succeeded", LOST),
        case("several answers in a list", json_page("[{result}]"), "succeeded", ODD),
        case("an object that is no message", json_page("{}"), "succeeded", ODD),
        case("what is no JSON", json_page("{oops"), "succeeded", ODD),
        case("what is nested too deep", json_page(deep), "succeeded", ODD),
        case(
            "a notification for an answer",
            json_page(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
            "succeeded",
            ODD,
        ),
        case(
            "an answer that is no tool's",
            json_page(r#"{"jsonrpc":"2.0","id":{id},"result":{"tools":[]}}"#),
            "succeeded",
            ODD,
        ),
        case("a no", json_page(said_no), "succeeded", "failed tool_error"),
        case("an error", json_page(error), "succeeded", "failed invalid_arguments"),
        case("an error without an id", json_page(nameless), "succeeded", "failed invalid_arguments"),
        case(
            "an error in a 404 that ends a session",
            page("404 Not Found", JSON, error),
            "failed not_found",
            "failed unavailable",
        ),
        case(
            "an error in a 409",
            page("409 Conflict", JSON, nameless),
            "failed tool_error",
            "failed invalid_arguments",
        ),
        case(
            "a compressed page that is not",
            page("200 OK", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "{result}"),
            "succeeded",
            "succeeded",
        ),
    ]
}

fn all_cases() -> Vec<HttpCase> {
    let zoo = [
        successful_answers(),
        redirects(),
        refusals(),
        server_errors(),
        broken_answers(),
        slow_answers(),
        endless_answers(),
        wrong_messages(),
    ];
    zoo.into_iter().flatten().collect()
}

fn outcome_label(ended: &CallOutcome) -> String {
    match ended {
        CallOutcome::Succeeded { .. } => "succeeded".to_owned(),
        CallOutcome::Failed { category, sent: true, .. } => format!("failed {category}"),
        CallOutcome::Failed { category, sent: false, .. } => format!("unsent {category}"),
        CallOutcome::Unknown { category, .. } => format!("unknown {category}"),
        CallOutcome::InputRequired { .. } => "asks".to_owned(),
    }
}

/// The call's time-out: short where a time-out is expected, since the test waits for it.
fn call_timeout(expected: &str) -> Duration {
    if expected.contains("timeout") { Duration::from_millis(400) } else { TIMEOUT }
}

/// How many bytes of an endless answer are read before it is abandoned: the largest message plus kernel
/// buffers. Not checked where the call times out instead, since what was read is discarded.
const READ_BYTES_MAX: u64 = 48 * 1024 * 1024;
/// How much memory all cases may add to the process, including the servers themselves.
const MEMORY_BYTES_MAX: u64 = 256 * 1024 * 1024;

fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

async fn check_case(
    case: &HttpCase,
    tools: Tools,
    server: &HostileServer,
    tool: &str,
    expected: &str,
) -> Result<(), String> {
    server.arm();
    let call = Call { timeout: call_timeout(expected), ..new_call(tool, json!({})) };
    let ended = tools.call(call, |_| {}, std::future::pending()).await;
    let resets = server.resets();
    tools.shutdown().await;
    drop(tools);
    let disconnected = server.wait_for_disconnect().await;
    let times = server.calls().len() as u64 + resets;
    let cost = server.bytes_written();
    let cheap = cost < READ_BYTES_MAX || expected.contains("timeout");
    let outcome_fits = expected.split(", ").any(|expected| outcome_label(&ended) == expected);
    if outcome_fits && times == 1 && cheap && disconnected {
        return Ok(());
    }
    let name = case.name;
    Err(format!(
        "{name}: {expected}? sent {times} times, {cost} bytes, disconnected {disconnected}: {ended:?}"
    ))
}

async fn check_http_tool(case: &HttpCase) -> Result<(), String> {
    let server = HostileServer::with_behaviour(case.behaviour.clone()).await;
    let tool = json!({ "url": server.url("/"), "body": { "a": 1 } });
    let tools = tools(Path::new("/"), json!({ "http": { "it": tool } }));
    check_case(case, tools, &server, "http/it", case.http).await
}

async fn check_mcp_tool(case: &HttpCase, path: &str) -> Result<(), String> {
    let server = HostileServer::with_behaviour(case.behaviour.clone()).await;
    let tools = tools(Path::new("/"), json!({ "mcpServers": { "zoo": { "url": server.url(path) } } }));
    tools.describe("zoo/any").await.unwrap();
    // The newer protocol has no sessions that a 404 could end.
    let expected = match (path == NEWER_PATH, case.name) {
        (true, "404, which ends a session") => "failed not_found",
        (true, "an error in a 404 that ends a session") => "failed invalid_arguments",
        _ => case.mcp,
    };
    check_case(case, tools, &server, "zoo/any", expected).await.map_err(|wrong| format!("{path} {wrong}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_http_answers_match_the_table_and_are_sent_once() {
    let zoo = all_cases();
    assert!(zoo.len() >= 80, "{} of them", zoo.len());
    let before = peak_memory_bytes();
    let mut wrong = Vec::new();
    for case in &zoo {
        let results = tokio::join!(
            check_http_tool(case),
            check_mcp_tool(case, "/mcp"),
            check_mcp_tool(case, NEWER_PATH)
        );
        wrong.extend([results.0, results.1, results.2].into_iter().filter_map(Result::err));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 3 * zoo.len(), wrong.join("\n"));
    let more = peak_memory_bytes() - before;
    assert!(more < MEMORY_BYTES_MAX, "{more} bytes more");
}

#[tokio::test]
async fn failed_connection_means_unsent() {
    let plain = HostileServer::with_behaviour(ServerBehaviour::ResetAfter(1)).await;
    plain.arm();
    let addresses = [
        // The discard port: nothing listens there, and no other test can be given it.
        "http://127.0.0.1:9/".to_owned(),
        format!("https://127.0.0.1:{}/", plain.port),
        "http://no-such-name.invalid/".to_owned(),
    ];
    for address in addresses {
        let config =
            json!({ "http": { "it": { "url": address } }, "mcpServers": { "it": { "url": address } } });
        let config = Config::parse(&config.to_string(), Path::new("/")).unwrap();
        let nowhere: actbook::tools::DnsLookup =
            std::sync::Arc::new(|_| Box::pin(async { Err(std::io::Error::other("there is no such name")) }));
        let tools = Tools::with_environment_and_dns(&config, |_| None, nowhere);
        for tool in ["http/it", "it/any"] {
            let ended = call(&tools, tool, json!({})).await;
            assert_eq!(outcome_label(&ended), "unsent unavailable", "{address}: {ended:?}");
        }
    }
    assert!(plain.calls().is_empty());
}

#[tokio::test]
async fn retry_after_header_is_passed_on() {
    let limited = page("429 Too Many Requests", "Retry-After: 7\r\n", "");
    let server = HostileServer::with_behaviour(limited).await;
    let config = json!({
        "http": { "it": { "url": server.url("/") } },
        "mcpServers": { "zoo": { "url": server.url("/mcp") } },
    });
    let tools = tools(Path::new("/"), config);
    for tool in ["http/it", "zoo/any"] {
        match call(&tools, tool, json!({})).await {
            CallOutcome::Failed { retry_after, .. } => {
                assert_eq!(retry_after, Some(Duration::from_secs(7)), "{tool}")
            }
            ended @ (CallOutcome::Succeeded { .. }
            | CallOutcome::Unknown { .. }
            | CallOutcome::InputRequired { .. }) => {
                panic!("{ended:?}")
            }
        }
    }
}

#[tokio::test]
async fn expired_session_fails_one_call_and_the_next_opens_another() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let server =
        HostileServer::start(move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => status("404 Not Found"),
            _ => json_page("{result}"),
        })
        .await;
    let tools = tools(Path::new("/"), json!({ "mcpServers": { "zoo": { "url": server.url("/mcp") } } }));
    let first = call(&tools, "zoo/any", json!({})).await;
    assert_eq!(outcome_label(&first), "failed unavailable");
    assert_eq!(server.calls().len(), 1, "not sent again by itself");
    assert_eq!(expect_output(call(&tools, "zoo/any", json!({})).await), json!({ "said": "yes" }));
    let sent = server.calls();
    assert!(sent.iter().all(|seen| seen.header("idempotency-key").as_deref() == Some("key-1")));
    let trace = sent[0].header("traceparent").unwrap();
    assert_eq!(sent[0].body["params"]["_meta"]["traceparent"], trace.as_str());
    assert_eq!(sent[0].body["params"]["_meta"]["actbook/idempotency-key"], "key-1");
}

#[tokio::test]
async fn dropped_keep_alive_connection_does_not_duplicate_calls() {
    let server = HostileServer::start(|seen| {
        if seen.path.ends_with("odd") {
            ServerBehaviour::Raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        } else {
            json_page("{}")
        }
    })
    .await;
    let tool = json!({ "url": server.url("/${arguments.path}") });
    let tools = tools(Path::new("/"), json!({ "http": { "it": tool } }));
    for no in 0..100 {
        let path = if no % 2 == 1 { "odd" } else { "even" };
        let call = Call { key: format!("key-{no}"), ..new_call("http/it", json!({ "path": path })) };
        let ended = tools.call(call, |_| {}, std::future::pending()).await;
        assert!(matches!(outcome_label(&ended).as_str(), "succeeded" | "unknown unavailable"), "{ended:?}");
    }
    let mut keys: Vec<String> =
        server.calls().iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    let sent = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), sent, "each key arrived once");
    assert!(sent > 50, "most arrived: {sent}");
}
