//! The server that the protocol's conformance suite wants to talk to: its `test_*` tools, prompts and
//! `test://` resources, behind the same HTTP stack as the real door. It knows nothing of plans.

mod offers;
mod rounds;
mod tasks;

use std::borrow::Cow;

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

/// Between notifications, so that a client sees them come one by one.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

type Context = RequestContext<RoleServer>;

#[derive(Clone)]
pub struct Fixture {
    seal: RequestStateCodec,
    tools: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
    tasks: TaskManager,
}

impl std::fmt::Debug for Fixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fixture").finish_non_exhaustive()
    }
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

impl Fixture {
    pub fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the operating system gives randomness");
        let seal = RequestStateCodec::try_new(key).expect("32 bytes are long enough");
        Self { seal, tools: watch::Sender::new(0), prompts: watch::Sender::new(0), tasks: TaskManager::new() }
    }
}

/// What the suite wrote down as JSON, as the library's own type.
fn shaped<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

#[expect(deprecated, reason = "the older revisions of the protocol still have these requests")]
impl ServerHandler for Fixture {
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
            .with_server_info(super::own_name())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(super::VERSIONS.to_vec())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(offers::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        offers::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(fixed) = offers::fixed(&request.name) {
            return Ok(shaped::<CallToolResult>(fixed)?.into());
        }
        if let Some(answer) = tasks::call(&self.tasks, &request, &context).await {
            return answer;
        }
        match request.name.as_ref() {
            "test_tool_with_logging" => logs(&context).await,
            "test_tool_with_progress" => progresses(&context).await,
            "test_sampling" => samples(&request, &context).await,
            "test_elicitation" | "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
                elicits(&request, &context).await
            }
            "test_missing_capability" => needs_sampling(&context),
            "test_trigger_tool_change" => Ok(changes(&self.tools)),
            "test_trigger_prompt_change" => Ok(changes(&self.prompts)),
            _ => rounds::call(&self.seal, request, &context),
        }
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(shaped(offers::prompts())?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            return rounds::prompt(&request);
        }
        let unknown = || ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None);
        let arguments = request.arguments.clone().unwrap_or_default();
        let filled = offers::prompt(&request.name, &arguments).ok_or_else(unknown)?;
        Ok(GetPromptResponse::Complete(shaped(filled)?))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        shaped(
            serde_json::json!({ "resultType": "complete", "completion": { "values": ["paris", "park", "party"], "hasMore": false } }),
        )
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(shaped(offers::resources())?))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(shaped(offers::templates())?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || {
            let data = serde_json::json!({ "uri": request.uri });
            ErrorData::resource_not_found(format!("Resource not found: {}", request.uri), Some(data))
        };
        let contents = offers::resource(&request.uri).ok_or_else(unknown)?;
        Ok(ReadResourceResponse::Complete(shaped(contents)?))
    }

    async fn subscribe(&self, _request: SubscribeRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: Context,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(&self, _request: SetLevelRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _context: Context) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let (mut tools, mut prompts) = (self.tools.subscribe(), self.prompts.subscribe());
        loop {
            let told = tokio::select! {
                Ok(()) = tools.changed() => subscription.sink().notify_tool_list_changed().await,
                Ok(()) = prompts.changed() => subscription.sink().notify_prompt_list_changed().await,
                () = subscription.cancelled() => return Ok(()),
            };
            // Whoever did not ask for this kind of change is not told of it.
            if let Err(error) = told {
                tracing::debug!("a change was not told: {error}");
            }
        }
    }
}

fn changes(what: &watch::Sender<u64>) -> CallToolResponse {
    what.send_modify(|count| *count += 1);
    text("changed")
}

#[expect(deprecated, reason = "the older revisions of the protocol still have logging")]
async fn logs(context: &Context) -> Result<CallToolResponse, ErrorData> {
    use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        let entry = LoggingMessageNotificationParam::new(LoggingLevel::Info, message.into());
        context.peer.notify_logging_message(entry).await.map_err(lost)?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("Logging is done"))
}

async fn progresses(context: &Context) -> Result<CallToolResponse, ErrorData> {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, progress).with_total(100.0);
            context.peer.notify_progress(progress).await.map_err(lost)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("Progress is done"))
}

#[expect(deprecated, reason = "the older revisions of the protocol still have sampling")]
async fn samples(request: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let prompt = argument(request, "prompt");
    let message = serde_json::json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    });
    let said = context.peer.create_message(shaped(message)?).await.map_err(lost)?;
    let said = said.message.content.first().and_then(|part| part.as_text()).map(|part| part.text.clone());
    Ok(text(format!("LLM response: {}", said.unwrap_or_default())))
}

async fn elicits(request: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let (before, form) = offers::form(&request.name, argument(request, "message"));
    let said = context.peer.create_elicitation(shaped(form)?).await.map_err(lost)?;
    let said = serde_json::to_value(said).unwrap_or_default();
    Ok(text(format!(
        "{before}: action={}, content={}",
        said["action"].as_str().unwrap_or(""),
        said["content"]
    )))
}

#[expect(deprecated, reason = "it is the capability that the suite does not declare")]
fn needs_sampling(context: &Context) -> Result<CallToolResponse, ErrorData> {
    let declared = context.client_capabilities().is_some_and(|client| client.sampling.is_some());
    match declared {
        true => Ok(text("sampling is there")),
        false => {
            let needed = ClientCapabilities::builder().enable_sampling().build();
            Err(ErrorData::missing_required_client_capability(needed))
        }
    }
}

fn argument<'a>(request: &'a CallToolRequestParams, name: &str) -> &'a str {
    let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

fn lost(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(format!("the client did not answer: {error}"), None)
}
