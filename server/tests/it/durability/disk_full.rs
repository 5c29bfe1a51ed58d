//! A full disk: writes fail with `disk_full`, nothing is lost, and writes succeed once space is freed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::fixture::{self, ServiceFixture};

/// A mounted tmpfs of 4 MB, unmounted on drop.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `Err`: this process may not mount.
    fn mount(options: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "actbook-test"]).arg(folder.path());
        let output = mount.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(Self { folder });
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn ballast_file(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Set in the process that `with_small_disk` starts in a user namespace.
const IN_NAMESPACE: &str = "ACTBOOK_TEST_IN_NAMESPACE";

/// Runs the test `name` on a small disk. Where this process may not mount one, the test runs again in a user namespace
/// of its own, where it may; where that is forbidden too, the test fails and says so.
fn with_small_disk(name: &str, options: &str, test: impl FnOnce(&SmallDisk)) {
    match SmallDisk::mount(options) {
        Ok(disk) => test(&disk),
        Err(why) if std::env::var_os(IN_NAMESPACE).is_some() => {
            panic!("neither this user nor a user namespace may mount a file system: {why}")
        }
        Err(_) => {
            let mut again = Command::new("unshare");
            again.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
            again.args(["--exact", &format!("durability::disk_full::{name}"), "--nocapture"]);
            let output = again.env(IN_NAMESPACE, "1").output().expect("unshare starts");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() && out.contains("1 passed"), "in a user namespace: {out}{err}");
        }
    }
}

/// Starts executions until the disk is full; returns the last acknowledged position and the error.
async fn fill_disk(fixture: &ServiceFixture) -> (u64, actbook::error::Error) {
    let mut plan = fixture::plan("big", &[fixture::step("only", "t/ok", "word")]);
    plan["inputs"] = json!({ "type": "object" });
    let plan = plan.to_string();
    let mut acknowledged = 0;
    for _ in 0..10_000 {
        let saved = match fixture.service.plans().save(&fixture.caller, &plan, true).await {
            Ok(saved) => saved,
            Err(error) => return (acknowledged, error),
        };
        let inputs = Some(json!({ "text": "x".repeat(20_000) }));
        match fixture.executions().start(&fixture.caller, saved.reference, saved.plan, inputs, false).await {
            Ok(started) => acknowledged = started.progress.position.0,
            Err(error) => return (acknowledged, error),
        }
    }
    panic!("the disk is never full");
}

async fn assert_acknowledged_kept(fixture: &ServiceFixture, file: &Path, acknowledged: u64) {
    assert!(fixture.assert_verifies().await.position >= acknowledged);
    let fresh = ServiceFixture::open(&file.to_string_lossy()).await;
    assert!(fresh.assert_verifies().await.position >= acknowledged);
}

#[test]
fn full_disk_is_an_error_until_space_is_freed() {
    with_small_disk("full_disk_is_an_error_until_space_is_freed", "size=4m", fill_twice);
}

fn fill_twice(disk: &SmallDisk) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let file = disk.folder.path().join("book.db");
        std::fs::write(disk.ballast_file(), vec![0; 1 << 20]).unwrap();
        let fixture = ServiceFixture::open(&file.to_string_lossy()).await;
        let (first, error) = fill_disk(&fixture).await;
        assert!(first > 10 && error.to_string().contains("full"), "{first}: {error:?}");
        assert_eq!(error.code(), "disk_full");
        assert!(
            error.to_string().contains("book.db") && error.cure().contains("free some disk space"),
            "{error:?}"
        );
        assert_acknowledged_kept(&fixture, &file, first).await;

        std::fs::remove_file(disk.ballast_file()).unwrap();
        let (second, error) = fill_disk(&fixture).await;
        assert!(
            second > first + 10 && error.to_string().contains("full"),
            "{second} after {first}: {error:?}"
        );
        assert_acknowledged_kept(&fixture, &file, second).await;
    });
}

#[test]
fn read_only_folder_error_names_path_and_cure() {
    with_small_disk("read_only_folder_error_names_path_and_cure", "size=4m,ro", open_on_read_only_disk);
}

fn open_on_read_only_disk(disk: &SmallDisk) {
    let sandbox = crate::cli::Sandbox::new();
    for file in ["book.db", "new/folder/book.db"] {
        let file = disk.folder.path().join(file);
        let ran = sandbox.run(&["plan", "list", "--database", &file.to_string_lossy()]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let [what, cure] = ran.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("two lines: {}", ran.stderr)
        };
        assert!(what.contains("book.db") && what.contains("read-only"), "{what}");
        assert!(cure.contains("make both writable") && cure.contains("--database"), "{cure}");
    }
}
