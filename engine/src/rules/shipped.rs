//! Rule sets that are switched on by name. They are data: what a user could write. What none of them stops is an agent
//! with a free shell on the same account; patterns over shell commands are tripwires.

use serde::{Deserialize, Serialize};

use super::{Rule, RuleEffect};
use crate::bind::{ExpressionVocabulary, with_large_stack};
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

const TRIFECTA: &[ShippedRule] = &[
    ShippedRule {
        name: "trifecta",
        when: r#""private" in session.labels && "untrusted" in session.labels && "egress" in tool.labels"#,
        then: RuleEffect::Deny,
        say: "untrusted text and private data are in this session; ask a person to send it",
    },
    ShippedRule {
        name: "send-after-untrusted",
        when: r#""untrusted" in session.labels && "egress" in tool.labels && call.server != "client""#,
        then: RuleEffect::Ask,
        say: "untrusted text is in this session, and the call sends something out",
    },
    ShippedRule {
        name: "shell-send-after-untrusted",
        when: r#""untrusted" in session.labels && call.tool == "client/shell" && call.arguments.command.matches("(^|[^A-Za-z0-9_.-])(curl|wget|nc|ncat|netcat|socat|telnet|ftp|sftp|scp|rsync|ssh|rclone|aws|gsutil|gcloud|az|gh|glab|mail|mailx|mutt|sendmail|msmtp|swaks|openssl|dig|nslookup|ping|base64|xxd|crontab|twine|eval)($|[^A-Za-z0-9_-])|git\\s.*(push|remote|send-email|submodule)|(npm|yarn|pnpm|cargo|gem)\\s+(publish|push|login)|docker\\s+(push|login|run)|(python[0-9.]*|node|deno|bun|perl|ruby|php|lua|pwsh|powershell|osascript)\\s+(-[A-Za-z]*[cer]\\b|--eval|eval|-($|\\s)|<)|/dev/(tcp|udp)/|\\|\\s*(ba|z|da|k)?sh\\b|https?://")"#,
        then: RuleEffect::Ask,
        say: "untrusted text is in this session, and the command can send something out or run what it holds",
    },
    ShippedRule {
        name: "fetch-after-untrusted",
        when: r#""untrusted" in session.labels && call.tool == "client/fetch" && json(call.arguments).matches("https?://([^/\\s\"]{60,}|[^\\s\"]*[?#=][^\\s\"]{40,}|[^\\s\"]*/[A-Za-z0-9_+%-]{60,})")"#,
        then: RuleEffect::Ask,
        say: "untrusted text is in this session, and the address is long enough to carry data out",
    },
];

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
        when: r#"call.paths.exists(path, path.matches("(^|/)(\\.env([.*?\\[{][^/]*)?|\\.netrc|\\.pgpass|\\.npmrc|\\.pypirc|id_(rsa|dsa|ecdsa|ed25519)|credentials|[^/]*\\.(pem|key|p12|pfx))$|/(\\.ssh|\\.gnupg|\\.aws|\\.kube)(/|$)"))"#,
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
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("(^|[^A-Za-z0-9_.-])actbook(\\.exe)?[\"']?\\s+(--?[a-z-]+(=\\S+|\\s+\\S+)?\\s+)*(approve|reject|decide|record|trust|session|uninstall|install|token|open|serve|drive|mcp|hook|resume|undo|cancel|cleanup|tools\\s+(--?[a-z-]+(=\\S+|\\s+\\S+)?\\s+)*(accept|call|import))($|[^A-Za-z0-9_-])|(^|[^A-Za-z0-9_.-])actbook(\\.exe)?[\"']?\\s[^|&;\\n]*--(yes|everywhere)($|[^A-Za-z0-9_-])")"#,
        then: RuleEffect::Deny,
        say: "the command answers Actbook's own questions or changes its settings; a person does that",
    },
    ShippedRule {
        name: "no-way-around-approval",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("actbook\\.db|\\.local/share/actbook|\\.config/actbook|(127\\.0\\.0\\.1|localhost|\\[::1\\]|0\\.0\\.0\\.0):4700|ACTBOOK_[A-Z]+=")"#,
        then: RuleEffect::Deny,
        say: "the command reaches for Actbook's data, its server or its settings; a person does that",
    },
    ShippedRule {
        name: "plans-in-shell",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("actbook\\s+(\\S+\\s+)*(plan\\s+(save|delete)|template|task|run|rerun|record|context)($|\\s)")"#,
        then: RuleEffect::Ask,
        say: "the command starts, changes or reports a plan",
    },
    ShippedRule {
        name: "ci-config",
        when: r#"!call.read_only && call.paths.exists(path, path.matches("/\\.github/(workflows|actions)/|/\\.gitlab-ci\\.ya?ml$|/\\.circleci/|/\\.buildkite/|/\\.woodpecker|/\\.husky/|/\\.devcontainer/|/Jenkinsfile$|/(azure|bitbucket)-pipelines\\.ya?ml$|/\\.(travis|drone|pre-commit-config)\\.ya?ml$|/\\.vscode/(tasks|settings|launch)\\.json$|/\\.envrc$|/\\.cargo/config"))"#,
        then: RuleEffect::Ask,
        say: "the call changes what a build server or an editor runs by itself",
    },
    ShippedRule {
        name: "ci-config-in-shell",
        when: r#"call.tool == "client/shell" && call.arguments.command.matches("\\.github/(workflows|actions)|\\.gitlab-ci|\\.circleci|\\.buildkite|\\.woodpecker|\\.husky|\\.devcontainer|Jenkinsfile|(azure|bitbucket)-pipelines|\\.travis\\.y|pre-commit-config|\\.vscode/|\\.envrc|\\.cargo/config")"#,
        then: RuleEffect::Ask,
        say: "the command names what a build server or an editor runs by itself",
    },
    ShippedRule {
        name: "build-files-after-untrusted",
        when: r#""untrusted" in session.labels && !call.read_only && call.paths.exists(path, path.matches("/(package\\.json|setup\\.py|build\\.rs|conftest\\.py|Makefile|justfile|Dockerfile|docker-compose\\.ya?ml|Gemfile|pyproject\\.toml)$"))"#,
        then: RuleEffect::Ask,
        say: "untrusted text is in this session, and the call changes what the next build runs",
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
            let vocabulary = ExpressionVocabulary::ShippedRule;
            Rule::parse_in(rule.name, rule.when, rule.then, Some(rule.say), vocabulary)
                .expect("a shipped rule compiles")
        };
        // Once for all rules of the set: otherwise each parser would run on a thread of its own.
        with_large_stack(|| shipped.iter().map(compile).collect())
    }
}
