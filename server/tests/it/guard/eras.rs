//! Questions of a server between clients and servers of the two eras of the protocol.

use super::proxy::{agent, call, text};
use super::*;
use crate::mcp::conformance::with_suite_server;

/// A sandbox whose one server, `suite`, asks by results, in the protocol without sessions.
fn sandbox_with_suite(url: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "mcpServers": { "suite": { "url": url } }, "servers": { "suite": {} }, "egress": { "allow": ["127.0.0.1"] },
    }));
    sandbox
}

/// What the client's person answers, by the question.
fn reply_of_a_person(params: &Value) -> Value {
    let content = match params["requestedSchema"]["required"][0].as_str().unwrap() {
        "name" => json!({ "name": "Ada" }),
        "color" => json!({ "color": "green" }),
        field => json!({ field: true }),
    };
    json!({ "action": "accept", "content": content })
}

#[tokio::test(flavor = "multi_thread")]
async fn question_by_result_is_a_dialog_for_an_older_client() {
    with_suite_server(|url| {
        let sandbox = sandbox_with_suite(&url);
        let mut agent =
            agent(&sandbox, "legacy", json!({ "elicitation": {} })).with_replies(|method, params| {
                assert_eq!(method, "elicitation/create");
                reply_of_a_person(params)
            });
        for (tool, expected) in [
            ("suite__test_input_required_result_elicitation", "Hello, Ada!"),
            ("suite__test_input_required_result_request_state", "state-ok"),
            ("suite__test_input_required_result_multi_round", "All rounds are done"),
        ] {
            let answer = call(&mut agent, tool, json!({}));
            assert!(answer["isError"] != true && text(&answer).contains(expected), "{tool}: {answer}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn question_by_result_and_its_state_pass_to_a_client_of_the_same_era() {
    with_suite_server(|url| {
        let sandbox = sandbox_with_suite(&url);
        let mut agent = agent(&sandbox, "modern", json!({ "elicitation": {} }));
        for (tool, rounds, expected) in [
            ("suite__test_input_required_result_elicitation", 1, "Hello, Ada!"),
            ("suite__test_input_required_result_request_state", 1, "state-ok"),
            ("suite__test_input_required_result_multi_round", 2, "All rounds are done"),
        ] {
            let mut answer = call(&mut agent, tool, json!({}));
            for _ in 0..rounds {
                assert_eq!(answer["resultType"], "input_required", "{tool}: {answer}");
                let asked = answer["inputRequests"].as_object().unwrap().iter();
                let replies: serde_json::Map<String, Value> =
                    asked.map(|(key, asked)| (key.clone(), reply_of_a_person(&asked["params"]))).collect();
                let mut params = json!({ "name": tool, "arguments": {}, "inputResponses": replies });
                if !answer["requestState"].is_null() {
                    params["requestState"] = answer["requestState"].clone();
                }
                answer = agent.request("tools/call", params).unwrap();
            }
            assert!(answer["isError"] != true && text(&answer).contains(expected), "{tool}: {answer}");
        }
    })
    .await;
}

/// A dialog during a call has no form in the protocol without sessions: the server hears that nobody can be asked.
#[tokio::test(flavor = "multi_thread")]
async fn server_that_asks_during_a_call_hears_that_a_client_without_sessions_shows_nothing() {
    with_suite_server(|url| {
        let sandbox = sandbox_with_suite(&url);
        let mut agent = agent(&sandbox, "modern", json!({ "elicitation": {} }));
        let params = json!({ "name": "suite__test_elicitation", "arguments": { "message": "who?" } });
        let answer = agent.request("tools/call", params);
        assert!(answer.as_ref().map_or(true, |answer| answer["isError"] == true), "{answer:?}");
        assert_ne!(statuses(&sandbox), ["succeeded"]);
    })
    .await;
}
