//! Checks a plan against its live tools before anything runs: every tool exists, accepts its arguments and
//! returns what the plan reads from its output. Lists tools and calls none.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::analysis::{self, ToolFacts};
use actbook_engine::library::ToolPins;
use actbook_engine::plan::{CureAction, Finding, Plan};
use actbook_engine::tool_policy::ToolPolicies;

use super::Service;
use super::plans::Plans;
use crate::config::UnknownWord;
use crate::store::tools::ToolRow;
use crate::tools::ToolInfo;

/// A plan's tools as their servers describe them, by name; tools that were not found are missing.
#[derive(Debug, Default)]
pub struct DescribedTools(BTreeMap<String, ToolInfo>);

impl DescribedTools {
    /// The definitions that saving the plan pins it to, by tool; in-process executors have none.
    pub(super) fn pins(&self) -> ToolPins {
        self.0.iter().filter_map(|(name, info)| Some((name.clone(), info.pin()?))).collect()
    }

    /// Rows that store the definitions of the pinned tools.
    pub(super) fn tool_rows(&self, service: &Service) -> Vec<ToolRow> {
        self.0.values().filter(|info| info.pin().is_some()).map(|info| service.catalog().row(info)).collect()
    }

    /// The operator's policy for each tool of a plan, without pins.
    pub(super) fn tool_policies(&self, service: &Service, plan: &Plan) -> ToolPolicies {
        let hints = |tool: &str| self.0.get(tool).map(|info| &info.annotations);
        // Tools that agents call are not described, but the operator's config may have policies for them.
        let agent_tools = plan.steps.iter().filter_map(|step| step.tool());
        let tools = plan.named_tools().into_iter().map(|(_, tool)| tool).chain(agent_tools);
        tools.map(|tool| (tool.to_owned(), service.catalog().policy(tool, hints(tool)))).collect()
    }
}

impl Plans<'_> {
    /// The descriptions of a plan's tools; and findings about those that are missing or cannot be called, and
    /// about names and keys of the config that match nothing.
    pub(super) async fn describe_tools(self, plan: &Plan) -> (DescribedTools, Vec<Finding>) {
        let named = plan.named_tools();
        let names: BTreeSet<String> = named.iter().map(|(_, tool)| (*tool).to_owned()).collect();
        let mut tools = DescribedTools::default();
        let mut errors = BTreeMap::new();
        for (name, described) in self.0.tools.describe_all(&names).await {
            match described {
                Ok(info) => drop(tools.0.insert(name, info)),
                Err(error) => drop(errors.insert(name, error)),
            }
        }
        let mut findings = self.check_configured_tool_names(&names).await;
        findings.extend(self.unknown_config_words());
        for (path, tool) in named {
            if let Some(error) = errors.get(tool) {
                let error = self.0.catalog().unavailable_error(tool, error.clone()).await;
                let finding = Finding::error(error.code(), path, error.to_string(), error.cure());
                findings.push(Finding { action: error.cure_action(), ..finding });
            }
        }
        findings.extend(plan.named_tools().into_iter().filter_map(|(path, tool)| {
            let needs_task = tools.0.get(tool).is_some_and(ToolInfo::requires_legacy_mcp_task);
            needs_task.then(|| task_only_finding(path, tool))
        }));
        (tools, findings)
    }

    /// Findings about tools that the config names and their server does not have, for the servers of these
    /// tools (`server/tool`): a typo must not silently drop the operator's policy.
    async fn check_configured_tool_names(self, names: &BTreeSet<String>) -> Vec<Finding> {
        let servers: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
        let mut findings = Vec::new();
        for server in servers {
            for (tool, meant) in self.0.catalog().unknown_configured_tools(server).await {
                let path = format!("config: servers.{server}.tools.{tool}");
                let message = format!("the server `{server}` has no tool `{tool}`");
                findings.push(match meant {
                    Some(meant) => {
                        Finding::error("no_such_tool", path, message, format!("did you mean `{meant}`?"))
                    }
                    None => {
                        let cure = format!("`actbook tools list {server}` shows what it has");
                        let finding = Finding::error("no_such_tool", path, message, cure);
                        finding.with_action(CureAction::ListServerTools)
                    }
                });
            }
        }
        findings
    }

    /// Warnings about keys of the config that have no effect.
    fn unknown_config_words(self) -> impl Iterator<Item = Finding> {
        self.0.tools.unknown_config_words().iter().map(|word| {
            let path = format!("config: {}", word.path);
            Finding::warning("unknown_config_word", path, UnknownWord::MESSAGE, word.cure())
        })
    }

    /// Findings about tools whose command or request in the config needs an environment variable that is not
    /// set.
    fn check_variables(self, plan: &Plan) -> Vec<Finding> {
        let finding = |(path, tool): (String, &str)| {
            let unset = self.0.tools.unset_variables(tool);
            let message = format!("`{tool}` needs {}, which the environment does not set", unset.join(", "));
            let cure = "set it where Actbook is started, or give it a default: ${env:NAME:-default}";
            (!unset.is_empty()).then(|| Finding::error("unset_variable", path, message, cure))
        };
        plan.named_tools().into_iter().filter_map(finding).collect()
    }

    /// Findings from checking a plan's arguments and references against the descriptions of its tools.
    pub(super) fn check_against_tools(
        self,
        plan: &Plan,
        tools: &DescribedTools,
        terms: &ToolPolicies,
    ) -> Vec<Finding> {
        let facts = tools.0.iter().map(|(name, info)| (name.clone(), tool_facts(info))).collect();
        let mut findings = analysis::check_against_tools(plan, &facts, terms);
        findings.extend(self.check_variables(plan));
        findings
    }
}

/// The finding that a tool can only be called as a task, which Actbook does not support: its call would
/// always fail.
fn task_only_finding(path: String, tool: &str) -> Finding {
    let message =
        format!("`{tool}` runs only as a task of protocol 2025-11-25, which Actbook does not speak");
    Finding::error("task_only", path, message, "use another tool of the server, or let an agent do this step")
}

/// What the engine's check needs to know of a tool.
fn tool_facts(info: &ToolInfo) -> ToolFacts {
    ToolFacts {
        input_schema: info.input_schema.clone(),
        output_schema: info.output_schema.clone(),
        read_only: info.annotations.read_only,
        destructive: info.annotations.destructive,
        hidden_characters: info.hidden.clone(),
    }
}
