//! Parts of the events of sessions: executions whose plan grows with each call of an agent.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ExecutionId, StepId};
use crate::policy::string_enum;

/// What an open execution records of its session at its start. A successor inherits labels, counts and budget.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStart {
    /// The agent's client, such as `claude-code`.
    pub client: String,
    /// The client's own id of the session.
    pub key: Option<String>,
    /// The folder that the agent works in.
    pub folder: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// The calls that earlier parts of the session started, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u32>,
    pub budget: Option<CallBudget>,
    /// The part of the session before this one.
    pub continues: Option<ExecutionId>,
    /// Unix time in milliseconds of the start of the session's first part; `None`: this is the first part.
    pub began_at_ms: Option<i64>,
}

/// How many calls a session may start, and for how long. `None`: no limit.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallBudget {
    pub calls: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_tool: BTreeMap<String, u32>,
    /// Time since the session began, in milliseconds.
    pub wall_ms: Option<u64>,
}

/// How a session's call is undone: a tool call whose arguments may read the call's own `arguments`, `output` and
/// `before`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoTemplate {
    pub tool: String,
    pub arguments: Value,
    /// How the state around the call was read; the undo reads it once more, and asks where something else changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<StateRead>,
}

/// A call that only reads, with its arguments as they are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRead {
    pub tool: String,
    pub arguments: Value,
}

/// The attempt at a plan's step that a session's call was recognised as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchedStep {
    pub execution: ExecutionId,
    pub step: StepId,
    pub attempt: u32,
}

string_enum!(
    /// Whether a state was read before its call was sent, or after it ended.
    StateMoment { Before = "before", After = "after" }
);
string_enum!(
    /// What is particular about how a call came into the journal.
    CallNote {
        /// The client asked its person by its own prompt: that the call ran shows that it was allowed there.
        AskedInClient = "asked_in_client",
        /// Only the end of the call was seen.
        NotSeen = "not_seen",
    }
);
string_enum!(
    /// What a yes to a session's call covers: the call once, or its tool until the session's labels change.
    #[derive(Default)]
    ApprovalScope {
        #[default]
        Once = "once",
        Session = "session",
    }
);
