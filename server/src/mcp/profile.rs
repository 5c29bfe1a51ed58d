//! The texts of each tool profile: instructions, first calls and the guide. Each text names only tools that
//! its profile offers.

use serde_json::{Value, json};

use super::text::Suggestion;
use super::tools::ToolProfile;
use super::waiting::WAIT_S_SUGGESTED;
use crate::service::quote;

const RUN_INSTRUCTIONS: &str = "Actbook runs plans of tool calls, journals every outcome, stops at failures \
and can undo. Start with `status`: it shows work in progress and the next call to make. To do something: \
list_tools, save_plan (fix what it finds), execute_plan with wait_s, then follow the Next lines of each \
answer. Send an idempotency_key with calls that change something and repeat the same key when you retry.";

const RECORD_INSTRUCTIONS: &str = "Actbook keeps a journal of work that you do yourself: plans, steps, decisions, \
compensations, notes. Start with `status`: it shows work in progress and the next call to make. To begin: \
record_plan, record_execution_start, do each step yourself and report it with record_action, then follow the \
Next lines of each answer. Send an idempotency_key with calls that change something and repeat the same key \
when you retry.";

const FULL_INSTRUCTIONS: &str = "Actbook runs plans of tool calls, journals every outcome, stops at failures \
and can undo; it also records work that you do yourself. Start with `status`: it shows work in progress and \
the next call to make. To have tools called: list_tools, save_plan (fix what it finds), execute_plan with \
wait_s. To record your own work: record_plan, record_execution_start, record_action. Then follow the Next \
lines of each answer. Send an idempotency_key with calls that change something and repeat the same key when \
you retry.";

const RUN_GUIDE: &str = include_str!("../../../docs/agents.md");
const RECORD_GUIDE: &str = include_str!("../../../docs/recording.md");
/// The heading of the guide's section whose tools only the full profile offers.
const FULL_ONLY_HEADING: &str = "\n## Again\n";

impl ToolProfile {
    /// The instructions that a client gets at the handshake.
    pub fn instructions(self) -> &'static str {
        match self {
            Self::Run => RUN_INSTRUCTIONS,
            Self::Record => RECORD_INSTRUCTIONS,
            Self::Full => FULL_INSTRUCTIONS,
        }
    }

    /// Which calls to begin with when nothing is in progress.
    pub fn first_calls(self) -> &'static str {
        match self {
            Self::Run => "save_plan with a plan, then execute_plan; list_tools shows what a plan can call",
            Self::Record => "record_plan with a plan of what you will do, then record_execution_start",
            Self::Full => {
                "save_plan with a plan, then execute_plan; list_tools shows what a plan can call. For work \
                 that you do yourself: record_plan, then record_execution_start"
            }
        }
    }

    /// Suggests the call that starts a saved plan; `inputs`: the schema of the plan's inputs.
    pub fn start_suggestion(self, plan_id: &str, inputs: Option<&Value>) -> Suggestion {
        let (name, mut arguments) = match self {
            Self::Run | Self::Full => {
                ("execute_plan", json!({ "plan_id": plan_id, "wait_s": WAIT_S_SUGGESTED }))
            }
            Self::Record => ("record_execution_start", json!({ "plan_id": plan_id })),
        };
        let required = inputs.and_then(|schema| schema["required"].as_array()).map_or(&[][..], Vec::as_slice);
        if required.is_empty() {
            return Suggestion::tool_call(name, arguments, "");
        }
        arguments["inputs"] = json!({});
        let required: Vec<String> = required.iter().filter_map(Value::as_str).map(quote::name).collect();
        Suggestion::tool_call(name, arguments, format!("(`inputs` needs {})", required.join(", ")))
            .preceded_by("fill in `inputs`, then")
    }

    /// The calls that check, save and start a plan, as a sentence of the prompt `plan_work`.
    pub fn planning_calls(self) -> &'static str {
        match self {
            Self::Run | Self::Full => {
                "save_plan with dry_run true; correct what it finds; save it; show your user the point of no \
                 return; execute_plan with wait_s 45."
            }
            Self::Record => {
                "record_plan; correct what it finds; show your user the point of no return; \
                 record_execution_start, then do each step yourself and report it with record_action."
            }
        }
    }

    /// The text of the resource `actbook://guide`.
    pub fn guide(self) -> String {
        match self {
            Self::Run => without_section(RUN_GUIDE, FULL_ONLY_HEADING),
            Self::Record => RECORD_GUIDE.to_owned(),
            Self::Full => format!("{RUN_GUIDE}\n{RECORD_GUIDE}"),
        }
    }
}

/// The text without the section under this heading; unchanged if there is no such heading.
fn without_section(text: &str, heading: &str) -> String {
    let Some((before, section)) = text.split_once(heading) else { return text.to_owned() };
    let after = section.find("\n## ").map_or("", |at| &section[at..]);
    format!("{before}{after}")
}
