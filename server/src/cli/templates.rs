//! `template`: lists, shows, saves, uses and deletes templates.

use crate::error::Error;
use crate::service::{InputView, SavedPlan, TemplateUse, TemplateView};
use actbook_engine::plan::Plan;
use serde_json::{Map, Value};

use super::args::{TemplateSubcommand, UseTemplateArgs};
use super::session::Session;
use super::status_style::{QUIET, painted, short_id};
use super::table::{Table, cell, styled_cell, truncate};
use super::{CommandResult, Exit, check, inputs, plans, run, times};

const ABOUT_SHOWN: usize = 60;
const INPUTS_SHOWN: usize = 50;

/// Runs `actbook template …`.
pub async fn templates(session: &Session, subcommand: TemplateSubcommand) -> CommandResult {
    let (service, caller) = (&session.service, &session.caller);
    match subcommand {
        TemplateSubcommand::List => list(session).await,
        TemplateSubcommand::Show { template } => show(session, &template).await,
        TemplateSubcommand::Use(args) => use_template(session, args).await,
        TemplateSubcommand::Save { plan, name, everywhere } => {
            let plan = plans::load_plan(session, &plan).await?;
            print_saved_template(
                session,
                &service.templates().save(caller, &plan, name.as_deref(), everywhere).await?,
            )
        }
        TemplateSubcommand::From { execution, name, everywhere } => print_saved_template(
            session,
            &service.templates().save_from_execution(caller, &execution, &name, everywhere).await?,
        ),
        TemplateSubcommand::Delete { template } => {
            let deleted = service.templates().delete(caller, &template).await?;
            if session.output.json {
                session.output.document(&deleted);
            } else {
                let name = &deleted.name;
                session.output.line(format_args!("deleted: {name}; plans that were made of it stay"));
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(session: &Session) -> CommandResult {
    let templates = session.service.templates().list().await?;
    let output = &session.output;
    if output.json {
        output.document(&templates);
        return Ok(Exit::Done);
    }
    let mut table = Table::new(0, &["template", "from", "inputs", "about"]);
    for template in &templates {
        let from = template.saved.as_ref().map_or("actbook", |saved| saved.author.as_str());
        let about = template.description.as_deref().unwrap_or_default();
        table.push_row(vec![
            cell(&template.name),
            styled_cell(QUIET, from),
            cell(truncate(&input_names(template), INPUTS_SHOWN)),
            styled_cell(QUIET, truncate(about, ABOUT_SHOWN)),
        ]);
    }
    table.print(output);
    Ok(Exit::Done)
}

/// The names of the inputs, those that are required with a star.
fn input_names(template: &TemplateView) -> String {
    let name = |input: &InputView| format!("{}{}", input.name, if input.required { "*" } else { "" });
    template.inputs.iter().map(name).collect::<Vec<_>>().join(" ")
}

async fn show(session: &Session, name: &str) -> CommandResult {
    let shown = session.service.templates().get(name).await?;
    let output = &session.output;
    if output.json {
        output.document(&shown);
        return Ok(Exit::Done);
    }
    for saved in &shown.history {
        let (version, at, author) = (saved.version, times::local_date_time(&saved.saved_at), &saved.author);
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

/// Prints that a template was saved, with its inputs.
fn print_saved_template(session: &Session, saved: &SavedPlan) -> CommandResult {
    let output = &session.output;
    if output.json {
        output.document(saved);
        return Ok(Exit::Done);
    }
    let what = if saved.fresh { "saved" } else { "unchanged" };
    output.line(format_args!("{what}: template {} version {}", saved.name, saved.version));
    for line in input_lines(&saved.plan) {
        output.line(painted(QUIET, line));
    }
    output.line(format_args!("  actbook template use {}   makes a plan of it", saved.name));
    Ok(Exit::Done)
}

/// The inputs of a plan with their defaults, a line each.
fn input_lines(plan: &Plan) -> Vec<String> {
    let properties = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let line = |(name, property): (&String, &Value)| match property.get("default") {
        Some(default) => format!("  {name} = {}", truncate(&default.to_string(), ABOUT_SHOWN)),
        None => format!("  {name} is required"),
    };
    properties.into_iter().flatten().map(line).collect()
}

/// Makes a plan from a template and saves it; with `--run` also runs it.
async fn use_template(session: &Session, args: UseTemplateArgs) -> CommandResult {
    let template = session.service.templates().get(&args.template).await?;
    let given = inputs::given_inputs(&args.input_args, &template.plan)?;
    // With `--run`, secret inputs are not saved as defaults of the plan: only the execution gets them.
    let (secret, saved_as_defaults): (Map<String, Value>, Map<String, Value>) =
        given.into_iter().partition(|(name, _)| args.run && is_secret(&template.plan, name));
    let template_use = TemplateUse {
        name: args.name,
        task: args.task,
        inputs: saved_as_defaults,
        offline: args.offline && !args.run,
    };
    let saved =
        session.service.templates().instantiate(&session.caller, &args.template, template_use).await?;
    if args.run {
        run::print_warnings(session, &saved.check);
        let inputs = (!secret.is_empty() || saved.plan.inputs.is_some()).then_some(Value::Object(secret));
        return run::start_and_follow(session, saved.reference, saved.plan, inputs, args.flags).await;
    }
    print_saved_plan(session, &saved)
}

/// Whether the plan's schema marks an input as `writeOnly`, so that it must not be stored.
fn is_secret(plan: &Plan, name: &str) -> bool {
    let property =
        plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(name)?.get("writeOnly"));
    property == Some(&Value::Bool(true))
}

/// Prints that a plan was saved, and how to run it.
fn print_saved_plan(session: &Session, saved: &SavedPlan) -> Result<Exit, Error> {
    let output = &session.output;
    if output.json {
        output.document(saved);
        return Ok(Exit::Done);
    }
    check::print_findings(output, &saved.check.findings);
    let what = if saved.fresh { "saved" } else { "unchanged" };
    let id = short_id(saved.plan_id.as_str());
    output.line(format_args!("{what}: plan {} version {} ({id})", saved.name, saved.version));
    output.line(format_args!("  {}   runs it", plans::run_command(&saved.plan)));
    Ok(Exit::Done)
}
