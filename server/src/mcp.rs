//! The agent's door: one handler for stdio and HTTP, for the protocol with sessions and the one without.
//! It translates calls into the service's words and views into answers, and holds no rules.

mod answer;
mod arguments;
mod ask;
mod completions;
pub mod conformance;
mod cures;
mod elicit;
pub mod http;
mod message;
mod profile;
mod prompts;
mod resources;
mod stdio;
mod subscriptions;
mod tasks;
mod text;
mod tools;
mod uses;
mod waiting;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, RequestId, RequestStateCodec,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt, SubscriptionContext};
use rmcp::{ServerHandler, transport};

use crate::config::{Approvals, Config};
use crate::error::Error;
use crate::service::{Background, Service};
use answer::Doors;
use ask::Ask;
use subscriptions::Subscriptions;
pub use tools::Profile;

/// The list changes only with the binary, so a client may keep it for an hour.
const LIST_TTL_MS: u64 = 3_600_000;

/// The revisions that clients speak today, oldest first.
const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

type Context = RequestContext<RoleServer>;

/// Clones are the same door.
#[derive(Clone, Debug)]
pub struct Door(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    background: Background,
    approvals: Approvals,
    profile: Profile,
    offered: Vec<tools::Offered>,
    seal: RequestStateCodec,
}

impl Door {
    /// Agents are confined to the service's project; what it drives in the background is not.
    pub fn new(service: &Service, config: &Config, profile: Profile) -> Result<Self, Error> {
        let key = service.seal_key()?;
        let seal = RequestStateCodec::try_new(key.to_vec());
        let seal =
            seal.map_err(|error| Error::new("internal", error.to_string(), "this is a bug in actbook"))?;
        let offered = tools::offered(profile);
        let background = Background::new(service.confined());
        Ok(Self(Arc::new(Inside { background, approvals: config.approvals, profile, offered, seal })))
    }

    fn service(&self) -> &Service {
        self.0.background.service()
    }

    pub fn background(&self) -> &Background {
        &self.0.background
    }

    fn profile(&self) -> Profile {
        self.0.profile
    }

    fn seal(&self) -> &RequestStateCodec {
        &self.0.seal
    }

    /// Which ways to an approval are open to a caller.
    fn doors(&self, ask: &Ask) -> Doors {
        match self.0.approvals {
            Approvals::Agents => Doors::Agent,
            Approvals::People if ask.can_elicit() => Doors::Person,
            Approvals::People => Doors::Terminal,
        }
    }

    /// The same for one execution: an agent's answer counts only where the execution was started to let it.
    async fn doors_of(&self, ask: &Ask, id: &str) -> Result<Doors, Error> {
        match self.doors(ask) {
            Doors::Agent if self.service().agents_may_approve(id).await? => Ok(Doors::Agent),
            Doors::Agent | Doors::Person if ask.can_elicit() => Ok(Doors::Person),
            Doors::Agent | Doors::Person | Doors::Terminal => Ok(Doors::Terminal),
        }
    }

    fn offered(&self, name: &str) -> Option<&tools::Offered> {
        self.0.offered.iter().find(|offered| offered.tool.name == name)
    }
}

/// The door as one client sees it: it remembers what that client has subscribed to.
#[derive(Debug)]
pub struct Client {
    door: Door,
    subscriptions: Subscriptions,
    /// Calls of tools that are being answered on this connection.
    in_flight: Mutex<HashSet<RequestId>>,
    /// Tells this client's agent apart from others of its name.
    session: Arc<str>,
}

impl Client {
    pub fn new(door: Door) -> Self {
        let (subscriptions, in_flight) = (Subscriptions::default(), Mutex::default());
        Self { door, subscriptions, in_flight, session: Service::new_session() }
    }

    /// None: over HTTP the newer protocol has no sessions, and each request is a client of its own.
    fn session_of(&self, ask: &Ask) -> Option<Arc<str>> {
        let is_http = ask.context.extensions.get::<axum::http::request::Parts>().is_some();
        (!(is_http && ask.is_modern())).then(|| self.session.clone())
    }

    /// Takes the id for as long as its call is being answered; None: another call has it.
    fn take_id(&self, id: &RequestId) -> Option<TakenId<'_>> {
        let mut taken = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id.clone()).then(|| TakenId { client: self, id: id.clone() })
    }
}

/// The id of a call that is being answered, until it is dropped.
struct TakenId<'a> {
    client: &'a Client,
    id: RequestId,
}

impl Drop for TakenId<'_> {
    fn drop(&mut self) {
        self.client.in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Serves one client over this process's own stdin and stdout, until stdin ends.
pub async fn stdio(door: Door) -> Result<(), Error> {
    let lost = |error: &dyn std::fmt::Display| {
        Error::new("protocol", format!("the client was lost: {error}"), "start it again from the client")
    };
    let (read, write) = transport::stdio_pipes();
    let serving = match Client::new(door).serve(stdio::Lines::new(read, write)).await {
        Ok(serving) => serving,
        // A client that only looked whether the command starts.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(lost(&error)),
    };
    serving.waiting().await.map_err(|error| lost(&error))?;
    Ok(())
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
impl ServerHandler for Client {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_extensions()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(own_name())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(self.door.profile().instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(VERSIONS.to_vec())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.door.0.offered.iter().map(|offered| offered.tool.clone()).collect();
        let mut listed = ListToolsResult::with_all_items(tools);
        listed.ttl_ms = Some(LIST_TTL_MS);
        listed.cache_scope = Some(CacheScope::Public);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.door.offered(name).map(|offered| offered.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let door = self.door.clone();
        if door.offered(&request.name).is_none() {
            return Err(door.no_such_tool(&request.name));
        }
        let has_key = message::has_key(&request);
        let taken = self.take_id(&context.id);
        if taken.is_none() && !has_key {
            return Err(message::id_in_use(&context.id));
        }
        let mut ask = Ask::new(context);
        ask.caller.session = self.session_of(&ask);
        ask.responses = request.input_responses;
        ask.request_state = request.request_state;
        // In a task of its own: a client that goes away half-way must not leave half of the work behind.
        let work = tokio::spawn(async move {
            let offered = door.offered(&request.name).expect("looked for above");
            tools::call(&door, ask, offered, request.arguments.unwrap_or_default()).await
        });
        match work.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Ok(answer::refused(&cures::told_here(error)).into()),
            Err(error) => {
                tracing::error!("a call broke off: {error}");
                Err(ErrorData::internal_error("the call broke off; its journal entries stand", None))
            }
        }
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let doors = self.door.doors(&Ask::new(context));
        let arguments = request.arguments.unwrap_or_default();
        Ok(prompts::get(&self.door, doors, &request.name, &arguments).await?.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        completions::complete(self.door.service(), &request).await
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(resources::list())
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read(&self.door, &request.uri).await?.into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: Context) -> Result<(), ErrorData> {
        self.subscriptions.add(self.door.service(), context.peer, request.uri).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: Context,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted(requested))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        subscriptions::listen(self.door.service(), subscription).await
    }

    /// Nothing is logged to clients: what happens is in the journal. Older ones may set a level all the same.
    async fn set_level(&self, _request: SetLevelRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: Context,
    ) -> Result<CustomResult, ErrorData> {
        let misread = message::misread(&request.method, request.params.as_ref());
        Err(misread.unwrap_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)))
    }

    async fn get_task(&self, request: GetTaskParams, context: Context) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&self.door, &Ask::new(context), &request.task_id).await
    }

    async fn update_task(&self, request: UpdateTaskParams, context: Context) -> Result<(), ErrorData> {
        tasks::update(&self.door, &Ask::new(context), &request.task_id, &request.input_responses).await
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: Context) -> Result<(), ErrorData> {
        tasks::cancel(&self.door, &Ask::new(context), &request.task_id).await
    }
}

impl Door {
    fn no_such_tool(&self, name: &str) -> ErrorData {
        let names: Vec<&str> = self.0.offered.iter().map(|offered| offered.tool.name.as_ref()).collect();
        let near = actbook_engine::analysis::nearest(name, names.iter().copied());
        let near = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
        ErrorData::invalid_params(format!("Unknown tool: {name}{near} There are: {}", names.join(", ")), None)
    }
}

pub fn own_name() -> Implementation {
    Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}
