//! Which executions a request is about, as queries and bodies name them.

use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use schemars::JsonSchema;
use serde::Deserialize;

use super::params;
use crate::error::Error;
use crate::service::ExecutionFilter;
use crate::web::Problem;

/// The conditions of a request; an execution must pass all that are given.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterParams {
    /// running, paused, blocked, compensating, succeeded, failed, cancelled or compensated
    #[schemars(extend("enum" = params::choices(ExecutionStatus::ALL, ExecutionStatus::as_str)))]
    pub status: Option<String>,
    /// A plan's id or name
    pub plan: Option<String>,
    pub task: Option<String>,
    /// A tool that was called, as in files/write_file
    pub tool: Option<String>,
    /// A server of which a tool was called
    pub server: Option<String>,
    /// An actor with entries in the execution, as in agent:claude
    pub actor: Option<String>,
    /// Of a step that ended failed or unknown, such as timeout
    #[schemars(extend("enum" = params::choices(ErrorCategory::ALL, ErrorCategory::as_str)))]
    pub category: Option<String>,
    /// Words that must all occur in the id, the plan's name, the task or what was called
    pub search: Option<String>,
    /// Earliest start: RFC 3339, a date, or an age such as 2h
    #[schemars(extend("anyOf" = params::time_forms()))]
    pub since: Option<String>,
    #[schemars(extend("anyOf" = params::time_forms()))]
    pub until: Option<String>,
}

impl FilterParams {
    /// The filter. Err: a word, a time or an age is not known.
    pub fn parse(self) -> Result<ExecutionFilter, Problem> {
        Ok(ExecutionFilter {
            status: params::word(Error::NoSuchStatus, self.status)?.into(),
            plan: self.plan.into(),
            task: self.task.into(),
            tool: self.tool.into(),
            server: self.server.into(),
            actor: self.actor.into(),
            category: params::word(Error::NoSuchCategory, self.category)?.into(),
            project: None,
            since: params::time("since", self.since)?,
            until: params::time("until", self.until)?,
            words: params::words(self.search),
            before: None,
        })
    }
}
