//! Notifies clients of changes to executions: after `resources/subscribe` until the session ends, or during a
//! `subscriptions/listen` request. A notification carries no data; the client reads the resource again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::resources::{ResourceUri, not_found};
use crate::service::Service;
use crate::tools::{ServerEvent, ServerEventKind};

/// Most subscriptions of one session, or of one `subscriptions/listen` request.
const SUBSCRIBED_MAX: usize = 100;
/// Shortest time between two notifications about one resource; changes in between are merged.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(100);

/// The subscriptions of one session: URI to watching task. Dropping them aborts the tasks.
#[derive(Debug, Default)]
pub struct SessionSubscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Drop for SessionSubscriptions {
    fn drop(&mut self) {
        let watchers = self.0.get_mut();
        watchers.values().for_each(AbortHandle::abort);
    }
}

impl SessionSubscriptions {
    /// Adds or replaces a subscription. Err: not the URI of a known execution, or too many.
    pub async fn add(&self, service: &Service, peer: Peer<RoleServer>, uri: String) -> Result<(), ErrorData> {
        let id = subscribable_execution_id(&uri)
            .ok_or_else(|| not_found(&uri, "only executions can be subscribed to"))?;
        // Before the reply: what the client does after it must not be part of the state that is watched from.
        let watched = service.executions().watch(&id).await;
        let mut execution = watched.map_err(|error| not_found(&uri, &error.to_string()))?;
        let mut watchers = self.0.lock();
        if watchers.len() >= SUBSCRIBED_MAX && !watchers.contains_key(&uri) {
            return Err(ErrorData::invalid_params(format!("at most {SUBSCRIBED_MAX} subscriptions"), None));
        }
        let watched_uri = uri.clone();
        let watcher = tokio::spawn(async move {
            while execution.wait_for_change().await.is_ok() {
                let update = ResourceUpdatedNotificationParam::new(watched_uri.clone());
                if peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
                tokio::time::sleep(NOTIFY_INTERVAL).await;
            }
        });
        if let Some(replaced) = watchers.insert(uri, watcher.abort_handle()) {
            replaced.abort();
        }
        Ok(())
    }

    /// Ends the subscription to a resource, if there is one.
    pub fn remove(&self, uri: &str) {
        let mut watchers = self.0.lock();
        if let Some(watcher) = watchers.remove(uri) {
            watcher.abort();
        }
    }
}

/// The id of the execution that a URI is about; None: the resource cannot be subscribed to.
fn subscribable_execution_id(uri: &str) -> Option<String> {
    ResourceUri::parse(uri)?.execution_id().map(str::to_owned)
}

/// The part of the requested filter that this server serves: executions and their journals, `SUBSCRIBED_MAX`
/// at most; with `lists`, changes of lists too.
pub fn accepted_filter(requested: &SubscriptionFilter, lists: bool) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten();
    let served = uris.filter(|uri| subscribable_execution_id(uri).is_some()).take(SUBSCRIBED_MAX).cloned();
    let mut accepted = SubscriptionFilter::new();
    accepted.resource_subscriptions = Some(served.collect());
    if lists {
        accepted.tools_list_changed = requested.tools_list_changed;
        accepted.resources_list_changed = requested.resources_list_changed;
        accepted.prompts_list_changed = requested.prompts_list_changed;
    }
    accepted
}

/// Answers `subscriptions/listen` (sessionless protocol): notifies until the request is cancelled or the
/// client is lost.
pub async fn listen(
    service: &Service,
    subscription: SubscriptionContext,
    mut events: Option<broadcast::Receiver<ServerEvent>>,
) -> Result<(), ErrorData> {
    let (sender, mut changed_uris) = mpsc::channel::<String>(SUBSCRIBED_MAX);
    let mut watchers = JoinSet::new();
    for uri in subscription.accepted().resource_subscriptions.iter().flatten() {
        let Some(id) = subscribable_execution_id(uri) else { continue };
        let (service, sender, uri) = (service.clone(), sender.clone(), uri.clone());
        watchers.spawn(async move {
            let Ok(mut execution) = service.executions().watch(&id).await else { return };
            while execution.wait_for_change().await.is_ok() && sender.send(uri.clone()).await.is_ok() {
                tokio::time::sleep(NOTIFY_INTERVAL).await;
            }
        });
    }
    loop {
        tokio::select! {
            Some(uri) = changed_uris.recv() => {
                if subscription.sink().notify_resource_updated(uri).await.is_err() {
                    return Ok(());
                }
            }
            Some(kind) = next_event(&mut events) => {
                if notify_of_list(&subscription, &kind).await.is_err() {
                    return Ok(());
                }
            }
            () = subscription.cancelled() => return Ok(()),
        }
    }
}

/// The next event of a server. `None`: there will be none.
async fn next_event(events: &mut Option<broadcast::Receiver<ServerEvent>>) -> Option<ServerEventKind> {
    loop {
        match events.as_mut()?.recv().await {
            Ok(event) => return Some(event.kind),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *events = None,
        }
    }
}

/// Notifies a client of a list that has changed, if it asked for that list.
async fn notify_of_list(
    subscription: &SubscriptionContext,
    kind: &ServerEventKind,
) -> Result<(), SubscriptionSendError> {
    let (accepted, sink) = (subscription.accepted(), subscription.sink());
    match kind {
        ServerEventKind::ToolsChanged if accepted.tools_list_changed == Some(true) => {
            sink.notify_tool_list_changed().await
        }
        ServerEventKind::ResourcesChanged if accepted.resources_list_changed == Some(true) => {
            sink.notify_resource_list_changed().await
        }
        ServerEventKind::PromptsChanged if accepted.prompts_list_changed == Some(true) => {
            sink.notify_prompt_list_changed().await
        }
        ServerEventKind::ToolsChanged
        | ServerEventKind::ResourcesChanged
        | ServerEventKind::PromptsChanged
        | ServerEventKind::ResourceUpdated { .. }
        | ServerEventKind::Logged(_) => Ok(()),
    }
}
