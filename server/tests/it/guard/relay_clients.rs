//! Real clients through the proxy, in both eras: what they get equals what they get from the servers themselves.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::proxy::with_plain_numbers;
use super::*;
use crate::cli::BINARY;
use crate::mcp::conformance::{clients_folder, node_command};
use crate::mcp::serve_process::ServeProcess;
use crate::reference_servers::{HttpServerProcess, npm_script, pypi_program};

/// A server, and calls of it whose answers do not depend on the time or the connection.
struct CalledServer {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    calls: Vec<(&'static str, Value)>,
}

/// The reference servers of npm and of PyPI over stdio, all working in `folder`.
fn servers(folder: &Path) -> Vec<CalledServer> {
    let script = |name| npm_script(name).to_str().unwrap().to_owned();
    let folder = folder.to_str().unwrap().to_owned();
    let file = format!("{folder}/a.txt");
    let node = PathBuf::from("node");
    vec![
        CalledServer {
            name: "everything",
            program: node.clone(),
            args: vec![script("server-everything"), "stdio".to_owned()],
            calls: vec![
                ("echo", json!({ "message": "hi" })),
                ("get-tiny-image", json!({})),
                ("get-structured-content", json!({ "location": "Chicago" })),
                ("get-sum", json!({ "a": "x" })),
            ],
        },
        CalledServer {
            name: "files",
            program: node.clone(),
            args: vec![script("server-filesystem"), folder.clone()],
            calls: vec![
                ("write_file", json!({ "path": file, "content": "one\n" })),
                ("read_text_file", json!({ "path": file })),
                ("read_text_file", json!({ "path": "/etc/passwd" })),
            ],
        },
        CalledServer {
            name: "memory",
            program: node,
            args: vec![script("server-memory")],
            calls: vec![("read_graph", json!({})), ("search_nodes", json!({ "query": "x" }))],
        },
        CalledServer {
            name: "git",
            program: pypi_program("servers/bin/mcp-server-git"),
            args: vec!["--repository".to_owned(), folder.clone()],
            calls: vec![
                ("git_status", json!({ "repo_path": folder })),
                ("git_log", json!({ "repo_path": folder, "max_count": 1 })),
                ("git_status", json!({ "repo_path": "/" })),
            ],
        },
    ]
}

/// A sandbox with these servers, and a repository with one commit as the folder in which they work.
fn sandbox_with(servers: impl Fn(&Path) -> Vec<CalledServer>) -> (Sandbox, Vec<CalledServer>) {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("shared");
    std::fs::create_dir(&folder).unwrap();
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"];
    for words in [&["init", "-q", "."][..], &["commit", "-q", "--allow-empty", "-m", "one"]] {
        let mut git = Command::new("git");
        assert!(git.args(identity).args(words).current_dir(&folder).status().unwrap().success());
    }
    let servers = servers(&folder);
    let configured = servers.iter().map(|server| {
        let memory = sandbox.path("memory.jsonl");
        let definition =
            json!({ "command": server.program, "args": server.args, "env": { "MEMORY_FILE_PATH": memory } });
        (server.name.to_owned(), definition)
    });
    let known = servers.iter().map(|server| (server.name.to_owned(), json!({})));
    sandbox.write_config(json!({
        "mcpServers": configured.collect::<serde_json::Map<_, _>>(),
        "servers": known.collect::<serde_json::Map<_, _>>(),
    }));
    (sandbox, servers)
}

/// Runs a client's program with the calls on its stdin; the results without what only one era has.
#[track_caller]
pub fn results(sandbox: &Sandbox, mut command: Command, calls: &[(String, Value)]) -> Vec<Value> {
    let own = sandbox.command(&[]);
    for (name, value) in own.get_envs().filter(|(name, _)| *name != "PATH") {
        match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        }
    }
    command
        .env("MEMORY_FILE_PATH", sandbox.path("memory.jsonl"))
        .env("ACTBOOK_TEST_CLIENTS", clients_folder());
    command.current_dir(sandbox.folder.path());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(json!(calls).to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let results: Vec<Value> =
        serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{error}: {out}"));
    let comparable = |mut result: Value| {
        result.as_object_mut().unwrap().remove("resultType");
        with_plain_numbers(result)
    };
    results.into_iter().map(comparable).collect()
}

/// The client's program for an era, with what it is to connect to.
pub fn client(language: &str, era: &str, target: &[String]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/guard");
    let mut command = if language == "python" {
        let mut python = Command::new(clients_folder().join("python/bin/python"));
        python.arg(folder.join("relay_clients.py"));
        python
    } else {
        let mut node = node_command();
        node.arg(folder.join("relay_clients.mjs"));
        node
    };
    command.arg(era).args(target);
    command
}

fn assert_equal_through_the_proxy(language: &str) {
    let (sandbox, servers) = sandbox_with(servers);
    let proxy = [BINARY, "mcp", "--guard"].map(str::to_owned);
    for server in &servers {
        let direct: Vec<String> =
            [server.program.to_str().unwrap().to_owned()].into_iter().chain(server.args.clone()).collect();
        let named = |prefix: &str| -> Vec<(String, Value)> {
            server
                .calls
                .iter()
                .map(|(tool, arguments)| (format!("{prefix}{tool}"), arguments.clone()))
                .collect()
        };
        let expected = results(&sandbox, client(language, "legacy", &direct), &named(""));
        for era in ["legacy", "modern"] {
            let offered = named(&format!("{}__", server.name));
            let relayed = results(&sandbox, client(language, era, &proxy), &offered);
            assert_eq!(relayed, expected, "{language}, {era}: {}", server.name);
        }
    }
}

#[test]
fn python_client_gets_equal_answers_through_the_proxy() {
    assert_equal_through_the_proxy("python");
}

#[test]
fn typescript_client_gets_equal_answers_through_the_proxy() {
    assert_equal_through_the_proxy("typescript");
}

#[test]
fn fastmcp_and_inspector_call_through_the_proxy() {
    let (sandbox, _) = sandbox_with(servers);
    let mut fastmcp = Command::new(clients_folder().join("python/bin/fastmcp"));
    // It starts its server without this process's environment.
    let (config, database) = (sandbox.path("actbook.yaml"), sandbox.path("data/actbook/actbook.db"));
    let own = format!(
        "{BINARY} mcp --guard --config {} --database sqlite://{}",
        config.display(),
        database.display()
    );
    fastmcp.args(["call", "--command", &own, "--target", "everything__echo", "--json"]);
    fastmcp.args(["--input-json", r#"{"message":"hi"}"#]);
    let inspector_script =
        clients_folder().join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let mut inspector = node_command();
    inspector.arg(inspector_script).args(["--cli", BINARY, "mcp", "--guard", "--method", "tools/call"]);
    inspector.args(["--tool-name", "everything__echo", "--tool-arg", "message=hi", "--format", "json"]);
    for (name, value) in sandbox.command(&[]).get_envs() {
        if let Some(value) = value.filter(|_| name != "PATH") {
            inspector.arg("-e").arg(format!("{}={}", name.display(), value.display()));
        }
    }
    for mut command in [fastmcp, inspector] {
        let own = sandbox.command(&[]);
        for (name, value) in own.get_envs().filter(|(name, _)| *name != "PATH") {
            match value {
                Some(value) => drop(command.env(name, value)),
                None => drop(command.env_remove(name)),
            }
        }
        let output = command.current_dir(sandbox.folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("Echo: hi"), "{text}{output:?}");
    }
}

#[test]
fn server_over_http_answers_equally_through_a_proxy_over_http() {
    let sandbox = Sandbox::new();
    let everything = HttpServerProcess::everything();
    sandbox.write_config(json!({
        "mcpServers": { "everything": { "url": everything.url } }, "servers": { "everything": {} },
        "egress": { "allow": ["127.0.0.1"] },
    }));
    let words = ["serve", "--guard", "--listen", "127.0.0.1:0", "--without-tokens", "--json"];
    let server = ServeProcess::start_with(&sandbox, &words);
    let calls = [
        ("echo", json!({ "message": "hi" })),
        ("get-tiny-image", json!({})),
        ("get-structured-content", json!({ "location": "Chicago" })),
        ("get-sum", json!({ "a": "x" })),
    ];
    let named = |prefix: &str| -> Vec<(String, Value)> {
        calls.iter().map(|(tool, arguments)| (format!("{prefix}{tool}"), arguments.clone())).collect()
    };
    let direct = client("python", "legacy", std::slice::from_ref(&everything.url));
    let expected = results(&sandbox, direct, &named(""));
    for era in ["legacy", "modern"] {
        let through = client("python", era, &[server.url()]);
        let relayed = results(&sandbox, through, &named("everything__"));
        assert_eq!(relayed, expected, "{era}");
    }
}
