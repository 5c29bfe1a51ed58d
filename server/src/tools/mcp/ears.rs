//! What a server says without being asked, as far as we listen: its words on the progress of a call. A
//! word on progress does not make a call's time any longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{ClientConfig, ProgressNotificationParam, ProgressToken};
use rmcp::service::{NotificationContext, RoleClient};

use crate::tools::{OnProgress, Progress};

/// Our side of a connection, towards rmcp.
pub struct Ears {
    config: ClientConfig,
    pub reports: Reports,
}

impl Ears {
    pub fn new(config: ClientConfig) -> Self {
        Self { config, reports: Reports::default() }
    }
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.reports.pass_on(said);
    }
}

/// Who wants to hear of which call.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<HashMap<ProgressToken, OnProgress>>>);

impl Reports {
    /// Until the answer is dropped.
    pub fn listen(&self, token: ProgressToken, progress: OnProgress) -> Listening {
        self.lock().insert(token.clone(), progress);
        Listening { reports: self.clone(), token }
    }

    fn pass_on(&self, said: ProgressNotificationParam) {
        let wanted = self.lock().get(&said.progress_token).cloned();
        if let Some(progress) = wanted {
            progress(Progress { done: said.progress, total: said.total, message: said.message });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, OnProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Listening {
    reports: Reports,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.reports.lock().remove(&self.token);
    }
}
