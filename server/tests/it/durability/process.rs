//! Other processes: this very test binary, started again to play one part of a test.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

const PART: &str = "ACTBOOK_TEST_PART";
const DATABASE: &str = "ACTBOOK_TEST_DATABASE";
/// What a part says to the test that started it begins with this; the rest is the harness's.
const SAYS: &str = "says: ";

/// The arguments that make the test binary run `a_part_of_another_test` and nothing else.
pub const ARGUMENTS: [&str; 4] =
    ["--exact", "durability::process::a_part_of_another_test", "--nocapture", "--test-threads=1"];

#[test]
fn a_part_of_another_test() {
    let Ok(part) = std::env::var(PART) else { return };
    let url = std::env::var(DATABASE).expect("a part has a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match part.as_str() {
        "executions" => runtime.block_on(super::twenty::play(&url)),
        "keys" => runtime.block_on(super::keys::play(&url)),
        "power" => runtime.block_on(super::power::play(&url)),
        "failing disk" => runtime.block_on(super::power::play_on_a_failing_disk(&url)),
        crate::tools::children::HOSTILE_SERVERS => runtime.block_on(crate::tools::children::play()),
        crate::client::crash::DIES => runtime.block_on(crate::client::crash::die(&url)),
        crate::client::crash::COMES_BACK => runtime.block_on(crate::client::crash::come_back(&url)),
        other => panic!("there is no part `{other}`"),
    }
}

/// Tells the parent, at once.
pub fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{SAYS}{line}\n").as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent listens");
}

pub struct Part {
    child: Child,
    _home: TempDir,
}

/// Starts a part; its seats are kept in a folder of its own.
pub fn start(part: &str, url: &str) -> Part {
    let home = tempfile::tempdir().expect("a scratch folder");
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    let child = equip(command.args(ARGUMENTS), part, url, home.path()).spawn().expect("it starts again");
    Part { child, _home: home }
}

pub fn equip<'a>(command: &'a mut Command, part: &str, url: &str, home: &Path) -> &'a mut Command {
    command.env(PART, part).env(DATABASE, url).env("XDG_DATA_HOME", home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

impl Part {
    /// What it said, once it has ended well.
    pub fn said(self) -> Vec<String> {
        said(&self.child.wait_with_output().expect("it ends"))
    }
}

pub fn said(output: &Output) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "a part failed: {out}{err}");
    out.lines().filter_map(spoken).map(str::to_owned).collect()
}

/// The harness leaves the name of the test on the line before the first word.
pub fn spoken(line: &str) -> Option<&str> {
    line.split_once(SAYS).map(|(_, said)| said.trim_end())
}
