//! Commands on a pseudo-terminal made by `script`, typed input, and the resulting screen.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;
use crate::crash::direct_sql::DirectSql;
use crate::crash::freeze;
use crate::waiting::wait_until;

/// A command that runs on its own pseudo-terminal.
pub struct Terminal {
    child: Child,
    keyboard: Box<dyn Write>,
    output: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// The bytes of output that earlier waits have consumed.
    matched_to: usize,
}

impl Sandbox {
    pub fn terminal(&self, words: &[&str]) -> Terminal {
        self.terminal_with(words, &[])
    }

    /// The same, on a terminal of 80 columns.
    pub fn narrow_terminal(&self, words: &[&str]) -> Terminal {
        self.terminal_after("stty cols 80 rows 24; ", words, &[])
    }

    /// The same, with variables in its environment.
    pub fn terminal_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Terminal {
        self.terminal_after("", words, variables)
    }

    /// The same, after a command of the shell.
    fn terminal_after(&self, first: &str, words: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let inner = self.command(words);
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let line: Vec<String> =
            std::iter::once(inner.get_program()).chain(inner.get_args()).map(quoted).collect();
        let mut command = Command::new("script");
        // `exec`: a shell that stays in between gets Ctrl-C too, and reports 130 whatever the program returns.
        let line = format!("{first}exec {}", line.join(" "));
        command.args(["-qec", &line, "/dev/null"]).current_dir(inner.get_current_dir().unwrap());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        Terminal::start(command)
    }
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (keyboard, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::attach(child, Box::new(keyboard), screen)
    }

    /// Starts a command on a pseudo-terminal without `script`, which would stop together with its child.
    fn start_without_script(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        command.stdin(side()).stdout(side()).stderr(side()).env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.spawn().unwrap();
        // The command holds the other side of the terminal: reading ends when the command does.
        drop(command);
        let screen = File::from(master);
        Self::attach(child, Box::new(screen.try_clone().unwrap()), screen)
    }

    /// Reads the screen in a thread.
    fn attach(child: Child, keyboard: Box<dyn Write>, mut screen: impl Read + Send + 'static) -> Self {
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut chunk)
                && sender.send(chunk[..count].to_vec()).is_ok()
            {}
        });
        Self { child, keyboard, output, bytes: Vec::new(), matched_to: 0 }
    }

    /// Waits until this text is printed after the previous match.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            let mut rest = self.bytes[self.matched_to..].windows(text.len());
            if let Some(at) = rest.position(|part| part == text.as_bytes()) {
                self.matched_to += at + text.len();
                return;
            }
            let left = TEST_TIMEOUT.saturating_sub(started.elapsed());
            match self.output.recv_timeout(left) {
                Ok(more) => self.bytes.extend(more),
                Err(_) => panic!("`{text}` was not shown: {}", String::from_utf8_lossy(&self.bytes)),
            }
        }
    }

    /// Sends keys: `\n` is Enter, `\u{3}` is Ctrl-C.
    pub fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits for the command to exit; returns the exit code and all output.
    pub fn wait_for_exit(mut self) -> (Option<i32>, String) {
        while let Ok(more) = self.output.recv_timeout(TEST_TIMEOUT) {
            self.bytes.extend(more);
        }
        (self.child.wait().unwrap().code(), String::from_utf8_lossy(&self.bytes).into_owned())
    }
}

/// Removes the sequences that Actbook itself writes: colours, redraws of the live view, cursor visibility.
pub fn without_own_sequences(shown: &str) -> String {
    let mut rest = shown.replace("\r\u{1b}[", "\u{1b}[");
    for own in
        ["\u{1b}[?2026h", "\u{1b}[?2026l", "\u{1b}[?25h", "\u{1b}[?25l", "\u{1b}[J", "\u{1b}[K", "\r\n"]
    {
        rest = rest.replace(own, "\n");
    }
    let mut kept = String::new();
    let mut parts = rest.split("\u{1b}[");
    kept.push_str(parts.next().unwrap());
    for part in parts {
        let end = part.find(|sign: char| !sign.is_ascii_digit() && sign != ';').unwrap_or(part.len());
        match part[end..].chars().next() {
            Some('m' | 'A') => kept.push_str(&part[end + 1..]),
            _ => kept.push_str(&format!("\u{1b}[{part}")),
        }
    }
    // A redrawn line begins with a carriage return.
    let lines: Vec<&str> = kept.split('\n').map(|line| line.trim_start_matches('\r')).collect();
    lines.join("\n")
}

/// The rows of the screen after this output. Interprets only the sequences that Actbook writes.
pub fn render_screen(shown: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![String::new()], 0_usize, 0_usize);
    let mut signs = shown.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let mut sequence = String::new();
                for next in signs.by_ref() {
                    sequence.push(next);
                    if next != '[' && !next.is_ascii_digit() && next != '?' && next != ';' {
                        break;
                    }
                }
                let count = sequence.trim_matches(|sign: char| !sign.is_ascii_digit()).parse().unwrap_or(1);
                match sequence.chars().next_back() {
                    Some('A') => row = row.saturating_sub(count),
                    Some('J') => {
                        rows.truncate(row + 1);
                        rows[row] = rows[row].chars().take(column).collect();
                    }
                    Some('K') => rows[row] = rows[row].chars().take(column).collect(),
                    _ => {}
                }
            }
            sign => {
                let mut line: Vec<char> = rows[row].chars().collect();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = sign;
                rows[row] = line.into_iter().collect();
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), String::new());
    }
    rows
}

#[test]
fn log_lines_are_printed_above_the_live_view() {
    let sandbox = Sandbox::new();
    let noisy = "for n in 1 2 3 4 5; do echo log-line-$n >&2; done; touch holding; while [ -e holding ] && [ ! -e released ]; do sleep 0.01; done";
    sandbox.write_config(json!({ "commands": { "noisy": { "argv": ["sh", "-c", noisy] } } }));
    sandbox.write("noisy.yaml", "name: noisy\nsteps: [{ id: first, tool: command/noisy }]");
    let mut terminal = sandbox.terminal_with(&["run", "noisy.yaml"], &[("ACTBOOK_LOG", "actbook=debug")]);
    terminal.wait_for("log-line-5");
    // Wait for the redraw of the view below the last log line before the step ends.
    terminal.wait_for("version 1 ·");
    sandbox.release();
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{shown}");
    let rows = render_screen(&shown);
    let count = |words: &str| rows.iter().filter(|row| row.contains(words)).count();
    for n in 1..=5 {
        assert_eq!(count(&format!("log-line-{n}")), 1, "{rows:#?}");
    }
    assert_eq!(count("noisy version 1 ·"), 1, "the view appears once: {rows:#?}");
}

#[test]
fn ctrl_c_typed_at_the_terminal_pauses_the_execution() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "held.yaml",
        "name: held\nsteps: [{ id: a, tool: command/hold }, { id: b, tool: files/echo }]",
    );
    let journal = sandbox.follow_journal();
    let mut terminal = sandbox.terminal(&["run", "held.yaml"]);
    wait_until("the call to be held", || sandbox.path("holding").exists());
    terminal.type_keys("\u{3}");
    terminal.wait_for("pausing: nothing further starts, 1 call in flight");
    journal.wait_for("paused", None);
    sandbox.release();
    terminal.wait_for("actbook resume");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(3), "{shown}");
    assert_eq!(sandbox.json(&["show", &sandbox.newest()])["status"], "paused");
}

const GATED: &str = r#"
name: gated
steps:
  - { id: say, tool: files/echo, arguments: { said: heron }, read_only: true, approval: required }
  - { id: next, tool: files/echo, arguments: { said: egret }, read_only: true, approval: required }
"#;
const PROMPT: &str = "[y: yes, n: no, Enter: later";

#[test]
fn terminal_run_prompts_for_approvals_and_continues() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.yaml", GATED);
    let mut terminal = sandbox.terminal(&["run", "gated.yaml"]);
    terminal.wait_for("may step `say` run?");
    terminal.wait_for("heron");
    terminal.wait_for(PROMPT);
    terminal.type_keys("perhaps\n");
    terminal.wait_for(PROMPT);
    terminal.type_keys("y read it twice\n");
    terminal.wait_for("may step `next` run?");
    terminal.wait_for(PROMPT);
    terminal.type_keys("yes\n");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{shown}");
    let approved = sandbox.expect(0, &["journal", "--kind", "step_approved", "--json"]);
    let first: Value = serde_json::from_str(approved.lines().next().unwrap()).unwrap();
    assert_eq!((&first["body"]["step"], &first["body"]["reason"]), (&json!("say"), &json!("read it twice")));
    assert!(first["actor"].as_str().unwrap().starts_with("person:"), "{first}");
}

#[test]
fn prompt_answer_no_rejects_and_empty_answer_leaves_it_open() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.yaml", GATED);
    let mut terminal = sandbox.terminal(&["run", "gated.yaml"]);
    terminal.wait_for(PROMPT);
    terminal.type_keys("\n");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(3), "{shown}");
    assert!(shown.contains("actbook approve"), "{shown}");
    let id = sandbox.newest();
    let mut terminal = sandbox.terminal(&["resume", &id]);
    terminal.wait_for(PROMPT);
    terminal.type_keys("n wrong bird\n");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(3), "{shown}");
    let view = sandbox.json(&["show", &id]);
    assert_eq!(view["steps"][0]["error"]["message"], "it was rejected: wrong bird");
}

#[test]
fn prompt_ends_when_another_process_answers() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.yaml", GATED);
    let mut terminal = sandbox.terminal(&["run", "gated.yaml"]);
    terminal.wait_for("may step `say` run?");
    terminal.wait_for(PROMPT);
    sandbox.expect(0, &["approve", &sandbox.newest(), "say"]);
    terminal.wait_for("answered elsewhere");
    terminal.wait_for("may step `next` run?");
    terminal.wait_for(PROMPT);
    terminal.type_keys("\u{3}");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(3), "Ctrl-C leaves the question open: {shown}");
    assert_eq!(sandbox.json(&["show", &sandbox.newest()])["status"], "blocked");
}

#[test]
fn yes_to_a_former_question_decides_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.yaml", GATED);
    let mut terminal = Terminal::start_without_script(sandbox.command(&["run", "gated.yaml"]));
    terminal.wait_for("may step `say` run?");
    terminal.wait_for(PROMPT);
    let id = sandbox.newest();
    let database = sandbox.path("data/actbook/actbook.db");
    freeze(&terminal.child, &DirectSql::open(&format!("sqlite:{}", database.display())));
    terminal.type_keys("y as shown\n");
    // The terminal echoes the line, so it is there to be read before the question changes.
    terminal.wait_for("y as shown");
    sandbox.expect(0, &["reject", &id, "say"]);
    sandbox.expect(0, &["decide", &id, "say", "retry", "--reason", "ask again"]);
    kill_process(Pid::from_child(&terminal.child), Signal::CONT).unwrap();
    terminal.wait_for("may step `say` run?");
    terminal.wait_for(PROMPT);
    assert_eq!(sandbox.expect(0, &["journal", "--kind", "step_approved", "--json"]), "");
    terminal.type_keys("y\n");
    terminal.wait_for("may step `next` run?");
    terminal.wait_for(PROMPT);
    terminal.type_keys("y\n");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn run_in_a_pipe_does_not_prompt() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.yaml", GATED);
    assert!(!sandbox.expect(3, &["run", "gated.yaml"]).contains(PROMPT));
}

/// The rows of a command's result on 80 columns; none is wider, and none has padding at its end.
#[track_caller]
fn narrow_rows(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let (_, shown) = sandbox.narrow_terminal(words).wait_for_exit();
    let rows: Vec<String> = without_own_sequences(&shown).lines().map(str::to_owned).collect();
    for row in &rows {
        assert!(row.chars().count() <= 80 && row.trim_end() == row.as_str(), "{words:?}: {row:?}");
    }
    rows
}

#[test]
fn tables_fit_eighty_columns_and_keep_their_names() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({
        "project": "/srv/projects/of/somebody/with/a/long/path/alpha",
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"] } },
    }));
    let long = "a-plan-with-a-rather-long-name";
    sandbox.write("p.yaml", &format!("name: {long}\nsteps: [{{ id: write-it-down, tool: files/write_file, arguments: {{ path: a, content: b }} }}]"));
    sandbox.expect(0, &["run", "p.yaml"]);
    let tools = narrow_rows(&sandbox, &["tools", "list"]);
    assert!(
        tools.iter().any(|row| row.contains("files/write_file") && row.contains("1 call, 100 % ok")),
        "{tools:#?}"
    );
    let stats = narrow_rows(&sandbox, &["stats"]);
    let longest = stats.iter().find(|row| row.contains(&format!("{long} / write-it-down")));
    assert!(longest.is_some_and(|row| row.contains("files/write_file")), "{stats:#?}");
    let list = narrow_rows(&sandbox, &["list"]);
    assert!(list.iter().any(|row| row.ends_with("/alpha") && row.contains('…')), "{list:#?}");
}

#[test]
fn errors_and_questions_are_broken_between_words() {
    let sandbox = Sandbox::new();
    let refused =
        narrow_rows(&sandbox, &["show", "nosuch", "--config", "none-of-the-files-here-has-this-name.yaml"]);
    assert!(refused[0].contains("error:"), "{refused:#?}");
    let said = "heron ".repeat(40);
    let step = json!({ "id": "say", "tool": "files/echo", "arguments": { "said": said.trim() }, "read_only": true, "approval": "required" });
    sandbox.write("gated.json", &json!({ "name": "gated", "steps": [step] }).to_string());
    let mut terminal = sandbox.narrow_terminal(&["run", "gated.json"]);
    terminal.wait_for(PROMPT);
    terminal.type_keys("\n");
    let (_, shown) = terminal.wait_for_exit();
    let rows = without_own_sequences(&shown);
    let question = rows.split_once(PROMPT).unwrap().0;
    let said: Vec<&str> = question.lines().filter(|row| row.contains("heron")).collect();
    let is_whole = |row: &&str| row.chars().count() <= 80 && row.starts_with("  | ");
    assert!(said.len() > 2 && said.iter().all(is_whole), "{rows}");
    assert_eq!(question.matches("heron").count(), 40, "no word is broken: {rows}");
}
