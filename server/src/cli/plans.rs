//! Saved plans: saved, listed, shown, drawn, deleted.

use std::path::Path;
use std::sync::Arc;

use actbook::error::Error;
use actbook_engine::plan::Plan;
use serde_json::{Value, json};

use super::args::{GraphFormat, Plan as Asked};
use super::inputs::{self, Named};
use super::paint::plain;
use super::session::Session;
use super::signs::{QUIET, painted, short};
use super::table::{Table, cell, coloured};
use super::{Ended, Exit, check, graph, times};

pub async fn plans(session: &Session, asked: Asked) -> Ended {
    match asked {
        Asked::Save { file, offline } => save(session, &file, offline).await,
        Asked::List => list(session).await,
        Asked::Show { plan } => show(session, &plan).await,
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

async fn list(session: &Session) -> Ended {
    let plans = session.service.plans().await?;
    let output = &session.output;
    if output.json {
        output.document(&plans);
        return Ok(Exit::Done);
    }
    if plans.is_empty() {
        output.line("no plans are saved; `actbook plan save FILE` saves one");
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

async fn show(session: &Session, name: &str) -> Ended {
    let (view, plan) = session.service.plan(name).await?;
    let unreadable =
        |error: serde_json::Error| Error::new("corrupt", error.to_string(), "run `actbook verify`");
    let document: Value = serde_json::from_str(&plan.document).map_err(unreadable)?;
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
    let yaml = serde_saphyr::to_string(&document);
    output.text(yaml.unwrap_or_else(|_| plan.document.clone()).trim_end());
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
