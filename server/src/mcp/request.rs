//! A request of an agent: its caller, the capabilities of its client, and progress notifications to it.

use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, InputResponses, ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::caller::{Caller, Credential, CredentialKind, IdempotencyKey, Right};
use crate::service::Service;

/// Precedes an agent's name in the journal.
const AGENT_PREFIX: &str = "agent:";
/// Longest client name; it is written into every journal entry.
const NAME_CHARS_MAX: usize = 60;
/// Longest time between two progress notifications while a client waits.
const PROGRESS_HEARTBEAT: Duration = Duration::from_secs(10);
/// The fraction of the remaining progress by which a notification rises if nothing has advanced.
const UNMEASURED_RISE: f64 = 0.02;
/// Arguments that may differ between two requests that count as the same under an idempotency key.
const ARGUMENTS_OUTSIDE_KEY: [&str; 2] = ["idempotency_key", "wait_s"];

/// A request of an agent: the caller, the library's context, and answers to questions that it brings back.
#[derive(Debug)]
pub struct AgentRequest {
    pub caller: Caller,
    pub context: RequestContext<RoleServer>,
    /// What a person answered to the questions of an earlier `input_required` result.
    pub input_responses: Option<InputResponses>,
    /// The sealed state that came with those questions.
    pub request_state: Option<String>,
}

impl AgentRequest {
    /// A request by the agent `agent:CLIENT`, without an idempotency key or a session.
    pub fn new(context: RequestContext<RoleServer>, service: &Service) -> Self {
        let caller = match credential(&context) {
            // Over MCP the config says who approves, not the credential.
            Some(token) => Caller::new(format!("{AGENT_PREFIX}{}", token.name))
                .limited_to(token)
                .with_right(Right::Approve),
            None => Caller::new(format!("{AGENT_PREFIX}{}", client_name(&context, service))),
        };
        Self { caller, context, input_responses: None, request_state: None }
    }

    /// Sets the caller's idempotency key from the arguments, bound to the tool and the arguments that matter;
    /// no key if they have none.
    pub fn with_idempotency_key(mut self, tool: &str, arguments: &serde_json::Map<String, Value>) -> Self {
        let name = arguments.get("idempotency_key").and_then(Value::as_str);
        self.caller.key = name.map(|name| {
            let compared =
                arguments.iter().filter(|(name, _)| !ARGUMENTS_OUTSIDE_KEY.contains(&name.as_str()));
            let request =
                json!({ "tool": tool, "arguments": compared.collect::<std::collections::BTreeMap<_, _>>() });
            IdempotencyKey::new(name, &request)
        });
        self
    }

    /// The person who answers through the client, as a caller: `person:through CLIENT`, with the request's
    /// key.
    pub fn person_caller(&self) -> Caller {
        let client = self.caller.actor.strip_prefix(AGENT_PREFIX).unwrap_or_default();
        let actor = format!("person:through {client}").into();
        Caller { actor, session: None, ..self.caller.clone() }
    }

    /// The agent's name in the journal, without what precedes it there.
    pub fn agent_name(&self) -> &str {
        self.caller.actor.strip_prefix(AGENT_PREFIX).unwrap_or(&self.caller.actor)
    }

    /// The id of the token that an HTTP request came with; empty: none. Unlike the client's name it is not the agent's
    /// choice.
    pub fn credential_id(&self) -> String {
        credential(&self.context).map(|token| token.id.clone()).unwrap_or_default()
    }

    /// What the client declared; empty if it declared nothing.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Whether the client can show a form to a person.
    pub fn can_elicit(&self) -> bool {
        let elicitation = self.client_capabilities().elicitation;
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Whether the client can put an approval to a person whose answer counts. Over HTTP the token must be a person's, or
    /// may approve by itself: whoever holds another one could give the answer.
    pub fn asks_a_person(&self) -> bool {
        let counts = |token: &Credential| {
            token.kind == CredentialKind::PersonToken || token.role.rights().has(Right::Approve)
        };
        self.can_elicit() && credential(&self.context).is_none_or(counts)
    }

    /// Whether the client uses the sessionless protocol; there a server asks by `input_required` results.
    pub fn is_sessionless(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// A notifier for the progress of this request.
    pub fn progress_notifier(&self) -> ProgressNotifier {
        ProgressNotifier {
            token: self.context.meta.get_progress_token(),
            peer: self.context.peer.clone(),
            last_progress: 0.0,
            heartbeat_at: Instant::now() + PROGRESS_HEARTBEAT,
        }
    }
}

/// The token that an HTTP request came with. None: over stdio, or `/mcp` is open.
fn credential(context: &RequestContext<RoleServer>) -> Option<&Credential> {
    context.extensions.get::<axum::http::request::Parts>()?.extensions.get::<Credential>()
}

/// The client's name without control characters and secrets, shortened; "unnamed" if it has none. It is
/// redacted before it is shortened: part of a secret would not be recognised.
fn client_name(context: &RequestContext<RoleServer>, service: &Service) -> String {
    let name = context.client_info().map(|client| client.name).unwrap_or_default();
    let plain = service.redact_name(name.chars().filter(|c| !c.is_control()).collect());
    let plain: String = plain.chars().take(NAME_CHARS_MAX).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// Sends the progress notifications of one request: each rises, and stays below the total until all is done.
#[derive(Debug)]
pub struct ProgressNotifier {
    /// None: the client asked for no progress.
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    /// The progress of the last notification.
    last_progress: f64,
    /// When the next notification is due.
    heartbeat_at: Instant,
}

/// The progress of an execution, in steps.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressUpdate {
    /// Steps that are done, plus the reported fractions of running steps.
    pub done: f64,
    pub total: f64,
    pub message: String,
}

impl ProgressNotifier {
    /// Sends a notification and restarts the heartbeat; sends nothing if the client asked for no progress.
    pub async fn notify(&mut self, update: ProgressUpdate) {
        self.heartbeat_at = Instant::now() + PROGRESS_HEARTBEAT;
        let Some(token) = self.token.clone() else { return };
        // The protocol requires every notification to rise, even if nothing has advanced.
        let progress = if update.done > self.last_progress {
            update.done
        } else {
            self.last_progress + (update.total - self.last_progress) * UNMEASURED_RISE
        };
        if progress <= self.last_progress {
            return;
        }
        self.last_progress = progress;
        let notification = ProgressNotificationParam::new(token, progress)
            .with_total(update.total)
            .with_message(update.message);
        if let Err(error) = self.peer.notify_progress(notification).await {
            tracing::debug!("a progress notification was not delivered: {error}");
        }
    }

    /// Whether the client asked for progress and the execution has advanced since the last notification.
    pub fn has_advanced(&self, update: &ProgressUpdate) -> bool {
        self.token.is_some() && update.done > self.last_progress
    }

    /// When a notification is due even if nothing has advanced.
    pub fn heartbeat_at(&self) -> Instant {
        self.heartbeat_at
    }
}
