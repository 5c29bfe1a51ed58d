//! The tools that agents are offered: a table of words, and one call per tool. A tool reads its
//! arguments, calls the service once and renders what came back; it holds no rule.

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

pub use control::answered;
pub use executions::agenda_text;
use rmcp::model::{CallToolResponse, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;

use super::Door;
use super::answer::{self, Answer};
use super::arguments::Arguments;
use super::ask::Ask;
use super::uses::ToolUse;
use crate::caller::Key;
use crate::error::Error;

/// Which tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Actbook runs the plans.
    #[default]
    Run,
    /// The agent calls its tools itself and reports.
    Record,
    /// Everything: Actbook runs plans, and the agent records work of its own.
    Full,
}

/// What a tool does to the world, as its annotations say.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Reads,
    /// Adds to the book, and to nothing else.
    Writes,
    /// Makes things happen outside.
    Acts,
}

#[derive(Clone, Debug)]
pub struct Offered {
    pub tool: Tool,
    pub arguments: Arguments,
    profiles: &'static [Profile],
}

const EVERYWHERE: &[Profile] = &[Profile::Run, Profile::Record, Profile::Full];
const WHERE_AGENTS_RECORD: &[Profile] = &[Profile::Record, Profile::Full];
const IN_FULL: &[Profile] = &[Profile::Full];
const WHERE_PLANS_RUN: &[Profile] = &[Profile::Run, Profile::Full];

impl Offered {
    fn new<T: JsonSchema>(
        name: &'static str,
        about: &'static str,
        effect: Effect,
        answers: std::sync::Arc<JsonObject>,
        profiles: &'static [Profile],
    ) -> Self {
        let arguments = Arguments::of::<T>();
        let hints = ToolAnnotations::new();
        let hints = match effect {
            Effect::Reads => hints.read_only(true).open_world(false),
            Effect::Writes => hints.read_only(false).destructive(false).idempotent(false).open_world(false),
            Effect::Acts => hints.read_only(false).destructive(true).idempotent(false).open_world(true),
        };
        let tool = Tool::new(name, about, arguments.schema.clone())
            .with_raw_output_schema(answers)
            .with_annotations(hints);
        Self { tool, arguments, profiles }
    }

    /// The same, with the table of which arguments go together.
    fn with_uses(self, uses: &'static [ToolUse]) -> Self {
        Self { arguments: self.arguments.with_uses(uses), ..self }
    }
}

/// Always in this order.
pub fn offered(profile: Profile) -> Vec<Offered> {
    let all = [
        plans::save_plan(),
        recorder::record_plan(),
        recorder::record_execution_start(),
        executions::execute_plan(),
        executions::status(),
        control::control(),
        record::record_action(),
        record::record_decision(),
        record::record_compensation(),
        ledger::query_ledger(),
        recorder::query_history(),
        recorder::cleanup_history(),
        context::set_context(),
        context::query_context(),
        tasks::task(),
        stats::stats(),
        library::plan(),
        library::template(),
        catalog::list_tools(),
    ];
    all.into_iter().filter(|offered| offered.profiles.contains(&profile)).collect()
}

pub async fn call(
    door: &Door,
    ask: Ask,
    offered: &Offered,
    given: JsonObject,
) -> Result<CallToolResponse, Error> {
    let ask = ask.keyed(offered.tool.name.as_ref(), &given);
    let response = perform(door, &ask, offered, given).await?;
    let repeated = ask.caller.key.as_ref().is_some_and(Key::was_repeated);
    Ok(if repeated { answer::repeated(response) } else { response })
}

async fn perform(
    door: &Door,
    ask: &Ask,
    offered: &Offered,
    given: JsonObject,
) -> Result<CallToolResponse, Error> {
    let name = offered.tool.name.as_ref();
    let arguments = &offered.arguments;
    let answer: Answer = match name {
        "save_plan" => plans::save(door, ask, arguments.read(name, given)?).await?,
        "execute_plan" => return executions::execute(door, ask, arguments.read(name, given)?).await,
        "status" => executions::look(door, ask, arguments.read(name, given)?).await?,
        "control" => return control::say(door, ask, arguments.read(name, given)?).await,
        "record_action" => record::action(door, ask, arguments.read(name, given)?).await?,
        "record_decision" => record::decision(door, ask, arguments.read(name, given)?).await?,
        "record_compensation" => record::compensation(door, ask, arguments.read(name, given)?).await?,
        "query_ledger" => ledger::query(door, arguments.read(name, given)?).await?,
        "record_plan" => recorder::save(door, ask, arguments.read(name, given)?).await?,
        "record_execution_start" => recorder::start(door, ask, arguments.read(name, given)?).await?,
        "query_history" => recorder::history(door, arguments.read(name, given)?).await?,
        "cleanup_history" => recorder::count_old(door, ask, arguments.read(name, given)?).await?,
        "set_context" => context::set(door, ask, arguments.read(name, given)?).await?,
        "query_context" => context::query(door, arguments.read(name, given)?).await?,
        "stats" => stats::look(door, arguments.read(name, given)?).await?,
        "task" => tasks::say(door, ask, arguments.read(name, given)?).await?,
        "plan" => library::of_plans(door, ask, arguments.read(name, given)?).await?,
        "template" => library::of_templates(door, ask, arguments.read(name, given)?).await?,
        "list_tools" => catalog::list(door, arguments.read(name, given)?).await?,
        other => unreachable!("`{other}` is in the table of tools and has no call"),
    };
    Ok(answer.into_result().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_uses_name_every_argument_and_no_other() {
        for offered in offered(Profile::Full) {
            assert_eq!(offered.arguments.unmatched(), Vec::<String>::new(), "{}", offered.tool.name);
        }
    }
}
