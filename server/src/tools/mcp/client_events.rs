//! Handles what a server sends without being asked: progress of calls, which does not extend their timeout; changes, which
//! are passed on; and questions to a person, for the one call that takes them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::ClientHandler;
#[expect(deprecated, reason = "servers of the older revisions of the protocol still log")]
use rmcp::model::LoggingMessageNotificationParam;
use rmcp::model::{
    ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, ProgressNotificationParam,
    ProgressToken, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use crate::tools::server_events::{ServerEventKind, ServerEvents};
use crate::tools::{CallProgress, OnProgress, OnQuestion};

/// Most questions of one server that wait for a person at a time: rmcp spawns a task for each.
const QUESTIONS_MAX: usize = 16;

/// The client handler that rmcp calls for notifications of one connection.
pub struct ClientEvents {
    config: ClientConfig,
    server: Arc<str>,
    events: ServerEvents,
    pub progress_handlers: ProgressHandlers,
    pub questions: QuestionHandlers,
}

impl ClientEvents {
    /// A handler for the server of this name, that introduces the client with this config.
    pub fn new(
        config: ClientConfig,
        server: &str,
        events: ServerEvents,
        questions: QuestionHandlers,
    ) -> Self {
        let progress_handlers = ProgressHandlers::default();
        Self { config, server: server.into(), events, progress_handlers, questions }
    }

    fn send(&self, kind: ServerEventKind) {
        self.events.send(&self.server, kind);
    }
}

#[expect(deprecated, reason = "servers of the older revisions of the protocol still log")]
impl ClientHandler for ClientEvents {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress_handlers.dispatch(report);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.send(ServerEventKind::ToolsChanged);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.send(ServerEventKind::ResourcesChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.send(ServerEventKind::PromptsChanged);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.send(ServerEventKind::ResourceUpdated { uri: params.uri });
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Ok(message) = serde_json::to_value(params) {
            self.send(ServerEventKind::Logged(message));
        }
    }

    /// Passes the question to the call that takes questions. Cancelled if there is none any more: no person was asked.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = match (self.questions.only(), serde_json::to_value(request)) {
            (Some(on_question), Ok(asked)) => on_question(asked).await,
            (Some(_), Err(_)) | (None, _) => None,
        };
        self.questions.release();
        let answer = answer.and_then(|answer| serde_json::from_value(answer).ok());
        Ok(answer.unwrap_or_else(|| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

/// The handlers of a connection's calls in flight that take questions of the server (MCP elicitation). The
/// protocol does not say which call a question is of, so it is passed on only if there is exactly one
/// handler. Clones share the handlers.
#[derive(Clone, Default)]
pub struct QuestionHandlers(Arc<Mutex<QuestionTable>>);

/// The handlers of one connection.
#[derive(Default)]
struct QuestionTable {
    next: u64,
    handlers: HashMap<u64, OnQuestion>,
    /// Questions that wait for their answer.
    open: usize,
}

impl QuestionHandlers {
    /// Passes questions to `on_question` until the returned subscription is dropped.
    pub fn subscribe(&self, on_question: OnQuestion) -> QuestionSubscription {
        let mut table = self.0.lock();
        let id = table.next;
        table.next += 1;
        table.handlers.insert(id, on_question);
        QuestionSubscription { handlers: self.clone(), id }
    }

    /// Reserves room for a question. False: no single call takes it, or too many wait.
    pub fn reserve(&self) -> bool {
        let mut table = self.0.lock();
        let fits = table.handlers.len() == 1 && table.open < QUESTIONS_MAX;
        table.open += usize::from(fits);
        fits
    }

    fn release(&self) {
        let mut table = self.0.lock();
        table.open = table.open.saturating_sub(1);
    }

    /// The one handler. `None`: there is none, or more than one.
    fn only(&self) -> Option<OnQuestion> {
        let table = self.0.lock();
        let mut handlers = table.handlers.values();
        handlers.next().filter(|_| table.handlers.len() == 1).cloned()
    }
}

/// The registration of a call that takes questions; dropping it removes the handler.
pub struct QuestionSubscription {
    handlers: QuestionHandlers,
    id: u64,
}

impl Drop for QuestionSubscription {
    fn drop(&mut self) {
        self.handlers.0.lock().handlers.remove(&self.id);
    }
}

/// The progress handlers of the calls in flight, by progress token. Clones share them.
#[derive(Clone, Default)]
pub struct ProgressHandlers(Arc<Mutex<HashMap<ProgressToken, OnProgress>>>);

impl ProgressHandlers {
    /// Registers a handler for the reports with this token, until the returned subscription is dropped.
    pub fn subscribe(&self, token: ProgressToken, on_progress: OnProgress) -> ProgressSubscription {
        self.0.lock().insert(token.clone(), on_progress);
        ProgressSubscription { handlers: self.clone(), token }
    }

    /// Calls the handler for the report's token, if there is one.
    fn dispatch(&self, report: ProgressNotificationParam) {
        let handler = self.0.lock().get(&report.progress_token).cloned();
        if let Some(on_progress) = handler {
            on_progress(CallProgress { done: report.progress, total: report.total, message: report.message });
        }
    }
}

/// The registration of a progress handler; dropping it removes the handler.
pub struct ProgressSubscription {
    handlers: ProgressHandlers,
    token: ProgressToken,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.handlers.0.lock().remove(&self.token);
    }
}
