//! At least fifty secrets are planted wherever one can enter; then every file left behind and all output is
//! searched for them.

use std::collections::BTreeMap;

use super::*;
use crate::tools::pins::{changing_server, write_definitions};

/// A recognisable secret with characters that JSON, URLs and shells escape.
fn secret(number: usize) -> String {
    format!("S3cr3t/{number:02}+\"q\"\\{number:02}=%&é-end")
}

/// Hands out references to secrets, and keeps the environment variables that hold them.
struct SecretSource {
    variables: BTreeMap<String, String>,
}

impl SecretSource {
    /// A reference to the next secret, as a config writes it.
    fn next_reference(&mut self) -> String {
        let number = self.variables.len();
        let name = format!("PLANTED_{number}");
        self.variables.insert(name.clone(), secret(number));
        format!("${{env:{name}}}")
    }

    fn next_references(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next_reference()).collect()
    }
}

/// A server that prints its environment and arguments to stderr; its tool returns them as output and error.
fn leaking_server(safe: &mut SecretSource) -> Value {
    let mut server = changing_server();
    let loud = "import os, sys; [print(k, v, file=sys.stderr) for k, v in os.environ.items()]; print(sys.argv, file=sys.stderr); sys.argv = sys.argv[1:]; exec(open(sys.argv[0]).read())";
    let script = server["args"][0].clone();
    let mut args = vec![json!("-c"), json!(loud), script];
    args.extend(safe.next_references(6).into_iter().map(Value::from));
    server["args"] = json!(args);
    server["env"] = safe
        .next_references(8)
        .into_iter()
        .enumerate()
        .map(|(n, value)| (format!("OWN_{n}"), json!(value)))
        .collect();
    server
}

fn commands(safe: &mut SecretSource) -> Value {
    let env = |safe: &mut SecretSource, count: usize| -> Value {
        safe.next_references(count)
            .into_iter()
            .enumerate()
            .map(|(n, value)| (format!("OWN_{n}"), json!(value)))
            .collect()
    };
    let with = |first: &[&str], safe: &mut SecretSource, count: usize| -> Value {
        first.iter().map(|word| (*word).to_owned()).chain(safe.next_references(count)).collect()
    };
    json!({
        "env": { "argv": ["env"], "env": env(safe, 6) },
        "echo": { "argv": with(&["printf", "%s\\n"], safe, 6) },
        "json": { "argv": ["python3", "-c", "import json, os; print(json.dumps(dict(os.environ)))"], "env": env(safe, 4) },
        "fails": { "argv": with(&["sh", "-c", "printf %s \"$*\"; printf %s \"$*\" >&2; env >&2; exit 7", "x"], safe, 6), "env": env(safe, 4) },
        "killed": { "argv": with(&["sh", "-c", "printf %s \"$*\" >&2; kill -9 $$", "x"], safe, 4) },
        "slow": { "argv": with(&["sh", "-c", "printf %s \"$*\"; printf %s \"$*\" >&2; sleep 60", "x"], safe, 2), "timeout": "300ms" },
        "absent": { "argv": with(&["/no/such/program"], safe, 2), "cwd": "/" },
    })
}

fn plan(safe: &SecretSource) -> Value {
    let known: Vec<&String> = safe.variables.values().collect();
    let call = |id: &str, tool: &str| json!({ "id": id, "tool": tool, "cancellable": "irreversible", "failure_policy": { "action": "continue_others" } });
    let echo = |id: &str, arguments: Value| {
        let mut step = call(id, "shifty/act");
        step["arguments"] = arguments;
        step
    };
    json!({
        "name": "secrets",
        "inputs": { "type": "object", "properties": {
            "pass": { "type": "string", "writeOnly": true },
            "deep": { "type": "object", "properties": { "key": { "type": "string", "writeOnly": true } } },
        } },
        "steps": [
            call("env", "command/env"), call("echo", "command/echo"), call("json", "command/json"),
            call("fails", "command/fails"), call("killed", "command/killed"), call("slow", "command/slow"),
            call("absent", "command/absent"), call("away", "http/post"),
            // The server answers with its own environment and arguments.
            echo("says", json!({ "env": true })),
            echo("refuses", json!({ "env": true, "fail": true })),
            echo("known", json!({ "say": { "count": known.len() } })),
        ],
    })
}

/// Collects all files below a folder.
fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect_files(&path, found) } else { found.push(path) }
    }
}

/// The start of every secret; no encoding changes these letters.
const SECRET_PREFIX: &[u8] = b"S3cr3t";

/// Panics with the surrounding text if these bytes contain a secret.
#[track_caller]
fn assert_no_secret(place: &str, bytes: &[u8]) {
    if let Some(at) = bytes.windows(SECRET_PREFIX.len()).position(|window| window == SECRET_PREFIX) {
        let around = &bytes[at.saturating_sub(120)..(at + 80).min(bytes.len())];
        panic!("a secret in {place}: …{}…", String::from_utf8_lossy(around));
    }
}

/// Writes the config, the plan and the inputs; returns all planted secrets.
fn write_config_with_secrets(sandbox: &Sandbox, safe: &mut SecretSource) -> Vec<String> {
    let config = json!({
        "mcpServers": {
            "shifty": leaking_server(safe),
            "away": {
                "url": format!("http://127.0.0.1:9/{}", safe.next_reference()),
                "headers": { "Authorization": format!("Bearer {}", safe.next_reference()), "X-Key": safe.next_reference() },
            },
        },
        "http": {
            "post": {
                "url": format!("http://127.0.0.1:9/?key={}", safe.next_reference()),
                "headers": { "X-Key": safe.next_reference() },
                "body": { "key": safe.next_reference() },
            },
        },
        "commands": commands(safe),
    });
    sandbox.write("actbook.yaml", &config.to_string());
    sandbox.write("plan.json", &plan(safe).to_string());
    let inputs = [secret(90), secret(91)];
    sandbox.write("inputs.json", &json!({ "pass": inputs[0], "deep": { "key": inputs[1] } }).to_string());
    safe.variables.values().cloned().chain(inputs).collect()
}

/// Sets the description of the server's tool.
fn set_tool_description(sandbox: &Sandbox, description: &str) {
    let tool = json!({ "name": "act", "description": description, "inputSchema": { "type": "object" } });
    write_definitions(sandbox.folder.path(), &[tool]);
}

/// Every command that prints an execution, a plan or tools.
fn read_commands(id: &str) -> Vec<Vec<&str>> {
    let words = [
        "show ID",
        "show ID --json",
        "journal --json",
        "journal",
        "tools list",
        "tools list --json",
        "tools show shifty/act",
        "tools show shifty/act --json",
        "tools call command/fails",
        "tools call shifty/act {\"env\":true}",
        "tools call away/x",
        "tools call http/post",
        "tools accept shifty/act",
        "doctor",
        "doctor --json",
        "plan show secrets",
        "export ID",
        "export ID --output run.jsonl",
        "backup copy.db",
        "verify",
    ];
    let known = |word: &'static str| if word == "ID" { id } else { word };
    words.iter().map(|line| line.split(' ').map(known).collect()).collect()
}

#[test]
fn planted_secrets_reach_no_file_and_no_output() {
    let sandbox = Sandbox::new();
    let mut safe = SecretSource { variables: BTreeMap::new() };
    let secrets = write_config_with_secrets(&sandbox, &mut safe);
    assert!(secrets.len() >= 50, "{}", secrets.len());
    set_tool_description(&sandbox, &format!("Uses {} and {}", secret(0), secret(7)));
    let mut outputs = Vec::new();
    let mut run = |words: &[&str]| -> CliOutput {
        let mut command = sandbox.command(words);
        command.envs(&safe.variables).env("RUST_LOG", "trace").env("ACTBOOK_LOG", "trace");
        let ran: CliOutput = command.output().unwrap().into();
        outputs.push((words.join(" "), format!("{}\n{}", ran.stdout, ran.stderr)));
        ran
    };
    run(&["check", "plan.json"]);
    run(&["run", "plan.json", "--inputs", "inputs.json"]);
    let id = sandbox.newest();
    for words in read_commands(&id) {
        run(&words);
    }
    // The refusal quotes the old and the new description, which both contain a secret.
    set_tool_description(&sandbox, &format!("Now uses {}", secret(3)));
    assert!(run(&["run", "secrets", "--inputs", "inputs.json"]).stderr.contains("has changed since"));

    // The steps whose output contained a secret show that it was redacted.
    let view = sandbox.json(&["show", &id]);
    for step in view["steps"].as_array().unwrap() {
        let redacting = ["env", "echo", "json", "fails", "killed", "says", "refuses"];
        let is_redacted = step.to_string().contains("[redacted]");
        assert!(is_redacted || !redacting.contains(&step["id"].as_str().unwrap()), "{step:#}");
    }
    for (words, text) in &outputs {
        assert_no_secret(words, text.as_bytes());
    }
    std::fs::remove_file(sandbox.path("inputs.json")).unwrap();
    std::fs::remove_file(sandbox.path("tools.json")).unwrap();
    let mut left = Vec::new();
    collect_files(sandbox.folder.path(), &mut left);
    assert!(left.iter().any(|file| file.to_string_lossy().ends_with(".db")), "{left:?}");
    for file in left {
        assert_no_secret(&file.display().to_string(), &std::fs::read(&file).unwrap());
    }
}

/// Planted in every field that a caller may fill freely.
const TOKEN: &str = "S3cr3t-deploy-0001";
const DEPLOY_TOOL: &str = "command/deploy";

/// A sandbox whose config takes a token from the environment.
fn sandbox_with_token() -> Sandbox {
    let sandbox = Sandbox { variables: vec![("DEPLOY_TOKEN", TOKEN)], ..Sandbox::new() };
    let config = json!({
        "mcpServers": { "shifty": changing_server() },
        "commands": { "deploy": { "argv": ["true", "${env:DEPLOY_TOKEN}"] }, "fails": { "argv": ["false"] } },
        "http": { "hook": { "url": "http://127.0.0.1:9/in/house", "method": "PUT" } },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    set_tool_description(&sandbox, "Acts.");
    sandbox
}

fn plan_of(steps: &[Value]) -> Value {
    json!({ "name": "work", "steps": steps })
}

/// Asserts that neither the journal nor a file in the data folder contains the token.
#[track_caller]
fn assert_no_secret_stored(sandbox: &Sandbox) {
    assert_no_secret("the journal", sandbox.expect(0, &["journal", "--json", "--limit", "1000"]).as_bytes());
    let mut left = Vec::new();
    collect_files(&sandbox.path("data"), &mut left);
    assert!(left.iter().any(|file| file.to_string_lossy().ends_with(".db")), "{left:?}");
    for file in left {
        assert_no_secret(&file.display().to_string(), &std::fs::read(&file).unwrap());
    }
}

#[test]
fn plan_with_a_known_secret_is_refused_naming_its_variable() {
    let sandbox = sandbox_with_token();
    let places = [
        plan_of(&[
            json!({ "id": "a", "tool": DEPLOY_TOOL, "arguments": { "list": [{ "key": format!("x{TOKEN}") }] } }),
        ]),
        json!({ "name": "work", "reasoning": TOKEN, "steps": [{ "id": "a", "action": "Think" }] }),
        plan_of(&[json!({ "id": "a", "action": "Think", "metadata": { TOKEN: 1 } })]),
    ];
    for plan in &places {
        sandbox.write("plan.json", &plan.to_string());
        for words in [
            &["plan", "save", "plan.json"],
            &["run", "plan.json", "--yes"],
            &["check", "plan.json", "--offline"],
        ] {
            let ran = sandbox.run(&[words.as_slice(), &["--json"]].concat());
            assert_eq!(ran.code, Some(1), "{words:?}: {}", ran.stdout);
            assert!(ran.stdout.contains("secret_in_plan"), "{words:?}: {}", ran.stdout);
            assert!(
                ran.stdout.contains("the environment variable DEPLOY_TOKEN"),
                "{words:?}: {}",
                ran.stdout
            );
            assert_no_secret("the refusal", format!("{}{}", ran.stdout, ran.stderr).as_bytes());
        }
    }
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    for (tool, arguments) in
        [("save_plan", json!({ "plan": places[0] })), ("execute_plan", json!({ "plan": places[1] }))]
    {
        let answer = agent.call(tool, arguments);
        assert!(answer.is_error && answer.text.contains("DEPLOY_TOKEN"), "{}", answer.text);
        assert_no_secret(tool, answer.full_result.to_string().as_bytes());
    }
    std::fs::remove_file(sandbox.path("plan.json")).unwrap();
    sandbox.expect(0, &["doctor"]);
    assert_no_secret_stored(&sandbox);
}

#[test]
fn input_with_a_known_secret_is_refused_unless_write_only() {
    let sandbox = sandbox_with_token();
    let inputs = json!({ "type": "object", "properties": {
        "note": { "type": "string" }, "pass": { "type": "string", "writeOnly": true } } });
    let mut plan = plan_of(&[json!({ "id": "a", "action": "Think" })]);
    plan["inputs"] = inputs;
    sandbox.write("plan.json", &plan.to_string());
    let refused = sandbox.json(&["run", "plan.json", "--input", &format!("note=a {TOKEN}")]);
    assert_eq!(refused["code"], "secret_input", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("DEPLOY_TOKEN"), "{refused}");
    assert_no_secret("the refusal", refused.to_string().as_bytes());
    sandbox.expect(3, &["run", "plan.json", "--input", &format!("pass={TOKEN}")]);
    assert_no_secret_stored(&sandbox);
}

#[test]
fn reasons_are_redacted_before_they_are_journaled() {
    let sandbox = sandbox_with_token();
    let fails = |id: &str| json!({ "id": id, "tool": "command/fails", "cancellable": "irreversible" });
    let asks = json!({ "id": "asks", "action": "Think", "approval": "required" });
    let says = json!({ "id": "says", "action": "Think" });
    let plan = plan_of(&[asks, says, fails("fails")]);
    sandbox.write("plan.json", &plan.to_string());
    sandbox.expect(3, &["run", "plan.json"]);
    let id = sandbox.newest();
    let why = format!("because {TOKEN}");
    let value = json!({ "key": TOKEN }).to_string();
    let words: [&[&str]; 10] = [
        &["pause", &id, "--reason", &why],
        &["resume", &id],
        &["approve", &id, "asks", "--reason", &why],
        &["resume", &id],
        &["record", &id, "asks", "succeeded", "--description", &why, "--output", &value, "--after", &why],
        &["resume", &id],
        &["record", &id, "says", "failed", "--reason", &why],
        &["resume", &id],
        &["decide", &id, "says", "happened", "--reason", &why, "--output", &value],
        &["cancel", &id, "--reason", &why],
    ];
    for words in words {
        let ran = sandbox.run(words);
        assert!(matches!(ran.code, Some(0 | 3)), "{words:?}: {}", ran.stderr);
    }
    sandbox.expect(0, &["tools", "accept", "shifty/act", "--reason", &why]);
    let journal = sandbox.expect(0, &["journal", "--json", "--limit", "1000"]);
    assert!(journal.matches("because [redacted]").count() >= 5, "{journal}");
    assert_no_secret_stored(&sandbox);
}

#[test]
fn agent_texts_are_redacted_before_they_are_journaled() {
    let sandbox = sandbox_with_token();
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    let own = |id: &str| json!({ "id": id, "action": "Think" });
    let started = agent.call("execute_plan", json!({ "plan": plan_of(&[own("a"), own("b")]) }));
    let id = started.id().to_owned();
    let why = format!("because {TOKEN}");
    let of = |mut arguments: Value| {
        arguments["execution_id"] = json!(id);
        arguments
    };
    for (tool, arguments) in [
        ("record_action", json!({ "step_id": "a", "status": "failed", "description": why, "error": why })),
        ("record_decision", json!({ "decision": why, "reason": why, "details": { "key": TOKEN } })),
        ("control", json!({ "action": "retry", "step_id": "a", "reason": why })),
        ("control", json!({ "action": "pause", "reason": why })),
        ("control", json!({ "action": "cancel", "reason": why })),
    ] {
        let answer = agent.call(tool, of(arguments.clone()));
        assert!(!answer.is_error, "{tool} {arguments}: {}", answer.text);
    }
    agent.call("record_action", json!({ "description": why, "entity": TOKEN }));
    agent.call("set_context", json!({ "key": "k", "value": why }));
    drop(agent);
    assert_no_secret_stored(&sandbox);
}

/// A name is refused rather than redacted, since `[redacted]` would be another name.
#[test]
fn names_that_hold_a_known_secret_are_refused_by_the_variables_name() {
    let sandbox = sandbox_with_token();
    let named = format!("x-{TOKEN}");
    sandbox.expect(0, &["task", "add", "T-1"]);
    let commands: [&[&str]; 8] = [
        &["task", "add", &named],
        &["task", "add", "T-2", "--type", &named],
        &["task", "add", "T-2", "--label", "plain", "--label", &named],
        &["task", "add", "T-2", "--parent", &named],
        &["task", "set", "T-1", "--label", &named],
        &["context", "set", "key", "value", "--type", &named],
        &["context", "set", "key", "value", "--task", &named],
        &["tools", "accept", &format!("shifty/{TOKEN}")],
    ];
    let tool = json!({ "name": TOKEN, "inputSchema": { "type": "object" } });
    write_definitions(sandbox.folder.path(), &[tool]);
    for words in commands {
        let refused = sandbox.json(words);
        assert_eq!(refused["code"], "secret_name", "{words:?}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("DEPLOY_TOKEN"), "{refused}");
        assert_no_secret("the refusal", refused.to_string().as_bytes());
    }
    let listed = sandbox.expect(0, &["tools", "list", "--json"]);
    assert!(listed.contains("shifty/[redacted]"), "{listed}");
    assert_no_secret("the list of tools", listed.as_bytes());
    let mut agent =
        crate::mcp::agent::Agent::legacy(&sandbox, &["mcp", "--tools", "full"], "2025-11-25", json!({}));
    for (tool, arguments) in [
        ("set_context", json!({ "key": "k", "value": 1, "type": named })),
        ("set_context", json!({ "key": "k", "value": 1, "idempotency_key": named })),
        ("record_action", json!({ "description": "x", "idempotency_key": named })),
        ("task", json!({ "action": "add", "id": "T-3", "labels": [named] })),
    ] {
        let answer = agent.call(tool, arguments);
        assert!(answer.is_error && answer.text.contains("DEPLOY_TOKEN"), "{tool}: {}", answer.text);
    }
    drop(agent);
    assert_no_secret_stored(&sandbox);
}

/// The secret is an ordinary word that names had before the config used it.
#[test]
fn names_that_existed_before_the_secret_was_known_stay_usable() {
    let sandbox = Sandbox { variables: vec![("POSTGRES_PASSWORD", "postgres")], ..Sandbox::new() };
    let asks = json!({ "id": "migrate_postgres", "action": "Think", "approval": "required" });
    sandbox.write("plan.json", &plan_of(&[asks]).to_string());
    sandbox.expect(3, &["run", "plan.json"]);
    let approved = sandbox.newest();
    sandbox.expect(3, &["run", "plan.json"]);
    let rejected = sandbox.newest();
    sandbox.expect(0, &["context", "set", "postgres_port", "5432"]);
    sandbox.expect(0, &["task", "add", "postgres-1"]);
    let config = json!({
        "mcpServers": { "postgres": changing_server() },
        "servers": { "postgres": { "tools": { "dump_postgres": { "approval": "required" } } } },
        "commands": { "deploy": { "argv": ["true", "${env:POSTGRES_PASSWORD}"] } },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    let tool = json!({ "name": "dump_postgres", "inputSchema": { "type": "object" } });
    write_definitions(sandbox.folder.path(), &[tool]);

    let refused: [&[&str]; 2] =
        [&["task", "add", "postgres-2"], &["task", "set", "postgres-1", "--label", "postgres"]];
    for words in refused {
        assert_eq!(sandbox.json(words)["code"], "secret_name", "{words:?}");
    }
    sandbox.expect(0, &["task", "set", "postgres-1", "--label", "plain"]);
    sandbox.expect(0, &["task", "done", "postgres-1"]);
    sandbox.expect(0, &["context", "delete", "postgres_port"]);
    let step = "migrate_postgres";
    let commands: [&[&str]; 5] = [
        &["approve", &approved, step],
        &["resume", &approved],
        &["record", &approved, step, "succeeded", "--description", "done"],
        &["resume", &approved],
        &["reject", &rejected, step, "--reason", "no"],
    ];
    for words in commands {
        let ran = sandbox.run(words);
        assert!(!ran.stderr.contains("POSTGRES_PASSWORD"), "{words:?}: {}", ran.stderr);
    }
    assert_eq!(sandbox.json(&["show", &approved])["status"], "succeeded");
    let journal = sandbox.expect(0, &["journal", "--json", "--limit", "1000"]);
    assert!(journal.contains("step_approved") && journal.contains("step_rejected"), "{journal}");

    // The server's part of a tool's name is the config's; the mark follows from the name before redaction.
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    let listed = agent.call("list_tools", json!({ "server": "postgres" }));
    let tool = &listed.full_result["structuredContent"]["tools"][0];
    assert_eq!(tool["name"], "postgres/dump_[redacted]", "{}", listed.text);
    assert_eq!(tool["approval"], "required", "{}", listed.text);
}

#[test]
fn secret_in_a_clients_name_is_redacted_and_an_agent_stays_an_agent() {
    let sandbox = sandbox_with_token();
    // The longer name would be shortened in the middle of the secret.
    for client in [TOKEN.to_owned(), format!("{}{TOKEN}", "x".repeat(50))] {
        let mut agent = crate::mcp::agent::Agent::start(&sandbox, &["mcp"]);
        let client = json!({ "name": client, "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        agent.request("initialize", hello).unwrap();
        agent.notify("notifications/initialized", json!({}));
        let note = json!({ "key": "k", "value": 1, "idempotency_key": client["name"].as_str().unwrap().len().to_string() });
        let answer =
            agent.request("tools/call", json!({ "name": "set_context", "arguments": note })).unwrap();
        assert_ne!(answer["isError"], true, "{answer}");
        let plan = plan_of(&[json!({ "id": "a", "action": "Think" })]);
        let begun = json!({ "name": "execute_plan", "arguments": { "plan": plan } });
        let id = agent.request("tools/call", begun).unwrap()["structuredContent"]["id"].clone();
        let step = json!({ "execution_id": id, "step_id": "a", "status": "started", "description": "begun" });
        agent.request("tools/call", json!({ "name": "record_action", "arguments": step })).unwrap();
    }
    let journal = sandbox.expect(0, &["journal", "--json", "--limit", "1000"]);
    assert!(journal.contains("\"agent:[redacted]\""), "{journal}");
    assert!(journal.contains("agent_started"), "{journal}");
    assert_no_secret_stored(&sandbox);
}

#[test]
fn corrected_arguments_with_a_known_secret_are_refused() {
    let sandbox = sandbox_with_token();
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    let fails = json!({ "id": "a", "tool": "command/fails", "cancellable": "irreversible" });
    let started = agent.call("execute_plan", json!({ "plan": plan_of(&[fails]), "wait_s": 60 }));
    let arguments = json!({ "execution_id": started.id(), "action": "retry", "step_id": "a", "reason": "corrected",
        "arguments": { "key": TOKEN } });
    let answer = agent.call("control", arguments);
    assert!(answer.is_error && answer.text.contains("DEPLOY_TOKEN"), "{}", answer.text);
    drop(agent);
    assert_no_secret_stored(&sandbox);
}

#[test]
fn agents_see_no_command_lines_or_addresses_of_the_config() {
    let sandbox = sandbox_with_token();
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    let listed = agent.call("list_tools", json!({})).full_result.to_string();
    assert!(listed.contains(DEPLOY_TOOL) && listed.contains("http/hook"), "{listed}");
    for part in ["DEPLOY_TOKEN", "in/house", "127.0.0.1"] {
        assert!(!listed.contains(part), "{part}: {listed}");
    }
    assert!(
        sandbox.expect(0, &["tools", "show", "http/hook"]).contains("in/house"),
        "the command line shows the address"
    );
    // The report of a changed definition shows them neither.
    let plan = plan_of(&[json!({ "id": "a", "tool": DEPLOY_TOOL, "read_only": true })]);
    agent.call("save_plan", json!({ "plan": plan }));
    drop(agent);
    let config = std::fs::read_to_string(sandbox.path("actbook.yaml")).unwrap();
    sandbox.write("actbook.yaml", &config.replace("\"true\"", "\"/opt/in-house\""));
    let mut agent = crate::mcp::agent::Agent::new(&sandbox);
    let answer = agent.call("execute_plan", json!({ "plan_id": "work" }));
    assert!(answer.is_error && answer.text.contains("argv"), "{}", answer.text);
    assert!(!answer.full_result.to_string().contains("in-house"), "{}", answer.text);
}

#[test]
fn check_names_unset_variables_of_config_tools() {
    let sandbox = Sandbox::new();
    let config = json!({
        "commands": { "deploy": { "argv": ["true", "${env:NOT_SET_ANYWHERE}"], "env": { "A": "${env:SET_BY_DEFAULT:-x}" } } },
        "http": { "hook": { "url": "http://127.0.0.1:9/", "headers": { "K": "${env:NOT_SET_EITHER}" } } },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    let steps = [json!({ "id": "a", "tool": DEPLOY_TOOL }), json!({ "id": "b", "tool": "http/hook" })];
    sandbox.write("plan.json", &plan_of(&steps).to_string());
    let check = sandbox.json(&["check", "plan.json"]);
    let findings: Vec<&Value> =
        check["findings"].as_array().unwrap().iter().filter(|one| one["code"] == "unset_variable").collect();
    assert_eq!((check["ok"].as_bool(), findings.len()), (Some(false), 2), "{check:#}");
    assert!(findings[0]["message"].as_str().unwrap().contains("NOT_SET_ANYWHERE"), "{check:#}");
    assert!(findings[1]["message"].as_str().unwrap().contains("NOT_SET_EITHER"), "{check:#}");
    assert!(!check.to_string().contains("SET_BY_DEFAULT"), "{check:#}");
    let sandbox = Sandbox { variables: vec![("NOT_SET_ANYWHERE", "x"), ("NOT_SET_EITHER", "y")], ..sandbox };
    sandbox.expect(0, &["check", "plan.json"]);
}

#[test]
fn known_secret_in_a_hooked_call_reaches_no_file() {
    let sandbox = sandbox_with_token();
    let hook = |event: &Value| crate::guard::run_hook(&sandbox, event, &[]);
    let call =
        crate::guard::before(&sandbox, "toolu_1", "Bash", json!({ "command": format!("curl -H {TOKEN} x") }));
    let reply = json!({ "stdout": TOKEN, TOKEN: 1 });
    let mut failed =
        crate::guard::before(&sandbox, "toolu_2", "Write", json!({ "file_path": TOKEN, "content": TOKEN }));
    assert_eq!(hook(&failed).code, Some(0));
    (failed["hook_event_name"], failed["error"]) =
        (json!("PostToolUseFailure"), json!(format!("no {TOKEN}")));
    for event in [&call, &crate::guard::after(&call, reply), &failed] {
        assert_eq!(hook(event).code, Some(0), "{event}");
    }
    let shown = sandbox.expect(0, &["show", &sandbox.newest(), "c1", "--json"]);
    assert!(shown.contains("[redacted]"), "{shown}");
    assert_no_secret_stored(&sandbox);
}

#[test]
fn hooked_call_whose_names_hold_a_known_secret_is_denied() {
    let sandbox = sandbox_with_token();
    for name in ["session_id", "tool_use_id", "agent_id", "tool_name"] {
        let mut event = crate::guard::before(&sandbox, "toolu_1", "Bash", json!({ "command": "ls" }));
        event[name] = json!(format!("mcp__x__{TOKEN}"));
        let ran = crate::guard::run_hook(&sandbox, &event, &[]);
        assert_eq!(ran.code, Some(2), "{name}: {}", ran.stdout);
        assert!(ran.stderr.contains("DEPLOY_TOKEN"), "{}", ran.stderr);
        assert_no_secret(name, ran.stderr.as_bytes());
    }
    let mut event = crate::guard::before(&sandbox, "toolu_1", "Bash", json!({ "command": "ls" }));
    event["cwd"] = json!(format!("/srv/{TOKEN}"));
    assert_eq!(crate::guard::run_hook(&sandbox, &event, &[]).code, Some(0));
    assert_no_secret_stored(&sandbox);
}
