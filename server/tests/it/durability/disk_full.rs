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
    /// `None` when this process may not mount.
    fn mount() -> Option<Self> {
        Self::mount_with("size=4m")
    }

    fn mount_with(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "actbook-test"]).arg(folder.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self { folder })
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
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this process may not mount a file system");
        return;
    };
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
    let Some(disk) = SmallDisk::mount_with("size=4m,ro") else {
        eprintln!("skipped: this process may not mount a file system");
        return;
    };
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
