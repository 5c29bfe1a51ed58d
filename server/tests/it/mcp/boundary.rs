//! Malformed and misplaced messages get the specified error, and the next request is answered as usual.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::agent::{Agent, request_meta};
use super::serve_process::{ServeProcess, resident_mb};
use crate::cli::Sandbox;
use crate::counts::times;

const MODERN_HEADER: &str = "MCP-Protocol-Version: 2026-07-28\r\n";

/// A tool call whose arguments are nested this many arrays deep.
fn nested_request(levels: usize) -> String {
    let inner = "[".repeat(levels) + &"]".repeat(levels);
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"status","arguments":{{"x":{inner}}}}}}}"#
    )
}

/// A modern request whose `_meta` names this protocol version.
fn request_with_version(version: &str, method: &str, name: &str) -> String {
    let mut meta = request_meta("scripted", json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
    let params = json!({ "name": name, "arguments": {}, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// A legacy `initialize` with this `clientInfo`.
fn initialize_request(client: Value) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

/// Known methods with unreadable params, and the path that the error must name.
fn unreadable_params() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("tools/call", json!({ "name": "status", "arguments": [1] }), "`params.arguments` of tools/call"),
        ("tools/call", json!({}), "`params.name` of tools/call: missing"),
        ("tools/call", json!({ "name": 7, "arguments": {} }), "`params.name` of tools/call: invalid type"),
        ("resources/read", json!({ "url": "actbook://guide" }), "`params.uri` of resources/read"),
        ("prompts/get", json!({ "name": "plan_work", "arguments": 7 }), "`params.arguments` of prompts/get"),
    ]
}

#[test]
fn unreadable_params_are_refused_with_their_path() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let mut older = Agent::new(&sandbox);
    let mut newer = Agent::modern(&sandbox, &["mcp"], json!({}));
    for (method, params, path) in unreadable_params() {
        let over_http = server.exchange(&server.request_bytes(method, params.clone()));
        assert!([200, 400].contains(&over_http.status), "{over_http:?}");
        let http_error = over_http.message()["error"].clone();
        let over_stdio = [&mut older, &mut newer].map(|agent| agent.request(method, params.clone()));
        for error in over_stdio.map(Result::unwrap_err).into_iter().chain([http_error]) {
            // Over HTTP a mismatch of headers and body is reported first.
            let header = error["code"] == -32020;
            let named = error["code"] == -32602 && error["message"].as_str().unwrap().contains(path);
            assert!(header || named, "{method} {params}: {error}");
        }
    }
    let list = older.request("tools/list", json!([1])).unwrap_err();
    assert!(list["message"].as_str().unwrap().contains("`params` of tools/list"), "{list}");
    assert_eq!(older.close(), Some(0));
}

#[test]
fn integer_over_64_bits_is_refused() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    let line = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"set_context","arguments":{{"key":"k","value":{{"n":[18446744073709551616]}}}}}}}}"#
        )
    };
    agent.send_line(&line(77));
    let reply = agent.next_message();
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(77), &json!(-32602)), "{reply}");
    let message = "`params.arguments.value.n[0]`: 18446744073709551616 does not fit into 64 bits";
    assert!(reply["error"]["message"].as_str().unwrap().contains(message), "{reply}");
    assert_eq!(sandbox.json(&["context", "search", "k"]).to_string().matches("\"key\"").count(), 0);
    assert_eq!(agent.close(), Some(0));
}

#[test]
fn unreadable_initialize_is_refused_and_can_be_repeated() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::start(&sandbox, &["mcp"]);
    agent.send_line(&initialize_request(json!({ "name": "x" })));
    let reply = agent.next_message();
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(1), &json!(-32602)), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("`params.clientInfo`"), "{reply}");
    agent.send_line(&initialize_request(json!({ "name": "x", "version": "1" })));
    assert_eq!(agent.next_message()["result"]["serverInfo"]["name"], "actbook");
}

#[test]
fn malformed_http_requests_get_the_matching_error() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let headers =
        |method: &str, name: &str| format!("{MODERN_HEADER}Mcp-Method: {method}\r\nMcp-Name: {name}\r\n");
    let good = request_with_version("2026-07-28", "tools/call", "status");
    let cases: Vec<(&str, String, String, u16, i64)> = vec![
        ("not JSON", String::new(), "{".to_owned(), 400, -32700),
        ("nothing", String::new(), String::new(), 400, -32700),
        ("no message", String::new(), r#"{"x":1}"#.to_owned(), 400, -32600),
        ("too deep", String::new(), nested_request(5_000), 400, -32700),
        ("another method in the header", headers("tools/list", "status"), good.clone(), 400, -32020),
        ("another name in the header", headers("tools/call", "control"), good.clone(), 400, -32020),
        ("no name in the header", format!("{MODERN_HEADER}Mcp-Method: tools/call\r\n"), good.clone(), 400, -32020),
        (
            "another version in the body",
            headers("tools/call", "status"),
            request_with_version("2025-11-25", "tools/call", "status"),
            400,
            -32020,
        ),
        (
            "a version that nobody speaks",
            "MCP-Protocol-Version: 1999-01-01\r\nMcp-Method: tools/call\r\nMcp-Name: status\r\n".to_owned(),
            request_with_version("1999-01-01", "tools/call", "status"),
            400,
            -32022,
        ),
        (
            "parameters that are none",
            format!("{MODERN_HEADER}Mcp-Method: resources/read\r\nMcp-Name: x\r\n"),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "x", "_meta": 7 } })
                .to_string(),
            400,
            -32602,
        ),
        ("an older client's hello", String::new(), initialize_request(json!({})), 400, -32602),
        (
            "a method that nobody has",
            format!("{MODERN_HEADER}Mcp-Method: no/such\r\n"),
            request_with_version("2026-07-28", "no/such", "x").replace(r#""name":"x","#, ""),
            404,
            -32601,
        ),
    ];
    for (what, headers, body, status, code) in cases {
        let reply = server.exchange(&server.post_bytes(&headers, &body));
        assert_eq!(reply.status, status, "{what}: {reply:?}");
        assert!(code == 0 || reply.error_code() == code, "{what}: {reply:?}");
    }
    let kind = server.post_bytes("", &good);
    let kind = String::from_utf8(kind).unwrap().replace("application/json\r\nAccept", "text/plain\r\nAccept");
    assert_eq!(server.exchange(kind.as_bytes()).status, 415);
    let gone = format!("{}Mcp-Session-Id: nobody\r\n", "MCP-Protocol-Version: 2025-11-25\r\n");
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    assert_eq!(server.exchange(&server.post_bytes(&gone, &list)).status, 404);
    server.call("status", json!({}));
}

/// Malformed lines and the id and code of the error that each gets; `None` where no answer is due.
fn malformed_lines() -> Vec<(String, Option<(Value, i64)>)> {
    let error = |line: &str, id: Value, code: i64| (line.to_owned(), Some((id, code)));
    let ignored = |line: &str| (line.to_owned(), None);
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{{"x":"{}"}}}}"#,
        "y".repeat(40 << 20)
    );
    vec![
        error("{", Value::Null, -32700),
        error("garbage", Value::Null, -32700),
        error("[]", Value::Null, -32600),
        error("null", Value::Null, -32600),
        error("\"x\"", Value::Null, -32600),
        error("{\"jsonrpc\":\"2.0\",\"id\":7}", json!(7), -32600),
        error(r#"{"jsonrpc":"1.0","id":5,"method":"tools/list"}"#, json!(5), -32600),
        error(r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#, Value::Null, -32600),
        error(r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"#, json!(8), -32700),
        // The line is cut off after `8`, so the id may be incomplete.
        error(r#"{"jsonrpc":"2.0","method":"tools/call","id":8"#, Value::Null, -32700),
        error(&nested_request(5_000), json!(1), -32700),
        error(&long, json!("long"), -32600),
        // These are no requests, so they get no answer.
        ignored(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":7}"#),
        ignored(r#"{"jsonrpc":"2.0","id":7,"result":7,"error":7}"#),
        ignored(""),
    ]
}

#[test]
fn malformed_stdio_lines_get_an_error_and_the_next_request_works() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::new(&sandbox);
    for (line, answer) in malformed_lines() {
        agent.send_line(&line);
        if let Some((id, code)) = answer {
            let reply = agent.next_message();
            let shown = &line[..line.len().min(100)];
            assert_eq!((&reply["id"], &reply["error"]["code"]), (&id, &json!(code)), "{shown}: {reply}");
        }
        agent.send_request("no/such", json!({}));
        assert_eq!(agent.next_message()["error"]["code"], -32601, "no other message in between");
    }
    agent.call_ok("status", json!({}));
    assert!(resident_mb(agent.child.id()) < 256, "{} MB", resident_mb(agent.child.id()));
    assert_eq!(agent.close(), Some(0));
}

/// A valid message with random bytes changed, and perhaps cut off.
fn mutated_message() -> impl Strategy<Value = Vec<u8>> {
    let message = prop_oneof![
        Just(json!({ "jsonrpc": "2.0", "id": "spoilt 1", "method": "tools/call", "params": { "name": "status", "arguments": {} } })),
        Just(json!({ "jsonrpc": "2.0", "id": "spoilt a", "method": "tools/list", "params": {} })),
        Just(json!({ "jsonrpc": "2.0", "id": "spoilt 2", "method": "resources/read", "params": { "uri": "actbook://guide" } })),
        Just(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })),
        Just(json!({ "jsonrpc": "2.0", "id": "spoilt 3", "method": "prompts/get", "params": { "name": "plan_work" } })),
        arbitrary_json().prop_map(|value| json!({ "jsonrpc": "2.0", "id": "spoilt 4", "method": "tools/call", "params": value })),
        arbitrary_json().prop_map(|value| {
            json!({ "jsonrpc": "2.0", "id": "spoilt 5", "method": "tools/call", "params": { "name": "control", "arguments": value } })
        }),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (message, edits, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(message, edits, cut, cuts)| {
        let mut bytes = message.to_string().into_bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.retain(|byte| *byte != b'\n');
        bytes
    })
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let keys = prop_oneof![
            Just("name".to_owned()),
            Just("arguments".to_owned()),
            Just("action".to_owned()),
            ".{0,8}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn fuzz_cases() -> u32 {
    u32::try_from(times("ACTBOOK_FUZZ_CASES", 400)).expect("a small number")
}

#[test]
fn mutated_messages_do_not_crash_stdio_or_http() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    let agent = std::cell::RefCell::new(Agent::new(&sandbox));
    let config = ProptestConfig { cases: fuzz_cases(), failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let survived = runner.run(&mutated_message(), |bytes| {
        let mut agent = agent.borrow_mut();
        agent.send_bytes(&bytes);
        let pong = agent.request("ping", json!({}));
        prop_assert!(pong.is_ok(), "{:?}", pong);
        let reply = server.exchange(&server.post_bytes("", &String::from_utf8_lossy(&bytes)));
        prop_assert!(reply.status >= 200 && reply.status < 500, "{:?}", reply);
        Ok(())
    });
    survived.unwrap();
    assert!(server.resident_mb() < 256, "{} MB", server.resident_mb());
    server.call("status", json!({}));
}
