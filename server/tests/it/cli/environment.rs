//! The environment of a child process: basic variables, its own `env`, and what `inherit_env` names.

use super::*;
use crate::tools::pins::{say, shifty_server};

/// Variables of the user's shell that no child may receive unless it inherits them.
const STRANGE: [(&str, &str); 3] = [
    ("AWS_SECRET_ACCESS_KEY", "wJalr-cloud-key"),
    ("OTHER_SERVERS_TOKEN", "other-token"),
    ("ACTBOOK_PRIVATE", "own-setting"),
];
const BASIC: [(&str, &str); 4] =
    [("LC_TIME", "C"), ("XDG_STATE_HOME", "/somewhere"), ("TZ", "UTC"), ("LOGNAME", "ada")];

/// The argv of a program that prints its environment as JSON.
fn printenv() -> Value {
    json!(["python3", "-c", "import json, os; print(json.dumps(dict(os.environ)))"])
}

/// A sandbox whose command and server have this `inherit_env`; `null` leaves it out.
fn house(inherit: &Value) -> House {
    let house = House::new();
    let mut server = shifty_server();
    let mut command = json!({ "argv": printenv(), "env": { "OWN": "its-own" } });
    server["env"] = json!({ "OWN": "its-own" });
    if !inherit.is_null() {
        server["inherit_env"] = inherit.clone();
        command["inherit_env"] = inherit.clone();
    }
    let config = json!({ "mcpServers": { "shifty": server }, "commands": { "env": command } });
    house.write("actbook.yaml", &config.to_string());
    say(house.folder.path(), &[json!({ "name": "act", "inputSchema": { "type": "object" } })]);
    house
}

/// The environments, as text, that the command and the server were started with.
fn seen(house: &House) -> [String; 2] {
    let call = |words: &[&str]| {
        let mut command = house.command(&[&["tools", "call"], words].concat());
        let ran: Ran = command.envs(STRANGE).envs(BASIC).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{words:?}\n{}\n{}", ran.out, ran.err);
        ran.out
    };
    [call(&["command/env"]), call(&["shifty/act", "{\"env\":true}"])]
}

#[test]
fn children_get_basic_variables_and_their_own_env_alone() {
    for environment in seen(&house(&Value::Null)) {
        for (name, value) in STRANGE {
            assert!(!environment.contains(name) && !environment.contains(value), "{name}: {environment}");
        }
        for name in BASIC.map(|(name, _)| name).iter().chain(&["PATH", "HOME", "OWN"]) {
            assert!(environment.contains(name), "no {name}: {environment}");
        }
    }
}

#[test]
fn inherited_names_reach_the_child_and_no_others() {
    for environment in seen(&house(&json!(["OTHER_SERVERS_TOKEN", "NOT_SET"]))) {
        assert!(environment.contains("OTHER_SERVERS_TOKEN"), "{environment}");
        assert!(!environment.contains("AWS_SECRET_ACCESS_KEY"), "{environment}");
        assert!(!environment.contains("other-token"), "an inherited value is a secret: {environment}");
    }
}

#[test]
fn inherit_all_passes_everything_but_our_own_settings() {
    for environment in seen(&house(&json!("all"))) {
        assert!(environment.contains("AWS_SECRET_ACCESS_KEY"), "{environment}");
        assert!(!environment.contains("ACTBOOK_PRIVATE"), "{environment}");
    }
}
