//! HTTP tools and an MCP server over HTTP, in one plan, through the real binary.

use crate::tools::hostile_http::{HostileServer, page};

use super::*;

/// A sandbox with this server as MCP server `zoo` and as the HTTP tools `ask` and `tell`.
fn sandbox_with_http_tools(server: &HostileServer) -> Sandbox {
    let sandbox = Sandbox::new();
    let config = json!({
        "mcpServers": { "zoo": { "url": server.url("/mcp") } },
        "http": {
            "ask": { "method": "GET", "url": server.url("/ask/${arguments.about}"), "description": "Asks about something" },
            "tell": { "url": server.url("/tell"), "body": { "said": "${arguments.said}" } },
        },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    sandbox
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_of_http_tools_and_mcp_tools_feed_each_other() {
    let server = HostileServer::start(|seen| match seen.path.as_str() {
        "/ask/the%20weather" => page("200 OK", "", r#"{"answer": ["rain", 3]}"#),
        "/mcp" => page("200 OK", "Content-Type: application/json\r\n", "{result}"),
        _ => page("201 Created", "", "noted"),
    })
    .await;
    let sandbox = sandbox_with_http_tools(&server);
    let plan = r#"
name: over-http
steps:
  - { id: ask, tool: http/ask, arguments: { about: the weather }, read_only: true }
  - { id: call, tool: zoo/any, arguments: { told: "${steps.ask.output.answer}" } }
  - { id: tell, tool: http/tell, arguments: { said: "${[steps.ask.output.answer, steps.call.output.said]}" } }
"#;
    sandbox.write("plan.yaml", plan);
    sandbox.expect(0, &["run", "plan.yaml"]);
    let seen = server.calls();
    assert_eq!(seen[1].body["params"]["arguments"], json!({ "told": ["rain", 3] }));
    assert_eq!(seen[2].body, json!({ "said": [["rain", 3], "yes"] }));
    let view = sandbox.json(&["show", &sandbox.newest()]);
    assert_eq!(step(&view, "tell")["output"], json!({ "text": "noted", "status": 201 }));
    let listed = sandbox.expect(0, &["tools", "list"]);
    assert!(listed.contains("http/ask") && listed.contains("zoo/any"), "{listed}");
    assert!(sandbox.expect(0, &["tools", "show", "http/ask"]).contains("Asks about something"));
    let called = sandbox.json(&["tools", "call", "http/tell", r#"{"said": "by hand"}"#]);
    assert_eq!((&called["outcome"], &called["output"]["status"]), (&json!("succeeded"), &json!(201)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_header_delays_the_next_attempt() {
    let server = HostileServer::start({
        let asked = std::sync::atomic::AtomicUsize::new(0);
        move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => page("429 Too Many Requests", "Retry-After: 1\r\n", ""),
            _ => page("200 OK", "", "{}"),
        }
    })
    .await;
    let sandbox = sandbox_with_http_tools(&server);
    let plan = r#"
name: patient
steps:
  - { id: tell, tool: http/tell, arguments: { said: hello }, retry: { max_attempts: 2, backoff: 1ms } }
"#;
    sandbox.write("plan.yaml", plan);
    let journal = sandbox.follow_journal();
    sandbox.expect(0, &["run", "plan.yaml"]);
    let ended = journal.wait_for("attempt_ended", Some("tell"));
    assert_eq!(ended["body"]["retry_after_ms"], 1_000);
    let scheduled = journal.wait_for("retry_scheduled", Some("tell"))["body"]["at_ms"].as_i64().unwrap();
    let started = journal.wait_for("attempt_started", Some("tell"))["at"].as_str().unwrap().to_owned();
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(scheduled - at(ended["at"].as_str().unwrap()), 1_000);
    assert!(at(&started) >= scheduled, "{started}");
    assert_eq!(server.calls().len(), 2);
}

/// A TLS server whose self-signed certificate is trusted only through `certificate`.
struct TlsServer {
    child: Child,
    stdout: Receiver<String>,
    port: String,
    certificate: PathBuf,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl TlsServer {
    fn start(sandbox: &Sandbox) -> Self {
        let (certificate, key) = (sandbox.path("certificate.pem"), sandbox.path("key.pem"));
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
        let stdout = read_lines(child.stdout.take().unwrap());
        let port = stdout.recv_timeout(TEST_TIMEOUT).unwrap();
        Self { child, stdout, port, certificate }
    }
}

#[test]
fn tls_server_with_an_untrusted_certificate_is_sent_nothing() {
    let sandbox = Sandbox::new();
    let server = TlsServer::start(&sandbox);
    let tool =
        |path: &str| json!({ "method": "GET", "url": format!("https://127.0.0.1:{}{path}", server.port) });
    let config =
        json!({ "http": { "it": tool("/"), "down": tool("/down") }, "egress": { "allow": ["127.0.0.1"] } });
    sandbox.write("actbook.yaml", &config.to_string());
    let called = |name: &str, certificate: Option<&Path>| -> Value {
        let mut command = sandbox.command(&["tools", "call", name, "{}", "--json"]);
        command.envs(certificate.map(|file| ("SSL_CERT_FILE", file)));
        let ran = CliOutput::from(command.output().unwrap());
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
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
    assert_eq!(
        server.stdout.recv_timeout(TEST_TIMEOUT).unwrap(),
        "asked /",
        "the untrusted call sent nothing"
    );
    let down = called("http/down", Some(&server.certificate));
    assert_eq!((&down["outcome"], &down["category"]), (&json!("failed"), &json!("policy")), "{down}");
    assert!(down["message"].as_str().unwrap().contains("from https to http"), "{down}");
}
