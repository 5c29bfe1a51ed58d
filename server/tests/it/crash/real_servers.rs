//! One plan over five third-party servers from npm and PyPI, of both protocol versions, over stdio and HTTP;
//! and one server without tool annotations, whose tools are treated as unsafe.

use std::process::Command;

use serde_json::{Value, json};

use super::fixture::CliFixture;
use crate::reference_servers::{HttpServerProcess, npm_script, pypi_program};
use crate::store::Kind;

fn git(fixture: &CliFixture, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(fixture.path("work")).args([
        "-c",
        "user.name=ada",
        "-c",
        "user.email=ada@localhost",
    ]);
    let output = command.args(args).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn plan() -> Value {
    let at = |name: &str| format!("${{inputs.folder}}/{name}");
    let repository = "${inputs.folder}";
    let observed =
        json!({ "name": "note", "entityType": "commit", "observations": ["${steps.commit.output.text}"] });
    let seen = "${steps.remember.output.entities[0].observations[0]}";
    json!({
        "name": "five",
        "inputs": { "type": "object", "properties": { "folder": { "type": "string" } }, "required": ["folder"] },
        "steps": [
            { "id": "now", "tool": "time/get_current_time", "arguments": { "timezone": "UTC" }, "read_only": true },
            { "id": "write", "tool": "files/write_file",
              "arguments": { "path": at("note.md"), "content": "noted ${steps.now.output.datetime}\n" } },
            { "id": "stage", "tool": "git/git_add", "depends_on": ["write"],
              "arguments": { "repo_path": repository, "files": ["note.md"] } },
            { "id": "commit", "tool": "git/git_commit", "depends_on": ["stage"],
              "arguments": { "repo_path": repository, "message": "Note of ${steps.now.output.day_of_week}" } },
            { "id": "remember", "tool": "memory/create_entities", "arguments": { "entities": [observed] } },
            { "id": "say", "tool": "all/echo", "arguments": { "message": seen }, "read_only": true },
            { "id": "keep", "tool": "files/write_file",
              "arguments": { "path": at("said.md"), "content": "${steps.say.output.text}" } },
        ],
    })
}

#[test]
fn plan_passes_values_across_five_real_servers() {
    let everything = HttpServerProcess::everything();
    let remember = "MEMORY_FILE_PATH=$PWD/work/memory.jsonl exec node \"$0\"";
    let config = json!({ "mcpServers": {
        "files": { "command": "node", "args": [npm_script("server-filesystem"), "work"] },
        "memory": { "command": "sh", "args": ["-c", remember, npm_script("server-memory")] },
        "all": { "url": everything.url },
        "git": { "command": pypi_program("servers/bin/mcp-server-git") },
        "time": { "command": pypi_program("servers/bin/mcp-server-time") },
    }});
    let fixture = CliFixture::new(Kind::Sqlite, &config);
    std::fs::write(fixture.path("plan.json"), plan().to_string()).unwrap();
    git(&fixture, &["init", "--quiet"]);
    git(&fixture, &["config", "user.name", "ada"]);
    git(&fixture, &["config", "user.email", "ada@localhost"]);
    let folder = format!("folder={}", fixture.path("work").canonicalize().unwrap().display());
    let output = fixture.run(&["run", "plan.json", "--input", &folder]);
    assert_eq!((output.code, output.status()), (Some(0), "succeeded"), "{output:?}");

    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let kept = std::fs::read_to_string(fixture.path("work/said.md")).unwrap();
    assert_eq!(kept.trim(), format!("Echo: Changes committed successfully with hash {}", head.trim()));
    assert!(git(&fixture, &["show", "HEAD:note.md"]).starts_with("noted 20"));
    assert!(git(&fixture, &["log", "-1", "--format=%s"]).trim().ends_with("day"));
    assert!(std::fs::read_to_string(fixture.path("work/memory.jsonl")).unwrap().contains(head.trim()));

    let doctor = fixture.run(&["doctor"]).json.to_string();
    for era in ["protocol 2025-11-25", "protocol 2026-07-28"] {
        assert!(doctor.contains(era), "{era} in {doctor}");
    }
    let listed = fixture.run(&["tools", "list", "time"]).json;
    assert_eq!(listed[0]["seen"]["calls"], 1, "{listed}");
    assert_eq!(listed[0]["tools"][0]["seen"]["calls"], 1, "{listed}");
    let shown = fixture.run(&["tools", "show", "git/git_commit"]).json;
    assert_eq!((&shown["seen"]["calls"], &shown["seen"]["succeeded"]), (&json!(1), &json!(1)), "{shown}");
    fixture.assert_verifies();
}

#[test]
fn unannotated_tools_are_treated_as_unsafe() {
    let server = json!({ "command": pypi_program("sqlite/bin/mcp-server-sqlite"), "args": ["--db-path", "work/book.db"] });
    let fixture = CliFixture::new(
        Kind::Sqlite,
        &json!({ "mcpServers": { "sqlite": server }, "servers": { "sqlite": { "trusted": true } } }),
    );
    let shown = fixture.run(&["tools", "show", "sqlite/write_query"]).json;
    assert!(shown["annotations"].as_object().unwrap().values().all(Value::is_null), "{shown}");
    // Runs far longer than the step's time-out, so its outcome is unknown.
    let counting = "INSERT INTO t WITH RECURSIVE c(x) AS \
                    (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000000000) SELECT count(*) FROM c";
    let retry = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["timeout", "unavailable"] });
    let plan = json!({ "name": "unsafe", "steps": [
        { "id": "table", "tool": "sqlite/create_table", "arguments": { "query": "CREATE TABLE t (a INTEGER)" },
          "compensation": { "action": "drop it" } },
        { "id": "slow", "tool": "sqlite/write_query", "arguments": { "query": counting }, "timeout": "3s",
          "retry": retry },
    ]});
    std::fs::write(fixture.path("plan.json"), plan.to_string()).unwrap();
    let checked = fixture.run(&["check", "plan.json"]).json;
    assert_eq!(checked["point_of_no_return"], "slow", "{checked}");
    let output = fixture.run(&["run", "plan.json"]);
    assert_eq!((output.code, output.status()), (Some(3), "blocked"), "{output:?}");
    let slow = &output.json["steps"][1];
    assert_eq!(
        (&slow["status"], &slow["attempts"]),
        (&json!("unknown"), &json!(1)),
        "not sent again: {slow}"
    );
    assert_eq!(slow["error"]["category"], "timeout");
    assert_eq!(output.json["waiting"][0]["for"], "decision");
    let seen = fixture.run(&["tools", "show", "sqlite/write_query"]).json;
    assert_eq!(seen["seen"]["unknown"], json!({ "timeout": 1 }), "{seen}");
}
