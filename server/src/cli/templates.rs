//! Templates: listed, shown, made, used, deleted.

use actbook::error::Error;
use actbook::service::{InputView, PlanSaved, TemplateUse, TemplateView};
use actbook_engine::plan::Plan;
use serde_json::{Map, Value};

use super::args::{Template as Asked, UseTemplate};
use super::session::Session;
use super::signs::{QUIET, painted, short};
use super::table::{Table, cell, coloured, cut};
use super::{Ended, Exit, check, inputs, plans, run, times};

const ABOUT_SHOWN: usize = 60;
const INPUTS_SHOWN: usize = 50;

pub async fn templates(session: &Session, asked: Asked) -> Ended {
    let (service, caller) = (&session.service, &session.caller);
    match asked {
        Asked::List => list(session).await,
        Asked::Show { template } => show(session, &template).await,
        Asked::Use(asked) => used(session, asked).await,
        Asked::Save { plan, name, everywhere } => {
            let plan = plans::named(session, &plan).await?;
            made(session, &service.save_template(caller, &plan, name.as_deref(), everywhere).await?)
        }
        Asked::From { execution, name, everywhere } => {
            made(session, &service.template_from(caller, &execution, &name, everywhere).await?)
        }
        Asked::Delete { template } => {
            let deleted = service.delete_template(caller, &template).await?;
            match session.output.json {
                true => session.output.document(&deleted),
                false => session
                    .output
                    .line(format_args!("deleted: {}; plans that were made of it stay", deleted.name)),
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(session: &Session) -> Ended {
    let templates = session.service.templates().await?;
    let output = &session.output;
    if output.json {
        output.document(&templates);
        return Ok(Exit::Done);
    }
    let mut table = Table::new(0, &["template", "from", "inputs", "about"]);
    for template in &templates {
        let from = template.saved.as_ref().map_or("actbook", |saved| saved.author.as_str());
        let about = template.description.as_deref().unwrap_or_default();
        table.row(vec![
            cell(&template.name),
            coloured(QUIET, from),
            cell(cut(&names(template), INPUTS_SHOWN)),
            coloured(QUIET, cut(about, ABOUT_SHOWN)),
        ]);
    }
    table.print(output);
    Ok(Exit::Done)
}

/// What has to be given comes with a star.
fn names(template: &TemplateView) -> String {
    let name = |input: &InputView| format!("{}{}", input.name, if input.required { "*" } else { "" });
    template.inputs.iter().map(name).collect::<Vec<_>>().join(" ")
}

async fn show(session: &Session, name: &str) -> Ended {
    let shown = session.service.template(name).await?;
    let output = &session.output;
    if output.json {
        output.document(&shown);
        return Ok(Exit::Done);
    }
    for saved in &shown.history {
        let (version, at, author) = (saved.version, times::date(&saved.saved_at), &saved.author);
        let line = format!("# version {version}, saved {at} by {author}, at position {}", saved.position);
        output.line(painted(QUIET, line));
    }
    let text = match shown.text {
        Some(text) => text.to_owned(),
        None => serde_saphyr::to_string(&shown.document).unwrap_or_else(|_| shown.document.to_string()),
    };
    output.text(text.trim_end());
    Ok(Exit::Done)
}

fn made(session: &Session, saved: &PlanSaved) -> Ended {
    let output = &session.output;
    if output.json {
        output.document(saved);
        return Ok(Exit::Done);
    }
    let what = if saved.fresh { "saved" } else { "unchanged" };
    output.line(format_args!("{what}: template {} version {}", saved.name, saved.version));
    for line in defaults(&saved.plan) {
        output.line(painted(QUIET, line));
    }
    output.line(format_args!("  actbook template use {}   makes a plan of it", saved.name));
    Ok(Exit::Done)
}

/// Its inputs, a line each.
fn defaults(plan: &Plan) -> Vec<String> {
    let properties = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let line = |(name, property): (&String, &Value)| match property.get("default") {
        Some(default) => format!("  {name} = {}", cut(&default.to_string(), ABOUT_SHOWN)),
        None => format!("  {name} has to be given"),
    };
    properties.into_iter().flatten().map(line).collect()
}

async fn used(session: &Session, asked: UseTemplate) -> Ended {
    let template = session.service.template(&asked.template).await?;
    let given = inputs::given(&asked.given, &template.plan)?;
    // With `--run`, what may not be kept goes to the execution alone.
    let (secret, kept): (Map<String, Value>, Map<String, Value>) =
        given.into_iter().partition(|(name, _)| asked.run && is_secret(&template.plan, name));
    let used = TemplateUse {
        name: asked.name,
        task: asked.task,
        inputs: kept,
        offline: asked.offline && !asked.run,
    };
    let saved = session.service.use_template(&session.caller, &asked.template, used).await?;
    if asked.run {
        run::warn(session, &saved.check);
        let inputs = (!secret.is_empty() || saved.plan.inputs.is_some()).then_some(Value::Object(secret));
        return run::start(session, saved.reference, saved.plan, inputs, asked.how).await;
    }
    told(session, &saved)
}

fn is_secret(plan: &Plan, name: &str) -> bool {
    let property =
        plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(name)?.get("writeOnly"));
    property == Some(&Value::Bool(true))
}

fn told(session: &Session, saved: &PlanSaved) -> Result<Exit, Error> {
    let output = &session.output;
    if output.json {
        output.document(saved);
        return Ok(Exit::Done);
    }
    check::findings(output, &saved.check.findings);
    let what = if saved.fresh { "saved" } else { "unchanged" };
    let id = short(saved.plan_id.as_str());
    output.line(format_args!("{what}: plan {} version {} ({id})", saved.name, saved.version));
    output.line(format_args!("  actbook run {}   runs it", saved.name));
    Ok(Exit::Done)
}
