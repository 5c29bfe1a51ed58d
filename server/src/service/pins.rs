//! Tool pins and policies: the definition that each tool of a plan is pinned to and what the operator's
//! config says about the tool, both fixed when an execution starts; and the operator's acceptance of a tool
//! that has changed.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::Digest;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::Command;
use actbook_engine::library::ToolPins;
use actbook_engine::plan::Plan;
use actbook_engine::tool_policy::{RetryLimits, ToolPolicies, ToolPolicy};
use serde::Serialize;
use serde_json::Value;

use super::redact::tool_part;
use super::tools::ToolCatalog;
use crate::caller::{Caller, Right};
use crate::config::{RetryConfig, ToolConfig};
use crate::error::Error;
use crate::ledger::{AcceptToolRequest, KeyedReply};
use crate::store::tools::{self as rows, ToolRow};
use crate::tools::{Annotations, ToolInfo, summarize_changes};

/// What the operator says about a tool, beside what its server claims.
#[derive(Clone, Debug, Serialize)]
pub struct ToolPolicyView {
    /// The config trusts the hints of the tool's server.
    pub trusted: bool,
    pub terms: ToolPolicy,
    /// The definition that was accepted last. `None`: none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Digest>,
}

/// The result of accepting a tool's current definition, named by its digest.
#[derive(Clone, Debug, Serialize)]
pub struct AcceptedTool {
    pub tool: String,
    pub digest: Digest,
    /// False: the same definition was accepted before.
    pub fresh: bool,
}

impl ToolCatalog<'_> {
    /// The policy and pin of each tool of a saved plan, for a new execution. Refused if a tool's definition
    /// differs from the one that the plan was saved with and was not accepted since.
    pub(super) async fn load_policies(self, reference: &PlanRef, plan: &Plan) -> Result<ToolPolicies, Error> {
        let pins = self.0.ledger.with_library(|library| library.pins(reference).cloned())?;
        self.policies_with_pins(plan, &pins.unwrap_or_default()).await
    }

    /// Like `load_policies`, for a plan that is not saved yet: `pins` are those that it will be saved with.
    /// Asks the servers for the live definitions.
    pub(super) async fn policies_with_pins(
        self,
        plan: &Plan,
        pins: &ToolPins,
    ) -> Result<ToolPolicies, Error> {
        let names: BTreeSet<String> =
            plan.named_tools().into_iter().map(|(_, tool)| tool.to_owned()).collect();
        let described = self.0.tools.describe_all(&names).await;
        let accepted: BTreeMap<String, Digest> = self.0.ledger.with_library(|library| {
            names.iter().filter_map(|name| Some((name.clone(), library.accepted_definition(name)?))).collect()
        })?;
        let mut terms = ToolPolicies::new();
        for tool in plan.steps.iter().filter_map(|step| step.tool()).chain(names.iter().map(String::as_str)) {
            if terms.contains_key(tool) {
                continue;
            }
            let live = described.get(tool).and_then(|described| described.as_ref().ok());
            let pin = self.resolve_pin(tool, live, pins.get(tool), accepted.get(tool)).await?;
            let of_tool = ToolPolicy { pin, ..self.policy(tool, live.map(|info| &info.annotations)) };
            terms.insert(tool.to_owned(), of_tool);
        }
        terms.retain(|_, of_tool| *of_tool != ToolPolicy::default());
        Ok(terms)
    }

    /// Moves the pin of a step's tool to the definition that the operator has accepted since, if that is the
    /// live one, so that a retry uses it.
    pub(super) async fn move_pin_to_accepted(
        self,
        caller: &Caller,
        id: &str,
        step: &str,
    ) -> Result<(), Error> {
        let stream = self.0.executions().find(id).await?.stream;
        let execution = self.0.executions().fold(stream).await?;
        let tool = execution.plan.find_step(step).and_then(|no| execution.plan.step(no).tool());
        let Some((tool, pin)) = tool.and_then(|tool| Some((tool, execution.tool_policies.get(tool)?.pin?)))
        else {
            return Ok(());
        };
        let accepted = self.0.ledger.with_library(|library| library.accepted_definition(tool))?;
        let Some(accepted) = accepted.filter(|accepted| *accepted != pin) else { return Ok(()) };
        if self.0.tools.describe(tool).await.is_ok_and(|live| live.digest == accepted) {
            let command = Command::MovePin { tool: tool.to_owned(), digest: accepted };
            self.0.ledger.command(&self.0.journaled_actor(caller), stream, command).await?;
        }
        Ok(())
    }

    /// The pin for a new execution: the live definition. Refused if that differs from `pinned` and is not
    /// `accepted`. If the server cannot be reached (`live` is `None`), `pinned` stays and is compared when
    /// the tool is called. `None`: the tool is not pinned.
    async fn resolve_pin(
        self,
        tool: &str,
        live: Option<&ToolInfo>,
        pinned: Option<&Digest>,
        accepted: Option<&Digest>,
    ) -> Result<Option<Digest>, Error> {
        let Some((info, digest)) = live.and_then(|info| Some((info, info.pin()?))) else {
            return Ok(pinned.copied());
        };
        match pinned {
            Some(pinned) if *pinned != digest && accepted != Some(&digest) => {
                let was = rows::by_digest(self.0.tenant, &pinned.to_string()).first(&self.0.db).await?;
                Err(tool_changed_error(tool, was.as_ref(), &self.redact_copy(&info.object)))
            }
            Some(_) | None => Ok(Some(digest)),
        }
    }

    /// The policy of a tool, written `server/tool`, from the operator's config and the hints of a trusted
    /// server; without a pin. `hints` of another server are ignored.
    pub(super) fn policy(self, tool: &str, hints: Option<&Annotations>) -> ToolPolicy {
        let ToolConfig { timeout, idempotent, read_only, approval, retry, .. } =
            self.0.tools.tool_config(tool);
        let server = tool.split('/').next().unwrap_or(tool);
        let hints = hints.filter(|_| self.0.tools.trusts_hints_of(server));
        let applies = |hint: Option<bool>, config: Option<bool>| hint == Some(true) && config != Some(false);
        ToolPolicy {
            pin: None,
            timeout_ms: timeout.map(duration_ms),
            retry: retry.map(retry_limits),
            idempotent,
            read_only,
            hinted: hints.is_some_and(|hints| {
                applies(hints.read_only, read_only) || applies(hints.idempotent, idempotent)
            }),
            approval: approval == Some(true),
        }
    }

    /// The policy of a tool of a guarded session, from the operator's config alone.
    pub fn session_policy(self, tool: &str) -> ToolPolicy {
        self.policy(tool, None)
    }

    /// What the operator says about a tool: trust, policy and the accepted definition.
    pub fn policy_view(self, name: &str, info: &ToolInfo) -> Result<ToolPolicyView, Error> {
        let terms = self.policy(name, Some(&info.annotations));
        let trusted = self.0.tools.trusts_hints_of(name.split('/').next().unwrap_or_default());
        let accepted = self.0.ledger.with_library(|library| library.accepted_definition(name))?;
        Ok(ToolPolicyView { trusted, terms, accepted })
    }

    /// Accepts a tool's current definition for every plan, including those pinned to an older one. Refused
    /// for an in-process executor, which has none.
    pub async fn accept(
        self,
        caller: &Caller,
        name: &str,
        reason: Option<String>,
    ) -> Result<AcceptedTool, Error> {
        // Before the tool's server is started.
        self.0.require(caller, Right::Admin)?;
        self.0.refuse_secret_name("the tool's name", tool_part(name))?;
        let info = self.get(name).await?;
        let Some(digest) = info.pin() else {
            return Err(Error::NothingToAccept { tool: name.to_owned() });
        };
        let request = AcceptToolRequest { digest, tool: self.row(&info), reason };
        let fresh = matches!(self.0.submit(caller, request).await?, KeyedReply::First(true));
        Ok(AcceptedTool { tool: info.name, digest, fresh })
    }

    /// The row that stores a tool's definition for later comparison, redacted: a server may put secrets into
    /// it.
    pub(super) fn row(self, info: &ToolInfo) -> ToolRow {
        let object = self.redact_copy(&info.object).to_string();
        ToolRow { digest: info.digest.to_string(), name: info.name.clone(), definition: object }
    }

    /// A copy of a definition with secrets redacted.
    fn redact_copy(self, object: &Value) -> Value {
        let mut object = object.clone();
        self.0.tools.redact(&mut object);
        object
    }
}

/// The refusal of a tool whose definition changed, with the differences. `was`: the former definition, if it
/// was stored.
fn tool_changed_error(tool: &str, was: Option<&ToolRow>, now: &Value) -> Error {
    let was: Option<Value> = was.and_then(|was| serde_json::from_str(&was.definition).ok());
    let differences = was.map_or_else(
        || "its former definition is not known here".to_owned(),
        |was| summarize_changes(tool, &was, now),
    );
    Error::ToolChanged { tool: tool.to_owned(), differences }
}

/// The config's limits as the engine takes them, in milliseconds.
fn retry_limits(config: RetryConfig) -> RetryLimits {
    let RetryConfig { max_attempts, backoff, factor, max_backoff, on } = config;
    RetryLimits {
        max_attempts,
        backoff_ms: backoff.map(duration_ms),
        factor,
        max_backoff_ms: max_backoff.map(duration_ms),
        on,
    }
}

/// A duration in milliseconds, `u64::MAX` at most.
fn duration_ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
