//! A plan: a named, immutable list of steps with a policy, parsed and checked. A `Plan` that parsed without
//! findings is valid: ids are unique, references resolve, the graph has no cycle, expressions compile.

mod ancestry;
mod document;
mod duration;
mod field_reader;
mod finding;
mod foreign_format;
mod graph;
mod inexact_number;
mod inputs;
mod reader;
mod session;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use document::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, read_document, yaml_message};
pub use duration::{duration_text, parse_age_ms, parse_duration_ms};
pub use finding::{CureAction, Finding, Severity, add_step_ids};
pub use inexact_number::{InexactNumber, find_inexact_in_json};
pub(crate) use inputs::{
    forbids_undeclared, input_reads, may_accept_undeclared, pointer_to_path, undeclared_input_message,
    undeclared_name,
};

use crate::bind::{ConditionExpression, ReadSet, ValueTemplate, with_large_stack};
use crate::chain::Digest;
use crate::id::{StepId, StepNo};
use crate::policy::{ErrorCategory, FailureAction, OnFailure, PlanApproval, Reversibility};

/// Default timeout of a tool call, in milliseconds.
pub const TOOL_TIMEOUT_MS: u64 = 60_000;
/// Most steps in one plan.
pub const STEPS_MAX: usize = 10_000;

/// A parsed plan: its fields, its steps with resolved dependencies, and its canonical document.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub description: Option<String>,
    /// The document's `type`: a free label.
    pub kind: Option<String>,
    /// The outside task that the plan belongs to.
    pub task: Option<String>,
    pub reasoning: Option<String>,
    /// JSON Schema 2020-12 of the inputs; `None` where the plan declares none.
    pub inputs: Option<Value>,
    pub policy: PlanPolicy,
    pub steps: Vec<Step>,
    /// The document in canonical JSON, as stored; `digest` is computed over it.
    pub document: String,
    pub digest: Digest,
    pub(crate) by_id: BTreeMap<StepId, StepNo>,
    /// Per step, its rank in the sequential order: dependencies first, then list order.
    pub(crate) topological_ranks: Vec<u32>,
}

/// The plan-wide `policy` section.
#[derive(Clone, Debug)]
pub struct PlanPolicy {
    /// Most steps that run at the same time.
    pub concurrency: u32,
    pub on_failure: OnFailure,
    /// Limit on the whole execution's time; `None`: unlimited.
    pub timeout_ms: Option<u64>,
    /// Budget of tool calls; `None`: unlimited.
    pub max_calls: Option<u32>,
    pub approval: PlanApproval,
}

/// One step of a plan, with defaults filled in and references resolved to step numbers.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: StepId,
    pub name: Option<String>,
    pub work: StepWork,
    /// Declared and inferred dependencies, in step order, each once.
    pub dependencies: Vec<Dependency>,
    /// The steps that depend on this one, in step order.
    pub dependents: Vec<StepNo>,
    /// Condition under which the step runs; false skips it.
    pub when: Option<ConditionExpression>,
    /// Time limit of one attempt; `None`: unlimited.
    pub timeout_ms: Option<u64>,
    pub retry: RetryPolicy,
    /// The author says that sending the call twice does no harm.
    pub idempotent: bool,
    /// The author says that the step has no effect, so there is nothing to undo.
    pub read_only: bool,
    pub cancellable: Reversibility,
    pub compensation: Option<Compensation>,
    pub probe: Option<Probe>,
    /// Whether the step waits for an approval before it runs.
    pub approval: bool,
    /// What a failure of this step does to other steps; `None`: nothing further starts.
    pub failure_action: Option<FailureAction>,
    /// Steps that `cancel_dependent` cancels besides the dependents.
    pub propagate_to: BTreeSet<StepNo>,
    /// Higher runs first where concurrency is above 1.
    pub priority: i64,
    pub metadata: Option<Value>,
}

/// A step that must be settled before the dependent step starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub step: StepNo,
    /// The dependent's `when` reads this step's status, so a step that failed, is unknown or was cancelled
    /// satisfies the dependency too.
    pub status_read: bool,
}

/// What a step does, and whether Actbook or the agent does it.
#[derive(Clone, Debug)]
pub enum StepWork {
    /// Actbook calls `tool`, written `server/tool`.
    Tool { tool: String, arguments: ValueTemplate },
    /// The agent calls `tool` and reports the outcome.
    AgentTool { tool: String, arguments: ValueTemplate },
    /// The agent or a person does what `text` says and reports the outcome. `action` is the text as written,
    /// before expressions are bound.
    Action { action: String, text: ValueTemplate, estimated_ms: Option<u64> },
}

/// How a step's effect is undone.
#[derive(Clone, Debug)]
pub struct Compensation {
    pub work: CompensationWork,
    pub timeout_ms: Option<u64>,
    pub retry: RetryPolicy,
    pub idempotent: bool,
}

impl Compensation {
    /// The tool that the compensation calls; `None` where an agent or a person undoes the effect.
    pub fn tool(&self) -> Option<&str> {
        match &self.work {
            CompensationWork::Tool { tool, .. } => Some(tool),
            CompensationWork::Action { .. } => None,
        }
    }
}

/// What a compensation does.
#[derive(Clone, Debug)]
pub enum CompensationWork {
    /// Actbook calls `tool`, written `server/tool`.
    Tool { tool: String, arguments: ValueTemplate },
    /// The agent or a person does what `action` says and reports the outcome.
    Action { action: ValueTemplate },
}

/// A read-only call that finds out whether an attempt of unknown outcome took effect.
#[derive(Clone, Debug)]
pub struct Probe {
    pub tool: String,
    pub arguments: ValueTemplate,
    /// Tested on the probe's output: true means that the attempt took effect.
    pub happened: ConditionExpression,
    pub timeout_ms: Option<u64>,
}

/// When and how often a failed attempt is repeated automatically.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts in total, the first included.
    pub max_attempts: u32,
    pub backoff_ms: u64,
    /// The backoff is multiplied by this after each attempt, up to `max_backoff_ms`.
    pub factor: f64,
    pub max_backoff_ms: u64,
    /// The failure categories that are retried.
    pub on: BTreeSet<ErrorCategory>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff_ms: 500,
            factor: 2.0,
            max_backoff_ms: 30_000,
            on: [ErrorCategory::Unavailable, ErrorCategory::RateLimited, ErrorCategory::Timeout].into(),
        }
    }
}

impl Plan {
    /// Parses a plan from YAML or JSON text; `Err` lists all its errors.
    pub fn parse(text: &str) -> Result<Self, Vec<Finding>> {
        with_large_stack(|| {
            let value = document::read_document(text).map_err(|finding| vec![finding])?;
            reader::read_plan(&value)
        })
    }

    /// Parses as much of a plan as it can, with all the errors found. With any error the plan is for display
    /// only and must not run; `None` where not even a draft could be read.
    pub fn parse_draft(text: &str) -> (Option<Self>, Vec<Finding>) {
        with_large_stack(|| match document::read_document(text) {
            Ok(value) => reader::read_draft(&value),
            Err(finding) => (None, vec![finding]),
        })
    }

    /// Parses a plan from a document that is already a JSON value; `Err` lists all its errors.
    pub fn from_value(value: &Value) -> Result<Self, Vec<Finding>> {
        with_large_stack(|| reader::read_plan(value))
    }

    pub fn step(&self, no: StepNo) -> &Step {
        &self.steps[no.index()]
    }

    /// The number of the step with this id.
    pub fn find_step(&self, id: &str) -> Option<StepNo> {
        self.by_id.get(id).copied()
    }

    /// The step's rank in the sequential order: dependencies first, then list order.
    pub fn topological_rank(&self, no: StepNo) -> u32 {
        self.topological_ranks[no.index()]
    }

    /// The order in which steps run at concurrency 1: always the first step in the list whose dependencies
    /// have run.
    pub fn sequential_order(&self) -> Vec<StepNo> {
        graph::sequential_order(&self.steps)
    }

    /// All steps with their numbers, in list order.
    pub fn numbered_steps(&self) -> impl Iterator<Item = (StepNo, &Step)> {
        self.steps.iter().enumerate().map(|(index, step)| (StepNo(index as u32), step))
    }

    /// Every tool that Actbook may call for the plan, each with the path in the document that names it.
    pub fn named_tools(&self) -> Vec<(String, &str)> {
        let mut named = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            if let (Some(tool), false) = (step.tool(), step.is_agent_step()) {
                named.push((format!("steps[{index}].tool"), tool));
            }
            if let Some(tool) = step.compensation.as_ref().and_then(Compensation::tool) {
                named.push((format!("steps[{index}].compensation.tool"), tool));
            }
            if let Some(probe) = &step.probe {
                named.push((format!("steps[{index}].probe.tool"), probe.tool.as_str()));
            }
        }
        named
    }
}

impl Step {
    /// Whether an agent or a person does the step and reports its outcome.
    pub fn is_agent_step(&self) -> bool {
        match self.work {
            StepWork::Tool { .. } => false,
            StepWork::AgentTool { .. } | StepWork::Action { .. } => true,
        }
    }

    /// The tool that Actbook or the agent calls; `None` for an action.
    pub fn tool(&self) -> Option<&str> {
        match &self.work {
            StepWork::Tool { tool, .. } | StepWork::AgentTool { tool, .. } => Some(tool),
            StepWork::Action { .. } => None,
        }
    }

    /// What the step's work and `when` read, each with the name of the document field. Compensation and probe
    /// are not included.
    pub fn reads(&self) -> Vec<(&'static str, &ReadSet)> {
        let mut reads = Vec::new();
        match &self.work {
            StepWork::Tool { arguments, .. } | StepWork::AgentTool { arguments, .. } => {
                reads.push(("arguments", arguments.reads()))
            }
            StepWork::Action { text, .. } => reads.push(("action", text.reads())),
        }
        reads.extend(self.when.iter().map(|when| ("when", when.reads())));
        reads
    }

    /// Whether the plan says that the effect cannot be undone.
    pub fn is_irreversible(&self) -> bool {
        self.cancellable == Reversibility::Irreversible
    }
}
