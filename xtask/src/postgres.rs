//! A scratch PostgreSQL: a fresh cluster with default durability, on a free port, removed at the end. The
//! server refuses to run as root, so under root it runs as an unprivileged user.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::machine;
use crate::stage::{self, command};

/// Enough for twenty writing processes in each of several concurrent tests.
const CONNECTIONS_MAX: &str = "max_connections=300";
const START_TIMEOUT: Duration = Duration::from_secs(30);

pub enum Postgres {
    /// A server named by the environment variable.
    External(String),
    Scratch(Cluster),
}

pub struct Cluster {
    server: Child,
    url: String,
    folder: TempDir,
}

struct User {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// The environment variable with the URL of a server on which tests may create databases.
    pub const ENV: &'static str = "ACTBOOK_TEST_POSTGRES";

    /// Starts a server whose files lie in `folder`; `None`: on the disk that a bench measures.
    pub fn start(folder: Option<&Path>) -> Result<Self> {
        if let Ok(url) = std::env::var(Self::ENV) {
            return Ok(Self::External(url));
        }
        let begun = Instant::now();
        let cluster = Cluster::start(folder)?;
        eprintln!("── postgres: {}, {:.1} s", cluster.url, begun.elapsed().as_secs_f64());
        Ok(Self::Scratch(cluster))
    }

    /// True if a server can be started, or is named by the environment variable.
    pub fn is_available() -> bool {
        Self::programs().is_some() || std::env::var_os(Self::ENV).is_some()
    }

    /// The folder with `initdb` and `postgres`. Debian keeps it off PATH, one folder per version.
    pub fn programs() -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let debian = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
        let mut debian: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
        debian.sort();
        let mut folders = debian.into_iter().rev().chain(std::env::split_paths(&path));
        folders
            .find(|folder| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists()))
    }

    pub fn set_environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let url = match self {
            Self::External(url) => url,
            Self::Scratch(cluster) => &cluster.url,
        };
        command.env(Self::ENV, url)
    }
}

impl Cluster {
    fn start(parent: Option<&Path>) -> Result<Self> {
        let programs = Postgres::programs().context("PostgreSQL's programs are nowhere to be found")?;
        let user = if machine::is_root()? { Some(User::unprivileged()?) } else { None };
        let parent = parent.map_or_else(|| disk_folder(user.as_ref()), Path::to_owned);
        let folder = tempfile::Builder::new().prefix("actbook-postgres-").tempdir_in(parent)?;
        if let Some(user) = &user {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))?;
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let data = folder.path().join("data");
        init_cluster(&programs, &data, user.as_ref())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = spawn_server(&programs, &data, folder.path(), port, user.as_ref())?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let mut cluster = Self { server, url, folder };
        cluster.wait_until_ready(&programs, port)?;
        Ok(cluster)
    }

    fn wait_until_ready(&mut self, programs: &Path, port: u16) -> Result<()> {
        let ready = programs.join("pg_isready");
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            if let Some(status) = self.server.try_wait()? {
                bail!("PostgreSQL ended at once ({status}):\n{}", self.log());
            }
            let mut ask = Command::new(&ready);
            if ask.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]).status()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("PostgreSQL did not answer within {START_TIMEOUT:?}:\n{}", self.log())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for Cluster {
    /// SIGQUIT is PostgreSQL's immediate shutdown: nothing here is worth a checkpoint.
    fn drop(&mut self) {
        let quit = command(&["sh", "-c", &format!("kill -QUIT {}", self.server.id())]).status();
        if let Err(error) = quit.and_then(|_| self.server.wait()) {
            eprintln!("xtask: PostgreSQL could not be stopped: {error}");
        }
    }
}

impl User {
    fn unprivileged() -> Result<Self> {
        let passwd = std::fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
        let find = |name: &str| passwd.lines().find_map(|line| Self::parse(line, name));
        find("postgres").or_else(|| find("nobody")).context("there is no user `postgres` and none `nobody`")
    }

    fn parse(line: &str, name: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [found, _, uid, gid, ..] = fields.as_slice() else { return None };
        (*found == name).then_some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    }
}

/// The folder on disk for the cluster: the target folder if the user can reach it, so that a bench measures one
/// file system.
fn disk_folder(user: Option<&User>) -> PathBuf {
    let target = stage::target();
    let open =
        |folder: &Path| folder.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
    match user {
        Some(_) if !target.ancestors().all(open) => PathBuf::from("/var/tmp"),
        Some(_) | None => target,
    }
}

fn init_cluster(programs: &Path, data: &Path, user: Option<&User>) -> Result<()> {
    let mut init = as_user(&programs.join("initdb"), user);
    init.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
    let output = init.arg(data).output().context("initdb")?;
    if !output.status.success() {
        bail!("initdb failed:\n{}", stage::output_text(&output));
    }
    Ok(())
}

fn spawn_server(
    programs: &Path,
    data: &Path,
    folder: &Path,
    port: u16,
    user: Option<&User>,
) -> Result<Child> {
    let log = std::fs::File::create(folder.join("log"))?;
    let mut serve = as_user(&programs.join("postgres"), user);
    serve.arg("-D").arg(data).args(["-p", &port.to_string(), "-c", CONNECTIONS_MAX]);
    serve.args(["-c", "listen_addresses=127.0.0.1", "-c"]);
    serve.arg(format!("unix_socket_directories={}", folder.display()));
    serve.stdout(log.try_clone()?).stderr(log).spawn().context("postgres")
}

/// A command run as `user`; it is ended (SIGQUIT) when this process dies.
fn as_user(program: &Path, user: Option<&User>) -> Command {
    let mut command = command(&["setpriv", "--pdeathsig", "QUIT"]);
    if let Some(user) = user {
        command.args(["--clear-groups", "--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string()]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}
