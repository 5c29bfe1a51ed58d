//! The progress of a relayed call for its client: what the server reports, and while the call waits for a person, that
//! it still does.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::request::AgentRequest;
use crate::tools::CallProgress;

/// How much the progress of a waiting call rises with each notification: a server's own reports rise above it.
const WAITING_RISE: f64 = 0.001;

/// Sends the progress notifications of one request, in order.
#[derive(Debug)]
pub struct ProgressRelay {
    reports: mpsc::UnboundedSender<CallProgress>,
    sending: JoinHandle<()>,
    waited: f64,
}

impl ProgressRelay {
    /// A relay for the request; what it is given is dropped if the client asked for no progress.
    pub fn new(request: &AgentRequest) -> Self {
        let (reports, receiver) = mpsc::unbounded_channel();
        let token = request.context.meta.get_progress_token();
        let sending = tokio::spawn(send_reports(receiver, token, request.context.peer.clone()));
        Self { reports, sending, waited: 0.0 }
    }

    /// Tells the client that the call waits for a person.
    pub fn notify_waiting(&mut self, message: &str) {
        self.waited += WAITING_RISE;
        let report = CallProgress { done: self.waited, total: None, message: Some(message.to_owned()) };
        // Closed only once the client is gone.
        drop(self.reports.send(report));
    }

    /// A receiver of the server's reports.
    pub fn receiver(&self) -> impl Fn(CallProgress) + Send + Sync + 'static {
        let reports = self.reports.clone();
        move |report| drop(reports.send(report))
    }

    /// Resolves once all reports have been sent: none may follow the answer.
    pub async fn finish(self) {
        drop(self.reports);
        if let Err(error) = self.sending.await {
            tracing::debug!("progress was not relayed to its end: {error}");
        }
    }
}

async fn send_reports(
    mut reports: mpsc::UnboundedReceiver<CallProgress>,
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
) {
    while let Some(report) = reports.recv().await {
        let Some(token) = &token else { continue };
        let mut notification = ProgressNotificationParam::new(token.clone(), report.done);
        notification.total = report.total;
        notification.message = report.message;
        if let Err(error) = peer.notify_progress(notification).await {
            tracing::debug!("a progress notification was not delivered: {error}");
        }
    }
}
