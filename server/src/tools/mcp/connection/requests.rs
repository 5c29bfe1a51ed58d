//! Requests to a server that are no tool calls, relayed for an agent's client, and the lists of what there is to ask for.

use std::time::Duration;

#[expect(deprecated, reason = "servers of the older revisions of the protocol still log")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, ReadResourceRequestParams, ServerResult,
    SubscribeRequestParams,
};
use rmcp::service::ServiceError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call::without_server_info;
use super::{McpConnection, find_post_error};
use crate::tools::classify::RawOutcome;
use crate::tools::limits::bytes::TOOLS_MAX;
use crate::tools::mcp::StopFuture;
use crate::tools::mcp::http::PostError;
use crate::tools::{Call, RelayedRequest, ServerAnswer, ServerOffers};

/// The time limit for listing what a server offers.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// Why a request has no answer of its server.
enum RequestFailure {
    /// The parameters are not those of the request.
    BadParams(String),
    Service(ServiceError),
}

impl McpConnection {
    /// Sends a request and awaits its answer, at most for the call's timeout; also returns whether it was asked to stop.
    /// The answer counts as the output of the call.
    pub async fn relay_request<F>(
        &self,
        request: &RelayedRequest,
        call: &Call,
        stop: StopFuture<'_, F>,
    ) -> (RawOutcome, bool)
    where
        F: Future<Output = ()> + Send,
    {
        // Dropping the request's future has rmcp cancel it at the server.
        let answered = tokio::select! {
            answered = self.send_relayed(request) => answered,
            () = tokio::time::sleep(call.timeout) => return (RawOutcome::TimedOut { after: call.timeout }, false),
            () = stop => return (RawOutcome::TimedOut { after: Duration::ZERO }, true),
        };
        let on_answer =
            |answer: ServerAnswer| call.context.on_answer.iter().for_each(|relay| relay(answer.clone()));
        let raw = match answered {
            Ok(result) => {
                on_answer(ServerAnswer::Result(without_server_info(result.clone())));
                RawOutcome::ToolResult { text: String::new(), structured: Some(result), is_error: false }
            }
            Err(RequestFailure::BadParams(why)) => {
                let category = actbook_engine::policy::ErrorCategory::InvalidArguments;
                RawOutcome::NotSent { category, why }
            }
            Err(RequestFailure::Service(ServiceError::McpError(error))) => {
                let (code, message) = (error.code.0, error.message.into_owned());
                on_answer(ServerAnswer::Error { code, message: message.clone(), data: error.data.clone() });
                RawOutcome::RpcError { code, message, data: error.data }
            }
            Err(RequestFailure::Service(ServiceError::TransportSend(error))) => match find_post_error(&error)
            {
                Some(PostError(raw)) => raw.clone(),
                None => self.connection_lost().await,
            },
            Err(RequestFailure::Service(ServiceError::TransportClosed)) => self.connection_lost().await,
            Err(RequestFailure::Service(other)) => RawOutcome::InvalidResponse { why: other.to_string() },
        };
        (raw, false)
    }

    async fn send_relayed(&self, request: &RelayedRequest) -> Result<Value, RequestFailure> {
        match request {
            RelayedRequest::ReadResource(params) => {
                let params = parse::<ReadResourceRequestParams>(params)?;
                let response = self.peer.read_resource_once(params).await.map_err(RequestFailure::Service)?;
                Ok(to_json(&ServerResult::from(response)))
            }
            RelayedRequest::GetPrompt(params) => {
                let params = parse::<GetPromptRequestParams>(params)?;
                let response = self.peer.get_prompt_once(params).await.map_err(RequestFailure::Service)?;
                Ok(to_json(&ServerResult::from(response)))
            }
            RelayedRequest::Complete(params) => {
                let params = parse::<CompleteRequestParams>(params)?;
                let response = self.peer.complete(params).await.map_err(RequestFailure::Service)?;
                Ok(to_json(&response))
            }
        }
    }

    /// What the server offers beside tools, as far as it declares it. `Err`: the rest of a sentence about the server.
    pub async fn offers(&self) -> Result<ServerOffers, String> {
        match tokio::time::timeout(LIST_LIMIT, self.list_offers()).await {
            Ok(offers) => offers.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {LIST_LIMIT:?}")),
        }
    }

    /// Has the server report changes of a resource. `Err`: it refuses, or is gone.
    #[expect(
        deprecated,
        reason = "servers of the older revisions of the protocol have no other request for it"
    )]
    pub async fn subscribe(&self, uri: &str) -> Result<(), String> {
        let subscribed = self.peer.subscribe(SubscribeRequestParams::new(uri));
        match tokio::time::timeout(LIST_LIMIT, subscribed).await {
            Ok(subscribed) => subscribed.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {LIST_LIMIT:?}")),
        }
    }

    /// Sets from which level on the server logs; a failure is only logged.
    #[expect(deprecated, reason = "servers of the older revisions of the protocol still log")]
    pub async fn set_log_level(&self, level: &Value) {
        let declares = self.peer.peer_info().is_some_and(|info| info.capabilities.logging.is_some());
        let Some(level) = serde_json::from_value(level.clone()).ok().filter(|_| declares) else { return };
        let set = self.peer.set_level(SetLevelRequestParams::new(level));
        if !matches!(tokio::time::timeout(LIST_LIMIT, set).await, Ok(Ok(()))) {
            tracing::debug!("a server did not take the level of logging");
        }
    }

    async fn list_offers(&self) -> Result<ServerOffers, ServiceError> {
        let Some(info) = self.peer.peer_info() else { return Ok(ServerOffers::default()) };
        let capabilities = info.capabilities.clone();
        let mut offers = ServerOffers::default();
        if capabilities.resources.is_some() {
            offers.resources = listed(self.peer.list_all_resources().await)?;
            offers.resource_templates = listed(self.peer.list_all_resource_templates().await)?;
        }
        if capabilities.prompts.is_some() {
            offers.prompts = listed(self.peer.list_all_prompts().await)?;
        }
        Ok(offers)
    }
}

/// The list as JSON; empty where the server declares the capability and has no such method.
fn listed<T: Serialize>(items: Result<Vec<T>, ServiceError>) -> Result<Vec<Value>, ServiceError> {
    match items {
        Ok(items) => Ok(items.iter().take(TOOLS_MAX).map(to_json).collect()),
        Err(ServiceError::McpError(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn parse<T: DeserializeOwned>(params: &Value) -> Result<T, RequestFailure> {
    serde_json::from_value(params.clone()).map_err(|error| RequestFailure::BadParams(error.to_string()))
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("what was parsed from JSON serialises")
}
