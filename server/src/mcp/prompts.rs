//! Prompts that teach: how to plan a piece of work with the tools that are there, how to look a plan over,
//! how to get out of a failure, how to carry on with nothing in memory.

use rmcp::model::{
    ErrorData, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::{Map, Value};

use super::Door;
use super::answer::{self, Doors};
use super::cures;
use super::tools::agenda_text;
use crate::error::Error;
use crate::service::{Service, ToolInfo, quote};

const TOOLS_SHOWN_MAX: usize = 40;
/// Of so many the schemas are shown: those that fit the goal best.
const SCHEMAS_SHOWN_MAX: usize = 8;
const ABOUT_CHARS_MAX: usize = 160;
const SCHEMA_CHARS_MAX: usize = 1_500;
const CHECK_CHARS_MAX: usize = 8_000;
const DOCUMENT_CHARS_MAX: usize = 40_000;
/// Executions that are told at length when work is taken over.
const WHOLE_MAX: usize = 3;

pub const NAMES: [&str; 4] = ["plan_work", "review_plan", "recover_execution", "resume_work"];

pub fn list() -> ListPromptsResult {
    let needed =
        |name: &str, about: &str| PromptArgument::new(name).with_description(about).with_required(true);
    let may =
        |name: &str, about: &str| PromptArgument::new(name).with_description(about).with_required(false);
    ListPromptsResult::with_all_items(vec![
        Prompt::new(
            NAMES[0],
            Some("Turn a goal into a plan, with the tools that are there"),
            Some(vec![
                needed("goal", "What is to be achieved"),
                may("complexity", "simple, moderate or complex"),
                may("domain", "Such as deployment, data, travel"),
            ]),
        ),
        Prompt::new(
            NAMES[1],
            Some("Look a saved plan over before it runs"),
            Some(vec![needed("plan_id", "A saved plan's id or name")]),
        ),
        Prompt::new(
            NAMES[2],
            Some("Get an execution out of a failure or an unknown outcome"),
            Some(vec![needed("execution_id", "The execution")]),
        ),
        Prompt::new(NAMES[3], Some("Carry on with what is under way, with nothing in memory"), None),
    ])
}

pub async fn get(
    door: &Door,
    doors: Doors,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<GetPromptResult, ErrorData> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |argument: &'static str| {
        given(argument)
            .ok_or_else(|| ErrorData::invalid_params(format!("the prompt `{name}` needs `{argument}`"), None))
    };
    check_arguments(name, arguments)?;
    let service = door.service();
    let text = match name {
        "plan_work" => plan_work(door, needed("goal")?, given("complexity"), given("domain")).await,
        "review_plan" => review_plan(service, needed("plan_id")?).await.map_err(refused)?,
        "recover_execution" => recover(service, doors, needed("execution_id")?).await.map_err(refused)?,
        "resume_work" => resume(door, doors).await.map_err(refused)?,
        _ => {
            let known = NAMES.join(", ");
            return Err(ErrorData::invalid_params(
                format!("Unknown prompt: {name}; there are {known}"),
                None,
            ));
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

/// An argument that the prompt does not take is refused with those that it takes.
fn check_arguments(name: &str, given: &Map<String, Value>) -> Result<(), ErrorData> {
    let Some(prompt) = list().prompts.into_iter().find(|prompt| prompt.name == name) else { return Ok(()) };
    let known: Vec<String> = prompt.arguments.into_iter().flatten().map(|argument| argument.name).collect();
    match given.keys().find(|argument| !known.contains(argument)) {
        Some(stranger) => {
            let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("`{stranger}` is no argument of the prompt `{name}`; it takes: {takes}");
            Err(ErrorData::invalid_params(message, None))
        }
        None => Ok(()),
    }
}

fn refused(error: Error) -> ErrorData {
    ErrorData::invalid_params(format!("{}; {}", error.message, cures::of(error.code, &error.cure)), None)
}

async fn plan_work(door: &Door, goal: &str, complexity: Option<&str>, domain: Option<&str>) -> String {
    let calls = door.profile().planning_calls();
    let tools = fitting(door.service(), &format!("{goal} {}", domain.unwrap_or_default())).await;
    let about = match (complexity, domain) {
        (None, None) => String::new(),
        (complexity, domain) => {
            let words: Vec<&str> = complexity.into_iter().chain(domain).collect();
            format!(" ({})", words.join(", "))
        }
    };
    format!(
        "Make an Actbook plan for this goal{about}: {goal}\n\n\
         1. Choose the calls from the tools below; what no tool can do becomes a step with an `action` that you do yourself.\n\
         2. Give every step that changes something a `compensation`, and put what cannot be taken back last.\n\
         3. Pass values with ${{steps.ID.output.FIELD}} and ${{inputs.NAME}} instead of writing them twice.\n\
         4. {calls}\n\n\
         Tools:\n{tools}\n\nAll fields of a plan: resource actbook://plan-format. Plans that run: actbook://examples/travel-booking."
    )
}

/// The live catalog, what fits the goal first.
async fn fitting(service: &Service, goal: &str) -> String {
    let words: Vec<String> = goal
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 3)
        .map(str::to_lowercase)
        .collect();
    let servers = service.list_tools().await;
    let mut tools: Vec<(usize, &ToolInfo)> =
        servers.iter().flat_map(|server| &server.tools).map(|tool| (fit(tool, &words), tool)).collect();
    tools.sort_by_key(|(fit, _)| std::cmp::Reverse(*fit));
    let lines = tools.iter().take(TOOLS_SHOWN_MAX).enumerate().map(|(index, (_, tool))| {
        let about = quote::quoted(tool.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let schema = match index < SCHEMAS_SHOWN_MAX {
            true => {
                format!("\n    arguments: {}", quote::line(&tool.input_schema.to_string(), SCHEMA_CHARS_MAX))
            }
            false => String::new(),
        };
        format!("- {}: {about}{schema}", tool.name)
    });
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => {
            "- none is configured: make a plan of `action` steps, or ask your user for servers".to_owned()
        }
        false => lines.join("\n"),
    }
}

fn fit(tool: &ToolInfo, words: &[String]) -> usize {
    let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default()).to_lowercase();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}

async fn review_plan(service: &Service, id: &str) -> Result<String, Error> {
    let (view, plan) = service.plan(id).await?;
    let check = service.check(&plan.document, false).await.check;
    let check = serde_json::to_string(&check).unwrap_or_default();
    Ok(format!(
        "Look over plan {} version {} before it runs. Say for each step whether its arguments do what its name says, \
         whether its compensation truly takes its effect back, whether `idempotent` and `read_only` are true, and what is \
         left behind if it stops there. Name the point of no return and whether it needs an approval. Then say in one line: \
         run it, or what to change first.\n\nThe check: {}\n\nThe plan:{}",
        quote::name(&view.name),
        view.version,
        quote::line(&check, CHECK_CHARS_MAX),
        quote::block(&plan.document, DOCUMENT_CHARS_MAX)
    ))
}

async fn recover(service: &Service, doors: Doors, id: &str) -> Result<String, Error> {
    let view = service.view(id).await?;
    let answer = answer::execution(&view, doors);
    Ok(format!(
        "An execution needs you. Read what happened, find out with read-only means what is so in the world (an `unknown` \
         step may have taken effect), decide, and give the reason with your answer: it is journaled. Prefer compensate when \
         the goal can no longer be reached; never answer did_not_happen without having looked.\n\n{}",
        answer.text
    ))
}

async fn resume(door: &Door, doors: Doors) -> Result<String, Error> {
    let agenda = door.service().agenda().await?;
    let mut text =
        "You are taking work over and remember nothing of it. This is what the journal knows.\n\n".to_owned();
    text.push_str(&agenda_text(door.profile(), &agenda).into_string());
    if agenda.items.is_empty() {
        text.push_str("\nNothing is under way.");
    }
    for view in
        agenda.items.iter().filter(|item| item.here).filter_map(|item| item.view.as_ref()).take(WHOLE_MAX)
    {
        text.push_str(&format!("\n\n{}", answer::execution(view, doors).text));
    }
    text.push_str("\n\nFollow the Next lines; status with an execution_id tells more of one.");
    Ok(text)
}
