//! Handles a server's notifications. Only progress notifications are used; they do not extend a call's
//! timeout.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::{ClientConfig, ProgressNotificationParam, ProgressToken};
use rmcp::service::{NotificationContext, RoleClient};

use crate::tools::{CallProgress, OnProgress};

/// The client handler that rmcp calls for notifications of one connection.
pub struct ClientEvents {
    config: ClientConfig,
    pub progress_handlers: ProgressHandlers,
}

impl ClientEvents {
    /// A handler that introduces the client with this config.
    pub fn new(config: ClientConfig) -> Self {
        Self { config, progress_handlers: ProgressHandlers::default() }
    }
}

impl ClientHandler for ClientEvents {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress_handlers.dispatch(report);
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
