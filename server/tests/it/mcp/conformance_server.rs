//! A server for the MCP conformance suite: its `test_*` tools, prompts and `test://` resources, behind the HTTP
//! stack of `actbook serve`. It has no journal and no plans.

mod input_rounds;
mod mcp_tasks;
mod suite_content;

use std::borrow::Cow;

use actbook::mcp::{PROTOCOL_VERSIONS, implementation_info};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, ContentBlock, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use serde_json::Value;
use tokio::sync::watch;

/// The library's context of one request.
type McpRequestContext = RequestContext<RoleServer>;

/// From one notification to the next, so that a client receives them one by one.
const NOTIFICATION_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// The server that the conformance suite tests. Clones share one state.
#[derive(Clone)]
pub struct ConformanceFixture {
    state_codec: RequestStateCodec,
    /// Counts changes to the list of tools, for `subscriptions/listen`.
    tool_list_changes: watch::Sender<u64>,
    /// Counts changes to the list of prompts.
    prompt_list_changes: watch::Sender<u64>,
    mcp_tasks: TaskManager,
}

impl ConformanceFixture {
    pub fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the operating system gives randomness");
        let codec = RequestStateCodec::try_new(key).expect("32 bytes are long enough");
        Self {
            state_codec: codec,
            tool_list_changes: watch::Sender::new(0),
            prompt_list_changes: watch::Sender::new(0),
            mcp_tasks: TaskManager::new(),
        }
    }
}

/// Parses JSON that the suite prescribes into the library's type.
fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// A successful tool response with one text.
fn text_response(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

#[expect(deprecated, reason = "the older revisions of the protocol still have these requests")]
impl ServerHandler for ConformanceFixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_extensions()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(implementation_info())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(PROTOCOL_VERSIONS.to_vec())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(suite_content::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        suite_content::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: McpRequestContext,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(fixed) = suite_content::fixed_result(&request.name) {
            return Ok(from_json::<CallToolResult>(fixed)?.into());
        }
        if let Some(answer) = mcp_tasks::call_task_tool(&self.mcp_tasks, &request, &context).await {
            return answer;
        }
        match request.name.as_ref() {
            "test_tool_with_logging" => send_logs(&context).await,
            "test_tool_with_progress" => send_progress(&context).await,
            "test_sampling" => request_sampling(&request, &context).await,
            "test_elicitation" | "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
                request_elicitation(&request, &context).await
            }
            "test_missing_capability" => require_sampling(&context),
            "test_trigger_tool_change" => Ok(signal_list_change(&self.tool_list_changes)),
            "test_trigger_prompt_change" => Ok(signal_list_change(&self.prompt_list_changes)),
            _ => input_rounds::call_input_tool(&self.state_codec, request, &context),
        }
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(from_json(suite_content::prompts())?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: McpRequestContext,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            return input_rounds::get_input_prompt(&request);
        }
        let unknown = || ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None);
        let arguments = request.arguments.clone().unwrap_or_default();
        let filled = suite_content::prompt_result(&request.name, &arguments).ok_or_else(unknown)?;
        Ok(GetPromptResponse::Complete(from_json(filled)?))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: McpRequestContext,
    ) -> Result<CompleteResult, ErrorData> {
        from_json(
            serde_json::json!({ "resultType": "complete", "completion": { "values": ["paris", "park", "party"], "hasMore": false } }),
        )
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(from_json(suite_content::resources())?))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(from_json(suite_content::resource_templates())?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: McpRequestContext,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || {
            let data = serde_json::json!({ "uri": request.uri });
            ErrorData::resource_not_found(format!("Resource not found: {}", request.uri), Some(data))
        };
        let contents = suite_content::resource_result(&request.uri).ok_or_else(unknown)?;
        Ok(ReadResourceResponse::Complete(from_json(contents)?))
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: McpRequestContext,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.mcp_tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.mcp_tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.mcp_tasks.cancel_task(&request.task_id)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let (mut tools, mut prompts) =
            (self.tool_list_changes.subscribe(), self.prompt_list_changes.subscribe());
        loop {
            let notified = tokio::select! {
                Ok(()) = tools.changed() => subscription.sink().notify_tool_list_changed().await,
                Ok(()) = prompts.changed() => subscription.sink().notify_prompt_list_changed().await,
                () = subscription.cancelled() => return Ok(()),
            };
            // The library refuses to notify of a kind of change that the client did not subscribe to.
            if let Err(error) = notified {
                tracing::debug!("a list change was not notified: {error}");
            }
        }
    }
}

/// Signals a change to a list.
fn signal_list_change(list: &watch::Sender<u64>) -> CallToolResponse {
    list.send_modify(|count| *count += 1);
    text_response("changed")
}

/// `test_tool_with_logging`: sends three log messages.
#[expect(deprecated, reason = "the older revisions of the protocol still have logging")]
async fn send_logs(context: &McpRequestContext) -> Result<CallToolResponse, ErrorData> {
    use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
    let mut pace = tokio::time::interval(NOTIFICATION_PAUSE);
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        pace.tick().await;
        let entry = LoggingMessageNotificationParam::new(LoggingLevel::Info, message.into());
        context.peer.notify_logging_message(entry).await.map_err(client_error)?;
    }
    pace.tick().await;
    Ok(text_response("Logging is done"))
}

/// `test_tool_with_progress`: sends three progress notifications.
async fn send_progress(context: &McpRequestContext) -> Result<CallToolResponse, ErrorData> {
    let mut pace = tokio::time::interval(NOTIFICATION_PAUSE);
    for progress in [0.0, 50.0, 100.0] {
        pace.tick().await;
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, progress).with_total(100.0);
            context.peer.notify_progress(progress).await.map_err(client_error)?;
        }
    }
    pace.tick().await;
    Ok(text_response("Progress is done"))
}

/// `test_sampling`: has the client sample its model.
#[expect(deprecated, reason = "the older revisions of the protocol still have sampling")]
async fn request_sampling(
    request: &CallToolRequestParams,
    context: &McpRequestContext,
) -> Result<CallToolResponse, ErrorData> {
    let prompt = string_argument(request, "prompt");
    let message = serde_json::json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    });
    let result = context.peer.create_message(from_json(message)?).await.map_err(client_error)?;
    let sampled =
        result.message.content.first().and_then(|part| part.as_text()).map(|part| part.text.clone());
    Ok(text_response(format!("LLM response: {}", sampled.unwrap_or_default())))
}

/// `test_elicitation` and its variants: have the client show a form.
async fn request_elicitation(
    request: &CallToolRequestParams,
    context: &McpRequestContext,
) -> Result<CallToolResponse, ErrorData> {
    let (prefix, form) = suite_content::elicitation_form(&request.name, string_argument(request, "message"));
    let result = context.peer.create_elicitation(from_json(form)?).await.map_err(client_error)?;
    let result = serde_json::to_value(result).unwrap_or_default();
    Ok(text_response(format!(
        "{prefix}: action={}, content={}",
        result["action"].as_str().unwrap_or(""),
        result["content"]
    )))
}

/// `test_missing_capability`: Err if the client did not declare sampling.
#[expect(deprecated, reason = "it is the capability that the suite does not declare")]
fn require_sampling(context: &McpRequestContext) -> Result<CallToolResponse, ErrorData> {
    let declared = context.client_capabilities().is_some_and(|client| client.sampling.is_some());
    if declared {
        Ok(text_response("sampling is there"))
    } else {
        let needed = ClientCapabilities::builder().enable_sampling().build();
        Err(ErrorData::missing_required_client_capability(needed))
    }
}

/// A string argument of the call; empty if there is none.
fn string_argument<'a>(request: &'a CallToolRequestParams, name: &str) -> &'a str {
    let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The error for a request to the client that failed.
fn client_error(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(format!("the client did not answer: {error}"), None)
}
