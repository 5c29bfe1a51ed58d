//! Helper processes: this test binary, started again to run one part of a test.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

const PART: &str = "ACTBOOK_TEST_PART";
const DATABASE: &str = "ACTBOOK_TEST_DATABASE";
/// Prefix of the lines that a helper prints for the test that started it; other lines are the test harness's.
const LINE_PREFIX: &str = "says: ";

/// The arguments that make the test binary run `helper_process_entry_point` and nothing else.
pub const ARGUMENTS: [&str; 4] =
    ["--exact", "durability::helper_process::helper_process_entry_point", "--nocapture", "--test-threads=1"];

#[test]
fn helper_process_entry_point() {
    let Ok(part) = std::env::var(PART) else { return };
    let url = std::env::var(DATABASE).expect("a part has a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match part.as_str() {
        "executions" => runtime.block_on(super::twenty_processes::run_in_helper(&url)),
        "keys" => runtime.block_on(super::request_keys::run_in_helper(&url)),
        "power" => runtime.block_on(super::power_cut::run_in_helper(&url)),
        "failing disk" => runtime.block_on(super::power_cut::run_with_failing_disk(&url)),
        crate::tools::hostile_stdio_table::HOSTILE_SERVERS => {
            runtime.block_on(crate::tools::hostile_stdio_table::run_in_helper())
        }
        crate::client::crash::CRASHING_PROGRAM => {
            runtime.block_on(crate::client::crash::run_until_crash(&url))
        }
        crate::client::crash::RESTARTED_PROGRAM => {
            runtime.block_on(crate::client::crash::run_after_restart(&url))
        }
        other => panic!("unknown part `{other}`"),
    }
}

/// Prints a line for the parent and flushes it.
pub fn emit(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{LINE_PREFIX}{line}\n").as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent reads stdout");
}

pub struct HelperProcess {
    child: Child,
    _home: TempDir,
}

/// Starts a helper process, with its node files in a scratch folder.
pub fn start(part: &str, url: &str) -> HelperProcess {
    let home = tempfile::tempdir().expect("a scratch folder");
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    let child =
        equip(command.args(ARGUMENTS), part, url, home.path()).spawn().expect("the test binary starts");
    HelperProcess { child, _home: home }
}

pub fn equip<'a>(command: &'a mut Command, part: &str, url: &str, home: &Path) -> &'a mut Command {
    command.env(PART, part).env(DATABASE, url).env("XDG_DATA_HOME", home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

impl HelperProcess {
    /// Waits for the process to succeed, and returns the lines it printed for the test.
    pub fn emitted_lines(self) -> Vec<String> {
        emitted_lines(&self.child.wait_with_output().expect("the process ends"))
    }
}

/// The lines that a successful helper process printed for the test.
pub fn emitted_lines(output: &Output) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "a helper process failed: {out}{err}");
    out.lines().filter_map(parse_emitted).map(str::to_owned).collect()
}

/// The text after the prefix; `None` for a harness line. The harness may print the test's name before the
/// prefix.
pub fn parse_emitted(line: &str) -> Option<&str> {
    line.split_once(LINE_PREFIX).map(|(_, text)| text.trim_end())
}
