//! What a rule can read: the call, its tool, the session so far, who calls and when.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::string_enum;

/// Everything that rules can read about one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleFacts {
    pub call: CallFacts,
    pub tool: CalledToolFacts,
    pub session: SessionFacts,
    pub caller: CallerFacts,
    /// Milliseconds since 1970, as `session.started_at`.
    pub now: i64,
}

/// The call itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallFacts {
    /// `server/tool`.
    pub tool: String,
    pub server: String,
    pub arguments: Value,
    /// The paths in the arguments, absolute, with links followed.
    pub paths: Vec<String>,
    pub read_only: bool,
}

/// What is known of the tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CalledToolFacts {
    pub labels: BTreeSet<String>,
    pub pin: PinState,
    pub read_only: bool,
    pub destructive: bool,
    pub trusted: bool,
}

string_enum!(
    /// How the tool's definition stands to the one that was accepted.
    #[derive(Default)]
    PinState {
        #[default]
        Same = "same",
        Changed = "changed",
        New = "new",
    }
);

/// The session up to this call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionFacts {
    pub labels: BTreeSet<String>,
    /// The number of calls that have started.
    pub calls: u32,
    /// The same by tool.
    pub count: BTreeMap<String, u32>,
    /// The folder that the agent works in; null if none is known.
    pub folder: Option<String>,
    pub client: String,
    /// The subagent that calls; null for the agent itself.
    pub agent: Option<String>,
    pub started_at: i64,
    /// The execution whose plan the session follows; null if none.
    pub plan: Option<String>,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallerFacts {
    pub name: String,
    pub roles: Vec<String>,
}
