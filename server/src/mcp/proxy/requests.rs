//! The servers' resources and prompts: listed beside Actbook's own, and read, got and completed through the guard. These
//! requests are calls too: each is a step of the session, under the server's name and the request's method.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, InputRequiredResult, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceTemplate,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::super::McpEndpoint;
use super::super::request::AgentRequest;
use super::Proxy;
use super::call::{CallFailure, GuardedWork, parsed, relay};
use crate::guard::SessionOrigin;
use crate::service::RelayedAnswer;
use crate::tools::{RelayedRequest, ServerAnswer};

/// What the servers offered beside tools, as it was listed last.
#[derive(Debug, Default)]
pub struct ListedOffers {
    /// The server of each resource, by its address. Of two servers with one address the first in the alphabet is asked.
    resources: BTreeMap<String, String>,
    /// The server of each template, by the text before its first variable.
    templates: BTreeMap<String, String>,
    /// Server and own name of each prompt, by its offered name.
    prompts: BTreeMap<String, (String, String)>,
}

/// The resources, templates and prompts of all servers.
#[derive(Debug, Default)]
pub struct RelayedLists {
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    pub prompts: Vec<Prompt>,
}

impl ListedOffers {
    fn server_of(&self, uri: &str) -> Option<&str> {
        let by_template = || self.templates.iter().rev().find(|(head, _)| uri.starts_with(head.as_str()));
        let server = self.resources.get(uri).or_else(|| by_template().map(|(_, server)| server));
        server.map(String::as_str)
    }
}

impl Proxy {
    /// Lists what the servers offer beside tools. A server that cannot be reached is left out.
    pub async fn list_offers(&self, endpoint: &McpEndpoint) -> RelayedLists {
        let catalog = endpoint.service().catalog();
        let servers = catalog.server_names();
        let listed = join_all(servers.iter().map(|server| catalog.server_offers(server))).await;
        let (mut lists, mut known) = (RelayedLists::default(), ListedOffers::default());
        for (server, offers) in servers.iter().zip(listed) {
            let offers = match offers {
                Ok(offers) => offers,
                Err(error) => {
                    tracing::warn!("what `{server}` offers is not listed: {error}");
                    continue;
                }
            };
            for resource in items::<Resource>(offers.resources) {
                known.resources.entry(resource.uri.clone()).or_insert_with(|| server.clone());
                lists.resources.push(resource);
            }
            for template in items::<ResourceTemplate>(offers.resource_templates) {
                let head = template.uri_template.split('{').next().unwrap_or_default().to_owned();
                known.templates.entry(head).or_insert_with(|| server.clone());
                lists.templates.push(template);
            }
            for mut prompt in items::<Prompt>(offers.prompts) {
                let name = self.settings.offer.offered_name(&format!("{server}/{}", prompt.name));
                let own = std::mem::replace(&mut prompt.name, name.clone());
                known.prompts.insert(name, (server.clone(), own));
                lists.prompts.push(prompt);
            }
        }
        *self.listed.lock() = known;
        lists
    }

    /// The server of a resource. `None`: no server lists it.
    pub async fn server_of_resource(&self, endpoint: &McpEndpoint, uri: &str) -> Option<String> {
        let known = self.listed.lock().server_of(uri).map(str::to_owned);
        if known.is_some() {
            return known;
        }
        self.list_offers(endpoint).await;
        self.listed.lock().server_of(uri).map(str::to_owned)
    }

    /// The server and the own name of an offered prompt. `None`: no server lists it.
    async fn find_prompt(&self, endpoint: &McpEndpoint, name: &str) -> Option<(String, String)> {
        let known = self.listed.lock().prompts.get(name).cloned();
        if known.is_some() {
            return known;
        }
        self.list_offers(endpoint).await;
        self.listed.lock().prompts.get(name).cloned()
    }

    /// Reads a resource of a server. `None`: no server lists it.
    pub async fn read_resource(
        &self,
        endpoint: &McpEndpoint,
        request: &AgentRequest,
        origin: SessionOrigin,
        params: &ReadResourceRequestParams,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        let server = self.server_of_resource(endpoint, &params.uri).await?;
        let request_to_server = RelayedRequest::ReadResource(json!({ "uri": params.uri }));
        let arguments = json!({ "uri": params.uri });
        let work = GuardedWork {
            tool: format!("{server}/resources/read"),
            arguments,
            request: Some(request_to_server),
        };
        let read = relay(endpoint, request, origin, &work).await;
        Some(answer::<ReadResourceResult, ReadResourceResponse>(read))
    }

    /// Gets a prompt of a server as a call of the guarded session `origin`: judged by the rules and
    /// journaled. `None`: no server lists it.
    pub async fn get_prompt(
        &self,
        endpoint: &McpEndpoint,
        request: &AgentRequest,
        origin: SessionOrigin,
        params: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>> {
        let (server, name) = self.find_prompt(endpoint, &params.name).await?;
        let mut arguments = json!({ "name": name });
        if let Some(given) = &params.arguments {
            arguments["arguments"] = json!(given);
        }
        let work = GuardedWork {
            tool: format!("{server}/prompts/get"),
            request: Some(RelayedRequest::GetPrompt(arguments.clone())),
            arguments,
        };
        let got = relay(endpoint, request, origin, &work).await;
        Some(answer::<GetPromptResult, GetPromptResponse>(got))
    }

    /// Completes an argument of a server's prompt or resource template. `None`: no server lists that.
    pub async fn complete(
        &self,
        endpoint: &McpEndpoint,
        request: &AgentRequest,
        origin: SessionOrigin,
        params: &CompleteRequestParams,
    ) -> Option<Result<CompleteResult, ErrorData>> {
        let mut arguments = without_meta(params);
        let reference = arguments.get("ref").cloned().unwrap_or_default();
        let server = match (reference["name"].as_str(), reference["uri"].as_str()) {
            (Some(name), _) => {
                let (server, own) = self.find_prompt(endpoint, name).await?;
                arguments["ref"]["name"] = json!(own);
                server
            }
            (None, Some(uri)) => self.server_of_resource(endpoint, uri).await?,
            (None, None) => return None,
        };
        let arguments = Value::Object(arguments);
        let work = GuardedWork {
            tool: format!("{server}/completion/complete"),
            request: Some(RelayedRequest::Complete(arguments.clone())),
            arguments,
        };
        Some(answer_without_questions::<CompleteResult>(relay(endpoint, request, origin, &work).await))
    }
}

/// The items that the protocol's library can read.
fn items<T: DeserializeOwned>(listed: Vec<Value>) -> Vec<T> {
    listed.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect()
}

/// The parameters without what each connection says of itself.
fn without_meta(params: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(params) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("_meta");
            fields
        }
        Ok(_) | Err(_) => Map::new(),
    }
}

/// The response to a request that may also be answered with a question.
fn answer<T, R>(answered: Result<RelayedAnswer, CallFailure>) -> Result<R, ErrorData>
where
    T: DeserializeOwned + Into<R>,
    R: From<InputRequiredResult>,
{
    match answered {
        Err(CallFailure::InputRequired(result)) => Ok(result.into()),
        Ok(RelayedAnswer::Server(ServerAnswer::InputRequired(asked))) => {
            parsed::<InputRequiredResult>(asked).map(Into::into).map_err(|error| protocol_error(error.into()))
        }
        answered => answer_without_questions::<T>(answered).map(Into::into),
    }
}

/// The response to a request that is answered with a result or an error.
fn answer_without_questions<T: DeserializeOwned>(
    answered: Result<RelayedAnswer, CallFailure>,
) -> Result<T, ErrorData> {
    let failure = match answered {
        Ok(RelayedAnswer::Server(ServerAnswer::Result(result))) => match parsed(result) {
            Ok(result) => return Ok(result),
            Err(error) => error.into(),
        },
        Ok(RelayedAnswer::Server(ServerAnswer::Error { code, message, data })) => {
            return Err(ErrorData::new(ErrorCode(code), message, data));
        }
        Ok(RelayedAnswer::Failed { message, .. } | RelayedAnswer::Unknown { message }) => {
            CallFailure::Refused(message)
        }
        Ok(RelayedAnswer::Output(_) | RelayedAnswer::Server(ServerAnswer::InputRequired(_))) => {
            CallFailure::refused("the server's answer is none to this request")
        }
        Err(failure) => failure,
    };
    Err(protocol_error(failure))
}

/// The protocol has no result that says why a request was refused, so an error does.
fn protocol_error(failure: CallFailure) -> ErrorData {
    match failure {
        CallFailure::Server(error) => error,
        failure @ (CallFailure::Error(_) | CallFailure::Refused(_) | CallFailure::InputRequired(_)) => {
            ErrorData::invalid_request(format!("Actbook: {}", failure.text()), None)
        }
    }
}
