//! A scratch PostgreSQL cluster for the tests: Debian's server on a private socket, with sync on, and a fresh
//! database per test. `ACTBOOK_TEST_POSTGRES` names another server.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::NoTls;

/// Starts a cluster, prints its folder, and stops it when stdin closes, however this process ends.
const WATCHDOG: &str = r#"
set -e
base=$(mktemp -d -t actbook-postgres-XXXXXX)
trap 'cd /; rm -rf "$base"' EXIT
cd "$base"
"$0/initdb" -D data -U actbook --auth=trust --encoding=UTF8 --no-locale >log 2>&1 || { cat log >&2; exit 1; }
"$0/pg_ctl" -D data -w -l log -o "-k '$base' -c listen_addresses='' -c max_connections=200" start >/dev/null ||
    { cat log >&2; exit 1; }
echo "$base"
cat >/dev/null
"$0/pg_ctl" -D data -m immediate -w stop >/dev/null
"#;

static CLUSTER: OnceLock<Cluster> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

struct Cluster {
    url: String,
    /// Keeps the watchdog's stdin open while this process lives.
    _watchdog: Option<Child>,
}

fn cluster() -> &'static Cluster {
    CLUSTER.get_or_init(|| match std::env::var("ACTBOOK_TEST_POSTGRES") {
        Ok(url) => Cluster { url, _watchdog: None },
        Err(_) => start_cluster(),
    })
}

fn start_cluster() -> Cluster {
    let programs = postgres_programs().expect("PostgreSQL is missing: `cargo xtask test` installs it");
    let mut command = postgres_shell();
    let mut watchdog = command
        .args(["-c", WATCHDOG])
        .arg(&programs)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut base = String::new();
    let output = watchdog.stdout.take().expect("its output is piped");
    BufReader::new(output).read_line(&mut base).expect("the watchdog prints the cluster's folder");
    assert!(!base.is_empty(), "the scratch PostgreSQL did not start; its output is above");
    let url = format!("postgres://actbook@{}/postgres", base.trim().replace('/', "%2F"));
    Cluster { url, _watchdog: Some(watchdog) }
}

/// A shell for the watchdog; as user `postgres` under root, because PostgreSQL refuses to run as root.
fn postgres_shell() -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new("sh");
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--", "sh"]);
    command
}

fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> =
        versions.filter_map(|version| Some(version.ok()?.path().join("bin"))).collect();
    folders.retain(|folder| folder.join("initdb").exists());
    folders.sort();
    folders.pop()
}

/// A database in the cluster, dropped on drop.
pub struct PostgresDatabase {
    name: String,
    pub url: String,
}

impl PostgresDatabase {
    pub async fn create() -> Self {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("actbook_test_{}_{number}", std::process::id());
        execute_as_admin(&format!("CREATE DATABASE {name}")).await;
        Self { url: url_for_database(&cluster().url, &name), name }
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropping = std::thread::spawn(move || {
            tokio::runtime::Runtime::new().expect("a runtime starts").block_on(execute_as_admin(&drop));
        });
        assert!(dropping.join().is_ok() || std::thread::panicking(), "the scratch database was not dropped");
    }
}

fn url_for_database(url: &str, name: &str) -> String {
    let (address, options) = url.split_once('?').unwrap_or((url, ""));
    let (server, _) = address.rsplit_once('/').expect("the address names a database");
    if options.is_empty() { format!("{server}/{name}") } else { format!("{server}/{name}?{options}") }
}

async fn execute_as_admin(sql: &str) {
    execute(&cluster().url, sql).await;
}

/// Terminates every other connection to this database, like a server restart.
pub async fn terminate_connections(url: &str) {
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(url, end).await;
}

/// Runs SQL over a separate connection.
pub async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
    let running = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    drop(client);
    running.await.expect("the connection's task ends").expect("the connection ends well");
}

/// The URL with `synchronous_commit=off`: its sessions acknowledge before they sync.
pub fn url_without_sync(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options=-csynchronous_commit%3Doff")
}
