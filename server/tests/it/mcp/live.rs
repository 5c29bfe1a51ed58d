//! Updates during an execution: progress, subscriptions of both protocols, and tasks; a client that
//! disconnects or cancels its request stops nothing.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use super::agent::Agent;
use super::web::Server;
use super::{hold, steps, write};
use crate::cli::House;

fn held() -> Value {
    steps(&[hold("wait"), write("after", "after.txt")])
}

#[test]
fn waiting_is_told_of_progress_and_ends_with_the_change() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let started = agent.good("execute_plan", json!({ "plan": held() }));
    let (id, since) = (started.id().to_owned(), started.content["position"].clone());
    let arguments = json!({ "execution_id": id, "wait_s": 60 });
    let params = json!({ "name": "status", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let waiting = agent.ask("tools/call", params);
    // The first progress notification shows that the call waits.
    let first = agent.told("notifications/progress");
    house.release();
    let ended = agent.answer_to(waiting).unwrap();
    assert_eq!(ended["structuredContent"]["status"], "succeeded");
    let later = agent.notifications.iter().filter(|one| one["method"] == "notifications/progress");
    let updates: Vec<&Value> = std::iter::once(&first).chain(later).collect();
    let progress: Vec<f64> = updates.iter().map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
    assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
    assert_eq!(updates[0]["params"]["progressToken"], "t");
    assert!(updates[0]["params"]["message"].as_str().unwrap().contains("of 2 steps done"));
    // A `since` in the past is answered at once.
    let moved = agent.good("status", json!({ "execution_id": id, "since": since, "wait_s": 60 }));
    assert!(moved.content["position"].as_u64() > since.as_u64());
}

#[test]
fn a_cancelled_execution_says_that_it_is_about_to_end() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let journal = house.journal();
    let id = agent.good("execute_plan", json!({ "plan": held() })).id().to_owned();
    journal.until("attempt_started", Some("wait"));
    let answer = agent.good("control", json!({ "execution_id": id, "action": "cancel", "reason": "enough" }));
    // The call in flight may be abandoned before the answer is written.
    match answer.content["status"].as_str() {
        Some("running") => {
            assert!(answer.text.contains("is running, and will be cancelled"), "{}", answer.text)
        }
        status => assert_eq!(status, Some("cancelled"), "{}", answer.text),
    }
    let ended = agent.good("status", json!({ "execution_id": id, "wait_s": 60 }));
    assert_eq!((&ended.content["status"], &ended.content["ending"]), (&json!("cancelled"), &Value::Null));
}

#[test]
fn a_request_that_is_taken_back_or_cut_off_stops_nothing() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let params = json!({ "name": "execute_plan", "arguments": { "plan": held(), "wait_s": 60 } });
    let journal = house.journal();
    let waiting = agent.ask("tools/call", params);
    journal.until("attempt_started", Some("wait"));
    agent.notify("notifications/cancelled", json!({ "requestId": waiting, "reason": "changed my mind" }));
    let id = house.newest();
    assert_eq!(agent.good("status", json!({ "execution_id": id })).content["status"], "running");

    // Over HTTP, closing the stream cancels the request.
    let server = Server::start(&house);
    let params = json!({ "name": "execute_plan", "arguments": { "plan": held(), "wait_s": 60 } });
    let mut stream = server.connect();
    stream.write_all(&server.bytes("tools/call", params)).unwrap();
    journal.until("attempt_started", Some("wait"));
    drop(stream);
    let second = house.newest();
    assert_ne!(id, second);
    house.release();
    for id in [id, second] {
        let ended = server.call("status", json!({ "execution_id": id, "wait_s": 60 }));
        assert_eq!(ended["structuredContent"]["status"], "succeeded");
    }
}

#[test]
fn a_subscription_of_the_older_form_tells_of_every_movement_until_it_is_given_up() {
    let house = House::new();
    let mut agent = Agent::new(&house);
    let own = |id: &str| json!({ "id": id, "action": "Something" });
    let started =
        agent.good("execute_plan", json!({ "plan": steps(&[own("a"), own("b"), own("c")]), "wait_s": 60 }));
    let id = started.id().to_owned();
    let uri = format!("actbook://executions/{id}");
    agent.request("resources/subscribe", json!({ "uri": uri })).unwrap();
    let report = |step: &str| json!({ "execution_id": id, "step_id": step, "description": "done" });
    agent.good("record_action", report("a"));
    assert_eq!(agent.told("notifications/resources/updated")["params"]["uri"], uri);
    agent.request("resources/unsubscribe", json!({ "uri": uri })).unwrap();
    let refused = agent.request("resources/subscribe", json!({ "uri": "actbook://guide" })).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("only executions"));
    // An append of another process is notified as well.
    agent.request("resources/subscribe", json!({ "uri": format!("{uri}/journal") })).unwrap();
    agent.notifications.clear();
    house.expect(0, &["pause", &id]);
    assert_eq!(agent.told("notifications/resources/updated")["params"]["uri"], format!("{uri}/journal"));
}

#[test]
fn a_subscription_of_the_newer_form_is_a_stream_of_its_own() {
    let house = House::new();
    let server = Server::start(&house);
    let started = server.call("execute_plan", json!({ "plan": held() }));
    let id = started["structuredContent"]["id"].as_str().unwrap().to_owned();
    let uri = format!("actbook://executions/{id}");
    let wanted = json!({ "notifications": { "resourceSubscriptions": [uri, "actbook://guide"] } });
    let mut stream = server.connect();
    stream.write_all(&server.bytes("subscriptions/listen", wanted)).unwrap();
    let mut events = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let accepted = events.next().unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([uri]));
    house.release();
    let moved = events.next().unwrap();
    assert_eq!(moved["method"], "notifications/resources/updated");
    assert_eq!(moved["params"]["uri"], uri);
}

fn task_client() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn task(server: &Server, method: &str, params: Value) -> Value {
    let reply = server.exchange(&server.bytes_as("scripted", task_client(), method, params));
    reply.message()
}

/// Waits until the task no longer runs; returns its state.
fn settled(server: &Server, id: &str) -> Value {
    // `status` with `wait_s` returns when the journal changes.
    server.call("status", json!({ "execution_id": id, "wait_s": 60 }));
    task(server, "tasks/get", json!({ "taskId": id }))["result"].clone()
}

#[test]
fn an_execution_is_a_task_that_outlives_its_server_and_asks_through_it() {
    let house = House::new();
    let mut publish = write("publish", "public.txt");
    publish["approval"] = json!("required");
    let plan = steps(&[hold("wait"), publish]);
    let server = Server::start(&house);
    let call = json!({ "name": "execute_plan", "arguments": { "plan": plan } });
    let created = task(&server, "tools/call", call)["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert_eq!(task(&server, "tasks/get", json!({ "taskId": id }))["result"]["status"], "working");
    drop(server);

    house.release();
    let server = Server::start(&house);
    let mut asks = settled(&server, &id);
    if asks["status"] != "input_required" {
        // The held call was lost with its server, so its outcome is unknown.
        let name = asks["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
        assert!(name.is_some(), "{asks}");
    }
    if !asks["inputRequests"].to_string().contains("public.txt") {
        let name = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let retry = json!({ name: { "action": "accept", "content": { "answer": "retry" } } });
        task(&server, "tasks/update", json!({ "taskId": id, "inputResponses": retry }));
        asks = settled(&server, &id);
    }
    assert_eq!(asks["status"], "input_required", "{asks}");
    let name = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let yes = json!({ name: { "action": "accept", "content": { "answer": "approve" } } });
    let acknowledged = task(&server, "tasks/update", json!({ "taskId": id, "inputResponses": yes }));
    assert_eq!(acknowledged["result"]["resultType"], "complete");
    let done = settled(&server, &id);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["structuredContent"]["status"], "succeeded");
    assert!(house.path("work/public.txt").exists());
    let unknown = task(&server, "tasks/get", json!({ "taskId": "nobody" }));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn cancelling_a_task_cancels_its_execution_once() {
    let house = House::new();
    let server = Server::start(&house);
    let call = json!({ "name": "execute_plan", "arguments": { "plan": held() } });
    let id = task(&server, "tools/call", call)["result"]["taskId"].as_str().unwrap().to_owned();
    task(&server, "tasks/cancel", json!({ "taskId": id }));
    house.release();
    let ended = settled(&server, &id);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let again = task(&server, "tasks/cancel", json!({ "taskId": id }));
    assert_eq!(again["result"]["resultType"], "complete", "{again}");
    assert!(!house.path("work/after.txt").exists());
}
