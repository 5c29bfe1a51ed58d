//! The MCP tools. Each is an `AgentTool` with a line in `offered_tools`. A handler takes parsed arguments, calls
//! the service and renders the result; it holds no rules. The structs of arguments have `//` comments, because
//! a `///` comment would become part of the schema.

mod catalog;
mod context;
mod control;
mod executions;
mod ledger;
mod library;
mod plans;
mod record;
mod recorder;
mod stats;
mod tasks;

pub use control::continued_answer;
pub use executions::agenda_text;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{CallToolResponse, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::McpEndpoint;
use super::answer;
use super::arguments::ArgumentSpec;
use super::call_variants::CallVariant;
use super::request::AgentRequest;
use crate::caller::IdempotencyKey;
use crate::error::Error;

/// A set of tools that a server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolProfile {
    /// Tools to have Actbook run plans.
    #[default]
    Run,
    /// Tools to report work that the agent does itself.
    Record,
    /// All tools.
    Full,
}

/// What calling a tool can change; decides its MCP annotations.
#[derive(Clone, Copy, Debug)]
enum ToolEffect {
    /// Changes nothing.
    ReadOnly,
    /// Adds to the journal only.
    WritesJournal,
    /// Can have effects outside of Actbook.
    ActsOutside,
}

/// A tool that agents can call, implemented by the struct that its arguments are parsed into.
trait AgentTool: DeserializeOwned + JsonSchema + Send {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: ToolEffect;
    const PROFILES: &'static [ToolProfile];
    /// Which arguments go together. Empty: all do.
    const VARIANTS: &'static [CallVariant] = &[];
    /// What `handle` gives: an `AgentAnswer`, or a `CallToolResponse` if it may also be a task or a question.
    type Answer: Into<CallToolResponse>;

    /// The JSON Schema of the answer's structured content: of an execution's view, unless a tool has its own.
    fn output_schema() -> Arc<JsonObject> {
        answer::execution_schema()
    }

    /// Answers a call with these arguments.
    fn handle(
        self,
        endpoint: &McpEndpoint,
        request: &AgentRequest,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;
}

/// Parses the arguments of a call and answers it.
type ToolHandler =
    for<'a> fn(&'a McpEndpoint, &'a AgentRequest, &'a ArgumentSpec, JsonObject) -> HandlerFuture<'a>;
/// The answer to a call of a tool, being made.
type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<CallToolResponse, Error>> + Send + 'a>>;

/// An `AgentTool` as a value: its definition for clients, the check of its arguments, and its handler.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    pub definition: Tool,
    pub arguments: ArgumentSpec,
    profiles: &'static [ToolProfile],
    handler: ToolHandler,
}

const ALL_PROFILES: &[ToolProfile] = &[ToolProfile::Run, ToolProfile::Record, ToolProfile::Full];
const RECORD_AND_FULL: &[ToolProfile] = &[ToolProfile::Record, ToolProfile::Full];
const FULL_ONLY: &[ToolProfile] = &[ToolProfile::Full];
const RUN_AND_FULL: &[ToolProfile] = &[ToolProfile::Run, ToolProfile::Full];

impl OfferedTool {
    /// The tool whose arguments are parsed into `T`.
    fn new<T: AgentTool>() -> Self {
        let arguments = ArgumentSpec::for_type::<T>().with_call_variants(T::VARIANTS);
        let definition = Tool::new(T::NAME, T::DESCRIPTION, arguments.schema.clone())
            .with_raw_output_schema(T::output_schema())
            .with_annotations(T::EFFECT.annotations());
        let handler: ToolHandler = |endpoint, request, arguments, given| {
            Box::pin(async move {
                let input: T = arguments.parse(T::NAME, given)?;
                Ok(input.handle(endpoint, request).await?.into())
            })
        };
        Self { definition, arguments, profiles: T::PROFILES, handler }
    }
}

impl ToolEffect {
    /// The MCP annotations that say what a call can change.
    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            Self::ReadOnly => hints.read_only(true).open_world(false),
            Self::WritesJournal => {
                hints.read_only(false).destructive(false).idempotent(false).open_world(false)
            }
            Self::ActsOutside => hints.read_only(false).destructive(true).idempotent(false).open_world(true),
        }
    }
}

/// The tools of a profile, always in the same order.
pub fn offered_tools(profile: ToolProfile) -> Vec<OfferedTool> {
    let all = [
        OfferedTool::new::<plans::SavePlanInput>(),
        OfferedTool::new::<recorder::RecordPlanInput>(),
        OfferedTool::new::<recorder::RecordExecutionStartInput>(),
        OfferedTool::new::<executions::ExecutePlanInput>(),
        OfferedTool::new::<executions::StatusInput>(),
        OfferedTool::new::<control::ControlInput>(),
        OfferedTool::new::<record::RecordActionInput>(),
        OfferedTool::new::<record::RecordDecisionInput>(),
        OfferedTool::new::<record::RecordCompensationInput>(),
        OfferedTool::new::<ledger::QueryLedgerInput>(),
        OfferedTool::new::<recorder::QueryHistoryInput>(),
        OfferedTool::new::<recorder::CleanupHistoryInput>(),
        OfferedTool::new::<context::SetContextInput>(),
        OfferedTool::new::<context::QueryContextInput>(),
        OfferedTool::new::<tasks::TaskInput>(),
        OfferedTool::new::<stats::StatsInput>(),
        OfferedTool::new::<library::PlanInput>(),
        OfferedTool::new::<library::TemplateInput>(),
        OfferedTool::new::<catalog::ListToolsInput>(),
    ];
    all.into_iter().filter(|tool| tool.profiles.contains(&profile)).collect()
}

/// Calls a tool with these raw arguments; the answer to a repeated idempotency key is marked as such. Err:
/// the arguments or the call are refused, or it failed.
pub async fn call_tool(
    endpoint: &McpEndpoint,
    request: AgentRequest,
    tool: &OfferedTool,
    given: JsonObject,
) -> Result<CallToolResponse, Error> {
    let request = request.with_idempotency_key(tool.definition.name.as_ref(), &given);
    let response = (tool.handler)(endpoint, &request, &tool.arguments, given).await?;
    let repeated = request.caller.key.as_ref().is_some_and(IdempotencyKey::was_repeated);
    Ok(if repeated { answer::mark_repeated(response) } else { response })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool without a line in the table would be offered to no agent.
    #[test]
    fn every_agent_tool_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/tools");
        let mut tools = 0;
        for file in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, text) = (file.path(), std::fs::read_to_string(file.path()).unwrap());
            let module = path.file_stem().unwrap().to_str().unwrap();
            for tool in text.lines().filter_map(|line| line.strip_prefix("impl AgentTool for ")) {
                let line = format!("OfferedTool::new::<{module}::{}>()", tool.trim_end_matches(" {"));
                assert!(include_str!("tools.rs").contains(&line), "`offered_tools` lacks {line}");
                tools += 1;
            }
        }
        assert_eq!(tools, offered_tools(ToolProfile::Full).len());
    }

    #[test]
    fn call_variants_name_every_argument_and_no_other() {
        for tool in offered_tools(ToolProfile::Full) {
            assert_eq!(tool.arguments.mismatched_names(), Vec::<String>::new(), "{}", tool.definition.name);
        }
    }
}
