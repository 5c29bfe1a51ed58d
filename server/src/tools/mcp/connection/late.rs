//! Late answers: those that come after their call timed out, on a connection that is still up. A call that
//! timed out is `unknown`, and its late answer can still settle it.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rmcp::model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerResult};
use rmcp::service::{Peer, RoleClient, ServiceError};
use tokio::sync::oneshot;

use super::ServerEndpoint;
use super::call::{SentCall, tool_result};
use crate::tools::OnLateRawOutcome;
use crate::tools::classify::RawOutcome;
use crate::tools::mcp::pending_calls::RpcResult;

/// Timed-out calls of one connection that are still awaited; beyond that the oldest is dropped.
const LATE_CALLS_MAX: usize = 64;

/// The timed-out calls of one connection that are still awaited. Dropping it ends the waits.
#[derive(Default)]
pub struct LateCalls(Mutex<VecDeque<oneshot::Sender<()>>>);

impl LateCalls {
    /// Passes the answer of a timed-out call to `on_late`, if it comes before the connection ends or the call
    /// is dropped in favour of newer ones.
    pub fn await_late_answer(
        &self,
        sent: SentCall,
        on_late: OnLateRawOutcome,
        peer: &Peer<RoleClient>,
        endpoint: &ServerEndpoint,
    ) {
        let (keep, mut dropped) = oneshot::channel();
        let mut calls = self.0.lock();
        calls.push_back(keep);
        if calls.len() > LATE_CALLS_MAX {
            calls.pop_front();
        }
        drop(calls);
        // Calls to a child bypass rmcp, so it holds nothing to release.
        let rmcp_peer = matches!(endpoint, ServerEndpoint::Http(_)).then(|| peer.clone());
        tokio::spawn(async move {
            // Moves all of `sent`: dropping its pending call would discard the answer.
            let mut sent = sent;
            tokio::select! {
                answer = &mut sent.answer => {
                    if let Some(raw) = answer.ok().and_then(final_outcome) {
                        on_late(raw);
                    }
                }
                _ = &mut dropped => if let Some(peer) = rmcp_peer {
                    release_in_rmcp(&peer, sent.id).await;
                }
            }
        });
    }
}

/// The outcome of a late answer. None: a question or a task, which come too late to be continued, or an error
/// of the transport.
fn final_outcome(answer: RpcResult) -> Option<RawOutcome> {
    match answer {
        Ok(ServerResult::CallToolResult(result)) => Some(tool_result(result)),
        Err(ServiceError::McpError(error)) => Some(RawOutcome::RpcError {
            code: error.code.0,
            message: error.message.into_owned(),
            data: error.data,
        }),
        Ok(_) | Err(_) => None,
    }
}

/// Cancels a call through rmcp: until then, or until the answer comes, rmcp holds memory for the answer.
async fn release_in_rmcp(peer: &Peer<RoleClient>, id: RequestId) {
    let params = CancelledNotificationParam::new(Some(id), Some("timed out".to_owned()));
    if let Err(error) = peer.send_notification(CancelledNotification::new(params).into()).await {
        tracing::debug!(%error, "a timed-out call could not be cancelled");
    }
}
