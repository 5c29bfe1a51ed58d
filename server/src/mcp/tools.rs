//! The MCP tools: their definitions, and the dispatch of a call to its handler. A handler takes parsed
//! arguments, calls the service and renders the result; it holds no rules. The structs of arguments have `//`
//! comments, because a `///` comment would become part of the schema.

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
use rmcp::model::{CallToolResponse, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;

use super::McpEndpoint;
use super::answer::{self, AgentAnswer};
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

/// A tool with its definition for clients, the check of its arguments, and the profiles that offer it.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    pub definition: Tool,
    pub arguments: ArgumentSpec,
    profiles: &'static [ToolProfile],
}

/// The profiles that offer a tool.
const ALL_PROFILES: &[ToolProfile] = &[ToolProfile::Run, ToolProfile::Record, ToolProfile::Full];
const RECORD_AND_FULL: &[ToolProfile] = &[ToolProfile::Record, ToolProfile::Full];
const FULL_ONLY: &[ToolProfile] = &[ToolProfile::Full];
const RUN_AND_FULL: &[ToolProfile] = &[ToolProfile::Run, ToolProfile::Full];

impl OfferedTool {
    /// A tool whose arguments are the fields of `T`.
    fn new<T: JsonSchema>(
        name: &'static str,
        description: &'static str,
        effect: ToolEffect,
        output_schema: std::sync::Arc<JsonObject>,
        profiles: &'static [ToolProfile],
    ) -> Self {
        let arguments = ArgumentSpec::for_type::<T>();
        let hints = ToolAnnotations::new();
        let hints = match effect {
            ToolEffect::ReadOnly => hints.read_only(true).open_world(false),
            ToolEffect::WritesJournal => {
                hints.read_only(false).destructive(false).idempotent(false).open_world(false)
            }
            ToolEffect::ActsOutside => {
                hints.read_only(false).destructive(true).idempotent(false).open_world(true)
            }
        };
        let tool = Tool::new(name, description, arguments.schema.clone())
            .with_raw_output_schema(output_schema)
            .with_annotations(hints);
        Self { definition: tool, arguments, profiles }
    }

    /// Adds the table of which arguments go together.
    fn with_call_variants(self, uses: &'static [CallVariant]) -> Self {
        Self { arguments: self.arguments.with_call_variants(uses), ..self }
    }
}

/// The tools of a profile, always in the same order.
pub fn offered_tools(profile: ToolProfile) -> Vec<OfferedTool> {
    let all = [
        plans::define_save_plan(),
        recorder::define_record_plan(),
        recorder::define_record_execution_start(),
        executions::define_execute_plan(),
        executions::define_status(),
        control::define_control(),
        record::define_record_action(),
        record::define_record_decision(),
        record::define_record_compensation(),
        ledger::define_query_ledger(),
        recorder::define_query_history(),
        recorder::define_cleanup_history(),
        context::define_set_context(),
        context::define_query_context(),
        tasks::define_task(),
        stats::define_stats(),
        library::define_plan(),
        library::define_template(),
        catalog::define_list_tools(),
    ];
    all.into_iter().filter(|tool| tool.profiles.contains(&profile)).collect()
}

/// Calls a tool; the answer to a repeated idempotency key is marked as such.
pub async fn call_tool(
    endpoint: &McpEndpoint,
    request: AgentRequest,
    tool: &OfferedTool,
    given: JsonObject,
) -> Result<CallToolResponse, Error> {
    let request = request.with_idempotency_key(tool.definition.name.as_ref(), &given);
    let response = dispatch(endpoint, &request, tool, given).await?;
    let repeated = request.caller.key.as_ref().is_some_and(IdempotencyKey::was_repeated);
    Ok(if repeated { answer::mark_repeated(response) } else { response })
}

/// Parses the arguments and calls the tool's handler.
async fn dispatch(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    tool: &OfferedTool,
    given: JsonObject,
) -> Result<CallToolResponse, Error> {
    let name = tool.definition.name.as_ref();
    let spec = &tool.arguments;
    let answer: AgentAnswer = match name {
        "save_plan" => plans::handle_save_plan(endpoint, request, spec.parse(name, given)?).await?,
        "execute_plan" => {
            return executions::handle_execute_plan(endpoint, request, spec.parse(name, given)?).await;
        }
        "status" => executions::handle_status(endpoint, request, spec.parse(name, given)?).await?,
        "control" => return control::handle_control(endpoint, request, spec.parse(name, given)?).await,
        "record_action" => record::handle_record_action(endpoint, request, spec.parse(name, given)?).await?,
        "record_decision" => {
            record::handle_record_decision(endpoint, request, spec.parse(name, given)?).await?
        }
        "record_compensation" => {
            record::handle_record_compensation(endpoint, request, spec.parse(name, given)?).await?
        }
        "query_ledger" => ledger::handle_query_ledger(endpoint, spec.parse(name, given)?).await?,
        "record_plan" => recorder::handle_record_plan(endpoint, request, spec.parse(name, given)?).await?,
        "record_execution_start" => {
            recorder::handle_record_execution_start(endpoint, request, spec.parse(name, given)?).await?
        }
        "query_history" => recorder::handle_query_history(endpoint, spec.parse(name, given)?).await?,
        "cleanup_history" => {
            recorder::handle_cleanup_history(endpoint, request, spec.parse(name, given)?).await?
        }
        "set_context" => context::handle_set_context(endpoint, request, spec.parse(name, given)?).await?,
        "query_context" => context::handle_query_context(endpoint, spec.parse(name, given)?).await?,
        "stats" => stats::handle_stats(endpoint, spec.parse(name, given)?).await?,
        "task" => tasks::handle_task(endpoint, request, spec.parse(name, given)?).await?,
        "plan" => library::handle_plan(endpoint, request, spec.parse(name, given)?).await?,
        "template" => library::handle_template(endpoint, request, spec.parse(name, given)?).await?,
        "list_tools" => catalog::handle_list_tools(endpoint, spec.parse(name, given)?).await?,
        other => unreachable!("the tool `{other}` is offered and has no handler"),
    };
    Ok(answer.into_result().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_variants_name_every_argument_and_no_other() {
        for tool in offered_tools(ToolProfile::Full) {
            assert_eq!(tool.arguments.mismatched_names(), Vec::<String>::new(), "{}", tool.definition.name);
        }
    }
}
