//! Fifty secrets, in every place where one can enter; then every file that was left behind, and every
//! word that was said, is searched for them.

use std::collections::BTreeMap;

use super::*;
use crate::tools::pins::{say, shifty_server};

/// Recognisable, and with signs that are written otherwise in JSON, in addresses and in shells.
fn secret(number: usize) -> String {
    format!("S3cr3t/{number:02}+\"q\"\\{number:02}=%&é-end")
}

/// Handed out one by one, so that the test knows how many there are.
struct Safe {
    variables: BTreeMap<String, String>,
}

impl Safe {
    /// A reference to the next secret.
    fn next(&mut self) -> String {
        let number = self.variables.len();
        let name = format!("PLANTED_{number}");
        self.variables.insert(name.clone(), secret(number));
        format!("${{env:{name}}}")
    }

    fn some(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// Says whatever it knows: in its output, in its errors, to stderr, and in its description.
fn shifty(safe: &mut Safe) -> Value {
    let mut server = shifty_server();
    let loud = "import os, sys; [print(k, v, file=sys.stderr) for k, v in os.environ.items()]; print(sys.argv, file=sys.stderr); sys.argv = sys.argv[1:]; exec(open(sys.argv[0]).read())";
    let script = server["args"][0].clone();
    let mut args = vec![json!("-c"), json!(loud), script];
    args.extend(safe.some(6).into_iter().map(Value::from));
    server["args"] = json!(args);
    server["env"] =
        safe.some(8).into_iter().enumerate().map(|(n, value)| (format!("OWN_{n}"), json!(value))).collect();
    server
}

fn commands(safe: &mut Safe) -> Value {
    let env = |safe: &mut Safe, count: usize| -> Value {
        safe.some(count)
            .into_iter()
            .enumerate()
            .map(|(n, value)| (format!("OWN_{n}"), json!(value)))
            .collect()
    };
    let with = |first: &[&str], safe: &mut Safe, count: usize| -> Value {
        first.iter().map(|word| (*word).to_owned()).chain(safe.some(count)).collect()
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

fn plan(safe: &Safe) -> Value {
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
            // The server answers with what its own environment and its arguments hold.
            echo("says", json!({ "env": true })),
            echo("refuses", json!({ "env": true, "fail": true })),
            echo("known", json!({ "say": { "count": known.len() } })),
        ],
    })
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// In whatever form a secret is written, its first letters stay as they are.
const MARK: &[u8] = b"S3cr3t";

#[track_caller]
fn search(place: &str, bytes: &[u8]) {
    if let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK) {
        let around = &bytes[at.saturating_sub(120)..(at + 80).min(bytes.len())];
        panic!("a secret in {place}: …{}…", String::from_utf8_lossy(around));
    }
}

/// The config and all that belongs to it; gives the secrets.
fn furnish(house: &House, safe: &mut Safe) -> Vec<String> {
    let config = json!({
        "mcpServers": {
            "shifty": shifty(safe),
            "away": {
                "url": format!("http://127.0.0.1:9/{}", safe.next()),
                "headers": { "Authorization": format!("Bearer {}", safe.next()), "X-Key": safe.next() },
            },
        },
        "http": {
            "post": {
                "url": format!("http://127.0.0.1:9/?key={}", safe.next()),
                "headers": { "X-Key": safe.next() },
                "body": { "key": safe.next() },
            },
        },
        "commands": commands(safe),
    });
    house.write("actbook.yaml", &config.to_string());
    house.write("plan.json", &plan(safe).to_string());
    let inputs = [secret(90), secret(91)];
    house.write("inputs.json", &json!({ "pass": inputs[0], "deep": { "key": inputs[1] } }).to_string());
    safe.variables.values().cloned().chain(inputs).collect()
}

/// The server's description, too, holds what it was given.
fn describe(house: &House, description: &str) {
    let tool = json!({ "name": "act", "description": description, "inputSchema": { "type": "object" } });
    say(house.folder.path(), &[tool]);
}

/// Everything that can be asked about an execution and about tools.
fn questions(id: &str) -> Vec<Vec<&str>> {
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
fn no_planted_secret_is_found_anywhere() {
    let house = House::new();
    let mut safe = Safe { variables: BTreeMap::new() };
    let secrets = furnish(&house, &mut safe);
    assert!(secrets.len() >= 50, "{}", secrets.len());
    describe(&house, &format!("Uses {} and {}", secret(0), secret(7)));
    let mut said = Vec::new();
    let mut run = |words: &[&str]| -> Ran {
        let mut command = house.command(words);
        command.envs(&safe.variables).env("RUST_LOG", "trace").env("ACTBOOK_LOG", "trace");
        let ran: Ran = command.output().unwrap().into();
        said.push((words.join(" "), format!("{}\n{}", ran.out, ran.err)));
        ran
    };
    run(&["check", "plan.json"]);
    run(&["run", "plan.json", "--inputs", "inputs.json"]);
    let id = house.newest();
    for words in questions(&id) {
        run(&words);
    }
    // A tool that changed is told apart from what it was, in words that may hold a secret.
    describe(&house, &format!("Now uses {}", secret(3)));
    assert!(run(&["run", "secrets", "--inputs", "inputs.json"]).err.contains("is not what it was"));

    // What was struck out had been there to strike out.
    let view = house.json(&["show", &id]);
    for step in view["steps"].as_array().unwrap() {
        let told = ["env", "echo", "json", "fails", "killed", "says", "refuses"];
        let struck = step.to_string().contains("[redacted]");
        assert!(struck || !told.contains(&step["id"].as_str().unwrap()), "{step:#}");
    }
    for (words, text) in &said {
        search(words, text.as_bytes());
    }
    std::fs::remove_file(house.path("inputs.json")).unwrap();
    std::fs::remove_file(house.path("tools.json")).unwrap();
    let mut left = Vec::new();
    files(house.folder.path(), &mut left);
    assert!(left.iter().any(|file| file.to_string_lossy().ends_with(".db")), "{left:?}");
    for file in left {
        search(&file.display().to_string(), &std::fs::read(&file).unwrap());
    }
}
