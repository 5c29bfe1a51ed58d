//! The plan of a session: it starts without steps, and each call of the agent adds one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Compensation, CompensationWork, Plan, PlanPolicy, RetryPolicy, Step, StepWork, TOOL_TIMEOUT_MS};
use crate::bind::{BindError, ExpressionVocabulary, ValueTemplate};
use crate::chain::Digest;
use crate::id::{StepId, StepNo};
use crate::policy::{OnFailure, PlanApproval, RESTORE_TOOL, Reversibility};

/// How long one restore of files may take, in milliseconds.
const RESTORE_TIMEOUT_MS: u64 = 10 * 60 * 1000;

impl Plan {
    /// The empty plan of a session that begins. It is not saved; its document names it and has no steps.
    pub fn of_session(name: &str) -> Self {
        let document = json!({ "name": name, "steps": [] }).to_string();
        Self {
            name: name.to_owned(),
            description: None,
            kind: None,
            task: None,
            reasoning: None,
            inputs: None,
            policy: PlanPolicy {
                concurrency: 1,
                on_failure: OnFailure::Manual,
                timeout_ms: None,
                max_calls: None,
                approval: PlanApproval::None,
            },
            steps: Vec::new(),
            digest: Digest::of(document.as_bytes()),
            document,
            by_id: BTreeMap::new(),
            topological_ranks: Vec::new(),
        }
    }

    /// Adds a session's step, which depends on none. `Err`: there is a step of this id.
    pub(crate) fn push_step(&mut self, step: Step) -> Result<StepNo, String> {
        let no = StepNo(self.steps.len() as u32);
        if self.by_id.insert(step.id.clone(), no).is_some() {
            return Err(format!("there is a step `{}` already", step.id));
        }
        self.topological_ranks.push(no.0);
        self.steps.push(step);
        Ok(no)
    }
}

impl Step {
    /// The step of a session's call. Its arguments are a payload beside the plan, not a template. `read_only`: the
    /// config says so. `timeout_ms`: of a call that Actbook sends, if the config has another than for plans.
    pub(crate) fn of_call(
        id: StepId,
        tool: String,
        by_agent: bool,
        (read_only, timeout_ms): (bool, Option<u64>),
        undo: Option<Compensation>,
    ) -> Self {
        let (arguments, can_undo) = (ValueTemplate::from_literal(Value::Null), read_only || undo.is_some());
        Self {
            id,
            name: None,
            work: if by_agent {
                StepWork::AgentTool { tool, arguments }
            } else {
                StepWork::Tool { tool, arguments }
            },
            dependencies: Vec::new(),
            dependents: Vec::new(),
            when: None,
            timeout_ms: (!by_agent).then(|| timeout_ms.unwrap_or(TOOL_TIMEOUT_MS)),
            retry: RetryPolicy::default(),
            idempotent: false,
            read_only,
            cancellable: if can_undo { Reversibility::Reversible } else { Reversibility::Irreversible },
            compensation: undo,
            probe: None,
            approval: false,
            failure_action: None,
            propagate_to: BTreeSet::new(),
            priority: 0,
            metadata: None,
        }
    }
}

impl Compensation {
    /// The undo of a session's call, sent once. `Err`: its arguments do not compile.
    pub(crate) fn of_call(tool: &str, arguments: &Value) -> Result<Self, BindError> {
        let arguments = ValueTemplate::parse_in(arguments, ExpressionVocabulary::Undo)?;
        let restores = tool == RESTORE_TOOL;
        Ok(Self {
            work: CompensationWork::Tool { tool: tool.to_owned(), arguments },
            timeout_ms: Some(if restores { RESTORE_TIMEOUT_MS } else { TOOL_TIMEOUT_MS }),
            retry: RetryPolicy::default(),
            idempotent: restores,
        })
    }
}
