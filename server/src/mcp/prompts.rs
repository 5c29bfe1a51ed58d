//! The MCP prompts: plan work with the available tools, review a plan, recover an execution from a failure,
//! and resume work with an empty context.

use rmcp::model::{
    ErrorData, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::{Map, Value};

use super::McpEndpoint;
use super::cures;
use super::request::AgentRequest;
use super::tools::agenda_text;
use crate::error::Error;
use crate::service::{Service, ToolInfo, quote};

const TOOLS_SHOWN_MAX: usize = 40;
/// The best matching tools, which are shown with their schemas.
const SCHEMAS_SHOWN_MAX: usize = 8;
const ABOUT_CHARS_MAX: usize = 160;
const GOAL_CHARS_MAX: usize = 20_000;
const SCHEMA_CHARS_MAX: usize = 1_500;
const CHECK_CHARS_MAX: usize = 8_000;
/// Most characters of the plan's document in the prompt `review_plan`.
const DOCUMENT_CHARS_MAX: usize = 40_000;
/// Executions that the prompt `resume_work` shows in detail.
const EXECUTIONS_SHOWN_MAX: usize = 3;

/// The names of all prompts, in the order of `list`.
pub const PROMPT_NAMES: [&str; 4] = ["plan_work", "review_plan", "recover_execution", "resume_work"];

/// Answers `prompts/list`.
pub fn list() -> ListPromptsResult {
    let required =
        |name: &str, about: &str| PromptArgument::new(name).with_description(about).with_required(true);
    let optional =
        |name: &str, about: &str| PromptArgument::new(name).with_description(about).with_required(false);
    ListPromptsResult::with_all_items(vec![
        Prompt::new(
            PROMPT_NAMES[0],
            Some("Turn a goal into a plan, with the tools that are there"),
            Some(vec![
                required("goal", "What is to be achieved"),
                optional("complexity", "simple, moderate or complex"),
                optional("domain", "Such as deployment, data, travel"),
            ]),
        ),
        Prompt::new(
            PROMPT_NAMES[1],
            Some("Look a saved plan over before it runs"),
            Some(vec![required("plan_id", "A saved plan's id or name")]),
        ),
        Prompt::new(
            PROMPT_NAMES[2],
            Some("Get an execution out of a failure or an unknown outcome"),
            Some(vec![required("execution_id", "The execution")]),
        ),
        Prompt::new(PROMPT_NAMES[3], Some("Carry on with what is under way, with nothing in memory"), None),
    ])
}

/// Answers `prompts/get`. Err: a wrong or missing argument, or an unknown prompt, plan or execution.
pub async fn get(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<GetPromptResult, ErrorData> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let required = |argument: &'static str| {
        given(argument)
            .ok_or_else(|| ErrorData::invalid_params(format!("the prompt `{name}` needs `{argument}`"), None))
    };
    check_arguments(name, arguments)?;
    let service = endpoint.service();
    let text = match name {
        "plan_work" => plan_work(endpoint, required("goal")?, given("complexity"), given("domain")).await,
        "review_plan" => review_plan(service, required("plan_id")?).await.map_err(to_error_data)?,
        "recover_execution" => {
            recover_execution(endpoint, request, required("execution_id")?).await.map_err(to_error_data)?
        }
        "resume_work" => resume_work(endpoint, request).await.map_err(to_error_data)?,
        _ => {
            let known = PROMPT_NAMES.join(", ");
            return Err(ErrorData::invalid_params(
                format!("Unknown prompt: {name}; there are {known}"),
                None,
            ));
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

/// Refuses an argument that the prompt does not take, and names those that it takes.
fn check_arguments(name: &str, given: &Map<String, Value>) -> Result<(), ErrorData> {
    let Some(prompt) = list().prompts.into_iter().find(|prompt| prompt.name == name) else { return Ok(()) };
    let known: Vec<String> = prompt.arguments.into_iter().flatten().map(|argument| argument.name).collect();
    match given.keys().find(|argument| !known.contains(argument)) {
        Some(unknown) => {
            let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("`{unknown}` is no argument of the prompt `{name}`; it takes: {takes}");
            Err(ErrorData::invalid_params(message, None))
        }
        None => Ok(()),
    }
}

/// A service error as a protocol error, with the cure for an agent.
fn to_error_data(error: Error) -> ErrorData {
    ErrorData::invalid_params(
        format!("{}; {}", error.message, cures::cure_for_agent(error.code, &error.cure)),
        None,
    )
}

/// The text of the prompt `plan_work`.
async fn plan_work(
    endpoint: &McpEndpoint,
    goal: &str,
    complexity: Option<&str>,
    domain: Option<&str>,
) -> String {
    let calls = endpoint.profile().planning_calls();
    let tools =
        matching_tools_text(endpoint.service(), &format!("{goal} {}", domain.unwrap_or_default())).await;
    let about = match (complexity, domain) {
        (None, None) => String::new(),
        (complexity, domain) => {
            let qualifiers = complexity.into_iter().chain(domain);
            let qualifiers: Vec<String> =
                qualifiers.map(|text| quote::quoted(text, ABOUT_CHARS_MAX)).collect();
            format!(" ({})", qualifiers.join(", "))
        }
    };
    let goal = quote::block(goal, GOAL_CHARS_MAX);
    format!(
        "Make an Actbook plan for this goal{about}:{goal}\n\n\
         1. Choose the calls from the tools below; what no tool can do becomes a step with an `action` that you do yourself.\n\
         2. Give every step that changes something a `compensation`, and put what cannot be taken back last.\n\
         3. Pass values with ${{steps.ID.output.FIELD}} and ${{inputs.NAME}} instead of writing them twice.\n\
         4. {calls}\n\n\
         Tools:\n{tools}\n\nAll fields of a plan: resource actbook://plan-format. Plans that run: actbook://examples/travel-booking."
    )
}

/// The live catalog as lines, the tools that match the goal best first.
async fn matching_tools_text(service: &Service, goal: &str) -> String {
    let words: Vec<String> = goal
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 3)
        .map(str::to_lowercase)
        .collect();
    let servers = service.list_tools().await;
    let mut tools: Vec<(usize, &ToolInfo)> = servers
        .iter()
        .flat_map(|server| &server.tools)
        .map(|tool| (count_matching_words(tool, &words), tool))
        .collect();
    tools.sort_by_key(|(matches, _)| std::cmp::Reverse(*matches));
    let lines = tools.iter().take(TOOLS_SHOWN_MAX).enumerate().map(|(index, (_, tool))| {
        let about = quote::quoted(tool.description.as_deref().unwrap_or_default(), ABOUT_CHARS_MAX);
        let schema = if index < SCHEMAS_SHOWN_MAX {
            format!("\n    arguments: {}", quote::line(&tool.input_schema.to_string(), SCHEMA_CHARS_MAX))
        } else {
            String::new()
        };
        format!("- {}: {about}{schema}", tool.name)
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        "- none is configured: make a plan of `action` steps, or ask your user for servers".to_owned()
    } else {
        lines.join("\n")
    }
}

/// How many of the words occur in the tool's name or description.
fn count_matching_words(tool: &ToolInfo, words: &[String]) -> usize {
    let text = format!("{} {}", tool.name, tool.description.as_deref().unwrap_or_default()).to_lowercase();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}

/// The text of the prompt `review_plan`.
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

/// The text of the prompt `recover_execution`.
async fn recover_execution(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
) -> Result<String, Error> {
    let answer = endpoint.execution_answer(request, endpoint.service().view(id).await?).await?;
    Ok(format!(
        "An execution needs you. Read what happened, find out with read-only means what is so in the world (an `unknown` \
         step may have taken effect), decide, and give the reason with your answer: it is journaled. Prefer compensate when \
         the goal can no longer be reached; never answer did_not_happen without having looked.\n\n{}",
        answer.text
    ))
}

/// The text of the prompt `resume_work`.
async fn resume_work(endpoint: &McpEndpoint, request: &AgentRequest) -> Result<String, Error> {
    let mut agenda = endpoint.service().agenda().await?;
    endpoint.address_agenda(request, &mut agenda).await?;
    let mut text =
        "You are taking work over and remember nothing of it. This is what the journal knows.\n\n".to_owned();
    text.push_str(&agenda_text(endpoint.profile(), &agenda).into_string());
    if agenda.items.is_empty() {
        text.push_str("\nNothing is under way.");
    }
    for view in agenda
        .items
        .iter()
        .filter(|item| item.here)
        .filter_map(|item| item.view.as_ref())
        .take(EXECUTIONS_SHOWN_MAX)
    {
        text.push_str(&format!("\n\n{}", endpoint.execution_answer(request, view.clone()).await?.text));
    }
    text.push_str("\n\nFollow the Next lines; status with an execution_id tells more of one.");
    Ok(text)
}
