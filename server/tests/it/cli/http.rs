//! HTTP tools and an MCP server over HTTP, in one plan, through the real binary.

use crate::tools::hostile::{Hostile, page};

use super::*;

/// A sandbox with this server as MCP server `zoo` and as the HTTP tools `ask` and `tell`.
fn house_of(server: &Hostile) -> House {
    let house = House::new();
    let config = json!({
        "mcpServers": { "zoo": { "url": server.url("/mcp") } },
        "http": {
            "ask": { "method": "GET", "url": server.url("/ask/${arguments.about}"), "description": "Asks about something" },
            "tell": { "url": server.url("/tell"), "body": { "said": "${arguments.said}" } },
        },
    });
    house.write("actbook.yaml", &config.to_string());
    house
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_flow_between_plain_requests_and_a_server() {
    let server = Hostile::start(|seen| match seen.path.as_str() {
        "/ask/the%20weather" => page("200 OK", "", r#"{"answer": ["rain", 3]}"#),
        "/mcp" => page("200 OK", "Content-Type: application/json\r\n", "{result}"),
        _ => page("201 Created", "", "noted"),
    })
    .await;
    let house = house_of(&server);
    let plan = r#"
name: over-http
steps:
  - { id: ask, tool: http/ask, arguments: { about: the weather }, read_only: true }
  - { id: call, tool: zoo/any, arguments: { told: "${steps.ask.output.answer}" } }
  - { id: tell, tool: http/tell, arguments: { said: "${[steps.ask.output.answer, steps.call.output.said]}" } }
"#;
    house.write("plan.yaml", plan);
    house.expect(0, &["run", "plan.yaml"]);
    let seen = server.calls();
    assert_eq!(seen[1].body["params"]["arguments"], json!({ "told": ["rain", 3] }));
    assert_eq!(seen[2].body, json!({ "said": [["rain", 3], "yes"] }));
    let view = house.json(&["show", &house.newest()]);
    assert_eq!(step(&view, "tell")["output"], json!({ "text": "noted", "status": 201 }));
    let listed = house.expect(0, &["tools", "list"]);
    assert!(listed.contains("http/ask") && listed.contains("zoo/any"), "{listed}");
    assert!(house.expect(0, &["tools", "show", "http/ask"]).contains("Asks about something"));
    let called = house.json(&["tools", "call", "http/tell", r#"{"said": "by hand"}"#]);
    assert_eq!((&called["outcome"], &called["output"]["status"]), (&json!("succeeded"), &json!(201)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_patience_is_given_it() {
    let server = Hostile::start({
        let asked = std::sync::atomic::AtomicUsize::new(0);
        move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => page("429 Too Many Requests", "Retry-After: 1\r\n", ""),
            _ => page("200 OK", "", "{}"),
        }
    })
    .await;
    let house = house_of(&server);
    let plan = r#"
name: patient
steps:
  - { id: tell, tool: http/tell, arguments: { said: hello }, retry: { max_attempts: 2, backoff: 1ms } }
"#;
    house.write("plan.yaml", plan);
    let journal = house.journal();
    house.expect(0, &["run", "plan.yaml"]);
    let ended = journal.until("attempt_ended", Some("tell"));
    assert_eq!(ended["body"]["retry_after_ms"], 1_000);
    let scheduled = journal.until("retry_scheduled", Some("tell"))["body"]["at_ms"].as_i64().unwrap();
    let started = journal.until("attempt_started", Some("tell"))["at"].as_str().unwrap().to_owned();
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(scheduled - at(ended["at"].as_str().unwrap()), 1_000);
    assert!(at(&started) >= scheduled, "{started}");
    assert_eq!(server.calls().len(), 2);
}

/// A TLS server whose self-signed certificate is trusted only through `certificate`.
struct Sealed {
    child: Child,
    said: Receiver<String>,
    port: String,
    certificate: PathBuf,
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Sealed {
    fn start(house: &House) -> Self {
        let (certificate, key) = (house.path("certificate.pem"), house.path("key.pem"));
        let mut make = Command::new("openssl");
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        make.args(["-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]);
        make.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
        let made = make.arg(&key).arg("-out").arg(&certificate).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/tls.py");
        let mut serve = Command::new("python3");
        let serve = serve.arg(script).arg(&certificate).arg(key).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = serve.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let port = stdout.recv_timeout(PATIENCE).unwrap();
        Self { child, said: stdout, port, certificate }
    }
}

#[test]
fn tls_is_spoken_only_with_whom_the_machine_vouches_for() {
    let house = House::new();
    let server = Sealed::start(&house);
    let tool =
        |path: &str| json!({ "method": "GET", "url": format!("https://127.0.0.1:{}{path}", server.port) });
    let config =
        json!({ "http": { "it": tool("/"), "down": tool("/down") }, "egress": { "allow": ["127.0.0.1"] } });
    house.write("actbook.yaml", &config.to_string());
    let called = |name: &str, certificate: Option<&Path>| -> Value {
        let mut command = house.command(&["tools", "call", name, "{}", "--json"]);
        command.envs(certificate.map(|file| ("SSL_CERT_FILE", file)));
        let ran = Ran::from(command.output().unwrap());
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
    };
    let untrusted = called("http/it", None);
    assert_eq!(
        (&untrusted["outcome"], &untrusted["category"]),
        (&json!("failed"), &json!("unavailable")),
        "{untrusted}"
    );
    assert!(untrusted["message"].as_str().unwrap().contains("certificate"), "{untrusted}");
    let trusted = called("http/it", Some(&server.certificate));
    assert_eq!(
        (&trusted["outcome"], &trusted["output"]),
        (&json!("succeeded"), &json!({ "sealed": true })),
        "{trusted}"
    );
    assert_eq!(server.said.recv_timeout(PATIENCE).unwrap(), "asked /", "the untrusted call sent nothing");
    let down = called("http/down", Some(&server.certificate));
    assert_eq!((&down["outcome"], &down["category"]), (&json!("failed"), &json!("policy")), "{down}");
    assert!(down["message"].as_str().unwrap().contains("from https to http"), "{down}");
}
