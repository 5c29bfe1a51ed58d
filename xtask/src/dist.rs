//! The build that is shipped and measured: profile-guided optimisation. A first build is instrumented and run
//! by the bench; the second is compiled with the collected profile.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::machine::{apt_get, runs_successfully};
use crate::postgres::Postgres;
use crate::stage::{self, command, report_skipped, root, run_loud, run_quiet, target};

/// A cargo command with the profile, which is collected first if it is missing. The profile is kept in the
/// target folder: functions that changed since have no profile data, which is harmless.
pub fn cargo(args: &[&str]) -> Result<Command> {
    let compiler = Compiler::detect()?;
    let profile = compiler.profile_path()?;
    if !profile.exists() {
        collect_profile(&compiler, &profile)?;
    }
    Ok(compiler.cargo(args, &format!("-Cprofile-use={}", profile.display())))
}

/// The path of the built program.
pub fn program() -> Result<PathBuf> {
    Ok(target().join(Compiler::detect()?.host).join("dist/actbook"))
}

/// Builds and runs the instrumented bench, and merges its counts into `profile`.
fn collect_profile(compiler: &Compiler, profile: &Path) -> Result<()> {
    let merger = compiler.profile_merger()?;
    let counts = target().join("dist.profraw");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)?;
    }
    let args = ["run", "--package", "actbook", "--example", "bench", "--", "--train"];
    let mut run = compiler.cargo(&args, &format!("-Cprofile-generate={}", counts.display()));
    let postgres = Postgres::is_available().then(|| Postgres::start(None)).transpose()?;
    if let Some(postgres) = &postgres {
        postgres.set_environment(&mut run);
    } else {
        report_skipped("postgres", "it is not installed: its code paths are not profiled");
    }
    run_loud("train", &mut run, "The bench says why, above.")?;
    let merged = counts.join("merged");
    let mut merge = command(&[&merger.to_string_lossy(), "merge", "-o"]);
    run_quiet("merge", merge.arg(&merged).arg(&counts), "It is of another LLVM than the compiler, perhaps.")?;
    Ok(std::fs::rename(merged, profile)?)
}

/// The installed compiler.
struct Compiler {
    /// The output of `rustc -vV`.
    version_text: String,
    host: String,
    sysroot: PathBuf,
    /// The major version of its LLVM.
    llvm: String,
}

impl Compiler {
    fn detect() -> Result<Self> {
        let version_text = stage::output_text(&command(&["rustc", "-vV"]).output().context("rustc -vV")?);
        let field =
            |name: &str| version_text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let sysroot = command(&["rustc", "--print", "sysroot"]).output().context("rustc --print sysroot")?;
        let llvm = field("LLVM version: ").context("rustc names no LLVM")?;
        Ok(Self {
            host: field("host: ").context("rustc names no host")?,
            sysroot: stage::output_text(&sysroot).trim().into(),
            llvm: llvm.split('.').next().unwrap_or(&llvm).to_owned(),
            version_text,
        })
    }

    /// The profile's path, by compiler and Cargo.lock: counts are keyed by mangled names, which depend on
    /// both.
    fn profile_path(&self) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        self.version_text.hash(&mut hasher);
        std::fs::read(root().join("Cargo.lock"))?.hash(&mut hasher);
        Ok(target().join(format!("dist-{:016x}.profdata", hasher.finish())))
    }

    /// A cargo command with an extra flag. An explicit `--target` keeps the flag from build scripts and
    /// macros.
    fn cargo(&self, args: &[&str], flag: &str) -> Command {
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        let flags: Vec<&str> = given.split_whitespace().chain([flag]).collect();
        let mut cargo = command(&["cargo", args[0], "--profile", "dist", "--target", &self.host]);
        // The encoded form allows spaces in paths.
        cargo.args(&args[1..]).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        cargo
    }

    /// The path of `llvm-profdata` of the compiler's LLVM version, installed by rustup or apt if missing.
    fn profile_merger(&self) -> Result<PathBuf> {
        let component = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        let package = PathBuf::from(format!("/usr/lib/llvm-{}/bin/llvm-profdata", self.llvm));
        let found = || [&component, &package].into_iter().find(|program| program.exists()).cloned();
        match found() {
            Some(program) => return Ok(program),
            None if runs_successfully(&["rustup", "--version"]) => {
                let mut add = command(&["rustup", "component", "add", "llvm-tools"]);
                run_quiet("llvm-tools", &mut add, "It is a component of the toolchain.")?;
            }
            None => {
                apt_get(&["update"])?;
                apt_get(&["install", "--yes", "--no-install-recommends", &format!("llvm-{}", self.llvm)])?;
            }
        }
        found().with_context(|| format!("there is no llvm-profdata of LLVM {}", self.llvm))
    }
}
