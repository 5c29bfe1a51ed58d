//! Actbook's own commands in an agent's shell: those that are a person's word are denied by `protect-agent-config`. Each
//! command of the command line is in one of the lists here, so that a new one is not forgotten.

use actbook::config::Config;
use actbook::guard::test_policy;
use actbook_engine::rules::RuleEffect;

use super::*;

/// Commands that answer, trust, act in a person's name, or start what does.
const PERSONS: [&str; 25] = [
    "approve",
    "cancel",
    "cleanup",
    "decide",
    "drive",
    "hook",
    "install",
    "mcp",
    "open",
    "record",
    "reject",
    "resume",
    "serve",
    "session clear-label",
    "token create",
    "token list",
    "token revoke",
    "token rotate",
    "tools accept",
    "tools call",
    "tools import",
    "trust",
    "undo",
    "uninstall",
    "--json approve",
];
/// Commands that start, change or report a plan: they are asked about.
const ASKED: [&str; 20] = [
    "context delete",
    "context get",
    "context search",
    "context set",
    "plan delete",
    "plan save",
    "rerun",
    "run",
    "task add",
    "task done",
    "task list",
    "task set",
    "task show",
    "task split",
    "template delete",
    "template from",
    "template list",
    "template save",
    "template show",
    "template use",
];
/// Commands that only read, or write what is nobody's word.
const FREE: [&str; 25] = [
    "backup",
    "check",
    "completions",
    "demo",
    "demo-tools",
    "doctor",
    "export",
    "help",
    "journal",
    "list",
    "man",
    "pause",
    "plan diff",
    "plan graph",
    "plan list",
    "plan show",
    "policy replay",
    "policy test",
    "rebuild",
    "show",
    "stats",
    "tools list",
    "tools show",
    "verify",
    "watch",
];
/// Options by which a command is a person's word.
const PERSONS_OPTIONS: [&str; 2] = ["--yes", "--everywhere"];

fn verdict(config: &Config, command: &str) -> RuleEffect {
    let document = json!({ "call": { "tool": "client/shell", "arguments": { "command": command } } });
    test_policy(config, serde_json::from_value(document).unwrap()).judgement.verdict
}

/// The names of the commands that a help text lists, and whether it has one of the options.
fn listed(help: &str) -> Vec<String> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| line.starts_with("  "));
    let names =
        commands.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn commands_that_are_a_persons_word_are_denied() {
    let rules = json!({ "guard": { "use": ["protect-agent-config"] } });
    let config = Config::parse(&rules.to_string(), std::path::Path::new("/srv")).unwrap();
    let sandbox = Sandbox::new();
    let mut known: Vec<String> = Vec::new();
    for command in listed(&sandbox.expect(0, &["--help"])) {
        let inner = listed(&sandbox.expect(0, &[&command, "--help"]));
        known.extend(inner.iter().map(|inner| format!("{command} {inner}")));
        known.extend(inner.is_empty().then_some(command));
    }
    assert!(known.len() > 40, "{known:?}");
    for command in &known {
        let lists = [&PERSONS[..], &ASKED, &FREE].map(|list| list.contains(&command.as_str()));
        assert_eq!(lists.iter().filter(|is_in| **is_in).count(), 1, "`{command}` is in one list");
        let help =
            sandbox.expect(0, &[command.split(' ').collect::<Vec<_>>().as_slice(), &["--help"]].concat());
        for option in PERSONS_OPTIONS.into_iter().filter(|option| help.contains(&format!(" {option}"))) {
            assert_eq!(
                verdict(&config, &format!("actbook {command} x {option}")),
                RuleEffect::Deny,
                "{command} {option}"
            );
        }
    }
    for (commands, expected) in
        [(&PERSONS[..], RuleEffect::Deny), (&ASKED, RuleEffect::Ask), (&FREE, RuleEffect::Allow)]
    {
        for command in commands {
            for spelling in ["actbook", "cd x && /usr/bin/actbook", "actbook --json"] {
                assert_eq!(
                    verdict(&config, &format!("{spelling} {command} x")),
                    expected,
                    "{spelling} {command}"
                );
            }
        }
    }
    for command in [
        "actbook tools --json call files/x {}",
        "actbook run p.yaml --input a=b --yes",
        "actbook list && x --yes",
    ] {
        let is_ours = !command.contains("&&");
        assert_eq!(verdict(&config, command) == RuleEffect::Deny, is_ours, "{command}");
    }
}
