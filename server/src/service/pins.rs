//! What a plan's tools are pinned to and what the operator says of them: settled when an execution
//! starts; and the operator's yes to a tool that changed.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::chain::Digest;
use actbook_engine::event::PlanRef;
use actbook_engine::execution::Command;
use actbook_engine::library::Pins;
use actbook_engine::plan::Plan;
use actbook_engine::terms::{RetryTerms, Terms, ToolTerms};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::plans::named_tools;
use crate::caller::Caller;
use crate::config::{RetryWords, ToolWords};
use crate::error::Error;
use crate::ledger::{Reply, Request};
use crate::store::tools::{self as rows, Tool};
use crate::tools::{Annotations, ToolInfo, changes_of};

/// The operator's side of a tool, beside what its server claims.
#[derive(Clone, Debug, Serialize)]
pub struct ToolStanding {
    /// Its server's hints count.
    pub trusted: bool,
    pub terms: ToolTerms,
    /// The definition that was accepted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Digest>,
}

/// A tool as an operator has taken it.
#[derive(Clone, Debug, Serialize)]
pub struct ToolTaken {
    pub tool: String,
    pub digest: Digest,
    /// False: this very definition was accepted before.
    pub fresh: bool,
}

impl Service {
    /// What counts for each tool of a plan from here on. Refused where one of them is not what it was.
    pub(super) async fn terms(&self, reference: &PlanRef, plan: &Plan) -> Result<Terms, Error> {
        let pins = self.ledger.look_at_library(|library| library.pins(reference).cloned())?;
        self.terms_of(plan, &pins.unwrap_or_default()).await
    }

    /// The same for a plan that was checked against these definitions.
    pub(super) async fn terms_of(&self, plan: &Plan, pins: &Pins) -> Result<Terms, Error> {
        let names: BTreeSet<String> =
            named_tools(plan).into_iter().map(|(_, tool)| tool.to_owned()).collect();
        let described = self.tools.describe_each(&names).await;
        let accepted: BTreeMap<String, Digest> = self.ledger.look_at_library(|library| {
            names.iter().filter_map(|name| Some((name.clone(), library.accepted(name)?))).collect()
        })?;
        let mut terms = Terms::new();
        for tool in plan.steps.iter().filter_map(|step| step.tool()).chain(names.iter().map(String::as_str)) {
            if terms.contains_key(tool) {
                continue;
            }
            let live = described.get(tool).and_then(|described| described.as_ref().ok());
            let pin = self.pin(tool, live, pins.get(tool), accepted.get(tool)).await?;
            let said = ToolTerms { pin, ..self.tool_terms(tool, live.map(|info| &info.annotations)) };
            terms.insert(tool.to_owned(), said);
        }
        terms.retain(|_, said| *said != ToolTerms::default());
        Ok(terms)
    }

    /// A step that runs again asks, and calls, for its tool as an operator has accepted it since.
    pub(super) async fn take_over_accepted(
        &self,
        caller: &Caller,
        id: &str,
        step: &str,
    ) -> Result<(), Error> {
        let stream = self.find(id).await?.stream;
        let execution = self.fold(stream)?;
        let tool = execution.plan.find(step).and_then(|no| execution.plan.step(no).tool());
        let Some((tool, pin)) = tool.and_then(|tool| Some((tool, execution.terms.get(tool)?.pin?))) else {
            return Ok(());
        };
        let accepted = self.ledger.look_at_library(|library| library.accepted(tool))?;
        let Some(accepted) = accepted.filter(|accepted| *accepted != pin) else { return Ok(()) };
        if self.tools.describe(tool).await.is_ok_and(|live| live.digest == accepted) {
            let command = Command::MovePin { tool: tool.to_owned(), digest: accepted };
            self.ledger.command(&caller.actor, stream, command).await?;
        }
        Ok(())
    }

    /// A server that cannot be reached now is compared when it is called.
    async fn pin(
        &self,
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
                let was = rows::find(self.tenant, &pinned.to_string()).first(&self.db).await?;
                Err(changed(tool, was.as_ref(), &self.redacted(&info.object)))
            }
            Some(_) | None => Ok(Some(digest)),
        }
    }

    /// The operator's words on a tool, and what a trusted server says of it.
    pub(super) fn tool_terms(&self, tool: &str, hints: Option<&Annotations>) -> ToolTerms {
        let ToolWords { timeout, idempotent, read_only, approval, retry } = self.tools.words(tool);
        let server = tool.split('/').next().unwrap_or(tool);
        let hints = hints.filter(|_| self.tools.trusts(server));
        let says = |hint: Option<bool>, word: Option<bool>| hint == Some(true) && word != Some(false);
        ToolTerms {
            pin: None,
            timeout_ms: timeout.map(ms),
            retry: retry.map(retry_terms),
            idempotent,
            read_only,
            hinted: hints
                .is_some_and(|hints| says(hints.read_only, read_only) || says(hints.idempotent, idempotent)),
            approval: approval == Some(true),
        }
    }

    /// What the operator has said of a tool so far.
    pub fn standing(&self, info: &ToolInfo) -> Result<ToolStanding, Error> {
        let terms = self.tool_terms(&info.name, Some(&info.annotations));
        let trusted = self.tools.trusts(info.name.split('/').next().unwrap_or_default());
        let accepted = self.ledger.look_at_library(|library| library.accepted(&info.name))?;
        Ok(ToolStanding { trusted, terms, accepted })
    }

    /// Takes a tool as it is now: its definition counts for every plan from here on.
    pub async fn accept_tool(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<String>,
    ) -> Result<ToolTaken, Error> {
        let info = self.tool(name).await?;
        let Some(digest) = info.pin() else {
            let message = format!("`{name}` is part of this process and has no definition to accept");
            return Err(Error::new("nothing_to_accept", message, "accept tools of servers and commands"));
        };
        let request = Request::AcceptTool { digest, tool: self.row(&info), reason };
        match self.ask(caller, request).await? {
            Reply::Accepted { fresh } => Ok(ToolTaken { tool: info.name, digest, fresh }),
            Reply::Saved { .. }
            | Reply::Deleted
            | Reply::Moved(_)
            | Reply::Recorded(_)
            | Reply::Repeated(_) => {
                unreachable!("accepting a tool answers that it is accepted")
            }
        }
    }

    /// The tool as it is kept for later comparison: a server may put anything into a description.
    pub(super) fn row(&self, info: &ToolInfo) -> Tool {
        let object = self.redacted(&info.object).to_string();
        Tool { digest: info.digest.to_string(), name: info.name.clone(), object }
    }

    fn redacted(&self, object: &Value) -> Value {
        let mut object = object.clone();
        self.tools.redact(&mut object);
        object
    }
}

fn changed(tool: &str, was: Option<&Tool>, now: &Value) -> Error {
    let was: Option<Value> = was.and_then(|was| serde_json::from_str(&was.object).ok());
    let how =
        was.map_or_else(|| "how it was is not known here".to_owned(), |was| changes_of(tool, &was, now));
    let message = format!("`{tool}` is not what it was when the plan was saved: {how}");
    let cure = format!("read it, then save the plan again, or `actbook tools accept {tool}`");
    Error::new("tool_changed", message, cure)
}

fn retry_terms(words: RetryWords) -> RetryTerms {
    let RetryWords { max_attempts, backoff, factor, max_backoff, on } = words;
    RetryTerms { max_attempts, backoff_ms: backoff.map(ms), factor, max_backoff_ms: max_backoff.map(ms), on }
}

fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
