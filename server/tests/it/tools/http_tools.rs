//! `http/<name>` tools: the request that is sent, the outcome of its answer, and calls refused before
//! sending.

use serde_json::json;

use super::hostile_http::{HostileServer, ServerBehaviour, page};
use super::*;

const JSON: &str = "Content-Type: application/json\r\n";

fn ok_page() -> ServerBehaviour {
    page("200 OK", JSON, r#"{"ok":true}"#)
}

fn tools_with_http(http: Value) -> Tools {
    tools(Path::new("/"), json!({ "http": http }))
}

#[tokio::test]
async fn request_is_filled_in_with_key_and_traceparent() {
    let server = HostileServer::with_behaviour(ok_page()).await;
    let tool = json!({
        "method": "put",
        "url": server.url("/items/${arguments.id}?q=${arguments.q}"),
        "headers": { "X-Name": "n-${arguments.id}" },
        "body": { "all": "${arguments}", "count": "${arguments.count}", "text": "no ${arguments.count}", "fix": [1, null] },
    });
    let tools = tools_with_http(json!({ "put": tool }));
    let arguments = json!({ "id": "a/b c?", "q": "x&y=ü#", "count": 3 });
    let ended = call(&tools, "http/put", arguments.clone()).await;
    assert_eq!(expect_output(ended), json!({ "ok": true }));
    let seen = server.calls().remove(0);
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("PUT", "/items/a%2Fb%20c%3F?q=x%26y%3D%C3%BC%23")
    );
    assert_eq!(seen.header("x-name").unwrap(), "n-a/b c?");
    assert_eq!(seen.header("content-type").unwrap(), "application/json");
    assert_eq!(seen.header("idempotency-key").unwrap(), "key-1");
    let trace = seen.header("traceparent").unwrap();
    assert!(trace.len() == 55 && trace.starts_with("00-") && trace.ends_with("-01"), "{trace}");
    assert_eq!(seen.body, json!({ "all": arguments, "count": 3, "text": "no 3", "fix": [1, null] }));
}

#[tokio::test]
async fn answer_is_the_json_object_or_text_with_status() {
    let server = HostileServer::start(|seen| match seen.path.as_str() {
        "/list" => page("200 OK", JSON, "[1]"),
        "/text" => page("201 Created", "Content-Type: text/plain\r\n", "hello"),
        "/nothing" => page("204 No Content", "", ""),
        "/large" => ServerBehaviour::Endless("HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef"),
        _ => ok_page(),
    })
    .await;
    let get = json!({ "method": "GET", "url": server.url("/${arguments.path}") });
    let tools = tools_with_http(json!({ "get": get }));
    let got = async |path: &str| expect_output(call(&tools, "http/get", json!({ "path": path })).await);
    assert_eq!(got("object").await, json!({ "ok": true }));
    assert_eq!(got("list").await, json!({ "text": "[1]", "status": 200 }));
    assert_eq!(got("text").await, json!({ "text": "hello", "status": 201 }));
    assert_eq!(got("nothing").await, json!({ "text": "", "status": 204 }));
    let large = got("large").await;
    assert_eq!(large["truncated"], true);
    assert!(large.to_string().len() <= actbook::tools::OUTPUT_BYTES_MAX);
    drop(tools);
    assert!(server.wait_for_disconnect().await);
}

#[tokio::test]
async fn invalid_arguments_are_not_sent() {
    let server = HostileServer::with_behaviour(ok_page()).await;
    let schema =
        json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
    let tools = tools_with_http(json!({
        "checked": { "url": server.url("/"), "input_schema": schema },
        "path": { "url": server.url("/in/${arguments.id}/end") },
        "header": { "url": server.url("/"), "headers": { "X": "${arguments.id}" } },
        "missing": { "url": server.url("/"), "body": "${arguments.none}" },
        "host": { "url": format!("http://a.${{arguments.id}}:{}/", server.port) },
        "whole": { "url": "${arguments.id}" },
        "unset": { "url": server.url("/"), "headers": { "X": "${env:ACTBOOK_NOT_SET_ANYWHERE}" } },
    }));
    let refused = [
        ("checked", json!({}), ErrorCategory::InvalidArguments),
        ("checked", json!({ "id": 1 }), ErrorCategory::InvalidArguments),
        ("path", json!({ "id": ".." }), ErrorCategory::InvalidArguments),
        ("path", json!({ "id": "." }), ErrorCategory::InvalidArguments),
        ("path", json!({ "id": null }), ErrorCategory::InvalidArguments),
        ("header", json!({ "id": "a\r\nHost: b" }), ErrorCategory::InvalidArguments),
        ("header", json!({ "id": "a\nb" }), ErrorCategory::InvalidArguments),
        ("missing", json!({}), ErrorCategory::InvalidArguments),
        ("host", json!({ "id": "b/" }), ErrorCategory::InvalidArguments),
        ("host", json!({ "id": "b@c" }), ErrorCategory::InvalidArguments),
        ("host", json!({ "id": "b#" }), ErrorCategory::InvalidArguments),
        ("host", json!({ "id": "b\\" }), ErrorCategory::InvalidArguments),
        ("whole", json!({ "id": "not an address" }), ErrorCategory::InvalidArguments),
        ("whole", json!({ "id": "file:///etc/hostname" }), ErrorCategory::Policy),
        ("whole", json!({ "id": "ftp://127.0.0.1/" }), ErrorCategory::Policy),
        ("whole", json!({ "id": server.url("/") }), ErrorCategory::Policy),
        ("unset", json!({}), ErrorCategory::Unavailable),
    ];
    for (tool, arguments, expected) in refused {
        let (category, message, sent) =
            expect_failure(call(&tools, &format!("http/{tool}"), arguments.clone()).await);
        assert_eq!((category, sent), (expected, false), "{tool} {arguments}: {message}");
    }
    let (category, message, sent) = expect_failure(call(&tools, "http/none", json!({})).await);
    assert_eq!((category, sent), (ErrorCategory::NotFound, false), "{message}");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn http_tool_is_listed_described_and_in_the_toolset_digest() {
    let tool = |url: &str| json!({ "one": { "url": url, "description": "d" }, "two": { "url": "http://b" } });
    let here = tools_with_http(tool("http://a"));
    let listed = here.list_servers().await;
    assert_eq!(
        listed[0].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["http/one", "http/two"]
    );
    assert_eq!(
        here.describe("http/two").await.unwrap().description.unwrap(),
        "A POST request of the config."
    );
    here.describe("http/none").await.unwrap_err();
    let there = tools_with_http(tool("http://c"));
    let digest = async |tools: &Tools| tools.describe("http/one").await.unwrap().digest;
    assert_ne!(digest(&here).await, digest(&there).await);
    let toolset = |tools: &Tools, name: &str| tools.toolset_digest(&[name.to_owned()].into());
    assert_ne!(toolset(&here, "http/one"), toolset(&there, "http/one"));
    assert_eq!(toolset(&here, "http/two"), toolset(&there, "http/two"));
    assert_ne!(toolset(&here, "http"), toolset(&there, "http"));
}

#[tokio::test]
async fn get_follows_three_redirects_and_post_none() {
    let server = HostileServer::start(|seen| match seen.path.as_str() {
        "/3" => page("302 Found", "Location: /2\r\n", ""),
        "/2" => page("307 Temporary Redirect", "Location: 1\r\n", ""),
        "/1" => page("301 Moved Permanently", "Location: /end\r\n", ""),
        "/4" => page("303 See Other", "Location: /3\r\n", ""),
        _ => ok_page(),
    })
    .await;
    let url = server.url("/${arguments.path}");
    let tools = tools_with_http(json!({ "get": { "method": "GET", "url": url }, "post": { "url": url } }));
    assert_eq!(expect_output(call(&tools, "http/get", json!({ "path": "3" })).await), json!({ "ok": true }));
    assert_eq!(server.calls().len(), 4);
    let (category, message, sent) = expect_failure(call(&tools, "http/get", json!({ "path": "4" })).await);
    assert_eq!((category, sent), (ErrorCategory::Protocol, true), "{message}");
    assert_eq!(server.calls().len(), 8);
    let (category, message, sent) = expect_failure(call(&tools, "http/post", json!({ "path": "2" })).await);
    assert_eq!((category, sent), (ErrorCategory::Protocol, true), "{message}");
    assert_eq!(server.calls().len(), 9, "not sent again anywhere");
}

#[tokio::test]
async fn cross_origin_redirect_drops_secret_headers() {
    let target = HostileServer::with_behaviour(ok_page()).await;
    let there: &'static str = format!("Location: {}\r\n", target.url("/end")).leak();
    let server = HostileServer::with_behaviour(page("302 Found", there, "")).await;
    let get = json!({
        "method": "GET", "url": server.url("/"),
        "headers": { "Authorization": "Bearer s3cret", "X-Api-Key": "s3cret" },
    });
    let config =
        json!({ "http": { "get": get }, "egress": { "allow": [format!("127.0.0.1:{}", target.port)] } });
    let tools = tools(Path::new("/"), config);
    assert_eq!(expect_output(call(&tools, "http/get", json!({})).await), json!({ "ok": true }));
    assert!(server.calls()[0].headers.contains("s3cret"));
    assert!(!target.calls()[0].headers.contains("s3cret"), "{}", target.calls()[0].headers);
}

#[tokio::test]
async fn environment_secret_is_sent_and_redacted_from_results() {
    let server = HostileServer::start(|seen| {
        let authorization = seen.header("authorization").unwrap_or_default();
        page("401 Unauthorized", "", format!("who is {authorization}?").leak())
    })
    .await;
    let config = json!({ "http": { "post": {
        "url": server.url("/?k=${env:KEY}"), "headers": { "Authorization": "Bearer ${env:KEY}" }, "body": { "k": "${env:KEY}" },
    } } });
    let config = Config::parse(&config.to_string(), Path::new("/")).unwrap();
    let tools = Tools::with_environment(&config, |name| (name == "KEY").then(|| "open-sesame".to_owned()));
    let ended = call(&tools, "http/post", json!({})).await;
    assert!(!format!("{ended:?}").contains("sesame"), "{ended:?}");
    assert_eq!(expect_failure(ended).0, ErrorCategory::Permission);
    let seen = server.calls().remove(0);
    assert_eq!(seen.header("authorization").unwrap(), "Bearer open-sesame");
    assert_eq!((seen.path.as_str(), &seen.body), ("/?k=open-sesame", &json!({ "k": "open-sesame" })));
}
