//! Who wants to hear when an execution moves: by `resources/subscribe` for as long as the session lasts, or
//! by `subscriptions/listen` for as long as that request does. The bell wakes; the reader reads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::resources::{Address, not_found};
use crate::service::Service;

/// Subscriptions of one client.
const SUBSCRIBED_MAX: usize = 100;
/// Movements that come faster are told together.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// The older protocol's subscriptions of one session; they end with it.
#[derive(Debug, Default)]
pub struct Subscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let held = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.values().for_each(AbortHandle::abort);
    }
}

impl Subscriptions {
    pub async fn add(&self, service: &Service, peer: Peer<RoleServer>, uri: String) -> Result<(), ErrorData> {
        let id = moving(&uri).ok_or_else(|| not_found(&uri, "only executions can be subscribed to"))?;
        service.find(&id).await.map_err(|error| not_found(&uri, &error.message))?;
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= SUBSCRIBED_MAX && !held.contains_key(&uri) {
            return Err(ErrorData::invalid_params(format!("at most {SUBSCRIBED_MAX} subscriptions"), None));
        }
        let (service, told) = (service.clone(), uri.clone());
        let watching = tokio::spawn(async move {
            let Ok(mut watching) = service.watch(&id).await else { return };
            while watching.moved().await.is_ok() {
                let update = ResourceUpdatedNotificationParam::new(told.clone());
                if peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
                tokio::time::sleep(TOLD_EVERY).await;
            }
        });
        if let Some(before) = held.insert(uri, watching.abort_handle()) {
            before.abort();
        }
        Ok(())
    }

    pub fn remove(&self, uri: &str) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watching) = held.remove(uri) {
            watching.abort();
        }
    }
}

fn moving(uri: &str) -> Option<String> {
    Address::parse(uri)?.execution().map(str::to_owned)
}

/// Of what was asked for, what can be had: executions and their journals.
pub fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let wanted = requested.resource_subscriptions.iter().flatten();
    let moving = wanted.filter(|uri| moving(uri).is_some()).take(SUBSCRIBED_MAX).cloned();
    let mut accepted = SubscriptionFilter::new();
    accepted.resource_subscriptions = Some(moving.collect());
    accepted
}

/// The newer protocol's form: one request, one stream.
pub async fn listen(service: &Service, subscription: SubscriptionContext) -> Result<(), ErrorData> {
    let (sender, mut moved) = mpsc::channel::<String>(SUBSCRIBED_MAX);
    let mut watching = JoinSet::new();
    for uri in subscription.accepted().resource_subscriptions.iter().flatten() {
        let Some(id) = moving(uri) else { continue };
        let (service, sender, uri) = (service.clone(), sender.clone(), uri.clone());
        watching.spawn(async move {
            let Ok(mut watching) = service.watch(&id).await else { return };
            while watching.moved().await.is_ok() && sender.send(uri.clone()).await.is_ok() {
                tokio::time::sleep(TOLD_EVERY).await;
            }
        });
    }
    loop {
        tokio::select! {
            Some(uri) = moved.recv() => {
                if subscription.sink().notify_resource_updated(uri).await.is_err() {
                    return Ok(());
                }
            }
            () = subscription.cancelled() => return Ok(()),
        }
    }
}
