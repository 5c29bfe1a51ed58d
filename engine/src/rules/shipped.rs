//! Rule sets that are switched on by name. They are data: what a user could write. What none of them stops is an agent
//! with a free shell on the same account; patterns over shell commands are tripwires.

use serde::{Deserialize, Serialize};

use super::{Rule, RuleEffect};
use crate::policy::string_enum;

string_enum!(
    /// A rule set that ships with Actbook, by the name that `use` takes.
    ShippedRuleSet {
        Trifecta = "trifecta",
        StayInFolder = "stay-in-folder",
        NoSecretsOut = "no-secrets-out",
        ProtectAgentConfig = "protect-agent-config",
        ChangedTools = "changed-tools",
    }
);

/// A rule as it ships.
struct ShippedRule {
    name: &'static str,
    when: &'static str,
    then: RuleEffect,
    say: &'static str,
}

const TRIFECTA: &[ShippedRule] = &[ShippedRule {
    name: "trifecta",
    when: r#""private" in session.labels && "untrusted" in session.labels && "egress" in tool.labels"#,
    then: RuleEffect::Deny,
    say: "untrusted text and private data are in this session; ask a person to send it",
}];

const STAY_IN_FOLDER: &[ShippedRule] = &[
    ShippedRule {
        name: "stay-in-folder",
        when: r#"!call.read_only && call.paths.exists(path, path != session.folder && !path.startsWith(session.folder + "/"))"#,
        then: RuleEffect::Deny,
        say: "the call writes outside the session's folder",
    },
    ShippedRule {
        name: "stay-in-folder-reads",
        when: r#"call.read_only && call.paths.exists(path, path != session.folder && !path.startsWith(session.folder + "/"))"#,
        then: RuleEffect::Ask,
        say: "the call reads outside the session's folder",
    },
];

const NO_SECRETS_OUT: &[ShippedRule] = &[
    ShippedRule {
        name: "no-secrets-out",
        when: r#"("egress" in tool.labels || call.tool in ["client/fetch", "client/shell"]) && json(call.arguments).matches("AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{30}|xox[abprs]-[0-9A-Za-z-]{10}|sk-[A-Za-z0-9_-]{20}|-----BEGIN [A-Z ]*PRIVATE KEY-----")"#,
        then: RuleEffect::Deny,
        say: "the arguments hold what looks like a key or a token",
    },
    ShippedRule {
        name: "secret-files",
        when: r#"call.paths.exists(path, path.matches("(^|/)(\\.env(\\.[^/]*)?|\\.netrc|\\.pgpass|\\.npmrc|\\.pypirc|id_(rsa|dsa|ecdsa|ed25519)|credentials|[^/]*\\.(pem|key|p12|pfx))$|/(\\.ssh|\\.gnupg|\\.aws|\\.kube)/"))"#,
        then: RuleEffect::Ask,
        say: "the call touches a file that usually holds secrets",
    },
    ShippedRule {
        name: "secret-files-in-shell",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("(^|[^A-Za-z0-9_])(\\.env($|[^A-Za-z0-9_])|\\.netrc|\\.pgpass|id_(rsa|dsa|ecdsa|ed25519)|\\.ssh|\\.gnupg|\\.aws|\\.kube|printenv)")"#,
        then: RuleEffect::Ask,
        say: "the command names a file that usually holds secrets",
    },
];

const PROTECT_AGENT_CONFIG: &[ShippedRule] = &[
    ShippedRule {
        name: "protect-agent-config",
        when: r#"!call.read_only && call.paths.exists(path, path.matches("/(\\.claude|\\.cursor|\\.codex|\\.gemini|\\.copilot|\\.github/hooks|\\.git/hooks|\\.config/actbook|\\.local/share/actbook)(/|$)|/\\.git/config$|/(actbook\\.ya?ml|\\.claude\\.json|\\.mcp\\.json|mcp\\.json|hooks\\.json)$"))"#,
        then: RuleEffect::Deny,
        say: "the call changes the configuration of an agent or of Actbook",
    },
    ShippedRule {
        name: "no-self-approval",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("(^|[^A-Za-z0-9_.-])actbook(\\.exe)?[\"']?\\s+(--?[a-z-]+(=\\S+|\\s+\\S+)?\\s+)*(approve|reject|decide|trust|session|uninstall|install|token|open|serve|mcp|hook|resume|undo|cancel|cleanup|tools\\s+accept)($|[^A-Za-z0-9_-])")"#,
        then: RuleEffect::Deny,
        say: "the command answers Actbook's own questions or changes its settings; a person does that",
    },
    ShippedRule {
        name: "agent-config-in-shell",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("\\.claude/|\\.cursor/|\\.codex/|\\.gemini/|\\.git/hooks|\\.github/hooks|actbook\\.ya?ml|\\.mcp\\.json|hooks\\.json|settings(\\.local)?\\.json")"#,
        then: RuleEffect::Ask,
        say: "the command names the configuration of an agent or of Actbook",
    },
];

const CHANGED_TOOLS: &[ShippedRule] = &[
    ShippedRule {
        name: "changed-tools",
        when: r#"tool.pin == "changed""#,
        then: RuleEffect::Deny,
        say: "the tool's definition has changed since it was accepted",
    },
    ShippedRule {
        name: "new-tools",
        when: r#"tool.pin == "new""#,
        then: RuleEffect::Ask,
        say: "nobody has accepted this tool yet",
    },
];

impl ShippedRuleSet {
    /// The rules of this set, compiled.
    pub fn rules(self) -> Vec<Rule> {
        let shipped = match self {
            Self::Trifecta => TRIFECTA,
            Self::StayInFolder => STAY_IN_FOLDER,
            Self::NoSecretsOut => NO_SECRETS_OUT,
            Self::ProtectAgentConfig => PROTECT_AGENT_CONFIG,
            Self::ChangedTools => CHANGED_TOOLS,
        };
        let compile = |rule: &ShippedRule| {
            Rule::parse(rule.name, rule.when, rule.then, Some(rule.say)).expect("a shipped rule compiles")
        };
        shipped.iter().map(compile).collect()
    }
}
