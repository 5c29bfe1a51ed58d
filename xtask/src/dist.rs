//! The build that is shipped and measured: in one piece, and laid out by what it was seen to do. A first build
//! counts which way its code goes while the bench drives it; the second is made by those counts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::machine::{answers, apt_get};
use crate::postgres::Postgres;
use crate::stage::{self, command, loud, quiet, root, skipped, target};

/// A cargo command on such a build. What was seen is kept with the rest of the target folder: of a function that
/// has changed since, nothing is known, which does no harm.
pub fn cargo(words: &[&str]) -> Result<Command> {
    let compiler = Compiler::ask()?;
    let seen = compiler.seen()?;
    if !seen.exists() {
        look(&compiler, &seen)?;
    }
    Ok(compiler.cargo(words, &format!("-Cprofile-use={}", seen.display())))
}

/// Where such a build leaves the program.
pub fn program() -> Result<PathBuf> {
    Ok(target().join(Compiler::ask()?.host).join("dist/actbook"))
}

fn look(compiler: &Compiler, seen: &Path) -> Result<()> {
    let merger = compiler.merger()?;
    let counts = target().join("dist.profraw");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)?;
    }
    let words = ["run", "--package", "actbook", "--example", "bench", "--", "--train"];
    let mut run = compiler.cargo(&words, &format!("-Cprofile-generate={}", counts.display()));
    let postgres = Postgres::is_there().then(Postgres::start).transpose()?;
    if let Some(postgres) = &postgres {
        postgres.equip(&mut run);
    } else {
        skipped("postgres", "it is not installed: what is done with it is not laid out");
    }
    loud("train", &mut run, "The bench says why, above.")?;
    let merged = counts.join("merged");
    let mut merge = command(&[&merger.to_string_lossy(), "merge", "-o"]);
    quiet("merge", merge.arg(&merged).arg(&counts), "It is of another LLVM than the compiler, perhaps.")?;
    Ok(std::fs::rename(merged, seen)?)
}

struct Compiler {
    said: String,
    host: String,
    sysroot: PathBuf,
    /// The number of the LLVM within it.
    llvm: String,
}

impl Compiler {
    fn ask() -> Result<Self> {
        let said = stage::text_of(&command(&["rustc", "-vV"]).output().context("rustc -vV")?);
        let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let sysroot = command(&["rustc", "--print", "sysroot"]).output().context("rustc --print sysroot")?;
        let llvm = field("LLVM version: ").context("rustc names no LLVM")?;
        Ok(Self {
            host: field("host: ").context("rustc names no host")?,
            sysroot: stage::text_of(&sysroot).trim().into(),
            llvm: llvm.split('.').next().unwrap_or(&llvm).to_owned(),
            said,
        })
    }

    /// Counts are by name, and every name has something of the compiler and of all versions in it.
    fn seen(&self) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        self.said.hash(&mut hasher);
        std::fs::read(root().join("Cargo.lock"))?.hash(&mut hasher);
        Ok(target().join(format!("dist-{:016x}.profdata", hasher.finish())))
    }

    /// With a target named, the flags are not for build scripts and macros too.
    fn cargo(&self, words: &[&str], flag: &str) -> Command {
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        let flags: Vec<&str> = given.split_whitespace().chain([flag]).collect();
        let mut cargo = command(&["cargo", words[0], "--profile", "dist", "--target", &self.host]);
        // In this form a path may have spaces.
        cargo.args(&words[1..]).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        cargo
    }

    /// What merges counts is of the compiler's own LLVM: a component of rustup's, or a package of Debian's.
    fn merger(&self) -> Result<PathBuf> {
        let component = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        let package = PathBuf::from(format!("/usr/lib/llvm-{}/bin/llvm-profdata", self.llvm));
        let found = || [&component, &package].into_iter().find(|program| program.exists()).cloned();
        match found() {
            Some(program) => return Ok(program),
            None if answers(&["rustup", "--version"]) => {
                let mut add = command(&["rustup", "component", "add", "llvm-tools"]);
                quiet("llvm-tools", &mut add, "It is a component of the toolchain.")?;
            }
            None => {
                apt_get(&["update"])?;
                apt_get(&["install", "--yes", "--no-install-recommends", &format!("llvm-{}", self.llvm)])?;
            }
        }
        found().with_context(|| format!("there is no llvm-profdata of LLVM {}", self.llvm))
    }
}
