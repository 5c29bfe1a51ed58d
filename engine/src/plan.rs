//! A plan: a named, immutable list of steps with a policy, parsed and checked. Whoever holds a
//! `Plan` may trust it: ids are unique, references resolve, the graph has no cycle, expressions compile.

mod adapt;
mod ancestry;
mod document;
mod duration;
mod exact;
mod fields;
mod finding;
mod graph;
mod inputs;
mod read;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use document::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, read_document, yaml_message};
pub use duration::{duration_text, parse_age_ms, parse_duration_ms};
pub use exact::{InexactNumber, inexact_in_json};
pub use finding::{Finding, Severity, name_steps};
pub(crate) use inputs::{dotted, input_reads, is_closed, undeclared, undeclared_input};

use crate::bind::{Condition, Reads, Template, with_room};
use crate::chain::Digest;
use crate::id::{StepId, StepNo};
use crate::policy::{Cancellable, Category, FailureAction, OnFailure, PlanApproval};

/// A tool step that does not say otherwise is given a minute.
pub const TOOL_TIMEOUT_MS: u64 = 60_000;
pub const STEPS_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Plan {
    pub name: String,
    pub description: Option<String>,
    pub kind: Option<String>,
    pub task: Option<String>,
    pub reasoning: Option<String>,
    /// JSON Schema 2020-12 of the inputs.
    pub inputs: Option<Value>,
    pub policy: Policy,
    pub steps: Vec<Step>,
    /// The document in canonical JSON: what is stored, and what `digest` is of.
    pub document: String,
    pub digest: Digest,
    pub(crate) by_id: BTreeMap<StepId, StepNo>,
    /// Each step's place in the order that dependencies and the list give: what is needed comes first.
    pub(crate) order: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Policy {
    pub concurrency: u32,
    pub on_failure: OnFailure,
    pub timeout_ms: Option<u64>,
    pub max_calls: Option<u32>,
    pub approval: PlanApproval,
}

#[derive(Debug)]
pub struct Step {
    pub id: StepId,
    pub name: Option<String>,
    pub work: Work,
    /// Declared and inferred dependencies, in step order, each once.
    pub needs: Vec<Need>,
    /// The steps that need this one, in step order.
    pub needed_by: Vec<StepNo>,
    pub when: Option<Condition>,
    pub timeout_ms: Option<u64>,
    pub retry: Retry,
    pub idempotent: bool,
    pub read_only: bool,
    pub cancellable: Cancellable,
    pub compensation: Option<Compensation>,
    pub probe: Option<Probe>,
    pub approval: bool,
    pub failure: Option<FailureAction>,
    pub propagate_to: BTreeSet<StepNo>,
    pub priority: i64,
    pub metadata: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub step: StepNo,
    /// `when` reads its status: also satisfied by a step that failed, is unknown or was cancelled.
    pub status_read: bool,
}

/// Who does the step, and with what.
#[derive(Debug)]
pub enum Work {
    /// Actbook calls the tool, written `server/tool`.
    Tool { tool: String, arguments: Template },
    /// The agent calls the tool itself and reports.
    AgentTool { tool: String, arguments: Template },
    /// The agent or a person does what the text says and reports. `action` is as it was written.
    Action { action: String, text: Template, estimated_ms: Option<u64> },
}

#[derive(Debug)]
pub struct Compensation {
    pub work: Undo,
    pub timeout_ms: Option<u64>,
    pub retry: Retry,
    pub idempotent: bool,
}

impl Compensation {
    /// The tool that it calls; none where an agent or a person does it.
    pub fn tool(&self) -> Option<&str> {
        match &self.work {
            Undo::Tool { tool, .. } => Some(tool),
            Undo::Action { .. } => None,
        }
    }
}

#[derive(Debug)]
pub enum Undo {
    Tool { tool: String, arguments: Template },
    Action { action: Template },
}

#[derive(Debug)]
pub struct Probe {
    pub tool: String,
    pub arguments: Template,
    pub happened: Condition,
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    pub max_attempts: u32,
    pub backoff_ms: u64,
    pub factor: f64,
    pub max_backoff_ms: u64,
    pub on: BTreeSet<Category>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff_ms: 500,
            factor: 2.0,
            max_backoff_ms: 30_000,
            on: [Category::Unavailable, Category::RateLimited, Category::Timeout].into(),
        }
    }
}

impl Plan {
    /// A plan from YAML or JSON text, or everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<Finding>> {
        with_room(|| {
            let value = document::read_document(text).map_err(|finding| vec![finding])?;
            read::plan(&value)
        })
    }

    /// As much of a plan as can be read, with everything that is wrong with it: for looking at, never to
    /// be run. Where nothing is wrong it is a plan like any other.
    pub fn draft(text: &str) -> (Option<Self>, Vec<Finding>) {
        with_room(|| match document::read_document(text) {
            Ok(value) => read::draft(&value),
            Err(finding) => (None, vec![finding]),
        })
    }

    /// A plan from a document that is a value already.
    pub fn from_value(value: &Value) -> Result<Self, Vec<Finding>> {
        with_room(|| read::plan(value))
    }

    pub fn step(&self, no: StepNo) -> &Step {
        &self.steps[no.index()]
    }

    pub fn find(&self, id: &str) -> Option<StepNo> {
        self.by_id.get(id).copied()
    }

    pub fn order(&self, no: StepNo) -> u32 {
        self.order[no.index()]
    }

    pub fn numbered(&self) -> impl Iterator<Item = (StepNo, &Step)> {
        self.steps.iter().enumerate().map(|(index, step)| (StepNo(index as u32), step))
    }
}

impl Step {
    /// The step waits for an agent's or a person's report.
    pub fn by_agent(&self) -> bool {
        match self.work {
            Work::Tool { .. } => false,
            Work::AgentTool { .. } | Work::Action { .. } => true,
        }
    }

    pub fn tool(&self) -> Option<&str> {
        match &self.work {
            Work::Tool { tool, .. } | Work::AgentTool { tool, .. } => Some(tool),
            Work::Action { .. } => None,
        }
    }

    /// Sending it twice does no harm.
    pub fn repeatable(&self) -> bool {
        self.idempotent || self.read_only
    }

    /// Everything the step reads to do its work, each with the field that reads it.
    pub fn reads(&self) -> Vec<(&'static str, &Reads)> {
        let mut reads = Vec::new();
        match &self.work {
            Work::Tool { arguments, .. } | Work::AgentTool { arguments, .. } => {
                reads.push(("arguments", arguments.reads()))
            }
            Work::Action { text, .. } => reads.push(("action", text.reads())),
        }
        reads.extend(self.when.iter().map(|when| ("when", when.reads())));
        reads
    }

    pub fn irreversible(&self) -> bool {
        self.cancellable == Cancellable::Irreversible
    }
}
