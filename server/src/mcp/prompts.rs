//! The MCP prompts: plan work with the available tools, review a plan, recover an execution from a failure,
//! and resume work with an empty context.

use std::pin::Pin;

use rmcp::model::{
    ErrorData, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::{Map, Value};

use super::McpEndpoint;
use super::request::AgentRequest;
use super::tools::agenda_text;
use crate::error::Error;
use crate::service::{Service, quote};
use crate::tools::ToolInfo;

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

/// A prompt: its definition for clients, and the function that writes its text.
struct PromptEntry {
    name: &'static str,
    about: &'static str,
    parameters: &'static [PromptParameter],
    write: for<'a> fn(PromptCall<'a>) -> PromptFuture<'a>,
}

/// The text of a prompt, being written.
type PromptFuture<'a> = Pin<Box<dyn Future<Output = Result<String, Error>> + Send + 'a>>;

/// An argument that a prompt takes.
struct PromptParameter {
    name: &'static str,
    about: &'static str,
    is_required: bool,
}

/// All prompts, in the order of `prompts/list`.
const PROMPTS: [PromptEntry; 4] = [
    PromptEntry {
        name: "plan_work",
        about: "Turn a goal into a plan, with the tools that are there",
        parameters: &[
            PromptParameter { name: "goal", about: "What is to be achieved", is_required: true },
            PromptParameter { name: "complexity", about: "simple, moderate or complex", is_required: false },
            PromptParameter { name: "domain", about: "Such as deployment, data, travel", is_required: false },
        ],
        write: |call| Box::pin(plan_work(call)),
    },
    PromptEntry {
        name: "review_plan",
        about: "Review a saved plan before it runs",
        parameters: &[PromptParameter {
            name: "plan_id",
            about: "A saved plan's id or name",
            is_required: true,
        }],
        write: |call| Box::pin(review_plan(call)),
    },
    PromptEntry {
        name: "recover_execution",
        about: "Get an execution out of a failure or an unknown outcome",
        parameters: &[PromptParameter { name: "execution_id", about: "The execution", is_required: true }],
        write: |call| Box::pin(recover_execution(call)),
    },
    PromptEntry {
        name: "resume_work",
        about: "Carry on with what is under way, with nothing in memory",
        parameters: &[],
        write: |call| Box::pin(resume_work(call)),
    },
];

/// One `prompts/get` request.
struct PromptCall<'a> {
    endpoint: &'a McpEndpoint,
    request: &'a AgentRequest,
    prompt: &'a PromptEntry,
    arguments: &'a Map<String, Value>,
}

impl<'a> PromptCall<'a> {
    /// The text of an argument; None if it is missing or empty.
    fn argument(&self, name: &str) -> Option<&'a str> {
        self.arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The text of an argument that the prompt requires and `check` has found.
    fn required(&self, name: &str) -> &'a str {
        self.argument(name).unwrap_or_default()
    }

    /// Refuses an argument that the prompt does not take, and a call without one that it requires.
    fn check(&self) -> Result<(), ErrorData> {
        let PromptEntry { name, parameters, .. } = self.prompt;
        let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
        let unknown = self.arguments.keys().find(|argument| !known.contains(&argument.as_str()));
        let is_missing =
            |parameter: &&PromptParameter| parameter.is_required && self.argument(parameter.name).is_none();
        let message = match (unknown, parameters.iter().find(is_missing)) {
            (Some(unknown), _) => {
                let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("`{unknown}` is not an argument of the prompt `{name}`; it takes: {takes}")
            }
            (None, Some(missing)) => format!("the prompt `{name}` needs `{}`", missing.name),
            (None, None) => return Ok(()),
        };
        Err(ErrorData::invalid_params(message, None))
    }
}

/// Answers `prompts/list`.
pub fn list() -> ListPromptsResult {
    let argument = |parameter: &PromptParameter| {
        let argument = PromptArgument::new(parameter.name).with_description(parameter.about);
        argument.with_required(parameter.is_required)
    };
    let prompts = PROMPTS.iter().map(|prompt| {
        let arguments: Vec<PromptArgument> = prompt.parameters.iter().map(argument).collect();
        Prompt::new(prompt.name, Some(prompt.about), (!arguments.is_empty()).then_some(arguments))
    });
    ListPromptsResult::with_all_items(prompts.collect())
}

/// Whether the prompt is one of Actbook's own.
pub fn is_own(name: &str) -> bool {
    PROMPTS.iter().any(|prompt| prompt.name == name)
}

/// Answers `prompts/get`. Err: a wrong or missing argument, or an unknown prompt, plan or execution.
pub async fn get(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<GetPromptResult, ErrorData> {
    let Some(prompt) = PROMPTS.iter().find(|prompt| prompt.name == name) else {
        let known: Vec<&str> = PROMPTS.iter().map(|prompt| prompt.name).collect();
        let message = format!("Unknown prompt: {name}; there are {}", known.join(", "));
        return Err(ErrorData::invalid_params(message, None));
    };
    let call = PromptCall { endpoint, request, prompt, arguments };
    call.check()?;
    let text = (prompt.write)(call).await.map_err(to_error_data)?;
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

/// A service error as a protocol error, with the cure for an agent.
fn to_error_data(error: Error) -> ErrorData {
    ErrorData::invalid_params(format!("{error}; {}", error.cures().agent), None)
}

/// The text of the prompt `plan_work`: the goal, how to plan, and the tools that match the goal best.
async fn plan_work(call: PromptCall<'_>) -> Result<String, Error> {
    let endpoint = call.endpoint;
    let (goal, complexity, domain) =
        (call.required("goal"), call.argument("complexity"), call.argument("domain"));
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
    Ok(format!(
        "Make an Actbook plan for this goal{about}:{goal}\n\n\
         1. Choose the calls from the tools below; what no tool can do becomes a step with an `action` that you do yourself.\n\
         2. Give every step that changes something a `compensation`, and put what cannot be taken back last.\n\
         3. Pass values with ${{steps.ID.output.FIELD}} and ${{inputs.NAME}} instead of writing them twice.\n\
         4. {calls}\n\n\
         Tools:\n{tools}\n\nAll fields of a plan: resource actbook://plan-format. Plans that run: actbook://examples/travel-booking."
    ))
}

/// The live catalog as lines, `TOOLS_SHOWN_MAX` at most, the tools that match the goal best first.
async fn matching_tools_text(service: &Service, goal: &str) -> String {
    let words: Vec<String> = goal
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 3)
        .map(str::to_lowercase)
        .collect();
    let servers = service.catalog().list().await;
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

/// The text of the prompt `review_plan`: what to look for, the check of the plan against its live tools, and
/// its document.
async fn review_plan(call: PromptCall<'_>) -> Result<String, Error> {
    let (service, id) = (call.endpoint.service(), call.required("plan_id"));
    let (view, plan) = service.plans().get(id).await?;
    let check = service.plans().check(&plan.document, false).await.check;
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

/// The text of the prompt `recover_execution`: how to decide, and the execution as `status` shows it.
async fn recover_execution(call: PromptCall<'_>) -> Result<String, Error> {
    let (endpoint, request, id) = (call.endpoint, call.request, call.required("execution_id"));
    let answer = endpoint.execution_answer(request, endpoint.service().executions().view(id).await?).await?;
    Ok(format!(
        "An execution needs you. Read what happened, find out with read-only means what is so in the world (an `unknown` \
         step may have taken effect), decide, and give the reason with your answer: it is journaled. Prefer compensate when \
         the goal can no longer be reached; never answer did_not_happen without having looked.\n\n{}",
        answer.text
    ))
}

/// The text of the prompt `resume_work`: the agenda, and the first executions that this process can drive, in
/// detail.
async fn resume_work(call: PromptCall<'_>) -> Result<String, Error> {
    let (endpoint, request) = (call.endpoint, call.request);
    let mut agenda = endpoint.service().executions().agenda().await?;
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
