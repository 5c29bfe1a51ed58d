//! What a call of a session is judged with: what the rules read about the session, and what its budget and its earlier
//! calls say of it.

use std::collections::BTreeSet;

use actbook_engine::execution::{CallVerdict, Execution, SessionCall};
use actbook_engine::rules::SessionFacts;
use serde_json::Value;

use super::sessions::arguments_digest;

/// The tool of a call as the agent's client calls it. Only `tool` is known of a call that Actbook sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledTool {
    /// `server/tool`.
    pub tool: String,
    /// The client's own name of the tool.
    pub client_tool: Option<String>,
    /// The folder that the client makes the call in.
    pub folder: Option<String>,
}

/// What a call is judged with of its session.
#[derive(Clone, Debug)]
pub struct JudgedSession {
    pub facts: SessionFacts,
    /// Why the budget allows no further call of the tool; `None`: it allows one.
    pub spent_budget: Option<String>,
    /// An equal call has an unknown outcome, and its tool is neither read-only nor idempotent.
    pub repeats_unknown: bool,
}

impl JudgedSession {
    /// `arguments`: of the call, as they are stored.
    pub(super) fn of(
        execution: &Execution,
        (tool, arguments): (&str, &Value),
        agent: Option<String>,
        now_ms: i64,
    ) -> Self {
        let digest = arguments_digest(execution, arguments);
        Self {
            facts: session_facts(execution, agent).expect("a part is an open execution"),
            spent_budget: execution.spent_budget(tool, now_ms),
            repeats_unknown: execution.equal_unknown_call(tool, digest).is_some(),
        }
    }

    /// A call that was judged with the session as it is here, allowed and without anything else.
    pub fn call(&self, called: CalledTool, arguments: Value) -> SessionCall {
        SessionCall {
            tool: called.tool,
            arguments,
            by_agent: true,
            node: None,
            policies: Default::default(),
            servers: Default::default(),
            undo: None,
            adds: BTreeSet::new(),
            call: None,
            agent: None,
            client_tool: called.client_tool,
            folder: called.folder,
            secrets: None,
            matched: None,
            before: None,
            labels: self.facts.labels.clone(),
            verdict: CallVerdict::Allow,
            rule: None,
            note: None,
            expires_at_ms: None,
            observed: false,
        }
    }
}

/// What rules read about a session; `None`: the execution is none.
pub(super) fn session_facts(execution: &Execution, agent: Option<String>) -> Option<SessionFacts> {
    let session = execution.session.as_deref()?;
    Some(SessionFacts {
        labels: session.labels.clone(),
        calls: session.calls_started(),
        count: session.counts.clone(),
        folder: session.start.folder.clone(),
        client: session.start.client.clone(),
        agent,
        started_at: session.start.began_at_ms.unwrap_or(execution.started_at_ms),
        plan: None,
    })
}
