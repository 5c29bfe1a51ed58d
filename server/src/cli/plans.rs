//! Saved plans: saved, listed, shown, compared, drawn, deleted.

use std::path::Path;
use std::sync::Arc;

use actbook::error::Error;
use actbook::service::PlanFilter;
use actbook_engine::plan::Plan;
use serde_json::{Value, json};

use super::args::{GraphFormat, Plan as Asked, PlanList};
use super::inputs::{self, Named};
use super::paint::plain;
use super::session::Session;
use super::signs::{QUIET, painted, short};
use super::table::{Table, cell, coloured};
use super::{Ended, Exit, check, diff, graph, times};

pub async fn plans(session: &Session, asked: Asked) -> Ended {
    match asked {
        Asked::Save { file, offline } => save(session, &file, offline).await,
        Asked::List(asked) => list(session, asked).await,
        Asked::Show { plan, version } => show(session, &plan, version).await,
        Asked::Diff { plan, from, to } => compare(session, &plan, from, to).await,
        Asked::Graph { plan, format, output } => draw(session, &plan, format, output.as_deref()).await,
        Asked::Delete { plan } => delete(session, &plan).await,
    }
}

async fn save(session: &Session, file: &str, offline: bool) -> Ended {
    let text = inputs::read(Path::new(file))?;
    let saved = session.service.save_plan(&session.caller, &text, offline).await?;
    let output = &session.output;
    if output.json {
        output.document(&saved);
        return Ok(Exit::Done);
    }
    check::findings(output, &saved.check.findings);
    let what = if saved.fresh { "saved" } else { "unchanged" };
    let id = short(saved.plan_id.as_str());
    output.line(format_args!("{what}: {} version {} ({id})", saved.name, saved.version));
    output.line(format_args!("  actbook run {}   runs it", saved.name));
    Ok(Exit::Done)
}

async fn list(session: &Session, asked: PlanList) -> Ended {
    let words = asked.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect();
    let filter = PlanFilter { kind: asked.kind, task: asked.task, words };
    let plans = session.service.find_plans(&filter).await?;
    let output = &session.output;
    if output.json {
        output.document(&plans);
        return Ok(Exit::Done);
    }
    if plans.is_empty() {
        output.line(match filter == PlanFilter::default() {
            true => "no plans are saved; `actbook plan save FILE` saves one",
            false => "no saved plan is of that kind; `actbook plan list` shows all",
        });
        return Ok(Exit::Done);
    }
    let mut table = Table::new(0, &["plan", "version", "steps", "saved", "id"]);
    for plan in &plans {
        let (version, steps) = (plan.version.to_string(), plan.steps.to_string());
        let saved = times::date(&plan.saved_at);
        table.row(vec![
            cell(&plan.name),
            cell(version),
            cell(steps),
            cell(saved),
            coloured(QUIET, short(&plan.id)),
        ]);
    }
    table.print(output);
    Ok(Exit::Done)
}

async fn show(session: &Session, name: &str, version: Option<u64>) -> Ended {
    let (view, plan) = session.service.plan_version(name, version).await?;
    let document = document(&plan)?;
    let output = &session.output;
    if output.json {
        output.document(&json!({ "plan": view, "document": document }));
        return Ok(Exit::Done);
    }
    let (version, saved) = (view.version, times::date(&view.saved_at));
    output.line(painted(
        QUIET,
        format_args!("# {} version {version}, saved {saved}, digest {}", view.name, view.digest),
    ));
    output.text(yaml(&document).trim_end());
    Ok(Exit::Done)
}

fn document(plan: &Plan) -> Result<Value, Error> {
    let unreadable =
        |error: serde_json::Error| Error::new("corrupt", error.to_string(), "run `actbook verify`");
    serde_json::from_str(&plan.document).map_err(unreadable)
}

fn yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

/// The newest version against the one before, or the versions that were named.
async fn compare(session: &Session, name: &str, from: Option<u64>, to: Option<u64>) -> Ended {
    let (new, new_plan) = session.service.plan_version(name, to).await?;
    let before = from.or_else(|| new.version.checked_sub(1).filter(|before| *before > 0));
    let Some(before) = before else {
        let message = format!("version 1 of the plan `{}` has none before it", new.name);
        return Err(Error::new("no_such_version", message, "name two versions with --from and --to"));
    };
    let (old, old_plan) = session.service.plan_version(name, Some(before)).await?;
    let (old_document, new_document) = (document(&old_plan)?, document(&new_plan)?);
    let (old_text, new_text) = (yaml(&old_document), yaml(&new_document));
    let lines = diff::painted_lines(&diff::lines(&old_text, &new_text));
    let output = &session.output;
    if output.json {
        let plain: Vec<String> = lines.iter().map(|line| plain(line)).collect();
        output.document(&json!({
            "from": { "plan": old, "document": old_document },
            "to": { "plan": new, "document": new_document },
            "diff": plain,
        }));
        return Ok(Exit::Done);
    }
    output.line(painted(QUIET, format_args!("# {} version {} → {}", new.name, old.version, new.version)));
    match lines.is_empty() {
        true => output.line("the documents are equal; the tools that they were checked against differ"),
        false => lines.iter().for_each(|line| output.line(line)),
    }
    Ok(Exit::Done)
}

/// A plan by file or name, for looking at only.
pub async fn named(session: &Session, word: &str) -> Result<Arc<Plan>, Error> {
    match inputs::plan(word)? {
        Named::Saved(name) => Ok(session.service.plan(&name).await?.1),
        Named::Document(text) => {
            let checked = session.service.check(&text, true).await;
            checked.plan.ok_or_else(|| Error::findings("the plan is refused", checked.check.findings))
        }
    }
}

async fn draw(session: &Session, word: &str, format: GraphFormat, file: Option<&Path>) -> Ended {
    let plan = named(session, word).await?;
    let drawn = graph::draw(&plan, format);
    let Some(file) = file else {
        match session.output.json {
            true => session.output.document(&json!({ "graph": plain(&drawn) })),
            false => session.output.text(drawn.trim_end()),
        }
        return Ok(Exit::Done);
    };
    let failed = |error: std::io::Error| {
        Error::new("io", format!("{} cannot be written: {error}", file.display()), "choose another file")
    };
    std::fs::write(file, plain(&drawn)).map_err(failed)?;
    session.output.aside(format_args!("written to {}", file.display()));
    Ok(Exit::Done)
}

async fn delete(session: &Session, name: &str) -> Ended {
    let deleted = session.service.delete_plan(&session.caller, name).await?;
    match session.output.json {
        true => session.output.document(&deleted),
        false => {
            let (name, version) = (&deleted.name, deleted.version);
            session
                .output
                .line(format_args!("deleted: {name} (last version {version}); its executions stay"));
        }
    }
    Ok(Exit::Done)
}
