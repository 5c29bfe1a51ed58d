//! The MCP server that agents use. One handler serves stdio and Streamable HTTP, and both the protocol
//! revisions with sessions and the sessionless one. It translates MCP calls into service calls and views into
//! answers; all rules live in `service`.

mod answer;
mod arguments;
mod call_variants;
mod completions;
mod elicit;
pub mod error_report;
pub mod http;
mod mcp_tasks;
mod message;
mod profile;
mod prompts;
mod proxy;
mod request;
mod resources;
mod stdio;
mod subscriptions;
mod text;
mod tools;
mod waiting;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, RequestId, RequestStateCodec,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, ServiceExt, SubscriptionContext};
use rmcp::{ServerHandler, transport};

use crate::config::{Authority, Config};
use crate::error::{CommandLineCode, Error};
use crate::guard::SessionOrigin;
use crate::service::view::ExecutionView;
use crate::service::{Agenda, AgentSession, BackgroundDriver, Service};
use answer::ApprovalRoute;
use proxy::{GuardedConnection, Proxy};
use request::AgentRequest;
use subscriptions::SessionSubscriptions;
pub use tools::ToolProfile;

/// How long a client may cache the list of tools: it changes only with the binary.
const LIST_TTL_MS: u64 = 3_600_000;

/// The supported revisions of the protocol, oldest first.
pub const PROTOCOL_VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// The library's context of one request to this server.
type McpRequestContext = RequestContext<RoleServer>;

/// The MCP endpoint of this process: service, tools and settings. Clones share one state.
#[derive(Clone, Debug)]
pub struct McpEndpoint(Arc<EndpointState>);

/// The state that all clones of an `McpEndpoint` share.
#[derive(Debug)]
struct EndpointState {
    /// Confined to its project.
    service: Service,
    approvals: Authority,
    profile: ToolProfile,
    tools: Vec<tools::OfferedTool>,
    /// Seals and opens the `requestState` of questions that the client carries back.
    state_codec: RequestStateCodec,
    /// Offers the servers' tools to guarded agents. None: Actbook's own tools alone are offered.
    proxy: Option<Proxy>,
}

impl McpEndpoint {
    /// An endpoint with the tools of `profile`. Confines agents, not background drives, to the service's
    /// project. Err: no key for the state codec.
    pub fn new(service: &Service, config: &Config, profile: ToolProfile) -> Result<Self, Error> {
        let key = service.seal_key()?;
        let codec = RequestStateCodec::try_new(key.to_vec());
        let codec = codec.map_err(|error| Error::Bug(error.to_string()))?;
        let offered = tools::offered_tools(profile);
        Ok(Self(Arc::new(EndpointState {
            service: service.confined(),
            approvals: config.approvals,
            profile,
            tools: offered,
            state_codec: codec,
            proxy: None,
        })))
    }

    /// The endpoint with the servers' tools offered too, each call of them guarded by the config's rules.
    pub fn guarded(self, config: &Config) -> Self {
        let state = Arc::into_inner(self.0).expect("the endpoint is not shared yet");
        Self(Arc::new(EndpointState { proxy: Some(Proxy::new(config)), ..state }))
    }

    fn proxy(&self) -> Option<&Proxy> {
        self.0.proxy.as_ref()
    }

    fn service(&self) -> &Service {
        &self.0.service
    }

    /// The driver of this endpoint's executions, which runs independently of any connection.
    pub fn background(&self) -> &BackgroundDriver {
        self.0.service.background()
    }

    fn profile(&self) -> ToolProfile {
        self.0.profile
    }

    fn state_codec(&self) -> &RequestStateCodec {
        &self.0.state_codec
    }

    /// How an approval can be given for this request, as far as the config and the request's client decide
    /// that.
    fn approval_route(&self, request: &AgentRequest) -> ApprovalRoute {
        match self.0.approvals {
            Authority::Agents => ApprovalRoute::Agent,
            Authority::People if request.asks_a_person() => ApprovalRoute::Elicitation,
            Authority::People => ApprovalRoute::CommandLine,
        }
    }

    /// Like `approval_route`, for one execution: agents approve only if it was started with that permission.
    async fn approval_route_of_execution(
        &self,
        request: &AgentRequest,
        id: &str,
    ) -> Result<ApprovalRoute, Error> {
        match self.approval_route(request) {
            ApprovalRoute::Agent if self.service().executions().agents_may_approve(id).await? => {
                Ok(ApprovalRoute::Agent)
            }
            ApprovalRoute::Agent | ApprovalRoute::Elicitation if request.asks_a_person() => {
                Ok(ApprovalRoute::Elicitation)
            }
            ApprovalRoute::Agent | ApprovalRoute::Elicitation | ApprovalRoute::CommandLine => {
                Ok(ApprovalRoute::CommandLine)
            }
        }
    }

    /// Words the claims on an agenda for the agent that asks.
    async fn address_agenda(&self, request: &AgentRequest, agenda: &mut Agenda) -> Result<(), Error> {
        for item in &mut agenda.items {
            if let Some(view) = &mut item.view {
                self.service().executions().address_claims(&request.caller, view).await?;
                item.waiting.clone_from(&view.waiting);
            }
        }
        Ok(())
    }

    /// The answer that shows an execution to the agent that asks: claims of its steps name their holders, and
    /// the suggestions fit how this client can approve.
    async fn execution_answer(
        &self,
        request: &AgentRequest,
        mut view: ExecutionView,
    ) -> Result<answer::AgentAnswer, Error> {
        self.service().executions().address_claims(&request.caller, &mut view).await?;
        Ok(answer::execution_answer(&view, self.approval_route(request)))
    }

    /// The offered tool of this name; None: this profile does not offer it.
    fn find_tool(&self, name: &str) -> Option<&tools::OfferedTool> {
        self.0.tools.iter().find(|tool| tool.definition.name == name)
    }
}

/// Serves one client session: holds its subscriptions, and the ids of its tool calls in flight, to refuse another
/// call with such an id. Over sessionless HTTP there is one for each request.
#[derive(Debug)]
pub struct SessionHandler {
    endpoint: McpEndpoint,
    subscriptions: SessionSubscriptions,
    /// The request ids of tool calls that are being answered on this connection.
    in_flight: Mutex<HashSet<RequestId>>,
    /// Distinguishes this client's agent from other agents with the same name.
    session: AgentSession,
    guarded: Arc<GuardedConnection>,
}

impl SessionHandler {
    /// Opens a session, which is closed when the handler is dropped.
    pub fn new(endpoint: McpEndpoint) -> Self {
        let (subscriptions, in_flight) = (SessionSubscriptions::default(), Mutex::default());
        let session = endpoint.service().open_session();
        Self { endpoint, subscriptions, in_flight, session, guarded: Arc::default() }
    }

    /// The session id of a request; None over sessionless HTTP, where each request has its own handler.
    fn session_id_of(&self, request: &AgentRequest) -> Option<Arc<str>> {
        let is_http = request.context.extensions.get::<axum::http::request::Parts>().is_some();
        (!(is_http && request.is_sessionless())).then(|| self.session.id().clone())
    }

    /// Answers a call of a tool that is none of Actbook's own.
    async fn call_servers_tool(
        &self,
        params: CallToolRequestParams,
        context: McpRequestContext,
    ) -> Result<CallToolResponse, ErrorData> {
        let endpoint = self.endpoint.clone();
        let id_guard = self.reserve_id(&context.id);
        if id_guard.is_none() {
            return Err(message::id_in_use_error(&context.id));
        }
        let mut request = AgentRequest::new(context, endpoint.service());
        let Some(proxy) = endpoint.proxy() else { return Err(endpoint.unknown_tool_error(&params.name)) };
        let Some(tool) = proxy.resolve(&endpoint, &request.caller, &params.name).await else {
            return Err(endpoint.unknown_tool_error(&params.name));
        };
        let origin = self.guarded_origin(proxy, &request);
        request.input_responses = params.input_responses.clone();
        request.request_state = params.request_state.clone();
        let endpoint = self.endpoint.clone();
        proxy::run_to_end(async move { proxy::call_tool(&endpoint, &request, origin, tool, params).await })
            .await?
    }

    /// The guarded session that a request belongs to.
    fn guarded_origin(&self, proxy: &Proxy, request: &AgentRequest) -> SessionOrigin {
        let has_session = self.session_id_of(request).is_some();
        proxy.origin(&self.endpoint, request, has_session.then_some(&*self.guarded))
    }

    /// Reserves the id until its call is answered; None: another call in flight has the same id.
    fn reserve_id(&self, id: &RequestId) -> Option<RequestIdGuard<'_>> {
        let mut in_flight = self.in_flight.lock();
        in_flight.insert(id.clone()).then(|| RequestIdGuard { handler: self, id: id.clone() })
    }
}

/// Keeps the id of a call reserved until the guard is dropped.
struct RequestIdGuard<'a> {
    handler: &'a SessionHandler,
    id: RequestId,
}

impl Drop for RequestIdGuard<'_> {
    fn drop(&mut self) {
        self.handler.in_flight.lock().remove(&self.id);
    }
}

/// Serves one client over this process's own stdin and stdout, until stdin ends. Err: the client was lost or
/// does not follow the protocol.
pub async fn serve_stdio(endpoint: McpEndpoint) -> Result<(), Error> {
    let lost = |error: &dyn std::fmt::Display| {
        let message = format!("the client was lost: {error}");
        Error::command_line(CommandLineCode::Protocol, message, "start it again from the client")
    };
    let (read, write) = transport::stdio_pipes();
    let handler = SessionHandler::new(endpoint.clone());
    let guarded = handler.guarded.clone();
    let serving = match handler.serve(stdio::StdioServerTransport::new(read, write)).await {
        Ok(serving) => serving,
        // Some clients only probe whether the command starts, and close stdin before the handshake.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(lost(&error)),
    };
    let served = serving.waiting().await.map_err(|error| lost(&error));
    guarded.close(&endpoint).await?;
    served.map(drop)
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
impl ServerHandler for SessionHandler {
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
        let capabilities = if self.endpoint.proxy().is_some() {
            proxy::with_changing_lists(capabilities)
        } else {
            capabilities
        };
        ServerConfig::new(capabilities)
            .with_server_info(implementation_info())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(self.endpoint.profile().instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(PROTOCOL_VERSIONS.to_vec())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListToolsResult, ErrorData> {
        let own = self.endpoint.0.tools.iter().map(|tool| tool.definition.clone());
        let Some(proxy) = self.endpoint.proxy() else {
            let mut listed = ListToolsResult::with_all_items(own.collect());
            listed.ttl_ms = Some(LIST_TTL_MS);
            listed.cache_scope = Some(CacheScope::Public);
            return Ok(listed);
        };
        let caller = AgentRequest::new(context, self.endpoint.service()).caller;
        let servers = proxy.list_tools(&self.endpoint, &caller).await;
        let mut listed = ListToolsResult::with_all_items(own.chain(servers).collect());
        listed.ttl_ms = Some(0);
        listed.cache_scope = Some(CacheScope::Private);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = self.endpoint.find_tool(name).map(|tool| tool.definition.clone());
        own.or_else(|| self.endpoint.proxy()?.definition(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: McpRequestContext,
    ) -> Result<CallToolResponse, ErrorData> {
        let endpoint = self.endpoint.clone();
        if endpoint.find_tool(&request.name).is_none() {
            return self.call_servers_tool(request, context).await;
        }
        let has_key = message::has_idempotency_key(&request);
        let id_guard = self.reserve_id(&context.id);
        if id_guard.is_none() && !has_key {
            return Err(message::id_in_use_error(&context.id));
        }
        let mut agent_request = AgentRequest::new(context, self.endpoint.service());
        agent_request.caller.session = self.session_id_of(&agent_request);
        agent_request.input_responses = request.input_responses;
        agent_request.request_state = request.request_state;
        // Spawned, so that the call completes even if the client disconnects and this future is dropped.
        let work = tokio::spawn(async move {
            let tool = endpoint.find_tool(&request.name).expect("checked above");
            tools::call_tool(&endpoint, agent_request, tool, request.arguments.unwrap_or_default()).await
        });
        match work.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Ok(answer::error_result(&error_report::report_for_agent(&error)).into()),
            Err(error) => {
                tracing::error!("a tool call panicked or was aborted: {error}");
                Err(ErrorData::internal_error("the call was aborted; its journal entries remain", None))
            }
        }
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = prompts::list();
        if let Some(proxy) = self.endpoint.proxy() {
            listed.prompts.extend(proxy.list_offers(&self.endpoint).await.prompts);
        }
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: McpRequestContext,
    ) -> Result<GetPromptResponse, ErrorData> {
        let mut agent_request = AgentRequest::new(context, self.endpoint.service());
        agent_request.caller.session = self.session_id_of(&agent_request);
        if let Some(proxy) = self.endpoint.proxy()
            && !prompts::is_own(&request.name)
        {
            agent_request.input_responses = request.input_responses.clone();
            agent_request.request_state = request.request_state.clone();
            let origin = self.guarded_origin(proxy, &agent_request);
            let (endpoint, params) = (self.endpoint.clone(), request.clone());
            let got = proxy::run_to_end(async move {
                endpoint.proxy()?.get_prompt(&endpoint, &agent_request, origin, &params).await
            });
            return match got.await? {
                Some(got) => got,
                None => Err(ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None)),
            };
        }
        let arguments = request.arguments.unwrap_or_default();
        Ok(prompts::get(&self.endpoint, &agent_request, &request.name, &arguments).await?.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: McpRequestContext,
    ) -> Result<CompleteResult, ErrorData> {
        if let Some(proxy) = self.endpoint.proxy()
            && !completions::is_own(&request)
        {
            let agent_request = AgentRequest::new(context, self.endpoint.service());
            let origin = self.guarded_origin(proxy, &agent_request);
            let (endpoint, params) = (self.endpoint.clone(), request.clone());
            let completed = proxy::run_to_end(async move {
                endpoint.proxy()?.complete(&endpoint, &agent_request, origin, &params).await
            });
            if let Some(completed) = completed.await? {
                return completed;
            }
        }
        completions::complete(self.endpoint.service(), &request).await
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = resources::list();
        if let Some(proxy) = self.endpoint.proxy() {
            listed.resources.extend(proxy.list_offers(&self.endpoint).await.resources);
            (listed.ttl_ms, listed.cache_scope) = (Some(0), Some(CacheScope::Private));
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = resources::list_templates();
        if let Some(proxy) = self.endpoint.proxy() {
            listed.resource_templates.extend(proxy.list_offers(&self.endpoint).await.templates);
            (listed.ttl_ms, listed.cache_scope) = (Some(0), Some(CacheScope::Private));
        }
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: McpRequestContext,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(proxy) = self.endpoint.proxy()
            && !request.uri.starts_with(resources::OWN_SCHEME)
        {
            let mut agent_request = AgentRequest::new(context, self.endpoint.service());
            agent_request.input_responses = request.input_responses.clone();
            agent_request.request_state = request.request_state.clone();
            let origin = self.guarded_origin(proxy, &agent_request);
            let (endpoint, params) = (self.endpoint.clone(), request.clone());
            let read = proxy::run_to_end(async move {
                endpoint.proxy()?.read_resource(&endpoint, &agent_request, origin, &params).await
            });
            if let Some(read) = read.await? {
                return read;
            }
        }
        Ok(resources::read(&self.endpoint, &request.uri).await?.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        if let Some(proxy) = self.endpoint.proxy()
            && !request.uri.starts_with(resources::OWN_SCHEME)
        {
            return self.guarded.events.subscribe(proxy, &self.endpoint, request.uri).await;
        }
        self.subscriptions.add(self.endpoint.service(), context.peer, request.uri).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        self.guarded.events.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted_filter(requested, self.endpoint.proxy().is_some()))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let guarded = self.endpoint.proxy().is_some();
        let events = guarded.then(|| self.endpoint.service().catalog().subscribe_to_servers());
        subscriptions::listen(self.endpoint.service(), subscription, events).await
    }

    /// Actbook itself sends no log messages, but older clients set a level anyway; a guarded endpoint passes it on.
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        if self.endpoint.proxy().is_some() {
            self.endpoint.service().catalog().set_log_level(&serde_json::json!(request.level)).await;
        }
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.endpoint.proxy().is_some() {
            let events = self.endpoint.service().catalog().subscribe_to_servers();
            self.guarded.events.start(events, context.peer);
        }
    }

    /// Refuses the request. The library parses a known method with bad parameters as a custom request, and
    /// the error then says what is wrong; an unknown method is `METHOD_NOT_FOUND`.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: McpRequestContext,
    ) -> Result<CustomResult, ErrorData> {
        let params_error = message::params_error(&request.method, request.params.as_ref());
        Err(params_error.unwrap_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: McpRequestContext,
    ) -> Result<GetTaskResult, ErrorData> {
        mcp_tasks::get_mcp_task(
            &self.endpoint,
            &AgentRequest::new(context, self.endpoint.service()),
            &request.task_id,
        )
        .await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        mcp_tasks::update_mcp_task(
            &self.endpoint,
            &AgentRequest::new(context, self.endpoint.service()),
            &request.task_id,
            &request.input_responses,
        )
        .await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        mcp_tasks::cancel_mcp_task(
            &self.endpoint,
            &AgentRequest::new(context, self.endpoint.service()),
            &request.task_id,
        )
        .await
    }
}

impl McpEndpoint {
    /// The protocol error for a tool that this profile does not offer, with the nearest name and all names.
    fn unknown_tool_error(&self, name: &str) -> ErrorData {
        let names: Vec<&str> = self.0.tools.iter().map(|tool| tool.definition.name.as_ref()).collect();
        let near = actbook_engine::analysis::nearest(name, names.iter().copied());
        let near = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
        ErrorData::invalid_params(format!("Unknown tool: {name}{near} There are: {}", names.join(", ")), None)
    }
}

/// Name and version of this server, as told to clients.
pub fn implementation_info() -> Implementation {
    Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}
