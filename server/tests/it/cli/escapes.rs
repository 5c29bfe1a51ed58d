//! Control characters in untrusted text: no command prints them raw, neither on a terminal nor in a pipe;
//! `--json` keeps them exactly.

use super::terminal::without_own_sequences;
use super::*;

/// Terminal escapes and a forged line; must equal `PAYLOAD` in `escapes.py`.
const PAYLOAD: &str = "\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{1b}[31m\r\u{8}\u{7f}\u{9b}2J\u{9d}0;t\u{9c}\u{202e}\u{2066}evil\nNext: actbook approve";

/// A sandbox whose server and command return the payload in every text.
fn hostile_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/escapes.py");
    let fails = format!("printf '%s' '{PAYLOAD}' >&2; exit 1");
    sandbox.write_config(json!({
        "mcpServers": { "evil": { "command": "python3", "args": ["-I", "-S", server] } },
        "commands": { "fails": { "argv": ["sh", "-c", fails] } },
    }));
    sandbox
}

/// The control characters (except the line feed) and bidirectional marks in this text.
fn raw_controls(text: &str) -> Vec<char> {
    let acts = |c: &char| {
        c.is_control() && *c != '\n'
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(acts).collect()
}

/// Runs the command in a pipe; its output must contain neither control characters nor a line of the payload.
#[track_caller]
fn check_pipe(sandbox: &Sandbox, words: &[&str]) -> CliOutput {
    let ran = sandbox.run(words);
    let (out, err) = (raw_controls(&ran.stdout), raw_controls(&ran.stderr));
    assert!(out.is_empty() && err.is_empty(), "{words:?}: {out:?} {err:?}\n{}\n{}", ran.stdout, ran.stderr);
    for line in ran.stdout.lines().chain(ran.stderr.lines()) {
        assert!(
            !line.starts_with("Next: actbook"),
            "{words:?} prints a line of the payload as its own: {line}"
        );
    }
    assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
    ran
}

/// Runs the command on a terminal; apart from Actbook's own sequences nothing may be a control character.
#[track_caller]
fn check_terminal(sandbox: &Sandbox, words: &[&str]) {
    let (_, shown) = sandbox.terminal(words).wait_for_exit();
    let left = without_own_sequences(&shown);
    assert!(raw_controls(&left).is_empty(), "{words:?}: {:?}\n{left:?}", raw_controls(&left));
}

/// A plan with the payload in every text field.
fn plan(name: &str, steps: Value) -> String {
    json!({
        "name": name, "description": PAYLOAD, "reasoning": PAYLOAD, "task": format!("T{PAYLOAD}"),
        "inputs": { "type": "object", "properties": { "x": { "type": "string", "description": PAYLOAD } } },
        "policy": { "on_failure": "manual" }, "steps": steps,
    })
    .to_string()
}

/// Checks every command that prints executions, plans, notes, tasks or the journal.
fn check_every_command(sandbox: &Sandbox, id: &str) {
    let words: &[&[&str]] = &[
        &["list"],
        &["show", id],
        &["watch", id],
        &["undo", id, "--dry-run"],
        &["journal"],
        &["journal", "--search", "evil"],
        &["stats"],
        &["verify"],
        &["export", id],
        &["plan", "list"],
        &["plan", "show", "evil-plan"],
        &["plan", "graph", "evil-plan"],
        &["plan", "graph", "evil-plan", "--format", "svg"],
        &["check", "evil.json"],
        &["tools", "list"],
        &["tools", "show", "evil/give"],
        &["tools", "call", "evil/give"],
        &["tools", "call", "evil/fail"],
        &["doctor"],
        &["context", "get", "evil-note"],
        &["context", "get", "evil-note", "--history"],
        &["context", "search", "evil"],
        &["task", "list"],
        &["task", "show", "T-1"],
        &["template", "list"],
    ];
    for words in words {
        if words[0] != "export" {
            check_pipe(sandbox, words);
        }
        check_terminal(sandbox, words);
        let json = sandbox.run(&[words, &["--json"][..]].concat());
        if words[0] != "export" {
            for line in json.stdout.lines().filter(|line| line.starts_with('{') && line.ends_with('}')) {
                serde_json::from_str::<Value>(line)
                    .unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"));
            }
        }
    }
}

#[test]
fn no_command_prints_untrusted_control_characters() {
    let sandbox = hostile_sandbox();
    let steps = json!([
        { "id": "give", "tool": "evil/give", "arguments": { "x": PAYLOAD }, "read_only": true },
        { "id": "fail", "tool": "evil/fail", "arguments": { "x": "${inputs.x}" }, "compensation": { "action": PAYLOAD } },
        { "id": "rest", "action": format!("Do {PAYLOAD}"), "depends_on": ["fail"] },
    ]);
    sandbox.write("evil.json", &plan("evil-plan", steps));
    let ran = check_pipe(&sandbox, &["run", "evil.json", "--input", &format!("x={PAYLOAD}")]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    let id = sandbox.newest();
    check_pipe(&sandbox, &["context", "set", "evil-note", PAYLOAD, "--type", "facts"]);
    check_pipe(&sandbox, &["task", "add", "T-1", "--title", PAYLOAD]);
    check_pipe(
        &sandbox,
        &["decide", &id, "fail", "skip", "--reason", PAYLOAD, "--output", &json!(PAYLOAD).to_string()],
    );
    check_every_command(&sandbox, &id);

    let view = sandbox.json(&["show", &id]);
    assert_eq!(step(&view, "give")["arguments"]["x"], PAYLOAD, "--json is exact");
    let raw = sandbox.run(&["show", &id, "--json"]).stdout;
    assert!(raw.contains('\u{9b}') && raw.contains('\u{202e}'), "JSON in a pipe keeps the bytes");
}

#[test]
fn errors_print_no_argument_control_characters() {
    let sandbox = hostile_sandbox();
    for words in [
        vec!["show", PAYLOAD],
        vec!["run", PAYLOAD],
        vec!["check", "/nowhere/\u{1b}[2J.yaml"],
        vec!["tools", "show", PAYLOAD],
        vec!["journal", "--kind", PAYLOAD],
        vec!["list", "--status", PAYLOAD],
        vec![PAYLOAD],
        vec!["context", "get", PAYLOAD],
        vec!["task", "show", PAYLOAD],
        vec!["decide", "x", "y", PAYLOAD, "--reason", "r"],
        vec!["--config", PAYLOAD, "list"],
        vec!["--database", PAYLOAD, "list"],
    ] {
        let ran = check_pipe(&sandbox, &words);
        assert_ne!(ran.code, Some(0), "{words:?}");
        check_terminal(&sandbox, &words);
    }
    for name in [PAYLOAD, "two\nlines"] {
        sandbox.write("named.json", &plan(name, json!([{ "id": "a", "name": PAYLOAD, "action": "rest" }])));
        check_pipe(&sandbox, &["check", "named.json", "--offline"]);
        check_pipe(&sandbox, &["run", "named.json"]);
        check_pipe(&sandbox, &["list"]);
        check_terminal(&sandbox, &["list"]);
    }
}

#[test]
fn tool_progress_and_logs_are_escaped_in_the_live_view() {
    let sandbox = hostile_sandbox();
    sandbox.write(
        "crawl.json",
        &plan("crawl", json!([{ "id": "crawl", "tool": "evil/crawl", "arguments": {} }])),
    );
    let mut terminal = sandbox.terminal_with(&["run", "crawl.json"], &[("ACTBOOK_LOG", "debug")]);
    terminal.wait_for("50 %");
    sandbox.release();
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{shown}");
    let left = without_own_sequences(&shown);
    assert!(left.contains("\\u{1b}]52"), "{left}");
    assert!(raw_controls(&left).is_empty(), "{:?}\n{left:?}", raw_controls(&left));
}

#[test]
fn approval_prompt_shows_no_argument_control_characters() {
    let sandbox = hostile_sandbox();
    let step =
        json!({ "id": "give", "tool": "evil/give", "arguments": { "x": PAYLOAD }, "approval": "required" });
    sandbox.write("gated.json", &plan("gated", json!([step])));
    let mut terminal = sandbox.terminal(&["run", "gated.json"]);
    terminal.wait_for("evil/give with these arguments");
    terminal.wait_for("[y: yes, n: no");
    terminal.type_keys("\n");
    let (_, shown) = terminal.wait_for_exit();
    let left = without_own_sequences(&shown);
    assert!(raw_controls(&left).is_empty(), "{:?}\n{left:?}", raw_controls(&left));
    let id = sandbox.newest();
    check_pipe(&sandbox, &["show", &id]);
    check_pipe(&sandbox, &["show", &id, "give"]);
    check_terminal(&sandbox, &["show", &id, "give"]);
}
