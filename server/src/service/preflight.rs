//! A plan held against the live tools before anything happens: every tool is there, takes what it is
//! given and gives what is read from it. Lists tools; calls none.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::analysis::{self, ToolFacts, nearest};
use actbook_engine::library::Pins;
use actbook_engine::plan::{Finding, Plan};
use actbook_engine::terms::Terms;

use super::Service;
use super::plans::named_tools;
use super::tools::code_of;
use crate::store::tools::Tool;
use crate::tools::{CatalogError, ToolInfo};

/// The plan's tools as they were found, by name.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<String, ToolInfo>);

impl Seen {
    /// What saving the plan pins it to.
    pub(super) fn pins(&self) -> Pins {
        self.0.iter().filter_map(|(name, info)| Some((name.clone(), info.pin()?))).collect()
    }

    pub(super) fn rows(&self, service: &Service) -> Vec<Tool> {
        self.0.values().filter(|info| info.pin().is_some()).map(|info| service.row(info)).collect()
    }

    /// What the operator says of them; nothing is pinned here.
    pub(super) fn terms(&self, service: &Service, plan: &Plan) -> Terms {
        let hints = |tool: &str| self.0.get(tool).map(|info| &info.annotations);
        // An agent's own tools are not looked at, but the operator may have spoken of them.
        let of_agents = plan.steps.iter().filter_map(|step| step.tool());
        let tools = named_tools(plan).into_iter().map(|(_, tool)| tool).chain(of_agents);
        tools.map(|tool| (tool.to_owned(), service.tool_terms(tool, hints(tool)))).collect()
    }
}

impl Service {
    /// The plan's tools, and what is wrong with those that are not there.
    pub(super) async fn look_at_tools(&self, plan: &Plan) -> (Seen, Vec<Finding>) {
        let named = named_tools(plan);
        let names: BTreeSet<String> = named.iter().map(|(_, tool)| (*tool).to_owned()).collect();
        let mut seen = Seen::default();
        let mut lost = BTreeMap::new();
        for (name, described) in self.tools.describe_each(&names).await {
            match described {
                Ok(info) => drop(seen.0.insert(name, info)),
                Err(error) => drop(lost.insert(name, error)),
            }
        }
        let mut findings = self.misnamed_in_config(&names).await;
        for (path, tool) in named {
            if let Some(error) = lost.get(tool) {
                let cure = self.cure_of(tool, error).await;
                findings.push(Finding::error(code_of(error), path, error.to_string(), cure));
            }
        }
        findings.extend(named_tools(plan).into_iter().filter_map(|(path, tool)| {
            let needs_task = seen.0.get(tool).is_some_and(ToolInfo::needs_task_request);
            needs_task.then(|| task_only(path, tool))
        }));
        (seen, findings)
    }

    /// What the operator says of a tool must not be dropped for a slip in its name.
    async fn misnamed_in_config(&self, names: &BTreeSet<String>) -> Vec<Finding> {
        let servers: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
        let mut findings = Vec::new();
        for server in servers {
            for (tool, meant) in self.words_for_nobody(server).await {
                let path = format!("config: servers.{server}.tools.{tool}");
                let message = format!("the server `{server}` has no tool `{tool}`");
                let cure = meant.map_or_else(
                    || format!("`actbook tools list {server}` shows what it has"),
                    |meant| format!("did you mean `{meant}`?"),
                );
                findings.push(Finding::error("no_such_tool", path, message, cure));
            }
        }
        findings
    }

    /// The nearest name, of its own server where that is there, else of any.
    pub(super) async fn cure_of(&self, tool: &str, error: &CatalogError) -> String {
        let meant = match error {
            CatalogError::Unreachable { .. } => return "`actbook doctor` looks at every server".to_owned(),
            CatalogError::Untrusted(_) => {
                return self.untrusted_config().map(|error| error.cure).unwrap_or_default();
            }
            CatalogError::UnknownTool { server, .. } => {
                let listed = self.tools.list_server(server).await;
                nearest(tool, listed.tools.iter().map(|tool| tool.name.as_str())).map(str::to_owned)
            }
            CatalogError::BadName(_) | CatalogError::UnknownServer(_) => {
                let listed = self.tools.list().await;
                let names = listed.iter().flat_map(|server| &server.tools).map(|tool| tool.name.as_str());
                nearest(tool, names).map(str::to_owned)
            }
        };
        match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`actbook tools list` shows what there is; servers are named in actbook.yaml".to_owned(),
        }
    }

    /// A command or request of the config that could not be made, for a variable that it needs is not set.
    fn unset_variables(&self, plan: &Plan) -> Vec<Finding> {
        let finding = |(path, tool): (String, &str)| {
            let unset = self.tools.unset_variables(tool);
            let message = format!("`{tool}` needs {}, which the environment does not set", unset.join(", "));
            let cure = "set it where Actbook is started, or give it a default: ${env:NAME:-default}";
            (!unset.is_empty()).then(|| Finding::error("unset_variable", path, message, cure))
        };
        named_tools(plan).into_iter().filter_map(finding).collect()
    }

    pub(super) fn held_against_tools(&self, plan: &Plan, seen: &Seen, terms: &Terms) -> Vec<Finding> {
        let facts = seen.0.iter().map(|(name, info)| (name.clone(), facts(info))).collect();
        let mut findings = analysis::check_tools(plan, &facts, terms);
        findings.extend(self.unset_variables(plan));
        findings
    }
}

/// Calling such a tool fails for certain, so a plan that names one cannot run.
fn task_only(path: String, tool: &str) -> Finding {
    let message =
        format!("`{tool}` runs only as a task of protocol 2025-11-25, which Actbook does not speak");
    Finding::error("task_only", path, message, "use another tool of the server, or let an agent do this step")
}

fn facts(info: &ToolInfo) -> ToolFacts {
    ToolFacts {
        input_schema: info.input_schema.clone(),
        output_schema: info.output_schema.clone(),
        read_only: info.annotations.read_only,
        destructive: info.annotations.destructive,
        hidden: info.hidden.clone(),
    }
}
