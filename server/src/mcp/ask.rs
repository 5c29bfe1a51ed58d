//! One call as it came in: who asks, what its client can do, and how to tell it of progress.

use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, InputResponses, ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::caller::{Caller, Key};

/// A name longer than this is cut: it is written into every entry.
const NAME_CHARS_MAX: usize = 60;
/// A client that waits hears something at least this often.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The part of what is left by which progress rises where nothing can be measured.
const CREEP: f64 = 0.02;
/// Not part of what a request asks for: the same request may come with another of these.
const BESIDE_THE_POINT: [&str; 2] = ["idempotency_key", "wait_s"];

#[derive(Debug)]
pub struct Ask {
    pub caller: Caller,
    pub context: RequestContext<RoleServer>,
    /// What a person answered through the client, and the state that came with the question.
    pub responses: Option<InputResponses>,
    pub request_state: Option<String>,
}

impl Ask {
    pub fn new(context: RequestContext<RoleServer>) -> Self {
        let caller = Caller::new(format!("agent:{}", client(&context)));
        Self { caller, context, responses: None, request_state: None }
    }

    /// The key that the arguments carry makes a repeat of this call the same call.
    pub fn keyed(mut self, tool: &str, arguments: &serde_json::Map<String, Value>) -> Self {
        let name = arguments.get("idempotency_key").and_then(Value::as_str);
        self.caller.key = name.map(|name| {
            let point = arguments.iter().filter(|(name, _)| !BESIDE_THE_POINT.contains(&name.as_str()));
            let request =
                json!({ "tool": tool, "arguments": point.collect::<std::collections::BTreeMap<_, _>>() });
            Key::new(name, &request)
        });
        self
    }

    /// The person who answers through the client, as the journal names it.
    pub fn person(&self) -> Caller {
        Caller::new(format!("person:through {}", client(&self.context))).with_key(self.caller.key.clone())
    }

    pub fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }

    /// Its client can put a form to a person.
    pub fn can_elicit(&self) -> bool {
        let elicitation = self.capabilities().elicitation;
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Speaks the protocol without sessions, in which a server puts its questions into its results.
    pub fn is_modern(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    pub fn telling(&self) -> Telling {
        Telling {
            token: self.context.meta.get_progress_token(),
            peer: self.context.peer.clone(),
            told: 0.0,
            next: Instant::now() + HEARTBEAT,
        }
    }
}

fn client(context: &RequestContext<RoleServer>) -> String {
    let name = context.client_info().map(|client| client.name).unwrap_or_default();
    let plain: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// Progress notifications of one call: rising, and below their total until everything is done.
#[derive(Debug)]
pub struct Telling {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    /// What was told last.
    told: f64,
    next: Instant,
}

/// How far an execution is, in steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Stand {
    /// Steps that are done, and the known part of those at work.
    pub done: f64,
    pub total: f64,
    pub message: String,
}

impl Telling {
    /// Whoever asked for no progress is told nothing.
    pub async fn tell(&mut self, stand: Stand) {
        self.next = Instant::now() + HEARTBEAT;
        let Some(token) = self.token.clone() else { return };
        // The protocol wants every notification to rise, also where nothing can be measured.
        let rises =
            if stand.done > self.told { stand.done } else { self.told + (stand.total - self.told) * CREEP };
        if rises <= self.told {
            return;
        }
        self.told = rises;
        let progress =
            ProgressNotificationParam::new(token, rises).with_total(stand.total).with_message(stand.message);
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!("progress was not delivered: {error}");
        }
    }

    /// Somebody wants to hear of progress, and there is some.
    pub fn is_news(&self, stand: &Stand) -> bool {
        self.token.is_some() && stand.done > self.told
    }

    pub fn heartbeat(&self) -> Instant {
        self.next
    }
}
