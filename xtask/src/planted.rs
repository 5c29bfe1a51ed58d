//! Planted bugs: each file in `xtask/planted` breaks one guarantee, and the test that it names must fail.
//! They are applied to a scratch copy, one at a time; the product's code does not refer to them.
//!
//! A bug opens with `guards: what must hold` and `test: arguments of cargo test`. Each of its edits is a line
//! `file: path`, a line `find:` with whole lines of that file below it, and a line `replace:` with the lines
//! that take their place. The lines to find occur once in the file, so that an edit survives changes around
//! it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::stage::{self, command, root, target};

/// A planted bug may make its test hang; the test is then ended after this many seconds.
const TEST_TIMEOUT_S: &str = "900";

/// One file of `xtask/planted`: a broken guarantee, the test that must fail, and the edits.
struct PlantedBug {
    name: String,
    guards: String,
    test: Vec<String>,
    edits: Vec<BugEdit>,
}

/// Whole lines of one file, and the lines that take their place.
struct BugEdit {
    file: PathBuf,
    find: String,
    replace: String,
}

/// A copy of the working tree to plant bugs in.
struct ScratchTree {
    tree: PathBuf,
    machine: Machine,
}

pub fn run(only: Option<&str>) -> Result<()> {
    let bugs = read_bugs(only)?;
    let scratch = ScratchTree { tree: target().join("planted/tree"), machine: Machine::prepare()? };
    scratch.sync()?;
    let tests: BTreeSet<&[String]> = bugs.iter().map(|bug| bug.test.as_slice()).collect();
    for test in tests {
        scratch.require_passing(test)?;
    }
    let mut escaped = vec![];
    for bug in &bugs {
        let begun = Instant::now();
        let verdict = scratch.test_with_bug(bug);
        scratch.sync()?;
        let result = if verdict.is_ok() { "caught" } else { "ESCAPED" };
        println!("{result:<8} {:>6.1} s  {:<36} {}", begun.elapsed().as_secs_f64(), bug.name, bug.guards);
        if let Err(why) = verdict {
            escaped.push(format!("{}: {why:#}", bug.name));
        }
    }
    if !escaped.is_empty() {
        bail!("{} of {} planted bugs were not caught:\n{}", escaped.len(), bugs.len(), escaped.join("\n"));
    }
    println!("all {} planted bugs were caught", bugs.len());
    Ok(())
}

/// Fails if an edit of a planted bug no longer finds its lines in the working tree.
pub fn check() -> Result<()> {
    let mut stale = vec![];
    for bug in read_bugs(None)? {
        for edit in &bug.edits {
            if let Err(why) = edit.edited_text(root()) {
                stale.push(format!("{}: {why:#}", bug.name));
            }
        }
    }
    if !stale.is_empty() {
        bail!("{} planted bugs no longer apply; plant them anew:\n{}", stale.len(), stale.join("\n"));
    }
    Ok(())
}

fn read_bugs(only: Option<&str>) -> Result<Vec<PlantedBug>> {
    let folder = root().join("xtask/planted");
    let mut bugs = vec![];
    for entry in folder.read_dir().context("xtask/planted")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "bug") {
            bugs.push(PlantedBug::read(&path).with_context(|| path.display().to_string())?);
        }
    }
    bugs.retain(|bug| only.is_none_or(|name| bug.name == name));
    bugs.sort_by(|one, other| one.name.cmp(&other.name));
    if bugs.is_empty() {
        bail!("no planted bug of that name in {}", folder.display());
    }
    Ok(bugs)
}

impl PlantedBug {
    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let header = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.map(str::trim).with_context(|| format!("no line `{key} …`"))
        };
        let test = header("test:")?.split_whitespace().map(str::to_owned).collect();
        let guards = header("guards:")?.to_owned();
        let name = path.file_stem().context("a bug has a name")?.to_string_lossy().into_owned();
        let edits = text.split("\nfile: ").skip(1).map(BugEdit::read).collect::<Result<_>>()?;
        Ok(Self { name, guards, test, edits })
    }
}

impl BugEdit {
    /// Reads what follows `file: `.
    fn read(text: &str) -> Result<Self> {
        let (file, lines) = text.split_once("\nfind:\n").context("no line `find:`")?;
        let (find, replace) = lines.split_once("\nreplace:").context("no line `replace:`")?;
        let replace = replace.trim_start_matches('\n').trim_end();
        Ok(Self { file: file.trim().into(), find: find.into(), replace: replace.into() })
    }

    /// The file's text with the edit made. An error if the lines do not occur exactly once.
    fn edited_text(&self, tree: &Path) -> Result<String> {
        let text = std::fs::read_to_string(tree.join(&self.file))
            .with_context(|| self.file.display().to_string())?;
        let (whole, find) = (format!("\n{text}"), format!("\n{}\n", self.find));
        match whole.matches(&find).count() {
            1 => Ok(whole.replacen(&find, &format!("\n{}\n", self.replace), 1)[1..].to_owned()),
            count => {
                bail!("{} has {count} places with these lines, not one:\n{}", self.file.display(), self.find)
            }
        }
    }
}

impl ScratchTree {
    /// Makes the copy equal to the tracked working tree. Unchanged files keep their times, so that cargo
    /// compiles only what an edit touched.
    fn sync(&self) -> Result<()> {
        let tracked = tracked_files()?;
        for path in &tracked {
            let (from, to) = (root().join(path), self.tree.join(path));
            let bytes = std::fs::read(&from).with_context(|| from.display().to_string())?;
            if std::fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            std::fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            std::fs::write(&to, bytes)?;
            std::fs::set_permissions(&to, from.metadata()?.permissions())?;
        }
        remove_untracked(&self.tree, &self.tree, &tracked)
    }

    /// Fails unless the test runs and passes without the bug: otherwise its failure with the bug would prove
    /// nothing.
    fn require_passing(&self, test: &[String]) -> Result<()> {
        let begun = Instant::now();
        let output = self.cargo_test(&[], test)?;
        let text = stage::output_text(&output);
        let ran = text.lines().any(|line| line.starts_with("test ") && line.ends_with("... ok"));
        if !output.status.success() || !ran {
            bail!("`cargo test {}` must run and pass before bugs are planted:\n{text}", test.join(" "));
        }
        eprintln!("── sound: cargo test {}, {:.1} s", test.join(" "), begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Applies the bug and runs its test; an error unless the test fails.
    fn test_with_bug(&self, bug: &PlantedBug) -> Result<()> {
        self.apply(bug)?;
        let built = self.cargo_test(&["--no-run"], &bug.test)?;
        if !built.status.success() {
            bail!("the tree with the bug does not compile:\n{}", stage::output_text(&built));
        }
        let output = self.cargo_test(&[], &bug.test)?;
        let text = stage::output_text(&output);
        match output.status.code() {
            Some(0) => bail!("`cargo test {}` passed", bug.test.join(" ")),
            Some(124) => bail!("`cargo test {}` hung instead of failing", bug.test.join(" ")),
            Some(_) | None if text.contains("test result: FAILED") => Ok(()),
            Some(_) | None => bail!("the test did not run to a verdict:\n{text}"),
        }
    }

    fn apply(&self, bug: &PlantedBug) -> Result<()> {
        for edit in &bug.edits {
            std::fs::write(self.tree.join(&edit.file), edit.edited_text(&self.tree)?)?;
        }
        Ok(())
    }

    fn cargo_test(&self, flags: &[&str], test: &[String]) -> Result<Output> {
        let mut run = command(&["timeout", "--kill-after=10", TEST_TIMEOUT_S, "cargo", "test"]);
        run.args(flags).args(test).current_dir(&self.tree);
        run.env("CARGO_TARGET_DIR", target().join("planted/target"));
        Ok(self.machine.set_environment(&mut run).output()?)
    }
}

fn tracked_files() -> Result<BTreeSet<PathBuf>> {
    let output = command(&["git", "ls-files", "-z", "--cached", "--deduplicate"]).output().context("git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", stage::output_text(&output));
    }
    let names = String::from_utf8(output.stdout).context("git ls-files")?;
    let paths = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

fn remove_untracked(tree: &Path, folder: &Path, keep: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            remove_untracked(tree, &path, keep)?;
        } else if !keep.contains(path.strip_prefix(tree)?) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}
