//! `actbook demo`: the whole story in a minute, through the same doors as any run. A scratch folder
//! with its own config, database and downstream server; a plan that meets a failure half-way; its undo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use actbook::config::Config;
use actbook::error::Error;
use actbook::service::Options;
use actbook::service::view::ExecutionView;
use actbook_engine::policy::Status;
use serde_json::json;

use super::args::GraphFormat;
use super::foreground::{self, Eyes};
use super::output::Output;
use super::session::Session;
use super::signs::{BAD, BUSY, GOOD, QUIET, STRONG, painted};
use super::{Ended, Exit, brief, graph, journal};

const PLAN: &str = include_str!("demo/plan.yaml");
const VERSION: &str = "1.2";

pub async fn demo(output: &Output, keep: Option<PathBuf>) -> Ended {
    super::signals::end_process_when_asked()?;
    let scratch = Scratch::make(keep)?;
    let session = scratch.open(output).await?;
    let told = tell(&session, &scratch).await;
    session.service.close().await;
    told
}

/// The folder in which it all happens; removed at the end unless it was asked for.
struct Scratch {
    folder: PathBuf,
    kept: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            tracing::warn!("{} stays behind: {error}", self.folder.display());
        }
    }
}

fn io(error: std::io::Error) -> Error {
    Error::new("io", format!("the demo's folder cannot be made: {error}"), "choose another with --keep DIR")
}

impl Scratch {
    fn make(keep: Option<PathBuf>) -> Result<Self, Error> {
        let kept = keep.is_some();
        let own = || std::env::temp_dir().join(format!("actbook-demo-{}", std::process::id()));
        let folder = std::path::absolute(keep.unwrap_or_else(own)).map_err(io)?;
        if folder.join("book.db").exists() {
            let message = format!("{} holds a demo already", folder.display());
            return Err(Error::new("demo", message, "choose another folder, or delete this one"));
        }
        std::fs::create_dir_all(folder.join("work/website")).map_err(io)?;
        std::fs::write(folder.join("work/website/index.md"), "# Our website\n").map_err(io)?;
        let scratch = Self { folder, kept };
        std::fs::write(scratch.folder.join("plan.yaml"), PLAN).map_err(io)?;
        std::fs::write(scratch.folder.join("actbook.yaml"), scratch.config()?).map_err(io)?;
        Ok(scratch)
    }

    /// The binary's own demo server, as any config names any server.
    fn config(&self) -> Result<String, Error> {
        let program = std::env::current_exe().map_err(io)?;
        let server = json!({ "command": program, "args": ["demo-tools", "--folder", "work"] });
        let text = serde_json::to_string_pretty(&json!({ "mcpServers": { "files": server } }));
        text.map(|text| text + "\n").map_err(|error| io(error.into()))
    }

    async fn open(&self, output: &Output) -> Result<Session, Error> {
        let config = Config::load(&self.folder.join("actbook.yaml"))?;
        let database = self.folder.join("book.db").to_string_lossy().into_owned();
        Session::with(config, database, Options::default(), output.clone()).await
    }

    /// What a visitor would see: every file with its content, but for the server's own notes.
    fn files(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        let root = self.folder.join("work");
        collect(&root, &root, &mut found).map_err(io)?;
        Ok(found)
    }
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if !name.to_string_lossy().starts_with('.') {
            let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(shown, std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

async fn tell(session: &Session, scratch: &Scratch) -> Ended {
    let before = scratch.files()?;
    let story = Story { output: &session.output };
    plan(session, &story, scratch, &before).await?;
    let failed = fail(session, &story, scratch).await?;
    let undone = undo(session, &story, &failed).await?;
    let after = scratch.files()?;
    let as_before = before == after;
    story.chapter("The folder afterwards");
    story.files(&after);
    story.say(&match as_before {
        true => format!("{} the folder is as before: every file, byte for byte.", painted(GOOD, "✓")),
        false => format!("{} the folder is not as before.", painted(BAD, "✗")),
    });
    story.chapter("The journal");
    let verified = session.service.verify().await?;
    if session.output.json {
        let shown = json!({ "folder_as_before": as_before, "verified": verified, "execution": undone });
        session.output.entry(&shown);
    } else {
        journal::told(&session.output, &verified, "the journal");
    }
    story.say("Every intent, outcome and undo is in it, each entry chained to the one before by its hash:\nchange one byte, and `actbook verify` names the position.");
    story.end(scratch);
    let well = as_before && verified.ok && undone.status == Status::Compensated;
    Ok(if well { Exit::Done } else { Exit::Failed })
}

async fn plan(
    session: &Session,
    story: &Story<'_>,
    scratch: &Scratch,
    files: &BTreeMap<String, String>,
) -> Result<(), Error> {
    story.say("An agent wants to publish a release: six tool calls that belong together. It hands Actbook the plan.");
    story.say(&painted(QUIET, format_args!("Everything happens for real, in {}", scratch.folder.display())));
    story.files(files);
    story.chapter("The plan, checked before anything happens");
    let checked = session.service.check(PLAN, false).await;
    let Some(plan) = checked.plan.filter(|_| checked.check.ok) else {
        return Err(Error::findings("the demo's plan is refused", checked.check.findings));
    };
    story.say(&graph::draw(&plan, GraphFormat::Text));
    story.say("The live server has every tool the plan names. ↺ is the call that takes a step back; an\nannouncement cannot be taken back, so the point of no return lies right before it.");
    Ok(())
}

async fn fail(session: &Session, story: &Story<'_>, scratch: &Scratch) -> Result<ExecutionView, Error> {
    story.chapter("It runs");
    let eyes = Eyes::open()?;
    let service = &session.service;
    let saved = service.save_plan(&session.caller, PLAN, true).await?;
    let inputs = Some(json!({ "version": VERSION }));
    let started = service.start(&session.caller, saved.reference, saved.plan, inputs, true).await?;
    let view = foreground::seen(session, started.id.as_str(), eyes, Some(started.progress)).await?;
    interrupted(&view)?;
    story.chapter("A step failed, so it stopped and asks");
    let failed = view.steps.iter().find_map(|step| Some((&step.id, step.error.as_ref()?)));
    if let Some((step, error)) = failed {
        story.say(&format!("{} said no: {}", painted(BAD, step), error.message));
    }
    story
        .say("Three effects are already out in the world. Nothing is retried blindly, nothing is forgotten:");
    if let (Some(found), false) = (&view.brief, session.output.json) {
        brief::brief(&session.output, found);
    }
    story.files(&scratch.files()?);
    let id = super::signs::short(view.id.as_str());
    story.say(&format!(
        "A person or the agent may now answer `retry`, `skip`, … We say: {}",
        painted(BUSY, format_args!("actbook undo {id}"))
    ));
    Ok(view)
}

async fn undo(session: &Session, story: &Story<'_>, failed: &ExecutionView) -> Result<ExecutionView, Error> {
    story.chapter("Undo: in reverse order, whatever may have run");
    let (id, eyes) = (failed.id.as_str(), Eyes::open()?);
    session.service.undo(&session.caller, id, Some("the mirror cannot be reached".to_owned())).await?;
    let claimed = session.service.claim(&session.caller, id, false).await?;
    let view = foreground::seen(session, id, eyes, claimed).await?;
    interrupted(&view)?;
    story.say(&brief::headline(&view));
    Ok(view)
}

/// Ctrl-C pauses an execution, and ends the story.
fn interrupted(view: &ExecutionView) -> Result<(), Error> {
    match view.status {
        Status::Paused => {
            Err(Error::new("interrupted", "the demo was interrupted", "`actbook demo` begins anew"))
        }
        Status::Running
        | Status::Blocked
        | Status::Compensating
        | Status::Succeeded
        | Status::Failed
        | Status::Cancelled
        | Status::Compensated => Ok(()),
    }
}

/// The teller's voice; silent where programs read.
struct Story<'a> {
    output: &'a Output,
}

impl Story<'_> {
    fn say(&self, text: &str) {
        if !self.output.json {
            self.output.text(text);
        }
    }

    fn chapter(&self, title: &str) {
        self.say(&format!("\n{}", painted(STRONG, format_args!("── {title} ──"))));
    }

    fn files(&self, files: &BTreeMap<String, String>) {
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        self.say(&format!("  files: {}", names.join(", ")));
    }

    fn end(&self, scratch: &Scratch) {
        self.chapter("What next");
        let look = match scratch.kept {
            true => {
                let (folder, binary) = (scratch.folder.display(), "actbook --database book.db");
                format!("  cd {folder}\n  {binary} list     {binary} show EXECUTION     {binary} journal")
            }
            false => {
                "  actbook demo --keep story            the same, and leaves the folder to look around in"
                    .to_owned()
            }
        };
        self.say(&look);
        self.say("  actbook --config examples/actbook.yaml check examples/release.yaml\n                                       look a plan over, here one of the repository's\n  actbook --help                       everything else");
    }
}
