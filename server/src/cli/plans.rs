//! `plan`: saves, lists, shows, compares, draws and deletes saved plans.

use std::path::Path;
use std::sync::Arc;

use crate::error::{CommandLineCode, Corruption, DocumentKind, Error};
use crate::service::{PlanDiff, PlanFilter};
use actbook_engine::plan::Plan;
use serde_json::{Value, json};

use super::args::{self, GraphFormat, PlanListArgs};
use super::inputs::{self, PlanArgument};
use super::paint::strip_marks;
use super::session::Session;
use super::status_style::{QUIET, painted, short_id};
use super::table::{Table, cell, path_cell, styled_cell};
use super::{CommandResult, Exit, check, diff, graph_text, times};

/// Runs `actbook plan …`.
pub async fn plans(session: &Session, subcommand: args::PlanSubcommand) -> CommandResult {
    match subcommand {
        args::PlanSubcommand::Save { file, offline } => save(session, &file, offline).await,
        args::PlanSubcommand::List(args) => list(session, args).await,
        args::PlanSubcommand::Show { plan, version } => show(session, &plan, version).await,
        args::PlanSubcommand::Diff { plan, from, to } => compare(session, &plan, from, to).await,
        args::PlanSubcommand::Graph { plan, format, output } => {
            draw_plan(session, &plan, format, output.as_deref()).await
        }
        args::PlanSubcommand::Delete { plan } => delete(session, &plan).await,
    }
}

async fn save(session: &Session, file: &str, offline: bool) -> CommandResult {
    let text = inputs::read_text(Path::new(file))?;
    let saved = session.service.plans().save(&session.caller, &text, offline).await;
    let saved = saved.map_err(|error| inputs::point_to_check(error, file))?;
    let output = &session.output;
    if output.json {
        output.document(&saved);
        return Ok(Exit::Done);
    }
    check::print_findings(output, &saved.check.findings);
    let what = if saved.fresh { "saved" } else { "unchanged" };
    let id = short_id(saved.plan_id.as_str());
    output.line(format_args!("{what}: {} version {} ({id})", saved.name, saved.version));
    output.line(format_args!("  {}   runs it", run_command(&saved.plan)));
    Ok(Exit::Done)
}

/// The command that runs a saved plan, with the inputs that have to be given.
pub fn run_command(plan: &Plan) -> String {
    let inputs = plan.inputs.as_ref();
    let required = inputs.and_then(|schema| schema.get("required")?.as_array()).into_iter().flatten();
    let has_default =
        |name: &&str| inputs.is_some_and(|schema| schema["properties"][name].get("default").is_some());
    let missing = required.filter_map(Value::as_str).filter(|name| !has_default(name));
    let flags: String = missing.map(|name| format!(" --input {name}=…")).collect();
    format!("actbook run {}{flags}", plan.name)
}

async fn list(session: &Session, args: PlanListArgs) -> CommandResult {
    let words = args.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect();
    let filter = PlanFilter { kind: args.kind, task: args.task, words };
    let mut plans = session.service.plans().find(&filter).await?;
    plans.retain(|plan| args.project.is_none() || plan.project == args.project);
    let output = &session.output;
    if output.json {
        output.document(&plans);
        return Ok(Exit::Done);
    }
    if plans.is_empty() {
        output.line(if filter == PlanFilter::default() && args.project.is_none() {
            "no plans are saved; `actbook plan save FILE` saves one"
        } else {
            "no saved plan is of that kind; `actbook plan list` shows all"
        });
        return Ok(Exit::Done);
    }
    let several_projects = plans.iter().any(|plan| plan.project != plans[0].project);
    let heads = ["plan", "version", "steps", "saved", "id", "project"];
    let mut table = Table::new(0, &heads[..if several_projects { 6 } else { 5 }]);
    for plan in &plans {
        let (version, steps) = (plan.version.to_string(), plan.steps.to_string());
        let saved = times::local_date_time(&plan.saved_at);
        let mut row = vec![cell(&plan.name), cell(version), cell(steps), cell(saved)];
        row.push(styled_cell(QUIET, short_id(&plan.id)));
        if several_projects {
            row.push(path_cell(QUIET, plan.project.clone().unwrap_or_default()));
        }
        table.push_row(row);
    }
    table.print(output);
    Ok(Exit::Done)
}

async fn show(session: &Session, name: &str, version: Option<u64>) -> CommandResult {
    let (view, plan) = session.service.plans().version(name, version).await?;
    let document = parse_document(&plan)?;
    let output = &session.output;
    if output.json {
        output.document(&json!({ "plan": view, "document": document }));
        return Ok(Exit::Done);
    }
    let (version, saved) = (view.version, times::local_date_time(&view.saved_at));
    output.line(painted(
        QUIET,
        format_args!("# {} version {version}, saved {saved}, digest {}", view.name, view.digest),
    ));
    output.text(to_yaml(&document).trim_end());
    Ok(Exit::Done)
}

/// The plan's stored document, parsed; `Err` if the stored text is corrupt.
fn parse_document(plan: &Plan) -> Result<Value, Error> {
    let unreadable = |error: serde_json::Error| Error::Corrupt(Corruption::Entry(error.to_string()));
    serde_json::from_str(&plan.document).map_err(unreadable)
}

/// The document as YAML, or as JSON if YAML cannot express it.
fn to_yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

/// Prints the difference between two versions: `from`, by default the one before `to`; and `to`, by default
/// the newest.
async fn compare(session: &Session, name: &str, from: Option<u64>, to: Option<u64>) -> CommandResult {
    let difference = session.service.plans().diff(name, from, to).await?;
    let (old_document, new_document) =
        (parse_document(&difference.from_plan)?, parse_document(&difference.to_plan)?);
    let (old_text, new_text) = (to_yaml(&old_document), to_yaml(&new_document));
    let lines = diff::painted_lines(&old_text, &new_text);
    let output = &session.output;
    let PlanDiff { from: old, to: new, comparison, .. } = &difference;
    if output.json {
        let unstyled: Vec<String> = lines.iter().map(|line| strip_marks(line)).collect();
        output.document(&json!({
            "from": { "plan": old, "document": old_document },
            "to": { "plan": new, "document": new_document },
            "fields": comparison.fields,
            "steps": comparison.steps,
            "findings": comparison.findings,
            "diff": unstyled,
        }));
        return Ok(Exit::Done);
    }
    output.line(painted(QUIET, format_args!("# {} version {} → {}", new.name, old.version, new.version)));
    if old.version == new.version {
        output.line("both are the same version");
    } else if lines.is_empty() {
        output.line("the documents are equal; the tools that they were checked against differ");
    } else {
        lines.iter().for_each(|line| output.line(line));
    }
    check::print_findings(output, &comparison.findings);
    Ok(Exit::Done)
}

/// Loads a plan by file or name without saving it, or asking servers for their tools.
pub async fn load_plan(session: &Session, word: &str) -> Result<Arc<Plan>, Error> {
    match inputs::plan_source(word)? {
        PlanArgument::Saved(name) => Ok(session.service.plans().get(&name).await?.1),
        PlanArgument::Document(text) => {
            let checked = session.service.plans().check(&text, true).await;
            checked.plan.ok_or_else(|| Error::invalid(DocumentKind::Plan, checked.check.findings))
        }
    }
}

/// Draws a plan to a file, or to stdout.
async fn draw_plan(session: &Session, word: &str, format: GraphFormat, file: Option<&Path>) -> CommandResult {
    let plan = load_plan(session, word).await?;
    let drawn = graph_text::render(&plan, format);
    let Some(file) = file else {
        if session.output.json {
            session.output.document(&json!({ "graph": strip_marks(&drawn) }));
        } else {
            session.output.text(drawn.trim_end());
        }
        return Ok(Exit::Done);
    };
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", file.display());
        Error::command_line(CommandLineCode::Io, message, "choose another file")
    };
    std::fs::write(file, strip_marks(&drawn)).map_err(failed)?;
    session.output.notice(format_args!("written to {}", file.display()));
    Ok(Exit::Done)
}

async fn delete(session: &Session, name: &str) -> CommandResult {
    let deleted = session.service.plans().delete(&session.caller, name).await?;
    if session.output.json {
        session.output.document(&deleted);
    } else {
        let (name, version) = (&deleted.name, deleted.version);
        session.output.line(format_args!("deleted: {name} (last version {version}); its executions stay"));
    }
    Ok(Exit::Done)
}
