//! `actbook demo`: a tour in a minute, through the same service calls as any run. It uses a scratch folder
//! with its own config, database and downstream server, and runs a plan that fails half-way and is undone.

mod guarded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::{Config, DatabaseOptions};
use crate::error::{CommandLineCode, DocumentKind, Error};
use crate::service::view::ExecutionView;
use actbook_engine::policy::ExecutionStatus;
use serde_json::json;

use super::args::{GraphFormat, ServeArgs};
use super::foreground::{self, Events};
use super::output::Output;
use super::session::Session;
use super::status_style::{BAD, BUSY, GOOD, QUIET, STRONG, painted};
use super::{CommandResult, Exit, brief, graph_text, journal, serve};
pub use guarded::demo_guard;

const PLAN: &str = include_str!("demo/plan.yaml");
const VERSION: &str = "1.2";

/// Runs the demo in a temporary folder, or in `keep`, which is left there. With `serves`, then serves its
/// dashboard until a signal arrives.
pub async fn demo(output: &Output, keep: Option<PathBuf>, serves: bool) -> CommandResult {
    super::signals::start_signal_task()?;
    let scratch = ScratchFolder::create(keep, serves)?;
    let session = scratch.open_session(output).await?;
    let mut ended = run_story(&session, &scratch).await;
    if serves && ended.is_ok() {
        DemoNarrator { output }.say("\nThe dashboard shows this execution until Ctrl-C:");
        ended = serve::serve(&session, ServeArgs::on_any_port()).await;
    }
    session.service.close().await;
    ended
}

/// The folder that the demo runs in; removed when dropped, unless the user named it.
struct ScratchFolder {
    folder: PathBuf,
    is_kept: bool,
    /// The dashboard shows it afterwards.
    is_served: bool,
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            tracing::warn!("the demo folder {} could not be removed: {error}", self.folder.display());
        }
    }
}

fn folder_error(error: std::io::Error) -> Error {
    let message = format!("the demo's folder cannot be created: {error}");
    Error::command_line(CommandLineCode::Io, message, "choose another with --keep DIR")
}

impl ScratchFolder {
    /// Creates the folder with a config, the plan and a small website; an error if it holds a demo already.
    fn create(keep: Option<PathBuf>, is_served: bool) -> Result<Self, Error> {
        let kept = keep.is_some();
        let temporary = || std::env::temp_dir().join(format!("actbook-demo-{}", std::process::id()));
        let folder = std::path::absolute(keep.unwrap_or_else(temporary)).map_err(folder_error)?;
        if folder.join("book.db").exists() {
            let message = format!("{} holds a demo already", folder.display());
            let cure = "choose another folder, or delete this one";
            return Err(Error::command_line(CommandLineCode::Demo, message, cure));
        }
        std::fs::create_dir_all(folder.join("work/website")).map_err(folder_error)?;
        std::fs::write(folder.join("work/website/index.md"), "# Our website\n").map_err(folder_error)?;
        let scratch = Self { folder, is_kept: kept, is_served };
        std::fs::write(scratch.folder.join("plan.yaml"), PLAN).map_err(folder_error)?;
        std::fs::write(scratch.folder.join("actbook.yaml"), scratch.config_text()?).map_err(folder_error)?;
        Ok(scratch)
    }

    /// The text of a config that names this binary's `demo-tools` as its only server.
    fn config_text(&self) -> Result<String, Error> {
        let program = std::env::current_exe().map_err(folder_error)?;
        let server = json!({ "command": program, "args": ["demo-tools", "--folder", "work"] });
        let text = serde_json::to_string_pretty(&json!({ "mcpServers": { "files": server } }));
        text.map(|text| text + "\n").map_err(|error| folder_error(error.into()))
    }

    async fn open_session(&self, output: &Output) -> Result<Session, Error> {
        let config = Config::load(&self.folder.join("actbook.yaml"))?;
        let database = self.folder.join("book.db").to_string_lossy().into_owned();
        Session::open_with(config, database, DatabaseOptions::default(), output.clone()).await
    }

    /// The files that the tools work on, by path with their content, without the server's hidden files.
    fn read_files(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        let root = self.folder.join("work");
        collect_files(&root, &root, &mut found).map_err(folder_error)?;
        Ok(found)
    }
}

/// Adds the files below `folder` to `found`, by their path relative to `root`; hidden ones are left out.
fn collect_files(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            collect_files(root, &path, found)?;
        } else if !name.to_string_lossy().starts_with('.') {
            let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(shown, std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Runs the demo from plan to undo and prints it; `Exit::Failed` unless the execution is compensated, the folder
/// as before and the journal intact.
async fn run_story(session: &Session, scratch: &ScratchFolder) -> CommandResult {
    let before = scratch.read_files()?;
    let story = DemoNarrator { output: &session.output };
    show_plan(session, &story, scratch, &before).await?;
    let failed = run_until_failure(session, &story, scratch).await?;
    let undone = undo_execution(session, &story, &failed).await?;
    let after = scratch.read_files()?;
    let as_before = before == after;
    story.chapter("The folder afterwards");
    story.print_file_names(&after);
    story.say(&if as_before {
        format!("{} the folder is as before: every file, byte for byte.", painted(GOOD, "✓"))
    } else {
        format!("{} the folder is not as before.", painted(BAD, "✗"))
    });
    story.chapter("The journal");
    let verified = session.service.journal().verify().await?;
    if session.output.json {
        let shown = json!({ "folder_as_before": as_before, "verified": verified, "execution": undone });
        session.output.entry(&shown);
    } else {
        journal::print_verified(&session.output, &verified, "the journal");
    }
    story.say("Every intent, outcome and undo is in it, each entry chained to the one before by its hash:\nchange one byte, and `actbook verify` names the position.");
    story.print_next_commands(scratch);
    let succeeded = as_before && verified.ok && undone.status == ExecutionStatus::Compensated;
    Ok(if succeeded { Exit::Done } else { Exit::Failed })
}

/// Checks the demo's plan against the live server and draws it.
async fn show_plan(
    session: &Session,
    story: &DemoNarrator<'_>,
    scratch: &ScratchFolder,
    files: &BTreeMap<String, String>,
) -> Result<(), Error> {
    story.say("An agent wants to publish a release: six tool calls that belong together. It hands Actbook the plan.");
    story.say(&painted(QUIET, format_args!("Everything happens for real, in {}", scratch.folder.display())));
    story.print_file_names(files);
    story.chapter("The plan, checked before anything happens");
    let checked = session.service.plans().check(PLAN, false).await;
    let Some(plan) = checked.plan.filter(|_| checked.check.ok) else {
        return Err(Error::invalid(DocumentKind::DemoPlan, checked.check.findings));
    };
    story.say(&graph_text::render(&plan, GraphFormat::Text));
    story.say("The live server has every tool the plan names. ↺ is the call that takes a step back; an\nannouncement cannot be taken back, so the point of no return lies right before it.");
    Ok(())
}

/// Runs the plan until a step fails, and prints the recovery brief.
async fn run_until_failure(
    session: &Session,
    story: &DemoNarrator<'_>,
    scratch: &ScratchFolder,
) -> Result<ExecutionView, Error> {
    story.chapter("It runs");
    let events = Events::open()?;
    let service = &session.service;
    let saved = service.plans().save(&session.caller, PLAN, true).await?;
    let inputs = Some(json!({ "version": VERSION }));
    let started =
        service.executions().start(&session.caller, saved.reference, saved.plan, inputs, true).await?;
    let view =
        foreground::watch_quietly(session, started.id.as_str(), events, Some(started.progress)).await?;
    refuse_if_interrupted(&view)?;
    story.chapter("A step failed, so it stopped and asks");
    let failed = view.steps.iter().find_map(|step| Some((&step.id, step.error.as_ref()?)));
    if let Some((step, error)) = failed {
        story.say(&format!("{} failed: {}", painted(BAD, step), error.message));
    }
    story
        .say("Three effects are already out in the world. Nothing is retried blindly, nothing is forgotten:");
    if !session.output.json {
        brief::print_brief(&session.output, &view);
    }
    story.print_file_names(&scratch.read_files()?);
    let id = super::status_style::short_id(view.id.as_str());
    story.say(&format!(
        "A person or the agent may now answer `retry`, `skip`, … We say: {}",
        painted(BUSY, format_args!("actbook undo {id}"))
    ));
    Ok(view)
}

/// Undoes the failed execution and prints how it ended.
async fn undo_execution(
    session: &Session,
    story: &DemoNarrator<'_>,
    failed: &ExecutionView,
) -> Result<ExecutionView, Error> {
    story.chapter("Undo: in reverse order, whatever may have run");
    let (id, events) = (failed.id.as_str(), Events::open()?);
    session
        .service
        .executions()
        .undo(&session.caller, id, Some("the mirror cannot be reached".to_owned()))
        .await?;
    let claimed = session.service.executions().claim(&session.caller, id, false).await?;
    let view = foreground::watch_quietly(session, id, events, claimed).await?;
    refuse_if_interrupted(&view)?;
    story.say(&brief::headline(&view));
    Ok(view)
}

/// An error if the execution is paused: Ctrl-C pauses it, and the demo cannot continue.
fn refuse_if_interrupted(view: &ExecutionView) -> Result<(), Error> {
    match view.status {
        ExecutionStatus::Paused => {
            let message = "the demo was interrupted";
            Err(Error::command_line(CommandLineCode::Interrupted, message, "`actbook demo` starts again"))
        }
        ExecutionStatus::Running
        | ExecutionStatus::Blocked
        | ExecutionStatus::Compensating
        | ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled
        | ExecutionStatus::Compensated => Ok(()),
    }
}

/// Prints the demo's explanations; with `--json` it prints nothing.
struct DemoNarrator<'a> {
    output: &'a Output,
}

impl DemoNarrator<'_> {
    fn say(&self, text: &str) {
        if !self.output.json {
            self.output.text(text);
        }
    }

    fn chapter(&self, title: &str) {
        self.say(&format!("\n{}", painted(STRONG, format_args!("── {title} ──"))));
    }

    fn print_file_names(&self, files: &BTreeMap<String, String>) {
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        self.say(&format!("  files: {}", names.join(", ")));
    }

    fn print_next_commands(&self, scratch: &ScratchFolder) {
        self.chapter("What next");
        let look = if scratch.is_kept {
            let (folder, binary) = (scratch.folder.display(), "actbook --database book.db");
            format!(
                "  cd {folder}\n  {binary} list     {binary} show EXECUTION     {binary} journal\n  \
                 {binary} --config actbook.yaml check plan.yaml      checks the plan"
            )
        } else {
            "  actbook demo --keep story            the same, and leaves the folder to look around in"
                .to_owned()
        };
        if !scratch.is_served {
            self.say("  actbook demo --serve                 the same, and shows it in the dashboard");
        }
        self.say(&look);
        self.say("  actbook help start                   five minutes with a real client and real servers\n  actbook --help                       everything else");
    }
}
