//! `actbook.yaml`: what is accepted, and the errors for what is not.

use std::time::Duration;

use actbook::config::{
    Authority, Config, ConfigTemplate, InheritEnv, McpServer, ReferenceScope, RetryConfig, TemplatePart,
};
use actbook_engine::policy::ErrorCategory;
use tempfile::tempdir;

use super::Path;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/folder")).map_err(|error| error.to_string())
}

#[test]
fn client_server_block_parses_beside_actbook_keys() {
    let config = parse(
        r#"
        mcpServers:
          files: { command: npx, args: [-y, "@scope/server", ./work], env: { PORT: 8080 }, disabled: false, autoApprove: [x] }
          web: { type: http, url: "https://x/mcp", headers: { Authorization: "Bearer ${TOKEN}" } }
          windsurf: { serverUrl: "https://y/mcp" }
        approvals: agents
        servers:
          files:
            trusted: true
            concurrency: 4
            tools:
              write_file: { timeout: 10s, idempotent: true, approval: required, retry: { max_attempts: 3, on: [timeout] } }
          command: { concurrency: 2 }
        http:
          notify: { method: POST, url: "https://z", headers: { K: "${env:KEY}" }, body: "${arguments}", input_schema: { type: object } }
        commands:
          build: { argv: [make, "${arguments.target}"], input_schema: { type: object }, cwd: ., timeout: 5m }
        "#,
    )
    .unwrap();
    assert_eq!(config.approvals, Authority::Agents);
    assert!(matches!(&config.mcp_servers["files"], McpServer::Stdio { args, .. } if args.len() == 3));
    assert!(matches!(&config.mcp_servers["windsurf"], McpServer::Http { .. }));
    assert!(config.servers["files"].trusted);
    let tool = config.tool_config("files", "write_file");
    assert_eq!((tool.timeout, tool.approval), (Some(Duration::from_secs(10)), Some(true)));
    let retry = RetryConfig {
        max_attempts: Some(3),
        on: Some([ErrorCategory::Timeout].into()),
        ..RetryConfig::default()
    };
    assert_eq!(tool.retry, Some(retry));
    assert_eq!(config.tool_config("command", "build").timeout, Some(Duration::from_secs(300)));
    assert_eq!(config.tool_config("files", "unsaid").idempotent, None);
}

#[test]
fn inherit_env_is_accepted_in_either_block_but_not_both() {
    let inherited = |text: &str| match parse(text).unwrap().mcp_servers.remove("a") {
        Some(McpServer::Stdio { inherit_env, .. }) => inherit_env,
        other => panic!("{other:?}"),
    };
    let names = InheritEnv::Names(vec!["A_B".to_owned()]);
    assert_eq!(inherited("mcpServers: { a: { command: x, inherit_env: [A_B] } }"), names);
    assert_eq!(inherited("mcpServers: { a: { command: x } }\nservers: { a: { inherit_env: [A_B] } }"), names);
    assert_eq!(inherited("mcpServers: { a: { command: x, inherit_env: all } }"), InheritEnv::All);
    for (text, expected) in [
        ("mcpServers: { a: { command: x, inherit_env: everything } }", "must be `all` or a list"),
        ("mcpServers: { a: { url: 'http://x' } }\nservers: { a: { inherit_env: all } }", "that is started"),
        (
            "mcpServers: { a: { command: x, inherit_env: all } }\nservers: { a: { inherit_env: [B] } }",
            "already",
        ),
        ("commands: { c: { argv: [x], inherit_env: [1] } }", "commands.c.inherit_env"),
        ("commands: { c: { argv: [x] } }\nservers: { command: { inherit_env: all } }", "for each command"),
    ] {
        let refused = parse(text).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn json_and_empty_configs_parse() {
    let config = parse("{\n\t\"mcpServers\": { \"a\": { \"command\": \"x\" } }\n}\n").unwrap();
    assert_eq!(config.mcp_servers.len(), 1);
    assert!(parse("").unwrap().mcp_servers.is_empty());
    assert!(parse("# nothing yet\n").unwrap().commands.is_empty());
}

#[test]
fn invalid_config_is_refused_with_its_path() {
    let cases = [
        ("aprovals: people", "`aprovals`: is not a key of the config; did you mean `approvals`?"),
        ("approvals: robots", "`approvals`: `robots` is not one of people, agents"),
        (
            "servers: { command: { trustd: true } }",
            "`servers.command.trustd`: is not a key of the config; did you mean `trusted`?",
        ),
        (
            "servers: { command: { trusted: yes } }",
            "`servers.command.trusted`: must be true or false, not text",
        ),
        (
            "servers: { command: { concurrency: 0 } }",
            "`servers.command.concurrency`: `0` is not a whole number above 0",
        ),
        (
            "mcpServers: { files: { command: x } }\nservers: { file: {} }",
            "`servers.file`: there is no such server in `mcpServers`; did you mean `files`?",
        ),
        (
            "servers: { command: { tools: { t: { timeout: 10 } } } }",
            "`servers.command.tools.t.timeout`: `10` is not a duration; write 10s",
        ),
        (
            "servers: { command: { tools: { t: { timeout: 10x } } } }",
            "`servers.command.tools.t.timeout`: `10x` is not a duration; write 250ms, 30s, 5m or 2h",
        ),
        (
            "servers: { command: { tools: { t: { retry: { on: [often] } } } } }",
            "`servers.command.tools.t.retry.on`: unknown variant `often`",
        ),
        ("mcpServers: { a: {} }", "`mcpServers.a`: needs a `command` or a `url`"),
        ("mcpServers: { a: { command: x, url: y } }", "`mcpServers.a`: has both `command` and `url`"),
        ("mcpServers: { a: { command: x, args: y } }", "`mcpServers.a.args`: must be a list, not text"),
        (
            "mcpServers: { command: { command: x } }",
            "`mcpServers.command`: `command` is the name of Actbook's own command tools",
        ),
        (
            "mcpServers: { a/b: { command: x } }",
            "`mcpServers.a/b`: a server's name is not empty and has no `/`",
        ),
        ("mcpServers: [a]", "`mcpServers`: must be a mapping, not a list"),
        ("commands: { a: {} }", "`commands.a.argv`: needs at least the program"),
        (
            "commands: { a: { argv: ['${arguments.x}'] } }",
            "`commands.a.argv[0]`: the program may not come from the arguments",
        ),
        ("commands: { a: { argv: [x, '${HOME}'] } }", "`commands.a.argv[1]`: `${HOME}` is unknown here"),
        (
            "commands: { a: { argv: [x, '${arguments.'] } }",
            "`commands.a.argv[1]`: `${arguments.` opens `${` and never closes it",
        ),
        (
            "commands: { a: { argv: [x, '${arguments..y}'] } }",
            "`commands.a.argv[1]`: `${arguments..y}` has an empty name in it",
        ),
        ("commands: { a: { argv: [x], input_schema: { type: objekt } } }", "`commands.a.input_schema`: "),
        ("just text", "`config`: must be a mapping, not text"),
    ];
    assert_refused(&cases);
    parse("a: [").unwrap_err();
    parse("approvals: people\napprovals: agents").unwrap_err();
}

#[track_caller]
fn assert_refused(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let refused = parse(text).unwrap_err();
        assert!(refused.starts_with(expected), "{text}\n  expected {expected}\n  got      {refused}");
    }
}

#[test]
fn invalid_http_config_is_refused_with_its_path() {
    assert_refused(&[
        ("http: { a: {} }", "`http.a.url`: is missing"),
        ("http: { a: { url: x, method: BREW } }", "`http.a.method`: `BREW` is not one of GET, HEAD, POST"),
        ("http: { a: { url: x, body: { b: ['${c}'] } } }", "`http.a.body`: `${c}` is unknown here"),
        ("egress: { allow: ['*.corp'] }", "`egress.allow`: `*.corp` is neither a host nor host:port"),
        ("egress: { allow: ['http://x'] }", "`egress.allow`: `http://x` is neither a host nor host:port"),
        ("egress: { allow: x }", "`egress.allow`: must be a list of texts"),
        ("egress: { deny: [x] }", "`egress.deny`: is not a key of the config"),
    ]);
    let config = parse("egress: { allow: [wiki.corp, '10.0.0.7:8080', '[::1]:1'] }").unwrap();
    assert_eq!(config.egress_allow.len(), 3);
}

#[test]
fn loaded_config_resolves_paths_from_its_folder() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, "mcpServers: { a: { command: x } }").unwrap();
    let config = Config::load(&file).unwrap();
    assert_eq!((config.folder.as_path(), config.file.as_deref()), (folder.path(), Some(file.as_path())));

    std::fs::write(&file, "nonsense: 1").unwrap();
    let refused = Config::load(&file).unwrap_err().to_string();
    assert!(refused.contains("mine.yaml") && refused.contains("`nonsense`"), "{refused}");
    Config::load(&folder.path().join("none.yaml")).unwrap_err();
}

proptest::proptest! {
    /// Any text is accepted or refused without a panic; a template without references is its own text.
    #[test]
    fn any_config_text_parses_or_is_refused(text in r#"[\[\]{}:,$a-z0-9 \n"'&*-]{0,80}|\PC{0,40}"#) {
        drop(parse(&text));
        drop(parse(&format!("commands: {{ a: {{ argv: [x, {text}] }} }}")));
        for scope in [ReferenceScope::Client, ReferenceScope::Environment, ReferenceScope::Call] {
            match ConfigTemplate::parse(&text, scope) {
                Ok(template) if !text.contains("${") => {
                    let expected: Vec<TemplatePart> = (!text.is_empty()).then(|| TemplatePart::Text(text.clone())).into_iter().collect();
                    proptest::prop_assert_eq!(template.parts, expected);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}
