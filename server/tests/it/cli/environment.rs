//! The environment of a child process: basic variables, its own `env`, and what `inherit_env` names.

use super::*;
use crate::tools::pins::{changing_server, write_definitions};

/// Variables of the user's shell that no child may receive unless it inherits them.
const FOREIGN_VARIABLES: [(&str, &str); 3] = [
    ("AWS_SECRET_ACCESS_KEY", "wJalr-cloud-key"),
    ("OTHER_SERVERS_TOKEN", "other-token"),
    ("ACTBOOK_PRIVATE", "own-setting"),
];
const BASIC_VARIABLES: [(&str, &str); 9] = [
    ("LC_TIME", "C"),
    ("XDG_STATE_HOME", "/somewhere"),
    ("TZ", "UTC"),
    ("LOGNAME", "ada"),
    ("USER", "ada"),
    ("SHELL", "/bin/sh"),
    ("TERM", "xterm"),
    ("LANG", "C"),
    ("TMPDIR", "/tmp"),
];

/// The argv of a program that prints its environment as JSON.
fn printenv() -> Value {
    json!(["python3", "-c", "import json, os; print(json.dumps(dict(os.environ)))"])
}

/// A sandbox whose command and server have this `inherit_env`; `null` leaves it out.
fn sandbox_inheriting(inherit: &Value) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut server = changing_server();
    let mut command = json!({ "argv": printenv(), "env": { "OWN": "its-own" } });
    server["env"] = json!({ "OWN": "its-own" });
    if !inherit.is_null() {
        server["inherit_env"] = inherit.clone();
        command["inherit_env"] = inherit.clone();
    }
    let config = json!({ "mcpServers": { "shifty": server }, "commands": { "env": command } });
    sandbox.write("actbook.yaml", &config.to_string());
    write_definitions(
        sandbox.folder.path(),
        &[json!({ "name": "act", "inputSchema": { "type": "object" } })],
    );
    sandbox
}

/// The environments, as text, that the command and the server were started with.
fn child_environments(sandbox: &Sandbox) -> [String; 2] {
    let call = |words: &[&str]| {
        let mut command = sandbox.command(&[&["tools", "call"], words].concat());
        let ran: CliOutput = command.envs(FOREIGN_VARIABLES).envs(BASIC_VARIABLES).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{words:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    [call(&["command/env"]), call(&["shifty/act", "{\"env\":true}"])]
}

#[test]
fn child_without_inherit_env_gets_basic_and_own_variables_only() {
    for environment in child_environments(&sandbox_inheriting(&Value::Null)) {
        for (name, value) in FOREIGN_VARIABLES {
            assert!(!environment.contains(name) && !environment.contains(value), "{name}: {environment}");
        }
        for name in BASIC_VARIABLES.map(|(name, _)| name).iter().chain(&["PATH", "HOME", "OWN"]) {
            assert!(environment.contains(name), "no {name}: {environment}");
        }
    }
}

#[test]
fn inherit_env_list_passes_exactly_the_named_variables() {
    for environment in child_environments(&sandbox_inheriting(&json!(["OTHER_SERVERS_TOKEN", "NOT_SET"]))) {
        assert!(environment.contains("OTHER_SERVERS_TOKEN"), "{environment}");
        assert!(!environment.contains("AWS_SECRET_ACCESS_KEY"), "{environment}");
        assert!(!environment.contains("other-token"), "an inherited value is a secret: {environment}");
    }
}

#[test]
fn inherit_env_all_passes_everything_but_actbook_settings() {
    for environment in child_environments(&sandbox_inheriting(&json!("all"))) {
        assert!(environment.contains("AWS_SECRET_ACCESS_KEY"), "{environment}");
        assert!(!environment.contains("ACTBOOK_PRIVATE"), "{environment}");
    }
}
